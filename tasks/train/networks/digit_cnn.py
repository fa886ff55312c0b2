"""Digit-CNN: two convolutions and one dense layer, for small grey images.

Source: L- and C-Shapley paper, App. A.2 (MNIST): two 5x5 convolutions of 8 and 16 filters, each followed by
max-pooling of 2, and a dense layer.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class DigitCnnConfig(PretrainedConfig):
    """The shape of a Digit-CNN.

    Attributes:
        channels: of a pixel.
        height: of an image, in pixels, 16 or more.
        width: of an image, in pixels, 16 or more.
        mean: (channels,) of the training pixels, taken off inside the network.
        std: (channels,) of the training pixels, divided by inside the network.
        filters: of the two convolutions.
        kernel: side of a filter.
    """

    model_type = "ordeval-digit-cnn"

    channels: int = 1
    height: int = 28
    width: int = 28
    mean: list[float] | tuple[float, ...] = (0.0,)
    std: list[float] | tuple[float, ...] = (1.0,)
    filters: list[int] | tuple[int, ...] = (8, 16)
    kernel: int = 5


class DigitCnn(PreTrainedModel):
    """An image classifier."""

    config_class = DigitCnnConfig
    base_model_prefix = ""
    main_input_name = "pixel_values"

    def __init__(self, config: DigitCnnConfig) -> None:
        super().__init__(config)
        first, second = config.filters
        self.first = nn.Conv2d(config.channels, first, config.kernel)
        self.second = nn.Conv2d(first, second, config.kernel)
        height, width = (pooled(pooled(side, config.kernel), config.kernel) for side in (config.height, config.width))
        self.classifier = nn.Linear(second * height * width, int(config.num_labels or 0))
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw new weights as He et al. 2015 do for ReLU; no bias."""
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self, pixel_values: torch.Tensor | None = None, labels: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Return the logits (rows, classes), and the mean cross-entropy where there are labels.

        Args:
            pixel_values: (rows, channels, height, width) on the scale of ``mean`` and ``std``.
            labels: (rows,) classes.

        Raises:
            ValueError: no pixels, or images of another size.
        """
        signal = normalised(pixel_values, self.config)
        for convolution in (self.first, self.second):
            signal = functional.max_pool2d(functional.relu(convolution(signal)), 2)
        logits = self.classifier(signal.flatten(1))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def normalised(pixels: torch.Tensor | None, config: PretrainedConfig) -> torch.Tensor:
    """Return the pixels less their mean, over their deviation; ValueError where they are not what the model takes."""
    size = (config.channels, config.height, config.width)
    if pixels is None or pixels.shape[1:] != size:
        shape = None if pixels is None else tuple(pixels.shape)
        raise ValueError(f"pixel_values has shape {shape}, and the model takes (rows, {', '.join(map(str, size))})")
    mean, deviation = (pixels.new_tensor(list(each)).view(1, -1, 1, 1) for each in (config.mean, config.std))
    return (pixels - mean) / deviation


def pooled(side: int, kernel: int) -> int:
    """Return what a convolution without padding and a pool of 2 leave of ``side`` pixels.

    Raises:
        ValueError: nothing.
    """
    left = (side - kernel + 1) // 2
    if left < 1:
        raise ValueError(f"the images are too small for two convolutions of {kernel} pixels, each with a pool of 2")
    return left
