"""Values of sets of players as the joint Shapley paper defines them, in whatever numbers the game gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import torch

from explainers import Game

Coalition = frozenset[int]
Worth = Callable[[Coalition], Any]


def subsets(players: Coalition) -> Iterator[Coalition]:
    for size in range(len(players) + 1):
        yield from map(frozenset, combinations(sorted(players), size))


def sets_up_to(n: int, order: int) -> list[tuple[int, ...]]:
    return [members for size in range(1, order + 1) for members in combinations(range(n), size)]


def naive_weights(n: int, k: int) -> list[Fraction]:
    """Return q_0..q_{n-1} by Eq. 2."""
    q = [Fraction(1, sum(math.comb(n, i) for i in range(1, k + 1)))]
    for r in range(1, n):
        above = sum(math.comb(r, s) * q[s] for s in range(max(r - k, 0), r))
        q.append(above / sum(math.comb(n - r, s) for s in range(1, min(k, n - r) + 1)))
    return q


def naive_joint(v: Worth, n: int, k: int) -> dict[tuple[int, ...], Any]:
    """Return the joint Shapley values by Theorem 1, v(empty) taken off."""
    q = naive_weights(n, k)
    everyone = frozenset(range(n))
    return {t: sum(q[len(s)] * (v(s | set(t)) - v(s)) for s in subsets(everyone - set(t))) for t in sets_up_to(n, k)}


def derivative(v: Worth, t: Coalition, s: Coalition) -> Any:
    return sum((-1) ** (len(t) - len(inner)) * v(s | inner) for inner in subsets(t))


def naive_si(v: Worth, n: int, t: Coalition, k: int) -> Any:
    rest = n - len(t)
    everyone = frozenset(range(n))
    return sum(Fraction(1, (rest + 1) * math.comb(rest, len(s))) * derivative(v, t, s) for s in subsets(everyone - t))


def naive_gs(v: Worth, n: int, t: Coalition, k: int) -> Any:
    rest = n - len(t)
    everyone = frozenset(range(n))

    def weight(s: Coalition) -> Fraction:
        return Fraction(math.factorial(rest - len(s)) * math.factorial(len(s)), math.factorial(rest + 1))

    return sum(weight(s) * (v(s | t) - v(s)) for s in subsets(everyone - t))


def naive_av(v: Worth, n: int, t: Coalition, k: int) -> Any:
    everyone = frozenset(range(n))

    def shapley(i: int, players: Coalition) -> Any:
        size = len(players)
        return sum(
            Fraction(math.factorial(len(c)) * math.factorial(size - len(c) - 1), math.factorial(size))
            * (v(c | {i}) - v(c))
            for c in subsets(players - {i})
        )

    means = [Fraction(1, 2 ** (n - 1)) * sum(shapley(i, s | {i}) for s in subsets(everyone - {i})) for i in sorted(t)]
    return v(t) - v(frozenset()) - sum(means)


def naive_st(v: Worth, n: int, t: Coalition, k: int) -> Any:
    if len(t) < k:
        return derivative(v, t, frozenset())
    everyone = frozenset(range(n))
    return sum(Fraction(k, n * math.comb(n - 1, len(s))) * derivative(v, t, s) for s in subsets(everyone - t))


NAIVE = {"SI": naive_si, "GS": naive_gs, "AV": naive_av, "ST": naive_st}


def naive_index(name: str, v: Worth, n: int, k: int) -> dict[tuple[int, ...], Any]:
    """Return an index of all sets of at most k players by the formulas of section 4.1."""
    return {t: NAIVE[name](v, n, frozenset(t), k) for t in sets_up_to(n, k)}


def majority(coalition: Coalition) -> Fraction:
    return Fraction(len(coalition) >= 2)


def with_crosses(c: Fraction) -> Worth:
    return lambda coalition: len(coalition) + c * max(0, len(coalition) - 2)


def game_of(v: Worth, n: int) -> Game:
    """Return the game of a set function on frozensets."""

    def f(kept: torch.Tensor) -> torch.Tensor:
        worths = [float(v(frozenset(np.flatnonzero(row).tolist()))) for row in kept.numpy()]
        return torch.tensor(worths, dtype=torch.float64)

    return Game.from_set_function(f, n)


def table_game(worth: np.ndarray) -> Game:
    """Return the game of v (2^n,), where bit i of the place tells whether player i is there."""
    n = len(worth).bit_length() - 1
    codes = torch.from_numpy(2 ** np.arange(n))
    return Game.from_set_function(lambda kept: torch.from_numpy(worth)[kept.long() @ codes], n)


def worth_of(worth: np.ndarray) -> Worth:
    """Return the same as a function of frozensets."""
    return lambda coalition: float(worth[sum(1 << i for i in coalition)])


def smooth_game(n: int, seed: int = 0, empty: float = 0.0) -> Game:
    """Return a game of main effects and pairs under a saturating function, at any n."""
    rng = np.random.default_rng(seed)
    main = torch.tensor(rng.normal(size=n) / n**0.5)
    pairs = torch.tensor(np.triu(rng.normal(size=(n, n)), 1) / n)

    def v(kept: torch.Tensor) -> torch.Tensor:
        x = kept.double()
        return torch.tanh(x @ main + ((x @ pairs) * x).sum(1)) + empty

    return Game.from_set_function(v, n)


def as_dict(explanation: Any, sample: int = 0) -> dict[tuple[int, ...], float]:
    """Return one sample's values by set."""
    table = explanation.sets[explanation.sets["sample"] == sample]
    return dict(zip(table["set"], table["value"], strict=True))


def as_fractions(values: dict[tuple[int, ...], float], largest: int = 2000) -> dict[tuple[int, ...], Fraction]:
    """Return the rationals of small denominator that float values are, within 1e-12."""
    found = {members: Fraction(value).limit_denominator(largest) for members, value in values.items()}
    assert all(abs(float(found[members]) - value) < 1e-12 for members, value in values.items())
    return found
