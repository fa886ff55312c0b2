"""gamma from few groups: a polynomial over the slots for each player, shrunk as far as the data of all players say.

Each player's row of gamma is split into its even part (seen in the mean of an arrangement and its mirror image) and its
odd part (seen in half their difference). The basis is stated: Legendre polynomials in the distance from the middle,
of degrees 0, 2, 4 and 1, 3, 5. The lowest of each part is free; the variance of the higher coefficients over players,
against the noise, is estimated by the method of moments, and sets how far they are shrunk (empirical Bayes). The noise
may grow or fall with the distance from the middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.ordshap.scale import Scale

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

GROUPS_A_TERM = 8  # groups for each term of the basis beyond the first
MOST_TERMS = 3
LEAST_NOISE = 0.05  # of the mean: no slot's noise counts for less
PRIOR = 4.0  # degrees of freedom that the pooled noise counts for beside a player's own


@dataclass(frozen=True)
class Smoothed:
    """gamma (n, n) with row means as given, its standard errors, and those of VI (n,) and PI (n,)."""

    matrix: torch.Tensor
    stderr: torch.Tensor
    value_stderr: torch.Tensor
    position_stderr: torch.Tensor


@dataclass(frozen=True)
class Fit:
    """One part's fit for each player.

    Attributes:
        coefficients: (n, terms).
        covariance: (n, terms, terms) posterior covariance.
        noise: (n,) variance of one group's observation, mean over the slots.
    """

    coefficients: torch.Tensor
    covariance: torch.Tensor
    noise: torch.Tensor


def smooth_matrix(value: torch.Tensor, marginals: torch.Tensor, slots: torch.Tensor, scale: Scale) -> Smoothed:
    """Return gamma from any number of groups; of one alone the standard errors are NaN.

    Args:
        value: (n,) VI, the mean of each row.
        marginals: (groups, 2, n) mean marginal contributions, as arranged and mirrored.
        slots: (groups, n) each player's slot as arranged.
        scale: of positions; ``matrix`` is per slot, and the standard errors are those on this scale.
    """
    groups, n = slots.shape
    away = (slots.double() - (n - 1) / 2) / max((n - 1) / 2, 0.5)
    even_part = marginals.mean(1)
    odd_part = (marginals[:, 0] - marginals[:, 1]) / 2 * torch.where(away < 0, -1.0, 1.0)
    terms = min(MOST_TERMS, 1 + groups // GROUPS_A_TERM)
    even_terms, odd_terms = min(terms, (n + 1) // 2), min(terms, n // 2)
    even = fit(even_part, basis(away.abs(), even_terms, 0), away.abs())
    odd = fit(odd_part, basis(away.abs(), odd_terms, 1), away.abs())
    places = (torch.arange(n, dtype=torch.float64, device=slots.device) - (n - 1) / 2) / max((n - 1) / 2, 0.5)
    side = torch.where(places < 0, -1.0, 1.0)
    even_basis = basis(places.abs(), even_terms, 0)
    even_basis = even_basis - even_basis.mean(0)
    odd_basis = basis(places.abs(), odd_terms, 1) * side[:, None]
    matrix = value[:, None] + even.coefficients @ even_basis.T + odd.coefficients @ odd_basis.T
    value_variance = even.noise / groups
    parts = ((even_basis, even.covariance), (odd_basis, odd.covariance))
    variance = value_variance[:, None] + sum(form(scale.together.T @ rows, spread) for rows, spread in parts)
    position_variance = sum((form(scale.weights[None] @ rows, spread) for rows, spread in parts), torch.zeros(()))
    known = 1.0 if groups > 1 else torch.nan
    return Smoothed(
        matrix, known * variance.sqrt(), known * value_variance.sqrt(), known * position_variance[:, 0].sqrt()
    )


def form(rows: torch.Tensor, covariance: torch.Tensor) -> torch.Tensor:
    """Return (n, m): the variance of each row (m, terms) of coefficients with covariance (n, terms, terms)."""
    return torch.einsum("mk,nkj,mj->nm", rows, covariance, rows).clamp_min(0)


def basis(distance: torch.Tensor, terms: int, parity: int) -> torch.Tensor:
    """Return (..., terms): Legendre polynomials of degrees parity, parity + 2, ... at distances in 0..1."""
    columns = [torch.ones_like(distance), distance]
    for degree in range(1, 2 * terms):
        columns.append(((2 * degree + 1) * distance * columns[-1] - degree * columns[-2]) / (degree + 1))
    return torch.stack(columns[parity : parity + 2 * terms : 2], dim=-1) if terms else distance[..., None][..., :0]


def fit(observed: torch.Tensor, columns: torch.Tensor, distance: torch.Tensor) -> Fit:
    """Fit each player's observations (groups, n) on columns (groups, n, terms), noise depending on the distance."""
    flat = torch.ones_like(distance)
    unpenalised = torch.zeros(columns.shape[2], dtype=torch.float64, device=columns.device)
    plain = solve(observed, columns, flat, unpenalised)
    freedom = max(len(observed) - columns.shape[2], 1)
    residual = observed - torch.einsum("gnk,nk->gn", columns, plain[0])
    shape = noise_shape(residual, distance)
    free = solve(
        observed, columns, 1 / shape, torch.zeros(columns.shape[2], dtype=torch.float64, device=columns.device)
    )
    residual = observed - torch.einsum("gnk,nk->gn", columns, free[0])
    noise = (residual**2 / shape).sum(0) / freedom
    noise = (PRIOR * noise.mean() + freedom * noise) / (PRIOR + freedom)
    penalty = penalties(free[0], free[1], noise)
    coefficients, covariance = solve(observed, columns, 1 / shape, penalty)
    return Fit(coefficients, covariance * noise[:, None, None], noise)


def solve(
    observed: torch.Tensor, columns: torch.Tensor, weights: torch.Tensor, penalty: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return coefficients (n, terms) and inverse normal matrices; an infinite penalty drops a term."""
    kept = penalty.isfinite()
    weighted = columns * weights[..., None]
    gram = torch.einsum("gnk,gnj->nkj", weighted, columns) + torch.diag(torch.where(kept, penalty, 0.0))
    gram = gram * (kept[:, None] & kept) + torch.diag((~kept).double())
    inverse = torch.linalg.pinv(gram, hermitian=True) * (kept[:, None] & kept)
    moment = torch.einsum("gnk,gn->nk", weighted, observed)
    return torch.einsum("nkj,nj->nk", inverse, moment), inverse


def noise_shape(residual: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
    """Return the relative noise variance (groups, n) at each distance: a line in its square, over all players."""
    scale = (residual**2).mean(0)
    relative = residual**2 / torch.where(scale > 0, scale, 1.0)
    square = distance**2
    middle = square.mean()
    spread = ((square - middle) ** 2).mean()
    tilt = ((square - middle) * relative).mean() / torch.where(spread > 0, spread, 1.0)
    mean = relative.mean()
    shape = torch.where(mean > 0, 1 + tilt * (square - middle) / torch.where(mean > 0, mean, 1.0), 1.0)
    return shape.clamp_min(LEAST_NOISE)


def penalties(coefficients: torch.Tensor, inverse: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return each term's ridge penalty (terms,): noise over the variance of its coefficient among the players.

    The first term is free. A term is dropped where its coefficients vary no more over the players than their own error
    explains, up to two standard errors of that comparison.
    """
    quiet = torch.where(noise > 0, noise, 1.0)[:, None]
    error = inverse.diagonal(dim1=1, dim2=2)
    excess = (coefficients**2 / quiet - error).mean(0)
    doubt = 2 * (2 / len(noise)) ** 0.5 * error.square().mean(0).sqrt()
    penalty = torch.where(excess > doubt, 1 / excess.clamp_min(1e-300), torch.inf)
    penalty[:1] = 0.0
    return penalty
