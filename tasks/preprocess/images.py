"""From encoded images to pixels in [0, 1], with the training part's average pixel as what stands for an absent one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conf.schema import Data
from tasks.content import Content, write_content
from tasks.preprocess.cut import common_audit, cut, describe, published, sample_name, write_parts
from tasks.preprocess.errors import DataError
from tasks.preprocess.public import ImageSource

SCHEMA = pa.schema([("sample", pa.string()), ("pixels", pa.list_(pa.uint8())), ("label", pa.int8())])


def write_images(source: ImageSource, data: Data, seed: int, out: Path) -> dict[str, Any]:
    """Decode a public data set's images under ``out`` and return the audit.

    ``pixels`` holds channels x height x width bytes, row by row, channel by channel.

    Raises:
        DataError: files that cannot be used, images of several sizes, or a part that lacks a class.
    """
    raw = {part: source.rows(part) for part in ("train", "test")}
    labels = {part: [source.label(row) for row in table.select_columns(["label"])] for part, table in raw.items()}
    rows = {
        part: {"rows": len(of), "of other classes": sum(label is None for label in of)} for part, of in labels.items()
    }
    parts = cut(labels, data, seed, source.classes)
    images = {part: decoded(source, raw[published(part)], kept.tolist()) for part, kept in parts.items()}
    shapes = sorted({image.shape for part in images.values() for image in part})
    if len(shapes) > 1:
        raise DataError("images of several sizes", f"{shapes[0]} and {shapes[-1]}", "give images of one size")
    made: dict[str, dict[str, list]] = {}
    for part, kept in parts.items():
        of = labels[published(part)]
        made[part] = {
            "sample": [sample_name(part, row) for row in kept.tolist()],
            "pixels": [image.ravel() for image in images[part]],
            "label": [of[row] for row in kept],
        }
    write_parts(made, SCHEMA, data, seed, out)
    mean, spread = pixel_statistics(np.stack(images["train"]))
    write_content(Content("image", source.classes, shape=shapes[0], reference=mean, spread=spread), out)
    facts = {"shape": "x".join(map(str, shapes[0])), "average pixel": mean, "standard deviation": spread}
    audit = common_audit(source, data, seed, rows)
    return audit | {"facts": facts, "split": describe(parts, labels, source.classes)}


def decoded(source: ImageSource, raw: Any, rows: list[int]) -> list[np.ndarray]:
    """Return the images of ``rows``, each (channels, height, width) uint8.

    Raises:
        DataError: an image that cannot be decoded.
    """
    from PIL import Image, UnidentifiedImageError

    found = []
    for row in rows:
        held = raw[row][source.pixels]
        try:
            image = np.asarray(Image.open(io.BytesIO(held["bytes"])) if isinstance(held, dict) else held)
        except (UnidentifiedImageError, TypeError) as error:
            told = f"row {row}: {type(error).__name__}"
            raise DataError("an image cannot be decoded", told, f"give the layout of {source.home}") from error
        found.append(np.ascontiguousarray(np.atleast_3d(image).transpose(2, 0, 1), dtype=np.uint8))
    return found


def pixel_statistics(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the standard deviation of each channel of (rows, channels, height, width), in [0, 1]."""
    flat = images.transpose(1, 0, 2, 3).reshape(images.shape[1], -1)
    mean, spread = flat.mean(1) / 255, flat.std(1) / 255
    return tuple(round(float(x), 8) for x in mean), tuple(round(float(x), 8) for x in spread)
