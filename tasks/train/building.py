"""A new classifier for a data set: its architecture, with as many tokens or pixels and classes as the data has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging

from tasks.content import Content, Kind
from tasks.train import bert
from tasks.train.augmentation import AUGMENTATIONS
from tasks.train.networks import NETWORKS
from tasks.train.served import no_progress_bars
from tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from conf.schema import Model

SEQUENCE_NETWORKS = ("bert", "word_cnn", "char_cnn", "bilstm")
ARCHITECTURES: dict[Kind, tuple[str, ...]] = {
    "events": SEQUENCE_NETWORKS,
    "text": (*SEQUENCE_NETWORKS, "pretrained"),
    "image": ("digit_cnn", "object_cnn"),
    "table": ("mlp", "forest", "polynomial"),
}
NOUNS: dict[Kind, str] = {"events": "events", "text": "texts", "image": "images", "table": "a table"}


def check_reads(model: Model, kind: Kind) -> None:
    """Raise ValueError where the model's options are for another kind of data; no data are needed to tell."""
    known = ARCHITECTURES[kind]
    if model.architecture not in known:
        raise ValueError(
            f"model.architecture is {model.architecture!r}, which cannot read {NOUNS[kind]}; take {' or '.join(known)}"
        )
    varied = ("none", *AUGMENTATIONS.get(kind, ()))
    if model.augment not in varied:
        raise ValueError(
            f"model.augment is {model.augment!r}, which does not vary {NOUNS[kind]}; take {' or '.join(varied)}"
        )
    if model.first_filters != "random" and (model.architecture != "char_cnn" or kind != "text"):
        raise ValueError(
            f"model.first_filters is {model.first_filters!r}, which is for char_cnn on texts, and this is "
            f"{model.architecture} on {NOUNS[kind]}; take random"
        )


def check_fits(model: Model, content: Content) -> None:
    """Raise ValueError where the architecture cannot read these data."""
    check_reads(model, content.kind)
    if (model.architecture == "pretrained") != bool(content.pretrained):
        raise ValueError(
            f"model.architecture is {model.architecture!r} and data.text.pretrained is {content.pretrained!r}; "
            "a pretrained encoder needs its own tokens (data.text.unit=pieces) and no other model reads them"
        )
    if content.kind == "table":
        known, told = "forest", "numbers to predict"
        if content.classes:
            known, told = "mlp", "classes"
        elif content.coefficients:
            known, told = "polynomial", "a known function"
        if model.architecture != known:
            raise ValueError(
                f"model.architecture is {model.architecture!r}, which cannot read a table of {told}; take {known}"
            )


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
