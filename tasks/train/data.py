"""What the train stage reads: the three parts of the data set, checked before any long work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import Dataset, load_from_disk

from tasks.content import TOKENS, Content
from tasks.train.served import check_lengths
from tasks.vocabulary import Vocabulary

PARTS = ("train", "validation", "test")
Inputs = list[list[int]] | np.ndarray


@dataclass(frozen=True)
class Part:
    """One part of the data set with r samples.

    Attributes:
        samples: (r,) their names; of stays, keyed hashes.
        inputs: (r,) ragged token ids without [CLS]; of images (r, channels, height, width) uint8; of tables (r, n).
        labels: (r,) int64, 0 to classes - 1, or float64 where a number is predicted.
        words: (r,) ragged, the word that each token of a training text is of; empty where nobody asked for it.
    """

    samples: list[str]
    inputs: Inputs
    labels: np.ndarray
    words: list[list[int]]


def read_parts(data_dir: Path, content: Content, words: bool = False) -> dict[str, Part]:
    """Return the train, validation and test parts that the preprocess stage wrote.

    Args:
        data_dir: the preprocess stage's folder.
        content: what the samples are.
        words: of texts, read the training tokens' words too.

    Raises:
        FileNotFoundError: there is no data set.
        ValueError: a part is missing or has no samples.
    """
    path = data_dir / "dataset"
    if not path.is_dir():
        raise FileNotFoundError(f"there is no data set at {path}; run the preprocess stage first")
    stored = load_from_disk(str(path))
    for name in PARTS:
        if name not in stored or len(stored[name]) == 0:
            raise ValueError(f"the {name} part of the data set has no samples; enlarge its share in data.split")
    return {
        name: Part(
            stored[name]["sample"][:],
            inputs_of(stored[name], content),
            np.array(stored[name]["label"][:], dtype=int if content.classes else float),
            stored[name]["words"][:] if words and name == "train" else [],
        )
        for name in PARTS
    }


def inputs_of(rows: Dataset, content: Content) -> Inputs:
    """Return the model's inputs of ``rows``."""
    if content.kind in TOKENS:
        return rows["tokens"][:]
    if content.kind == "table":
        return np.array(rows["features"][:], dtype=np.float64)
    pixels = rows.with_format("numpy", columns=["pixels"])["pixels"][:]
    return np.asarray(pixels, dtype=np.uint8).reshape(len(rows), *content.shape)


def check_parts(parts: Mapping[str, Part], content: Content, vocabulary: Vocabulary | None) -> None:
    """Raise ValueError where the data cannot be trained on or scored.

    That is: a sequence of more than ``content.longest`` tokens, a token outside the vocabulary, a label that is none of
    the classes, and a training or test part that lacks a class.
    """
    if not content.classes:
        return
    last = len(content.classes) - 1
    for name, part in parts.items():
        if vocabulary is not None:
            check_lengths(list(part.inputs), content.longest)
            check_tokens(name, part, len(vocabulary.names))
        strange = sorted(set(part.labels.tolist()) - set(range(last + 1)))
        if strange:
            raise ValueError(f"the {name} part has the label {strange[0]}; labels are 0 to {last}")
    for name in ("train", "test"):
        classes = np.unique(parts[name].labels)
        missing = sorted(set(range(last + 1)) - set(classes.tolist()))
        if len(classes) > 1 and missing:
            raise ValueError(
                f"the {name} part has no sample of class {content.classes[missing[0]]}; it could be neither learnt nor "
                "scored; take more samples, or a larger share in data.split"
            )
        if len(classes) == 1:
            raise ValueError(
                f"the {name} part has one class only: all {len(parts[name].labels)} samples have label {classes[0]}; "
                "nothing can be learnt or scored; take more samples, another data.task, or a larger share in data.split"
            )


def check_tokens(name: str, part: Part, size: int) -> None:
    """Raise ValueError where ``part`` has a token that is not in a vocabulary of ``size``."""
    tokens = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in part.inputs])
    outside = tokens[(tokens < 0) | (tokens >= size)]
    if len(outside):
        raise ValueError(
            f"the {name} part has the token {outside[0]}, and the vocabulary ends at {size - 1}; "
            "data set and vocabulary do not belong together: run the preprocess stage again"
        )
