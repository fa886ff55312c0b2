"""MLP: two hidden layers over a vector of features, such as the presence of words.

Source: Joint Shapley paper (Rotten Tomatoes): two hidden layers of 16.

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


class MlpConfig(PretrainedConfig):
    """The shape of an MLP.

    Attributes:
        num_features: length of a feature vector.
        dense: widths of the hidden layers.
        dropout: share of units left out after each hidden layer.
    """

    model_type = "ordeval-mlp"

    num_features: int = 1
    dense: list[int] | tuple[int, ...] = (16, 16)
    dropout: float = 0.0


class Mlp(PreTrainedModel):
    """A classifier of feature vectors."""

    config_class = MlpConfig
    base_model_prefix = ""
    main_input_name = "features"

    def __init__(self, config: MlpConfig) -> None:
        super().__init__(config)
        self.dense = nn.ModuleList(nn.Linear(*sides) for sides in pairwise((config.num_features, *config.dense)))
        self.classifier = nn.Linear(config.dense[-1], int(config.num_labels or 0))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw new weights from Glorot's uniform distribution; no bias."""
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self, features: torch.Tensor | None = None, labels: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Return the logits (rows, classes), and the mean cross-entropy where there are labels.

        Args:
            features: (rows, num_features) numbers.
            labels: (rows,) classes.

        Raises:
            ValueError: no features, or vectors of another length.
        """
        if features is None or features.shape[1:] != (self.config.num_features,):
            shape = None if features is None else tuple(features.shape)
            raise ValueError(f"features has shape {shape}, and the model takes (rows, {self.config.num_features})")
        hidden = features
        for dense in self.dense:
            hidden = self.dropout(functional.relu(dense(hidden)))
        logits = self.classifier(hidden)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
