"""What a data set of events is to this stage: raw tables in, candidate stays and event queries out."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import duckdb

from tasks.content import Kind
from tasks.preprocess.source import Source

HOUR = 3_600_000_000


@dataclass(frozen=True)
class Reason:
    """Why a candidate stay leaves the cohort: a text for the audit and an SQL condition on ``candidates``."""

    text: str
    condition: str


@dataclass(frozen=True)
class Events:
    """One raw table's events.

    Attributes:
        table: the table's name, for the audit and for ordering ties.
        query: SQL with the columns key (whose windows the row may fall in), stay (NULL: any stay of the key), time
            (microseconds on the clock of the stays' windows), code, and unusable (why the row is none, or NULL).
        dates_only: the times are midnights of days whose hour is unknown.
    """

    table: str
    query: str
    dates_only: bool = False


class EventSource(Source):
    """Records of events in time order, such as those of ICU stays: raw tables in, stays and event queries out.

    All times are integer microseconds on a clock of the data set's own, so that no boundary is ever rounded.
    """

    kind: ClassVar[Kind] = "events"

    @abstractmethod
    def open(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the raw tables views of ``connection``."""

    @abstractmethod
    def candidates(self) -> str:
        """Return SQL with one row a stay: text stay, patient, key and given (its split, or NULL), label 0/1 or NULL,
        and the times origin (hour 0), start and stop (the window, half open) and day (midnight before start);
        further columns are for :meth:`reasons`.
        """

    @abstractmethod
    def reasons(self) -> list[Reason]:
        """Return why stays leave the cohort, in the order in which the reasons apply."""

    @abstractmethod
    def events(self) -> list[Events]:
        """Return the queries for the events."""

    def notes(self, connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
        """Return further facts for the audit."""
        return {}


def microseconds(hours: float) -> int:
    """Return ``hours`` as whole microseconds."""
    return round(hours * HOUR)


MACROS = (
    "ident(x) AS coalesce(CAST(TRY_CAST(x AS BIGINT) AS VARCHAR), nullif(trim(CAST(x AS VARCHAR)), ''))",
    "number(x) AS TRY_CAST(x AS DOUBLE)",
    "moment(x) AS epoch_us(TRY_CAST(x AS TIMESTAMP))",
    "minutes(x) AS TRY_CAST(round(TRY_CAST(x AS DOUBLE) * 60000000) AS BIGINT)",
    "word(x) AS lower(trim(CAST(x AS VARCHAR)))",
)
CLEAN = {
    "normalised": r"clean(x) AS nullif(lower(trim(regexp_replace(CAST(x AS VARCHAR), '\s+', ' ', 'g'))), '')",
    "as_written": "clean(x) AS nullif(trim(CAST(x AS VARCHAR)), '')",
}


def define_macros(connection: duckdb.DuckDBPyConnection, names: str) -> None:
    """Define the SQL functions of the queries: ident (an id however it is typed), number, moment, minutes, word, clean.

    They take columns of any type: a parquet file's is not always text, and a column without a value may be anything.
    What cannot be read as it should is NULL, and the audit counts it.
    """
    for macro in (*MACROS, CLEAN[names]):
        connection.execute(f"CREATE TEMP MACRO {macro}")
