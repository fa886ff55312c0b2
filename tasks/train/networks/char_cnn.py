"""Char-CNN: six convolutions over the characters of a text.

Source: L- and C-Shapley paper, App. A.1 (AG News), with the structure of Zhang, Zhao and LeCun 2015, "Character-level
Convolutional Networks for Text Classification", Tables 1 and 2, small: 256 filters of widths 7, 7, 3, 3, 3, 3, pools of
3 after the first, second and last convolution, dense layers of 1,024, dropout 0.5 after each; weights drawn from a
normal distribution of deviation 0.05; trained with SGD, momentum 0.9, and a decreasing step.

The papers train it on 120,000 texts and more. For fewer, its first filters can start from the beginnings of frequent
words of the training texts (:meth:`CharCnn.start_from_words`), as filters for images start from patches in Coates and
Ng 2011, "The Importance of Encoding Versus Training with Sparse Coding and Vector Quantization".

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

KERNELS = (7, 7, 3, 3, 3, 3)
POOLED = (0, 1, 5)
POOL = 3
SHORTEST = 4
CHOICE = 10
SILENT_BELOW = 3


class CharCnnConfig(PretrainedConfig):
    """The shape of a Char-CNN.

    Attributes:
        vocab_size: number of characters, padding and other special ones included.
        pad_token_id: the character that is the zero vector; each other one has a dimension of its own.
        max_position_embeddings: the fixed length that texts are filled up to, in characters.
        filters: number of filters of each convolution.
        dense: width of the two hidden layers.
        dropout: share of units left out, after each hidden layer.
        initializer_range: deviation of new weights.
    """

    model_type = "ordeval-char-cnn"

    vocab_size: int = 70
    pad_token_id: int = 0
    max_position_embeddings: int = 1014
    filters: int = 256
    dense: int = 1024
    dropout: float = 0.5
    initializer_range: float = 0.05


class CharCnn(PreTrainedModel):
    """A sequence classifier that reads characters."""

    config_class = CharCnnConfig
    base_model_prefix = ""
    _input_embed_layer = "embedding"

    def __init__(self, config: CharCnnConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.vocab_size - 1, padding_idx=config.pad_token_id)
        self.embedding.weight.requires_grad_(False)
        channels = (config.vocab_size - 1, *[config.filters] * len(KERNELS))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(*sides, kernel) for sides, kernel in zip(pairwise(channels), KERNELS, strict=True)
        )
        self.dense = nn.ModuleList(
            [nn.Linear(config.filters * pooled_length(config), config.dense), nn.Linear(config.dense, config.dense)]
        )
        self.classifier = nn.Linear(config.dense, int(config.num_labels or 0))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw new weights from a normal distribution; the embedding is one-hot, and zero for padding."""
        if isinstance(module, nn.Embedding):
            module.weight.zero_()
            others = [row for row in range(self.config.vocab_size) if row != self.config.pad_token_id]
            module.weight[others] = torch.eye(len(others))
        elif isinstance(module, (nn.Linear, nn.Conv1d)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    @torch.no_grad()
    def start_from_words(self, texts: Sequence[Sequence[int]], words: Sequence[Sequence[int]]) -> None:
        """Let each first filter answer to how one frequent word of the training texts begins; torch's state draws them.

        A beginning is the blank before a word of four characters or more and the six characters after the blank, be
        they the word's or not. Of the most frequent ones, ten times as many as there are filters, each filter gets
        another one: a third for each character in its place, less two thirds, so that it is silent where two places
        or fewer agree, and 5/3 where all do. Where there are fewer beginnings, the other filters stay random.

        Args:
            texts: (r,) ragged characters.
            words: (r,) ragged, the word that each character is of; a word owns the blanks after it.

        Raises:
            ValueError: there is no such beginning, as where tokens are not characters.
        """
        width = KERNELS[0]
        counts: Counter[tuple[int, ...]] = Counter()
        for text, word in zip(texts, words, strict=True):
            starts = [place for place in range(1, len(word)) if word[place] != word[place - 1]]
            for start, end in pairwise([*starts, len(word)]):
                beginning = tuple(text[start - 1 : start - 1 + width])
                if end - start > SHORTEST and len(beginning) == width:
                    counts[beginning] += 1
        if not counts:
            raise ValueError(
                f"no training text has a second word of {SHORTEST} characters or more for the first filters to start "
                "from; set data.text.unit=characters, or model.first_filters=random"
            )
        filters = self.config.filters
        ranked = sorted(counts, key=lambda beginning: (-counts[beginning], beginning))[: CHOICE * filters]
        first = self.convolutions[0]
        assert isinstance(first, nn.Conv1d) and first.bias is not None
        for row, chosen in enumerate(torch.randperm(len(ranked))[:filters].tolist()):
            first.weight[row] = self.embedding.weight[list(ranked[chosen])].T / SILENT_BELOW
            first.bias[row] = (1 - SILENT_BELOW) / SILENT_BELOW

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Return the logits (rows, classes), and the mean cross-entropy where there are labels.

        Args:
            input_ids: (rows, length) characters, at most ``max_position_embeddings``.
            attention_mask: (rows, length), 0 where a character counts as padding.
            inputs_embeds: (rows, length, vocab_size - 1) in place of ``input_ids``.
            labels: (rows,) classes.

        Raises:
            ValueError: both or neither of ``input_ids`` and ``inputs_embeds``, or a text that is too long.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        signal = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        missing = self.config.max_position_embeddings - signal.shape[1]
        if missing < 0:
            raise ValueError(
                f"the text has {signal.shape[1]} characters and the model takes {self.config.max_position_embeddings}; "
                "cut the text, or train a longer model"
            )
        if attention_mask is not None:
            signal = signal * attention_mask.unsqueeze(-1).to(signal.dtype)
        signal = functional.pad(signal.transpose(1, 2), (0, missing))
        for layer, convolution in enumerate(self.convolutions):
            signal = functional.relu(convolution(signal))
            if layer in POOLED:
                signal = functional.max_pool1d(signal, POOL)
        hidden = signal.flatten(1)
        for dense in self.dense:
            hidden = self.dropout(functional.relu(dense(hidden)))
        logits = self.classifier(hidden)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def pooled_length(config: CharCnnConfig) -> int:
    """Return how many positions are left after the last pool.

    Raises:
        ValueError: none is.
    """
    length = config.max_position_embeddings
    for layer, kernel in enumerate(KERNELS):
        length -= kernel - 1
        if layer in POOLED:
            length //= POOL
    if length < 1:
        raise ValueError(
            f"max_position_embeddings is {config.max_position_embeddings}: the convolutions leave nothing of so short "
            "a text; make it 123 or more"
        )
    return length
