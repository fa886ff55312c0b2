"""Three-way interactions as a control variate: what the difference of a complementary pair owes to them.

With entries x = 1 for a kept player and -1 for another, the difference ``v(S) - v(N without S)`` is an odd function
of x: pairs cancel interactions of two, and those of three are the first that are left. They are fitted as a Gaussian
process with the covariance ``sum over |T| = 3 of prod_{i in T} a_i^2 x_i x'_i`` (a: scale of each player), beside
unpenalised linear terms. The fit's own Shapley values are known, so it can be taken off and its values added back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

VARIANCE = 4.0  # of the interactions, relative to a residual's; from 1 to 10 errors differ by a twentieth
TRIED = 256
PINNED = 1e4  # the weight of the untouched input, relative to the mean of the others


@dataclass(frozen=True)
class Triples:
    """A fitted ``h(x) = sum_j weights_j e3(scales * x * rows_j)``, e3 the sum of all products of three entries.

    Attributes:
        rows: (m, n) float64 of 1 and -1.
        weights: (m,) float64.
        scales: (n,) float64, positive.
    """

    rows: torch.Tensor
    weights: torch.Tensor
    scales: torch.Tensor

    def at(self, x: torch.Tensor) -> torch.Tensor:
        """Return h (r,) of rows x (r, n) of 1 and -1."""
        return cubic(x, self.rows, self.scales) @ self.weights

    def values(self) -> torch.Tensor:
        """Return the (n,) Shapley values of a game with ``v(S) - v(N without S) = h``: a third of each triple's."""
        scaled = self.rows * self.scales
        others = scaled.sum(1, keepdim=True) - scaled
        pairs = (others**2 - ((self.scales**2).sum() - self.scales**2)) / 2
        return (self.weights[:, None] * scaled * pairs).sum(0) / 3


@dataclass(frozen=True)
class Fit:
    """Linear terms and interactions fitted to m differences.

    Attributes:
        triples: without rows where nothing speaks for any.
        linear: (n,) the linear terms.
        left: (m,) the differences less the interactions.
        unseen: (m,) the residual of each difference from a fit to all others.
    """

    triples: Triples
    linear: torch.Tensor
    left: torch.Tensor
    unseen: torch.Tensor


def fitted(x: torch.Tensor, differences: torch.Tensor, weights: torch.Tensor) -> Fit:
    """Fit linear terms and interactions.

    Whether there are interactions, and with equal scales or such that follow the size of the players' linear terms, is
    what makes the first rows likeliest (restricted maximum likelihood, Patterson and Thompson 1971).

    Args:
        x: (m, n) of 1 and -1; the first rows should be as fair a sample as all of them.
        differences: (m,) ``v(S) - v(N without S)``.
        weights: (m,) of the rows in the least squares: inverse variances of their residuals, up to a constant.
    """
    weights = weights / weights.median()
    scales, factor = likeliest(x, differences, weights)
    chosen = Whitened(x, differences, weights, cubic(x, x, scales).mul_(factor))
    triples = Triples(x, factor * chosen.residuals, scales) if factor > 0 else nothing(x)
    left = x @ chosen.linear + chosen.left()
    return Fit(triples, chosen.linear, left, chosen.residuals / chosen.precision())


def nothing(x: torch.Tensor) -> Triples:
    """Return interactions of the players of ``x`` (m, n) that are zero."""
    return Triples(x[:0], x[:0, 0], x.new_ones(x.shape[1]))


def likeliest(x: torch.Tensor, differences: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scales (n,) and the factor of :func:`cubic` that are likeliest; arguments as in :func:`fitted`."""
    tried = slice(0, max(TRIED, 2 * x.shape[1]))
    scales = scales_tried(x, differences, weights)
    trials = torch.stack([cubic(x[tried], x[tried], one) for one in scales[[0, 0, 1]]])
    factors = torch.tensor([0.0, VARIANCE, VARIANCE], dtype=torch.float64, device=x.device) / trials[:, 0, 0]
    trials *= factors[:, None, None]
    best = int(Whitened(x[tried], differences[tried], weights[tried], trials).likelihood().argmax())
    return scales[best // 2], factors[best]


def scales_tried(x: torch.Tensor, differences: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return (2, n): equal scales, and scales that follow the size of the linear terms, both of mean square 1."""
    gram = steadied((x * weights[:, None]).T @ x)
    linear = torch.linalg.solve(gram, x.T @ (weights * differences))
    return torch.stack([torch.ones_like(linear), following(linear)])


def following(linear: torch.Tensor) -> torch.Tensor:
    """Return scales (n,) of mean square 1 that follow the size of linear terms (n,); ones where all of these are 0."""
    sizes = linear.abs() + linear.abs().mean() / 10
    return (sizes / (sizes**2).mean().sqrt()).nan_to_num(nan=1.0)


def cubic(x: torch.Tensor, y: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return (r, m): e3 of ``scales * x_r * y_m`` by Newton's identities, for rows of 1 and -1."""
    first = (x * scales) @ y.T
    square = first.square()
    if bool((scales == 1).all()):
        return square.sub_(3 * x.shape[1] - 2).mul_(first).div_(6)
    third = (x * scales**3) @ y.T
    return square.sub_(3 * (scales**2).sum()).mul_(first).add_(third, alpha=2).div_(6)


def steadied(gram: torch.Tensor) -> torch.Tensor:
    """Return a Gram matrix (..., n, n), changed in place, that can be factored where players cannot be told apart."""
    gram.diagonal(dim1=-2, dim2=-1).mul_(1 + 1e-12)
    return gram


class Whitened:
    """Generalised least squares of ``y`` (m,) on ``x`` (m, n), for one covariance V (m, m) or k of them (k, m, m).

    Attributes:
        linear: (..., n) the coefficients b.
        residuals: (..., m) ``V^-1 (y - x b)``.
    """

    def __init__(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, covariance: torch.Tensor) -> None:
        """Solve; V is ``covariance``, which is overwritten, with ``1 / weights`` added on the diagonal."""
        covariance.diagonal(dim1=-2, dim2=-1).add_(1 / weights)
        self.weights = weights
        self.factor = torch.linalg.cholesky(covariance)
        both = torch.linalg.solve_triangular(self.factor, torch.cat([x, y[:, None]], dim=1), upper=False)
        self.columns, target = both[..., :-1], both[..., -1:]
        self.triangle = torch.linalg.cholesky(steadied(self.columns.mT @ self.columns))
        self._solve(target)

    def _solve(self, target: torch.Tensor) -> None:
        linear = torch.cholesky_solve(self.columns.mT @ target, self.triangle)
        self.target_left = target - self.columns @ linear
        self.linear = linear[..., 0]
        self.residuals = torch.linalg.solve_triangular(self.factor.mT, self.target_left, upper=True)[..., 0]

    def refit(self, y: torch.Tensor) -> None:
        """Solve for another ``y`` (m,)."""
        self._solve(torch.linalg.solve_triangular(self.factor, y[:, None], upper=False))

    def left(self) -> torch.Tensor:
        """Return (..., m) what linear terms and covariance, the weights' part of V left out, leave of y."""
        return self.residuals / self.weights

    def likelihood(self) -> torch.Tensor:
        """Return the logarithm of the restricted likelihood (...,), up to a constant; V up to a factor."""
        rows, columns = self.columns.shape[-2:]
        logs = [part.diagonal(dim1=-2, dim2=-1).log().sum(-1) for part in (self.factor, self.triangle)]
        return -(rows - columns) / 2 * self.target_left.square().sum((-2, -1)).log() - logs[0] - logs[1]

    def precision(self) -> torch.Tensor:
        """Return (m,) the diagonal of the matrix that takes y to ``residuals``: residual over it is leave-one-out."""
        inverse, spent = self._roots()
        return inverse.square().sum(0) - spent.square().sum(0)

    def unseen(self, starts: Sequence[int]) -> torch.Tensor:
        """Return (m,) how far each row's y is from a fit to all rows but its fold's; 0 in rows before the first fold.

        Args:
            starts: where each fold begins, and where the last one ends.
        """
        inverse, spent = self._roots()
        away = torch.zeros_like(self.residuals)
        for fold in map(slice, starts, starts[1:]):
            own, lost = inverse[fold.start :, fold], spent[:, fold]
            away[fold] = torch.linalg.solve(own.T @ own - lost.T @ lost, self.residuals[fold])
        return away

    def _roots(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A (m, m) and B (n, m): the matrix that takes y to ``residuals`` is ``A' A - B' B``."""
        inverse = torch.linalg.solve_triangular(self.factor, torch.eye(len(self.factor)).to(self.factor), upper=False)
        return inverse, torch.linalg.solve_triangular(self.triangle, self.columns.T @ inverse, upper=False)
