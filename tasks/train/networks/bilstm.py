"""BiLSTM: a bidirectional LSTM over word embeddings.

Source: L- and C-Shapley paper, App. A.1 (Yahoo Answers): a randomly drawn embedding of 300, a bidirectional LSTM of 256
units a direction, dropout; trained with RMSprop. The last state of each direction goes to the output layer.

A copy of this file travels with the logged model: it needs torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class BiLstmConfig(PretrainedConfig):
    """The shape of a bidirectional LSTM.

    Attributes:
        vocab_size: number of words, padding and other special ones included.
        pad_token_id: its embedding is zero and stays zero.
        max_position_embeddings: the longest input, in words; told to those who cut texts, nothing depends on it.
        embedding_size: width of the word embeddings.
        hidden_size: units of each direction.
        dropout: share of units left out, after the embedding and after the LSTM.
    """

    model_type = "ordeval-bilstm"

    vocab_size: int = 2
    pad_token_id: int = 0
    max_position_embeddings: int = 400
    embedding_size: int = 300
    hidden_size: int = 256
    dropout: float = 0.5


class BiLstm(PreTrainedModel):
    """A sequence classifier that reads words in both directions."""

    config_class = BiLstmConfig
    base_model_prefix = ""
    _input_embed_layer = "embedding"

    def __init__(self, config: BiLstmConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * config.hidden_size, int(config.num_labels or 0))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw new weights: uniform embeddings, Glorot's uniform, orthogonal recurrence, a forget gate that is open."""
        if isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
            module.weight[self.config.pad_token_id] = 0
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("bias"):
                    nn.init.zeros_(parameter)
                    gates = parameter.view(4, -1)  # input, forget, cell, output; the two biases add up
                    gates[1] = 1.0 if name.startswith("bias_ih") else 0.0
                    continue
                for gate in parameter.chunk(4):
                    (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Return the logits (rows, classes), and the mean cross-entropy where there are labels.

        A text ends at the last 1 of its mask; without a mask it fills the row, trailing padding included. A word that
        the mask hides before that end, and padding there, is a zero vector in its place.

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
        words = self.dropout(functional.pad(words, (0, 0, 0, 1)) if words.shape[1] == 0 else words)
        if attention_mask is not None:
            packed = pack_padded_sequence(words, ends(attention_mask), batch_first=True, enforce_sorted=False)
            last = self.lstm(packed)[1][0]
        else:
            last = self.lstm(words)[1][0]
        logits = self.classifier(self.dropout(torch.cat([last[0], last[1]], dim=1)))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def ends(mask: torch.Tensor) -> torch.Tensor:
    """Return (rows,) on the CPU: where each text ends, just behind the last 1 of its mask; an empty one has length 1.

    >>> ends(torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0]])).tolist()
    [3, 1]
    """
    if mask.shape[1] == 0:
        return torch.ones(len(mask), dtype=torch.int64)
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return (places * (mask != 0)).amax(dim=1).clamp(min=1).cpu()
