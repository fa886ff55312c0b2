"""What the train stage reads: the three parts of the data set and the vocabulary, checked before any long work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import load_from_disk

from tasks.train.served import check_lengths

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Vocabulary:
    """The token ids that training needs.

    Attributes:
        size: number of tokens, special ones included.
        pad: id of the padding token.
        cls: id of [CLS].
    """

    size: int
    pad: int
    cls: int


@dataclass(frozen=True)
class Part:
    """One part of the data set with r stays.

    Attributes:
        stays: (r,) keyed hashes.
        sequences: (r,) ragged token ids without [CLS].
        labels: (r,) int64, 0 or 1.
    """

    stays: list[str]
    sequences: list[list[int]]
    labels: np.ndarray


def read_vocabulary(data_dir: Path) -> Vocabulary:
    """Return the vocabulary that the preprocess stage wrote.

    Raises:
        FileNotFoundError: there is no vocabulary.json.
        ValueError: it names no [CLS] or no padding token.
    """
    path = data_dir / "vocabulary.json"
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; run the preprocess stage first")
    raw = json.loads(path.read_text())
    for name in ("pad", "cls"):
        if name not in raw["special"]:
            raise ValueError(f"{path} has no special token {name!r}; run the preprocess stage again")
    return Vocabulary(len(raw["tokens"]), raw["special"]["pad"], raw["special"]["cls"])


def read_parts(data_dir: Path) -> dict[str, Part]:
    """Return the train, validation and test parts that the preprocess stage wrote.

    Raises:
        FileNotFoundError: there is no data set.
        ValueError: a part is missing or has no stays.
    """
    path = data_dir / "dataset"
    if not path.is_dir():
        raise FileNotFoundError(f"there is no data set at {path}; run the preprocess stage first")
    stored = load_from_disk(str(path))
    for name in PARTS:
        if name not in stored or len(stored[name]) == 0:
            raise ValueError(f"the {name} part of the data set has no stays; enlarge its share in data.split")
    return {
        name: Part(stored[name]["stay"][:], stored[name]["tokens"][:], np.array(stored[name]["label"][:], dtype=int))
        for name in PARTS
    }


def check_parts(parts: Mapping[str, Part], vocabulary: Vocabulary, max_tokens: int) -> None:
    """Raise ValueError where the data cannot be trained on or scored.

    That is: a sequence of more than ``max_tokens`` tokens, a token outside the vocabulary, a label that is not 0 or 1,
    and a training or test part with one class only.
    """
    for name, part in parts.items():
        check_lengths(part.sequences, max_tokens)
        check_tokens(name, part, vocabulary.size)
        strange = sorted(set(part.labels.tolist()) - {0, 1})
        if strange:
            raise ValueError(f"the {name} part has the label {strange[0]}; labels are 0 and 1")
    for name in ("train", "test"):
        classes = np.unique(parts[name].labels)
        if len(classes) == 1:
            raise ValueError(
                f"the {name} part has one class only: all {len(parts[name].labels)} stays have label {classes[0]}; "
                "nothing can be learnt or scored; take more stays, another data.task, or a larger share in data.split"
            )


def check_tokens(name: str, part: Part, size: int) -> None:
    """Raise ValueError where ``part`` has a token that is not in a vocabulary of ``size``."""
    tokens = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in part.sequences])
    outside = tokens[(tokens < 0) | (tokens >= size)]
    if len(outside):
        raise ValueError(
            f"the {name} part has the token {outside[0]}, and the vocabulary ends at {size - 1}; "
            "data set and vocabulary do not belong together: run the preprocess stage again"
        )
