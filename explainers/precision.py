"""Automatic mixed precision, and the inputs that its error is measured on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

Precision = Literal["full", "bfloat16", "float16"]
CONTROLS = 32


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context that a forward pass of this precision runs in."""
    if precision == "full":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, precision))


class Controls:
    """Up to 32 of a sample's inputs with their outputs: those of the smallest hashes, so a random lot of them."""

    def __init__(self) -> None:
        self.hashes: torch.Tensor | None = None
        self.inputs: torch.Tensor
        self.outputs: torch.Tensor

    def note(self, inputs: torch.Tensor, hashes: torch.Tensor, outputs: torch.Tensor) -> None:
        """Consider inputs (rows, width) that gave outputs (rows, columns)."""
        if self.hashes is not None:
            hashes = torch.cat([self.hashes, hashes])
            inputs = torch.cat([self.inputs, inputs])
            outputs = torch.cat([self.outputs, outputs])
        least = torch.sort(hashes, stable=True).indices[:CONTROLS]
        self.hashes, self.inputs, self.outputs = hashes[least], inputs[least], outputs[least]
