"""The weights of four indices of sets of players, as section 4.1 of the joint Shapley paper defines them."""

from __future__ import annotations

import numpy as np

from explainers.set_values.terms import (
    Terms,
    derivative,
    difference_terms,
    hypergeometric,
    joining,
    log_factorials,
)


def shapley_interaction(n: int, order: int) -> tuple[Terms, ...]:
    """Return the terms of the Shapley interaction index (Grabisch and Roubens 1999): all sizes of S weigh the same."""
    return tuple(difference_terms(n, even(n - t), derivative(t)) for t in range(1, order + 1))


def generalised_shapley(n: int, order: int) -> tuple[Terms, ...]:
    """Return the terms of the generalised Shapley value (Marichal et al. 2007): all sizes of S weigh the same."""
    return tuple(difference_terms(n, even(n - t), joining(t)) for t in range(1, order + 1))


def shapley_taylor(n: int, order: int) -> tuple[Terms, ...]:
    """Return the terms of the Shapley-Taylor index (Dhamdhere et al. 2020).

    Sets below the order have their discrete derivative at the empty coalition, sets of ``order`` players
    ``order/n sum_S C(n-1, s)^-1`` times the derivative at S.
    """
    below = [Terms(np.zeros((n + 1, t + 1)), derivative(t)) for t in range(1, order)]
    s = np.arange(n - order + 1)
    mass = np.full(len(s), order / n)
    for j in range(1, order):  # C(n-order, s) / C(n-1, s)
        mass *= (n - s - j) / (n - j)
    return (*below, difference_terms(n, mass, derivative(order)))


def added_value(n: int, order: int) -> tuple[Terms, ...]:
    """Return the terms of the added value (Alshebli et al. 2019): v(T) minus its players' mean Shapley values.

    The mean runs over all subgames that the player belongs to: their size less one is binomial (n-1, 1/2), and within
    a subgame of r players the number of predecessors is uniform on 0..r-1.
    """
    r = np.arange(1, n + 1)
    log = log_factorials(n)
    subgames = np.exp(log[n - 1] - log[r - 1] - log[n - r] - (n - 1) * np.log(2.0))
    predecessors = np.cumsum((subgames / r)[::-1])[::-1]
    return tuple(without_singles(n, t, predecessors) for t in range(1, order + 1))


def without_singles(n: int, t: int, mass: np.ndarray) -> Terms:
    """Return the terms of ``v(T)`` minus the sum over i in T of the single values whose sizes have ``mass`` (n,)."""
    u, h = np.arange(n + 1)[:, None], np.arange(t + 1)[None]
    before = np.concatenate([[0.0], mass])[:, None]  # by u = s + 1: the player is in U
    after = np.concatenate([mass, [0.0]])[:, None]  # by u = s: it is not
    gain = h * before * n / np.maximum(u, 1) - (t - h) * after * n / np.maximum(n - u, 1)
    direct = np.zeros(t + 1)
    direct[t] = 1.0
    return Terms(-hypergeometric(n, t) * gain, direct)


def even(sizes: int) -> np.ndarray:
    """Return (sizes+1,) equal weights of 0..sizes that sum to 1."""
    return np.full(sizes + 1, 1 / (sizes + 1))
