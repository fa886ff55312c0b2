"""From raw tables of events to tokens, step by step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from conf.schema import Data
from tasks.content import Content, write_content
from tasks.preprocess.ehr import collect_events, drop_stays_without, offsets, order_events, per_stay, select_stays
from tasks.preprocess.errors import DataError
from tasks.preprocess.event_source import EventSource, define_macros
from tasks.preprocess.split import describe_split, split_patients
from tasks.preprocess.vocabulary import (
    SPECIAL,
    build_vocabulary,
    rare_codes,
    tokenize,
    truncation,
    write_vocabulary,
)
from tasks.preprocess.write import write_dataset


def write_events(
    source: EventSource, data: Data, seed: int, out: Path, stay_hash: Callable[[str], str]
) -> dict[str, Any]:
    """Turn raw tables into tokens under ``out`` and return the audit.

    Decision: a stay without a known code left leaves the cohort, with a count in the audit ("no known code left").

    Raises:
        DataError: unusable files, no stay left, one class only, or an empty part.
    """
    with engine(data, out) as connection:
        audit, vocabulary = run_steps(connection, source, data, seed)
        write_dataset(connection, data.dataset, seed, out, stay_hash)
    write_vocabulary(vocabulary, out)
    write_content(Content("events", ("0", "1"), data.tokens.max_tokens), out)
    return audit


@contextmanager
def engine(data: Data, out: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB connection in memory that spills to a folder under ``out``, and remove that folder at the end."""
    spill = out / ".spill"
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": data.threads,
        "memory_limit": data.memory_limit,
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
    }
    try:
        connection = duckdb.connect(config=config)
    except duckdb.Error:
        limits = f"data.memory_limit {data.memory_limit}, data.threads {data.threads}"
        raise DataError("no such resources", limits, "lower them to what this machine has") from None
    try:
        define_macros(connection, data.tokens.names)
        yield connection
    except duckdb.OutOfMemoryException:
        raise DataError(
            "out of memory", f"data.memory_limit {data.memory_limit}", "raise it, or free disk space for what spills"
        ) from None
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def run_steps(
    connection: duckdb.DuckDBPyConnection, source: EventSource, data: Data, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run cohort, window, order, split, vocabulary and cut; return the audit and the vocabulary."""
    source.open(connection)
    cohort = select_stays(connection, source)
    tables = collect_events(connection, source, data)
    collapsed = order_events(connection, data)
    drop_stays_without(connection, "events", "no event in the window", cohort)
    origin = split_patients(connection, data, seed)
    vocabulary = build_vocabulary(connection, data.tokens)
    rare = rare_codes(connection)
    tokenize(connection, data.tokens)
    drop_stays_without(connection, "tokens", "no known code left", cohort)
    audit = {
        "dataset": data.dataset,
        "task": data.task,
        "seed": seed,
        "cohort": cohort,
        "tables": tables,
        "duplicates_collapsed": collapsed,
        "offset_hours": offsets(connection),
        "events_per_stay": per_stay(connection, "events"),
        "tokens_per_stay": per_stay(connection, "tokens"),
        "vocabulary": {
            "size": len(vocabulary["tokens"]) - len(SPECIAL),
            "counted_on": "train",
            "rare_are": "[UNK]" if data.tokens.rare == "unk" else "dropped",
            "rare": rare,
        },
        "truncated": truncation(connection, data.tokens),
        "split": {"origin": origin, **describe_split(connection)},
        "notes": source.notes(connection),
        "options": data.model_dump(mode="json", exclude={"path", "labels_path", "memory_limit", "threads"}),
    }
    return audit, vocabulary
