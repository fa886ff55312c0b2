"""Attributions of single samples, in the style of the OrdShap paper's Fig. 6."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from tasks.report.picture import DIVERGING, NEGATIVE, NORMAL, POSITIVE, SMALL, Picture, bare, new_figure
from tasks.report.results import MethodView, SampleView
from tasks.report.text import shorten

SHOWN_SAMPLES = 3
SHOWN_EVENTS = 60
ROW = 0.165  # inches an event
NAME = 34  # characters of an event's name
STRIP = 28  # characters of a colour column's name


def shown(samples: list[SampleView]) -> list[SampleView]:
    """Return the first samples that have an event and an attribution."""
    return [sample for sample in samples if sample.names and sample.attributions][:SHOWN_SAMPLES]


def main_method(attributions: dict[str, MethodView]) -> str:
    """Return the method drawn as bars: the first with a position and a matrix, else with a position, else the first."""
    for wanted in (("position", "matrix"), ("position",), ()):
        for method, view in attributions.items():
            if all(getattr(view, part) is not None for part in wanted):
                return method
    raise ValueError("a sample without attributions cannot be drawn; explain it with at least one method")


def strongest(view: MethodView, count: int = SHOWN_EVENTS) -> np.ndarray:
    """Return the places, in time order, of the ``count`` events with the largest share of VI or PI."""
    strength = np.zeros(len(view.value))
    for part in (view.value, view.position):
        if part is not None and np.nanmax(np.abs(part), initial=0.0) > 0:
            strength = np.fmax(strength, np.abs(part) / np.nanmax(np.abs(part)))
    return np.sort(np.argsort(-strength, kind="stable")[:count])


def attribution_picture(sample: SampleView, name: str) -> Picture:
    """Return VI and PI of the main method as bars, and every method's attribution as one column of colours."""
    method = main_method(sample.attributions)
    view = sample.attributions[method]
    events = strongest(view)
    if view.position is None:
        bars = {"Attribution": view.value}
    else:
        bars = {"Value importance (VI)": view.value, "Position importance (PI), per slot": view.position}
    strips = color_strips(sample, method)
    widths = [2.5] * len(bars) + ([0.24 * len(strips)] if strips else [])
    figure = new_figure(2.6 + sum(widths), 1.6 + ROW * len(events))
    grid = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths, sharey=True)[0]
    for axes, (label, numbers) in zip(grid, bars.items(), strict=False):
        draw_bars(axes, numbers[events], label)
    if strips:
        draw_strips(grid[-1], {label: numbers[events] for label, numbers in strips.items()})
    name_events(grid[0], sample, events)
    figure.suptitle(f"{shorten(method, 40)}: {headline(sample)}", fontsize=NORMAL + 1, x=0.01, ha="left")
    parts = "value and position importance" if view.position is not None else "attribution"
    alt = f"Bars of each {sample.player}'s {parts} by {method}; {headline(sample)}. {extremes(sample, view)}"
    return Picture(name, f"Sample {sample.sample[:8]}", alt, caption(sample, method, len(events), bool(strips)), figure)


def headline(sample: SampleView) -> str:
    """Return a sample's class, label and probability (or the number that is predicted) in a few words."""
    if sample.target is None:
        return f"prediction {sample.probability:.4g}, true value {sample.label:.4g}"
    return f"explained class {sample.target} (probability {sample.probability:.2f}), label {sample.label}"


def extremes(sample: SampleView, view: MethodView) -> str:
    """Return a sentence with the largest value and position importance."""
    said = []
    for part, numbers in (("value", view.value), ("position", view.position)):
        if numbers is not None and np.isfinite(numbers).any():
            place = int(np.nanargmax(np.abs(numbers)))
            said.append(f"Largest {part} importance: {sample.names[place]} ({numbers[place]:+.3g}).")
    return " ".join(said)


def caption(sample: SampleView, method: str, events: int, strips: bool) -> str:
    """Return what the figure shows and how to read it."""
    said = [f"{headline(sample).capitalize()}. Bars: {method}; positive speaks for {sample.about}."]
    if sample.attributions[method].position is not None:
        said.append(f"Positive position importance: the later the {sample.player}, the more it speaks for it.")
    if strips:
        said.append("Colours: the other attributions, each column scaled to its own largest magnitude.")
    if events < len(sample.names):
        said.append(f"The {events} strongest of {len(sample.names)} {sample.player}s.")
    return " ".join(said)


def color_strips(sample: SampleView, main: str) -> dict[str, np.ndarray]:
    """Return (n,) numbers a column: the other methods' values, then their positions."""
    others = {method: view for method, view in sample.attributions.items() if method != main}
    columns = {}
    for method, view in others.items():
        columns[method if view.position is None else f"VI: {method}"] = view.value
    for method, view in others.items():
        if view.position is not None:
            columns[f"PI: {method}"] = view.position
    return columns


def draw_bars(axes: Axes, numbers: np.ndarray, label: str) -> None:
    """Draw one bar an event, the first on top."""
    colors = [POSITIVE if number > 0 else NEGATIVE for number in numbers]
    axes.barh(np.arange(len(numbers)), np.nan_to_num(numbers), color=colors, height=0.78)
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_title(label, fontsize=NORMAL)
    bare(axes, "x")
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=5)
    reach = np.nanmax(np.abs(numbers), initial=0.0)
    axes.set_xlim(*((-1.08 * reach, 1.08 * reach) if reach > 0 else (-1, 1)))


def draw_strips(axes: Axes, strips: dict[str, np.ndarray]) -> None:
    """Draw one column of colours a method, each scaled to its largest magnitude."""
    columns = np.stack(list(strips.values()), axis=1)
    reach = np.nanmax(np.abs(columns), axis=0, initial=0.0)
    axes.imshow(
        columns / np.where(reach > 0, reach, 1.0),
        cmap=DIVERGING,
        norm=Normalize(-1, 1),
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xticks(range(len(strips)), [shorten(label, STRIP) for label in strips], rotation=90, fontsize=SMALL)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(len(strips) + 1) - 0.5, minor=True)
    axes.grid(True, axis="x", which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)


def event_labels(sample: SampleView, events: np.ndarray) -> list[str]:
    """Return each event's name and, where it has one, its hour."""
    hours = ["" if sample.hours is None else f"   {sample.hours[event]:.1f} h" for event in events]
    return [f"{shorten(sample.names[event], NAME)}{hour}" for event, hour in zip(events, hours, strict=True)]


def name_events(axes: Axes, sample: SampleView, events: np.ndarray) -> None:
    """Write each event's name and, where it has one, its hour beside its row, the first on top."""
    axes.set_yticks(range(len(events)), event_labels(sample, events), fontsize=SMALL)
    axes.set_ylim(len(events) - 0.5, -0.5)
