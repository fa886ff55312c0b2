"""What a sample's inputs gave before, so that none is evaluated twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

WIDEST = 12
MOST_ROWS = 1 << 16


class Memo:
    """Raw outputs by input: found by the hash (sorted), confirmed by the input itself.

    Once ``MOST_ROWS`` inputs are known no more are learnt: memory and the cost of a look-up stay bounded.
    """

    def __init__(self) -> None:
        self.hashes = torch.zeros(0, dtype=torch.long)
        self.inputs = torch.zeros(0)
        self.outputs = torch.zeros(0)

    def complete(
        self,
        inputs: torch.Tensor,
        hashes: torch.Tensor,
        ask: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """Return the outputs (rows, columns) of distinct inputs; ``ask`` gives those of the ones that are not known."""
        if not len(self.hashes):
            outputs = ask(inputs, hashes)
            self.hashes, self.inputs, self.outputs = hashes[:0], inputs[:0], outputs[:0]
            self.add(inputs, hashes, outputs)
            return outputs
        place = torch.searchsorted(self.hashes, hashes).clamp_(max=len(self.hashes) - 1)
        fresh = (self.hashes[place] != hashes) | (self.inputs[place] != inputs).any(1)
        outputs = self.outputs[place]
        if bool(fresh.any()):
            inputs, hashes = inputs[fresh], hashes[fresh]
            asked = ask(inputs, hashes)
            outputs[fresh] = asked
            self.add(inputs, hashes, asked)
        return outputs

    def add(self, inputs: torch.Tensor, hashes: torch.Tensor, outputs: torch.Tensor) -> None:
        """Learn distinct inputs (rows, width) that are not known, and their outputs (rows, columns).

        Of inputs with one hash the first is learnt.
        """
        hashes, order = torch.sort(hashes, stable=True)
        fresh = torch.ones_like(hashes, dtype=torch.bool)
        fresh[1:] = hashes[1:] != hashes[:-1]
        place = torch.searchsorted(self.hashes, hashes)
        inside = place < len(self.hashes)
        fresh[inside] &= self.hashes[place[inside]] != hashes[inside]
        fresh &= fresh.cumsum(0) <= MOST_ROWS - len(self.hashes)
        order, hashes, place = order[fresh], hashes[fresh], place[fresh]
        old = torch.ones(len(self.hashes) + len(hashes), dtype=torch.bool, device=hashes.device)
        old[place + torch.arange(len(hashes), device=hashes.device)] = False
        self.hashes = merged(self.hashes, hashes, old)
        self.inputs = merged(self.inputs, inputs[order], old)
        self.outputs = merged(self.outputs, outputs[order], old)


def merged(known: torch.Tensor, fresh: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``known`` where ``old``, and those of ``fresh`` elsewhere, both in their order."""
    both = torch.empty((len(old), *known.shape[1:]), dtype=known.dtype, device=known.device)
    both[old], both[~old] = known, fresh
    return both
