"""What Tables 2 to 6 of the joint Shapley paper print (Harris, Pymar and Rowat 2022)."""

from __future__ import annotations

from fractions import Fraction as F

Printed = dict[tuple[str, ...], float]

SETS = (("x1",), ("x2",), ("x3",), ("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x1", "x2", "x3"))


def by_set(*values: float) -> Printed:
    """Return values in the order of the tables' columns, by set."""
    return dict(zip(SETS, values, strict=True))


TABLE_2 = {  # (function, whether x2 = 1 - x1): mean magnitudes, k = 3
    ("first", False): by_set(0.122, 0, 0, 0.049, 0.049, 0, 0.037),
    ("sum", False): by_set(0.122, 0.114, 0, 0.061, 0.049, 0.045, 0.046),
    ("difference", False): by_set(0.122, 0.114, 0, 0.062, 0.049, 0.045, 0.047),
    ("sum", True): by_set(0.122, 0.122, 0, 0, 0.049, 0.049, 0),
    ("difference", True): by_set(0.122, 0.122, 0, 0.098, 0.049, 0.049, 0.073),
}

TABLE_3 = {  # presence-adjusted, k = 3
    "first": by_set(F(5, 21), 0, 0, F(1, 21), F(1, 21), 0, F(1, 56)),
    "sum": by_set(F(5, 21), F(5, 21), 0, F(2, 21), F(1, 21), F(1, 21), F(1, 28)),
    "product": by_set(F(5, 42), F(5, 42), 0, F(1, 14), F(1, 42), F(1, 42), F(3, 112)),
}


def listed(text: str) -> Printed:
    """Return ``A B 0.5; C 0.25`` as sets with values."""
    entries = [entry.split() for entry in text.split(";")]
    return {tuple(words[:-1]): float(words[-1]) for words in entries}


TABLE_4 = {  # (index, k): the sets that are printed, largest first; J at k = 1 is the Shapley value
    ("J", 1): listed(
        "RM 2.57; LSTAT 2.47; AGE 0.81; DIS 0.63; CRIM 0.46; NOX 0.44; PTRATIO 0.27; B 0.24; TAX 0.22; INDUS 0.19; "
        "RAD 0.13; ZN 0.07; CHAS 0.07"
    ),
    ("ST", 2): listed("RM 3.12; LSTAT 2.04; DIS 1.55; CRIM 1.37; B 1.31; NOX 1.15; CHAS RM 0.15; LSTAT TAX 0.15"),
    ("ST", 3): listed("RM 3.12; LSTAT 2.04; DIS 1.55; CRIM 1.37; DIS LSTAT 1.33; B 1.31"),
    ("J", 2): listed(
        "LSTAT 0.63; RM 0.56; LSTAT RM 0.30; AGE LSTAT 0.21; AGE RM 0.20; DIS RM 0.19; CHAS TAX 0.02; RAD ZN 0.01; "
        "CHAS RAD 0.01; ZN 0.01; CHAS 0.01; CHAS ZN 0.01"
    ),
    ("J", 3): listed(
        "LSTAT 0.42; RM 0.34; AGE 0.11; LSTAT RM 0.11; NOX 0.10; DIS 0.08; DIS LSTAT 0.06; DIS LSTAT RAD 0.022; "
        "DIS RAD 0.015; DIS NOX RAD 0.008; CHAS ZN 0.00"
    ),
}

TABLE_5 = {  # local values
    "1 negation": listed("won't 6e-5; disappointed -2e-5; be disappointed -9e-8; won't disappointed 6e-8; "
                         "won't be disappointed 5e-9"),
    "2 enhancement": listed("both 2e-4; and 6e-5; and both 1e-6"),
    "3 context": listed("you well 9e-7; left well -3e-7"),
    "4 lost potential": listed("fascinating 2e-4; would -1e-4; would fascinating 3e-7; would been fascinating -1e-8"),
    "5 adjectival": listed("effort -1e-5; director -9e-6; terrific effort 8e-7; winning director 5e-7"),
}  # fmt: skip

TABLE_6_PAIRS = (
    ("won't", "disappointed"),
    ("both", "inspiring"),
    ("a", "crisp"),
    ("excellent", "youthful"),
    ("john", "terrific"),
)
TABLE_6 = {  # k: the named words by presence-adjusted value, largest first
    1: ("terrific", "both", "excellent", "won't", "crisp", "youthful", "a", "inspiring", "disappointed", "john"),
    2: ("terrific", "both", "excellent", "won't", "a", "youthful", "inspiring", "crisp", "disappointed", "john"),
}
