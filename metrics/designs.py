"""Which rows a metric evaluates: the players that are kept, in which arrangement, along the grid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from explainers import Explanation
from explainers.designs import permutations as random_permutations
from explainers.streams import stream
from metrics.ranking import counts, descending, grid, has_ties, tolerance

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Rows:
    """The rows of one sample with n players, for g grid points in each of some rounds.

    Attributes:
        kept: (rounds, g, n) boolean by player.
        arrangement: (rounds, g, n) the player in each slot.
    """

    kept: np.ndarray
    arrangement: np.ndarray


@dataclass(frozen=True)
class Design(ABC):
    """How an attribution becomes rows; equal designs make equal rows.

    Attributes:
        grid_step: percent of the players.
        tie_orders: least number of rounds where attributions tie; each round breaks ties in its own random order.
    """

    grid_step: int
    tie_orders: int

    @abstractmethod
    def attribution(self, explanation: Explanation) -> torch.Tensor:
        """Return the (b, n) attribution that ranks the players."""

    @abstractmethod
    def rows(self, attribution: np.ndarray, seed: int, key: str) -> Rows:
        """Return the rows of the sample called ``key`` from its finite attribution (n,), n >= 1."""


@dataclass(frozen=True)
class Masks(Design):
    """Keep the top k% or the rest, ablate the others, then rearrange.

    Attributes:
        keep: "top" keeps the k% with the largest signed attribution, "rest" ablates them.
        permutations: random arrangements of each sample; 0 keeps the original order.
    """

    keep: Literal["top", "rest"]
    permutations: int

    def attribution(self, explanation: Explanation) -> torch.Tensor:
        """Return the value attribution."""
        return explanation.value

    def rows(self, attribution: np.ndarray, seed: int, key: str) -> Rows:
        """Return the masked rows; round r takes arrangement ``r mod permutations`` and tie order r.

        With ties there are at least ``tie_orders`` rounds, each arrangement in equally many of them.
        """
        n = len(attribution)
        arrangements = self.arrangements(n, seed, key)
        repeats = -(-self.tie_orders // len(arrangements)) if has_ties(attribution) else 1
        arrangements = np.tile(arrangements, (repeats, 1))
        order = descending(attribution, len(arrangements), seed, key)
        rank = np.argsort(order, axis=1)
        top = rank[:, None, :] < counts(grid(self.grid_step), n)[None, :, None]
        kept = top if self.keep == "top" else ~top
        return Rows(kept, np.broadcast_to(arrangements[:, None, :], kept.shape))

    def arrangements(self, n: int, seed: int, key: str) -> np.ndarray:
        """Return (permutations, n) from the stream (seed, "metric permutations", key): the same for every method."""
        if self.permutations == 0:
            return np.arange(n)[None]
        return random_permutations(stream(seed, "metric permutations", key), self.permutations, n)


@dataclass(frozen=True)
class Moves(Design):
    """Move the k% of players with the largest magnitude: negative ones to the front, positive ones to the end."""

    def attribution(self, explanation: Explanation) -> torch.Tensor:
        """Return the position importance, where a method has one (slope before beta); else its attribution."""
        if explanation.position is not None:
            return explanation.position
        return explanation.value if explanation.position_ls is None else explanation.position_ls

    def rows(self, attribution: np.ndarray, seed: int, key: str) -> Rows:
        """Return the rearranged rows, every player kept; a player of attribution 0 does not move."""
        n = len(attribution)
        rounds = self.tie_orders if has_ties(np.abs(attribution)) else 1
        order = descending(np.abs(attribution), rounds, seed, key)
        sign = np.where(np.abs(attribution) > tolerance(attribution), np.sign(attribution), 0)
        arrangement = np.array([[moved(o[:k], sign) for k in counts(grid(self.grid_step), n)] for o in order])
        return Rows(np.ones(arrangement.shape, dtype=bool), arrangement)


def moved(chosen: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Return the (n,) arrangement after moving ``chosen``, ordered from the most extreme player down.

    The most extreme negative player comes first, the most extreme positive one last, and all that are not moved keep
    their order in between.

    >>> moved(np.array([3, 0, 1]), np.array([-1, 1, 1, -1, 1]))
    array([3, 0, 2, 4, 1])
    """
    front = chosen[sign[chosen] < 0]
    end = chosen[sign[chosen] > 0][::-1]
    stay = np.setdiff1d(np.arange(len(sign)), np.concatenate([front, end]))
    return np.concatenate([front, stay, end])
