"""What a preprocess output holds: the kind of its samples, their classes, and what the model and the players are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

CONTENT = "content.json"
Kind = Literal["events", "text", "image", "table"]
TOKENS: tuple[Kind, ...] = ("events", "text")


@dataclass(frozen=True)
class Content:
    """What all samples of a data set have in common.

    Attributes:
        kind: events and text are token sequences; images are pixels; tables are rows of numbers.
        classes: names of the classes 0, 1, ...; none where a number is predicted.
        longest: tokens of the longest sequence, special ones not counted; 0 for images.
        shape: channels, height and width of an image; empty for sequences.
        reference: what stands for an absent pixel, one number a channel in [0, 1]; empty for sequences.
        spread: the standard deviation of the training pixels, one number a channel; empty for sequences.
        features: names of a table's columns.
        coefficients: of the terms of a known function of a table's features; none where a model is learnt.
        exponents: of each term, one exponent a feature.
        pretrained: folder or public name of the encoder whose tokens these are; empty where they are the data's own.
    """

    kind: Kind
    classes: tuple[str, ...]
    longest: int = 0
    shape: tuple[int, ...] = ()
    reference: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    features: tuple[str, ...] = ()
    coefficients: tuple[float, ...] = ()
    exponents: tuple[Sequence[int], ...] = ()
    pretrained: str = ""


def write_content(content: Content, folder: Path) -> None:
    """Write ``content.json``."""
    (folder / CONTENT).write_text(json.dumps(asdict(content), indent=1) + "\n", encoding="utf-8")


def read_content(folder: Path) -> Content:
    """Return the content of a preprocess output.

    Raises:
        FileNotFoundError: there is no ``content.json``.
    """
    path = folder / CONTENT
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}; run the preprocess stage first")
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    fields: dict[str, Any] = {name: tuple(entry) if isinstance(entry, list) else entry for name, entry in raw.items()}
    return Content(**fields)
