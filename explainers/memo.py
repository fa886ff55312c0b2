"""What a sample's inputs gave before, so that none is evaluated twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

WIDEST = 12
MOST_ROWS = 1 << 16


class Memo:
    """Raw outputs by input: found by the hash (sorted, on the CPU), confirmed by the input itself.

    Of inputs with one hash the first is learnt. Once ``MOST_ROWS`` inputs are known no more are: memory and the cost
    of a look-up stay bounded.
    """

    def __init__(self) -> None:
        self.hashes = np.zeros(0, dtype=np.int64)
        self.where = np.zeros(0, dtype=np.int64)  # the place of each hash's input and output
        self.inputs: torch.Tensor | None = None
        self.outputs: torch.Tensor | None = None
        self._latest: tuple[torch.Tensor, np.ndarray, torch.Tensor] | None = None

    def complete(
        self,
        inputs: torch.Tensor,
        hashes: torch.Tensor,
        ask: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """Return the outputs (rows, columns) of distinct inputs; ``ask`` gives those of the ones that are not known."""
        codes = hashes.cpu().numpy()
        if self._latest is not None:  # learnt only once there is another look-up: many methods ask once
            self._learn(*self._latest)
            self._latest = None
        known, place = self._known(inputs, codes)
        if not len(known):
            outputs = ask(inputs, hashes)
            self._latest = inputs, codes, outputs
            return outputs
        assert self.outputs is not None
        outputs = torch.empty((len(codes), *self.outputs.shape[1:]), dtype=self.outputs.dtype, device=inputs.device)
        outputs[known] = self.outputs[place]
        fresh = np.setdiff1d(np.arange(len(codes)), known, assume_unique=True)
        if len(fresh):
            outputs[fresh] = asked = ask(inputs[fresh], hashes[fresh])
            self._latest = inputs[fresh], codes[fresh], asked
        return outputs

    def _known(self, inputs: torch.Tensor, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which inputs are known, and the places of their outputs."""
        if self.inputs is None:
            return codes[:0], codes[:0]
        place = np.searchsorted(self.hashes, codes)
        place[place == len(self.hashes)] = 0
        likely = np.flatnonzero(self.hashes[place] == codes)
        where = self.where[place[likely]]
        same = (self.inputs[where] == inputs[likely]).all(1).cpu().numpy()
        return likely[same], where[same]

    def _learn(self, inputs: torch.Tensor, codes: np.ndarray, outputs: torch.Tensor) -> None:
        """Take in inputs (rows, width) that are not known, and their outputs (rows, columns)."""
        count = len(self.hashes)
        codes, first = np.unique(codes, return_index=True)
        place = np.searchsorted(self.hashes, codes)
        free = np.append(self.hashes, 0)[place] != codes
        free[place == count] = True
        free = np.flatnonzero(free)[: MOST_ROWS - count]
        if not len(free):
            return
        codes, first, place = codes[free], first[free], place[free]
        self.hashes = np.insert(self.hashes, place, codes)
        self.where = np.insert(self.where, place, np.arange(count, count + len(codes)))
        self.inputs = appended(self.inputs, count, inputs[first])
        self.outputs = appended(self.outputs, count, outputs[first])


def appended(buffer: torch.Tensor | None, count: int, rows: torch.Tensor) -> torch.Tensor:
    """Return a buffer with the first ``count`` rows of ``buffer``, then ``rows``; it grows by doubling."""
    end = count + len(rows)
    if buffer is None or end > len(buffer):
        grown = torch.empty((2 * end, *rows.shape[1:]), dtype=rows.dtype, device=rows.device)
        if buffer is not None:
            grown[:count] = buffer[:count]
        buffer = grown
    buffer[count:end] = rows
    return buffer
