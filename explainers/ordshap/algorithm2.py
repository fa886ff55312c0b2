"""Algorithm 2 of the OrdShap paper with its misprints mended (docs/errata.md): weighted least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import log_kernel
from explainers.draws import Draws, inverse
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.solve import NormalEquations

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


def algorithm2(game: Game, sample: int, rng: np.random.Generator, budget: int, arrangements: int) -> SampleExplanation:
    """Estimate VI and beta of Eq. 11 from K uniform coalitions with L arrangements each.

    Kept as published where that is a weakness and not a misprint: coalitions are uniform over all subsets and
    weighted by mu(|S|) afterwards (the empty and the full one are left out: their weight is infinite), alpha is
    fitted on averages over L and beta on its residuals. Mended: the constraint's sign, ``i mod K``, the
    elimination of a player, and ``Lambda_S alpha`` in Eq. 14. Weights in log space, pseudo-inverse with ranks
    in the audit. Consistent for VI; ``position_ls`` converges to beta, not to the slope of gamma.

    Source: OrdShap Eq. 11-14, App. B.3, Alg. 2. Evaluations: at most ``1 + L + K L`` with
    ``K = (budget - 1 - L) // L``.
    """
    n, device = game.n, game.device
    count = (budget - 1 - arrangements) // arrangements
    draws = Draws(rng, n, device)
    everyone = torch.ones((arrangements, n), dtype=torch.bool, device=device)
    empty = game.evaluate(sample, ~everyone[:1])[0]
    full = game.evaluate(sample, everyone, draws.permutations(arrangements)).mean() - empty
    kept = Draws(rng, n, device).uniforms(count) < 0.5
    coalitions = kept[kept.any(1) & ~kept.all(1)]
    weights = kernel_weights(coalitions.sum(1), n)
    alpha_equations, beta_gram, means = (
        NormalEquations(n, device),
        NormalEquations(n, device),
        torch.zeros(len(coalitions), dtype=torch.float64, device=device),
    )
    position_moment = torch.zeros((n, n), dtype=torch.float64, device=device)
    for _ in range(arrangements):
        arrangement = draws.permutations(len(coalitions))
        outputs = game.evaluate(sample, coalitions, arrangement) - empty
        centred = inverse(arrangement).double() - (n - 1) / 2
        beta_gram.add(coalitions * centred, outputs, weights)
        position_moment += (coalitions * centred * weights[:, None]).T @ coalitions.double()
        means += outputs / arrangements
    alpha_equations.add(coalitions.double(), means, weights)
    alpha = alpha_equations.solve_with_sum(n, full)
    beta_gram.moment -= position_moment @ alpha.coefficients
    beta = beta_gram.solve()
    audit = {
        "efficiency_gap": float(alpha.coefficients.sum() - full),
        "coalitions": float(len(coalitions)),
        "rank_alpha": float(alpha.rank),
        "rank_beta": float(beta.rank),
        "condition_alpha": alpha.condition,
        "condition_beta": beta.condition,
        "rank_short": float(alpha.rank < n or beta.rank < n),
    }
    return SampleExplanation(value=alpha.coefficients, position_ls=beta.coefficients, audit=audit)


def kernel_weights(sizes: torch.Tensor, n: int) -> torch.Tensor:
    """Return mu(s) (rows,) of each size 1..n-1, scaled so that the largest among them is 1."""
    if not len(sizes):
        return torch.zeros(0, dtype=torch.float64, device=sizes.device)
    log_mu = torch.from_numpy(log_kernel(n)).to(sizes.device)[sizes - 1]
    return torch.exp(log_mu - log_mu.max())
