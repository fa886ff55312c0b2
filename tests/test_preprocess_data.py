"""The real demo data: published counts, window, and no identifier in what is written."""

from __future__ import annotations

import csv
import gzip

import datasets
import pytest

from tests.builders_ehr import hashed, run, settings

pytestmark = pytest.mark.data


def column(path, name):
    with gzip.open(path, "rt", newline="") as file:
        return {row[name] for row in csv.DictReader(file)}


def left_after(audit, start):
    return next(step["left"] for step in audit["cohort"]["steps"] if step["reason"].startswith(start))


def check_privacy(out, identifiers):
    parts = datasets.load_from_disk(str(out / "dataset"))
    assert {row["sample"] for part in parts.values() for row in part.select_columns(["sample"])} <= set(
        map(hashed, identifiers)
    )
    texts = [(out / name).read_text() for name in ("audit.json", "audit.md", "vocabulary.json")]
    assert not [text for text in texts for one in identifiers if len(one) > 5 and one in text]


@pytest.mark.parametrize("task", ["mortality", "los"])
def test_eicu_demo(shared_data, tmp_path, task):
    folder = shared_data / "eicu_demo"
    audit = run(settings("eicu", folder, task=task, tokens={}), tmp_path / "out")
    assert audit["cohort"]["stays_in"] == 2520
    assert left_after(audit, "shorter than window plus gap") == 1623
    assert left_after(audit, "not the first ICU stay") == 1459
    assert left_after(audit, "outcome unknown") == {"mortality": 1441, "los": 1459}[task]
    assert audit["tables"]["lab"]["rows"] == 168_470
    assert audit["tables"]["medication"]["dropped"]["cancelled order"] == 2636
    assert audit["offset_hours"]["earliest"] >= 0
    assert audit["offset_hours"]["latest"] < 12
    assert audit["split"]["patients_in_two_parts"] == 0
    check_privacy(tmp_path / "out", column(folder / "patient.csv.gz", "patientunitstayid"))


def test_eicu_demo_labels_of_all_adult_stays_of_a_day(shared_data, tmp_path):
    told = {}
    for task in ("mortality", "los"):
        options = {"cohort": {"first_stay_only": False, "window_hours": 24, "gap_hours": 0}, "tokens": {"min_count": 1}}
        audit = run(settings("eicu", shared_data / "eicu_demo", task=task, **options), tmp_path / task)
        told[task] = audit
    assert left_after(told["los"], "outcome unknown") == 1623
    assert left_after(told["mortality"], "outcome unknown") == 1603


def test_mimic3_demo(shared_data, tmp_path):
    folder = shared_data / "mimic3_demo"
    audit = run(settings("mimic3", folder, task="los", tokens={}), tmp_path / "out")
    assert (audit["cohort"]["stays_in"], audit["cohort"]["stays_out"]) == (136, 107)
    rows = {name: facts["rows"] for name, facts in audit["tables"].items()}
    assert rows == {"labevents": 76_074, "prescriptions": 10_398, "inputevents_mv": 13_224, "inputevents_cv": 34_799}
    assert audit["tables"]["inputevents_mv"]["dropped"]["cancelled order (rewritten)"] == 2910
    for facts in audit["tables"].values():
        assert facts["rows"] == sum(facts["dropped"].values()) + facts["rows_out"]
    assert audit["offset_hours"]["latest"] < 12
    assert sum(part["patients"] for part in audit["split"]["parts"].values()) <= 100
    check_privacy(tmp_path / "out", column(folder / "ICUSTAYS.csv.gz", "icustay_id"))
