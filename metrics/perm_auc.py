"""The permutation curve of position importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explainers import Game
from metrics.base import Metric
from metrics.designs import Moves

if TYPE_CHECKING:
    import torch


class PermAuc(Metric):
    """Move the top k% by |position importance|, negative to the front, positive to the end: output for the class.

    Source: OrdShap paper, section 6.1(1). The ranking is ``position``, else ``position_ls``, else ``value``.
    """

    name = "perm_auc"
    higher_is_better = True

    def design(self) -> Moves:
        """Return the moves along the grid."""
        return Moves(self.grid_step, self.tie_orders)

    def read(self, game: Game, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the probability of the original class."""
        return game.probability(sample, outputs)
