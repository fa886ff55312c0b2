"""eICU extraction: each decision on tables of a few rows."""

from __future__ import annotations

import pytest

from tests.builders_ehr import (
    dropped,
    drug,
    eicu_stay,
    eicu_tables,
    hashed,
    rows,
    run,
    sequences,
    settings,
    write_tables,
)


def extract(tmp_path, stays, labs, drugs=(), **options):
    folder = write_tables(tmp_path / "raw", eicu_tables(stays, labs, list(drugs)))
    audit = run(settings("eicu", folder, **options), tmp_path / "out")
    return audit, sequences(tmp_path / "out")


def test_window_edges(tmp_path):
    labs = [(1, -1, "sodium"), (1, 0, "potassium"), (1, 719, "glucose"), (1, 720, "lactate")]
    audit, found = extract(tmp_path, [eicu_stay(1)], labs)
    assert found[hashed("1")] == ["LAB//potassium", "LAB//glucose"]
    assert audit["offset_hours"] == {"earliest": 0.0, "latest": 719 / 60}
    assert rows(tmp_path / "out")[hashed("1")]["hours"] == pytest.approx([0.0, 719 / 60])
    assert audit["tables"]["lab"] == {
        "rows": 104,
        "dropped": {"outside every window of the cohort": 2},
        "rows_out": 102,
        "events": 102,
    }


@pytest.mark.parametrize("task", ["mortality", "los"])
def test_death_in_window_leaves_the_cohort(tmp_path, task):
    dead = {"hospitaldischargestatus": "Expired", "unitdischargestatus": "Expired"}
    stays = [
        eicu_stay(1, hospitaldischargeoffset=719, **dead),
        eicu_stay(2, hospitaldischargeoffset=720, **dead),
        eicu_stay(3, hospitaldischargeoffset=719),
        eicu_stay(4, unitdischargeoffset=4319),
        eicu_stay(5, unitdischargeoffset=4320),
        *(eicu_stay(i, unitdischargeoffset=2000) for i in range(11, 19)),
    ]
    labs = [(s["patientunitstayid"], 5, "sodium") for s in stays]
    audit, found = extract(tmp_path, stays, labs, task=task)
    assert hashed("1") not in found
    assert dropped(audit) == {"died before the end of the window": 1}
    label = {stay: rows(tmp_path / "out")[hashed(stay)]["label"] for stay in "2345"}
    assert label == ({"2": 1, "3": 0, "4": 0, "5": 0} if task == "mortality" else {"2": 1, "3": 1, "4": 0, "5": 1})


def test_cohort_reasons_are_counted_in_order(tmp_path):
    stays = [
        eicu_stay(1, age="17", unitdischargeoffset=10),
        eicu_stay(2, age="18"),
        eicu_stay(3, age=""),
        eicu_stay(4, unitdischargeoffset=1439),
        eicu_stay(5, unitdischargeoffset=1440),
        eicu_stay(6, unitdischargeoffset=0),
        eicu_stay(7, unitdischargeoffset=""),
        eicu_stay(8, hospitaldischargestatus=""),
        eicu_stay(9),
    ]
    labs = [(s["patientunitstayid"], 5, "sodium") for s in stays[:-1]]
    audit, found = extract(tmp_path, stays, labs)
    assert dropped(audit) == {
        "no usable admission or discharge time": 1,
        "discharge not after admission": 1,
        "age unknown": 1,
        "younger than 18 years": 1,
        "shorter than window plus gap (24 h)": 1,
        "outcome unknown": 1,
        "no event in the window": 1,
    }
    assert audit["cohort"]["stays_in"] == 29
    assert audit["cohort"]["stays_out"] == 22 == len(found)
    assert {hashed("2"), hashed("5")} <= set(found)


@pytest.mark.parametrize(("youngest", "kept"), [(90, True), (91, False)])
def test_age_above_89_is_90(tmp_path, youngest, kept):
    tables = eicu_tables([], [])
    for row in tables["patient"]:
        row["age"] = "95"
    tables["patient"].append(eicu_stay(1, age="> 89"))
    tables["lab"].append(tables["lab"][0] | {"patientunitstayid": 1})
    folder = write_tables(tmp_path / "raw", tables)
    run(settings("eicu", folder, cohort={"min_age": youngest}), tmp_path / "out")
    assert (hashed("1") in sequences(tmp_path / "out")) is kept


def test_first_stay_of_each_hospital_admission(tmp_path):
    one = {"patienthealthsystemstayid": 77}
    stays = [eicu_stay(3, unitvisitnumber=1, **one), eicu_stay(2, unitvisitnumber=2, **one)]
    tie = {"patienthealthsystemstayid": 78, "unitvisitnumber": 1}
    stays += [eicu_stay(5, hospitaladmitoffset=-900, **tie), eicu_stay(6, hospitaladmitoffset=-10, **tie)]
    labs = [(s["patientunitstayid"], 5, "sodium") for s in stays]
    audit, found = extract(tmp_path, stays, labs)
    assert {stay for stay in "2356" if hashed(stay) in found} == {"3", "6"}
    assert dropped(audit) == {"not the first ICU stay of its hospital admission": 2}
    _, every = extract(tmp_path / "all", stays, labs, cohort={"first_stay_only": False})
    assert {stay for stay in "2356" if hashed(stay) in every} == set("2356")


def test_two_stays_of_one_patient_stay_together_and_do_not_leak(tmp_path):
    stays = [eicu_stay(i, uniquepid="p1", patienthealthsystemstayid=i, hospitaldischargestatus=status)
             for i, status in ((1, "Alive"), (2, "Expired"))]  # fmt: skip
    for seed in range(6):
        folder = write_tables(tmp_path / "raw", eicu_tables(stays, [(1, 5, "sodium"), (2, 9, "glucose")]))
        audit = run(settings("eicu", folder), tmp_path / f"out{seed}", seed)
        found = rows(tmp_path / f"out{seed}")
        assert found[hashed("1")]["part"] == found[hashed("2")]["part"]
        assert audit["split"]["patients_in_two_parts"] == 0
        assert sum(part["patients"] for part in audit["split"]["parts"].values()) == 21
    assert sequences(tmp_path / "out0")[hashed("1")] == ["LAB//sodium"]
    assert sequences(tmp_path / "out0")[hashed("2")] == ["LAB//glucose"]


def test_duplicates_collapse_and_are_counted(tmp_path):
    labs = [(1, 5, "sodium"), (1, 5, "sodium"), (1, 5, " SODIUM "), (1, 6, "sodium")]
    audit, found = extract(tmp_path, [eicu_stay(1)], labs)
    assert found[hashed("1")] == ["LAB//sodium", "LAB//sodium"]
    assert audit["duplicates_collapsed"] == 2
    audit, found = extract(tmp_path / "kept", [eicu_stay(1)], labs, tokens={"min_count": 1, "duplicates": "keep"})
    assert found[hashed("1")] == ["LAB//sodium"] * 4
    assert audit["duplicates_collapsed"] == 0


def test_cancelled_orders_and_nameless_drugs(tmp_path):
    drugs = [
        drug(1, 10, "Aspirin", cancelled="Yes"),
        drug(1, 20, "heparin"),
        drug(1, 30, "", hicl="2812"),
        drug(1, 40, "", hicl=""),
        *(drug(100_000 + i, 50, "", hicl="2812") for i in range(20)),
    ]
    audit, found = extract(tmp_path, [eicu_stay(1)], [(1, 5, "sodium")], drugs)
    assert found[hashed("1")] == ["LAB//sodium", "MED//heparin", "MED//hicl 2812"]
    assert audit["tables"]["medication"]["dropped"] == {
        "cancelled order": 1,
        "no name": 1,
        "outside every window of the cohort": 0,
    }
    assert audit["notes"] == {"medication events named by their HICL number": 21}
    options = {"cancelled": "keep", "nameless_drugs": "drop"}
    _, found = extract(tmp_path / "other", [eicu_stay(1)], [(1, 5, "sodium")], drugs, **options)
    assert found[hashed("1")] == ["LAB//sodium", "MED//aspirin", "MED//heparin"]


def test_ties_go_by_table_then_code(tmp_path):
    labs = [(1, 30, "sodium"), (1, 30, "glucose"), (1, 29, "potassium")]
    _, found = extract(tmp_path, [eicu_stay(1)], labs, [drug(1, 30, "Heparin"), drug(1, 30, "Aspirin")])
    assert found[hashed("1")] == [
        "LAB//potassium", "LAB//glucose", "LAB//sodium", "MED//aspirin", "MED//heparin",
    ]  # fmt: skip
