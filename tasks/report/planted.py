"""Recovered attributions against the planted truth of the synthetic cohort (the paper's Fig. 5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from sklearn.metrics import roc_auc_score

from tasks.report.picture import NORMAL, SMALL, Picture, bare, new_figure
from tasks.report.results import SampleView, StudyResults
from tasks.report.text import shorten

KINDS = ("value", "position", "value_and_position", "pair_before", "pair_after", "duplicate", "inert")
COLORS = ("#0072B2", "#D55E00", "#CC79A7", "#009E73", "#56B4E9", "#E69F00", "#999999")
MARKS = "osD^vPx"


def occurrences(results: StudyResults) -> pd.DataFrame:
    """Return one row a method and occurrence of a planted code.

    Columns method, sample, code, kind, value, position (NaN where a method has none), true_value, true_position.
    The planted effects are on the logit of class 1, an explanation is of the explained class: where that is class 0,
    value and position are negated, so that every row speaks about class 1.

    Raises:
        ValueError: no event name is a planted code, or a code has an unknown kind.
    """
    codes = (results.truth or {}).get("codes", {})
    for code, effect in codes.items():
        if effect["kind"] not in KINDS:
            raise ValueError(f"the planted code {code!r} has kind {effect['kind']!r}; it is one of: {', '.join(KINDS)}")
    rows = [row for sample in results.samples for row in sample_occurrences(sample, codes)]
    if not rows and any(sample.names for sample in results.samples):
        name = next(sample.names[0] for sample in results.samples if sample.names)
        raise ValueError(
            f"no event name is a code of the planted truth: the first event is {name!r}, the first code is "
            f"{next(iter(codes), None)!r}; give the names that the truth's codes have"
        )
    columns = ["method", "sample", "code", "kind", "value", "position", "true_value", "true_position"]
    return pd.DataFrame(rows, columns=columns)


def sample_occurrences(sample: SampleView, codes: dict) -> list[tuple]:
    """Return the rows of one sample, about class 1."""
    sign = 1.0 if sample.target == 1 else -1.0
    rows = []
    for method, view in sample.attributions.items():
        for place, name in enumerate(sample.names):
            if name not in codes:
                continue
            code = codes[name]
            position = math.nan if view.position is None else sign * float(view.position[place])
            value = sign * float(view.value[place])
            truth = (float(code["value"]), float(code["position"]))
            rows.append((method, sample.sample, name, code["kind"], value, position, *truth))
    return rows


def by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, by method and kind: occurrences, mean_value, mean_position, mean_abs_position, about class 1."""
    kinds = grouped(rows, "kind").sort_values("kind", key=lambda column: column.map(KINDS.index), kind="stable")
    return in_method_order(kinds, rows)


def by_code(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the same by method and code, with the code's kind, true_value and true_position."""
    truth = rows[["code", "kind", "true_value", "true_position"]].drop_duplicates("code")
    codes = grouped(rows, "code").merge(truth, on="code").sort_values(["kind", "code"])
    return in_method_order(codes, rows)


def grouped(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return means over the occurrences of each method and ``key``."""
    return (
        rows.assign(abs_position=rows["position"].abs())
        .groupby(["method", key], sort=False)
        .agg(
            occurrences=("value", "size"),
            mean_value=("value", "mean"),
            mean_position=("position", "mean"),
            mean_abs_position=("abs_position", "mean"),
        )
        .reset_index()
    )


def in_method_order(frame: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``frame`` with the methods in the order of ``rows``, otherwise as it was."""
    order = list(dict.fromkeys(rows["method"]))
    return frame.sort_values("method", key=lambda column: column.map(order.index), kind="stable", ignore_index=True)


def separation(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, by method, how well it tells planted effects from inert codes.

    Columns: ``position_auroc``, the chance that an occurrence of a code with a position effect has a larger |PI| than
    one of an inert code (ties count half); ``position_sign``, the share of the former whose PI has the planted sign;
    ``value_auroc`` and ``value_sign``, the same of value effects and the attribution; ``effects`` and ``inert``, the
    occurrences with a position effect and inert ones. NaN where a method has no position or a side is empty.
    """
    table = []
    for method in dict.fromkeys(rows["method"]):
        own = rows[rows["method"] == method]
        inert = own[own["kind"] == "inert"]
        moved = own[own["true_position"] != 0]
        table.append(
            {
                "method": method,
                "position_auroc": auroc(moved["position"].abs(), inert["position"].abs()),
                "position_sign": agreement(moved["position"], moved["true_position"]),
                "value_auroc": auroc(own.loc[own["true_value"] != 0, "value"].abs(), inert["value"].abs()),
                "value_sign": agreement(*(own.loc[own["true_value"] != 0, name] for name in ("value", "true_value"))),
                "effects": len(moved),
                "inert": len(inert),
            }
        )
    return pd.DataFrame(table)


def auroc(high: pd.Series, low: pd.Series) -> float:
    """Return the chance that one of ``high`` exceeds one of ``low``, ties counting half; NaN where a side is empty."""
    high, low = high.dropna(), low.dropna()
    if not len(high) or not len(low):
        return math.nan
    labels = np.r_[np.ones(len(high)), np.zeros(len(low))]
    return float(roc_auc_score(labels, np.r_[high.to_numpy(), low.to_numpy()]))


def agreement(found: pd.Series, true: pd.Series) -> float:
    """Return the share of ``found`` with the sign of ``true``, zero agreeing with neither; NaN where there is none."""
    found = found.dropna()
    return float((np.sign(found) == np.sign(true[found.index])).mean()) if len(found) else math.nan


def planted_picture(rows: pd.DataFrame) -> Picture | None:
    """Return VI against PI of every occurrence, one panel a method; None where no method has a position."""
    placed = rows.dropna(subset="position")
    methods = list(dict.fromkeys(placed["method"]))
    if not methods:
        return None
    across = min(3, len(methods))
    down = math.ceil(len(methods) / across)
    figure = new_figure(max(5.4, 1.4 + 2.9 * across), 0.7 + 2.8 * down)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, method in zip(grid, methods, strict=False):
        draw_kinds(axes, placed[placed["method"] == method])
        axes.set_title(shorten(method, 36), fontsize=NORMAL)
    for axes in grid[len(methods) :]:
        axes.set_visible(False)
    figure.supxlabel("Value importance, for class 1", fontsize=NORMAL)
    figure.supylabel("Position importance per slot, for class 1", fontsize=NORMAL)
    handles = {label: handle for axes in grid for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = [label for label in map(in_words, KINDS) if label in handles]
    figure.legend(
        [handles[label] for label in labels], labels, loc="outside right center", fontsize=SMALL + 0.5, frameon=False
    )
    alt = f"Scatter of value importance against position importance by planted kind, {len(methods)} methods."
    caption = (
        "Every occurrence of a planted code, coloured by what was planted; large marks are the means of a code. Codes "
        "with a position effect should lie off the horizontal line, those with a value effect off the vertical one."
    )
    return Picture("planted", "Planted effects", alt, caption, figure)


def draw_kinds(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw small points for occurrences and large ones for the means of codes, inert codes below the others."""
    axes.axhline(0, color="#888888", linewidth=0.7)
    axes.axvline(0, color="#888888", linewidth=0.7)
    for kind in reversed([kind for kind in KINDS if (rows["kind"] == kind).any()]):
        own = rows[rows["kind"] == kind]
        color, mark = COLORS[KINDS.index(kind)], MARKS[KINDS.index(kind)]
        axes.scatter(own["value"], own["position"], s=5, color=color, alpha=0.3, linewidths=0)
        means = own.groupby("code")[["value", "position"]].mean()
        edge: dict[str, Any] = {} if mark == "x" else {"edgecolors": "black", "linewidths": 0.6}
        axes.scatter(means["value"], means["position"], s=34, color=color, marker=mark, label=in_words(kind), **edge)
    bare(axes)
    axes.locator_params(nbins=5)


def in_words(kind: str) -> str:
    """Return a planted kind as words."""
    return kind.replace("_", " ")
