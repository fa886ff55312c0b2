"""Sets of events that matter together: pairs of single samples as heat maps, pairs over all samples as a network."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from tasks.report.attribution import NAME, ROW, event_labels, headline, shown
from tasks.report.page import Grid, Section
from tasks.report.picture import DIVERGING, NEGATIVE, NORMAL, POSITIVE, SMALL, Picture, new_figure
from tasks.report.results import SampleView, StudyResults
from tasks.report.table import Cell
from tasks.report.text import shorten
from tasks.sets import BETWEEN, global_sets

SHOWN_SETS = 20  # rows of the table and edges of the network
SHOWN_EVENTS = 30  # of a heat map


def pairs_section(results: StudyResults) -> Section:
    """Return the section of sets of events; empty where no method has any."""
    heading = f"{results.player.capitalize()}s together"
    methods = [method for method in results.methods if any(has_sets(sample, method) for sample in results.samples)]
    if not methods:
        return Section(heading)
    noun = results.player
    words = [
        f"Each set of {noun}s with one number: see the method's page for what it means. A set of many samples is told "
        f"by its {noun}s' names; its mean magnitude is over the samples in which it was valued, which are not all that "
        f"have the {noun}s where a method values its strongest pairs only.",
    ]
    grids, pictures = [], []
    for place, method in enumerate(methods, start=1):
        table = global_table(results.samples, method)
        grids.append(sets_grid(table, method, noun))
        pictures += network_picture(table, method, f"pair_network_{place:02d}", results)
    for place, sample in enumerate(shown(results.samples), start=1):
        pictures += pair_pictures(sample, methods, f"pairs_{place:02d}")
    return Section(heading, words, grids, pictures)


def has_sets(sample: SampleView, method: str) -> bool:
    """Return whether a method valued sets of two or more events in a sample."""
    view = sample.attributions.get(method)
    return view is not None and view.sets is not None and any(len(events) > 1 for events in view.sets["set"])


def global_table(samples: list[SampleView], method: str) -> pd.DataFrame:
    """Return a method's values of sets of names over the samples: see :func:`tasks.sets.global_sets`."""
    views = [(sample.names, sample.attributions[method].sets) for sample in samples]
    return global_sets([(names, sets) for names, sets in views if sets is not None])


def sets_grid(table: pd.DataFrame, method: str, noun: str) -> Grid:
    """Return the strongest sets of two or more events as a table."""
    strongest = table[table["set"].map(len) > 1].head(SHOWN_SETS)
    rows = [
        [
            Cell(BETWEEN.join(row["set"])),
            Cell(f"{row['mean_absolute']:.3g}"),
            Cell(f"{row['mean']:+.3g}"),
            Cell(str(row["samples"])),
            Cell(str(row["present"])),
        ]
        for row in strongest.to_dict("records")
    ]
    header = [f"{noun.capitalize()}s", "Mean magnitude", "Mean", "Samples valued", "Samples with them"]
    return Grid(header, rows, f"{method}: the strongest sets of two or more {noun}s over the samples")


def pair_pictures(sample: SampleView, methods: list[str], name: str) -> list[Picture]:
    """Return the heat map of the first method that valued pairs in this sample, if one did."""
    return [pair_picture(sample, method, name) for method in methods if has_sets(sample, method)][:1]


def pair_picture(sample: SampleView, method: str, name: str) -> Picture:
    """Return one method's pairs of one sample as a heat map, single events on the diagonal, no value in grey."""
    cells = pair_matrix(sample, method)
    events = strongest_events(cells)
    figure = new_figure(3.2 + 0.19 * len(events), 2.6 + ROW * len(events))
    axes = figure.subplots()
    axes.set_facecolor("#bbbbbb")
    reach = float(np.nanquantile(np.abs(cells), 0.99)) or 1.0
    image = axes.imshow(
        cells[np.ix_(events, events)], DIVERGING, Normalize(-reach, reach), aspect="auto", interpolation="nearest"
    )
    labels = event_labels(sample, events)
    axes.set_yticks(range(len(events)), labels, fontsize=SMALL)
    axes.set_xticks(range(len(events)), labels, rotation=90, fontsize=SMALL)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=15, extend="both")
    bar.ax.tick_params(labelsize=SMALL)
    figure.suptitle(f"{shorten(method, 40)}: pairs", fontsize=NORMAL + 1, x=0.01, ha="left")
    alt = f"Heat map of pairs of {sample.player}s by {method}; {headline(sample)}. {strongest_pair(sample, method)}"
    said = f"{headline(sample).capitalize()}. Pairs of {sample.player}s by {method}; on the diagonal, single ones. "
    said += "Grey: no value."
    if len(events) < len(sample.names):
        said += f" The {len(events)} {sample.player}s with the strongest pairs, of {len(sample.names)}."
    return Picture(name, f"Sample {sample.sample[:8]}: pairs", alt, said, figure)


def pair_matrix(sample: SampleView, method: str) -> np.ndarray:
    """Return (n, n) the values of pairs, of single events on the diagonal, NaN where there is none."""
    cells = np.full((len(sample.names), len(sample.names)), np.nan)
    sets = sample.attributions[method].sets
    assert sets is not None
    for events, value in zip(sets["set"], sets["value"], strict=True):
        if len(events) <= 2:
            cells[events[0], events[-1]] = cells[events[-1], events[0]] = value
    return cells


def strongest_events(cells: np.ndarray) -> np.ndarray:
    """Return the places, in time order, of at most 30 events that are in a pair, those in the strongest pairs."""
    pairs = np.abs(cells)
    np.fill_diagonal(pairs, np.nan)
    strength = np.nanmax(pairs, axis=1, initial=-np.inf, where=~np.isnan(pairs))
    order = np.argsort(-strength, kind="stable")[:SHOWN_EVENTS]
    return np.sort(order[np.isfinite(strength[order])])


def strongest_pair(sample: SampleView, method: str) -> str:
    """Return a sentence with the pair of the largest magnitude."""
    sets = sample.attributions[method].sets
    assert sets is not None
    pairs = sets[sets["set"].map(len) == 2]
    if pairs.empty:
        return ""
    row = pairs.iloc[int(pairs["value"].abs().argmax())]
    names = BETWEEN.join(sample.names[event] for event in row["set"])
    return f"Strongest pair: {names} ({row['value']:+.3g})."


def network_picture(table: pd.DataFrame, method: str, name: str, results: StudyResults) -> list[Picture]:
    """Return the strongest pairs over the samples as a network, if there is a pair of two names."""
    pairs = table[table["set"].map(lambda members: len(members) == 2 and members[0] != members[1])].head(SHOWN_SETS)
    if pairs.empty:
        return []
    names = sorted({event for members in pairs["set"] for event in members})
    single = table[table["set"].map(len) == 1]
    singles = {members[0]: value for members, value in zip(single["set"], single["mean_absolute"], strict=True)}
    figure = new_figure(7.5, 5.5)
    axes = figure.subplots()
    draw_edges(axes, names, pairs)
    draw_nodes(axes, names, singles)
    axes.set_xlim(-1.9, 1.9)
    axes.set_ylim(-1.2, 1.2)
    axes.set_axis_off()
    figure.suptitle(
        f"{shorten(method, 40)}: the strongest pairs over the samples", fontsize=NORMAL + 1, x=0.01, ha="left"
    )
    first = pairs.iloc[0]
    alt = f"Network of the {len(pairs)} strongest pairs by {method}; first {BETWEEN.join(first['set'])}."
    said = (
        f"The {len(pairs)} strongest pairs of {results.player}s by {method}. Line: mean magnitude of the pair's value; "
        f"orange speaks for {results.about} on average, purple against it. Dot: mean magnitude of the single "
        f"{results.player}'s value."
    )
    return [Picture(name, "Pairs over the samples", alt, said, figure)]


def places(names: list[str]) -> dict[str, tuple[float, float]]:
    """Return a place on the unit circle for each name."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    return {name: (float(np.cos(angle)), float(np.sin(angle))) for name, angle in zip(names, angles, strict=True)}


def draw_edges(axes: Axes, names: list[str], pairs: pd.DataFrame) -> None:
    """Draw one line a pair, the strongest last."""
    where, largest = places(names), float(pairs["mean_absolute"].max()) or 1.0
    for row in pairs[::-1].to_dict("records"):
        (x1, y1), (x2, y2) = (where[event] for event in row["set"])
        share = row["mean_absolute"] / largest
        color = POSITIVE if row["mean"] > 0 else NEGATIVE
        axes.plot([x1, x2], [y1, y2], color=color, linewidth=0.4 + 4 * share, alpha=0.25 + 0.6 * share, zorder=1)


def draw_nodes(axes: Axes, names: list[str], singles: dict[str, float]) -> None:
    """Draw one dot a name, and the name outside the circle."""
    largest = max((singles.get(name, 0.0) for name in names), default=0.0) or 1.0
    for name, (x, y) in places(names).items():
        axes.scatter([x], [y], s=15 + 120 * singles.get(name, 0.0) / largest, color="#333333", zorder=2)
        side = "left" if x > 0.05 else "right" if x < -0.05 else "center"
        axes.text(1.1 * x, 1.12 * y, shorten(name, NAME), ha=side, va="center", fontsize=SMALL)
