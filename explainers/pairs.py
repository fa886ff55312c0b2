"""Complementary pairs of coalitions, stratified by size and drawn without replacement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from explainers.draws import Draws, first_of
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 20
LISTED = 64
REMEMBERED = 1 << 13  # pairs of the largest layout that is kept for the next sample


@dataclass(frozen=True, eq=False)
class Layout:
    """What of a design is not drawn.

    Attributes:
        n: number of players.
        counts: (n//2,) how many pairs have each size.
        order: (count,) long, where each pair of the design is found among the pairs by size.
        sizes: (count,) long, the size of S.
        weights: (count,) float64, as in :class:`Pairs`.
        missing: (count,) float64, as in :class:`Pairs`.
        pools: (n//2,) float64 on the CPU, as in :class:`Pairs`.
        complete: as in :class:`Pairs`.
    """

    n: int
    counts: list[int]
    order: torch.Tensor
    sizes: torch.Tensor
    weights: torch.Tensor
    missing: torch.Tensor
    pools: np.ndarray
    complete: bool


class Pairs:
    """A design of ``count`` pairs {S, N without S}; S is the smaller half, and the empty coalition takes no part.

    How many pairs have each size is fixed, not drawn. Every beginning of the design has about the same share of each.
    A size of which at least one pair in 64 is in the design is drawn without replacement.

    Attributes:
        count: number of pairs.
        complete: whether these are all pairs that there are.
        sizes: (count,) long, the size of S.
        weights: (count,) float64, the kernel's mass of a size over the pairs drawn of it: the inverse inclusion
            probability times KernelSHAP's weight, up to a constant.
        missing: (count,) float64, the share of the pairs of a size that the design leaves out.
        pools: (n//2,) float64 on the CPU, how many pairs of each size there are; infinite where it was drawn with
            replacement.
    """

    def __init__(
        self, rng: np.random.Generator, n: int, count: int, device: torch.device, lead: int = 0, singles: bool = False
    ) -> None:
        """Lay out the design.

        Its first ``lead`` pairs have the sizes of a design of ``lead``. With ``singles`` all pairs of size 1 are among
        them.
        """
        self.n = n
        self.layout = layout_of(n, count, lead, singles, device)
        self.sizes, self.weights, self.missing = self.layout.sizes, self.layout.weights, self.layout.missing
        self.pools = self.layout.pools
        self.count = len(self.sizes)
        self.complete = self.layout.complete
        self._listed = self._ranks(rng, device)[self.layout.order]
        self._draws = Draws(rng, n, device)

    def _ranks(self, rng: np.random.Generator, device: torch.device) -> torch.Tensor:
        """Return (count,) the place of each pair among all of its size, -1 where a size is too large to list."""
        parts = [torch.zeros(0, dtype=torch.long, device=device)]
        for pool, count in zip(self.pools, self.layout.counts, strict=True):
            if pool < np.inf:
                parts.append(first_of(Draws(rng, int(pool), device).keys(1)[0], count))
            else:
                parts.append(torch.full((count,), -1, device=device))
        return torch.cat(parts)

    def blocks(self, first: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Yield the pairs in blocks: S (rows, n) boolean, weights (rows,) and missing (rows,); to be asked for once.

        The first block has ``first`` pairs where there are as many, and where these are not too large for a block.
        """
        most = largest_block(self.n)
        start, rows = 0, min(first, most)
        while start < self.count or start == 0:
            which = slice(start, start + rows)
            sizes, ranks = self.sizes[which], self._listed[which]
            drawn = ranks < 0
            if not bool(drawn.any()):
                kept = listed_subsets(self.n, sizes, ranks)
            else:
                kept = torch.zeros((len(sizes), self.n), dtype=torch.bool, device=sizes.device)
                kept[drawn] = random_subsets(self._draws, sizes[drawn])
                kept[~drawn] = listed_subsets(self.n, sizes[~drawn], ranks[~drawn])
            yield kept, self.weights[which], self.missing[which]
            start, rows = start + rows, most


def layout_of(n: int, count: int, lead: int, singles: bool, device: torch.device) -> Layout:
    """Return :func:`laid_out`, remembered where it is not large: samples of one length and one budget share it."""
    return (remembered if count <= REMEMBERED else laid_out)(n, count, lead, singles, device)


def laid_out(n: int, count: int, lead: int, singles: bool, device: torch.device) -> Layout:
    """Lay out a design, arguments as in :class:`Pairs`."""
    pools = pools_of(n)
    counts = counts_of(n, pools, count, singles)
    leads = np.minimum(counts_of(n, pools, lead, singles), counts) if lead else counts
    sizes = np.repeat(np.arange(1, len(counts) + 1), counts)
    parts = zip(leads, counts, strict=True)
    moments = np.concatenate([np.zeros(0), *(moment for a, c in parts for moment in (evenly(a), 1 + evenly(c - a)))])
    order = np.argsort(moments, kind="stable")
    shares = counts / np.array([float(min(pool, 2**62)) for pool in pools])
    listed = [pool <= LISTED * number for pool, number in zip(pools, counts.tolist(), strict=True)]
    which = sizes[order] - 1
    by_row = (order, sizes[order], (masses(n) / counts)[which], 1 - shares[which])
    places, of_size, weights, missing = (torch.from_numpy(part).to(device) for part in by_row)
    known = np.array([float(pool) if all_ else np.inf for pool, all_ in zip(pools, listed, strict=True)])
    return Layout(n, counts.tolist(), places, of_size, weights, missing, known, len(order) == sum(pools))


remembered = lru_cache(maxsize=64)(laid_out)


def halves(kept: torch.Tensor, outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x (r, n), 1 for a kept player and -1 for another, and ``v(S) - v(N without S)`` (r,).

    Args:
        kept: (r, n) the coalitions S.
        outputs: (2 r,) of the coalitions, then of their complements.
    """
    return kept.double() * 2 - 1, outputs[: len(kept)] - outputs[len(kept) :]


def largest_block(n: int) -> int:
    """Return how many pairs of coalitions of n players a block has at most."""
    return max(1, BLOCK_ENTRIES // n)


def pools_of(n: int) -> list[int]:
    """Return how many pairs there are of each smaller size 1..n//2; the two halves of a pair count once."""
    return [math.comb(n - 1, size) if 2 * size == n else math.comb(n, size) for size in range(1, n // 2 + 1)]


def masses(n: int) -> np.ndarray:
    """Return KernelSHAP's mass ``C(n,s) mu(s)`` of the pairs of each smaller size 1..n//2, up to a constant."""
    sizes = np.arange(1, n // 2 + 1)
    return np.where(2 * sizes == n, 0.5, 1.0) / (sizes * (n - sizes))


def evenly(count: int) -> np.ndarray:
    """Return (count,) places spread evenly over [0, 1)."""
    return (np.arange(count) + 0.5) / count


def counts_of(n: int, pools: list[int], count: int, singles: bool = False) -> np.ndarray:
    """Return how many of ``count`` pairs have each smaller size 1..n//2: all of a size where they fit, or are wished.

    In proportion to mass times the length of a centred coalition vector: with residuals of equal variance the
    variance of the least squares is smallest (Neyman's allocation).
    """
    sizes = np.arange(1, n // 2 + 1)
    wish = masses(n) * np.sqrt(sizes * (n - sizes))
    most = np.array([min(pool, count) for pool in pools], dtype=float)
    counts, free = np.zeros(len(sizes)), np.ones(len(sizes), dtype=bool)
    if singles:
        counts[:1], free[:1] = most[:1], False
    while free.any():
        share = (min(count, sum(pools)) - counts[~free].sum()) * wish / wish[free].sum()
        full = free & (share >= most)
        counts[free] = np.where(full, most, share)[free]
        free &= ~full
        if not full.any():
            break
    whole = np.diff(np.round(np.cumsum(counts)), prepend=0).astype(int)
    empty = whole == 0
    if empty.any():
        whole[empty] = 1
        whole[whole.argmax()] -= empty.sum()
    return whole


def random_subsets(draws: Draws, sizes: torch.Tensor) -> torch.Tensor:
    """Return (rows, n) boolean: a uniform random subset of each size."""
    keys = draws.keys(len(sizes))
    on_cpu = keys.device.type == "cpu"  # where numpy sorts short rows three times as fast
    ordered = torch.from_numpy(np.sort(keys.numpy(), axis=1)) if on_cpu else keys.sort(dim=1).values
    return keys <= ordered.gather(1, sizes[:, None] - 1)


def listed_subsets(n: int, sizes: torch.Tensor, ranks: torch.Tensor) -> torch.Tensor:
    """Return (rows, n) boolean: the subset of each size with each rank in colexicographic order.

    The first C(n - 1, s) of size s are those without the last player: one of each pair where 2 s = n.

    >>> listed_subsets(4, torch.tensor([2, 2, 2]), torch.tensor([0, 1, 5])).int().tolist()
    [[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]]
    """
    kept, size, left = np.zeros((len(sizes), n), dtype=bool), sizes.cpu().numpy(), ranks.cpu().numpy().copy()
    for place in range(int(size.max(initial=0)), 0, -1):
        rows = np.flatnonzero(size >= place)
        below = ranks_before(n, place)
        player = np.searchsorted(below, left[rows], side="right") - 1
        kept[rows, player] = True
        left[rows] -= below[player]
    return torch.from_numpy(kept).to(sizes.device)


@lru_cache(maxsize=1024)
def ranks_before(n: int, place: int) -> np.ndarray:
    """Return (n,) how many subsets of ``place`` players are wholly before each player."""
    return np.array([math.comb(player, place) for player in range(n)])
