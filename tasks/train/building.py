"""A new classifier for a data set: its architecture, with as many tokens or pixels and classes as the data has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging

from tasks.content import TOKENS, Content
from tasks.train import bert
from tasks.train.augmentation import OF_IMAGES, OF_TEXTS
from tasks.train.networks import NETWORKS
from tasks.train.served import no_progress_bars
from tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from conf.schema import Model

IMAGE_NETWORKS = ("digit_cnn", "object_cnn")
TABLE_NETWORKS = ("mlp", "forest", "polynomial")


def check_fits(model: Model, content: Content) -> None:
    """Raise ValueError where the architecture cannot read this kind of data."""
    known = architectures(content)
    if content.kind in ("image", "table") and model.architecture not in known:
        raise ValueError(
            f"model.architecture is {model.architecture!r}, which cannot read {told(content)}; "
            f"take {' or '.join(known)}"
        )
    if content.kind in TOKENS and model.architecture in (*IMAGE_NETWORKS, *TABLE_NETWORKS):
        raise ValueError(
            f"model.architecture is {model.architecture!r}, and the data are {content.kind}; "
            f"take one of: {', '.join(known)}"
        )
    if (model.architecture == "pretrained") != bool(content.pretrained):
        raise ValueError(
            f"model.architecture is {model.architecture!r} and data.text.pretrained is {content.pretrained!r}; "
            "a pretrained encoder needs its own tokens (data.text.unit=pieces) and no other model reads them"
        )
    kinds = {"image": ("none", *OF_IMAGES), "text": ("none", *OF_TEXTS)}.get(content.kind, ("none",))
    if model.augment not in kinds:
        raise ValueError(
            f"model.augment is {model.augment!r}, which does not vary {told(content)}; take {' or '.join(kinds)}"
        )
    if model.first_filters != "random" and (model.architecture != "char_cnn" or content.kind != "text"):
        raise ValueError(
            f"model.first_filters is {model.first_filters!r}, which is for char_cnn on texts, and this is "
            f"{model.architecture} on {told(content)}; take random"
        )


def architectures(content: Content) -> list[str]:
    """Return the architectures that read this kind of data."""
    if content.kind == "image":
        return list(IMAGE_NETWORKS)
    if content.kind == "table":
        return ["mlp"] if content.classes else ["polynomial"] if content.coefficients else ["forest"]
    return ["pretrained"] if content.pretrained else ["bert", "word_cnn", "char_cnn", "bilstm"]


def told(content: Content) -> str:
    """Return what the data are, for people."""
    if content.kind != "table":
        return {"image": "images", "text": "texts", "events": "events"}[content.kind]
    if content.classes:
        return "a table of classes"
    return "a table of a known function" if content.coefficients else "a table of numbers to predict"


def build(model: Model, content: Content, vocabulary: Vocabulary | None) -> PreTrainedModel:
    """Return an untrained classifier (or a pretrained encoder with a new head) from torch's current random state.

    Args:
        model: architecture, and for BERT its size.
        content: classes, longest sequence or shape of the images.
        vocabulary: of token sequences.

    Raises:
        ValueError: the architecture cannot read this kind of data.
    """
    check_fits(model, content)
    classes = len(content.classes)
    if model.architecture == "pretrained":
        with no_progress_bars(), only_errors():
            return AutoModelForSequenceClassification.from_pretrained(
                content.pretrained, num_labels=classes, use_safetensors=True, attn_implementation="sdpa"
            )
    if vocabulary is not None and model.architecture == "bert":
        return bert.build(model, len(vocabulary.names), vocabulary.pad, content.longest, classes)
    network: Any = NETWORKS[model.architecture]
    if content.kind == "table":
        shape: dict[str, Any] = {"num_features": len(content.features)}
    else:
        shape = pixels_of(content) if vocabulary is None else sequences_of(content, vocabulary)
    if hasattr(network.config_class, "dropout"):
        shape["dropout"] = model.dropout
    return network(network.config_class(num_labels=classes, **shape))


@contextmanager
def only_errors() -> Iterator[None]:
    """Silence transformers' warnings: that the head of a pretrained encoder is new is what fine-tuning is about."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def sequences_of(content: Content, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what a network for token sequences has to know of them."""
    return {
        "vocab_size": len(vocabulary.names),
        "pad_token_id": vocabulary.pad,
        "max_position_embeddings": content.longest,
    }


def pixels_of(content: Content) -> dict[str, Any]:
    """Return what a network for images has to know of them."""
    channels, height, width = content.shape
    mean, std = list(content.reference), list(content.spread)
    return {"channels": channels, "height": height, "width": width, "mean": mean, "std": std}
