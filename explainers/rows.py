"""Rows of tokens told apart: a hash of each row, and which of them are distinct."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy
from explainers.streams import stream

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 20


def row_hashes(inputs: torch.Tensor) -> torch.Tensor:
    """Return a 64-bit hash (rows,) long of each row of ``inputs`` (rows, width), integers or booleans."""
    rows, width = inputs.shape
    factors = hash_factors(width, inputs.device)
    hashes = torch.zeros(rows, dtype=torch.long, device=inputs.device)
    block = max(1, BLOCK_ENTRIES // max(1, width))
    for start in range(0, rows, block):
        hashes[start : start + block] = (inputs[start : start + block] * factors).sum(1)
    return hashes


def distinct_rows(inputs: torch.Tensor, hashes: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of one representative of each distinct row, and for each row its representative's rank.

    Rows with distinct hashes are distinct, rows with equal ones are compared; the (never seen) collision falls back
    to a full sort.

    Args:
        inputs: (rows, width) integers or booleans.
        hashes: what :func:`row_hashes` says of them, where it is known.
    """
    hashes = row_hashes(inputs) if hashes is None else hashes
    first, inverse, again = (torch.from_numpy(part).to(inputs.device) for part in grouped(hashes.cpu().numpy()))
    if len(again) and not torch.equal(inputs[again], inputs[first[inverse[again]]]):
        _, exact = torch.unique(inputs, dim=0, return_inverse=True)
        first, inverse, _ = (torch.from_numpy(part).to(inputs.device) for part in grouped(exact.cpu().numpy()))
    return first, inverse


def grouped(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group equal entries of ``labels`` (rows,): in numpy, whose sort and small operations are the fastest there are.

    Returns:
        the first index of each distinct label in order of appearance, each entry's rank among them, and the indices
        that are not the first of their label.
    """
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    fresh = np.ones(len(labels), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        places = np.arange(len(labels))
        return places, places, places[:0]
    first = order[fresh]
    appearance = np.argsort(first)
    rank = np.empty_like(appearance)
    rank[appearance] = np.arange(len(first))
    inverse = np.empty_like(order)
    inverse[order] = rank[np.cumsum(fresh) - 1]
    return first[appearance], inverse, order[~fresh]


@lru_cache(maxsize=64)
def hash_factors(width: int, device: torch.device) -> torch.Tensor:
    """Return fixed odd 64-bit factors (width,), one a place."""
    draws = stream(0, "row hash", str(width)).integers(-(2**62), 2**62, size=width) * 2 + 1
    return torch.from_numpy(draws).to(device)
