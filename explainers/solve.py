"""Constrained and weighted least squares in float64, from normal equations that are accumulated block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class Solution:
    """A least-squares solution.

    Attributes:
        coefficients: (p,) float64.
        rank: numerical rank of the normal matrix.
        condition: ratio of its largest to its smallest eigenvalue among the ``rank`` largest; 1 where rank is 0.
    """

    coefficients: torch.Tensor
    rank: int
    condition: float


class NormalEquations:
    """``X' W X`` and ``X' W y``, summed over blocks of rows, so that memory does not grow with the budget."""

    def __init__(self, columns: int, device: torch.device) -> None:
        self.gram = torch.zeros((columns, columns), dtype=torch.float64, device=device)
        self.moment = torch.zeros(columns, dtype=torch.float64, device=device)

    def add(self, rows: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> None:
        """Add rows (r, p) with targets (r,) and weights (r,)."""
        weighted = rows * weights[:, None]
        self.gram += weighted.T @ rows
        self.moment += weighted.T @ targets

    def solve(self) -> Solution:
        """Return the minimum-norm minimiser (a pseudo-inverse where the rank is short)."""
        return solve_symmetric(self.gram, self.moment)

    def solve_with_sum(self, columns: int, total: torch.Tensor | float) -> Solution:
        """Return the minimiser whose first ``columns`` coefficients sum to ``total`` (exactly, up to rounding).

        The constraint is eliminated by an orthonormal basis of the vectors that sum to zero, which treats all
        players alike (Alg. 2 eliminates the first player; the minimiser is the same where it is unique).
        """
        basis = sum_zero_basis(columns, len(self.moment), self.gram.device)
        start = torch.zeros_like(self.moment)
        start[:columns] = total / columns
        inner = basis.T @ self.gram @ basis
        free = solve_symmetric(inner, basis.T @ (self.moment - self.gram @ start))
        coefficients = start + basis @ free.coefficients
        coefficients[:columns] += (total - coefficients[:columns].sum()) / columns
        return Solution(coefficients, free.rank + 1, free.condition)


def solve_symmetric(gram: torch.Tensor, moment: torch.Tensor) -> Solution:
    """Solve ``gram x = moment`` for a positive semi-definite ``gram`` through its eigenvalues."""
    if not len(moment):
        return Solution(moment, 0, 1.0)
    scale = gram.diagonal().clamp_min(0).sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    eigenvalues, vectors = torch.linalg.eigh(gram / scale[:, None] / scale)
    kept = eigenvalues > eigenvalues.max().clamp_min(0) * len(moment) * torch.finfo(torch.float64).eps
    rank = int(kept.sum())
    inverse = torch.where(kept, 1 / eigenvalues, 0.0)
    solution = vectors @ (inverse * (vectors.T @ (moment / scale))) / scale
    condition = float(eigenvalues[kept].max() / eigenvalues[kept].min()) if rank else 1.0
    return Solution(solution, rank, condition)


def sum_zero_basis(columns: int, width: int, device: torch.device) -> torch.Tensor:
    """Return (width, width - 1): an orthonormal basis of the vectors whose first ``columns`` entries sum to zero."""
    basis = torch.zeros((width, width - 1), dtype=torch.float64, device=device)
    for j in range(1, columns):
        basis[:j, j - 1] = 1 / (j * (j + 1)) ** 0.5
        basis[j, j - 1] = -((j / (j + 1)) ** 0.5)
    rest = torch.arange(columns, width, device=device)
    basis[rest, rest - 1] = 1.0
    return basis


def slope_weights(n: int, device: torch.device) -> torch.Tensor:
    """Return (n,) weights whose product with gamma[i, :] is its least-squares slope on the slot (Eq. 10); 0 for n=1."""
    centred = torch.arange(n, dtype=torch.float64, device=device) - (n - 1) / 2
    return centred / (centred**2).sum() if n > 1 else centred
