"""The comparison on a study's summary run: a heat table with ranks and intervals as a page, and in its description."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t

from tasks.report import StudyResults
from tasks.report.coloured import luminance
from tasks.report.differences import ranks
from tasks.report.table import Comparison, compare
from tasks.tracking import Tracker
from tasks.tracking_notes import NOTE

LEVEL = 0.95
BEST, WORST = (33, 102, 172), (253, 219, 199)  # ends of a scale that is told apart without red against green
STYLE = (
    "body{font:15px system-ui,sans-serif;margin:1.5rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse}th,td{padding:.35rem .6rem;text-align:right;border:1px solid #fff}"
    "th:first-child{text-align:left}small{display:block}"
)


class Entry(NamedTuple):
    """One method and metric: mean, 95 % interval of the mean (NaN below two samples), rank (1 the best)."""

    mean: float
    low: float
    high: float
    rank: float


@dataclass(frozen=True)
class Ranked:
    """A comparison with ranks.

    Attributes:
        metrics: the c metrics.
        entries: one row of c entries a method, by its name; the best mean rank first.
        mean_rank: by method, over the metrics that it has.
    """

    metrics: tuple[str, ...]
    entries: dict[str, list[Entry]]
    mean_rank: dict[str, float]


def log_comparison(tracker: Tracker, run_id: str, results: StudyResults) -> None:
    """Log the heat table as ``comparison.html``, mean ranks as metrics, and the table as the run's description."""
    ranked = rank(compare(results), results.metrics)
    tracker.client.log_text(run_id, heat_page(results, ranked), "comparison.html")
    tracker.metrics(run_id, {f"mean_rank/{method}": place for method, place in ranked.mean_rank.items()})
    tracker.set_tags(run_id, {NOTE: markdown(results, ranked)})


def rank(comparison: Comparison, metrics: tuple[str, ...]) -> Ranked:
    """Return means, Student intervals of the means, and ranks; equals share their mean rank."""
    places = [comparison.columns.index(metric) for metric in metrics]
    means = pd.DataFrame(comparison.mean[:, places], comparison.methods, list(metrics))
    ranked = pd.DataFrame(ranks(comparison, metrics), comparison.methods, list(metrics))
    count = comparison.samples[:, places]
    half = t.ppf((1 + LEVEL) / 2, np.maximum(count - 1, 1)) * np.where(count > 1, comparison.stderr[:, places], np.nan)
    mean_rank = ranked.mean(axis=1).sort_values(kind="stable")
    rows = {method: comparison.methods.index(method) for method in mean_rank.index}
    entries = {
        method: [
            Entry(mean, mean - half[row, column], mean + half[row, column], float(ranked.to_numpy()[row, column]))
            for column, mean in enumerate(means.iloc[row])
        ]
        for method, row in rows.items()
    }
    return Ranked(metrics, entries, {str(method): float(place) for method, place in mean_rank.items()})


def markdown(results: StudyResults, ranked: Ranked) -> str:
    """Return the ranked table in Markdown."""
    header = ["Method", "Mean rank", *(f"`{metric}`" for metric in ranked.metrics)]
    rows = [
        [method, f"{ranked.mean_rank[method]:.2f}", *(f"{entry.mean:.3f} ({entry.rank:g})" for entry in entries)]
        for method, entries in ranked.entries.items()
    ]
    lines = [header, ["---"] * len(header), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"{results.task} on {results.dataset}, {results.sample_count} samples: means, ranks in parentheses (1 the "
        f"best). `comparison.html` adds intervals, `report/report.html` all the rest.\n\n{table}\n"
    )


def heat_page(results: StudyResults, ranked: Ranked) -> str:
    """Return the heat table as a page of its own: darker is a better rank."""
    header = "".join(f'<th scope="col">{escape(title)}</th>' for title in ("Method", "Mean rank", *ranked.metrics))
    rows = "".join(
        f'<tr><th scope="row">{escape(method)}</th><td>{ranked.mean_rank[method]:.2f}</td>'
        f"{''.join(heat_cell(entry, len(ranked.entries)) for entry in entries)}</tr>"
        for method, entries in ranked.entries.items()
    )
    caption = (
        f"{results.name}: {results.task} on {results.dataset}, {results.sample_count} samples. Mean, its 95 % interval "
        "over samples (Student), and its rank: 1, the darkest, is the best. Methods are sorted by mean rank."
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(results.name)}: comparison</title>'
        f"<style>{STYLE}</style></head><body><p id='about'>{escape(caption)}</p><table aria-describedby='about'>"
        f"<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )


def heat_cell(entry: Entry, methods: int) -> str:
    """Return one cell, coloured by its rank among so many methods; without a mean it is empty."""
    if not np.isfinite(entry.mean):
        return "<td>&ndash;</td>"
    share = (entry.rank - 1) / max(methods - 1, 1)
    colour = tuple(round(best + share * (worst - best)) for best, worst in zip(BEST, WORST, strict=True))
    light = luminance([part / 255 for part in colour])
    text = "#fff" if light < 0.18 else "#1a1a1a"  # white is readable below
    interval = f"{entry.low:.3f} to {entry.high:.3f}" if np.isfinite(entry.low) else "one sample"
    shown = f"{entry.mean:.3f}<small>{interval}</small><small>rank {entry.rank:g}</small>"
    return f'<td style="background:rgb{colour};color:{text}">{shown}</td>'
