"""Which sizes of coalition a sampled estimate of all sets evaluates whole, and how often it draws the others."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from explainers.set_values.targets import SetIndex
from explainers.set_values.terms import hypergeometric

FEWEST_DRAWN = 4  # two pairs: one has no standard error
OWN_SHARE = 2 / 3


@dataclass(frozen=True)
class Plan:
    """Which sizes are evaluated whole, and how the others are drawn.

    Attributes:
        whole: sizes beside 0, 1, n-1 and n.
        chance: (n+1,) of drawing each size; symmetric, 0 for sizes that are whole.
        pairs: number of drawn coalitions, each with its complement.
    """

    whole: list[int]
    chance: np.ndarray
    pairs: int


def border_count(n: int) -> int:
    """Return the number of coalitions of 0, 1, n-1 and n players."""
    return 2**n if n < 3 else 2 + 2 * n


def least_shared(index: SetIndex, sizes: Collection[int]) -> int:
    """Return the fewest evaluations that estimate sets of these sizes, without those of their own subsets."""
    inner = FEWEST_DRAWN if importance(index, sizes)[2 : index.n - 1].any() else 0
    return border_count(index.n) + inner


def size_plan(index: SetIndex, sizes: Collection[int], budget: int) -> Plan:
    """Return the plan for sets of these sizes that spends at most ``budget``.

    From both ends, a size is evaluated whole where drawing would spend as much on it (as in KernelSHAP's design), or
    where it takes at most ``OWN_SHARE`` and is that of sets asked for: of the coalitions of t players a single one
    holds a given set of t, and draws that seldom hit it give standard errors that seldom see it.
    """
    n = index.n
    left = budget - border_count(n)
    chance = importance(index, sizes)
    chance[[0, 1, n - 1, n]] = 0.0
    whole: list[int] = []
    for size in range(2, n // 2 + 1):
        pair = sorted({size, n - size})
        count = sum(math.comb(n, s) for s in pair)
        share = chance[pair].sum() / chance.sum() if chance.any() else 0.0
        if size <= max(sizes):
            share = max(share, OWN_SHARE)
        if count > left * share or left - count < FEWEST_DRAWN:
            break
        whole += pair
        left -= count
        chance[pair] = 0.0
    if not chance.any():
        return Plan(whole, chance, 0)
    return Plan(whole, chance / chance.sum(), left // 2)


def importance(index: SetIndex, sizes: Collection[int]) -> np.ndarray:
    """Return (n+1,) in proportion to the chances of drawing each size that make the mean variance smallest.

    For a game of independent worths: the root of the second moment of one draw of that size, over sets of all sizes
    asked for, each size of set in proportion to its total weight. A coalition comes with its complement, so both
    sizes have the same.
    """
    moment = np.zeros(index.n + 1)
    for t in sizes:
        table = index.terms[t - 1].table
        if table.any():
            moment += per_coalition(table, hypergeometric(index.n, t), table).sum(1) / np.abs(table).sum() ** 2
    return np.sqrt(moment + moment[::-1])


def per_coalition(table: np.ndarray, chance: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
    """Return ``weight * table / chance``, 0 where the chance is."""
    return np.divide(weight * table, chance, out=np.zeros_like(table), where=chance > 0)
