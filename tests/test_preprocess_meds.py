"""MEDS extraction: the boundary at the prediction time, static facts, given splits and the schemas."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.preprocess import DataError, check, inputs
from tests.builders_ehr import dropped, hashed, rows, run, sequences, settings

WHEN = datetime(2020, 5, 5, 12, 0)
EPOCH = datetime(1970, 1, 1)


def stay_of(subject: int, when: datetime = WHEN) -> str:
    return f"{subject}|{(when - EPOCH) // timedelta(microseconds=1)}"


def write_meds(folder, events=(), labels=(), splits=None, background=20):
    """Write 20 subjects from 900000 with every code, in two shards, and the extras."""
    subjects = [900_000 + i for i in range(background)]
    base = [(s, WHEN - timedelta(hours=1), code) for s in subjects for code in ("A", "B", "C")]
    shards = [base, list(events)] if events else [base]
    for place, shard in enumerate(shards):
        columns = dict(zip(("subject_id", "time", "code"), map(list, zip(*shard, strict=True)), strict=True))
        schema = pa.schema([("subject_id", pa.int64()), ("time", pa.timestamp("us")), ("code", pa.string())])
        write(folder / "data" / f"part{place}" / "0.parquet", pa.table(columns, schema=schema))
    told = [(s, WHEN, bool(s % 2)) for s in subjects] + list(labels)
    schema = pa.schema(
        [("subject_id", pa.int64()), ("prediction_time", pa.timestamp("us")), ("boolean_value", pa.bool_())]
    )
    columns = dict(zip(schema.names, map(list, zip(*told, strict=True)), strict=True))
    write(folder / "labels" / "0.parquet", pa.table(columns, schema=schema))
    if splits:
        table = pa.table({"subject_id": pa.array(list(splits), pa.int64()), "split": list(splits.values())})
        write(folder / "metadata" / "subject_splits.parquet", table)
    return settings("meds", folder, labels_path=folder / "labels")


def write(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def test_window_includes_the_prediction_time(tmp_path):
    tick = timedelta(microseconds=1)
    start = WHEN - timedelta(hours=12)
    events = [(1, None, "C"), (1, start, "A"), (1, start + tick, "B"), (1, WHEN, "A"), (1, WHEN + tick, "C")]
    data = write_meds(tmp_path, events, [(1, WHEN, True)])
    audit = run(data, tmp_path / "out")
    assert sequences(tmp_path / "out")[hashed(stay_of(1))] == ["B", "A"]
    assert rows(tmp_path / "out")[hashed(stay_of(1))]["hours"] == pytest.approx([0.0, 12.0], abs=1e-6)
    assert audit["tables"]["data"]["dropped"] == {"static fact (no time)": 1, "outside every window of the cohort": 2}
    assert len(inputs(data)) == 3


def test_one_event_counts_for_each_prediction_time_of_its_subject(tmp_path):
    later = WHEN + timedelta(hours=6)
    events = [(1, WHEN - timedelta(hours=8), "A"), (1, WHEN, "B"), (1, later, "C")]
    audit = run(write_meds(tmp_path, events, [(1, WHEN, True), (1, later, False)]), tmp_path / "out")
    found = sequences(tmp_path / "out")
    assert found[hashed(stay_of(1))] == ["A", "B"]
    assert found[hashed(stay_of(1, later))] == ["B", "C"]
    assert audit["tables"]["data"]["rows_out"] == 63
    assert audit["tables"]["data"]["events"] == 64
    place = {rows(tmp_path / "out")[hashed(stay_of(1, when))]["part"] for when in (WHEN, later)}
    assert len(place) == 1


def test_given_splits_are_used(tmp_path):
    names = ["train", "train", "tuning", "tuning", "held_out", "held_out"]
    splits = {900_000 + i: names[i % 6] for i in range(18)} | {900_018: "elsewhere"}
    data = write_meds(tmp_path, splits=splits)
    audit = run(data, tmp_path / "out")
    expected = {"train": "train", "tuning": "validation", "held_out": "test"}
    found = rows(tmp_path / "out")
    assert {s: found[hashed(stay_of(s))]["part"] for s in list(splits)[:18]} == {
        s: expected[name] for s, name in list(splits.items())[:18]
    }
    assert audit["split"]["origin"] == "given"
    assert dropped(audit) == {"not in exactly one of the splits train, tuning, held_out": 2}
    ignored = data.model_copy(update={"split": data.split.model_copy(update={"given": False})})
    assert run(ignored, tmp_path / "own")["split"]["origin"] == "by patient"


def test_validation_is_cut_from_train_where_there_is_no_tuning(tmp_path):
    splits = {900_000 + i: "held_out" if i < 4 else "train" for i in range(20)}
    audit = run(write_meds(tmp_path, splits=splits), tmp_path / "out")
    assert {part: facts["patients"] for part, facts in audit["split"]["parts"].items()} == {
        "train": 14, "validation": 2, "test": 4,
    }  # fmt: skip


def test_given_split_without_held_out(tmp_path):
    data = write_meds(tmp_path, splits={900_000 + i: ["train", "tuning"][i % 4 // 2] for i in range(20)})
    with pytest.raises(DataError, match=r"the test part is empty: train: 5 stays .*data.split.given=false"):
        run(data, tmp_path / "out")


def test_contradicting_labels_leave(tmp_path):
    audit = run(write_meds(tmp_path, [(1, WHEN, "A")], [(1, WHEN, True), (1, WHEN, False)]), tmp_path / "out")
    assert dropped(audit) == {"contradicting labels at one time": 1}


def test_schemas(tmp_path):
    data = write_meds(tmp_path)
    check(data)
    write(tmp_path / "data" / "bad.parquet", pa.table({"subject_id": [1], "when": [WHEN], "code": ["A"]}))
    with pytest.raises(DataError, match=r"not a MEDS DataSchema: bad.parquet: Missing required columns: time"):
        check(data)
    write(tmp_path / "data" / "bad.parquet", pa.table({"subject_id": ["x"], "time": [WHEN], "code": ["A"]}))
    with pytest.raises(DataError, match=r"bad.parquet: subject_id is string; write it as int64"):
        check(data)
    (tmp_path / "data" / "bad.parquet").unlink()
    write(tmp_path / "labels" / "0.parquet", pa.table({"subject_id": [1], "prediction_time": [WHEN]}))
    with pytest.raises(DataError, match="boolean_value"):
        check(data)
    with pytest.raises(DataError, match="no parquet file"):
        check(settings("meds", tmp_path / "nowhere", labels_path=tmp_path / "labels"))
