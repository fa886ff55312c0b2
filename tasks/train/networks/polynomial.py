"""Polynomial: a known function of the features, where an explanation's right values are known too.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class PolynomialConfig(PretrainedConfig):
    """The terms of a polynomial.

    Attributes:
        num_features: length of a feature vector.
        exponents: of each term, one exponent a feature.
    """

    model_type = "ordeval-polynomial"

    num_features: int = 1
    exponents: list[list[int]] | tuple[tuple[int, ...], ...] = ((1,),)

    def __init__(self, num_labels: int = 1, **options: Any) -> None:
        options["num_labels"] = num_labels
        super().__init__(**options)


class Polynomial(PreTrainedModel):
    """A sum of products of powers of features; its coefficients are set, not trained."""

    config_class = PolynomialConfig
    base_model_prefix = ""
    main_input_name = "features"

    def __init__(self, config: PolynomialConfig) -> None:
        super().__init__(config)
        self.coefficients = nn.Parameter(torch.ones(len(config.exponents)), requires_grad=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the coefficients as they are."""

    def forward(
        self, features: torch.Tensor | None = None, labels: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Return the function's value as ``logits`` (rows, 1), and the mean squared error where there are labels.

        Args:
            features: (rows, num_features) numbers.
            labels: (rows,) numbers.

        Raises:
            ValueError: no features, or vectors of another length.
        """
        if features is None or features.shape[1:] != (self.config.num_features,):
            shape = None if features is None else tuple(features.shape)
            raise ValueError(f"features has shape {shape}, and the model takes (rows, {self.config.num_features})")
        exponents = torch.tensor(self.config.exponents, device=features.device)
        terms = (features.double()[:, None] ** exponents).prod(2)
        value = (terms @ self.coefficients.double())[:, None]
        loss = None if labels is None else functional.mse_loss(value[:, 0], labels.double())
        return SequenceClassifierOutput(loss=loss, logits=value)
