"""Writing a report into a folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tasks.report import planted
from tasks.report.page import data_uri, html, markdown, markdown_grid
from tasks.report.results import StudyResults
from tasks.report.sections import comparison_grid, lead, sections
from tasks.report.table import compare, coverage, csv_table, tex_table
from tasks.report.text import escape_markdown


def write_report(results: StudyResults, out: Path) -> dict[str, Path]:
    """Write tables, curves, figures, and the report as Markdown and HTML into ``out``.

    Args:
        results: the study's results.
        out: a folder; it is made if it is not there.

    Returns:
        The path of each file by its name inside ``out``, such as ``table.md`` or ``figures/cost.png``.

    Raises:
        ValueError: a score's metric is unknown, or the planted truth does not speak about the samples' events.
    """
    comparison = compare(results)
    rows = planted.occurrences(results) if results.truth else None
    parts = sections(results, comparison, rows)
    pictures = {picture.name: picture.png() for part in parts for picture in part.pictures}
    said = escape_markdown(" ".join(coverage(results, comparison)))
    heading = f"Report: {results.name}"
    files: dict[str, str | bytes] = {
        "table.md": f"{markdown_grid(comparison_grid(comparison))}\n\n{said}\n",
        "table.csv": csv_text(csv_table(comparison)),
        "table.tex": tex_table(results, comparison),
        "curves.csv": csv_text(results.curves),
        "report.md": markdown(heading, lead(results), parts),
        "report.html": html(heading, lead(results), parts, lambda name: data_uri(pictures[name])),
    }
    files |= {f"figures/{name}.png": png for name, png in pictures.items()}
    if rows is not None:
        files |= planted_files(rows)
    return {name: write(out / name, content) for name, content in files.items()}


def planted_files(rows: pd.DataFrame) -> dict[str, str]:
    """Return the tables of the planted truth: by kind, by code, and each method's separation."""
    return {
        "planted.csv": csv_text(planted.by_kind(rows)),
        "planted_codes.csv": csv_text(planted.by_code(rows)),
        "planted_separation.csv": csv_text(planted.separation(rows)),
    }


def csv_text(frame: pd.DataFrame) -> str:
    """Return a data frame as CSV without its index; NaN is an empty entry."""
    return frame.to_csv(index=False, lineterminator="\n")


def write(path: Path, content: str | bytes) -> Path:
    """Write text as UTF-8, or bytes, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path
