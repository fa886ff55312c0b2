"""Writing a report into a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.report import planted
from tasks.report.attribution import headline
from tasks.report.differences import differences
from tasks.report.embed import frame_json, sample_json, study_json
from tasks.report.page import Embedded, Section, data_uri, html, markdown, markdown_grid
from tasks.report.results import SampleView, StudyResults
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
    apart = differences(results, comparison)
    parts = sections(results, comparison, apart, rows)
    pictures = {picture.name: picture.png() for part in parts for picture in part.pictures}
    said = escape_markdown(" ".join(coverage(results, comparison)))
    heading = f"Report: {results.name}"
    words = {picture.name: picture.alt for part in parts for picture in part.pictures}
    study = study_json(results, comparison, apart, words)
    embedded = embed(study, results.samples, comparison.methods)
    files: dict[str, str | bytes] = {
        "table.md": f"{markdown_grid(comparison_grid(comparison))}\n\n{said}\n",
        "table.csv": csv_text(csv_table(comparison)),
        "table.tex": tex_table(results, comparison),
        "curves.csv": csv_text(results.curves),
        "differences.csv": csv_text(apart),
        "report.md": markdown(heading, lead(results), parts),
        "report.html": html(heading, lead(results), parts, embedded, lambda name: data_uri(pictures[name])),
    }
    files |= {f"figures/{name}.png": png for name, png in pictures.items()}
    if rows is not None:
        files |= planted_files(rows)
    return {name: write(out / name, content) for name, content in files.items()}


def write_sample(results: StudyResults, sample: str, out: Path) -> Path:
    """Write the page of one sample alone, self-contained as the report, into the folder ``out``.

    Args:
        results: the study's results.
        sample: the sample's keyed hash, or as much of its start as tells it from the others.
        out: a folder; it is made if it is not there.

    Returns:
        The page's path.

    Raises:
        ValueError: no sample, or more than one, has such a hash.
    """
    found = [view for view in results.samples if view.sample.startswith(sample)]
    if len(found) != 1 or not sample:
        raise ValueError(
            f"{len(found) if sample else 'no'} samples have a hash that starts with {sample!r}; give one of: "
            f"{', '.join(view.sample for view in results.samples[:10])}{', ...' if len(results.samples) > 10 else ''}"
        )
    view = found[0]
    methods = tuple(view.attributions) or results.methods
    heading = f"{results.name}: sample {view.sample[:8]}"
    page = html(
        heading,
        f"Data set {results.dataset}, task {results.task}.",
        [Section("The sample", chart="samples")],
        embed(frame_json(methods, results.output), found, methods),
    )
    return write(out / f"sample-{view.sample[:16]}.html", page)


def embed(study: Mapping[str, Any], samples: Sequence[SampleView], methods: Sequence[str]) -> Embedded:
    """Return what a page embeds of its samples, beside the study."""
    listed = [{"text": f"{view.sample[:8]}: {headline(view)}; length {len(view.names)}"} for view in samples]
    return Embedded({**study, "samples": listed}, [sample_json(view, methods) for view in samples])


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
