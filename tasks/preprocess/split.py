"""Which patients train, validate and test: never one on two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from conf.schema import Data, Split
from explainers.streams import stream
from tasks.preprocess.errors import DataError

PARTS = ("train", "validation", "test")


def divide(patients: Mapping[str, int], split: Split, seed: int, name: str) -> dict[str, str]:
    """Return each patient's part: train, validation or test.

    The draws depend on the seed and the sorted patient ids alone. A class that has three patients or more is in all
    parts, one that has two is in train and test.

    Args:
        patients: a patient's highest label, its stratum.
        split: shares of patients, and whether strata count.
        seed: the study's.
        name: the data set's name, part of the random stream's name.
    """
    strata = defaultdict(list)
    for patient in sorted(patients):
        strata[str(patients[patient]) if split.stratify else "all"].append(patient)
    parts: dict[str, str] = {}
    for stratum, members in sorted(strata.items()):
        order = stream(seed, "split", name, stratum).permutation(len(members))
        test = share_of(len(members), split.test_share)
        validation = share_of(len(members) - test, split.validation_share)
        for rank, place in enumerate(order):
            parts[members[place]] = "test" if rank < test else "validation" if rank < test + validation else "train"
    return parts


def share_of(count: int, share: float) -> int:
    """Return ``share`` of ``count`` in whole patients; of two or more at least one, and at least one is left."""
    return int(np.clip(round(count * share), 1, count - 1)) if count > 1 else 0


def split_patients(connection: duckdb.DuckDBPyConnection, data: Data, seed: int) -> str:
    """Give each row of ``stays`` its part in a new column ``part``.

    A given split (``stays.given``) is used as it is; where it has no validation part, one is cut from its training
    patients.

    Returns:
        where the parts come from, for the audit.

    Raises:
        DataError: an empty part, or one class only.
    """
    rows = connection.execute("SELECT patient, max(label), min(given) FROM stays GROUP BY patient").fetchall()
    given = {patient: part for patient, _, part in rows if part is not None}
    strata = {patient: label for patient, label, _ in rows}
    origin = "by patient"
    if not given:
        parts = divide(strata, data.split, seed, data.dataset)
    elif "validation" in given.values():
        parts, origin = given, "given"
    else:
        parts, origin = given | cut_validation(given, strata, data, seed), "given; validation part cut from train"
    table = pa.table({"patient": list(parts), "part": list(parts.values())})
    connection.register("parts", table)
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE stays AS SELECT stays.*, part FROM stays JOIN parts USING (patient)"
    )
    connection.unregister("parts")
    check_parts(part_counts(connection))
    return origin


def cut_validation(given: Mapping[str, str], strata: Mapping[str, int], data: Data, seed: int) -> dict[str, str]:
    """Return the parts of the given training patients, a validation part cut from them."""
    members = {patient: strata[patient] for patient, part in given.items() if part == "train"}
    only = data.split.model_copy(update={"test_share": data.split.validation_share})
    cut = divide(members, only, seed, data.dataset)
    return {patient: "validation" if part == "test" else "train" for patient, part in cut.items()}


def describe_split(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return stays, patients and class balance of each part, and check them.

    Raises:
        DataError: an empty part, one class only (in all parts, in train or in test), or a patient in two parts.
    """
    patients = dict(connection.execute("SELECT part, count(DISTINCT patient) FROM stays GROUP BY 1").fetchall())
    counts = part_counts(connection)
    check_parts(counts)
    overlap = connection.execute(
        "SELECT count(*) FROM (SELECT patient FROM stays GROUP BY patient HAVING count(DISTINCT part) > 1)"
    ).fetchall()[0][0]
    if overlap:
        raise DataError("patients on two sides of the split", str(overlap), "this is a bug in the split: report it")
    parts = {
        part: {
            "stays": sum(by_label.values()),
            "patients": patients[part],
            "labels": by_label,
            "positive_share": round(by_label["1"] / sum(by_label.values()), 4),
        }
        for part, by_label in counts.items()
    }
    return {"parts": parts, "patients_in_two_parts": overlap}


def part_counts(connection: duckdb.DuckDBPyConnection) -> dict[str, dict[str, int]]:
    """Return the stays of each part by label."""
    counts = {part: {"0": 0, "1": 0} for part in PARTS}
    for part, label, count in connection.execute("SELECT part, label, count(*) FROM stays GROUP BY 1, 2").fetchall():
        counts[part][str(label)] = count
    return counts


def check_parts(counts: Mapping[str, Mapping[str, int]]) -> None:
    """Raise DataError where a part is empty, or train, test or the whole cohort holds one class only."""
    told = "; ".join(f"{part}: {by['0']} stays of class 0, {by['1']} of class 1" for part, by in counts.items())
    both = {label: sum(by[label] for by in counts.values()) for label in ("0", "1")}
    if 0 in both.values():
        raise DataError("one class only", told, "take another task, data.los_days or cohort: nothing can be learnt")
    for part, by in counts.items():
        if sum(by.values()) == 0:
            share = "lower data.split.test_share" if part == "train" else f"raise data.split.{part}_share"
            raise DataError(
                f"the {part} part is empty", told, f"{share}, take more stays, or set data.split.given=false (MEDS)"
            )
        if part != "validation" and 0 in by.values():
            raise DataError(f"one class only in the {part} part", told, "take more stays or another seed")
