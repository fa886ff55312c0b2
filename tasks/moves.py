"""The model's output as one token moves through the sequence: what the slider of a sample's page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from explainers import ClassifierGame, Game
from explainers.functions import FunctionGame
from tasks.shards import write_shard
from tasks.subject import Subject

MOVES = "moves.safetensors"


def moved_outputs(game: Game, sample: int, players: Sequence[int]) -> np.ndarray:
    """Return the explained output with each of the ``players`` moved to each slot, the others keeping their order.

    Args:
        game: the game; nothing is ablated.
        sample: index of the sample, 0-based.
        players: p players, 0-based.

    Returns:
        (p, n) float64: row by player, column by slot; a player in its own slot is the untouched input. At most
        n evaluations a player.

    Raises:
        ValueError: a player is not one of the sample's.
    """
    n = game.n
    wrong = [player for player in players if not 0 <= player < n]
    if wrong:
        raise ValueError(f"player {wrong[0]} cannot be moved: the sample has {n} players; give 0 to {n - 1}")
    kept = torch.ones((n, n), dtype=torch.bool)
    outputs = [game.evaluate(sample, kept, arrangements(n, player)).cpu().numpy() for player in players]
    return np.stack(outputs) if outputs else np.empty((0, n))


def arrangements(n: int, player: int) -> torch.Tensor:
    """Return (n, n) long, the player in each slot: row l has ``player`` in slot l, the others in their order.

    >>> arrangements(3, 0).tolist()
    [[0, 1, 2], [1, 0, 2], [1, 2, 0]]
    """
    others = torch.tensor([other for other in range(n) if other != player], dtype=torch.long)
    rows = [torch.cat([others[:slot], torch.tensor([player]), others[slot:]]) for slot in range(n)]
    return torch.stack(rows)


def has_slots(game: Game) -> bool:
    """Return whether it means something to move a player: the game is of sequences, and there are two slots."""
    return game.n > 1 and isinstance(game, ClassifierGame | FunctionGame)


def write_moves(subject: Subject, players: Mapping[int, Sequence[int]], folder: Path) -> None:
    """Ask the model and write the moved outputs of each sample that has slots.

    Args:
        subject: model and samples.
        players: by a sample's index, the players that move.
        folder: gets ``moves.safetensors``.
    """
    arrays = {}
    for index, moving in players.items():
        game = subject.game(index)
        if has_slots(game):
            arrays[str(index)] = torch.from_numpy(moved_outputs(game, 0, moving))
    folder.mkdir(parents=True, exist_ok=True)
    write_shard(folder / MOVES, arrays)


def read_moves(folder: Path) -> dict[int, np.ndarray]:
    """Return the (p, n) moved outputs by a sample's index; samples without slots are left out."""
    return {int(index): outputs.numpy() for index, outputs in load_file(folder / MOVES).items()}
