"""Scoring: every metric on every explained sample of one method, in shards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from conf.schema import Evaluate
from metrics import compute_all, get_metric
from metrics.base import Metric
from tasks.content import read_content
from tasks.explain import SHARDS, read_explanation
from tasks.shards import read_sample, run_shards
from tasks.subject import Subject

OF_NUMBERS = ("ins_auc", "del_auc", "ins_auc_fixed", "del_auc_fixed")


def chosen_metrics(evaluate: Evaluate) -> list[Metric]:
    """Return the study's metrics with its grid and permutations."""
    options = {"grid_step": evaluate.grid_step, "permutations": evaluate.permutations}
    return [get_metric(name, **options) for name in evaluate.metrics]


def check_metrics(data: Path, evaluate: Evaluate) -> None:
    """Raise ValueError, before any long work, where a metric reads a class and a number is predicted."""
    if read_content(data).classes:
        return
    for name in evaluate.metrics:
        if name not in OF_NUMBERS:
            raise ValueError(
                f"evaluate.metrics has {name!r}, which reads a class, and the data have a number to predict; "
                f"take {', '.join(OF_NUMBERS)}"
            )


def evaluate_method(
    subject: Subject,
    explanations: Path,
    evaluate: Evaluate,
    seed: int,
    out: Path,
    workers: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write every metric's score and curve of each sample to ``out/shards``, going on from what is there.

    Args:
        subject: model and samples that were explained.
        explanations: output folder of :func:`tasks.explain.explain_method`.
        evaluate: metrics and grid.
        seed: of permutations and tie orders; a sample sees the same ones whatever the method.
        out: the output's folder.
        workers: shards at a time.
        progress: called with (samples done, samples).
    """
    metrics = chosen_metrics(evaluate)
    size = subject.explain.shard_size

    def compute(index: int) -> dict[str, torch.Tensor]:
        scores = compute_all(metrics, subject.game(index), read_explanation(explanations, size, index), seed)
        arrays: dict[str, torch.Tensor] = {}
        for name, result in scores.items():
            arrays[f"{name}.score"] = result.score
            arrays[f"{name}.curve"] = result.curve[0]
            arrays[f"{name}.grid"] = torch.from_numpy(np.asarray(result.grid, dtype=np.float64))
        return arrays

    run_shards(out / SHARDS, len(subject.rows), size, compute, workers, progress)


def read_scores(out: Path, evaluate: Evaluate, shard_size: int, names: list[str]) -> pd.DataFrame:
    """Return columns metric, sample, score: one row a metric and sample; NaN where a metric is undefined."""
    rows = []
    for index, sample in enumerate(names):
        arrays = read_sample(out / SHARDS, shard_size, index)
        rows += [(name, sample, float(arrays[f"{name}.score"][0])) for name in evaluate.metrics]
    return pd.DataFrame(rows, columns=["metric", "sample", "score"])


def read_curves(out: Path, evaluate: Evaluate, shard_size: int, samples: int) -> pd.DataFrame:
    """Return columns metric, percent, mean, stderr, samples: each metric's mean curve over the samples."""
    frames = []
    arrays = [read_sample(out / SHARDS, shard_size, index) for index in range(samples)]
    for name in evaluate.metrics:
        curves = torch.stack([sample[f"{name}.curve"] for sample in arrays]).numpy()
        defined = curves[~np.isnan(curves).any(1)]
        count = len(defined)
        grid = arrays[0][f"{name}.grid"].numpy()
        mean = defined.mean(0) if count else np.full(len(grid), np.nan)
        stderr = defined.std(0, ddof=1) / count**0.5 if count > 1 else np.full(len(grid), np.nan)
        frame = pd.DataFrame({"metric": name, "percent": grid, "mean": mean, "stderr": stderr, "samples": count})
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
