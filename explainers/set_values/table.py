"""The tidy table of set values: one row a sample and set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")


def set_table(sets: Iterable[tuple[int, ...]], value: np.ndarray, stderr: np.ndarray) -> pd.DataFrame:
    """Return one sample's table with the columns ``set`` (tuple of 0-based players), ``value`` and ``stderr``."""
    return pd.DataFrame({"set": pd.Series(list(sets), dtype=object), "value": value, "stderr": stderr})


def empty_set_table() -> pd.DataFrame:
    """Return the table of a sample without players."""
    return set_table([], np.zeros(0), np.zeros(0))


def stack_sets(tables: Sequence[pd.DataFrame | None]) -> pd.DataFrame | None:
    """Return the samples' tables as one, with their index in the column ``sample``; None where a method has none."""
    there = [table for table in tables if table is not None]
    if len(there) < len(tables):
        return None
    whole = pd.concat(there, ignore_index=True) if there else empty_set_table()
    whole.insert(0, "sample", np.repeat(np.arange(len(there)), [len(table) for table in there]))
    return whole
