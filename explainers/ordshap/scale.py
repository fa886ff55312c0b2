"""What positions are measured in: slots, or times (Eq. 15), several slots of one time being one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.solve import slope_weights

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class Scale:
    """A scale of positions.

    Attributes:
        weights: (n,) whose product with a row of gamma is PI: its least-squares slope (Eq. 10).
        together: (n, n) whose product with a row of gamma is its mean over the slots of one position.
        per_slot: whether positions are the slots, so that PI compares with beta of Eq. 11.
    """

    weights: torch.Tensor
    together: torch.Tensor
    per_slot: bool

    def averaged(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return gamma (rows, n) with the slots of one position averaged: their columns are equal."""
        return matrix @ self.together

    def slope(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return PI (rows,) of gamma (rows, n)."""
        return matrix @ self.weights


def slot_scale(n: int, device: torch.device) -> Scale:
    """Return the scale whose positions are the slots: PI is per slot."""
    return Scale(slope_weights(n, device), torch.eye(n, dtype=torch.float64, device=device), per_slot=True)


def time_scale(times: torch.Tensor) -> Scale:
    """Return the scale whose positions are the distinct times of the slots: PI is per unit of time.

    Eq. 15 lets l run over the times G and sums over all slots of time l; divided by their number that is the mean of
    gamma over these slots (the printed constant no longer normalises, docs/errata.md). The slope runs over G: every
    time counts once, however many slots it has. VI stays the mean over slots, which keeps it a Shapley value.

    Args:
        times: (n,) the time of each slot; equal times are one position. With one time alone PI is 0.
    """
    distinct, group = torch.unique(times.double(), return_inverse=True)
    counts = torch.bincount(group, minlength=len(distinct)).double()
    same = (group[:, None] == group).double()
    centred = distinct - distinct.mean()
    spread = (centred**2).sum()
    by_time = centred / torch.where(spread > 0, spread, 1.0)
    return Scale((by_time / counts)[group], same / counts[group], per_slot=False)
