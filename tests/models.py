"""A BERT small enough for tests."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertForSequenceClassification


def tiny_bert(words: int, layers: int, scale: float) -> BertForSequenceClassification:
    """Return an untrained classifier of ``words`` tokens in ``eval()``, always the same one.

    Its weights are ``scale`` times what they start from: an output that is not flat.
    """
    config = BertConfig(
        vocab_size=words,
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForSequenceClassification(config).eval()
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data *= scale
    return model
