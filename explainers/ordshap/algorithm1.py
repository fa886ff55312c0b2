"""Algorithm 1 of the OrdShap paper with its misprints mended (docs/errata.md): sampling, one player at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.draws import Draws, inverse
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.ordshap.cells import Cells, slope

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22


def algorithm1(game: Game, sample: int, rng: np.random.Generator, budget: int, subsets: int) -> SampleExplanation:
    """Estimate gamma from L arrangements a player, stratified by its slot, and K coalitions an arrangement.

    Each cell is divided by its own count; the coalition is the predecessors of i in a random order together
    with i; each player's slots run through random permutations of all slots, so a budget of ``2 K n^2`` leaves
    no cell empty. Cells that stay empty are NaN (``empty_cells`` in the audit), and then value and position
    come from the line through the player's marginals: consistent as the budget grows, unbiased without empty cells.

    Source: OrdShap App. B.2, Alg. 1. Evaluations: ``2 K L n`` with ``L = budget // (2 K n)``.
    """
    n = game.n
    arrangements = max(1, budget // (2 * subsets * n))
    slots, others, orders = (Draws(rng, n, game.device) for _ in range(3))
    cells = Cells(n, game.device)
    block = max(1, BLOCK_ENTRIES // (n * n * subsets))
    waiting = torch.zeros((0, n), dtype=torch.long, device=game.device)
    for start in range(0, arrangements, block):
        count = min(block, arrangements - start)
        while len(waiting) < count:
            waiting = torch.cat([waiting, slots.permutations(n).T])
        add_marginals(game, sample, cells, others.permutations(count * n), orders, (waiting[:count], subsets))
        waiting = waiting[count:]
    empty = cells.empty()
    matrix = cells.means()
    if empty:
        value, position = cells.line()
    else:
        value, position = matrix.mean(1), slope(matrix)
    return SampleExplanation(value, position, matrix=matrix, audit={"empty_cells": float(empty)})


def add_marginals(
    game: Game,
    sample: int,
    cells: Cells,
    arrangement: torch.Tensor,
    orders: Draws,
    wanted: tuple[torch.Tensor, int],
) -> None:
    """Evaluate and add K marginal contributions of each player in its wanted slot.

    Args:
        game: the game.
        sample: which sample.
        cells: gets the marginal contributions.
        arrangement: (m n, n) random arrangements; the players are moved to their slots by swapping.
        orders: random orders of arrival.
        wanted: the slots (m, n), each player's, and K.
    """
    slot, subsets = wanted[0].reshape(-1), wanted[1]
    rows = torch.arange(len(slot), device=slot.device)
    player = rows % game.n
    place = inverse(arrangement)[rows, player]
    arrangement[rows, place] = arrangement[rows, slot]
    arrangement[rows, slot] = player
    player, slot = player.repeat_interleave(subsets), slot.repeat_interleave(subsets)
    rank = orders.permutations(len(player))
    own = rank.gather(1, player[:, None])
    kept = torch.cat([rank <= own, rank < own])
    outputs = game.evaluate(sample, kept, arrangement.repeat_interleave(subsets, dim=0).repeat(2, 1))
    cells.add(player, slot, outputs[: len(player)] - outputs[len(player) :])
