"""SampleShapley: Strumbelj and Kononenko's sampling of random orders."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.crossfit import affords, design, unbiased
from explainers.designs import walk_coalitions
from explainers.draws import Draws, order_of
from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22


class SampleShapley(Explainer):
    """SampleShapley (Strumbelj and Kononenko 2014): the mean marginal contribution over random orders; unbiased.

    With at least ``6n + 2`` evaluations each random coalition is read for all orders that pass it, and a surrogate
    fitted to other coalitions is taken off first (:mod:`explainers.crossfit`). With fewer, or with more than 591
    players, random orders are walked forwards and backwards (Mitchell et al. 2022), each player's places stratified
    over the orders (Latin hypercube sampling: McKay et al. 1979). Where the budget holds all 2^n coalitions the mean is
    over all orders. Unbiased in each case, given the budget; the standard errors are only consistent. Efficient up to
    rounding.
    """

    name: ClassVar[str] = "sample_shapley"

    budget: int = Field(2000, ge=1, title="Budget", description="Model evaluations a sample.")

    def least_budget(self, n: int) -> int:
        """Return the cost of one order."""
        return n + 1

    def explain_nothing(self) -> SampleExplanation:
        """Return no values and no standard errors."""
        empty = torch.zeros(0, dtype=torch.float64)
        return SampleExplanation(empty, value_stderr=empty)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Average the marginal contributions over all orders, over those that pass random coalitions, or over walks."""
        n, pairs = game.n, (self.budget - 2) // 2
        if n < 60 and 2**n <= self.budget:
            return over_all_orders(game, sample)
        if affords(n, pairs):
            return unbiased(game, sample, design(rng, n, pairs, game.device))
        return self._over_walks(game, sample, rng)

    def _over_walks(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Average over as many orders, forwards and backwards, as the budget pays for."""
        n = game.n
        pairs = (self.budget - 2) // (2 * (n - 1))
        orders = stratified_orders(rng, max(1, pairs), n, game.device)
        asked = [torch.tensor([[False] * n, [True] * n], device=game.device)]
        values, ends = [], torch.zeros(2)
        block = max(1, BLOCK_ENTRIES // n**2)
        for start in range(0, len(orders), block):
            order = orders[start : start + block]
            forwards = walk_coalitions(order)[:, 1:n].reshape(-1, n)
            asked += [forwards, ~forwards] if pairs else [forwards]
            outputs = game.evaluate(sample, torch.cat(asked))
            if start == 0:
                ends, outputs = outputs[:2], outputs[2:]
            values.append(marginals(order, outputs.view(-1, len(order), n - 1), ends))
            asked = []
        return mean_of(torch.cat(values), ends)


def stratified_orders(rng: np.random.Generator, orders: int, n: int, device: torch.device) -> torch.Tensor:
    """Return (orders, n) uniform random orders, over which each player's places are spread evenly.

    An order sorts one uniform key a player. A player's keys are in different strata of [0, 1/2) in different orders,
    and some are mirrored at 1/2: walked backwards too, an order covers both. Which are, is balanced between any two
    players (an orthogonal array of strength 2, as far as there are columns). The keys of one order are independent, so
    each order alone is uniform, and the mean over them unbiased.
    """
    strata = Draws(rng, orders, device).permutations(n).T
    keys = (strata + Draws(rng, n, device).uniforms(orders)) / (2 * orders)
    return order_of(torch.where(balanced(rng, orders, n, device), keys, 1 - keys))


def balanced(rng: np.random.Generator, rows: int, columns: int, device: torch.device) -> torch.Tensor:
    """Return (rows, columns) boolean, each row uniform by itself: random rows and columns of a Hadamard matrix.

    Each column is flipped by chance. Where the matrix has fewer columns they come again.
    """
    bits = max(1, (rows - 1).bit_length())
    row = Draws(rng, 2**bits, device).permutations(1)[0, :rows]
    draws = Draws(rng, 2**bits - 1, device)
    column = 1 + draws.permutations(-(-columns // (2**bits - 1))).flatten()[:columns]
    parity = (Draws(rng, columns, device).keys(1) < 0).expand(rows, columns).clone()
    for bit in range(bits):
        parity ^= ((row[:, None] & column) >> bit & 1).bool()
    return parity


def marginals(order: torch.Tensor, outputs: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Return (orders, n) by player: what each adds to its predecessors, the mean of both directions where both were.

    Args:
        order: (orders, n) the player that joins at each step.
        outputs: (1 or 2, orders, n - 1) of the coalitions between the ends; of their complements, those of the walk
            backwards.
        ends: (2,) the values of the empty and of the full coalition.
    """
    count = len(order)
    paths = [torch.cat([ends[:1].expand(count, 1), outputs[0], ends[1:].expand(count, 1)], dim=1)]
    if len(outputs) == 2:
        paths.append(-torch.cat([ends[1:].expand(count, 1), outputs[1], ends[:1].expand(count, 1)], dim=1))
    added = torch.stack(paths).mean(0).diff(dim=1)
    return torch.empty_like(added).scatter_(1, order, added)


def mean_of(values: torch.Tensor, ends: torch.Tensor) -> SampleExplanation:
    """Return the mean over orders (orders, n), and its standard error as if the orders were independent.

    They are stratified, which makes the true error smaller, by a tenth or two.
    """
    count, value = len(values), values.mean(0)
    variance = values.var(0) if count > 1 else torch.full_like(value, float("nan"))
    audit = {"efficiency_gap": float(value.sum() - (ends[1] - ends[0])), "orders": float(count)}
    return SampleExplanation(value, value_stderr=(variance / count).sqrt(), audit=audit)


def over_all_orders(game: Game, sample: int) -> SampleExplanation:
    """Return the mean over all orders, from all coalitions: of the n! orders (s-1)! (n-s)! have player i join S."""
    n = game.n
    value = torch.zeros(n, dtype=torch.float64, device=game.device)
    ends = torch.zeros(2)
    coalitions, block = torch.arange(2**n, device=game.device), max(1, BLOCK_ENTRIES // n)
    share = torch.tensor([0.0, *(1 / (size * math.comb(n, size)) for size in range(1, n + 1))], dtype=torch.float64)
    share = share.to(game.device)
    for start in range(0, 2**n, block):
        kept = (coalitions[start : start + block, None] >> torch.arange(n, device=game.device) & 1).bool()
        outputs = game.evaluate(sample, kept)
        size = kept.sum(1)
        inside, outside = share[size] * outputs, share[n - size] * outputs
        value += kept.double().T @ (inside + outside) - outside.sum()
        ends = torch.stack([outputs[0] if start == 0 else ends[0], outputs[-1]])
    audit = {"efficiency_gap": float(value.sum() - (ends[1] - ends[0])), "orders": float(math.factorial(n))}
    return SampleExplanation(value, value_stderr=torch.zeros_like(value), audit=audit)
