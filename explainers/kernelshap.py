"""KernelSHAP: Shapley values as a weighted least squares with efficiency as an exact constraint."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.designs import size_probabilities, subsets_of_sizes
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.solve import NormalEquations

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22
MOST_ROUNDS = 20


class KernelShap(Explainer):
    """KernelSHAP (Lundberg and Lee 2017): weighted least squares over coalitions; exact when the budget holds all 2^n.

    Sizes whose coalitions the budget can hold are taken whole, from both ends; the rest are drawn in complementary
    pairs.
    """

    name: ClassVar[str] = "kernelshap"

    budget: int = Field(2000, ge=1, title="Budget", description="Model evaluations a sample.")

    def least_budget(self, n: int) -> int:
        """Return the empty and the full coalition and one pair a player (all 2^n where that is fewer)."""
        return min(2**n, 2 + 2 * n) if n < 60 else 2 + 2 * n

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Evaluate the design and solve it. Consistent; exact if ``2^n <= budget``."""
        n = game.n
        ends = torch.stack([torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)])
        empty, full = game.evaluate(sample, ends)
        equations = NormalEquations(n, game.device)
        coalitions = 0
        for part in design(rng, n, self.budget - 2):
            for kept, weights in part.blocks(max(1, BLOCK_ENTRIES // n)):
                rows = torch.from_numpy(kept).to(game.device)
                targets = game.evaluate(sample, rows) - empty
                equations.add(rows.double(), targets, torch.from_numpy(weights).to(game.device))
                coalitions += len(kept)
        solution = equations.solve_with_sum(n, full - empty)
        audit = {
            "efficiency_gap": float(solution.coefficients.sum() - (full - empty)),
            "coalitions": float(coalitions),
            "rank": float(solution.rank),
            "condition": solution.condition,
            "rank_short": float(solution.rank < n),
        }
        return SampleExplanation(solution.coefficients, audit=audit)


@dataclass(frozen=True)
class Part:
    """Coalitions packed to bits, with one weight each; unpacked block by block."""

    packed: np.ndarray
    weights: np.ndarray
    n: int

    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (coalitions (r, n) boolean, weights (r,)) with at most ``rows`` rows at a time."""
        for start in range(0, len(self.weights), rows):
            packed = self.packed[start : start + rows]
            yield np.unpackbits(packed, axis=1, count=self.n).astype(bool), self.weights[start : start + rows]


def design(rng: np.random.Generator, n: int, budget: int) -> list[Part]:
    """Return the coalitions other than the empty and the full one, at most ``budget`` of them, with their weights."""
    if n < 2:
        return []
    mass = size_probabilities(n)
    parts: list[Part] = []
    left, size = budget, 1
    all_fit = n < 60 and 2**n - 2 <= budget
    while size <= n // 2:
        sizes = {size, n - size}
        count = sum(math.comb(n, s) for s in sizes)
        share = sum(mass[s - 1] for s in sizes) / mass[size - 1 : n - size].sum()
        if count > left or (count > left * share and not all_fit):
            break
        parts.extend(whole_size(n, s, mass[s - 1] / math.comb(n, s)) for s in sorted(sizes))
        left -= count
        size += 1
    inner = np.arange(size, n - size + 1)
    if len(inner) and left >= 2:
        parts.append(sampled(rng, n, left // 2, inner, mass[inner - 1]))
    return parts


def whole_size(n: int, size: int, weight: float) -> Part:
    """Return all coalitions of one size."""
    members = np.array(list(combinations(range(n), size)))
    kept = np.zeros((len(members), n), dtype=bool)
    np.put_along_axis(kept, members, True, axis=1)
    return Part(np.packbits(kept, axis=1), np.full(len(kept), weight), n)


def sampled(rng: np.random.Generator, n: int, pairs: int, sizes: np.ndarray, mass: np.ndarray) -> Part:
    """Return at most ``pairs`` distinct complementary pairs, weighted by the inverse of their inclusion probability.

    Weighing by how often a pair was drawn, as is common, adds the noise of the counts; the conditional
    expectation of that weight given "drawn at least once" does not (Olsen and Jullum 2024, the c-kernel).
    """
    chance = mass / mass.sum()
    drawn = np.zeros((0, (n + 7) // 8), dtype=np.uint8)
    for _ in range(MOST_ROUNDS):
        kept = subsets_of_sizes(rng, rng.choice(sizes, size=pairs, p=chance), n)
        kept = np.where(kept[:, :1], kept, ~kept)
        drawn = np.concatenate([drawn, np.packbits(kept, axis=1)])
        distinct, first = np.unique(drawn, axis=0, return_index=True)
        if len(distinct) >= pairs:
            break
    last = np.sort(first)[:pairs]
    draws = last[-1] + 1 if len(distinct) >= pairs else len(drawn)
    kept = np.unpackbits(drawn[last], axis=1, count=n).astype(bool)
    weights = inclusion_weights(kept.sum(1), n, dict(zip(sizes.tolist(), chance.tolist(), strict=True)), int(draws))
    weights *= mass.sum() / (2 * weights.sum())
    both = np.stack([kept, ~kept], axis=1).reshape(-1, n)
    return Part(np.packbits(both, axis=1), np.repeat(weights, 2), n)


def inclusion_weights(sizes: np.ndarray, n: int, chance: dict[int, float], draws: int) -> np.ndarray:
    """Return, for pairs with a member of each size (rows,), the draw probability over the inclusion probability."""
    by_size = {}
    for size in {int(s) for s in sizes}:
        log_pair = math.log(2 * chance[size]) - (math.lgamma(n + 1) - math.lgamma(size + 1) - math.lgamma(n - size + 1))
        probability = math.exp(log_pair)
        if probability < 1e-12:
            by_size[size] = 1 / draws
        else:
            by_size[size] = probability / -math.expm1(draws * math.log1p(-min(probability, 1 - 1e-12)))
    return np.array([by_size[int(s)] for s in sizes])
