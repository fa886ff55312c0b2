"""From a published training and test part to the three parts of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conf.schema import Data
from explainers.streams import stream
from tasks.preprocess.errors import DataError
from tasks.preprocess.public import PublicSource
from tasks.preprocess.split import PARTS, share_of
from tasks.preprocess.write import save_parts

Labels = Mapping[str, Sequence[int | None]]


def cut(labels: Labels, data: Data, seed: int, classes: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the rows of each part: a validation part cut from the training rows, and the published test rows.

    Rows are drawn stratified by label and go in drawn order, so that the first ones of a part are a sample of it. The
    draws depend on the seed, the data set's name and the labels alone.

    Args:
        labels: of every raw row of ``train`` and ``test``; None where a row takes no part.
        data: its split: validation_share, stratify, most_train, most_test.
        seed: the study's.
        classes: names of the classes 0, 1, ...

    Raises:
        DataError: a class that training or test part lacks, or fewer than two in the validation part.
    """
    train = drawn(labels["train"], data.split.stratify, seed, data.dataset, "train")[: data.split.most_train]
    test = drawn(labels["test"], data.split.stratify, seed, data.dataset, "test")[: data.split.most_test]
    validation = share_of(len(train), data.split.validation_share)
    # of a stratified order every stretch is stratified
    parts = {"train": train[validation:], "validation": train[:validation], "test": test}
    for part, rows in parts.items():
        of = labels[published(part)]
        there = {of[row] for row in rows}
        missing = [name for label, name in enumerate(classes) if label not in there]
        if len(there) < 2 or (missing and part != "validation"):
            told = f"{len(rows)} samples, none of {', '.join(missing)}"
            remedy = "give files with every class, or raise data.split.most_train, most_test or validation_share"
            raise DataError(f"the {part} part lacks a class", told, remedy)
    return parts


def drawn(labels: Sequence[int | None], stratify: bool, seed: int, name: str, part: str) -> np.ndarray:
    """Return the rows that take part in drawn order; stratified, each class is spread evenly over it."""
    rows = np.array([row for row, label in enumerate(labels) if label is not None], dtype=np.int64)
    order = rows[stream(seed, "cut", name, part).permutation(len(rows))]
    if not stratify:
        return order
    of = np.array([labels[row] for row in order], dtype=np.int64)
    place = np.empty(len(order))
    for label in np.unique(of):
        inside = of == label
        place[inside] = (np.arange(inside.sum()) + 0.5) / inside.sum()
    return order[np.argsort(place, kind="stable")]


def describe(parts: dict[str, np.ndarray], labels: Labels, classes: Sequence[str]) -> dict:
    """Return the samples and the classes of each part, for the audit."""
    found = {}
    for part, rows in parts.items():
        of = labels[published(part)]
        counts = np.bincount([of[row] or 0 for row in rows], minlength=len(classes))
        found[part] = {"samples": len(rows), "labels": dict(zip(classes, counts.tolist(), strict=True))}
    return {"origin": "train and test as published; validation part cut from train", "parts": found}


def common_audit(source: PublicSource, data: Data, seed: int, rows: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return what the audits of texts and images have in common."""
    return {
        "dataset": data.dataset,
        "task": data.task,
        "seed": seed,
        "home": source.home,
        "rows": rows,
        "options": data.model_dump(mode="json", include={"dataset", "task", "tokens", "text", "split"}),
    }


def write_parts(
    parts: Mapping[str, Mapping[str, Sequence]], schema: pa.Schema, data: Data, seed: int, out: Path
) -> None:
    """Write the parts (columns by name) in ``out/dataset``."""
    save_parts({part: pa.table(dict(parts[part]), schema=schema) for part in PARTS}, data.dataset, seed, out)


def sample_name(part: str, row: int) -> str:
    """Return how a sample of a public data set is called: its published part and row."""
    return f"{published(part)}-{row:06d}"


def published(part: str) -> str:
    """Return the published part that the rows of a study's ``part`` are from: validation is cut from train."""
    return "test" if part == "test" else "train"
