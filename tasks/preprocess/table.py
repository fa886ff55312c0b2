"""From a table to the three parts of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conf.schema import Data
from explainers.streams import stream
from tasks.content import Content, write_content
from tasks.preprocess.cut import write_parts
from tasks.preprocess.errors import DataError
from tasks.preprocess.split import PARTS, share_of
from tasks.preprocess.table_source import Table, TableSource


def write_table(source: TableSource, data: Data, seed: int, out: Path) -> dict[str, Any]:
    """Write a table under ``out`` and return the audit.

    Raises:
        DataError: files that cannot be used, an empty part, or one class only.
    """
    table = source.read()
    rows = divided(table, data, seed) if source.learnt else {part: np.arange(len(table.labels)) for part in PARTS}
    check_parts(rows, table, source)
    label = pa.int8() if source.classes else pa.float64()
    schema = pa.schema([("sample", pa.string()), ("features", pa.list_(pa.float64())), ("label", label)])
    columns: dict[str, dict[str, Any]] = {
        part: {
            "sample": [f"{part}-{row:06d}" for row in kept.tolist()],
            "features": list(table.features[kept]),
            "label": table.labels[kept],
        }
        for part, kept in rows.items()
    }
    write_parts(columns, schema, data, seed, out)
    terms = source.terms()
    content = Content(
        "table",
        source.classes,
        features=table.names,
        coefficients=tuple(weight for weight, _ in terms),
        exponents=tuple(powers for _, powers in terms),
    )
    write_content(content, out)
    return audit(source, table, data, seed, rows)


def divided(table: Table, data: Data, seed: int) -> dict[str, np.ndarray]:
    """Return the rows of each part in drawn order; the test part begins with the rows that the table names first."""
    order = stream(seed, "table", data.dataset).permutation(len(table.labels))
    order = np.concatenate([np.array(table.first, dtype=np.int64), order[~np.isin(order, table.first)]])
    tested = share_of(len(order), data.split.test_share)
    test, rest = order[:tested][: data.split.most_test], order[tested:][: data.split.most_train]
    validation = share_of(len(rest), data.split.validation_share)
    return {"train": rest[validation:], "validation": rest[:validation], "test": test}


def check_parts(rows: dict[str, np.ndarray], table: Table, source: TableSource) -> None:
    """Raise DataError where a part has no rows, or, of classes, one class only."""
    for part, kept in rows.items():
        found = len(np.unique(table.labels[kept]))
        if not len(kept) or (source.classes and found < 2):
            told = f"{len(kept)} rows of {found} classes" if source.classes else "no rows"
            raise DataError(f"the {part} part cannot be used", told, "enlarge its share in data.split")


def audit(source: TableSource, table: Table, data: Data, seed: int, rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the audit."""
    parts = {}
    for part, kept in rows.items():
        of = table.labels[kept]
        if source.classes:
            told = dict(zip(source.classes, np.bincount(of, minlength=len(source.classes)).tolist(), strict=True))
        else:
            told = {"mean": float(of.mean()), "standard deviation": float(of.std())}
        parts[part] = {"samples": len(kept), "labels": told}
    return {
        "dataset": data.dataset,
        "task": data.task,
        "seed": seed,
        "rows": {"table": {"rows": len(table.labels)}},
        "facts": {"features": len(table.names), **dict(table.facts)},
        "split": {"origin": "drawn rows" if source.learnt else "each part is the whole table", "parts": parts},
        "options": data.model_dump(mode="json", include={"dataset", "task", "table", "split"}),
    }
