"""Which sets are asked for, how many there are, and where their subsets lie among all coalitions of a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np

from explainers.set_values.terms import Terms

Members = dict[int, np.ndarray]  # sets by their size t: (count, t) players, ascending within a set


@dataclass(frozen=True)
class SetIndex:
    """An index of sets of up to ``order`` players out of ``n``.

    Attributes:
        n: number of players.
        terms: the weights of sets of 1, 2, ..., order players.
        efficient: whether the values of all sets sum to ``v(N) - v(empty)``.
    """

    n: int
    terms: tuple[Terms, ...]
    efficient: bool

    @property
    def order(self) -> int:
        """Return the largest size."""
        return len(self.terms)


@dataclass(frozen=True)
class Estimates:
    """Values of sets and their standard errors, by size and in the order of the sets asked for.

    Attributes:
        value: size -> (count,).
        stderr: size -> (count,), 0 where nothing was drawn.
        empty: v(empty), which was subtracted.
        full: v(N) minus v(empty); None where it was not evaluated.
        replicates: independent draws behind the standard errors; 0 where nothing was drawn.
    """

    value: dict[int, np.ndarray]
    stderr: dict[int, np.ndarray]
    empty: float
    full: float | None
    replicates: int


def all_sets(n: int, order: int) -> Members:
    """Return every set of 1..order players, in lexicographic order by size."""
    return {t: members_of(combinations(range(n), t), math.comb(n, t), t) for t in range(1, order + 1)}


def given_sets(sets: Iterable[Sequence[int]]) -> Members:
    """Return the sets by size."""
    groups: dict[int, list[Sequence[int]]] = {}
    for members in sets:
        groups.setdefault(len(members), []).append(members)
    return {t: np.array(groups[t], dtype=np.int64) for t in sorted(groups)}


def members_of(sets: Iterable[tuple[int, ...]], count: int, t: int) -> np.ndarray:
    """Return ``count`` sets of t players as (count, t)."""
    return np.fromiter(chain.from_iterable(sets), np.int64, count * t).reshape(count, t)


def coalitions_of_size(n: int, size: int, rows: int) -> Iterator[np.ndarray]:
    """Yield all coalitions of ``size`` players as (r, n) boolean, at most ``rows`` at a time.

    In lexicographic order of their players, or of the players left out where those are fewer.
    """
    fewer = min(size, n - size)
    waiting = combinations(range(n), fewer)
    left = math.comb(n, size)
    while left:
        count = min(rows, left)
        kept = np.zeros((count, n), dtype=bool)
        np.put_along_axis(kept, members_of(islice(waiting, count), count, fewer), True, axis=1)
        yield kept if fewer == size else ~kept
        left -= count


def direct_sizes(index: SetIndex, sizes: Iterable[int]) -> list[int]:
    """Return the sizes of the subsets whose v counts directly in the values of sets of these ``sizes``."""
    return sorted({int(size) for t in sizes for size in np.flatnonzero(index.terms[t - 1].direct[1:]) + 1})


def direct_uses(index: SetIndex, targets: Members, size: int) -> list[tuple[int, np.ndarray]]:
    """Return (t, (count, size) subsets), once for each place that subsets of ``size`` players take in sets of t."""
    users = [t for t in targets if t >= size and index.terms[t - 1].direct[size]]
    return [(t, targets[t][:, list(places)]) for t in users for places in combinations(range(t), size)]


def direct_part(index: SetIndex, targets: Members, v: Callable[[np.ndarray], np.ndarray]) -> dict[int, np.ndarray]:
    """Return by size (count,) the part of each set's value that the worths of its own subsets have.

    Args:
        index: the index.
        targets: the sets.
        v: maps distinct coalitions (count, size), as members, to their worth (count,), v(empty) taken off.
    """
    parts = {t: np.zeros(len(members)) for t, members in targets.items()}
    for size in direct_sizes(index, targets):
        uses = direct_uses(index, targets, size)
        distinct, inverse = np.unique(np.concatenate([rows for _, rows in uses]), axis=0, return_inverse=True)
        worth = v(distinct)[inverse.reshape(-1)]
        stops = np.cumsum([len(rows) for _, rows in uses])[:-1]
        for (t, _), of_use in zip(uses, np.split(worth, stops), strict=True):
            parts[t] += index.terms[t - 1].direct[size] * of_use
    return parts


def direct_count(index: SetIndex, sizes: Iterable[int]) -> int:
    """Return how many coalitions :func:`direct_part` asks for, for all sets of these sizes, beside the border's."""
    return sum(math.comb(index.n, size) for size in direct_sizes(index, sizes) if 1 < size < index.n - 1)
