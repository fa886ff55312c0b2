"""The data set on disk: hashed stays, tokens, hours and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from tasks.preprocess.event_source import HOUR
from tasks.preprocess.split import PARTS
from tasks.preprocess.tables import literal

SCHEMA = pa.schema(
    [
        ("sample", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("hours", pa.list_(pa.float32())),
        ("label", pa.int8()),
    ]
)


def write_dataset(
    connection: duckdb.DuckDBPyConnection, name: str, seed: int, out: Path, stay_hash: Callable[[str], str]
) -> None:
    """Write the parts as a ``datasets.DatasetDict`` in ``out/dataset``.

    The rows of a part go by sha256 of (data set name, seed, raw stay id): by neither file order nor ``stay_hash``.
    """
    save_parts({part: part_table(connection, part, name, seed, stay_hash) for part in PARTS}, name, seed, out)


def save_parts(tables: Mapping[str, pa.Table], name: str, seed: int, out: Path) -> None:
    """Write Arrow tables by part as a ``datasets.DatasetDict`` in ``out/dataset``; fingerprints are not drawn."""
    import datasets

    made = {}
    for part, table in tables.items():
        digest = hashlib.sha256("\x1f".join([name, str(seed), part]).encode()).hexdigest()[:16]
        made[part] = datasets.Dataset(datasets.table.InMemoryTable(table), fingerprint=digest)
    datasets.DatasetDict(made).save_to_disk(str(out / "dataset"))


def part_table(
    connection: duckdb.DuckDBPyConnection, part: str, name: str, seed: int, stay_hash: Callable[[str], str]
) -> pa.Table:
    """Return one part as an Arrow table; only the hash of a stay's id goes into it."""
    table = connection.sql(
        "SELECT stay, list(id ORDER BY slot) AS tokens, "
        f"list(CAST(time / {HOUR} AS FLOAT) ORDER BY slot) AS hours, any_value(label) AS label "
        f"FROM tokens JOIN stays USING (stay) WHERE part = {literal(part)} GROUP BY stay "
        f"ORDER BY sha256(concat_ws(chr(31), {literal(name)}, {seed}, stay))"
    ).to_arrow_table()
    hashed = pa.array([stay_hash(stay) for stay in table["stay"].to_pylist()], pa.string())
    return table.set_column(0, "sample", hashed).cast(SCHEMA)
