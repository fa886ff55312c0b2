"""Inclusion, exclusion, insertion and deletion curves, with and without the permutation step.

Source: OrdShap paper, section 6.1 (value importance), after Jethani et al. 2022 (inclusion, exclusion) and Petsiuk et
al. 2018 (insertion, deletion). Players are ranked by signed attribution, descending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from explainers import Game
from metrics.base import Metric
from metrics.designs import Masks

if TYPE_CHECKING:
    import torch


class Masking(Metric):
    """Mask players from the top of the ranking, rearrange, and read the model; not a metric by itself."""

    keep: ClassVar[Literal["top", "rest"]]
    permuted: ClassVar[bool]
    reading: ClassVar[Literal["agreement", "probability"]]

    def design(self) -> Masks:
        """Return the masks, over this metric's permutations or in the original order."""
        return Masks(self.grid_step, self.tie_orders, self.keep, self.permutations if self.permuted else 0)

    def read(self, game: Game, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return 1 where the predicted class is the explained one, else 0; or the explained class's probability."""
        if self.reading == "agreement":
            return game.agrees(sample, outputs).double()
        return game.probability(sample, outputs)


class IncAuc(Masking):
    """Keep the top k%, ablate the rest, permute: share of permutations that keep the predicted class."""

    name = "inc_auc"
    higher_is_better = True
    keep = "top"
    permuted = True
    reading = "agreement"


class ExcAuc(Masking):
    """Ablate the top k%, keep the rest, permute: share of permutations that keep the predicted class."""

    name = "exc_auc"
    higher_is_better = False
    keep = "rest"
    permuted = True
    reading = "agreement"


class InsAuc(Masking):
    """Keep the top k%, ablate the rest, permute: mean output for the original class."""

    name = "ins_auc"
    higher_is_better = True
    keep = "top"
    permuted = True
    reading = "probability"


class DelAuc(Masking):
    """Ablate the top k%, keep the rest, permute: mean output for the original class."""

    name = "del_auc"
    higher_is_better = False
    keep = "rest"
    permuted = True
    reading = "probability"


class IncAucFixed(Masking):
    """Keep the top k%, ablate the rest, in the original order: whether the predicted class stays."""

    name = "inc_auc_fixed"
    higher_is_better = True
    keep = "top"
    permuted = False
    reading = "agreement"


class ExcAucFixed(Masking):
    """Ablate the top k%, keep the rest, in the original order: whether the predicted class stays."""

    name = "exc_auc_fixed"
    higher_is_better = False
    keep = "rest"
    permuted = False
    reading = "agreement"


class InsAucFixed(Masking):
    """Keep the top k%, ablate the rest, in the original order: output for the original class."""

    name = "ins_auc_fixed"
    higher_is_better = True
    keep = "top"
    permuted = False
    reading = "probability"


class DelAucFixed(Masking):
    """Ablate the top k%, keep the rest, in the original order: output for the original class."""

    name = "del_auc_fixed"
    higher_is_better = False
    keep = "rest"
    permuted = False
    reading = "probability"
