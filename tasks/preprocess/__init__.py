"""The first stage: raw records, texts or images to samples, with an audit.

A newcomer's data set is one file in this folder with a subclass of :class:`tasks.preprocess.source.Source`.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from conf.schema import Data
from tasks.preprocess.errors import DataError
from tasks.preprocess.pipeline import preprocess
from tasks.preprocess.source import get_source, sources

__all__ = ["DataError", "check", "datasets", "inputs", "preprocess"]


def check(data: Data) -> None:
    """Check in a moment that the raw files can be used: folder, tables, columns, first blocks.

    Raises:
        DataError: what is wrong, the value and the remedy.
    """
    get_source(data).check()


def inputs(data: Data) -> list[Path]:
    """Return the raw files that :func:`preprocess` reads, sorted; none for the synthetic cohort."""
    return get_source(data).inputs()


def datasets() -> dict[str, str]:
    """Return each data set's name with a one-line description."""
    return {name: (inspect.getdoc(kind) or "").partition("\n")[0] for name, kind in sources().items()}
