"""Test scores of a classifier, with percentile bootstrap intervals; numpy alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explainers.streams import stream

DRAWS_AT_A_TIME = 64
Scores = dict[str, float]
Measure = Callable[[np.ndarray], np.ndarray]


def score(labels: np.ndarray, probabilities: np.ndarray, draws: int, seed: int) -> Scores:
    """Return auroc, auprc, accuracy and brier, each with ``_low`` and ``_high``.

    Of two classes they are those of class 1 (accuracy at the threshold 0.5). Of more, auroc and auprc are the mean over
    the classes, each against the others, accuracy is that of the likeliest class, and brier is the sum over classes.
    The interval holds the middle 95 % of ``draws`` bootstrap draws of the samples (Efron & Tibshirani 1993, ch. 13). A
    draw that lacks a class has no AUROC and no AUPRC, and takes no part in their intervals.

    Args:
        labels: (r,) 0 to classes - 1, all present.
        probabilities: (r, classes).
        draws: number of bootstrap draws.
        seed: names the draws' random stream, with "bootstrap".
    """
    if probabilities.shape[1] == 2:
        order = np.argsort(probabilities[:, 1], kind="stable")
        labels = labels[order]
        measures = measures_of(labels, probabilities[order, 1])
    else:
        measures = measures_of_many(labels, probabilities)
    once = np.ones((1, len(labels)))
    found: Scores = {}
    resampled = bootstrap(measures, len(labels), draws, seed)
    for name, measure in measures.items():
        values = resampled[name][np.isfinite(resampled[name])]
        point = float(measure(once)[0])
        low, high = np.quantile(values, [0.025, 0.975]) if len(values) else (point, point)
        found |= {name: point, f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the area under the ROC curve of ``scores`` (r,); ties count one half. Both classes must be present.

    >>> auroc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    0.75
    """
    order = np.argsort(scores, kind="stable")
    return float(weighted_auroc(labels[order], ties(scores[order]), np.ones((1, len(labels))))[0])


def measures_of(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, Measure]:
    """Return each measure as a function of weights (draws, r), for samples sorted by probability."""
    starts = ties(probabilities)
    right = ((probabilities >= 0.5) == labels).astype(float)
    squares = (probabilities - labels) ** 2
    return {
        "auroc": lambda weights: weighted_auroc(labels, starts, weights),
        "auprc": lambda weights: weighted_auprc(labels, starts, weights),
        "accuracy": lambda weights: weights @ right / weights.sum(1),
        "brier": lambda weights: weights @ squares / weights.sum(1),
    }


def measures_of_many(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, Measure]:
    """Return each measure of more than two classes as a function of weights (draws, r)."""
    right = (probabilities.argmax(1) == labels).astype(float)
    squares = ((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(1)
    against = []
    for place, column in enumerate(probabilities.T):
        order = np.argsort(column, kind="stable")
        against.append((order, (labels[order] == place).astype(int), ties(column[order])))

    def mean_of(measure: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Measure:
        return lambda weights: np.mean([measure(is_it, at, weights[:, rows]) for rows, is_it, at in against], axis=0)

    return {
        "auroc": mean_of(weighted_auroc),
        "auprc": mean_of(weighted_auprc),
        "accuracy": lambda weights: weights @ right / weights.sum(1),
        "brier": lambda weights: weights @ squares / weights.sum(1),
    }


def mean_auroc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the AUROC of scores (r, classes): of two classes that of class 1, of more the mean against the others."""
    if scores.shape[1] == 2:
        return auroc(labels, scores[:, 1] - scores[:, 0])
    return float(np.mean([auroc((labels == place).astype(int), column) for place, column in enumerate(scores.T)]))


def bootstrap(measures: dict[str, Measure], rows: int, draws: int, seed: int) -> dict[str, np.ndarray]:
    """Return each measure (draws,) on resampled samples; NaN where a draw has one class only."""
    rng = stream(seed, "bootstrap")
    values: dict[str, list[np.ndarray]] = {name: [] for name in measures}
    for start in range(0, draws, DRAWS_AT_A_TIME):
        size = min(DRAWS_AT_A_TIME, draws - start)
        picked = rng.integers(rows, size=(size, rows)) + np.arange(size)[:, None] * rows
        weights = np.bincount(picked.ravel(), minlength=size * rows).reshape(size, rows).astype(float)
        for name, measure in measures.items():
            values[name].append(measure(weights))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def ties(scores: np.ndarray) -> np.ndarray:
    """Return where each group of equal values starts in sorted ``scores``."""
    return np.flatnonzero(np.r_[True, np.diff(scores) > 0])


def by_group(labels: np.ndarray, starts: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight of positives and of negatives (draws, groups) in each group of equal scores."""
    positives = np.add.reduceat(weights * labels, starts, axis=1)
    negatives = np.add.reduceat(weights * (1 - labels), starts, axis=1)
    return positives, negatives


def weighted_auroc(labels: np.ndarray, starts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUROC (draws,) of samples sorted by score: the Mann-Whitney statistic, ties one half."""
    positives, negatives = by_group(labels, starts, weights)
    below = np.cumsum(negatives, axis=1) - negatives / 2
    pairs = positives.sum(1) * negatives.sum(1)
    with np.errstate(invalid="ignore"):
        return (positives * below).sum(1) / pairs


def weighted_auprc(labels: np.ndarray, starts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the average precision (draws,): sum over thresholds of (gain in recall) x precision, no interpolation."""
    positives, negatives = by_group(labels, starts, weights)
    positives, negatives = positives[:, ::-1], negatives[:, ::-1]
    hits, taken = np.cumsum(positives, axis=1), np.cumsum(positives + negatives, axis=1)
    precision = np.divide(hits, taken, out=np.zeros(hits.shape), where=taken > 0)
    with np.errstate(invalid="ignore"):
        average = (positives * precision).sum(1) / positives.sum(1)
    return np.where(negatives.sum(1) > 0, average, np.nan)
