"""Is a predicted 30 % really 30 %? The calibration curve, its error, its slope and its figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

BINS = 10
CLIP = 1e-6


def calibration_curve(labels: np.ndarray, probabilities: np.ndarray) -> pd.DataFrame:
    """Return one row a bin of equal width that has samples.

    Columns: ``from`` and ``to`` (the bin), ``samples``, ``predicted`` (mean probability), ``observed`` (share of class
    1) with ``observed_low`` and ``observed_high`` (95 % Wilson interval).

    Args:
        labels: (r,) 0 or 1.
        probabilities: (r,) of class 1.
    """
    places = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    found = []
    for place in np.unique(places):
        inside = places == place
        observed, count = float(labels[inside].mean()), int(inside.sum())
        low, high = wilson(observed, count)
        found.append((place / BINS, (place + 1) / BINS, count, probabilities[inside].mean(), observed, low, high))
    names = ["from", "to", "samples", "predicted", "observed", "observed_low", "observed_high"]
    return pd.DataFrame(found, columns=names)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share of ``count`` (Wilson 1927)."""
    z = 1.959964
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return float(min(share, max(0.0, middle - half))), float(max(share, min(1.0, middle + half)))


def calibration_scores(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """Return calibration_error (ECE: the samples' mean |predicted - observed| of their bin) and, where it exists,
    calibration_slope and calibration_intercept (logistic regression of the label on the predicted log-odds, Cox 1958;
    1 and 0 are perfect).

    The regression has no finite solution where the probabilities separate the classes or are all alike: no slope then.
    """
    curve = calibration_curve(labels, probabilities)
    gaps = (curve["predicted"] - curve["observed"]).abs()
    scores = {"calibration_error": float((gaps * curve["samples"]).sum() / curve["samples"].sum())}
    positives, negatives = probabilities[labels == 1], probabilities[labels == 0]
    if (
        not len(positives)
        or not len(negatives)
        or positives.min() >= negatives.max()
        or positives.max() <= negatives.min()
    ):
        return scores
    clipped = np.clip(probabilities, CLIP, 1 - CLIP)
    log_odds = np.log(clipped / (1 - clipped))[:, None]
    line = LogisticRegression(C=np.inf, max_iter=1000).fit(log_odds, labels)
    return scores | {
        "calibration_slope": float(line.coef_[0, 0]),
        "calibration_intercept": float(line.intercept_[0]),
    }


def draw_calibration(curve: pd.DataFrame, path: Path) -> None:
    """Draw the calibration curve with its intervals, and how many samples each bin has, into a PNG."""
    figure = Figure(figsize=(5, 5.5), layout="constrained")
    axes, below = figure.subplots(2, 1, height_ratios=[4, 1], sharex=True)
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", label="perfect")
    errors = [curve["observed"] - curve["observed_low"], curve["observed_high"] - curve["observed"]]
    axes.errorbar(curve["predicted"], curve["observed"], yerr=errors, marker="o", capsize=3, label="model (95 %)")
    axes.set(ylabel="observed share of class 1", ylim=(0, 1), xlim=(0, 1), title="Calibration on the test part")
    axes.legend(loc="upper left")
    below.bar(curve["from"], curve["samples"], width=1 / BINS, align="edge", color="0.7", edgecolor="white")
    below.set(xlabel="predicted probability of class 1", ylabel="samples")
    figure.savefig(path, dpi=120)
