"""KernelSHAP: Shapley values as a weighted least squares with efficiency as an exact constraint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.pairs import Pairs, halves
from explainers.solve import NormalEquations
from explainers.triples import PINNED, Fit, fitted, nothing

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

MODELLED = 512


class KernelShap(Explainer):
    """KernelSHAP (Lundberg and Lee 2017): weighted least squares over coalitions; exact when the budget holds all 2^n.

    Coalitions come in complementary pairs, stratified by size and without replacement. Interactions of three, fitted
    to at most 512 pairs, are a control variate (the adjustment of Witter et al. 2025, with another model).
    """

    name: ClassVar[str] = "kernelshap"

    budget: int = Field(2000, ge=1, title="Budget", description="Model evaluations a sample.")

    def least_budget(self, n: int) -> int:
        """Return the empty and the full coalition and one pair a player (all 2^n where that is fewer)."""
        return min(2**n, 2 + 2 * n) if n < 60 else 2 + 2 * n

    def explain_nothing(self) -> SampleExplanation:
        """Return no values and no standard errors."""
        empty = torch.zeros(0, dtype=torch.float64)
        return SampleExplanation(empty, value_stderr=empty)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Evaluate the design and solve it. Consistent; exact if ``2^n <= budget``."""
        n = game.n
        pairs = Pairs(rng, n, (self.budget - 2) // 2, game.device)
        blocks = pairs.blocks(MODELLED)
        kept, weights, missing = next(blocks)
        ends = torch.tensor([[False] * n, [True] * n], device=game.device)
        outputs = game.evaluate(sample, torch.cat([ends, kept, ~kept]))
        worth = outputs[1] - outputs[0]
        x, difference = halves(kept, outputs[2:])
        fit = modelled(x, difference, weights, worth, pairs.complete)
        equations = NormalEquations(n, game.device)
        equations.add(x, fit.left, weights)
        noise = scatter(x, missing * (weights * fit.unseen) ** 2)
        for kept, weights, missing in blocks:
            x, difference = halves(kept, game.evaluate(sample, torch.cat([kept, ~kept])))
            left = difference - fit.triples.at(x)
            equations.add(x, left, weights)
            noise += scatter(x, missing * (weights * (left - x @ fit.linear)) ** 2)
        solution = with_sum(equations, worth - fit.triples.at(ends[1:].double())[0])
        value = solution.coefficients + fit.triples.values()
        # a sandwich (White 1980): each row's variance is its squared residual from a fit that had not seen it
        errors = ((solution.inverse @ noise) * solution.inverse).sum(1).clamp_min(0).sqrt()
        audit = {
            "efficiency_gap": float(value.sum() - worth),
            "coalitions": 2.0 * pairs.count,
            "modelled_pairs": float(len(fit.triples.rows)),
            "rank": float(solution.rank),
            "condition": solution.condition,
            "rank_short": float(solution.rank < n),
        }
        return SampleExplanation(value, value_stderr=errors, audit=audit)


def scatter(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return (n, n) the sum of ``weight x x'`` over rows x (r, n)."""
    return (x * weights[:, None]).T @ x


def modelled(
    x: torch.Tensor, difference: torch.Tensor, weights: torch.Tensor, worth: torch.Tensor, complete: bool
) -> Fit:
    """Return the fit to rows of the least squares; none where they are all that there are, or too few to tell.

    The untouched input, whose difference is ``worth`` and free of error, is one more row, and the first.
    """
    rows, n = x.shape
    if complete or rows < 2 * n:
        unseen = torch.full_like(difference, 0.0 if complete else float("nan"))
        return Fit(nothing(x), x.new_zeros(n), difference, unseen)
    fit = fitted(
        torch.cat([torch.ones_like(x[:1]), x]),
        torch.cat([worth[None], difference]),
        torch.cat([PINNED * weights.mean()[None], weights]),
    )
    return replace(fit, left=fit.left[1:], unseen=fit.unseen[1:])


@dataclass(frozen=True)
class Constrained:
    """Coefficients with a given sum, the (n, n) inverse of the Gram matrix among those, rank and condition."""

    coefficients: torch.Tensor
    inverse: torch.Tensor
    rank: int
    condition: float


def with_sum(equations: NormalEquations, total: torch.Tensor) -> Constrained:
    """Solve the normal equations for coefficients that sum to ``total``, of the smallest norm where rank is short."""
    gram, n = equations.gram, len(equations.moment)
    centred = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    eigenvalues, vectors = torch.linalg.eigh(centred)
    kept = eigenvalues > eigenvalues[-1] * n * torch.finfo(torch.float64).eps
    inverse = (vectors * torch.where(kept, 1 / eigenvalues, 0.0)) @ vectors.T
    even = total / n
    coefficients = even + inverse @ (equations.moment - gram.sum(1) * even)
    coefficients = coefficients + (total - coefficients.sum()) / n
    spectrum = eigenvalues[kept]
    condition = float(spectrum[-1] / spectrum[0]) if len(spectrum) else 1.0
    return Constrained(coefficients, inverse, len(spectrum) + 1, condition)
