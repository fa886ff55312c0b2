"""Batches: the rows of one request, or of several that meet, cut by a token budget and run through the black box."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy
from explainers.removal import ABSENT

if TYPE_CHECKING:
    import torch

    from explainers.game import Game
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class Request:
    """Distinct rows (rows, width) of one sample of a game that the black box has to see."""

    game: Game
    sample: int
    rows: torch.Tensor


def answer(requests: Sequence[Request]) -> list[torch.Tensor]:
    """Return each request's raw outputs (rows, outputs) in float64.

    Requests to games of one :meth:`Game.box` share batches, rows of unequal length only where the box takes padding.
    Each game's ``spent`` and ``spent_tokens`` grow.
    """
    tables: dict[Hashable, list[int]] = {}
    for place, request in enumerate(requests):
        tables.setdefault(request.game.box(), []).append(place)
    found: dict[int, torch.Tensor] = {}
    for places in tables.values():
        for part in by_width(requests, places):
            found.update(zip(part, run([requests[place] for place in part]), strict=True))
    return [found[place] for place in range(len(requests))]


def by_width(requests: Sequence[Request], places: list[int]) -> list[list[int]]:
    """Return the places of requests that may share batches: all, or those of one width."""
    widths = [requests[place].rows.shape[1] for place in places]
    if len(set(widths)) == 1 or requests[places[0]].game.takes_padding():
        return [places]
    lots: dict[int, list[int]] = {}
    for place, width in zip(places, widths, strict=True):
        lots.setdefault(width, []).append(place)
    return list(lots.values())


def run(requests: Sequence[Request]) -> list[torch.Tensor]:
    """Answer requests to one black box, the longest rows first.

    Lengths are counted as the model sees them: special tokens in, absent ones that leave the row out.
    """
    rows = joined([request.rows for request in requests])
    sizes = [request.rows.shape[0] for request in requests]
    if not sum(sizes):
        return [torch.zeros((0, r.game.columns), dtype=torch.float64, device=r.rows.device) for r in requests]
    lengths = np.concatenate([request.game.lengths(request.rows) for request in requests])
    widths = np.repeat([request.rows.shape[1] for request in requests], sizes)
    if lengths.min() == lengths.max():
        outputs, costs = in_batches(requests, rows, lengths, widths)
    else:
        order = np.argsort(-lengths, kind="stable")
        place = torch.from_numpy(order).to(rows.device)
        sorted_outputs, sorted_costs = in_batches(requests, rows[place], lengths[order], widths[order])
        outputs, costs = torch.empty_like(sorted_outputs), np.empty_like(sorted_costs)
        outputs[place], costs[order] = sorted_outputs, sorted_costs
    ends = np.cumsum(sizes)
    for request, size, cost in zip(requests, sizes, np.split(costs, ends[:-1]), strict=True):
        request.game.spent[request.sample] += size
        request.game.spent_tokens[request.sample] += int(cost.sum())
    return list(outputs.split(sizes))


def in_batches(
    requests: Sequence[Request], rows: torch.Tensor, lengths: np.ndarray, widths: np.ndarray
) -> tuple[torch.Tensor, np.ndarray]:
    """Return the outputs of rows with falling lengths, and how many tokens each cost: a batch is as long as its first.

    At most ``batch_tokens`` tokens go at once (at least one row). A batch that does not fit into memory is halved, as
    are those after it.
    """
    leader, budget = requests[0], min(request.game.batch_tokens for request in requests)
    done: list[torch.Tensor] = []
    costs = np.empty_like(lengths)
    start = 0
    while start < len(costs):
        stop = batch_end(lengths, start, budget)
        outputs = attempt(leader, rows[start:stop, : int(widths[start:stop].max())])
        if outputs is None:
            budget = (stop - start) // 2 * int(lengths[start])
            torch.cuda.empty_cache()
            continue
        done.append(outputs)
        costs[start:stop] = lengths[start]
        start = stop
    return done[0] if len(done) == 1 else torch.cat(done), costs


def batch_end(lengths: np.ndarray, start: int, budget: int) -> int:
    """Return where the batch that begins at ``start`` ends, for falling lengths and a budget of tokens.

    It ends early where padding would take more than a tenth of a row, once it holds a sixteenth of the budget.
    """
    longest = max(1, int(lengths[start]))
    most = min(start + max(1, budget // longest), len(lengths))
    alike = start + int(np.searchsorted(-lengths[start:most], -0.9 * longest, side="right"))
    enough = start + max(1, -(-budget // (16 * longest)))
    return min(most, max(alike, enough))


def attempt(leader: Request, batch: torch.Tensor) -> torch.Tensor | None:
    """Return the outputs of one batch, or None where more than one row did not fit into memory.

    The memory is free only after the error and its traceback are gone: so the caller halves, not the handler.
    """
    try:
        return leader.game.forward(leader.sample, batch).to(torch.float64)
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    return None


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return all rows under each other, the shorter ones filled up with ``ABSENT``."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1]), value=ABSENT) for part in parts])
