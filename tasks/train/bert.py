"""The paper's classifier: a BERT encoder with a classification head, trained from random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import BertConfig, BertForSequenceClassification

if TYPE_CHECKING:
    from conf.schema import Model


def build(model: Model, tokens: int, pad: int, longest: int, classes: int) -> BertForSequenceClassification:
    """Return an untrained classifier; its weights are drawn from torch's current random state.

    The dropout is that of the hidden states, the attention and the head (OrdShap, App. D.1: 6 heads, 3 layers, width
    384, dropout 0.5).

    Args:
        model: the architecture.
        tokens: number of embeddings.
        pad: the padding token.
        longest: the longest sequence; the model has one place more, for [CLS].
        classes: number of classes.
    """
    config = BertConfig(
        vocab_size=tokens,
        pad_token_id=pad,
        hidden_size=model.width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        intermediate_size=model.feed_forward,
        hidden_dropout_prob=model.dropout,
        attention_probs_dropout_prob=model.dropout,
        classifier_dropout=model.dropout,
        max_position_embeddings=longest + 1,
    )
    config.num_labels = classes
    return BertForSequenceClassification._from_config(config, attn_implementation="sdpa")
