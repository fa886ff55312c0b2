"""The curves behind each area: all methods of one metric, with a band of one standard error."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from tasks.report.picture import NORMAL, SMALL, Picture, Style, bare, new_figure, styles
from tasks.report.results import StudyResults
from tasks.report.table import Comparison
from tasks.report.text import arrow, higher_is_better, meaning, number, shorten, title

# What the x axis counts; a metric that is not named here says it in its caption.
SHARE = {"inc": "kept", "ins": "kept", "exc": "ablated", "del": "ablated", "log": "ablated", "perm": "moved"}


def curve_pictures(results: StudyResults, comparison: Comparison) -> list[Picture]:
    """Return one figure a metric that has a curve."""
    curves = results.curves
    return [
        curve_picture(metric, curves[curves["metric"] == metric], comparison, results.player)
        for metric in results.metrics
        if (curves["metric"] == metric).any()
    ]


def curve_picture(metric: str, curves: pd.DataFrame, comparison: Comparison, player: str) -> Picture:
    """Return the figure of one metric's curves, its legend sorted by score, best first."""
    style = styles(comparison.methods)
    ranked = by_score(metric, comparison)
    figure = new_figure(7.6, max(3.4, 1.2 + 0.19 * len(ranked)))
    axes = figure.subplots()
    for method, score in ranked:
        curve = curves[curves["method"] == method].sort_values("percent")
        if len(curve):
            draw_curve(axes, curve, style[method], f"{number(score)}  {shorten(method, 28)}")
    axes.set_xlabel(x_label(metric, player), fontsize=NORMAL)
    axes.set_ylabel("Mean over samples", fontsize=NORMAL)
    axes.set_title(f"{title(metric)} {arrow(metric)}", fontsize=NORMAL + 1, loc="left")
    axes.set_xlim(-1, 101)
    bare(axes)
    words = SMALL + 0.5
    figure.legend(
        loc="outside right center",
        fontsize=words,
        frameon=False,
        handlelength=3.2,
        title="Area, best first",
        title_fontsize=words,
    )
    first, score = ranked[0]
    better = "higher" if higher_is_better(metric) else "lower"
    alt = (
        f"Line chart of {title(metric)} over the share of {player}s, {len(ranked)} methods; "
        f"best area {number(score)}, {first} ({better} is better)."
    )
    caption = f"{title(metric)} {arrow(metric)}. {meaning(metric)} Band: one standard error over samples."
    return Picture(f"curve_{metric}", title(metric), alt, caption, figure)


def x_label(metric: str, player: str) -> str:
    """Return what a metric's curve runs over."""
    what = SHARE.get(metric.partition("_")[0])
    return f"{player.capitalize()}s{f' {what}' if what else ''} (%)"


def by_score(metric: str, comparison: Comparison) -> list[tuple[str, float]]:
    """Return (method, mean score), best first, those without a score last."""
    means = comparison.mean[:, comparison.columns.index(metric)]
    cost = np.nan_to_num(-means if higher_is_better(metric) else means, nan=np.inf)
    return [(comparison.methods[row], float(means[row])) for row in np.argsort(cost, kind="stable")]


def draw_curve(axes: Axes, curve: pd.DataFrame, style: Style, label: str) -> None:
    """Draw one method's line, its band, and a marker at every fourth point."""
    percent, mean, stderr = (curve[name].to_numpy(dtype=float) for name in ("percent", "mean", "stderr"))
    axes.plot(
        percent,
        mean,
        color=style.color,
        linestyle=style.dashes,
        marker=style.marker,
        markevery=max(1, len(percent) // 6),
        markersize=4,
        linewidth=1.4,
        label=label,
    )
    axes.fill_between(percent, mean - stderr, mean + stderr, color=style.color, alpha=0.12, linewidth=0)
