"""What the report says, section by section."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from tasks.report import planted
from tasks.report.attribution import attribution_picture, headline, main_method, shown
from tasks.report.coloured import words_picture
from tasks.report.cost import cost_picture
from tasks.report.curves import curve_pictures
from tasks.report.differences import HOW_COMPARED, ranks
from tasks.report.gamma import gamma_picture
from tasks.report.masked import image_picture
from tasks.report.page import Grid, Section
from tasks.report.pairs import pairs_section
from tasks.report.picture import Picture
from tasks.report.results import SampleView, StudyResults
from tasks.report.table import Cell, Comparison, coverage
from tasks.report.text import MISSING, number, title


def sections(
    results: StudyResults, comparison: Comparison, apart: pd.DataFrame, rows: pd.DataFrame | None
) -> list[Section]:
    """Return the report's sections.

    Args:
        results: the study's results.
        comparison: its means and standard errors.
        apart: each method's difference to the best one.
        rows: the planted occurrences; None for real data.
    """
    parts = [comparison_section(results, comparison)]
    if len(apart):
        parts.append(differences_section(apart))
    if rows is not None and len(rows):
        parts.append(planted_section(rows))
    parts.append(Section("Curves", pictures=curve_pictures(results, comparison), chart="curves"))
    cost = cost_picture(results, comparison)
    if cost:
        parts.append(Section("Cost against quality", pictures=[cost], chart="cost"))
    parts.append(samples_section(results.samples))
    parts.append(pairs_section(results))
    parts.append(Section("Model", grids=[model_grid(results.model)], chart="model"))
    parts.append(audit_section(results.audit))
    parts.append(Section("How it was made", grids=[words_grid(results.made.items(), ("Name", "Value"))]))
    return [part for part in parts if any(grid.rows for grid in part.grids) or part.pictures]


def lead(results: StudyResults) -> str:
    """Return the line below the report's title."""
    count = len(results.methods)
    return (
        f"Data set {results.dataset}, task {results.task}; {count} explanation method{'s' if count != 1 else ''} "
        f"compared on {results.sample_count} sample{'s' if results.sample_count != 1 else ''}."
    )


def comparison_grid(comparison: Comparison) -> Grid:
    """Return the comparison table."""
    rows = [[Cell(method), *cells] for method, cells in zip(comparison.methods, comparison.cells(), strict=True)]
    return Grid(["Method", *comparison.headers()], rows)


def comparison_section(results: StudyResults, comparison: Comparison) -> Section:
    """Return the section of the comparison table and the ranks."""
    grids = [comparison_grid(comparison)]
    if len(comparison.methods) > 1:
        grids.append(ranks_grid(comparison, results.metrics))
    return Section("Comparison", coverage(results, comparison), grids)


def ranks_grid(comparison: Comparison, metrics: Sequence[str]) -> Grid:
    """Return the methods' ranks by metric and on average, the best average first."""
    places = ranks(comparison, metrics)
    counted = np.isfinite(places).sum(1)
    mean = np.where(counted > 0, np.nansum(places, axis=1) / np.maximum(counted, 1), np.nan)
    rows = [
        [Cell(comparison.methods[row]), Cell(number(mean[row], 2)), *(Cell(plain(float(x))) for x in places[row])]
        for row in np.argsort(np.nan_to_num(mean, nan=np.inf), kind="stable")
    ]
    header = ["Method", "Mean rank", *map(title, metrics)]
    return Grid(header, rows, "Ranks of the means, 1 the best; the mean rank is over the metrics that a method has")


def differences_section(apart: pd.DataFrame) -> Section:
    """Return the section of the differences to the best method."""
    rows = [
        [
            Cell(title(row["metric"])),
            Cell(row["method"]),
            Cell(row["best"]),
            Cell(plain(row["difference"])),
            Cell(f"{plain(row['low'])} to {plain(row['high'])}" if math.isfinite(row["low"]) else MISSING),
            Cell(p_value(row["p"])),
            Cell(p_value(row["p_holm"])),
            Cell(str(row["samples"])),
        ]
        for row in apart.to_dict("records")
    ]
    header = ["Metric", "Method", "Best", "Difference", "95 % interval", "p", "p (Holm)", "Samples"]
    grid = Grid(header, rows, folded="All differences, with p before and after Holm's correction")
    return Section("Differences to the best", [HOW_COMPARED], [grid], chart="differences")


def p_value(p: float) -> str:
    """Return a p-value with 3 decimals, or below which bound it is.

    >>> p_value(0.0312), p_value(0.0001)
    ('0.031', '<0.001')
    """
    return "<0.001" if p < 0.001 else number(p)


def planted_section(rows: pd.DataFrame) -> Section:
    """Return the section that holds the attributions against the planted truth."""
    picture = planted.planted_picture(rows)
    placed = list(dict.fromkeys(rows.dropna(subset="position")["method"]))
    kinds, codes = planted.by_kind(rows), planted.by_code(rows)
    words = [
        "The planted effects are on the logit of class 1. Explanations of class 0 are negated here, so that every "
        "number speaks about class 1.",
        "AUROC of |PI|: the chance that an event with a planted position effect has a larger |PI| than an inert one; "
        "of |VI|: the same for planted value effects and the attribution. Sign: the share of those events whose PI "
        "(or VI) has the planted sign.",
    ]
    grids = [separation_grid(planted.separation(rows))]
    if placed:
        grids.append(numbers_grid(kinds[kinds["method"].isin(placed)], "By planted kind, mean over occurrences"))
        first = codes[codes["method"] == placed[0]].drop(columns="method")
        grids.append(numbers_grid(first, folded=f"By code, {placed[0]}: planted effect and what was found"))
    return Section("Against the planted truth", words, grids, [picture] if picture else [])


def separation_grid(scores: pd.DataFrame) -> Grid:
    """Return how well each method tells planted effects from inert codes."""
    shown_names = {
        "position_auroc": "AUROC of |PI| ↑",
        "position_sign": "Sign of PI ↑",
        "value_auroc": "AUROC of |VI| ↑",
        "value_sign": "Sign of VI ↑",
        "effects": "Position effects",
        "inert": "Inert events",
    }
    rows = [
        [Cell(row["method"]), *(Cell(share(row[name])) for name in shown_names)] for row in scores.to_dict("records")
    ]
    return Grid(["Method", *shown_names.values()], rows, "Planted effects against inert codes")


def share(entry: float) -> str:
    """Return a share with 3 decimals, a count whole."""
    return number(entry) if isinstance(entry, float) else str(entry)


def numbers_grid(frame: pd.DataFrame, caption: str = "", folded: str = "") -> Grid:
    """Return a data frame as a table."""
    names = {"mean_value": "Mean VI", "mean_position": "Mean PI", "mean_abs_position": "Mean |PI|"}
    header = [names.get(name, title(name)) for name in frame.columns]
    rows = [[Cell(plain(entry)) for entry in row] for row in frame.itertuples(index=False)]
    return Grid(header, rows, caption, folded=folded)


def plain(entry: object) -> str:
    """Return an entry as text: numbers with 3 significant digits, a dash for NaN, whole numbers and words as they are.

    >>> plain(3), plain(0.000123456), plain(float("nan")), plain("inert")
    ('3', '0.000123', '–', 'inert')
    """
    if not isinstance(entry, float):
        return str(entry)
    return f"{entry:.3g}" if math.isfinite(entry) else MISSING


def samples_section(samples: list[SampleView]) -> Section:
    """Return the section of single samples: figures, and all their events by name."""
    grids = [events_grid(sample) for sample in shown(samples) if sample.image is None]
    return Section("Single samples", grids=grids, pictures=sample_pictures(samples), chart="samples")


def sample_pictures(samples: list[SampleView]) -> list[Picture]:
    """Return the figure of each shown sample, and the first gamma matrix that there is."""
    drawn = list(enumerate(shown(samples), start=1))
    pictures = [sample_picture(sample, f"attribution_{place:02d}") for place, sample in drawn]
    for place, sample in drawn:
        for method, view in sample.attributions.items():
            if view.matrix is not None and sample.image is None:
                return [*pictures, gamma_picture(sample, method, f"gamma_{place:02d}")]
    return pictures


def sample_picture(sample: SampleView, name: str) -> Picture:
    """Return a sample's figure: bars of events, words on their colours, or an image with overlays."""
    values = {method: view.value for method, view in sample.attributions.items()}
    heading = f"Sample {sample.sample[:8]}: {headline(sample)}"
    if sample.image is not None:
        return image_picture(sample.image, values, name, heading, sample.image.mean(axis=(0, 1)))
    if sample.hours is None and not sample.table:
        return words_picture(sample.names, values, name, heading)
    return attribution_picture(sample, name)


def events_grid(sample: SampleView) -> Grid:
    """Return every event of one sample with its whole name and the main method's numbers."""
    method = main_method(sample.attributions)
    view = sample.attributions[method]
    timed = sample.hours is not None
    header = [sample.player.capitalize(), *(["Hour"] if timed else []), "VI"]
    header += ["PI"] if view.position is not None else []
    rows = []
    for place, name in enumerate(sample.names):
        parts = [part[place] for part in (view.value, view.position) if part is not None]
        hour = [] if sample.hours is None else [Cell(f"{sample.hours[place]:.2f}")]
        rows.append([Cell(name), *hour, *(Cell(plain(float(part))) for part in parts)])
    return Grid(header, rows, folded=f"Sample {sample.sample[:8]}: all {len(rows)} {sample.player}s, {method}")


def model_grid(scores: Mapping[str, float]) -> Grid:
    """Return the model's test scores, with intervals where there are any."""
    names = [name for name in scores if not name.endswith(("_low", "_high"))]
    rows = []
    for name in names:
        low, high = (scores.get(f"{name}_{end}", math.nan) for end in ("low", "high"))
        interval = f"{number(low)} to {number(high)}" if math.isfinite(low) and math.isfinite(high) else MISSING
        rows.append([Cell(name.replace("_", " ")), Cell(model_number(scores[name])), Cell(interval)])
    return Grid(["Score", "Test part", "95 % interval"], rows)


def model_number(score: float) -> str:
    """Return a score, whole numbers (counts) whole."""
    return str(int(score)) if math.isfinite(score) and score == int(score) and abs(score) > 1 else number(score)


def audit_section(audit: Mapping) -> Section:
    """Return the section of the audit: lists and groups of like entries as tables, the rest by name, options folded."""
    options = audit.get("options", {})
    leaves, grids = audit_grids({name: entry for name, entry in audit.items() if name != "options"})
    folded = Grid(("Option", "Value"), word_rows(flat(options)), words=True, folded="Options of the data")
    shown = [words_grid(leaves, ("Name", "Value")), *grids, *([folded] if options else [])]
    return Section("Data audit", grids=[grid for grid in shown if grid.rows])


def audit_grids(tree: Mapping, above: str = "") -> tuple[list[tuple[str, str]], list[Grid]]:
    """Return what of a nested mapping is a name and a value, and what is a table.

    Tables are lists of mappings, and sibling mappings that have the same names inside.
    """
    inside = {
        name: tuple(leaf for leaf, _ in flat(entry)) for name, entry in tree.items() if isinstance(entry, Mapping)
    }
    leaves: list[tuple[str, str]] = []
    grids: list[Grid] = []
    for name, entry in tree.items():
        path = f"{above}{name}".replace("_", " ")
        alike = [other for other, leaf_names in inside.items() if leaf_names == inside.get(name)]
        if name in inside and len(alike) > 1:
            if name == alike[0]:
                grids.append(
                    table_of([{"name": other, **dict(flat(tree[other]))} for other in alike], above.rstrip(": "))
                )
        elif name in inside:
            deeper = audit_grids(entry, f"{path}: ")
            leaves += deeper[0]
            grids += deeper[1]
        elif isinstance(entry, list | tuple) and entry and all(isinstance(part, Mapping) for part in entry):
            grids.append(table_of([dict(flat(part)) for part in entry], path))
        else:
            leaves += [(path, value) for _, value in flat({name: entry})]
    return leaves, grids


def table_of(rows: Sequence[Mapping[str, str]], caption: str) -> Grid:
    """Return rows of named texts as a table; what a row lacks is a dash."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[Cell(row.get(name, MISSING).replace("_", " ")) for name in names] for row in rows]
    return Grid([name.replace("_", " ") for name in names], cells, caption.replace("_", " "))


def words_grid(pairs: Iterable[tuple[str, str]], header: tuple[str, str]) -> Grid:
    """Return names and values as a table of words."""
    return Grid(header, word_rows(pairs), words=True)


def word_rows(pairs: Iterable[tuple[str, str]]) -> list[list[Cell]]:
    """Return names and values as rows."""
    return [[Cell(str(name)), Cell(str(value))] for name, value in pairs]


def flat(tree: Mapping, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested mappings with their path, lists (of plain entries or of mappings) on one line.

    >>> list(flat({"rows": {"in": 5, "by": [1, 2]}}))
    [('rows: in', '5'), ('rows: by', '1, 2')]
    """
    for name, entry in tree.items():
        path = f"{above}{name}"
        if isinstance(entry, Mapping):
            yield from flat(entry, f"{path}: ")
        elif isinstance(entry, list | tuple) and any(isinstance(part, Mapping) for part in entry):
            yield path, "; ".join(", ".join(f"{name} {value}" for name, value in flat(part)) for part in entry)
        elif isinstance(entry, list | tuple):
            yield path, ", ".join(map(str, entry))
        elif isinstance(entry, float):
            yield path, f"{entry:.6g}"
        else:
            yield path, str(entry)
