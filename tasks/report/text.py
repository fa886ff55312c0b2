"""Words and numbers of the report: titles, arrows, formats, and escapes for each kind of file."""

from __future__ import annotations

import inspect
import math
import re

import metrics
from explainers.registry import nearest
from tasks.report.results import COST_COLUMNS

MISSING = "–"
WORDS = {
    "auc": "AUC",
    "inc": "inclusion",
    "exc": "exclusion",
    "ins": "insertion",
    "del": "deletion",
    "perm": "permutation",
    "fixed": "(fixed order)",
    "mb": "(MB)",
}
TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    MISSING: "--",
} | {mark: "\\" + mark for mark in "&%$#_{}"}


def title(column: str) -> str:
    """Return a column's title.

    >>> title("inc_auc_fixed"), title("peak_memory_mb")
    ('Inclusion AUC (fixed order)', 'Peak memory (MiB)')
    """
    words = " ".join(WORDS.get(word, word) for word in column.split("_"))
    return words[:1].upper() + words[1:]


def higher_is_better(column: str) -> bool:
    """Tell a column's direction; cost is better when low.

    Raises:
        ValueError: the metric is not one of ``metrics.metrics()``.
    """
    if column in COST_COLUMNS:
        return False
    known = metrics.metrics()
    if column not in known:
        raise ValueError(f"unknown metric {column!r} in the scores: {nearest(column, list(known))}")
    return known[column].higher_is_better


def meaning(metric: str) -> str:
    """Return the first line of what a metric says about itself."""
    return (inspect.getdoc(metrics.metrics()[metric]) or "").partition("\n")[0]


def arrow(column: str) -> str:
    """Return the arrow of a column's better direction."""
    return "↑" if higher_is_better(column) else "↓"


def number(value: float, decimals: int = 3) -> str:
    """Return ``value`` with so many decimals (negative: rounded to tens, hundreds, ...), a dash where there is none.

    >>> number(0.9131), number(1234.5, -1), number(float("nan")), number(-0.0001)
    ('0.913', '1230', '–', '0.000')
    """
    if not math.isfinite(value):
        return MISSING
    return f"{round(value, decimals):z.{max(decimals, 0)}f}"


def decimals(column: str, mean: float) -> int:
    """Return how many decimals a column shows: 3 for a metric, 3 significant digits for a cost, none for large counts.

    >>> decimals("inc_auc", 0.5), decimals("seconds", 0.01234), decimals("seconds", 1234.5), decimals("evaluations", 2)
    (3, 4, -1, 0)
    """
    if column not in COST_COLUMNS or not math.isfinite(mean):
        return 3
    if column == "evaluations":
        return 0 if mean >= 100 or mean == int(mean) else 1
    exponent = int(f"{abs(mean):.2e}".partition("e")[2])
    return 2 - exponent


def shorten(name: str, length: int) -> str:
    r"""Return ``name`` as one line of at most ``length`` characters, with an ellipsis, safe from matplotlib's mathtext.

    >>> shorten("Potassium chloride", 10), shorten("a$b", 10)
    ('Potassium…', 'a\\$b')
    """
    line = " ".join(name.split())
    if len(line) > length:
        line = line[: length - 1].rstrip() + "…"
    return line.replace("$", r"\$")


def escape_markdown(text: str) -> str:
    r"""Return ``text`` so that Markdown shows it as it is, in a table too.

    >>> escape_markdown("a_b|c <d>")
    'a\\_b\\|c &lt;d&gt;'
    """
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|~$#])", r"\\\1", line)


def escape_tex(text: str) -> str:
    r"""Return ``text`` so that LaTeX prints it as it is.

    >>> escape_tex("least_squares 50%")
    'least\\_squares 50\\%'
    """
    return "".join(TEX.get(mark, mark) for mark in " ".join(text.split()))
