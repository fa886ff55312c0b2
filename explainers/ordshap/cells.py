"""Marginal contributions collected by (player, slot), and what follows from them: gamma, VI and PI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.solve import slope_weights

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class Cells:
    """Sums and counts of marginal contributions for each player and slot.

    Attributes:
        sums: (n, n) float64, players x slots.
        counts: (n, n) float64.
    """

    def __init__(self, n: int, device: torch.device) -> None:
        self.n = n
        self.sums = torch.zeros((n, n), dtype=torch.float64, device=device)
        self.counts = torch.zeros((n, n), dtype=torch.float64, device=device)

    def add(self, players: torch.Tensor, slots: torch.Tensor, marginals: torch.Tensor) -> None:
        """Add marginal contributions (m,) of ``players`` (m,) sitting in ``slots`` (m,)."""
        cell = players * self.n + slots
        self.sums.view(-1).index_add_(0, cell, marginals)
        self.counts.view(-1).index_add_(0, cell, torch.ones_like(marginals))

    def empty(self) -> int:
        """Return how many cells no marginal contribution fell into."""
        return int((self.counts == 0).sum())

    def means(self) -> torch.Tensor:
        """Return (n, n) gamma, each cell divided by its own count; NaN in empty cells, never 0."""
        return self.sums / torch.where(self.counts > 0, self.counts, torch.nan)

    def line(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the least-squares line of each player's marginals on its slot: height at lbar (n,), slope (n,)."""
        centred = torch.arange(self.n, dtype=torch.float64, device=self.sums.device) - (self.n - 1) / 2
        total = self.counts.sum(1)
        middle = (self.counts * centred).sum(1) / total
        away = centred[None, :] - middle[:, None]
        spread = (self.counts * away**2).sum(1)
        moment = (away * self.sums).sum(1)
        slope = torch.where(spread > 0, moment / torch.where(spread > 0, spread, 1.0), 0.0)
        return self.sums.sum(1) / total - slope * middle, slope


def slope(matrix: torch.Tensor) -> torch.Tensor:
    """Return PI (n,): the least-squares slope of each row of gamma on the slot (Eq. 10)."""
    return matrix @ slope_weights(matrix.shape[1], matrix.device)
