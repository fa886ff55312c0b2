"""Exact OrdShap (Eq. 8) and the exact beta of Eq. 11, by enumeration of what the black box can tell apart.

All players outside S look the same (the mask token), so `w(S, sigma)` depends only on which players of S sit in
which slots: a *placement*. There are `sum_s C(n,s)^2 s!` of them, and each stands for (n-s)! arrangements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from explainers.base import SampleExplanation
from explainers.designs import log_kernel
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.ordshap.scale import Scale
from explainers.solve import NormalEquations

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK = 1 << 16


def placements_count(n: int) -> int:
    """Return the number of evaluations that exact OrdShap makes on ``n`` players.

    >>> placements_count(7)
    130922
    """
    return sum(math.comb(n, s) ** 2 * math.factorial(s) for s in range(n + 1))


def placements(n: int) -> np.ndarray:
    """Return (rows, n) int8, the player in each slot or -1, in ascending lexicographic order."""
    rows = np.full((1, n), -1, dtype=np.int8)
    for slot in range(n):
        choices = np.arange(-1, n, dtype=np.int8)
        grown = np.repeat(rows, n + 1, axis=0)
        chosen = np.tile(choices, len(rows))
        taken = (grown[:, :slot] == chosen[:, None]).any(1) & (chosen >= 0)
        grown[:, slot] = chosen
        rows = grown[~taken]
    return rows


def exact(game: Game, sample: int, scale: Scale) -> SampleExplanation:
    """Return exact value, position, position_ls and matrix of one sample.

    Source: OrdShap Eq. 8 (gamma), 9 (VI), 10 (PI as its slope) and 11 (position_ls over all S and sigma).

    Raises:
        ValueError: players have unequally many tokens: then absent ones can be told apart by the room they take.
    """
    if not game.alike(sample):
        raise ValueError(
            "estimator exact needs players of equally many tokens, and this sample's differ; take estimator walks"
        )
    n = game.n
    rows = placements(n)
    sizes = (rows >= 0).sum(1)
    outputs = np.concatenate([evaluate(game, sample, rows[s : s + BLOCK]) for s in range(0, len(rows), BLOCK)])
    gamma = gamma_matrix(rows, sizes, outputs)
    matrix = torch.from_numpy(gamma).to(game.device)
    value = matrix.mean(1)
    position_ls, rank = exact_beta(rows, sizes, outputs, gamma.mean(1))
    full = outputs[sizes == n].mean() - outputs[0]
    return SampleExplanation(
        value=value,
        position=scale.slope(matrix),
        position_ls=position_ls,
        matrix=scale.averaged(matrix),
        value_stderr=torch.zeros_like(value),
        position_stderr=torch.zeros_like(value),
        matrix_stderr=torch.zeros_like(matrix),
        audit={"efficiency_gap": float(value.sum() - full), "rank": float(rank)},
    )


def evaluate(game: Game, sample: int, rows: np.ndarray) -> np.ndarray:
    """Return ``w`` (rows,) of placements (rows, n)."""
    filled = rows >= 0
    kept = np.zeros(rows.shape, dtype=bool)
    row, slot = np.nonzero(filled)
    kept[row, rows[row, slot]] = True
    arrangement = np.empty(rows.shape, dtype=np.int64)
    empty_slots = np.argsort(filled, axis=1, kind="stable")
    absent_players = np.argsort(kept, axis=1, kind="stable")
    np.put_along_axis(arrangement, empty_slots, absent_players, axis=1)
    arrangement[row, slot] = rows[row, slot]
    return game.evaluate(sample, torch.from_numpy(kept), torch.from_numpy(arrangement)).cpu().numpy()


def gamma_matrix(rows: np.ndarray, sizes: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Return gamma (n, n) of Eq. 8 from ``w`` at every placement."""
    n = rows.shape[1]
    powers = (n + 1) ** np.arange(n - 1, -1, -1, dtype=np.int64)
    keys = (rows.astype(np.int64) + 1) @ powers
    factorial = np.array([float(math.factorial(k)) for k in range(n + 1)])
    gamma = np.zeros((n, n))
    for slot in range(n):
        here = np.flatnonzero(rows[:, slot] >= 0)
        player = rows[here, slot].astype(np.int64)
        without = np.searchsorted(keys, keys[here] - (player + 1) * powers[slot])
        size = sizes[here]
        weight = factorial[size - 1] * factorial[n - size] ** 2 / (factorial[n - 1] * factorial[n])
        gamma[:, slot] = np.bincount(player, weight * (outputs[here] - outputs[without]), minlength=n)
    return gamma


def exact_beta(rows: np.ndarray, sizes: np.ndarray, outputs: np.ndarray, value: np.ndarray) -> tuple[torch.Tensor, int]:
    """Return beta (n,) of Eq. 11 over all S other than the empty and the full one and all sigma, and the rank.

    Over all arrangements the alpha and beta columns are orthogonal, so beta can be fitted alone.
    """
    n = rows.shape[1]
    equations = NormalEquations(n, torch.device("cpu"))
    inner = np.flatnonzero((sizes > 0) & (sizes < n))
    log_mu = np.concatenate([[0.0], log_kernel(n), [0.0]])
    for start in range(0, len(inner), BLOCK):
        block = inner[start : start + BLOCK]
        row, slot = np.nonzero(rows[block] >= 0)
        player = rows[block][row, slot]
        columns = np.zeros((len(block), n))
        columns[row, player] = slot - (n - 1) / 2
        kept = np.zeros((len(block), n))
        kept[row, player] = 1.0
        size = sizes[block]
        weights = np.exp(log_mu[size] + np.array([math.lgamma(n - s + 1) for s in size]) - math.lgamma(n))
        targets = outputs[block] - outputs[0] - kept @ value
        equations.add(torch.from_numpy(columns), torch.from_numpy(targets), torch.from_numpy(weights))
    solution = equations.solve()
    return solution.coefficients, solution.rank
