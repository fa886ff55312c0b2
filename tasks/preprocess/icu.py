"""The cohort and labels that MIMIC-III and eICU share, and their tables in one folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import duckdb

from tasks.preprocess.event_source import HOUR, EventSource, Reason, microseconds
from tasks.preprocess.tables import RawTable, create_view, find_tables, reading


class IcuSource(EventSource):
    """ICU stays with admission, discharge and death times, and one file a table in ``data.path``."""

    @abstractmethod
    def required(self) -> Mapping[str, tuple[str, ...]]:
        """Return the required lower-case columns by lower-case table name."""

    @abstractmethod
    def stays(self) -> str:
        """Return SQL with one row a raw stay: stay, patient, key, age (years), the times admitted, left_at and death
        (in hospital, or NULL), died (in hospital; NULL where unknown) and visit (1: first of its hospital admission).
        """

    def tables(self) -> list[RawTable]:
        """Return the tables on disk, checked."""
        assert self.data.path is not None, "conf asks for the path of every data set but the synthetic one"
        return find_tables(self.data.path, self.required())

    def check(self) -> None:
        """Raise DataError where a file is missing or does not fit."""
        self.tables()

    def inputs(self) -> list[Path]:
        """Return the files, sorted."""
        return sorted(table.path for table in self.tables())

    def open(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the files views."""
        for table in self.tables():
            with reading(table.path.name):
                create_view(connection, table)

    def candidates(self) -> str:
        """Return the query for the stays with windows and labels."""
        window = microseconds(self.data.cohort.window_hours)
        long_stay = microseconds(24 * self.data.los_days)
        label = "died" if self.data.task == "mortality" else f"left_at - admitted >= {long_stay}"
        return f"""
            SELECT *, admitted AS origin, admitted AS start, admitted + {window} AS stop,
                admitted - admitted % {24 * HOUR} AS day, CAST({label} AS TINYINT) AS label, NULL::VARCHAR AS given,
                row_number() OVER (PARTITION BY stay ORDER BY admitted, left_at) AS copy
            FROM ({self.stays()})"""

    def reasons(self) -> list[Reason]:
        """Return the reasons in the order in which they apply."""
        cohort = self.data.cohort
        least = cohort.window_hours + cohort.gap_hours
        reasons = [
            Reason("no stay or patient id", "stay IS NULL OR patient IS NULL"),
            Reason("listed more than once", "copy > 1"),
            Reason("no usable admission or discharge time", "admitted IS NULL OR left_at IS NULL"),
            Reason("discharge not after admission", "left_at <= admitted"),
        ]
        if cohort.min_age > 0:
            reasons += [
                Reason("age unknown", "age IS NULL"),
                Reason(f"younger than {cohort.min_age} years", f"age < {cohort.min_age}"),
            ]
        reasons += [
            Reason("died before the end of the window", "death < stop"),
            Reason(f"shorter than window plus gap ({least:g} h)", f"left_at - admitted < {microseconds(least)}"),
        ]
        if cohort.first_stay_only:
            reasons.append(Reason("not the first ICU stay of its hospital admission", "visit > 1"))
        return [*reasons, Reason("outcome unknown", "label IS NULL")]
