"""Random draws made on any device: the same numbers everywhere, whatever the size of the blocks they are asked in.

A counter-based generator (splitmix64 of a counter, Steele et al. 2014): row r of a stream depends on the stream's
64-bit key and on r alone, so nothing is drawn on the CPU and moved, and no result hangs on how rows are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
FIRST_MIX = -4658895280553007687  # 0xBF58476D1CE4E5B9
SECOND_MIX = -7723592293110705685  # 0x94D049BB133111EB
FEW = 1 << 14


class Draws:
    """An endless sequence of rows of ``n`` random 64-bit keys on ``device``; each call goes on where the last ended."""

    def __init__(self, rng: np.random.Generator, n: int, device: torch.device) -> None:
        self.key = int(rng.integers(-(2**63), 2**63 - 1))
        self.n = n
        self.device = device
        self.done = 0

    def keys(self, rows: int) -> torch.Tensor:
        """Return the next (rows, n) keys, long, uniform over all 64-bit integers."""
        start = self.done * self.n
        self.done += rows
        if self.device.type == "cpu" and rows * self.n <= FEW:
            return torch.from_numpy(splitmix64_few(start, rows * self.n, self.key).reshape(rows, self.n))
        counter = torch.arange(start, start + rows * self.n, device=self.device).view(rows, self.n)
        return splitmix64(counter, self.key)

    def permutations(self, rows: int) -> torch.Tensor:
        """Return the next (rows, n) uniform random permutations of 0..n-1, long."""
        return order_of(self.keys(rows))

    def uniforms(self, rows: int) -> torch.Tensor:
        """Return the next (rows, n) numbers in [0, 1), float64."""
        return shifted_right(self.keys(rows), 11).double() * 2.0**-53


def order_of(keys: torch.Tensor) -> torch.Tensor:
    """Return the places (rows, n) of each row's keys in ascending order; numpy sorts short rows far faster on a CPU."""
    if keys.device.type == "cpu":
        return torch.from_numpy(np.argsort(keys.numpy(), axis=1, kind="stable"))
    return torch.argsort(keys, dim=1, stable=True)


def first_of(keys: torch.Tensor, count: int) -> torch.Tensor:
    """Return the places (count,) of the smallest of ``keys`` (m,), which do not repeat, in ascending order."""
    if keys.device.type == "cpu" and 0 < count < len(keys):
        values = keys.numpy()
        some = np.argpartition(values, count)[:count]
        return torch.from_numpy(some[np.argsort(values[some])])
    return order_of(keys[None])[0, :count]


def splitmix64(counter: torch.Tensor, key: int) -> torch.Tensor:
    """Return the splitmix64 outputs of a stream at each place of ``counter`` (long, any shape).

    >>> import torch
    >>> (splitmix64(torch.tensor([0]), 0) == -2152535657050944081).item()  # the reference generator's first output
    True
    """
    state = (counter + 1) * GOLDEN + key
    state = (state ^ shifted_right(state, 30)) * FIRST_MIX
    state = (state ^ shifted_right(state, 27)) * SECOND_MIX
    return state ^ shifted_right(state, 31)


def splitmix64_few(start: int, count: int, key: int) -> np.ndarray:
    """Return :func:`splitmix64` of the places from ``start`` on (count,) int64; numpy calls are the cheapest on few."""
    state = np.arange(start + 1, start + count + 1, dtype=np.int64).view(np.uint64)
    state *= np.uint64(GOLDEN % 2**64)
    state += np.uint64(key % 2**64)
    state ^= state >> np.uint64(30)
    state *= np.uint64(FIRST_MIX % 2**64)
    state ^= state >> np.uint64(27)
    state *= np.uint64(SECOND_MIX % 2**64)
    state ^= state >> np.uint64(31)
    return state.view(np.int64)


def shifted_right(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return 64-bit words shifted right, zeros coming in (torch's own shift keeps the sign)."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def inverse(permutation: torch.Tensor) -> torch.Tensor:
    """Return the inverse of each row (rows, n): the slot of each player, ``pos_i(sigma) = sigma^{-1}(i)``.

    >>> import torch
    >>> inverse(torch.tensor([[1, 2, 0]]))
    tensor([[2, 0, 1]])
    """
    slots = torch.empty_like(permutation)
    places = torch.arange(permutation.shape[1], device=permutation.device).expand_as(permutation)
    return slots.scatter_(1, permutation, places)
