"""The vocabulary that preprocessing writes: names of tokens, and the special ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tasks.content import TOKENS, Content

VOCABULARY = "vocabulary.json"


@dataclass(frozen=True)
class Vocabulary:
    """Names by token id, and the special tokens' ids."""

    names: tuple[str, ...]
    pad: int
    cls: int
    mask: int
    unk: int


def read_vocabulary(folder: Path) -> Vocabulary:
    """Return the vocabulary of a preprocess output."""
    raw = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    return Vocabulary(tuple(raw["tokens"]), **raw["special"])


def vocabulary_of(data: Path, content: Content) -> Vocabulary | None:
    """Return the vocabulary of a preprocess output; None where its samples have no tokens."""
    return read_vocabulary(data) if content.kind in TOKENS else None
