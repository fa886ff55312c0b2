"""The comparison table, methods x metrics and cost, as in the OrdShap paper's Tables 2-6."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.table import Table
from rich.text import Text

from tasks.report.results import COST_COLUMNS, StudyResults
from tasks.report.text import MISSING, arrow, decimals, escape_tex, higher_is_better, number, title

PANEL = 4  # metrics side by side in LaTeX: as many as a page is wide


class Cell(NamedTuple):
    """One entry of a table: its text, what stands in parentheses after it, and whether it is bold."""

    text: str
    note: str = ""
    bold: bool = False

    def line(self) -> str:
        """Return the entry on one line.

        >>> Cell("0.913", "0.010").line()
        '0.913 (0.010)'
        """
        return f"{self.text} ({self.note})" if self.note else self.text


@dataclass(frozen=True)
class Comparison:
    """Means over samples of m methods in c columns.

    Attributes:
        methods: m names.
        columns: c names: the metrics, then the costs.
        mean: (m, c) float64, NaN where a method has no defined score.
        stderr: (m, c) standard error: sd(ddof=1) / sqrt(samples), NaN below two samples.
        samples: (m, c) how many samples have a defined score.
    """

    methods: tuple[str, ...]
    columns: tuple[str, ...]
    mean: np.ndarray
    stderr: np.ndarray
    samples: np.ndarray

    def best(self) -> np.ndarray:
        """Return (m, c): whether a method's mean is exactly the best of its metric; none where nothing is compared.

        Costs have no best, as in the paper's Table 3: doing nothing is always the cheapest.
        """
        best = np.zeros(self.mean.shape, dtype=bool)
        for place, column in enumerate(self.columns):
            means = self.mean[:, place]
            if column not in COST_COLUMNS and np.isfinite(means).sum() > 1:
                best[:, place] = means == (np.nanmax(means) if higher_is_better(column) else np.nanmin(means))
        return best

    def cells(self) -> list[list[Cell]]:
        """Return m rows of c entries, formatted as in the paper: 0.913 (0.010)."""
        best = self.best()
        return [
            [self._cell(row, place, column, bool(best[row, place])) for place, column in enumerate(self.columns)]
            for row in range(len(self.methods))
        ]

    def _cell(self, row: int, place: int, column: str, best: bool) -> Cell:
        mean, stderr = float(self.mean[row, place]), float(self.stderr[row, place])
        if not math.isfinite(mean):
            return Cell(MISSING)
        digits = decimals(column, mean)
        return Cell(number(mean, digits), number(stderr, digits), best)

    def headers(self) -> list[str]:
        """Return the c column titles with their arrows."""
        return [f"{title(column)} {arrow(column)}" for column in self.columns]


def compare(results: StudyResults) -> Comparison:
    """Return mean, standard error and count of every method's scores and costs."""
    long = [results.scores.rename(columns={"metric": "column", "score": "number"})]
    costs = [cost for cost in COST_COLUMNS if len(results.timing) and results.timing[cost].notna().any()]
    if costs:
        long.append(results.timing.melt(["method", "sample"], costs, var_name="column", value_name="number"))
    numbers = pd.concat([frame[["method", "column", "number"]] for frame in long], ignore_index=True)
    groups = numbers.astype({"number": float}).groupby(["method", "column"], sort=False)["number"]
    columns = (*results.metrics, *costs)
    methods = tuple(dict.fromkeys(numbers["method"]))

    def wide(statistic: pd.Series) -> np.ndarray:
        return statistic.unstack("column").reindex(index=methods, columns=columns).to_numpy(dtype=float)

    count = np.nan_to_num(wide(groups.count())).astype(int)
    deviation = wide(groups.std(ddof=1))
    stderr = deviation / np.sqrt(np.maximum(count, 1))
    return Comparison(methods, columns, wide(groups.mean()), stderr, count)


def coverage(results: StudyResults, comparison: Comparison) -> list[str]:
    """Return sentences on how many samples stand behind the table, and which columns have fewer."""
    total = results.sample_count
    plural = "s" if total != 1 else ""
    said = [f"Mean over {total} explained sample{plural}, standard error in parentheses; best in bold."]
    for place, column in enumerate(comparison.columns):
        if column in COST_COLUMNS:
            continue
        counts = comparison.samples[:, place]
        short = [f"{method} {count}" for method, count in zip(comparison.methods, counts, strict=True) if count < total]
        if short:
            said.append(f"{title(column)} is defined for fewer of the {total} samples: {', '.join(short)}.")
    timed = results.timing["sample"].nunique() if len(results.timing) else 0
    if timed:
        said.append(f"Cost is per explained sample, measured on {timed} sample{'s' if timed != 1 else ''}.")
    else:
        said.append("Cost was not measured.")
    return said


def summary(results: StudyResults) -> pd.DataFrame:
    """Return the means, one row a method (index ``method``), one column a metric or cost; NaN where undefined."""
    comparison = compare(results)
    index = pd.Index(comparison.methods, name="method")
    return pd.DataFrame(comparison.mean, index=index, columns=list(comparison.columns))


def csv_table(comparison: Comparison) -> pd.DataFrame:
    """Return the table for machines: method, then mean, standard error and count of every column."""
    frame = pd.DataFrame({"method": comparison.methods})
    for place, column in enumerate(comparison.columns):
        frame[column] = comparison.mean[:, place]
        frame[f"{column}_stderr"] = comparison.stderr[:, place]
        frame[f"{column}_samples"] = comparison.samples[:, place]
    return frame


def tex_table(results: StudyResults, comparison: Comparison) -> str:
    """Return the table in LaTeX, in panels that a page is wide enough for; needs the package booktabs."""
    caption = f"{results.name} ({results.dataset}, {results.task}). " + " ".join(coverage(results, comparison))
    panels = "\n\n\\medskip\n".join(tex_panel(comparison, places) for places in panel_places(comparison.columns))
    return (
        "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\\small\n"
        f"\\caption{{{escape_tex(caption)}}}\n\\label{{tab:{results.name}}}\n{panels}\n\\end{{table}}\n"
    )


def panel_places(columns: tuple[str, ...]) -> list[list[int]]:
    """Return the columns of each LaTeX panel: metrics by fours, cost beside the last ones if there is room."""
    metrics = [place for place, column in enumerate(columns) if column not in COST_COLUMNS]
    panels = [metrics[start : start + PANEL] for start in range(0, len(metrics), PANEL)]
    costs = [place for place, column in enumerate(columns) if column in COST_COLUMNS]
    if costs and len(panels[-1]) + len(costs) <= PANEL + 1:
        panels[-1] = panels[-1] + costs
    elif costs:
        panels.append(costs)
    return panels


def tex_panel(comparison: Comparison, places: list[int]) -> str:
    """Return one tabular with the columns at ``places``."""
    headers = " & ".join(["Method", *(tex_header(comparison.columns[place]) for place in places)])
    rows = [
        " & ".join([escape_tex(method), *(tex_cell(row[place]) for place in places)]) + r" \\"
        for method, row in zip(comparison.methods, comparison.cells(), strict=True)
    ]
    body = "\n".join(rows)
    return (
        f"\\begin{{tabular}}{{l{'r' * len(places)}}}\n\\toprule\n{headers} \\\\\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}"
    )


def tex_header(column: str) -> str:
    """Return a column's title on two lines if it has a remark in parentheses."""
    sign = r"$\uparrow$" if higher_is_better(column) else r"$\downarrow$"
    words, _, remark = escape_tex(title(column)).partition(" (")
    return f"\\shortstack[r]{{{words} {sign}\\\\({remark}}}" if remark else f"{words} {sign}"


def tex_cell(cell: Cell) -> str:
    """Return an entry as the paper prints it.

    >>> tex_cell(Cell("0.913", "0.010", True))
    '$\\\\mathbf{0.913}\\\\,{\\\\scriptstyle(0.010)}$'
    """
    if cell.text == MISSING:
        return "--"
    mean = f"\\mathbf{{{cell.text}}}" if cell.bold else cell.text
    note = r"\mbox{--}" if cell.note == MISSING else cell.note
    return f"${mean}\\,{{\\scriptstyle({note})}}$"


def console_table(results: StudyResults, width: int | None = None) -> Table:
    """Return the comparison table for a terminal, folded into panels where ``width`` characters are too few.

    Args:
        results: the study's results.
        width: characters a line; None asks the terminal.
    """
    comparison = compare(results)
    cells = comparison.cells()
    name_width = max(len("Method"), *(len(method) for method in comparison.methods))
    entry = max(len(cell.line()) for row in cells for cell in row)
    room = (width or shutil.get_terminal_size((100, 24)).columns) - name_width - 2
    total = len(comparison.columns)
    panels = math.ceil(total / min(total, max(1, room // (entry + 2))))
    per = math.ceil(total / panels)
    table = Table(title=f"{results.name}: {results.dataset}, {results.task}", show_header=False, box=None)
    table.add_column(no_wrap=True)
    for _ in range(per):
        table.add_column(justify="right", width=entry)
    for start in range(0, total, per):
        headers = comparison.headers()[start : start + per]
        table.add_row(Text("Method", "bold underline"), *(Text(header, "underline") for header in headers))
        for method, row in zip(comparison.methods, cells, strict=True):
            entries = [Text(cell.line(), "bold" if cell.bold else "") for cell in row[start : start + per]]
            table.add_row(Text(method), *entries)
        table.add_section()
    table.caption = " ".join(coverage(results, comparison))
    return table
