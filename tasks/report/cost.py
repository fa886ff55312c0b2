"""Quality against cost: which method buys what with its seconds and evaluations."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from tasks.report.picture import NORMAL, SMALL, Picture, Style, bare, new_figure, styles
from tasks.report.results import StudyResults
from tasks.report.table import Comparison
from tasks.report.text import arrow, shorten, title


def cost_picture(results: StudyResults, comparison: Comparison) -> Picture | None:
    """Return scores against seconds and evaluations, one row a quality; None where cost was not measured."""
    costs = [cost for cost in ("seconds", "evaluations") if cost in comparison.columns]
    if not costs:
        return None
    qualities = list(dict.fromkeys([results.metrics[0], *(name for name in results.metrics if name == "perm_auc")]))
    figure = new_figure(8.6, max(0.4 + 2.6 * len(qualities), 1.2 + 0.19 * len(comparison.methods)))
    grid = figure.subplots(len(qualities), len(costs), squeeze=False, sharex="col", sharey="row")
    style = styles(comparison.methods)
    for row, quality in zip(grid, qualities, strict=True):
        for axes, cost in zip(row, costs, strict=True):
            draw_points(axes, comparison, cost, quality, style)
        row[0].set_ylabel(f"{title(quality)} {arrow(quality)}", fontsize=NORMAL)
    for axes, cost in zip(grid[-1], costs, strict=True):
        axes.set_xlabel(f"{title(cost)} per sample", fontsize=NORMAL)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=SMALL + 0.5, frameon=False)
    said = " and ".join(title(quality) for quality in qualities)
    alt = f"Scatter of {said} against {' and '.join(costs)} per explained sample, {len(comparison.methods)} methods."
    caption = (
        "Quality against cost on a logarithmic axis; bars: one standard error. Left is cheaper; "
        "the arrow beside a score says which way it is better."
    )
    return Picture("cost", "Quality against cost", alt, caption, figure)


def draw_points(axes: Axes, comparison: Comparison, cost: str, quality: str, style: dict[str, Style]) -> None:
    """Draw one point a method, with its standard errors where there are any."""
    x, y = comparison.columns.index(cost), comparison.columns.index(quality)
    for row, method in enumerate(comparison.methods):
        axes.errorbar(
            comparison.mean[row, x],
            comparison.mean[row, y],
            xerr=np.nan_to_num(comparison.stderr[row, x]),
            yerr=np.nan_to_num(comparison.stderr[row, y]),
            color=style[method].color,
            marker=style[method].marker,
            markersize=6,
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=0.9,
            linestyle="none",
            label=shorten(method, 28),
        )
    scale(axes, comparison.mean[:, x][np.isfinite(comparison.mean[:, x])])
    bare(axes)


def scale(axes: Axes, spent: np.ndarray) -> None:
    """Make the cost axis logarithmic over whole decades; below one it is linear where a method spent nothing."""
    if (spent <= 0).any():  # nothing spent has no place on a logarithm
        axes.set_xscale("symlog", linthresh=1.0)
        return
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if len(spent):
        low, high = np.floor(np.log10(0.9 * spent.min())), np.ceil(np.log10(1.1 * spent.max()))
        axes.set_xlim(10.0**low, 10.0**high)
