"""What each coalition weighs in the value of a set of players, for any index that treats players alike.

All numbers here are totals over the coalitions of given sizes, so that they stay near 1 at any n; the weight of a
single coalition falls below 1e-300 at n = 1,000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Terms:
    """The weights in the value of one set T of t players out of n.

    With ``v(empty) = 0`` the value is ``sum_{L in T} direct[|L|] v(L)``, plus ``sum_{u,h} table[u, h]`` times the mean
    of ``v(U)`` over the coalitions U with u players of which h are in T.

    Attributes:
        table: (n+1, t+1) total weight of the coalitions of each kind.
        direct: (t+1,) weight of each subset of T by its size.
        mass: (n-t+1,) the total weight of each |S| where the table comes from a sum over the coalitions S that avoid T
            (:func:`difference_terms`); None where it does not.
    """

    table: np.ndarray
    direct: np.ndarray
    mass: np.ndarray | None = None

    @property
    def players(self) -> int:
        """Return n."""
        return len(self.table) - 1

    @property
    def size(self) -> int:
        """Return t."""
        return len(self.direct) - 1

    def coefficients(self) -> np.ndarray:
        """Return (n+1, t+1) the weight of a single coalition; for n where 2^n is a number of things one can hold."""
        n, t = self.players, self.size
        outside = np.array([float(math.comb(n - t, s)) for s in range(n - t + 1)])
        weight = np.zeros_like(self.table)
        for h in range(t + 1):
            possible = slice(h, h + n - t + 1)
            weight[possible, h] = self.table[possible, h] / (math.comb(t, h) * outside)
        return weight

    def additive(self) -> tuple[float, float]:
        """Return what the value of T is in the game of one player who adds 1: a player in T, a player outside."""
        n, t = self.players, self.size
        u, h = np.arange(n + 1)[:, None], np.arange(t + 1)[None]
        inside = float((self.table * h).sum() / t)
        outside = float((self.table * (u - h)).sum() / (n - t)) if n > t else 0.0
        return inside, outside


def difference_terms(n: int, mass: np.ndarray, change: np.ndarray) -> Terms:
    """Return the terms of ``sum_S p(|S|) sum_{L in T} change[|L|] v(S + L)``, S avoiding T.

    Args:
        n: number of players.
        mass: (n-t+1,) ``C(n-t, s) p(s)``.
        change: (t+1,) coefficients of ``v(S + L)`` by |L|.
    """
    t = len(change) - 1
    table = np.zeros((n + 1, t + 1))
    for h in range(t + 1):
        table[h : h + n - t + 1, h] = mass * change[h] * math.comb(t, h)
    return Terms(table, np.zeros(t + 1), mass)


def joining(t: int) -> np.ndarray:
    """Return (t+1,) the change ``v(S + T) - v(S)``: T joins as one."""
    change = np.zeros(t + 1)
    change[0], change[t] = -1.0, 1.0
    return change


def derivative(t: int) -> np.ndarray:
    """Return (t+1,) the change ``sum_{L in T} (-1)^{t-|L|} v(S + L)``: the discrete derivative."""
    return (-1.0) ** (t - np.arange(t + 1))


def hypergeometric(n: int, t: int) -> np.ndarray:
    """Return (n+1, t+1): the chance that a uniform coalition of u players holds h of the t players of a set."""
    u, h = np.arange(n + 1)[:, None], np.arange(t + 1)[None]
    possible = (h <= u) & (u - h <= n - t)
    log = log_binomial(t, h) + log_binomial(n - t, np.where(possible, u - h, 0)) - log_binomial(n, u)
    return np.where(possible, np.exp(log), 0.0)


def log_binomial(n: np.ndarray | int, k: np.ndarray | int) -> np.ndarray:
    """Return log C(n, k) for 0 <= k <= n."""
    log = log_factorials(int(np.max(n)))
    return log[n] - log[k] - log[np.asarray(n) - k]


@cache
def log_factorials(n: int) -> np.ndarray:
    """Return (n+1,) log 0!, ..., log n!."""
    log = np.array([math.lgamma(k + 1) for k in range(n + 1)])
    log.flags.writeable = False
    return log
