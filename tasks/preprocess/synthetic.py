"""The synthetic cohort: stays whose labels follow from planted effects, so that attributions can be scored.

The true logit of a sequence of n codes c(1..n) is

    intercept + sum_s value[c(s)] + sum_s position[c(s)] * (s - lbar) / (n - 1)
              + sum over pairs (A, B) of effect * #{(s, t): s < t, c(s) = A, c(t) = B},      lbar = (n + 1) / 2,

which is the closed form of the exact OrdShap matrix with a = value, b = position / (n - 1) and c = effect. Positions
are slots of the sequence, not hours: they can be rearranged, and the model sees nothing else. With the true logit
as the game, ablation leaving an effect out, a token's value importance is a_i + 1/4 of its pair effects in either
order; its position importance is b_i - effect / (2 (n - 1)) per B in the sequence for an A, plus that per A for a B.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from explainers.streams import stream
from tasks.preprocess.event_source import Events, EventSource, Reason, microseconds

VALUE = {"VALUE_UP_A": 1.5, "VALUE_UP_B": 1.0, "VALUE_DOWN": -1.5}
POSITION = {"POSITION_LATE": 8.0, "POSITION_EARLY": -8.0}
BOTH = {"BOTH_UP_LATE": (1.5, 6.0), "BOTH_DOWN_EARLY": (-1.5, -6.0)}
PAIR = ("PAIR_BEFORE", "PAIR_AFTER", 2.5)
TWINS = {"TWIN_A": 0.6, "TWIN_B": 0.6}
INERT = tuple(f"INERT_{letter}" for letter in "ABCDEF")
INTERCEPT = -2.6
EFFECTIVE = (*VALUE, *POSITION, *BOTH, *PAIR[:2], "TWIN_A")
PRESENT = 0.65
TIED = 0.3
PATIENT_STAYS_AGAIN = 0.1


def logit(codes: Sequence[str]) -> float:
    """Return the true logit of a sequence of codes in its order; a code without an effect (or a mask) adds nothing.

    >>> round(logit(["POSITION_LATE", "INERT_A", "INERT_B"]), 6)
    -6.6
    >>> round(logit(["INERT_A", "INERT_B", "POSITION_LATE"]), 6)
    1.4
    """
    effects = code_effects()
    n = len(codes)
    before, after, effect = PAIR
    total, seen = INTERCEPT, 0
    for place, code in enumerate(codes):
        value, position = effects.get(code, (0.0, 0.0))
        total += value + (position * (place - (n - 1) / 2) / (n - 1) if n > 1 else 0.0)
        total += effect * seen if code == after else 0.0
        seen += code == before
    return total


def code_effects() -> dict[str, tuple[float, float]]:
    """Return each code's (value, position) effect."""
    return (
        {code: (value, 0.0) for code, value in (VALUE | TWINS).items()}
        | {code: (0.0, position) for code, position in POSITION.items()}
        | BOTH
        | dict.fromkeys((*PAIR[:2], *INERT), (0.0, 0.0))
    )


def kind(code: str) -> str:
    """Return the kind of a code's planted effect."""
    groups: dict[str, Collection[str]] = {
        "value": VALUE,
        "position": POSITION,
        "value_and_position": BOTH,
        "duplicate": TWINS,
        "inert": INERT,
    }
    named = {PAIR[0]: "pair_before", PAIR[1]: "pair_after"}
    return named.get(code) or next(name for name, codes in groups.items() if code in codes)


def true_importance(codes: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return each token's true value importance and position importance (per slot) for the true logit as the game.

    The closed form of the module's docstring, exact for any n (position is 0 where n is 1).
    """
    effects = code_effects()
    n, (before, after, effect) = len(codes), PAIR
    partners = {before: codes.count(after), after: -codes.count(before)}
    value, position = [], []
    for code in codes:
        own_value, own_position = effects.get(code, (0.0, 0.0))
        pairs = effect * partners.get(code, 0)
        value.append(own_value + abs(pairs) / 4)
        position.append((own_position - pairs / 2) / (n - 1) if n > 1 else 0.0)
    return value, position


def draw_codes(rng: np.random.Generator, events: int) -> list[str]:
    """Return the codes of one stay in random order: each effect present with one chance, at most once, else inert.

    TWIN_B always comes right after TWIN_A.
    """
    chosen: list[str] = []
    for code in rng.permutation(EFFECTIVE):
        group = ["TWIN_A", "TWIN_B"] if code == "TWIN_A" else [str(code)]
        if rng.random() < PRESENT and len(chosen) + len(group) <= events:
            chosen += group
    chosen += [str(code) for code in rng.choice(INERT, size=events - len(chosen))]
    singles = [code for code in chosen if code != "TWIN_B"]
    shuffled = [singles[place] for place in rng.permutation(len(singles))]
    return [code for one in shuffled for code in (["TWIN_A", "TWIN_B"] if one == "TWIN_A" else [one])]


def draw_stay(rng: np.random.Generator, events: int, window: int) -> tuple[list[int], list[str]]:
    """Return the times (microseconds) and codes of one stay, in the order that this stage will give them.

    Times are irregular; three events in ten are tied with the one before. No (time, code) comes twice.
    """
    groups: list[list[str]] = []
    for code in draw_codes(rng, events):
        tied = bool(groups) and rng.random() < TIED and code not in groups[-1] and len(groups[-1]) < 3
        if code == "TWIN_B" or tied:
            groups[-1].append(code)
        else:
            groups.append([code])
    ticks = max(720, 4 * events)
    clock = np.sort(rng.choice(ticks, size=len(groups), replace=False))
    rows = [
        (int(tick) * window // ticks, code) for tick, group in zip(clock, groups, strict=True) for code in sorted(group)
    ]
    return [time for time, _ in rows], [code for _, code in rows]


class Synthetic(EventSource):
    """Synthetic cohort: stays with planted value, position, pair-order, duplicate and inert codes (no files).

    Decisions: one stay in ten belongs to the patient of the stay before it. A label is drawn from the true logit of all
    the events of a stay: it is the truth of the tokens where none is cut or rare.
    """

    name = "synthetic"

    def check(self) -> None:
        """Do nothing: there are no files."""
        return None

    def inputs(self) -> list[Path]:
        """Return nothing: there are no files."""
        return []

    def open(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Draw the cohort and make it tables."""
        stays, events = self.draw()
        connection.execute("CREATE TEMP TABLE synthetic_stays (stay VARCHAR, patient VARCHAR, label TINYINT)")
        connection.execute("CREATE TEMP TABLE synthetic (key VARCHAR, time BIGINT, code VARCHAR)")
        for name, table in (("synthetic_stays", stays), ("synthetic", events)):
            connection.register("drawn", table)
            connection.execute(f"INSERT INTO {name} SELECT * FROM drawn")
            connection.unregister("drawn")

    def draw(self) -> tuple[pa.Table, pa.Table]:
        """Draw the cohort: a table of stays (stay, patient, label) and one of events (key, time, code)."""
        size, window = self.data.synthetic, microseconds(self.data.cohort.window_hours)
        patient, stays, events = 0, [], []
        for stay in range(size.stays):
            rng = stream(self.seed, "synthetic", str(stay))
            patient += rng.random() >= PATIENT_STAYS_AGAIN
            times, codes = draw_stay(rng, int(rng.integers(size.min_events, size.max_events + 1)), window)
            label = int(rng.random() < 1 / (1 + np.exp(-logit(codes))))
            stays.append((str(stay), str(patient), label))
            events += [(str(stay), time, code) for time, code in zip(times, codes, strict=True)]
        return columns(stays, ("stay", "patient", "label")), columns(events, ("key", "time", "code"))

    def candidates(self) -> str:
        """Return the query for the stays with windows and labels."""
        window = microseconds(self.data.cohort.window_hours)
        return (
            "SELECT stay, patient, stay AS key, label, NULL::VARCHAR AS given, 0::BIGINT AS origin, "
            f"0::BIGINT AS start, {window}::BIGINT AS stop, 0::BIGINT AS day FROM synthetic_stays"
        )

    def reasons(self) -> list[Reason]:
        """Return the reasons in the order in which they apply."""
        return [Reason("no label", "label IS NULL")]

    def events(self) -> list[Events]:
        """Return one query a table."""
        query = "SELECT key, NULL::VARCHAR AS stay, time, code, NULL::VARCHAR AS unusable FROM synthetic"
        return [Events("synthetic", query)]

    def truth(self) -> dict[str, Any]:
        """Return the planted effects as ``truth.json`` holds them."""
        before, after, effect = PAIR
        return {
            "codes": {
                code: {"kind": kind(code), "value": value, "position": position}
                for code, (value, position) in code_effects().items()
            },
            "pairs": [{"before": before, "after": after, "effect": effect}],
            "intercept": INTERCEPT,
            "units": {
                "value": "logit per occurrence",
                "position": "logit per relative slot (slot - lbar) / (n - 1), which runs from -1/2 to 1/2; "
                "divide by n - 1 for logit per slot",
                "effect": "logit for each occurrence of before that precedes one of after",
            },
            "duplicates": "TWIN_B comes with every TWIN_A, right after it: data tell only the sum of their values",
        }


def columns(rows: list[tuple], names: tuple[str, ...]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
