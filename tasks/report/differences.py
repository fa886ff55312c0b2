"""How far each method is from the best one: paired bootstrap intervals, permutation tests, Holm's correction, ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, permutation_test, rankdata

from explainers.streams import stream
from tasks.report.results import StudyResults
from tasks.report.table import Comparison
from tasks.report.text import higher_is_better

DRAWS = 9999  # of samples, for an interval
FLIPS = 4999  # of signs, for a p-value
LEVEL = 0.95
COLUMNS = ("metric", "method", "best", "difference", "low", "high", "p", "p_holm", "samples")
HOW_COMPARED = (
    "Difference to the method with the best mean, over the samples where both are defined. Interval: 95 %, percentiles "
    f"of {DRAWS:,} bootstrap draws of samples, paired (both methods on the same samples). p: two-sided paired "
    f"permutation test of the mean difference (signs flipped; all flips where there are at most {FLIPS:,}, else as "
    "many draws), then corrected after Holm over the methods of one metric. The best method is picked on the same "
    "samples, which makes it look a little better than it is."
)


def differences(results: StudyResults, comparison: Comparison) -> pd.DataFrame:
    """Return each method's paired difference to the best method of each metric, in the order of both.

    Returns:
        columns ``metric``, ``method``, ``best``, ``difference`` (mean of method minus best), ``low`` and ``high``
        (95 % paired percentile bootstrap over samples), ``p`` (two-sided paired permutation test of the mean
        difference), ``p_holm`` (Holm 1979, over the methods of one metric) and ``samples`` (where both are defined).
        NaN below two samples. A metric that fewer than two methods have is left out.
    """
    frames = []
    for metric in results.metrics:
        best = best_method(metric, comparison)
        if best is None:
            continue
        wide = results.scores[results.scores["metric"] == metric].pivot(
            index="sample", columns="method", values="score"
        )
        others = [method for method in comparison.methods if method in wide and method != best]
        rows = [compared(wide, metric, method, best, results.seed) for method in others if wide[method].notna().any()]
        frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name != "p_holm"])
        frame.insert(COLUMNS.index("p_holm"), "p_holm", holm(frame["p"].to_numpy(dtype=float)))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COLUMNS))


def best_method(metric: str, comparison: Comparison) -> str | None:
    """Return the method with the best mean, the first of equals; None where fewer than two methods have one."""
    means = comparison.mean[:, comparison.columns.index(metric)]
    if np.isfinite(means).sum() < 2:
        return None
    place = np.nanargmax(means) if higher_is_better(metric) else np.nanargmin(means)
    return comparison.methods[int(place)]


def compared(wide: pd.DataFrame, metric: str, method: str, best: str, seed: int) -> tuple:
    """Return one row of :func:`differences` without the corrected p; the draws are named by metric and methods."""
    paired = (wide[method] - wide[best]).dropna().to_numpy(dtype=float)
    if len(paired) < 2:
        mean = float(paired.mean()) if len(paired) else np.nan
        return metric, method, best, mean, np.nan, np.nan, np.nan, len(paired)
    names = ("difference to the best", metric, method, best)
    drawn = bootstrap(
        (paired,),
        np.mean,
        n_resamples=DRAWS,
        confidence_level=LEVEL,
        method="percentile",
        rng=stream(seed, "bootstrap", *names),
    )
    low, high = drawn.confidence_interval
    flipped = permutation_test(
        (paired,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        rng=stream(seed, "signs", *names),
    )
    return metric, method, best, float(paired.mean()), float(low), float(high), float(flipped.pvalue), len(paired)


def holm(p: np.ndarray) -> np.ndarray:
    """Return p-values (m,) corrected by Holm's step-down procedure; NaN stays NaN and counts for nothing.

    The k-th smallest of m is multiplied by m - k + 1, then made no smaller than those before, and at most 1.
    Source: Holm (1979), Scand. J. Statist. 6, 65-70.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    corrected = np.full(len(p), np.nan)
    known = np.flatnonzero(np.isfinite(p))
    ranked = known[np.argsort(p[known], kind="stable")]
    raised = p[ranked] * np.arange(len(ranked), 0, -1)
    corrected[ranked] = np.minimum(np.maximum.accumulate(raised), 1.0) if len(ranked) else raised
    return corrected


def ranks(comparison: Comparison, metrics: Sequence[str]) -> np.ndarray:
    """Return (m, metrics) the rank of each method's mean, 1 the best, equals share their mean rank; NaN without one."""
    means = np.stack([comparison.mean[:, comparison.columns.index(metric)] for metric in metrics], axis=1)
    signs = np.array([-1.0 if higher_is_better(metric) else 1.0 for metric in metrics])
    return rankdata(means * signs, axis=0, nan_policy="omit")
