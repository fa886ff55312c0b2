"""Worths of coalitions as numpy arrays, and means of independent replicates with their spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22


def worths(game: Game, sample: int, kept: np.ndarray) -> np.ndarray:
    """Return v (rows,) of the coalitions (rows, n)."""
    return game.evaluate(sample, torch.from_numpy(kept)).cpu().numpy()


def coalitions(members: np.ndarray, n: int) -> np.ndarray:
    """Return (count, n) boolean from the players (count, size) of each coalition."""
    kept = np.zeros((len(members), n), dtype=bool)
    np.put_along_axis(kept, members, True, axis=1)
    return kept


def member_worths(game: Game, sample: int, members: np.ndarray) -> np.ndarray:
    """Return v (count,) of the coalitions (count, size) given by their players, in blocks."""
    rows = max(1, BLOCK_ENTRIES // game.n)
    blocks = [members[start : start + rows] for start in range(0, len(members), rows)]
    return np.concatenate([worths(game, sample, coalitions(block, game.n)) for block in blocks])


class Spread:
    """Means over independent replicates of many quantities, and their standard errors, from blocks of replicates.

    Blocks are merged by their own means (Chan et al. 1983): sums of squares would cancel.
    """

    def __init__(self, quantities: int) -> None:
        self.mean = np.zeros(quantities)
        self.squares = np.zeros(quantities)

    def add(self, where: slice, mean: np.ndarray, within: np.ndarray, count: int, before: int) -> None:
        """Add ``count`` replicates of the quantities ``where`` to the ``before`` that were added already.

        Args:
            where: which quantities.
            mean: (k,) their means over the block.
            within: (k,) their squared deviations from these, summed.
            count: replicates in the block.
            before: replicates in all blocks before.
        """
        apart = mean - self.mean[where]
        self.mean[where] += apart * (count / (before + count))
        self.squares[where] += within + apart**2 * (before * count / (before + count))

    def stderr(self, replicates: int) -> np.ndarray:
        """Return the standard errors of the means (quantities,) of at least two replicates."""
        return np.sqrt(self.squares / (replicates - 1) / replicates)
