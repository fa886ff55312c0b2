"""The game of a trained image classifier: a player is a pixel, all its channels together."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from explainers.game import EmbeddingView
from explainers.lazy import Lazy
from explainers.logits import LogitGame, OutputScale, batch_size, check_choice, check_serves, on_scale
from explainers.removal import ABSENT, masked_rows

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

CPU_BATCH_PIXELS = 1 << 17
CUDA_BATCH_PIXELS = 1 << 22


class PixelGame(LogitGame):
    """One number out of an image classifier; an absent pixel has the reference value in every channel.

    Players run row by row. An arrangement moves whole pixels. Source: L- and C-Shapley paper, section 5.2 (the
    reference is the average pixel strength).
    """

    def __init__(
        self,
        model: torch.nn.Module,
        pixels: torch.Tensor,
        reference: tuple[float, ...],
        target: int | None = None,
        scale: OutputScale = "probability",
        batch_tokens: int | None = None,
    ) -> None:
        """Build the game.

        Args:
            model: an image classifier in ``eval()``: ``pixel_values`` (rows, channels, height, width) in, ``logits``
                (rows, classes) out.
            pixels: (b, channels, height, width) floats.
            reference: what stands for an absent pixel, one number a channel.
            target: the explained class; None takes the class predicted on the untouched image.
            scale: what the game's value is: the probability, log-probability or logit of ``target``.
            batch_tokens: at most this many pixels a forward pass (at least one image); None suits the device.

        Raises:
            ValueError: ``pixels`` or ``reference`` has another shape or type, the model is training, or there is no
                such scale or target.
        """
        if pixels.dim() != 4 or not pixels.is_floating_point():
            told = f"shape {tuple(pixels.shape)} and type {pixels.dtype}"
            raise ValueError(f"pixels has {told}; give floats (b, channels, height, width)")
        if len(reference) != pixels.shape[1]:
            raise ValueError(f"reference has {len(reference)} entries and the images {pixels.shape[1]} channels")
        check_choice("scale", scale, OutputScale)
        check_serves(model, target)
        device = next(model.parameters()).device
        at_once = batch_size(batch_tokens, device, CPU_BATCH_PIXELS, CUDA_BATCH_PIXELS)
        keys = [hashlib.sha256(image.detach().cpu().float().numpy().tobytes()).hexdigest() for image in pixels]
        super().__init__(pixels.shape[2] * pixels.shape[3], keys, device, at_once)
        self.model = model
        self.shape = tuple(pixels.shape[1:])
        # (b, channels, pixels + 1): the last one stands for an absent pixel
        absent = torch.tensor(reference, dtype=pixels.dtype).expand(len(pixels), -1)[..., None]
        self.images = torch.cat([pixels.flatten(2).cpu(), absent], dim=2).to(device)
        # a pixel that has the reference value is absent from the start: its ablation changes nothing
        inert = (self.images[..., :-1] == self.images[..., -1:]).all(1)
        self.places = torch.where(inert, ABSENT, torch.arange(self.n, dtype=torch.int32, device=device))
        self.scale = scale
        self.columns = getattr(getattr(model, "config", None), "num_labels", 1)
        self.targets = [
            int(self.forward(sample, self.places[sample][None]).argmax(1)) if target is None else target
            for sample in range(self.size)
        ]

    def box(self) -> Hashable:
        """Return nothing that another game has: rows are places in one image."""
        return id(self)

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return (rows, n) which pixel of the image is in each place, ``ABSENT`` where none is."""
        return masked_rows(self.places[sample], kept, arrangement, ABSENT)

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, classes)."""
        channels, height, width = self.shape
        with torch.inference_mode():
            rows = self.images[sample][:, inputs.long()]  # place ABSENT is the last one
            values = rows.transpose(0, 1).reshape(len(inputs), channels, height, width)
            return self.model(pixel_values=values).logits.double()

    def embedding_view(self, sample: int) -> EmbeddingView:
        """Return the model from its pixels on: a pixel's channels are its embedding, the reference is absent."""
        pixels = self.images[sample].T[None]
        module = pixel_output()(self.model, self.targets[sample], self.scale, self.shape)
        inputs = pixels[:, :-1].clone()
        return EmbeddingView(module, inputs, pixels[:, -1:].expand_as(inputs).clone(), slice(0, None))


def pixel_output() -> type[torch.nn.Module]:
    """Return the module class that runs an image classifier from (rows, pixels, channels)."""

    class PixelOutput(torch.nn.Module):
        def __init__(self, model: torch.nn.Module, target: int, scale: OutputScale, shape: tuple[int, ...]) -> None:
            super().__init__()
            self.model: Any = model
            self.target = target
            self.scale: OutputScale = scale
            self.shape = shape

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            values = pixels.transpose(1, 2).reshape(len(pixels), *self.shape)
            return on_scale(self.model(pixel_values=values).logits, self.target, self.scale)

    return PixelOutput
