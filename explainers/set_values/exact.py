"""Exact values of sets, from sums over the supersets of all sets at once: O(2^n n) a sum, not O(3^n)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np

from explainers.game import Game
from explainers.set_values.evaluation import worths
from explainers.set_values.targets import Estimates, Members, SetIndex
from explainers.set_values.terms import Terms

BLOCK_BITS = 16


def exact(game: Game, sample: int, index: SetIndex, targets: Members) -> Estimates:
    """Return the values of the sets by evaluating every coalition once.

    Joint Shapley values of all sets up to k take k + 1 sums: the weight of S does not depend on T.
    """
    worth = all_worths(game, sample)
    empty = float(worth[0])
    worth -= empty
    value = exact_values(worth, index, targets)
    stderr = {t: np.zeros(len(members)) for t, members in targets.items()}
    return Estimates(value, stderr, empty, float(worth[-1]), 0)


def all_worths(game: Game, sample: int) -> np.ndarray:
    """Return v (2^n,) of every coalition; bit i of the place tells whether player i is in it."""
    worth = np.empty(2**game.n)
    players = np.arange(game.n)
    for start in range(0, len(worth), 1 << BLOCK_BITS):
        codes = np.arange(start, min(start + (1 << BLOCK_BITS), len(worth)))
        worth[codes] = worths(game, sample, (codes[:, None] >> players & 1).astype(bool))
    return worth


def exact_values(worth: np.ndarray, index: SetIndex, targets: Members) -> dict[int, np.ndarray]:
    """Return the values of the sets by size from v (2^n,) with v(empty) = 0."""
    codes = {t: (1 << members).sum(1) for t, members in targets.items()}
    value = {t: direct_values(worth, index.terms[t - 1], targets[t]) for t in targets}
    for t, part in avoiding(worth, index, codes):
        value[t] += part
    for t, members in targets.items():
        weight = index.terms[t - 1].coefficients()
        for held in range(1, t + 1):
            if weight[:, held].any():
                above = superset_sums(weighted(worth, weight[:, held]))
                value[t] += overlapping(above, members, held)
    return value


def direct_values(worth: np.ndarray, terms: Terms, members: np.ndarray) -> np.ndarray:
    """Return (count,) ``sum_{L in T} direct[|L|] v(L)``."""
    value = np.zeros(len(members))
    for size in np.flatnonzero(terms.direct[1:]) + 1:
        value += terms.direct[size] * subset_lookups(worth, members, int(size))
    return value


def avoiding(worth: np.ndarray, index: SetIndex, codes: dict[int, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for each size t the weighted sum (count,) over the coalitions that avoid T: their complements hold it."""
    above, used = np.zeros(0), np.zeros(0)
    for t in sorted(codes):
        weight = index.terms[t - 1].coefficients()[:, 0]
        if not weight.any():
            continue
        within = slice(0, index.n - t + 1)  # larger coalitions cannot avoid T
        if not (len(used) and np.allclose(used[within], weight[within], rtol=1e-12, atol=0)):
            above, used = superset_sums(weighted(worth[::-1], weight[::-1])), weight
        yield t, above[codes[t]]


def overlapping(above: np.ndarray, members: np.ndarray, held: int) -> np.ndarray:
    """Return (count,) the sum over the coalitions that hold exactly ``held`` players of T, by inclusion-exclusion."""
    t = members.shape[1]
    value = np.zeros(len(members))
    for size in range(held, t + 1):
        value += (-1) ** (size - held) * math.comb(size, held) * subset_lookups(above, members, size)
    return value


def subset_lookups(table: np.ndarray, members: np.ndarray, size: int) -> np.ndarray:
    """Return (count,) the sum of ``table`` (2^n,) over the subsets of ``size`` players of each set."""
    bits = 1 << members
    return sum(
        (table[bits[:, list(places)].sum(1)] for places in combinations(range(members.shape[1]), size)),
        start=np.zeros(len(members)),
    )


def weighted(worth: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return ``weight[|U|] v(U)`` (2^n,), without an index array of that length."""
    sizes = coalition_sizes(min(len(worth), 1 << BLOCK_BITS))
    out = np.empty(len(worth))
    for start in range(0, len(worth), len(sizes)):
        block = slice(start, start + len(sizes))
        np.multiply(weight[start.bit_count() :][sizes], worth[block], out=out[block])
    return out


@cache
def coalition_sizes(count: int) -> np.ndarray:
    """Return (count,) how many players the first coalitions have."""
    sizes = np.bitwise_count(np.arange(count)).astype(np.intp)
    sizes.flags.writeable = False
    return sizes


def superset_sums(table: np.ndarray) -> np.ndarray:
    """Replace ``table`` (2^n,) by its sums over all supersets, in place, and return it.

    >>> superset_sums(np.array([1.0, 2, 4, 8])).tolist()
    [15.0, 10.0, 12.0, 8.0]
    """
    for player in range(len(table).bit_length() - 1):
        halves = table.reshape(-1, 2, 1 << player)  # a view: (..., absent or present, ...)
        # numpy loops along the last axis: where that is short, a strided column at a time is faster
        for column in range(1 << player) if player < 3 else [slice(None)]:
            halves[:, 0, column] += halves[:, 1, column]
    return table
