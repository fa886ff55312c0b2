"""The weights of joint Shapley values (Eq. 2), through the chance that the players present ever number r."""

from __future__ import annotations

import numpy as np

from explainers.set_values.terms import Terms, difference_terms, joining, log_binomial


def joint_terms(n: int, order: int) -> tuple[Terms, ...]:
    """Return the terms of sets of 1..order players: ``phi_T = sum_{S avoids T} q_|S| [v(S + T) - v(S)]``.

    Source: Joint Shapley values, Theorem 1.
    """
    log_mass = log_visits(n, order)[:n] - log_choices(n, order)[n:0:-1]
    terms = []
    for t in range(1, order + 1):
        s = np.arange(n - t + 1)
        # C(n-t, s) q_s: q_s alone falls to 1e-48 at n = 150, order 2, and to 1e-308 at n = 1,000, order 3
        mass = np.exp(log_mass[s] + log_binomial(n - t, s) - log_binomial(n, s))
        terms.append(difference_terms(n, mass, joining(t)))
    return tuple(terms)


def log_weights(n: int, order: int) -> np.ndarray:
    """Return (n,) log q_0, ..., log q_{n-1} of Eq. 2.

    >>> np.exp(log_weights(3, 2)).round(6).tolist()
    [0.166667, 0.055556, 0.277778]
    """
    s = np.arange(n)
    return log_visits(n, order)[:n] - log_choices(n, order)[n:0:-1] - log_binomial(n, s)


def log_choices(n: int, order: int) -> np.ndarray:
    """Return (n+1,) the log of the number of sets of 1..order players that can arrive while r wait; r = 0 is unused."""
    log = np.zeros(n + 1)
    for waiting in range(1, n + 1):
        log[waiting] = np.logaddexp.reduce(log_binomial(waiting, np.arange(1, min(order, waiting) + 1)))
    return log


def log_visits(n: int, order: int) -> np.ndarray:
    """Return (n+1,) the log of the chance that at some time exactly r players have arrived (App. A), r = 0..n.

    The next set is uniform among those of at most ``order`` waiting players: from r - j players to r with chance
    ``C(n-r+j, j) / sum_i C(n-r+j, i)``. This is Eq. 2 multiplied out by C(n, r), which keeps every number near 1.
    """
    choices = log_choices(n, order)
    log = np.zeros(n + 1)
    for r in range(1, n + 1):
        j = np.arange(1, min(order, r) + 1)
        waiting = n - r + j
        log[r] = np.logaddexp.reduce(log[r - j] + log_binomial(waiting, j) - choices[waiting])
    return log
