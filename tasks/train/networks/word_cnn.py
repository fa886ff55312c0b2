"""Word-CNN: a convolution over word embeddings and the maximum over time.

Source: L- and C-Shapley paper, App. A.1 (IMDB): embedding 50, 250 filters of width 3, max-pooling, dense 250; ReLU and
dropout after convolution and dense layer; trained with RMSprop.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class WordCnnConfig(PretrainedConfig):
    """The shape of a Word-CNN.

    Attributes:
        vocab_size: number of words, padding and other special ones included.
        pad_token_id: its embedding is zero and stays zero.
        max_position_embeddings: the longest input, in words; told to those who cut texts, nothing depends on it.
        embedding_size: width of the word embeddings.
        filters: number of filters.
        kernel: words a filter sees.
        dense: width of the hidden layer.
        dropout: share of units left out, after the maximum and after the hidden layer.
    """

    model_type = "ordeval-word-cnn"

    vocab_size: int = 2
    pad_token_id: int = 0
    max_position_embeddings: int = 400
    embedding_size: int = 50
    filters: int = 250
    kernel: int = 3
    dense: int = 250
    dropout: float = 0.2


class WordCnn(PreTrainedModel):
    """A sequence classifier that reads words."""

    config_class = WordCnnConfig
    base_model_prefix = ""
    _input_embed_layer = "embedding"

    def __init__(self, config: WordCnnConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.convolution = nn.Conv1d(config.embedding_size, config.filters, config.kernel)
        self.dense = nn.Linear(config.filters, config.dense)
        self.classifier = nn.Linear(config.dense, int(config.num_labels or 0))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw new weights: uniform embeddings, Glorot's uniform for the others; no bias."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
            module.weight[self.config.pad_token_id] = 0
        elif isinstance(module, (nn.Linear, nn.Conv1d)):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Return the logits (rows, classes), and the mean cross-entropy where there are labels.

        A text stands in an endless run of zeros: a few on the left, and on the right so many that one window sees
        nothing else. More padding adds windows like that one, so that the maximum over time stays what it is.

        Args:
            input_ids: (rows, length) words.
            attention_mask: (rows, length), 0 where a word counts as padding.
            inputs_embeds: (rows, length, embedding_size) in place of ``input_ids``.
            labels: (rows,) classes.

        Raises:
            ValueError: both or neither of ``input_ids`` and ``inputs_embeds``.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        words = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is not None:
            words = words * attention_mask.unsqueeze(-1).to(words.dtype)
        kernel = self.config.kernel
        windows = self.convolution(functional.pad(words.transpose(1, 2), (kernel - 1, kernel)))
        features = self.dropout(functional.relu(windows.amax(dim=2)))  # ReLU and maximum change places: same, cheaper
        logits = self.classifier(self.dropout(functional.relu(self.dense(features))))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
