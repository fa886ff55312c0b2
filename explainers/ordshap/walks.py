"""The project's own estimator: mirrored pairs of walks over coalitions under balanced arrangements.

One walk adds the players one by one under a fixed arrangement; every player's marginal contribution falls into its own
slot, so gamma, VI and PI come from the same evaluations. A *group* is one order of arrival walked forwards and
backwards (which cancels what the others' coalitions do in pairs), under one arrangement and under its mirror image
(which parts what is even in the slot, VI, from what is odd, PI). `arrangements.py` says how groups are balanced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import walk_coalitions
from explainers.draws import Draws, inverse
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.ordshap.arrangements import Arrangements
from explainers.ordshap.beta import BetaMoment
from explainers.ordshap.evidence import Evidence, Walked
from explainers.ordshap.scale import Scale

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 21
FIRST_LOOK = 8
MOST_REPEATS = 2  # times the planned groups: where nearly all inputs are known, more of them tell little


def group_cost(n: int) -> int:
    """Return the evaluations of one group, the empty coalition not counted."""
    return 2 * (2 * n - 1)


def walks(
    game: Game,
    sample: int,
    rng: np.random.Generator,
    budget: int,
    scale: Scale,
    target_stderr: float | None = None,
) -> SampleExplanation:
    """Estimate gamma, VI, PI and beta of Eq. 11 of one sample, with standard errors.

    - ``value`` is the mean of all marginal contributions: unbiased at any budget, and efficient (it sums to the mean of
      ``w(N, sigma)`` over the arrangements used, minus ``w(empty)``, up to rounding).
    - ``matrix`` and ``position`` from ``2n`` groups on, ``4n`` for n > 12 (every cell seen at least 4 or 8 times): cell
      means, moved by a constant a row to have mean ``value``, and their slope: unbiased.
    - Below that they are consistent only: a polynomial a player over the slots (`smooth.py`).
    - ``position_ls`` is unbiased: its normal matrix is known, and only its moments are sampled.

    Standard errors: from units and sets as independent replicates, or from the residuals of the polynomials
    (`evidence.py`, `smooth.py`). With ``target_stderr`` it stops as soon as every ``value_stderr`` is at most that; to
    stop by what was seen costs the estimates a little of their unbiasedness.

    Evaluations: at most ``1 + 2 G (2n - 1)`` for G groups and at most ``budget``; what equal inputs save is spent on
    further groups, up to twice as many. After two units, a part of one is not walked: its lack of balance would cost
    more than its groups bring. Memory: O(n^2), whatever the budget.
    """
    run = Run(game, sample, rng, scale)
    planned = (budget - 1) // group_cost(game.n)
    start = game.spent[sample] - 1
    units = (
        1 if planned < 2 * run.arrangements.unit else min(run.arrangements.units, planned // run.arrangements.unit // 2)
    )
    while True:
        left = (budget - (game.spent[sample] - start)) // group_cost(game.n)
        left = min(left, MOST_REPEATS * planned - run.evidence.groups)
        if left < (run.arrangements.unit if run.evidence.units.count > 1 else 1):
            break
        run.go_on(left, units, careful=target_stderr is not None)
        if target_stderr is not None and run.evidence.groups >= min(FIRST_LOOK, planned):
            result = run.evidence.estimate()
            if float(result.value_stderr.max()) <= target_stderr:
                break
    return run.result()


class Run:
    """One sample's walks: where the draws stand, and what has been seen."""

    def __init__(self, game: Game, sample: int, rng: np.random.Generator, scale: Scale) -> None:
        n = game.n
        self.game, self.sample = game, sample
        where, order = rng.spawn(2)
        self.arrangements = Arrangements(where, n, game.device)
        self.orders = Draws(order, n, game.device)
        self.empty = game.evaluate(sample, torch.zeros((1, n), dtype=torch.bool))[0]
        self.evidence = Evidence(n, self.arrangements.unit, scale)
        self.beta = BetaMoment(n, game.device)
        self.full = torch.zeros((), dtype=torch.float64, device=game.device)

    def go_on(self, groups: int, units: int, careful: bool) -> None:
        """Walk the next groups, at most ``groups``: a unit where it fits; ``careful`` comes to it by small steps."""
        unit = self.arrangements.unit
        if careful and self.evidence.groups < unit:
            groups = min(groups, max(FIRST_LOOK, self.evidence.groups))
        whole = groups >= unit
        slots = self.arrangements.next_unit(units) if whole else self.arrangements.strata(groups)
        marginals = [self.walk(part) for part in slots.split(self.block())]
        last_of_set = whole and not self.arrangements.left_of_set
        self.evidence.add(Walked(torch.cat(marginals), slots), whole, units if last_of_set else 0)

    def block(self) -> int:
        """Return how many groups are evaluated at once."""
        return max(1, BLOCK_ENTRIES // (group_cost(self.game.n) * self.game.n))

    def walk(self, slots: torch.Tensor) -> torch.Tensor:
        """Return (groups, 2, n): each player's marginal, mean of forwards and backwards, as arranged and mirrored."""
        groups, n = slots.shape
        order = self.orders.permutations(groups)
        rank = inverse(order)
        up = walk_coalitions(order)[:, 1:]
        kept = torch.cat([up, ~up[:, :-1]], dim=1)
        rows = kept.shape[1]
        seats = inverse(slots)
        arrangement = torch.stack([seats, seats.flip(1)], dim=1)
        outputs = self.game.evaluate(
            self.sample,
            kept[:, None].expand(-1, 2, -1, -1).reshape(-1, n),
            arrangement[:, :, None].expand(-1, -1, rows, -1).reshape(-1, n),
        ).view(groups, 2, rows)
        outputs = outputs - self.empty
        full = outputs[..., n - 1 : n]
        nothing = torch.zeros_like(full)
        forward = torch.cat([nothing, outputs[..., :n]], dim=2)
        backward = torch.cat([full, outputs[..., n:], nothing], dim=2)
        self.full += full.sum()
        self.beta.add(forward, backward, rank, slots)
        by_step = (forward[..., 1:] - forward[..., :-1] + backward[..., :-1] - backward[..., 1:]) / 2
        return by_step.gather(2, rank[:, None].expand(-1, 2, -1))

    def result(self) -> SampleExplanation:
        """Return the estimates and the audit."""
        found = self.evidence.estimate()
        solution = self.beta.solve()
        full = float(self.full) / (2 * self.evidence.groups)
        beta = solution.coefficients
        audit = {
            "efficiency_gap": float(found.value.sum()) - full,
            "groups": float(self.evidence.groups),
            "smoothed": float(found.smoothed),
            "rank": float(solution.rank),
            "condition": solution.condition,
        }
        if self.evidence.scale.per_slot:
            audit["position_minus_beta"] = float((found.position - beta).square().mean().sqrt())
        return SampleExplanation(
            value=found.value,
            position=found.position,
            position_ls=beta,
            matrix=found.matrix,
            value_stderr=found.value_stderr,
            position_stderr=found.position_stderr,
            matrix_stderr=found.matrix_stderr,
            audit=audit,
        )
