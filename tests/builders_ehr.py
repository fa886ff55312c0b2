"""Tiny made tables in the layouts of eICU, MIMIC-III and MEDS, and readers for what the stage writes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import random
from datetime import datetime, timedelta
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from conf.schema import Data
from tasks.preprocess import preprocess

LABS = ["sodium", "potassium", "glucose", "lactate", "chloride"]
DRUGS = ["Aspirin", "Heparin"]
DAY = datetime(2150, 3, 2, 8, 0)
Tables = dict[str, list[dict]]


def hashed(stay: str) -> str:
    return "h" + hashlib.sha256(f"key {stay}".encode()).hexdigest()[:20]


def write_tables(folder: Path, tables: Tables, suffix: str = ".csv", upper: bool = False, shuffle: int = 0) -> Path:
    """Write each table as one file; rows are shuffled where ``shuffle`` is not 0."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        turned = list(rows)
        if shuffle:
            random.Random(shuffle).shuffle(turned)
        header = list(rows[0])
        path = folder / ((name.upper() if upper else name) + suffix)
        fields = {column: column.upper() if upper else column for column in header}
        if suffix == ".parquet":
            cells = {fields[c]: [None if row[c] == "" else row[c] for row in turned] for c in header}
            pq.write_table(pa.table({name: as_pandas_would(column) for name, column in cells.items()}), path)
        else:
            write_csv(path, list(fields.values()), [[row[c] for c in header] for row in turned])
    return folder


def as_pandas_would(column: list) -> pa.Array:
    """Return whole numbers with gaps as doubles, as pandas writes them."""
    array = pa.array(column)
    return array.cast(pa.float64()) if pa.types.is_integer(array.type) and array.null_count else array


def write_csv(path: Path, header: list[str], rows: list[list]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    raw = text.getvalue().encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def eicu_tables(extra_stays: list[dict], labs: list[tuple], drugs: list[dict] = (), background: int = 20) -> Tables:
    """Return eICU tables: ``background`` stays that have every lab and drug, half of them dead later, and the extras.

    ``labs`` are (stay, minutes, name); stay 1, 2, ... of the extras.
    """
    stays = [eicu_stay(100_000 + i, hospitaldischargestatus=["Alive", "Expired"][i % 2]) for i in range(background)]
    seen = [(s["patientunitstayid"], 60 + place, name) for s in stays for place, name in enumerate(LABS)]
    given = [drug(s["patientunitstayid"], 90, name) for s in stays for name in DRUGS]
    return {
        "patient": stays + extra_stays,
        "lab": [
            {"labid": i, "patientunitstayid": stay, "labresultoffset": minutes, "labname": name, "labresult": 1.5}
            for i, (stay, minutes, name) in enumerate(seen + labs)
        ],
        "medication": given + list(drugs),
        "infusionDrug": [
            {"patientunitstayid": s["patientunitstayid"], "infusionoffset": 120, "drugname": "Propofol  (ml/hr)"}
            for s in stays[:5]
        ],
    }


def eicu_stay(stay: int, **changes: object) -> dict:
    row = {
        "patientunitstayid": stay, "patienthealthsystemstayid": stay + 500_000, "uniquepid": f"077-{stay}", "age": "60",
        "unitvisitnumber": 1, "hospitaladmitoffset": -30, "unitdischargeoffset": 5000, "unitdischargestatus": "Alive",
        "hospitaldischargeoffset": 6000, "hospitaldischargestatus": "Alive",
    }  # fmt: skip
    return row | changes


def drug(stay: int, minutes: int, name: str, hicl: str = "", cancelled: str = "No") -> dict:
    return {
        "patientunitstayid": stay, "drugstartoffset": minutes, "drugname": name, "drughiclseqno": hicl,
        "drugordercancelled": cancelled,
    }  # fmt: skip


def mimic_tables(icustays: list[dict], labs: list[tuple], background: int = 20, **more: list[dict]) -> Tables:
    """Return MIMIC-III tables: background stays of patients 200000.. with every lab, half of them dead later.

    ``labs`` are (patient, time, item number of LABS[, flag]); ``icustays`` rows from :func:`mimic_stay`.
    """
    stays = [mimic_stay(200_000 + i, expired=i % 2) for i in range(background)] + icustays
    names = [s["subject_id"] for s in stays[:background]]
    seen = [(patient, DAY + timedelta(hours=1 + k), k) for patient in names for k in range(len(LABS))]
    people = {s["subject_id"]: s["dob"] for s in stays}
    admissions = {s["hadm_id"]: s for s in stays}
    inputs = [
        {"subject_id": p, "icustay_id": p + 800_000, "itemid": 9, "charttime": DAY + timedelta(hours=2)} for p in names
    ]
    return {
        "patients": [{"subject_id": p, "dob": dob} for p, dob in people.items()],
        "admissions": [
            {"hadm_id": h, **{c: s[c] for c in ("dischtime", "deathtime", "hospital_expire_flag")}}
            for h, s in admissions.items()
        ],
        "icustays": [{c: s[c] for c in ("subject_id", "hadm_id", "icustay_id", "intime", "outtime")} for s in stays],
        "labevents": [
            {"subject_id": p, "itemid": 500 + item, "charttime": time, "flag": flag[0] if flag else ""}
            for p, time, item, *flag in seen + labs
        ],
        "prescriptions": [prescription(p, DAY, "Aspirin") for p in names] + more.get("prescriptions", []),
        "inputevents_mv": [mimic_input(p, DAY + timedelta(hours=3)) for p in names] + more.get("inputevents_mv", []),
        "inputevents_cv": inputs,
        "d_labitems": [{"itemid": 500 + k, "label": name.title()} for k, name in enumerate(LABS)],
        "d_items": [{"itemid": 8, "label": "Norepinephrine"}, {"itemid": 9, "label": "NaCl  0.9%"}],
    }


def mimic_stay(patient: int, expired: int = 0, start: datetime = DAY, hours: float = 100, **changes: object) -> dict:
    end = start + timedelta(hours=hours)
    row = {
        "subject_id": patient, "hadm_id": patient + 400_000, "icustay_id": patient + 800_000, "intime": start,
        "outtime": end, "dischtime": end + timedelta(hours=5), "dob": datetime(2090, 1, 1),
        "deathtime": end + timedelta(hours=5) if expired else "", "hospital_expire_flag": expired,
    }  # fmt: skip
    return row | changes


def prescription(patient: int, day: datetime, name: str, stay: int | str = "") -> dict:
    midnight = day.replace(hour=0, minute=0)
    return {"subject_id": patient, "icustay_id": stay, "startdate": midnight, "drug": name}


def mimic_input(patient: int, time: datetime, status: str = "FinishedRunning", stay: int | None = None) -> dict:
    return {
        "subject_id": patient, "icustay_id": stay or patient + 800_000, "itemid": 8, "starttime": time,
        "statusdescription": status,
    }  # fmt: skip


def settings(dataset: str, folder: Path, **changes: object) -> Data:
    """Return options that keep every code (min_count 1)."""
    task = {"meds": "label", "synthetic": "planted"}.get(dataset, "mortality")
    return Data(**{"dataset": dataset, "path": folder, "task": task, "tokens": {"min_count": 1}} | changes)


def run(data: Data, out: Path, seed: int = 0) -> dict:
    return preprocess(data, seed, out, hashed)


def sequences(out: Path) -> dict[str, list[str]]:
    """Return the token names of every stay by its hash."""
    names = json.loads((out / "vocabulary.json").read_text())["tokens"]
    parts = datasets.load_from_disk(str(out / "dataset"))
    return {row["sample"]: [names[token] for token in row["tokens"]] for part in parts.values() for row in part}


def rows(out: Path) -> dict[str, dict]:
    """Return every stay's row by its hash, its part added."""
    parts = datasets.load_from_disk(str(out / "dataset"))
    return {row["sample"]: row | {"part": name} for name, part in parts.items() for row in part}


def dropped(audit: dict) -> dict[str, int]:
    """Return the stays dropped by reason, without the zeros."""
    return {step["reason"]: step["dropped"] for step in audit["cohort"]["steps"] if step["dropped"]}
