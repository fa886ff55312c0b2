"""MIMIC-III, full or demo, as published on PhysioNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.preprocess.event_source import Events
from tasks.preprocess.icu import IcuSource


class Mimic3(IcuSource):
    """MIMIC-III: labs, prescriptions and inputs of ICU stays (csv, csv.gz or parquet in one folder).

    Decisions: the age is in whole years at ICU admission, and the birthdays that the data set moves back by 300 years
    (older than 89) count as 90. A death is in hospital (flag or death time of the admission). The first ICU stay of an
    admission is the earliest, then the lowest id. Every table is joined on patient and time; where a row names an ICU
    stay (inputs, prescriptions) it must also be that stay's. Rewritten input orders are left out as cancelled.
    Labs and inputs are named by their dictionary labels, so that items of one label are one code.
    """

    name = "mimic3"
    has_abnormal_flag = True

    def required(self) -> Mapping[str, tuple[str, ...]]:
        """Return the columns that the queries below read."""
        flag = ("flag",) if self.data.tokens.abnormal_flag else ()
        return {
            "patients": ("subject_id", "dob"),
            "admissions": ("hadm_id", "dischtime", "deathtime", "hospital_expire_flag"),
            "icustays": ("subject_id", "hadm_id", "icustay_id", "intime", "outtime"),
            "labevents": ("subject_id", "itemid", "charttime", *flag),
            "prescriptions": ("subject_id", "icustay_id", "startdate", "drug"),
            "inputevents_mv": ("subject_id", "icustay_id", "itemid", "starttime", "statusdescription"),
            "inputevents_cv": ("subject_id", "icustay_id", "itemid", "charttime"),
            "d_labitems": ("itemid", "label"),
            "d_items": ("itemid", "label"),
        }

    def stays(self) -> str:
        """Return the query for the raw stays."""
        return """
            WITH a AS (
                SELECT ident(hadm_id) AS hadm, moment(dischtime) AS dischtime, moment(deathtime) AS deathtime,
                    coalesce(number(hospital_expire_flag) = 1, false) OR moment(deathtime) IS NOT NULL AS died
                FROM admissions),
            p AS (SELECT ident(subject_id) AS subject, TRY_CAST(dob AS TIMESTAMP) AS dob FROM patients),
            i AS (
                SELECT ident(icustay_id) AS stay, ident(subject_id) AS patient, ident(hadm_id) AS hadm,
                    moment(intime) AS admitted, moment(outtime) AS left_at, TRY_CAST(intime AS TIMESTAMP) AS intime
                FROM icustays)
            SELECT stay, patient, patient AS key, admitted, left_at, least(date_sub('year', dob, intime), 90) AS age,
                died, CASE WHEN died THEN coalesce(deathtime, dischtime) END AS death,
                dense_rank() OVER (PARTITION BY coalesce(i.hadm, 'stay ' || stay)
                    ORDER BY admitted NULLS LAST, number(stay), stay) AS visit
            FROM i LEFT JOIN a ON a.hadm = i.hadm LEFT JOIN p ON p.subject = i.patient"""

    def events(self) -> list[Events]:
        """Return one query a table."""
        flag = "CASE WHEN word(flag) = 'abnormal' THEN '//abnormal' ELSE '' END"
        suffix = flag if self.data.tokens.abnormal_flag else "''"
        rewritten = "word(statusdescription) = 'rewritten'" if self.data.cancelled == "drop" else "false"
        return [
            Items("labevents", "d_labitems", "LAB", "charttime", stay="NULL::VARCHAR", suffix=suffix).events(),
            self.prescriptions(),
            Items("inputevents_mv", "d_items", "INF", "starttime", cancelled=rewritten).events(),
            Items("inputevents_cv", "d_items", "INF", "charttime").events(),
        ]

    def prescriptions(self) -> Events:
        """Return the query for prescriptions, whose start is a date."""
        query = """
            SELECT ident(subject_id) AS key, ident(icustay_id) AS stay, moment(startdate) AS time,
                'MED//' || clean(drug) AS code,
                CASE WHEN moment(startdate) IS NULL THEN 'no time'
                    WHEN clean(drug) IS NULL THEN 'no name' END AS unusable
            FROM prescriptions"""
        return Events("prescriptions", query, dates_only=True)


@dataclass(frozen=True)
class Items:
    """A table whose items are named in a dictionary.

    Attributes:
        table: the table.
        dictionary: its dictionary.
        prefix: of its codes.
        time: its time column.
        stay: SQL for the ICU stay that a row names.
        cancelled: SQL for whether a row's order is cancelled.
        suffix: SQL for what is put behind a code.
    """

    table: str
    dictionary: str
    prefix: str
    time: str
    stay: str = "ident(icustay_id)"
    cancelled: str = "false"
    suffix: str = "''"

    def events(self) -> Events:
        """Return the query for the table's events."""
        query = f"""
            WITH d AS (SELECT ident(itemid) AS item, min(clean(label)) AS label FROM {self.dictionary} GROUP BY 1)
            SELECT ident(subject_id) AS key, {self.stay} AS stay, moment({self.time}) AS time,
                '{self.prefix}//' || d.label || {self.suffix} AS code,
                CASE WHEN {self.cancelled} THEN 'cancelled order (rewritten)' WHEN moment({self.time}) IS NULL
                    THEN 'no time' WHEN d.label IS NULL THEN 'no name' END AS unusable
            FROM {self.table} e LEFT JOIN d ON d.item = ident(e.itemid)"""
        return Events(self.table, query)
