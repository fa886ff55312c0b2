"""The stage: one data set in, checked samples with their audit out, whatever kind of data it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conf.schema import Data
from tasks.preprocess.audit import write_audit
from tasks.preprocess.event_pipeline import write_events
from tasks.preprocess.event_source import EventSource
from tasks.preprocess.images import write_images
from tasks.preprocess.public import ImageSource, TextSource
from tasks.preprocess.source import get_source
from tasks.preprocess.table import write_table
from tasks.preprocess.table_source import TableSource
from tasks.preprocess.text import write_texts


def preprocess(data: Data, seed: int, out: Path, stay_hash: Callable[[str], str]) -> dict[str, Any]:
    """Turn raw data into samples under ``out`` and return the audit.

    Writes ``dataset/`` (parts train, validation, test), ``content.json`` (what a sample is), ``audit.json``,
    ``audit.md``, for token sequences ``vocabulary.json``, and ``truth.json`` where effects are planted. Columns of the
    data set: sample (its name) and label; tokens and, of events, hours since the window's start; of texts, the word
    (and the sentence) of each token; of images, pixels; of tables, features.

    Args:
        data: the data set and what is made of it.
        seed: of the split and of the synthetic cohort.
        out: a folder; made where it is missing.
        stay_hash: maps a raw stay id to what may leave the machine; the only trace of an id in ``out``.

    Raises:
        DataError: unusable files, no sample left, one class only, or an empty part.
    """
    source = get_source(data, seed)
    source.check()
    out.mkdir(parents=True, exist_ok=True)
    if isinstance(source, EventSource):
        audit = write_events(source, data, seed, out, stay_hash)
    elif isinstance(source, TextSource):
        audit = write_texts(source, data, seed, out)
    elif isinstance(source, ImageSource):
        audit = write_images(source, data, seed, out)
    elif isinstance(source, TableSource):
        audit = write_table(source, data, seed, out)
    else:
        raise TypeError(f"{type(source).__name__} is of no known kind of data; write how this stage prepares it")
    truth = source.truth()
    if truth is not None:
        (out / "truth.json").write_text(json.dumps(truth, indent=2) + "\n", encoding="utf-8")
    write_audit(audit, out)
    return audit
