"""Our least-squares design for the estimand of Algorithm 2: kernel-sized pairs, VI and beta fitted jointly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import PairedCoalitions
from explainers.draws import Draws, inverse
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.solve import NormalEquations

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22
FULL_SHARE = 0.1


def least_squares(game: Game, sample: int, rng: np.random.Generator, budget: int) -> SampleExplanation:
    """Estimate VI and beta of Eq. 11 from coalitions whose sizes follow the kernel, so that every row weighs 1.

    Each coalition comes with its complement under the same arrangement; alpha and beta are fitted jointly under
    the constraint ``sum alpha = mean w(N, sigma) - w(empty)``, for which a tenth of the budget is spent.
    Consistent for VI; ``position_ls`` converges to beta, not to the slope of gamma.

    Source: the minimisation of OrdShap Eq. 11 with the sign of its constraint mended (Eq. 32).
    """
    n, device = game.n, game.device
    fulls = max(1, int((budget - 1) * FULL_SHARE)) if n > 1 else budget - 1
    pairs = (budget - 1 - fulls) // 2 if n > 1 else 0
    empty = game.evaluate(sample, torch.zeros((1, n), dtype=torch.bool))[0]
    coalitions, arrangements = PairedCoalitions(rng, n, device), Draws(rng, n, device)
    full = mean_full(game, sample, arrangements, fulls) - empty
    equations = NormalEquations(2 * n, device)
    block = max(1, BLOCK_ENTRIES // n)
    for start in range(0, pairs, block):
        count = min(block, pairs - start)
        kept = coalitions.take(count)
        arrangement = arrangements.permutations(count).repeat_interleave(2, dim=0)
        outputs = game.evaluate(sample, kept, arrangement) - empty
        centred = inverse(arrangement).double() - (n - 1) / 2
        equations.add(torch.cat([kept.double(), kept * centred], dim=1), outputs, torch.ones_like(outputs))
    solution = equations.solve_with_sum(n, full)
    value, beta = solution.coefficients[:n], solution.coefficients[n:]
    audit = {
        "efficiency_gap": float(value.sum() - full),
        "rank": float(solution.rank),
        "condition": solution.condition,
        "rank_short": float(solution.rank < 2 * n and n > 1),
    }
    return SampleExplanation(value=value, position_ls=beta, audit=audit)


def mean_full(game: Game, sample: int, arrangements: Draws, rows: int) -> torch.Tensor:
    """Return the mean of ``w(N, sigma)`` over ``rows`` random arrangements."""
    block = max(1, BLOCK_ENTRIES // game.n)
    total = torch.zeros((), dtype=torch.float64, device=game.device)
    for start in range(0, rows, block):
        count = min(block, rows - start)
        everyone = torch.ones((count, game.n), dtype=torch.bool, device=game.device)
        total += game.evaluate(sample, everyone, arrangements.permutations(count)).sum()
    return total / rows
