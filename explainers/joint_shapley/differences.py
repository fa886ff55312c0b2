"""Sampled joint Shapley values of given sets: draws of `v(S + T) - v(S)`, one set at a time.

The size of S is drawn with chances in proportion to C(n-t, s) q_s, then S uniformly, and each draw is scaled by their
sum (section 4.2 of the paper). Each S comes with its complement among the players outside T, their sizes drawn from
the mean of the law and its mirror image and weighted back: what S adds player by player cancels largely. Such a
couple is one replicate.
"""

from __future__ import annotations

import numpy as np

from explainers.designs import subsets_of_sizes
from explainers.game import Game
from explainers.set_values.evaluation import BLOCK_ENTRIES, Spread, coalitions, worths
from explainers.set_values.targets import Estimates, Members, SetIndex
from explainers.set_values.terms import Terms

EVALUATIONS = 4  # of one replicate of one set: with and without T, for S and its complement
FEWEST = 2  # replicates: one has no standard error


def differences(
    game: Game, sample: int, rng: np.random.Generator, index: SetIndex, targets: Members, budget: int
) -> Estimates:
    """Estimate the values of ``targets`` from at most ``budget`` evaluations; unbiased.

    Every set has the same number of replicates.
    """
    empty = float(worths(game, sample, np.zeros((1, game.n), dtype=bool))[0])
    replicates = (budget - 1) // (EVALUATIONS * sum(len(members) for members in targets.values()))
    value = {t: np.zeros(len(members)) for t, members in targets.items()}
    stderr = {t: np.zeros(len(members)) for t, members in targets.items()}
    step = max(1, BLOCK_ENTRIES // (EVALUATIONS * game.n))
    for t, members in targets.items():
        for start in range(0, len(members), step):
            where = slice(start, start + step)
            spread = replicated(game, sample, rng, index.terms[t - 1], members[where], replicates)
            value[t][where], stderr[t][where] = spread.mean, spread.stderr(replicates)
    return Estimates(value, stderr, empty, None, replicates)


def least_differences(sets: int) -> int:
    """Return the fewest evaluations that estimate so many sets."""
    return 1 + EVALUATIONS * FEWEST * sets


def replicated(
    game: Game, sample: int, rng: np.random.Generator, terms: Terms, members: np.ndarray, replicates: int
) -> Spread:
    """Return mean and spread over the replicates of what the sets (k, t) add where they join."""
    assert terms.mass is not None
    k, rest = len(members), game.n - terms.size
    mirrored = (terms.mass + terms.mass[::-1]) / 2
    scale = np.divide(terms.mass, mirrored, out=np.zeros_like(mirrored), where=mirrored > 0) * mirrored.sum()
    spread = Spread(k)
    rows = max(1, BLOCK_ENTRIES // (EVALUATIONS * k * game.n))
    for start in range(0, replicates, rows):
        count = min(rows, replicates - start)
        sizes = rng.choice(rest + 1, size=count * k, p=mirrored / mirrored.sum())
        chosen = subsets_of_sizes(rng, sizes, rest)
        one, other = gains(game, sample, members, np.stack([chosen, ~chosen]))
        couple = (scale[sizes] * one + scale[rest - sizes] * other) / 2
        couple = couple.reshape(count, k)
        spread.add(slice(None), couple.mean(0), ((couple - couple.mean(0)) ** 2).sum(0), count, start)
    return spread


def gains(game: Game, sample: int, members: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return (2, rows) ``v(S + T) - v(S)``.

    Args:
        game: the game.
        sample: the sample.
        members: (k, t) the sets; row r belongs to set r mod k.
        chosen: (2, rows, n-t) boolean, S among the players outside the row's set, ascending.
    """
    own = coalitions(members, game.n)
    outside = np.argsort(own, axis=1, kind="stable")[:, : game.n - members.shape[1]]
    flat = chosen.reshape(2 * chosen.shape[1], chosen.shape[2])
    repeats = len(flat) // len(members)
    without = np.zeros((len(flat), game.n), dtype=bool)
    np.put_along_axis(without, np.tile(outside, (repeats, 1)), flat, axis=1)
    outputs = worths(game, sample, np.concatenate([without | np.tile(own, (repeats, 1)), without]))
    return (outputs[: len(flat)] - outputs[len(flat) :]).reshape(2, -1)
