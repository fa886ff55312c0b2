"""Rows of the Markdown tables in `docs/results/`, made from a benchmark's CSV and the paper's numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

PAPER_SAMPLES = 100
PAPER_STDERR = {  # OrdShap paper, Table 7, by L: the same at every K
    "eicu-demo-los": {10: 0.0046, 50: 0.0046, 100: 0.0046},
    "eicu-demo-mortality": {10: 0.0117, 50: 0.0120, 100: 0.0118},
}
NONE = "–"


def sensitivity_lines(table: pd.DataFrame, study: str, facts: dict[str, Any]) -> list[str]:
    """Return a row a setting of one study, with the across-sample error as it would be of the paper's 100 samples.

    Importances' errors are shown over one scale, the deviation of PI over tokens. The CSV's are over that of beta for
    Algorithm 2: at few evaluations beta's own error is part of it, and would make the noise look smaller.
    """
    slope = {"walks": 1.0, "algorithm2": facts["sd of beta over tokens"] / facts["sd of PI over tokens"]}
    return [
        f"| {row.estimator} | {whole(row.permutations)} | {whole(row.subsets)} | {row.evaluations:,.0f} | "
        f"{row.perm_auc:.4f} | {row.stderr_across_samples:.4f} | {of_paper_samples(row):.4f} | {paper(study, row)} | "
        f"{row.stderr_of_estimator:.4f} | {row.importance_error * slope[row.estimator]:.2f} | "
        f"{decimals(row.importance_error_reported)} |"
        for row in table[table["study"] == study].itertuples()
    ]


def of_paper_samples(row: Any) -> float:
    """Return the standard error across samples that as many samples as the paper's would have."""
    return row.stderr_across_samples * math.sqrt(row.samples / PAPER_SAMPLES)


def paper(study: str, row: Any) -> str:
    """Return the paper's standard error at the row's L, where it has one."""
    found = PAPER_STDERR.get(study, {}).get(row.permutations)
    return NONE if found is None else f"{found:.4f}"


def device_lines(table: pd.DataFrame) -> list[str]:
    """Return a row a method, with the deviation of several samples, and the paper's seconds of its Table 3."""
    return [
        f"| {row.method} | {row.evaluations:,} | {row.seconds:.2f}{spread(row.deviation)} | "
        f"{row.evaluations_a_second:.1f} | {100 * row.share_of_bare:.1f} % | {decimals(row.paper_seconds)} |"
        for row in table.itertuples()
    ]


def spread(deviation: float) -> str:
    return "" if math.isnan(deviation) else f" ({deviation:.2f})"


def whole(number: float) -> str:
    return NONE if math.isnan(number) else f"{number:.0f}"


def decimals(number: float) -> str:
    return NONE if math.isnan(number) else f"{number:.2f}"
