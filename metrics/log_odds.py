"""The fall of the log-odds when the top players are ablated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explainers import Game
from metrics.base import Metric
from metrics.designs import Masks

if TYPE_CHECKING:
    import torch

CLIP = 1e-6


class LogOddsDrop(Metric):
    """Ablate the top k%: log-odds of the predicted class before minus after, and the area under that curve.

    Source: L/C-Shapley paper, section 5, after Shrikumar et al. 2017; log p/(1-p) with p clipped to [1e-6, 1 - 1e-6].
    """

    name = "log_odds_drop"
    higher_is_better = True

    def design(self) -> Masks:
        """Return the deletion masks in the original order, which ``del_auc_fixed`` reads too."""
        return Masks(self.grid_step, self.tie_orders, "rest", 0)

    def read(self, game: Game, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the clipped log-odds of the original class."""
        return game.probability(sample, outputs).clamp(CLIP, 1 - CLIP).logit()

    def curve(self, readings: torch.Tensor) -> torch.Tensor:
        """Return the drop from the first grid point, 0%: the untouched input."""
        mean = readings.mean(0)
        return mean[0] - mean
