"""Put the tables of `docs/results/joint_tables.csv` into `docs/results/joint_shapley_tables.md`, between its marks."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

import pandas as pd

from benchmarks.results import FOLDER

PAGE = FOLDER / "joint_shapley_tables.md"


def main() -> None:
    table = read()
    text = PAGE.read_text(encoding="utf-8")
    for number in measured(table):
        mark = f"<!-- table {number} -->"
        whole = re.compile(f"{mark}\n.*?{mark}\n", re.DOTALL)
        if not whole.search(text):
            raise ValueError(f"{PAGE.name} has no two lines {mark}; write them where table {number} belongs")
        before, after = whole.split(text, maxsplit=1)
        text = f"{before}{mark}\n\n{markdown(table, number)}\n\n{mark}\n{after}"
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")


def read() -> pd.DataFrame:
    """Return the rows of joint_tables.csv, sets as they are written there."""
    return pd.read_csv(FOLDER / "joint_tables.csv")


def measured(table: pd.DataFrame) -> list[int]:
    """Return which of the paper's tables were measured."""
    return sorted(int(number) for number in table["table"].unique())


def markdown(table: pd.DataFrame, number: int) -> str:
    """Return one of the paper's tables with the found values beside the printed ones."""
    rows = table[table["table"] == number]
    makers = {2: by_function, 3: by_function, 4: by_rank, 5: by_review, 6: by_word}
    return "\n".join(makers[number](rows))


def by_function(rows: pd.DataFrame) -> list[str]:
    """Return one line a function: found, and in parentheses the paper's; Table 3 as fractions."""
    exact = bool((rows["table"] == 3).all())
    sets = sorted(rows["set"].unique(), key=lambda name: (name.count("x"), name))
    lines = ["| function | " + " | ".join(map(plain, sets)) + " |", "| :--- |" + " ---: |" * len(sets)]
    for function, part in rows.groupby("column", sort=False):
        cells = part.set_index("set")
        told = []
        for name in sets:
            pair = [cells.loc[name, column] for column in ("value", "paper")]
            own, paper = (fraction(value) for value in pair) if exact else (f"{value:.3f}" for value in pair)
            told.append(f"{own} ({paper})")
        lines.append(f"| {function} | " + " | ".join(told) + " |")
    return lines


def by_rank(rows: pd.DataFrame) -> list[str]:
    """Return the largest sets of each column: found, with the paper's value and rank where it prints them."""
    lines = ["| column | rank | set | found | paper | rank there |", "| :--- | ---: | :--- | ---: | ---: | ---: |"]
    for column, part in rows.groupby("column", sort=False):
        for row in part.to_dict("records"):
            paper = "" if pd.isna(row["paper"]) else f"{row['paper']:g}"
            there = "" if pd.isna(row["paper_rank"]) else f"{row['paper_rank']:.0f}"
            lines.append(f"| {column} | {row['rank']} | {plain(row['set'])} | {row['value']:.3f} | {paper} | {there} |")
    return lines


def by_review(rows: pd.DataFrame) -> list[str]:
    """Return the local values, with their standard errors."""
    lines = ["| review | set | found | standard error | paper |", "| :--- | :--- | ---: | ---: | ---: |"]
    for row in rows.to_dict("records"):
        cells = f"{row['value']:.1e} | {row['stderr']:.0e} | {row['paper']:.0e}"
        lines.append(f"| {row['column']} | {plain(row['set'])} | {cells} |")
    return lines


def by_word(rows: pd.DataFrame) -> list[str]:
    """Return the global values, with their standard errors and the paper's rank."""
    lines = ["| column | rank | set | found | standard error | rank there |"]
    lines.append("| :--- | ---: | :--- | ---: | ---: | ---: |")
    for row in rows.to_dict("records"):
        there = "" if pd.isna(row["paper_rank"]) else f"{row['paper_rank']:.0f}"
        cells = f"{row['value']:.2e} | {row['stderr']:.0e} | {there}"
        lines.append(f"| {row['column']} | {row['rank']} | {plain(row['set'])} | {cells} |")
    return lines


def plain(members: str) -> str:
    """Return a set as it reads: its names, with commas.

    >>> plain("('RM', 'LSTAT')")
    'RM, LSTAT'
    """
    return ", ".join(ast.literal_eval(members))


def fraction(value: float) -> str:
    """Return a number as the fraction of small denominator that it is.

    Raises:
        ValueError: it is none.

    >>> fraction(5 / 21), fraction(0.0)
    ('5/21', '0')
    """
    near = Fraction(value).limit_denominator(200)
    if abs(float(near) - value) > 1e-6:  # the CSV has six significant digits
        raise ValueError(f"{value} is no fraction of small denominator; run benchmarks.joint_tables again")
    return str(near)


if __name__ == "__main__":
    main()
