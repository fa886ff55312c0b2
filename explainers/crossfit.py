"""Shapley values without bias from random coalitions: each is predicted by a surrogate that has not seen it.

An order of the players passes one coalition of each size. Averaged over all orders that pass S, what ``v(S)`` adds to
the marginal contribution of player i is ``v(S) / s`` where i is in S, and ``-v(S) / (n - s)`` where it is not. So one
coalition speaks for all players, and the mean over random ones, size by size, is the Shapley value of every player.

A surrogate g takes most of v off before that, and its own Shapley values, which are known, are added back. Coalitions
are split into folds at random; what is left of a fold's is ``v - g`` with g fitted to the other folds. Given those, the
fold is a fair sample of the coalitions that are not in them, and what is left of those in them is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from explainers.base import SampleExplanation
from explainers.folds import shares_of
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.pairs import Pairs, halves, largest_block
from explainers.triples import PINNED, VARIANCE, Triples, Whitened, cubic, following, nothing, steadied

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

INTERACTING = 32  # most players whose interactions the surrogate has: with more the rows are too few to tell them
MODELLED = 192
LEAST = 3  # pairs a player


def affords(n: int, pairs: int) -> bool:
    """Return whether so many pairs of coalitions of n players are enough for a surrogate, and n not too large."""
    return LEAST * n <= min(pairs, largest_block(n))


def first_rows(n: int, pairs: int) -> int:
    """Return how many pairs the surrogate is fitted to: all, or so few that a third at least are left."""
    most = MODELLED if n <= INTERACTING else largest_block(n)
    return pairs if pairs <= most else min(most, 2 * pairs // 3)


def design(rng: np.random.Generator, n: int, pairs: int, device: torch.device) -> Pairs:
    """Return the coalitions to evaluate; all pairs of size 1 are among them where interactions are fitted."""
    return Pairs(rng, n, pairs, device, lead=first_rows(n, pairs), singles=n <= INTERACTING)


class Seen(Protocol):
    """A least-squares fit of ``linear`` (n,) that can say what it would be without a fold, and fit another y."""

    linear: torch.Tensor

    def unseen(self, starts: Sequence[int]) -> torch.Tensor:
        """Return (m,) how far each row's y is from a fit to all rows but its fold's; 0 in rows before the first fold.

        Args:
            starts: where each fold begins, and where the last one ends.
        """

    def refit(self, y: torch.Tensor) -> None:
        """Solve for another ``y`` (m,)."""

    def left(self) -> torch.Tensor:
        """Return (m,) what the fit leaves of y."""


class Linear:
    """Weighted least squares of ``y`` (m,) on ``x`` (m, n) by normal equations: time and memory grow with m only."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor) -> None:
        self.x, self.weighted = x, x * weights[:, None]
        self.gram = steadied(self.weighted.T @ x)
        self.refit(y)

    def refit(self, y: torch.Tensor) -> None:
        """Solve for another ``y`` (m,)."""
        self.y = y
        self.linear = torch.linalg.solve(self.gram, self.weighted.T @ y)

    def left(self) -> torch.Tensor:
        """Return (m,) what the fit leaves of y."""
        return self.y - self.x @ self.linear

    def unseen(self, starts: Sequence[int]) -> torch.Tensor:
        """Return (m,) how far each row's y is from a fit to all rows but its fold's; 0 in rows before the folds."""
        moment, away = self.weighted.T @ self.y, torch.zeros_like(self.y)
        for fold in map(slice, starts, starts[1:]):
            x, y, weighted = self.x[fold], self.y[fold], self.weighted[fold].T
            away[fold] = y - x @ torch.linalg.solve(self.gram - weighted @ x, moment - weighted @ y)
        return away


@dataclass(frozen=True)
class Surrogate:
    """A game ``v(S) - v(N without S) = x'linear + triples(x)``, with x 1 for a kept player and -1 for another."""

    linear: torch.Tensor
    triples: Triples

    def at(self, x: torch.Tensor) -> torch.Tensor:
        """Return the differences (r,) of rows x (r, n)."""
        return x @ self.linear + self.triples.at(x) if len(self.triples.rows) else x @ self.linear

    def values(self) -> torch.Tensor:
        """Return its (n,) Shapley values."""
        return self.linear + self.triples.values()


def surrogates(
    x: torch.Tensor,
    difference: torch.Tensor,
    weights: torch.Tensor,
    worth: torch.Tensor,
    starts: Sequence[int],
    part: float,
) -> tuple[Surrogate, Surrogate, torch.Tensor, torch.Tensor]:
    """Fit to all rows but each fold's in turn.

    Args:
        x: (m, n) of 1 and -1, fold by fold.
        difference: (m,) ``v(S) - v(N without S)``.
        weights: (m,) of the rows.
        worth: that of the untouched input, which is one more row, free of error.
        starts: where each fold begins, and m.
        part: what the surrogate without a fold counts in the mean; the one of all rows counts the rest to 1.

    Returns:
        the surrogate of all rows, the mean over surrogates, (m,) how far a fold's rows are from theirs, and (m,) what
        the mean over surrogates leaves of ``difference - part * away``.
    """
    rows, y = torch.cat([torch.ones_like(x[:1]), x]), torch.cat([worth[None], difference])
    weights = weights / weights.median()
    weights = torch.cat([PINNED * weights.mean()[None], weights])
    scales, factor = x[0], 0.0
    fit: Seen
    if x.shape[1] > INTERACTING:
        fit = Linear(rows, y, weights)
    else:
        scales = following(of_singles(x, difference, worth))
        covariance = cubic(rows, rows, scales)
        factor = VARIANCE / float(covariance[0, 0])
        fit = Whitened(rows, y, weights, covariance.mul_(factor))

    def surrogate() -> Surrogate:
        triples = Triples(rows, factor * fit.residuals, scales) if isinstance(fit, Whitened) else nothing(rows)
        return Surrogate(fit.linear, triples)

    whole, away = surrogate(), fit.unseen([start + 1 for start in starts])
    fit.refit(y - part * away)
    return whole, surrogate(), away[1:], fit.left()[1:]


def of_singles(x: torch.Tensor, difference: torch.Tensor, worth: torch.Tensor) -> torch.Tensor:
    """Return (n,) the linear terms that the pairs of size 1 speak for; all n are there, so chance has no part in it."""
    n = x.shape[1]
    singles = torch.nonzero(x.sum(1) == 2 - n)[:, 0]
    linear = torch.empty_like(x[0])
    linear[x[singles].argmax(1)] = (difference[singles] + worth) / 2
    return linear


def read_for_all(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Return (r, n) what a coalition of size s counts for each player: ``1 / s`` inside, ``-1 / (n - s)`` outside."""
    inside, outside = 1 / sizes.double(), 1 / (x.shape[1] - sizes).double()
    return ((inside + outside)[:, None] * x + (inside - outside)[:, None]).div_(2)


def unbiased(game: Game, sample: int, pairs: Pairs) -> SampleExplanation:
    """Evaluate the pairs of :func:`design` and estimate the Shapley values, without bias, and their standard errors."""
    n, rows = game.n, first_rows(game.n, pairs.count)
    shares = shares_of(pairs.layout, rows)
    part = rows / pairs.count / (len(shares.starts) - 1)
    blocks = pairs.blocks(rows)
    kept, weights, _ = next(blocks)
    kept, weights = kept[shares.order], weights[shares.order]
    ends = torch.tensor([[False] * n, [True] * n], device=game.device)
    outputs = game.evaluate(sample, torch.cat([ends, kept, ~kept]))
    worth = outputs[1] - outputs[0]
    x, difference = halves(kept, outputs[2:])
    whole, mean, away, left = surrogates(x, difference, weights, worth, shares.starts, part)
    read, weighted = read_for_all(x, pairs.sizes[shares.order]), part * shares.unseen * away
    value = mean.values() + read.T @ (shares.known * left + weighted)
    noise = (read.T**2) @ (shares.missing * weighted**2)
    done = 0
    for kept, _, _ in blocks:
        x, difference = halves(kept, game.evaluate(sample, torch.cat([kept, ~kept])))
        which = slice(done, done + len(x))
        done += len(x)
        read = read_for_all(x, pairs.sizes[rows:][which])
        weighted = shares.rest[which] * (difference - whole.at(x))
        value += read.T @ weighted
        noise += (read.T**2) @ (shares.rest_missing[which] * weighted**2)
    value += (worth - value.sum()) / n
    audit = {"efficiency_gap": float(value.sum() - worth), "coalitions": 2.0 * pairs.count}
    return SampleExplanation(value, value_stderr=noise.sqrt(), audit=audit)
