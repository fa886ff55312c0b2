"""Algorithm 1 of the OrdShap paper with its misprints mended (docs/errata.md): sampling, one player at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import permutations, slots_of
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
    player = np.tile(np.arange(n), arrangements)
    slot = permutation_blocks(rng, arrangements, n)
    cells = Cells(n, game.device)
    block = max(1, BLOCK_ENTRIES // (n * subsets))
    for start in range(0, len(player), block):
        part = slice(start, start + block)
        add_marginals(game, sample, rng, cells, player[part], slot[part], subsets)
    empty = cells.empty()
    matrix = cells.means()
    if empty:
        value, position = cells.line()
    else:
        value, position = matrix.mean(1), slope(matrix)
    return SampleExplanation(value, position, matrix=matrix, audit={"empty_cells": float(empty)})


def permutation_blocks(rng: np.random.Generator, arrangements: int, n: int) -> np.ndarray:
    """Return (arrangements * n,): for each arrangement and player a slot; each player meets all slots in turn."""
    rounds = -(-arrangements // n)
    slots = permutations(rng, rounds * n, n).reshape(rounds, n, n)
    return slots.transpose(0, 2, 1).reshape(rounds * n, n)[:arrangements].reshape(-1)


def add_marginals(
    game: Game,
    sample: int,
    rng: np.random.Generator,
    cells: Cells,
    player: np.ndarray,
    slot: np.ndarray,
    subsets: int,
) -> None:
    """Evaluate and add K marginal contributions of ``player`` (m,) sitting in ``slot`` (m,)."""
    n = game.n
    arrangement = permutations(rng, len(player), n)
    rows = np.arange(len(player))
    place = slots_of(arrangement)[rows, player]
    arrangement[rows, place] = arrangement[rows, slot]
    arrangement[rows, slot] = player
    arrangement = np.repeat(arrangement, subsets, axis=0)
    player, slot = np.repeat(player, subsets), np.repeat(slot, subsets)
    rank = slots_of(permutations(rng, len(player), n))
    own = rank[np.arange(len(player)), player][:, None]
    kept = np.concatenate([rank <= own, rank < own])
    outputs = game.evaluate(sample, torch.from_numpy(kept), torch.from_numpy(np.concatenate([arrangement] * 2)))
    marginals = outputs[: len(player)] - outputs[len(player) :]
    cells.add(torch.from_numpy(player).to(game.device), torch.from_numpy(slot).to(game.device), marginals)
