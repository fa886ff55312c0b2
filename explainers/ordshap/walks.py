"""The project's own estimator: paired walks over coalitions under shifted arrangements.

One walk adds the players one by one under a fixed arrangement; every player's marginal contribution falls into
its own slot, so gamma, VI and PI come from the same evaluations. Variance is taken out three ways: a coalition
order is walked forwards and backwards, an arrangement comes with its mirror image, and the slots are shifted
cyclically (a Latin square), so that after n shifts every player has been in every slot equally often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import permutations, slots_of, walk_coalitions
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.ordshap.cells import Cells, slope, straight_matrix

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22


def walks(game: Game, sample: int, rng: np.random.Generator, budget: int) -> SampleExplanation:
    """Estimate gamma, VI and PI of one sample from pairs of walks.

    ``value`` is the mean of all marginal contributions: unbiased, and efficient (it sums to the mean of
    ``w(N, sigma)`` over the arrangements used, minus ``w(empty)``, up to rounding). Where every cell was reached
    (always from ``1 + 2n (2n - 1)`` evaluations on) ``matrix`` holds the cell means, moved by a constant a row to
    have mean ``value``, and ``position`` is their slope: unbiased whenever the shifts are complete, else consistent.
    Below that ``matrix`` is the straight line through each player's marginals (``observed_cells`` in the audit
    tells), and ``position`` its slope: exact in expectation where gamma is linear in the slot, else only close.

    Evaluations: ``1 + P (2n - 1)`` for P pairs, at most ``budget``.
    """
    n = game.n
    pairs = max(1, (budget - 1) // max(1, 2 * n - 1))
    empty = game.evaluate(sample, torch.zeros((1, n), dtype=torch.bool))[0]
    cells = Cells(n, game.device)
    total_full = torch.zeros((), dtype=torch.float64, device=game.device)
    block = max(1, BLOCK_ENTRIES // (2 * n * n))
    schedule = Schedule(rng, n)
    for start in range(0, pairs, block):
        arrangement, order = schedule.take(min(block, pairs - start))
        total_full += add_pairs(game, sample, cells, arrangement, order, empty)
    value = cells.sums.sum(1) / cells.counts.sum(1)
    unseen = cells.empty()
    if unseen:
        _, position = cells.line()
        matrix = straight_matrix(value, position)
    else:
        matrix = cells.means()
        matrix = matrix + (value - matrix.mean(1))[:, None]
        position = slope(matrix)
    full = total_full / pairs - empty
    audit = {
        "efficiency_gap": float(value.sum() - full),
        "observed_cells": 1 - unseen / n**2,
        "pairs": float(pairs),
    }
    return SampleExplanation(value, position, matrix=matrix, audit=audit)


class Schedule:
    """The endless sequence of (arrangement, coalition order) pairs; how it is cut into blocks changes nothing.

    A base arrangement is shifted through all n slots, far apart first; each shift is used as it is and mirrored.
    """

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self.n = n
        self.bases, self.orders = rng.spawn(2)
        self.waiting = np.zeros((0, n), dtype=np.int64)

    def take(self, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the next ``pairs`` slots' occupants (pairs, n) and orders of arrival (pairs, n)."""
        while len(self.waiting) < pairs:
            self.waiting = np.concatenate([self.waiting, self.cycle()])
        arrangement, self.waiting = self.waiting[:pairs], self.waiting[pairs:]
        return arrangement, permutations(self.orders, pairs, self.n)

    def cycle(self) -> np.ndarray:
        """Return (2n, n): one base arrangement under all shifts, each followed by its mirror image."""
        base = permutations(self.bases, 1, self.n)[0]
        shifts = (spread(self.n) + self.bases.integers(self.n)) % self.n
        shifted = base[(np.arange(self.n)[None, :] - shifts[:, None]) % self.n]
        return np.stack([shifted, shifted[:, ::-1]], axis=1).reshape(2 * self.n, self.n)


def spread(n: int) -> np.ndarray:
    """Return 0..n-1 reordered so that every beginning of it covers the range evenly (golden-ratio sequence)."""
    golden = (5**0.5 - 1) / 2
    return np.argsort(np.argsort((np.arange(n) * golden) % 1.0))


def add_pairs(
    game: Game,
    sample: int,
    cells: Cells,
    arrangement: np.ndarray,
    order: np.ndarray,
    empty: torch.Tensor,
) -> torch.Tensor:
    """Walk each order (pairs, n) forwards and backwards under its arrangement; return the sum of ``w(N, sigma)``."""
    n, device = game.n, game.device
    forward = torch.from_numpy(order).to(device)
    slots = torch.from_numpy(slots_of(arrangement)).to(device)
    seats = torch.from_numpy(np.ascontiguousarray(arrangement)).to(device)
    up = walk_coalitions(forward)[:, 1:]
    down = ~up[:, :-1].flip(1)
    kept = torch.cat([up, down], dim=1)
    rows = kept.shape[1]
    outputs = game.evaluate(sample, kept.reshape(-1, n), seats.repeat_interleave(rows, dim=0)).view(-1, rows)
    first = empty.expand(len(order), 1)
    up_path = torch.cat([first, outputs[:, :n]], dim=1)
    down_path = torch.cat([first, outputs[:, n:], outputs[:, n - 1 : n]], dim=1)
    for players, path in ((forward, up_path), (forward.flip(1), down_path)):
        marginals = path[:, 1:] - path[:, :-1]
        cells.add(players.reshape(-1), slots.gather(1, players).reshape(-1), marginals.reshape(-1))
    return outputs[:, n - 1].sum()
