"""What the page's scripts read: the study and its samples as JSON that is safe inside a script element."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from jinja2.utils import htmlsafe_json_dumps
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline

from tasks.report.attribution import headline, main_method
from tasks.report.curves import x_label
from tasks.report.masked import checked_image
from tasks.report.picture import DIVERGING, styles
from tasks.report.results import COST_COLUMNS, MethodView, SampleView, StudyResults
from tasks.report.table import Comparison
from tasks.report.text import decimals, higher_is_better, meaning, title

CELLS = 32767  # what the largest entry of a matrix becomes
NO_DRAW = -32768
LONGEST = 300  # players of a sample whose matrix is drawn and whose tokens are moved
TOP_SETS = 12  # of each size
STOPS = 33  # colours of the diverging scale; the page interpolates between them


def script_json(content: Any) -> str:
    r"""Return JSON for a script element: NaN is null, and nothing in it can end the element.

    >>> script_json({"a": "</script>", "b": [math.nan, 0.5]})
    '{"a":"\\u003c/script\\u003e","b":[null,0.5]}'
    """
    return str(htmlsafe_json_dumps(plain(content), separators=(",", ":"), allow_nan=False, ensure_ascii=False))


def plain(content: Any) -> Any:
    """Return nested content as JSON takes it: arrays as lists, numbers of 6 significant digits, NaN as None."""
    if isinstance(content, Mapping):
        return {str(name): plain(part) for name, part in content.items()}
    if isinstance(content, np.ndarray):
        return plain(content.tolist())
    if isinstance(content, list | tuple):
        return [plain(part) for part in content]
    if isinstance(content, float):
        return float(f"{content:.6g}") if math.isfinite(content) else None
    return content


def study_json(
    results: StudyResults, comparison: Comparison, differences: pd.DataFrame, words: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the charts of a study are drawn from.

    Args:
        results: the study's results.
        comparison: its means and standard errors.
        differences: of :func:`tasks.report.differences.differences`.
        words: the alternative text of each figure by its name.
    """
    return {
        **frame_json(comparison.methods, results.output),
        "metrics": [metric_json(name, results.player) for name in results.metrics],
        "costs": [
            {"name": name, "title": title(name), "row": comparison.columns.index(name)}
            for name in COST_COLUMNS[:2]
            if name in comparison.columns
        ],
        "mean": comparison.mean.T,  # one row a column of the table
        "stderr": comparison.stderr.T,
        "curves": curves_json(results.curves, comparison.methods),
        "differences": differences_json(differences, comparison.methods),
        "model": model_json(results),
        "words": dict(words),
    }


def frame_json(methods: Sequence[str], output: str) -> dict[str, Any]:
    """Return what every page needs: the methods and how they are drawn, the colours of signed numbers."""
    looks = styles(methods).values()
    return {
        "methods": list(methods),
        "styles": [
            {"color": look.color, "dash": dash_json(look.dashes), "marker": outline(look.marker)} for look in looks
        ],
        "diverging": [to_hex(mpl.colormaps[DIVERGING](stop / (STOPS - 1))) for stop in range(STOPS)],
        "output": output.replace("_", " "),
    }


def dash_json(dashes: Any) -> str:
    """Return matplotlib's dashes as SVG's, for lines 1.6 wide."""
    return "" if dashes == "-" else " ".join(f"{1.6 * length:g}" for length in dashes[1])


def outline(marker: str) -> str:
    """Return matplotlib's marker as an SVG path of about one unit around the origin.

    >>> outline("s")
    'M-0.50,0.50L0.50,0.50L0.50,-0.50L-0.50,-0.50Z'
    """
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    letters = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    parts = []
    for points, code in path.iter_segments(simplify=False):
        if code == Outline.CLOSEPOLY:
            parts.append("Z")
        else:
            pairs = " ".join(f"{x:.2f},{-y + 0.0:.2f}" for x, y in np.reshape(points, (-1, 2)))
            parts.append(letters[code] + pairs)
    return "".join(parts)


def metric_json(name: str, player: str) -> dict[str, Any]:
    """Return what a chart says about one metric."""
    return {
        "name": name,
        "title": title(name),
        "up": higher_is_better(name),
        "meaning": meaning(name),
        "share": x_label(name, player),
        "decimals": decimals(name, 1.0),
    }


def curves_json(curves: pd.DataFrame, methods: Sequence[str]) -> dict[str, Any]:
    """Return each metric's curves: the grid, and mean and standard error by method's place, None where it has none."""
    found: dict[str, Any] = {}
    for metric, own in curves.groupby("metric", sort=False):
        parts = {method: part.sort_values("percent") for method, part in own.groupby("method", sort=False)}
        grid = next(iter(parts.values()))["percent"].to_numpy(dtype=float)
        lines = [
            {"mean": parts[method]["mean"].to_numpy(float), "stderr": parts[method]["stderr"].to_numpy(float)}
            if method in parts
            else None
            for method in methods
        ]
        found[str(metric)] = {"percent": grid, "lines": lines}
    return found


def differences_json(differences: pd.DataFrame, methods: Sequence[str]) -> dict[str, Any]:
    """Return each metric's differences to the best method, methods by their place."""
    return {
        str(metric): {
            "best": methods.index(own["best"].iloc[0]),
            "rows": [
                {**row, "method": methods.index(row["method"])}
                for row in own.drop(columns=["metric", "best"]).to_dict("records")
            ],
        }
        for metric, own in differences.groupby("metric", sort=False)
    }


def model_json(results: StudyResults) -> dict[str, Any]:
    """Return the model's calibration and training history, as columns."""
    return {
        "calibration": {str(name): column.to_numpy() for name, column in results.calibration.items()},
        "history": {str(name): column.to_numpy() for name, column in results.history.items()},
    }


def sample_json(sample: SampleView, methods: Sequence[str]) -> dict[str, Any]:
    """Return what a sample's page is drawn from: its events, and each method's numbers by the method's place."""
    shown: dict[str, Any] = {
        "sample": sample.sample,
        "names": sample.names,
        "hours": None if sample.hours is None else np.asarray(sample.hours, dtype=float),
        "headline": headline(sample),
        "about": sample.about,
        "player": sample.player,
        "text": sample.hours is None and not sample.table,
        "views": [None if (view := sample.attributions.get(method)) is None else view_json(view) for method in methods],
        "main": methods.index(main_method(sample.attributions)) if sample.attributions else None,
        "moved": [{"event": event, "outputs": floats(outputs)} for event, outputs in sample.moved.items()],
        "image": None,
    }
    if sample.image is not None:
        pixels = np.rint(255 * checked_image(sample.image, "image")).astype(np.uint8)
        shown["image"] = {"shape": list(pixels.shape), "bytes": encoded(pixels)}
    return shown


def view_json(view: MethodView) -> dict[str, Any]:
    """Return one method's numbers of one sample."""
    return {
        "value": floats(view.value),
        "position": None if view.position is None else floats(view.position),
        "matrix": None if view.matrix is None or len(view.matrix) > LONGEST else cells(view.matrix),
        "sets": None if view.sets is None else sets_json(view.sets),
    }


def sets_json(sets: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the sets of two and more with the largest magnitudes, a few of each size, the largest first."""
    rows = sets.assign(size=sets["set"].map(len), strength=sets["value"].abs())
    rows = rows[(rows["size"] > 1) & rows["value"].notna()].sort_values("strength", ascending=False, kind="stable")
    top = rows.groupby("size", sort=True).head(TOP_SETS).sort_values("size", kind="stable")
    return [
        {"set": [int(player) for player in row["set"]], "value": float(row["value"]), "stderr": stderr(row["stderr"])}
        for row in top.to_dict("records")
    ]


def stderr(number: Any) -> float:
    """Return a standard error, NaN where it is unknown."""
    return math.nan if number is None else float(number)


def floats(numbers: np.ndarray) -> str:
    """Return numbers as base64 of little-endian float32, which holds NaN and is half as long as digits."""
    return encoded(np.asarray(numbers, dtype="<f4"))


def cells(matrix: np.ndarray) -> dict[str, Any]:
    """Return a matrix in 16 bits an entry, its largest magnitude beside it; entries without a draw are marked."""
    known = np.isfinite(matrix)
    reach = float(np.abs(matrix[known]).max(initial=0.0))
    shares = np.where(known, matrix, 0.0) / (reach or 1.0)
    whole = np.where(known, np.rint(CELLS * shares), NO_DRAW).astype("<i2")
    cut = float(np.quantile(np.abs(matrix[known]), 0.99)) if known.any() else 0.0
    return {"reach": reach, "cut": cut, "bytes": encoded(whole)}


def encoded(array: np.ndarray) -> str:
    """Return an array's bytes as base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
