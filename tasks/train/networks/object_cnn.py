"""Object-CNN: six convolutions and two dense layers, for small coloured images.

Source: L- and C-Shapley paper, App. A.2 (CIFAR10), modified from AlexNet: six 3x3 convolutions of 48, 48, 96, 96, 192,
192 filters, max-pooling of 2 and dropout after every two, dense layers of 512 and 256; trained with Adam.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class ObjectCnnConfig(PretrainedConfig):
    """The shape of an Object-CNN.

    Attributes:
        channels: of a pixel.
        height: of an image, in pixels, 8 or more.
        width: of an image, in pixels, 8 or more.
        mean: (channels,) of the training pixels, taken off inside the network.
        std: (channels,) of the training pixels, divided by inside the network.
        filters: of the convolutions; each pair of them is followed by a pool.
        dense: widths of the hidden layers.
        dropout: share of units left out after each pool.
        dense_dropout: share of units left out after each hidden layer.
    """

    model_type = "ordeval-object-cnn"

    channels: int = 3
    height: int = 32
    width: int = 32
    mean: list[float] | tuple[float, ...] = (0.0, 0.0, 0.0)
    std: list[float] | tuple[float, ...] = (1.0, 1.0, 1.0)
    filters: list[int] | tuple[int, ...] = (48, 48, 96, 96, 192, 192)
    dense: list[int] | tuple[int, ...] = (512, 256)
    dropout: float = 0.25
    dense_dropout: float = 0.5


class ObjectCnn(PreTrainedModel):
    """An image classifier."""

    config_class = ObjectCnnConfig
    base_model_prefix = ""
    main_input_name = "pixel_values"

    def __init__(self, config: ObjectCnnConfig) -> None:
        super().__init__(config)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(*sides, 3, padding=1) for sides in pairwise((config.channels, *config.filters))
        )
        shrunk = 2 ** (len(config.filters) // 2)
        flat = config.filters[-1] * (config.height // shrunk) * (config.width // shrunk)
        if not flat:
            raise ValueError(
                f"the images are {config.height} by {config.width} pixels; both sides are {shrunk} or more"
            )
        self.dense = nn.ModuleList(nn.Linear(*sides) for sides in pairwise((flat, *config.dense)))
        self.classifier = nn.Linear(config.dense[-1], int(config.num_labels or 0))
        self.dropout = nn.Dropout(config.dropout)
        self.dense_dropout = nn.Dropout(config.dense_dropout)
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
        # With the channels of a pixel side by side in memory the convolutions take four fifths of the time (CPU).
        signal = normalised(pixel_values, self.config).contiguous(memory_format=torch.channels_last)
        for layer, convolution in enumerate(self.convolutions):
            signal = functional.relu(convolution(signal))
            if layer % 2:
                signal = self.dropout(functional.max_pool2d(signal, 2))
        hidden = signal.flatten(1)
        for dense in self.dense:
            hidden = self.dense_dropout(functional.relu(dense(hidden)))
        logits = self.classifier(hidden)
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
