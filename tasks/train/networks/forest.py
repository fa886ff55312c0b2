"""Forest: the mean of regression trees, each walked from its root for all rows at once.

Trees come from scikit-learn as plain arrays; weights and thresholds are safetensors, nothing is pickled.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class ForestConfig(PretrainedConfig):
    """The shape of a forest.

    Attributes:
        num_features: length of a feature vector.
        trees: number of trees.
        nodes: nodes of all trees together.
        depth: the longest way from a root to a leaf.
    """

    model_type = "ordeval-forest"

    num_features: int = 1
    trees: int = 1
    nodes: int = 1
    depth: int = 0

    def __init__(self, num_labels: int = 1, **options: Any) -> None:
        options["num_labels"] = num_labels
        super().__init__(**options)


class Forest(PreTrainedModel):
    """A regression of feature vectors.

    The nodes of all trees stand one after the other. ``onward[node]`` holds the next node where the node's feature
    is at most its threshold, and where it is more; a leaf leads to itself. Thresholds are rounded down to float32,
    which decides float32 features as the float64 thresholds do.
    """

    config_class = ForestConfig
    base_model_prefix = ""
    main_input_name = "features"

    feature: torch.Tensor
    threshold: torch.Tensor
    onward: torch.Tensor
    roots: torch.Tensor

    def __init__(self, config: ForestConfig) -> None:
        super().__init__(config)
        self.register_buffer("feature", torch.zeros(config.nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.full((config.nodes,), torch.inf))
        self.register_buffer("onward", torch.arange(config.nodes).repeat(2, 1).T.contiguous())
        self.register_buffer("roots", torch.zeros(config.trees, dtype=torch.int64))
        self.value = nn.Parameter(torch.zeros(config.nodes), requires_grad=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the arrays as they are: they are set, not drawn."""

    def leaves(self, features: torch.Tensor) -> torch.Tensor:
        """Return (rows, trees) the leaf that each row of ``features`` (rows, num_features) ends in, tree by tree."""
        node = self.roots.expand(len(features), -1)
        for _ in range(self.config.depth):
            more = features.gather(1, self.feature[node]) > self.threshold[node]
            node = self.onward[node, more.long()]
        return node

    def forward(
        self, features: torch.Tensor | None = None, labels: torch.Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Return the prediction as ``logits`` (rows, 1), and the mean squared error where there are labels.

        Args:
            features: (rows, num_features) numbers.
            labels: (rows,) numbers.

        Raises:
            ValueError: no features, or vectors of another length.
        """
        if features is None or features.shape[1:] != (self.config.num_features,):
            shape = None if features is None else tuple(features.shape)
            raise ValueError(f"features has shape {shape}, and the model takes (rows, {self.config.num_features})")
        predicted = self.value[self.leaves(features.to(self.threshold.dtype))].double().mean(1, keepdim=True)
        loss = None if labels is None else functional.mse_loss(predicted[:, 0], labels.double())
        return SequenceClassifierOutput(loss=loss, logits=predicted)

    def boxes(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the leaves as boxes: lower and upper bounds (leaves, num_features), and what each adds (leaves,).

        A row ends in the leaf of each tree whose lower bounds are below its features and whose upper bounds are not;
        the prediction is the sum of what these leaves add (float64).
        """
        nodes, width = self.config.nodes, self.config.num_features
        lower = torch.full((nodes, width), -torch.inf, device=self.threshold.device)
        upper = torch.full((nodes, width), torch.inf, device=self.threshold.device)
        level = self.roots
        for _ in range(self.config.depth):
            level = level[self.onward[level, 0] != level]
            feature, threshold = self.feature[level], self.threshold[level]
            for side, bounds, nearer in ((0, upper, torch.minimum), (1, lower, torch.maximum)):
                child = self.onward[level, side]
                lower[child], upper[child] = lower[level], upper[level]
                bounds[child, feature] = nearer(bounds[child, feature], threshold)
            level = self.onward[level].reshape(-1)
        leaf = self.onward[:, 0] == torch.arange(nodes, device=self.onward.device)
        return lower[leaf], upper[leaf], self.value.detach()[leaf].double() / self.config.trees
