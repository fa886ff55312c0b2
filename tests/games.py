"""Games with known answers, and naive replicas to compare with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch

from explainers import Game

HAT, BAG, GLOVE, NOTHING = 1, 2, 3, 0


def toy_payoff(tokens: torch.Tensor) -> torch.Tensor:
    """Return the payoff of the OrdShap paper's section 4.3: hats and glove pairs count after the first bag."""
    seen = (tokens == BAG).cumsum(1) > 0
    hats = ((tokens == HAT) & seen).sum(1)
    right = ((tokens == GLOVE) & seen).sum(1)
    left = ((tokens == GLOVE + 1) & seen).sum(1)
    return (3 * hats + 2 * torch.minimum(left, right)).double()


def toy_game() -> Game:
    """Return the toy of section 4.3: [Hat, Hat, Hat, Bag, RGlove, RGlove]."""
    return Game.from_function(toy_payoff, torch.tensor([[HAT, HAT, HAT, BAG, GLOVE, GLOVE]]), NOTHING)


def ordered_game(w: Callable[[tuple[int, ...]], float], n: int) -> Game:
    """Return the game of ``w`` on tuples of slots: the player in each slot, or -1 where it is absent."""
    memory: dict[tuple[int, ...], float] = {}

    def f(tokens: torch.Tensor) -> torch.Tensor:
        out = []
        for row in (tokens - 1).tolist():
            key = tuple(row)
            if key not in memory:
                memory[key] = w(key)
            out.append(memory[key])
        return torch.tensor(out, dtype=torch.float64)

    return Game.from_function(f, torch.arange(1, n + 1)[None], 0)


def random_ordered_game(n: int, seed: int) -> tuple[Game, Callable[[tuple[int, ...]], float]]:
    """Return a game with an independent random number for every placement, and the function itself."""
    rng = np.random.default_rng(seed)
    memory: dict[tuple[int, ...], float] = {}

    def w(slots: tuple[int, ...]) -> float:
        if slots not in memory:
            memory[slots] = float(rng.normal())
        return memory[slots]

    for slots in itertools.product(range(-1, n), repeat=n):
        w(slots)
    return ordered_game(w, n), w


class PairOrderGame:
    """The closed form of ``docs/methods.md``: linear position effects and effects of who comes before whom."""

    def __init__(self, n: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n = n
        self.a, self.b = rng.normal(size=n), rng.normal(size=n) / n
        self.c = rng.normal(size=(n, n)) / n
        np.fill_diagonal(self.c, 0.0)

    def game(self) -> Game:
        """Return the game; tokens are players plus one, 0 is absent."""
        n = self.n
        a = torch.tensor(np.concatenate([[0.0], self.a]))
        b = torch.tensor(np.concatenate([[0.0], self.b]))
        c = torch.zeros((n + 1, n + 1), dtype=torch.float64)
        c[1:, 1:] = torch.tensor(self.c)
        away = torch.arange(n, dtype=torch.float64) - (n - 1) / 2

        def f(tokens: torch.Tensor) -> torch.Tensor:
            linear = (a[tokens] + b[tokens] * away).sum(1)
            one_hot = torch.nn.functional.one_hot(tokens, n + 1).double()
            before = one_hot.cumsum(1) - one_hot
            return linear + ((before @ c) * one_hot).sum((1, 2))

        return Game.from_function(f, torch.arange(1, n + 1)[None], 0, batch_tokens=n * 256)

    def gamma(self) -> np.ndarray:
        """Return the exact gamma (n, n)."""
        n = self.n
        slot = np.arange(1, n + 1)
        away = slot - (n + 1) / 2
        out, into = self.c.sum(1), self.c.sum(0)
        pairs = out[:, None] * (n - slot) / (n - 1) + into[:, None] * (slot - 1) / (n - 1)
        return self.a[:, None] + self.b[:, None] * away + 0.5 * pairs


def naive_gamma(w: Callable[[tuple[int, ...]], float], n: int) -> np.ndarray:
    """Return gamma by Eq. 8 read literally: all S and all sigma, slots 0-based."""
    gamma = np.zeros((n, n))
    players = range(n)
    for sigma in itertools.permutations(players):
        for size in range(1, n + 1):
            weight = math.factorial(size - 1) * math.factorial(n - size) / (math.factorial(n - 1) * math.factorial(n))
            for coalition in itertools.combinations(players, size):
                inside = set(coalition)
                whole = w(tuple(p if p in inside else -1 for p in sigma))
                for i in coalition:
                    without = w(tuple(p if p in inside and p != i else -1 for p in sigma))
                    gamma[i, sigma.index(i)] += weight * (whole - without)
    return gamma


def naive_shapley(v: Callable[[frozenset[int]], float], n: int) -> np.ndarray:
    """Return Shapley values as the mean marginal contribution over all orders."""
    value = np.zeros(n)
    for order in itertools.permutations(range(n)):
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            value[player] += v(before | {player}) - v(before)
    return value / math.factorial(n)


def naive_sanchez_bergantinos(w: Callable[[tuple[int, ...]], float], n: int) -> np.ndarray:
    """Return the Sanchez-Bergantinos value (Eq. 4) of the game omega of Eq. 21, read literally."""

    def omega(order: tuple[int, ...]) -> float:
        inside = set(order)
        sums = [
            w(tuple(p if p in inside else -1 for p in sigma))
            for sigma in itertools.permutations(range(n))
            if tuple(p for p in sigma if p in inside) == order
        ]
        return math.factorial(len(order)) / math.factorial(n) * sum(sums)

    value = np.zeros(n)
    for i in range(n):
        others = [p for p in range(n) if p != i]
        for size in range(n):
            weight = math.factorial(n - size - 1) / (math.factorial(n) * (size + 1))
            for coalition in itertools.combinations(others, size):
                for order in itertools.permutations(coalition):
                    for place in range(size + 1):
                        grown = (*order[:place], i, *order[place:])
                        value[i] += weight * (omega(grown) - omega(order))
    return value
