"""Grids, rankings with ties, and the area under a curve: plain numbers, no model."""

from __future__ import annotations

import numpy as np

from explainers.streams import stream

TIE_TOLERANCE = 1e-12


def grid(step: int) -> np.ndarray:
    """Return the percents 0, step, 2 step, ... below 100, and 100.

    >>> grid(40)
    array([  0,  40,  80, 100])
    """
    return np.append(np.arange(0, 100, step), 100)


def counts(percents: np.ndarray, n: int) -> np.ndarray:
    """Return how many of ``n`` players each percent is, rounded down (in integers: no rounding error).

    >>> counts(np.array([0, 28, 29, 100]), 7)
    array([0, 1, 2, 7])
    """
    return percents * n // 100


def area(curve: np.ndarray, percents: np.ndarray) -> float:
    """Return the trapezoid area under ``curve`` over the fraction 0..1: a constant curve has its height as area.

    >>> area(np.array([0.0, 1.0, 1.0]), np.array([0, 50, 100]))
    0.75
    """
    return float(np.trapezoid(curve, percents / 100))


def levels(values: np.ndarray) -> np.ndarray:
    """Return (n,) integers in the order of ``values``; tied values get the same one.

    Ties are values whose gap is at most ``TIE_TOLERANCE`` of the largest magnitude: what is equal in theory differs
    by rounding in practice, and rounding must not rank players.

    >>> levels(np.array([0.1 + 0.2, -1.0, 0.3]))
    array([1, 0, 1])
    """
    order = np.argsort(values, kind="stable")
    gaps = np.diff(values[order], prepend=values[order][:1])
    placed = np.empty(len(values), dtype=np.int64)
    placed[order] = np.cumsum(gaps > tolerance(values))
    return placed


def tolerance(values: np.ndarray) -> float:
    """Return the largest difference that rounding may make among ``values``."""
    return TIE_TOLERANCE * float(np.abs(values).max(initial=0.0))


def has_ties(values: np.ndarray) -> bool:
    """Return whether two of ``values`` tie."""
    return len(np.unique(levels(values))) < len(values)


def descending(values: np.ndarray, rounds: int, seed: int, key: str) -> np.ndarray:
    """Return (rounds, n): in each row the players from the largest of ``values`` down, ties in random order.

    The tie orders come from the stream (seed, "metric ties", key): the same for every method and metric.
    """
    coins = stream(seed, "metric ties", key).random((rounds, len(values)))
    return np.lexsort((coins, np.broadcast_to(-levels(values), coins.shape)), axis=1)
