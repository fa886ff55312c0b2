"""No patient leaves the machine: raw identifiers are in no run, artifact, log line or report, nor is the raw folder.

The tables are made with long identifiers that occur nowhere by accident. Searched are the bytes of every file, the
database's SQL text, and the identifiers as text and as 64-bit integers.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows import steps
from flows.cli import guarded
from flows.context import Context, open_context
from tests.builders_ehr import eicu_tables, mimic_tables, write_tables
from tests.studies import TINY, tiny_study
from tests.test_preprocess_meds import write_meds

NUMBERS = {"patientunitstayid": 731_904_000_000_000, "patienthealthsystemstayid": 642_815_000_000_000}
MIMIC = {"subject_id": 514_723_000_000_000, "hadm_id": 425_634_000_000_000, "icustay_id": 336_545_000_000_000}
SUBJECT = 247_456_000_000_000
NAME = "QZX-7731-PATIENT"
FOLDER = "raw-tables-of-ward-zebra"


def disguised(tables: dict[str, list[dict]], numbers: dict[str, int]) -> dict[str, list[dict]]:
    """Return the tables with every identifier made long and distinctive; who is who stays as it is."""

    def cell(column: str, value: Any) -> Any:
        if column == "uniquepid":
            return f"{NAME}-{value}"
        return value + numbers[column] if column in numbers and value != "" else value

    return {name: [{c: cell(c, v) for c, v in row.items()} for row in rows] for name, rows in tables.items()}


def identifiers(tables: dict[str, list[dict]], columns: Iterable[str]) -> set[str]:
    """Return every identifier in the tables, as text."""
    wanted = set(columns)
    return {str(v) for rows in tables.values() for row in rows for c, v in row.items() if c in wanted and v != ""}


def needles(names: Iterable[str]) -> list[bytes]:
    """Return each identifier as text and, where it is a number, as a little- and a big-endian 64-bit integer."""
    found = []
    for name in names:
        found.append(name.encode())
        if name.isdigit():
            found += [struct.pack("<q", int(name)), struct.pack(">q", int(name))]
    return found


def leaks(content: bytes, names: Iterable[str]) -> list[bytes]:
    return [needle for needle in needles(names) if needle in content]


def database(path: Path) -> bytes:
    """Return a sqlite database as SQL text, with all its bytes."""
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump()).encode() + path.read_bytes()
    finally:
        connection.close()


def tracked(storage: Path) -> dict[str, bytes]:
    """Return everything that MLflow has: its database, and each artifact, its name included."""
    artifacts = [path for path in (storage / "mlflow-artifacts").rglob("*") if path.is_file()]
    return {"mlflow.db": database(storage / "mlflow.db")} | {
        str(path.relative_to(storage)): str(path.relative_to(storage)).encode() + path.read_bytes()
        for path in artifacts
    }


def everything(storage: Path) -> dict[str, bytes]:
    """Return every file below the storage folder."""
    return {str(p.relative_to(storage)): str(p).encode() + p.read_bytes() for p in storage.rglob("*") if p.is_file()}


def run_all(context: Context) -> None:
    """Run every stage with every kind of method, as a study does."""
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    with context.tracker.run("summary", {"stage": "summary"}) as run_id:
        runs = [steps.explain(context, method, data, model) for method in context.study.explainers]
        runs = [steps.evaluate(context, run, data, model) for run in runs]
        runs = [steps.timing(context, run, data, model) for run in runs]
        steps.report(context, runs, data, model, run_id)


def eicu_study(storage: Path, raw: Path, **changes: Any):
    data = {"dataset": "eicu", "task": "mortality", "path": str(raw), "tokens": {"min_count": 1}}
    return tiny_study(storage, **{"data": data, **changes})


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("raw") / FOLDER


@pytest.fixture(scope="module")
def names(raw) -> set[str]:
    """Write the eICU tables; return every raw identifier."""
    tables = disguised(eicu_tables([], [], background=40), NUMBERS)
    write_tables(raw, tables, ".csv.gz")
    found = identifiers(tables, [*NUMBERS, "uniquepid"])
    assert len(found) == 120 and all(len(name) >= 15 for name in found)
    return found


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def study_done(storage, raw, names) -> Path:
    run_all(open_context(eicu_study(storage, raw)))
    return storage


def test_the_search_would_find_an_identifier(names, tmp_path):
    name = min(names)
    assert leaks(f"stay {name}".encode(), names) == [name.encode()]
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE t (a, b)")
    connection.execute("INSERT INTO t VALUES (?, ?)", (int(name), name))
    connection.commit()
    connection.close()
    assert name.encode() in leaks(database(tmp_path / "x.db"), names)


def test_mlflow_and_the_report_hold_no_identifier(study_done, names):
    there = tracked(study_done)
    kinds = {Path(name).name for name in there}
    assert kinds >= {"audit.json", "attributions.csv", "scores.csv", "timing.csv", "report.html", "model.safetensors"}
    assert {name: found for name, content in there.items() if (found := leaks(content, names))} == {}


def test_mlflow_does_not_know_where_the_raw_tables_lie(study_done, raw):
    assert [name for name, content in tracked(study_done).items() if FOLDER.encode() in content] == []
    assert [name for name, content in tracked(study_done).items() if str(raw.parent).encode() in content] == []


def test_no_output_on_this_machine_holds_an_identifier_either(study_done, names):
    assert {name: found for name, content in everything(study_done).items() if (found := leaks(content, names))} == {}


def test_the_key_of_the_hash_is_in_no_run(study_done):
    key = (study_done / "stay-hash.key").read_bytes().strip()
    assert len(key) == 64
    assert [name for name, content in tracked(study_done).items() if key in content] == []


def test_stays_are_told_apart_by_a_keyed_hash(study_done):
    table = next((study_done / "mlflow-artifacts").rglob("attributions.csv")).read_text()
    samples = {line.partition(",")[0] for line in table.splitlines()[1:]}
    assert len(samples) == TINY["explain"]["samples"]
    assert all(re.fullmatch("[0-9a-f]{16}", sample) for sample in samples)


def test_nothing_that_is_printed_or_logged_holds_an_identifier(storage, raw, names, study_done, capfd, caplog):
    caplog.set_level("DEBUG")
    study = eicu_study(storage, raw, seed=1, explainers=TINY["explainers"][:1])
    run_all(open_context(study, force=True, progress=print))
    shown = capfd.readouterr()
    said = "\n".join([shown.out, shown.err, caplog.text, *(str(record.__dict__) for record in caplog.records)])
    assert "explain ordshap, samples 6 6" in said
    assert leaks(said.encode(), names) == []
    assert str(raw) not in caplog.text


BROKEN = {
    "a row too short": lambda text, name: text + f"{name},{name}\r\n".encode(),
    "a row too long": lambda text, name: text + f"{name},{name},5,a,b,c,d,e\r\n".encode(),
    "an open quote": lambda text, name: text + f'1,{name},60,"{name}\r\n'.encode(),
    "no text": lambda text, name: text + b"1,1,60,a,1.5\r\n" * 20_000 + f"1,{name},60,".encode() + b"\xff,1\r\n",
}


@pytest.mark.parametrize("damage", BROKEN)
def test_an_error_about_a_broken_row_does_not_quote_it(damage, storage, tmp_path, names, capfd, caplog):
    raw = tmp_path / FOLDER
    name = f"{NUMBERS['patientunitstayid'] + 100_003}"
    write_tables(raw, disguised(eicu_tables([], [], background=40), NUMBERS))
    lab = raw / "lab.csv"
    lab.write_bytes(BROKEN[damage](lab.read_bytes(), name))
    with pytest.raises(SystemExit) as end:
        guarded(lambda: steps.preprocess(open_context(eicu_study(storage, raw))))
    shown = capfd.readouterr()
    assert end.value.code == 2 and "unreadable table: table lab" in shown.err
    assert leaks((shown.out + shown.err + caplog.text).encode(), names) == []
    content = database(storage / "mlflow.db")
    assert b"unreadable table: table lab" in content, "the run that failed says why"
    assert leaks(content, names) == [] and FOLDER.encode() not in content


def test_mimic_identifiers_stay_out_too(storage, tmp_path):
    tables = disguised(mimic_tables([], [], background=40), MIMIC)
    names = identifiers(tables, MIMIC)
    assert len(names) == 120
    raw = write_tables(tmp_path / FOLDER, tables, ".parquet")
    data = {"dataset": "mimic3", "task": "mortality", "path": str(raw), "tokens": {"min_count": 1}}
    made = steps.preprocess(open_context(tiny_study(storage, data=data))).output
    assert_clean(storage, made.folder, names)


def test_meds_subjects_stay_out_too(storage, tmp_path):
    when = datetime(2031, 7, 9, 4, 56, 7)
    labels = [(SUBJECT + i, when, bool(i % 2)) for i in range(20)]
    events = [(SUBJECT + i, when - timedelta(hours=1), code) for i in range(20) for code in "AB"]
    data = write_meds(tmp_path / FOLDER, events, labels).model_dump(mode="json")
    made = steps.preprocess(open_context(tiny_study(storage, data=data))).output
    moment = str((when - datetime(1970, 1, 1)) // timedelta(microseconds=1))
    assert_clean(storage, made.folder, {*(str(subject) for subject, _, _ in labels), moment})


def assert_clean(storage: Path, output: Path, names: set[str]) -> None:
    """Check a preprocess output and all that MLflow has against raw identifiers and the raw folder."""
    for place in (tracked(storage), everything(output)):
        assert {name: found for name, content in place.items() if (found := leaks(content, names))} == {}
    assert [name for name, content in tracked(storage).items() if FOLDER.encode() in content] == []
