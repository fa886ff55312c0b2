"""The eICU Collaborative Research Database, full or demo, as published on PhysioNet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from tasks.preprocess.event_source import Events
from tasks.preprocess.icu import IcuSource


class Eicu(IcuSource):
    """eICU: labs, medications and infusions of unit stays (csv, csv.gz or parquet in one folder).

    Decisions: offsets are minutes from unit admission. The age "> 89" is 90. A death is ``hospitaldischargestatus``
    Expired; where that is empty, a death in the unit counts and everything else is unknown. The first unit stay of a
    hospital admission (``patienthealthsystemstayid``) has the lowest ``unitvisitnumber``; ties go to the earlier unit
    admission, then to the lower id. Medications without a name are named ``hicl`` and their ``drughiclseqno``.
    """

    name = "eicu"

    def required(self) -> Mapping[str, tuple[str, ...]]:
        """Return the columns that the queries below read."""
        return {
            "patient": (
                "patientunitstayid", "patienthealthsystemstayid", "uniquepid", "age", "unitvisitnumber",
                "hospitaladmitoffset", "unitdischargeoffset", "unitdischargestatus", "hospitaldischargeoffset",
                "hospitaldischargestatus",
            ),
            "lab": ("patientunitstayid", "labresultoffset", "labname"),
            "medication": (
                "patientunitstayid", "drugstartoffset", "drugname", "drughiclseqno", "drugordercancelled",
            ),
            "infusiondrug": ("patientunitstayid", "infusionoffset", "drugname"),
        }  # fmt: skip

    def stays(self) -> str:
        """Return the query for the raw stays."""
        return """
            WITH p AS (
                SELECT ident(patientunitstayid) AS stay, nullif(trim(CAST(uniquepid AS VARCHAR)), '') AS patient,
                    ident(patienthealthsystemstayid) AS admission, 0::BIGINT AS admitted,
                    minutes(unitdischargeoffset) AS left_at, minutes(hospitaldischargeoffset) AS hospital_end,
                    CASE WHEN CAST(age AS VARCHAR) LIKE '%>%' THEN 90 ELSE number(age) END AS age,
                    clean(hospitaldischargestatus) AS hospital, clean(unitdischargestatus) AS unit,
                    number(unitvisitnumber) AS number_of_visit, number(hospitaladmitoffset) AS admit_offset
                FROM patient),
            outcome AS (
                SELECT *, CASE lower(coalesce(hospital, CASE WHEN lower(unit) = 'expired' THEN unit END))
                    WHEN 'expired' THEN true WHEN 'alive' THEN false END AS died
                FROM p)
            SELECT stay, patient, stay AS key, admitted, left_at, age, died,
                CASE WHEN died THEN coalesce(hospital_end, left_at) END AS death,
                dense_rank() OVER (PARTITION BY coalesce(admission, 'stay ' || stay)
                    ORDER BY number_of_visit NULLS LAST, admit_offset DESC NULLS LAST, number(stay), stay) AS visit
            FROM outcome"""

    def events(self) -> list[Events]:
        """Return one query a table."""
        hicl = "'hicl ' || ident(drughiclseqno)" if self.data.nameless_drugs == "hicl" else "NULL"
        cancelled = "word(drugordercancelled) IN ('yes', 'true')" if self.data.cancelled == "drop" else "false"
        medication = f"coalesce(clean(drugname), {hicl})"
        return [
            Events("lab", query("lab", "labresultoffset", "LAB", "clean(labname)")),
            Events("medication", query("medication", "drugstartoffset", "MED", medication, cancelled)),
            Events("infusiondrug", query("infusiondrug", "infusionoffset", "INF", "clean(drugname)")),
        ]

    def notes(self, connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        """Count the events that were named by their HICL number."""
        found = connection.execute("SELECT count(*) FROM events WHERE code LIKE 'MED//hicl %'").fetchall()
        return {"medication events named by their HICL number": found[0][0]}


def query(table: str, offset: str, prefix: str, name: str, cancelled: str = "false") -> str:
    """Return the query for one table of offsets in minutes."""
    return f"""
        SELECT ident(patientunitstayid) AS key, NULL::VARCHAR AS stay, minutes({offset}) AS time,
            '{prefix}//' || {name} AS code,
            CASE WHEN {cancelled} THEN 'cancelled order' WHEN minutes({offset}) IS NULL THEN 'no time'
                WHEN {name} IS NULL THEN 'no name' END AS unusable
        FROM {table}"""
