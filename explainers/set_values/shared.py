"""Sampled values of all sets: every coalition that is evaluated tells something about every set.

`value_T = sum_U coefficient(|U|, |U and T|) v(U)`, so a coalition U drawn with a known chance gives an unbiased
estimate of all sets' values at once (SHAP-IQ, Fumagalli et al. 2023). What is taken off before drawing is known
exactly: an additive game fitted to the coalitions of one player and of all but one, and the sizes that are
evaluated whole. A coalition and its complement are one replicate; replicates are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from explainers.designs import subsets_of_sizes
from explainers.game import Game
from explainers.set_values.evaluation import BLOCK_ENTRIES, Spread, member_worths, worths
from explainers.set_values.sizes import Plan, per_coalition, size_plan
from explainers.set_values.targets import (
    Estimates,
    Members,
    SetIndex,
    coalitions_of_size,
    direct_count,
    direct_part,
)
from explainers.set_values.terms import hypergeometric

CACHED_ENTRIES = 1 << 17  # of float64: what stays in a core's cache


def shared(
    game: Game, sample: int, rng: np.random.Generator, index: SetIndex, targets: Members, budget: int
) -> Estimates:
    """Estimate the values of all ``targets`` from at most ``budget`` evaluations; unbiased."""
    n = game.n
    plan = size_plan(index, targets, budget - direct_count(index, targets))
    border = border_coalitions(n)
    outputs = worths(game, sample, border)
    empty = float(outputs[0])
    outputs -= empty
    additive = additive_fit(outputs, n)

    def own_worth(members: np.ndarray) -> np.ndarray:
        known = border_places(members, n)
        return outputs[known] if known is not None else member_worths(game, sample, members) - empty

    def rest(kept: np.ndarray) -> np.ndarray:
        return worths(game, sample, kept) - empty - kept @ additive

    value = direct_part(index, targets, own_worth)
    add_additive(value, index, targets, additive)
    add_whole(value, index, targets, border, outputs - border @ additive)
    for size in plan.whole:
        for kept in coalitions_of_size(n, size, max(1, BLOCK_ENTRIES // n)):
            add_whole(value, index, targets, kept, rest(kept))
    spread = {t: Spread(len(members)) for t, members in targets.items()}
    done = 0
    for kept in drawn(rng, n, plan):
        residual = rest(np.concatenate([kept, ~kept])).reshape(2, -1)
        for t, members in targets.items():
            weights = pair_weights(index, t, plan.chance, kept.sum(1), residual)
            for where, (total, squares) in sums(members, kept, np.stack([weights, weights**2])):
                mean = total / len(kept)
                spread[t].add(where, mean, np.maximum(squares - total * mean, 0), len(kept), done)
        done += len(kept)
    stderr = {t: spread[t].stderr(done) if done else np.zeros(len(targets[t])) for t in targets}
    value = {t: value[t] + spread[t].mean for t in targets}
    return Estimates(value, stderr, empty, float(outputs[-1]), done)


def border_coalitions(n: int) -> np.ndarray:
    """Return the coalitions (rows, n) of 0, 1, n-1 and n players; singles, and those left out, ascending."""
    return np.concatenate([next(coalitions_of_size(n, size, n)) for size in sorted({0, 1, n - 1, n})])


def border_places(members: np.ndarray, n: int) -> np.ndarray | None:
    """Return the places (count,) in the border of coalitions given by their players; None where they are not in it."""
    size = members.shape[1]
    if size == 1:
        return 1 + members[:, 0]
    if size == n:
        return np.full(len(members), -1)
    return 1 + n + n * (n - 1) // 2 - members.sum(1) if size == n - 1 else None


def additive_fit(outputs: np.ndarray, n: int) -> np.ndarray:
    """Return (n,) the mean of what a player adds alone and adds last, shifted so that all sum to v(N)."""
    full = outputs[-1]
    fit = (outputs[1 : 1 + n] + full - outputs[1 + n : 1 + 2 * n]) / 2 if n > 2 else outputs[1 : 1 + n]
    return fit + (full - fit.sum()) / n


def add_additive(value: dict[int, np.ndarray], index: SetIndex, targets: Members, additive: np.ndarray) -> None:
    """Add what the drawn part of the index makes of an additive game."""
    for t, members in targets.items():
        inside, outside = index.terms[t - 1].additive()
        own = additive[members].sum(1)
        value[t] += inside * own + outside * (additive.sum() - own)


def add_whole(
    value: dict[int, np.ndarray], index: SetIndex, targets: Members, kept: np.ndarray, residual: np.ndarray
) -> None:
    """Add the coalitions (rows, n) with their own weights times their residuals (rows,)."""
    sizes = kept.sum(1)
    counts = np.array([1 / math.comb(index.n, int(size)) for size in sizes])
    for t, members in targets.items():
        weight = per_coalition(index.terms[t - 1].table, hypergeometric(index.n, t))
        for where, (total,) in sums(members, kept, (weight[sizes] * (residual * counts)[:, None])[None]):
            value[t][where] += total


def drawn(rng: np.random.Generator, n: int, plan: Plan) -> Iterator[np.ndarray]:
    """Yield blocks (rows, n) of the plan's drawn coalitions, without their complements."""
    rows = max(1, BLOCK_ENTRIES // (2 * n))
    for start in range(0, plan.pairs, rows):
        sizes = rng.choice(n + 1, size=min(rows, plan.pairs - start), p=plan.chance)
        yield subsets_of_sizes(rng, sizes, n)


def pair_weights(index: SetIndex, t: int, chance: np.ndarray, sizes: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Return (rows, t+1): what a coalition with its complement says of a set by how many of its players it holds."""
    n = index.n
    weight = per_coalition(index.terms[t - 1].table, hypergeometric(n, t) * chance[:, None])
    return (weight[sizes] * residual[0][:, None] + weight[n - sizes, ::-1] * residual[1][:, None]) / 2


def sums(members: np.ndarray, kept: np.ndarray, weights: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (which sets, (c, k) sums over the rows of weights[:, row, how many of the set's players the row holds]).

    Args:
        members: (sets, t) the sets.
        kept: (rows, n) boolean, the coalitions.
        weights: (c, rows, t+1).
    """
    columns = np.ascontiguousarray(kept.T).astype(np.int16)
    step = max(1, CACHED_ENTRIES // len(kept))
    for start in range(0, len(members), step):
        where = slice(start, start + step)
        held = columns[members[where, 0]]
        for place in range(1, members.shape[1]):
            held += columns[members[where, place]]
        total = np.zeros((len(held), len(weights)))
        for count in range(weights.shape[2]):
            total += (held == count).astype(np.float64) @ np.ascontiguousarray(weights[:, :, count].T)
        yield where, total.T
