"""From raw tables to events: who takes part, what falls into the window, and in which order."""

from __future__ import annotations

from typing import Any

import duckdb

from conf.schema import Data
from tasks.preprocess.errors import DataError
from tasks.preprocess.event_source import HOUR, Events, EventSource
from tasks.preprocess.tables import literal, reading

Audit = dict[str, Any]


def number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the single whole number that ``query`` yields."""
    return int(connection.execute(query).fetchall()[0][0])


def select_stays(connection: duckdb.DuckDBPyConnection, source: EventSource) -> Audit:
    """Make the table ``stays`` of the candidates that no reason removes; the first reason that fits a stay counts.

    Raises:
        DataError: no stay is left; the message gives the counts by reason.
    """
    reasons = source.reasons()
    cases = " ".join(f"WHEN {reason.condition} THEN {place}" for place, reason in enumerate(reasons))
    with reading("the table of stays"):
        connection.execute(
            f"CREATE TEMP TABLE candidates AS SELECT *, CASE {cases} ELSE {len(reasons)} END AS reason "
            f"FROM ({source.candidates()})"
        )
    connection.execute(
        "CREATE TEMP TABLE stays AS SELECT stay, patient, key, origin, start, stop, day, label, given "
        f"FROM candidates WHERE reason = {len(reasons)}"
    )
    dropped = dict(connection.execute("SELECT reason, count(*) FROM candidates GROUP BY 1").fetchall())
    cohort: Audit = {"stays_in": sum(dropped.values()), "steps": []}
    for place, reason in enumerate(reasons):
        add_step(cohort, reason.text, dropped.get(place, 0))
    check_left(cohort)
    return cohort


def add_step(cohort: Audit, reason: str, dropped: int) -> None:
    """Write one reason, the stays it removed and those left into the audit's cohort."""
    steps = cohort["steps"]
    before = steps[-1]["left"] if steps else cohort["stays_in"]
    steps.append({"reason": reason, "dropped": dropped, "left": before - dropped})
    cohort["stays_out"] = before - dropped


def check_left(cohort: Audit) -> None:
    """Raise DataError where the cohort's last step leaves no stay."""
    if cohort["stays_out"] == 0:
        counts = ", ".join(f"{step['reason']}: {step['dropped']}" for step in cohort["steps"] if step["dropped"])
        raise DataError(
            "no stay is left",
            f"{cohort['stays_in']} stays read ({counts or 'the table is empty'})",
            "relax data.cohort (min_age, window_hours, gap_hours, first_stay_only) or check the tables",
        )


def collect_events(connection: duckdb.DuckDBPyConnection, source: EventSource, data: Data) -> Audit:
    """Make the table ``hits`` (stay, table_name, time since the window's start, code) of the events in the windows.

    Each raw row is read once against all windows of its key, so that one row can fall into the windows of several
    stays of a patient and is still counted once.
    """
    connection.execute("CREATE TEMP TABLE hits (stay VARCHAR, table_name VARCHAR, time BIGINT, code VARCHAR)")
    connection.execute(
        "CREATE TEMP TABLE windows AS SELECT key, list(struct_pack(stay := stay, origin := origin, start := start, "
        "stop := stop, day := day) ORDER BY start, stay) AS windows FROM stays GROUP BY key"
    )
    return {events.table: collect_table(connection, events, data) for events in source.events()}


def collect_table(connection: duckdb.DuckDBPyConnection, events: Events, data: Data) -> Audit:
    """Add one table's events to ``hits`` and return its part of the audit: rows in, dropped by reason, rows out."""
    lower = "w.day" if events.dates_only else "w.start"
    with reading(f"table {events.table}"):
        usable = dict(connection.execute(f"SELECT unusable, count(*) FROM ({events.query}) GROUP BY 1").fetchall())
        connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE found AS SELECT * FROM (
                SELECT e.time, e.code, list_filter(k.windows, lambda w: e.time >= {lower} AND e.time < w.stop
                    AND (e.stay IS NULL OR e.stay = w.stay)) AS windows
                FROM ({events.query}) e JOIN windows k ON k.key = e.key WHERE e.unusable IS NULL)
            WHERE len(windows) > 0""")
    rows = sum(usable.values())
    out = number(connection, "SELECT count(*) FROM found")
    reasons = {reason: count for reason, count in sorted(usable.items(), key=str) if reason is not None}
    reasons["outside every window of the cohort"] = usable.get(None, 0) - out
    connection.execute("CREATE OR REPLACE TEMP TABLE found AS SELECT time, code, unnest(windows) AS w FROM found")
    audit: Audit = {"rows": rows, "dropped": reasons, "rows_out": out}
    if events.dates_only:
        audit["dates_only"] = settle_dates(connection, data)
    connection.execute(
        f"INSERT INTO hits SELECT w.stay, {literal(events.table)}, greatest(time - w.origin, 0), code FROM found"
    )
    return audit | {
        "events": number(connection, f"SELECT count(*) FROM hits WHERE table_name = {literal(events.table)}")
    }


def settle_dates(connection: duckdb.DuckDBPyConnection, data: Data) -> Audit:
    """Apply the option for events whose hour is unknown, and count the ambiguity.

    On the admission day an event may be older than the admission or younger than the window's end; it is placed at
    hour 0. A later day's event is placed at its midnight and may be younger than the window's end.
    """
    early = number(connection, "SELECT count(*) FROM found WHERE time < w.start")
    total = number(connection, "SELECT count(*) FROM found")
    if data.prescriptions == "in_window":
        connection.execute("DELETE FROM found WHERE time < w.start")
    return {
        "on the admission day, hour unknown": early,
        "treated as": "hour 0" if data.prescriptions == "admission_day" else "left out",
        "at a midnight inside the window, hour unknown": total - early,
    }


def order_events(connection: duckdb.DuckDBPyConnection, data: Data) -> int:
    """Make the table ``events`` (stay, time, code, place 1..): by time, then table, then code, whatever the file order.

    Returns:
        how many rows of identical (stay, time, code) collapsed into another.
    """
    hits = "SELECT stay, time, code, table_name FROM hits"
    if data.tokens.duplicates == "collapse":
        hits = "SELECT stay, time, code, min(table_name) AS table_name FROM hits GROUP BY stay, time, code"
    connection.execute(
        "CREATE TEMP TABLE events AS SELECT stay, time, code, "
        f"row_number() OVER (PARTITION BY stay ORDER BY time, table_name, code) AS place FROM ({hits})"
    )
    return number(connection, "SELECT count(*) FROM hits") - number(connection, "SELECT count(*) FROM events")


def drop_stays_without(connection: duckdb.DuckDBPyConnection, table: str, reason: str, cohort: Audit) -> None:
    """Remove the stays that have no row in ``table`` and add the step to the cohort's audit."""
    missing = f"FROM stays WHERE stay NOT IN (SELECT DISTINCT stay FROM {table})"
    add_step(cohort, reason, number(connection, f"SELECT count(*) {missing}"))
    check_left(cohort)
    connection.execute(f"DELETE {missing}")


def offsets(connection: duckdb.DuckDBPyConnection) -> Audit:
    """Return the earliest and the latest event, in hours since the window's start."""
    low, high = connection.execute("SELECT min(time), max(time) FROM events SEMI JOIN stays USING (stay)").fetchall()[0]
    return {"earliest": low / HOUR, "latest": high / HOUR}


def per_stay(connection: duckdb.DuckDBPyConnection, table: str) -> Audit:
    """Return quantiles of the rows a stay has in ``table``."""
    points = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0]
    names = ["min", "p05", "p25", "median", "p75", "p95", "max"]
    counts = f"SELECT count(*) AS n FROM {table} SEMI JOIN stays USING (stay) GROUP BY stay"
    query = f"SELECT quantile_disc(n, {points}), avg(n) FROM ({counts})"
    quantiles, mean = connection.execute(query).fetchall()[0]
    return dict(zip(names, quantiles, strict=True)) | {"mean": round(mean, 2)}
