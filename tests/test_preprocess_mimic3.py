"""MIMIC-III extraction: each decision on tables of a few rows."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.builders_ehr import (
    DAY,
    dropped,
    hashed,
    mimic_input,
    mimic_stay,
    mimic_tables,
    prescription,
    rows,
    run,
    sequences,
    settings,
    write_tables,
)

P = 300_000
STAY = str(P + 800_000)


def at(minutes: float) -> datetime:
    return DAY + timedelta(minutes=minutes)


def extract(tmp_path, stays, labs, options=None, **more):
    folder = write_tables(tmp_path / "raw", mimic_tables(stays, labs, **more))
    audit = run(settings("mimic3", folder, **(options or {})), tmp_path / "out")
    return audit, sequences(tmp_path / "out")


def test_window_edges(tmp_path):
    labs = [(P, at(-1), 0), (P, at(0), 1), (P, at(719), 2), (P, at(720), 3)]
    audit, found = extract(tmp_path, [mimic_stay(P)], labs)
    assert found[hashed(STAY)] == ["LAB//potassium", "LAB//glucose"]
    assert audit["offset_hours"] == {"earliest": 0.0, "latest": 719 / 60}


def test_labs_go_to_the_stay_whose_window_holds_their_time(tmp_path):
    later = mimic_stay(P, start=at(10_000), hadm_id=1, icustay_id=77)
    labs = [(P, at(10), 0), (P, at(5_000), 1), (P, at(10_010), 2), (P + 1, at(10), 3)]
    _, found = extract(tmp_path, [mimic_stay(P), later, mimic_stay(P + 1)], labs)
    assert found[hashed(STAY)] == ["LAB//sodium"]
    assert found[hashed("77")] == ["LAB//glucose"]
    assert rows(tmp_path / "out")[hashed("77")]["part"] == rows(tmp_path / "out")[hashed(STAY)]["part"]


def test_inputs_need_the_stay_and_the_time(tmp_path):
    inputs = [
        mimic_input(P, at(10)),
        mimic_input(P, at(20), stay=55),
        mimic_input(P, at(-1)),
        mimic_input(P, at(30), "Rewritten"),
    ]
    audit, found = extract(tmp_path, [mimic_stay(P)], [(P, at(5), 0)], inputevents_mv=inputs)
    assert found[hashed(STAY)] == ["LAB//sodium", "INF//norepinephrine"]
    assert audit["tables"]["inputevents_mv"]["dropped"] == {
        "cancelled order (rewritten)": 1,
        "outside every window of the cohort": 2,
    }
    _, found = extract(
        tmp_path / "kept", [mimic_stay(P)], [(P, at(5), 0)], {"cancelled": "keep"}, inputevents_mv=inputs
    )
    assert found[hashed(STAY)] == ["LAB//sodium", "INF//norepinephrine", "INF//norepinephrine"]


@pytest.mark.parametrize(
    ("option", "kept", "treated"),
    [("admission_day", ["MED//today", "LAB//sodium", "MED//tomorrow"], "hour 0"),
     ("in_window", ["LAB//sodium", "MED//tomorrow"], "left out")],
)  # fmt: skip
def test_prescriptions_have_dates_only(tmp_path, option, kept, treated):
    evening = DAY.replace(hour=20)
    days = {"Yesterday": -1, "Today": 0, "Tomorrow": 1, "Overmorrow": 2}
    orders = [prescription(P, evening + timedelta(days=shift), name) for name, shift in days.items()]
    orders += [prescription(200_000 + i, DAY, name) for i in range(20) for name in days]
    orders += [prescription(200_000 + i, DAY, "Tomorrow") for i in range(20)]
    tables = mimic_tables([mimic_stay(P, start=evening)], [(P, evening + timedelta(hours=1), 0)], prescriptions=orders)
    if option == "in_window":
        for row in tables["icustays"][:20]:
            row["intime"] = DAY.replace(hour=0)
    folder = write_tables(tmp_path / "raw", tables)
    audit = run(settings("mimic3", folder, prescriptions=option), tmp_path / "out")
    assert sequences(tmp_path / "out")[hashed(STAY)] == kept
    told = audit["tables"]["prescriptions"]["dates_only"]
    early = 121 if option == "admission_day" else 1
    assert told["on the admission day, hour unknown"] == early
    assert told["treated as"] == treated
    assert told["at a midnight inside the window, hour unknown"] == 122 - early


@pytest.mark.parametrize("task", ["mortality", "los"])
def test_deaths_and_labels(tmp_path, task):
    stays = [
        mimic_stay(P + 1, 1, deathtime=at(719)),
        mimic_stay(P + 2, 1, deathtime=at(720)),
        mimic_stay(P + 3, hours=71.99),
        mimic_stay(P + 4, hours=72),
        *(mimic_stay(P + i, hours=30) for i in range(10, 20)),
    ]
    audit, found = extract(tmp_path, stays, [(s["subject_id"], at(1), 0) for s in stays], {"task": task})
    assert dropped(audit) == {"died before the end of the window": 1}
    label = [rows(tmp_path / "out")[hashed(str(P + 800_000 + i))]["label"] for i in (2, 3, 4)]
    assert label == ([1, 0, 0] if task == "mortality" else [1, 0, 1])
    assert hashed(str(P + 800_001)) not in found


def test_cohort(tmp_path):
    stays = [
        mimic_stay(P + 1, dob=datetime(2132, 3, 3)),
        mimic_stay(P + 2, dob=datetime(2132, 3, 2)),
        mimic_stay(P + 3, dob=datetime(1850, 3, 2)),
        mimic_stay(P + 4, hours=23.99),
        mimic_stay(P + 5, hours=24),
        mimic_stay(P + 6, outtime=DAY),
        mimic_stay(P + 7),
        mimic_stay(P + 7, start=at(9_000), icustay_id=78),
    ]
    labs = [(s["subject_id"], s["intime"], 0) for s in stays]
    audit, found = extract(tmp_path, stays, labs)
    assert dropped(audit) == {
        "discharge not after admission": 1,
        "younger than 18 years": 1,
        "shorter than window plus gap (24 h)": 1,
        "not the first ICU stay of its hospital admission": 1,
    }
    kept = [i for i in range(1, 8) if hashed(str(P + 800_000 + i)) in found]
    assert kept == [2, 3, 5, 7]


def test_shifted_birthdays_count_as_90(tmp_path):
    tables = mimic_tables([mimic_stay(P, dob=datetime(1850, 1, 1))], [(P, at(1), 0)])
    folder = write_tables(tmp_path / "raw", tables)
    for row in tables["patients"][:20]:
        row["dob"] = datetime(1850, 1, 1)
    folder = write_tables(tmp_path / "raw", tables)
    audit = run(settings("mimic3", folder, cohort={"min_age": 90}), tmp_path / "out")
    assert audit["cohort"]["stays_out"] == 21
    with pytest.raises(ValueError, match="younger than 91 years: 21"):
        run(settings("mimic3", folder, cohort={"min_age": 91}), tmp_path / "none")


def test_abnormal_flag(tmp_path):
    labs = [(P, at(1), 0, "abnormal"), (P, at(2), 0, "delta"), (P, at(3), 0)]
    labs += [(200_000 + i, at(4), 0, "abnormal") for i in range(20)]
    _, plain = extract(tmp_path, [mimic_stay(P)], labs)
    assert plain[hashed(STAY)] == ["LAB//sodium"] * 3
    _, flagged = extract(tmp_path / "flag", [mimic_stay(P)], labs, {"tokens": {"min_count": 1, "abnormal_flag": True}})
    assert flagged[hashed(STAY)] == ["LAB//sodium//abnormal", "LAB//sodium", "LAB//sodium"]


def test_names_as_written(tmp_path):
    _, found = extract(tmp_path, [mimic_stay(P)], [(P, at(1), 0)], {"tokens": {"min_count": 1, "names": "as_written"}})
    assert found[hashed(STAY)] == ["LAB//Sodium"]
    assert "INF//NaCl  0.9%" in {code for codes in found.values() for code in codes}
