"""Designs: which coalitions and arrangements a method evaluates, and with which weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from explainers.draws import Draws
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


def permutations(rng: np.random.Generator, rows: int, n: int) -> np.ndarray:
    """Return (rows, n) uniform random permutations of 0..n-1."""
    return rng.permuted(np.tile(np.arange(n), (rows, 1)), axis=1)


def slots_of(arrangement: np.ndarray) -> np.ndarray:
    """Return (rows, n): the slot of each player, ``pos_i(sigma) = sigma^{-1}(i)``.

    >>> slots_of(np.array([[1, 2, 0]]))
    array([[2, 0, 1]])
    """
    return np.argsort(arrangement, axis=1)


def log_kernel(n: int) -> np.ndarray:
    """Return log mu(s) for s = 1..n-1, ``mu(s) = (n-1) / (C(n,s) s (n-s))`` (Eq. 11, and KernelSHAP's kernel)."""
    sizes = np.arange(1, n)
    binomial = np.array([math.lgamma(n + 1) - math.lgamma(s + 1) - math.lgamma(n - s + 1) for s in sizes])
    return math.log(max(n - 1, 1)) - binomial - np.log(sizes) - np.log(n - sizes)


def size_probabilities(n: int) -> np.ndarray:
    """Return the kernel's mass on each size 1..n-1, ``C(n,s) mu(s)`` normalised."""
    sizes = np.arange(1, n)
    mass = 1.0 / (sizes * (n - sizes))
    return mass / mass.sum()


def subsets_of_sizes(rng: np.random.Generator, sizes: np.ndarray, n: int) -> np.ndarray:
    """Return (rows, n) boolean: a uniform random subset of each given size."""
    ranks = slots_of(permutations(rng, len(sizes), n)) if len(sizes) else np.zeros((0, n), int)
    return ranks < sizes[:, None]


class PairedCoalitions:
    """Coalitions with sizes drawn from the kernel, each followed by its complement; made on ``device``."""

    def __init__(self, rng: np.random.Generator, n: int, device: torch.device) -> None:
        self.members, self.sizes = Draws(rng, n, device), Draws(rng, 1, device)
        self.ends = torch.from_numpy(size_probabilities(n)).to(device).cumsum(0)

    def take(self, pairs: int) -> torch.Tensor:
        """Return the next (2 pairs, n) boolean."""
        sizes = 1 + torch.searchsorted(self.ends[:-1], self.sizes.uniforms(pairs), right=True)
        kept = self.members.permutations(pairs) < sizes
        return torch.stack([kept, ~kept], dim=1).reshape(2 * pairs, -1)


def walk_coalitions(order: torch.Tensor) -> torch.Tensor:
    """Return (walks, n+1, n) boolean: the coalition before each step of each walk, and the full one at the end.

    Args:
        order: (walks, n) the player that joins at each step.
    """
    walks, n = order.shape
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(n, device=order.device).expand(walks, n))
    return rank[:, None, :] < torch.arange(n + 1, device=order.device)[None, :, None]
