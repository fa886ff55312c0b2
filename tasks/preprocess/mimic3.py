"""MIMIC-III, full or demo, as published on PhysioNet."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.preprocess.icu import IcuSource
from tasks.preprocess.source import Events

TIMELESS = "CASE WHEN {time} IS NULL THEN 'no time' WHEN {name} IS NULL THEN 'no name' END"


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
        flag = "CASE WHEN lower(trim(flag)) = 'abnormal' THEN '//abnormal' ELSE '' END"
        suffix = flag if self.data.tokens.abnormal_flag else "''"
        rewritten = "lower(trim(statusdescription)) = 'rewritten'" if self.data.cancelled == "drop" else "false"
        return [
            Events("labevents", dictionary_query("labevents", "d_labitems", "charttime", "LAB", suffix=suffix)),
            Events("prescriptions", self.prescriptions(), dates_only=True),
            Events(
                "inputevents_mv",
                dictionary_query("inputevents_mv", "d_items", "starttime", "INF", "ident(icustay_id)", rewritten),
            ),
            Events(
                "inputevents_cv",
                dictionary_query("inputevents_cv", "d_items", "charttime", "INF", "ident(icustay_id)"),
            ),
        ]

    def prescriptions(self) -> str:
        """Return the query for prescriptions, whose start is a date."""
        unusable = TIMELESS.format(time="moment(startdate)", name="clean(drug)")
        return f"""
            SELECT ident(subject_id) AS key, ident(icustay_id) AS stay, moment(startdate) AS time,
                'MED//' || clean(drug) AS code, {unusable} AS unusable
            FROM prescriptions"""


def dictionary_query(
    table: str, dictionary: str, time: str, prefix: str, stay: str = "NULL::VARCHAR", cancelled: str = "false",
    suffix: str = "''",
) -> str:
    """Return the query for a table whose items are named in a dictionary."""
    unusable = TIMELESS.format(time=f"moment({time})", name="label")
    return f"""
        WITH d AS (SELECT ident(itemid) AS item, min(clean(label)) AS label FROM {dictionary} GROUP BY 1)
        SELECT ident(subject_id) AS key, {stay} AS stay, moment({time}) AS time,
            '{prefix}//' || d.label || {suffix} AS code,
            CASE WHEN {cancelled} THEN 'cancelled order (rewritten)' ELSE {unusable} END AS unusable
        FROM {table} e LEFT JOIN d ON d.item = ident(e.itemid)"""
