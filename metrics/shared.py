"""Metrics of one explanation, computed together: equal rows are evaluated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from explainers import Explanation, Game
from explainers.lazy import Lazy
from metrics.base import Metric, Scores
from metrics.designs import Design, Rows
from metrics.ranking import area, grid

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

Outputs = Mapping[Design, "tuple[torch.Tensor, tuple[int, int]]"]


def compute_all(metrics: Sequence[Metric], game: Game, explanation: Explanation, seed: int = 0) -> dict[str, Scores]:
    """Score ``explanation`` by every metric; all rows of a sample go to the game in one call.

    Args:
        metrics: with names that differ.
        game: the samples that were explained; ``game.spent`` grows by the distinct rows of each sample.
        explanation: of the same samples and players.
        seed: of the permutations and tie orders, which depend on (seed, sample) and not on the method.

    Returns:
        the scores by metric name. A sample without players has NaN scores and curves, and so has one whose
        attribution is not finite, since it ranks nothing.

    Raises:
        ValueError: two metrics of one name, or an explanation of another shape than the game's.
    """
    check(metrics, game, explanation)
    curves: dict[str, list[np.ndarray]] = {metric.name: [] for metric in metrics}
    for sample in range(game.size):
        outputs = evaluate(list(dict.fromkeys(metric.design() for metric in metrics)), game, sample, explanation, seed)
        for metric in metrics:
            curves[metric.name].append(sample_curve(metric, game, sample, outputs))
    return {metric.name: scores(curves[metric.name], grid(metric.grid_step)) for metric in metrics}


def check(metrics: Sequence[Metric], game: Game, explanation: Explanation) -> None:
    """Raise ValueError where the metrics or the explanation do not fit."""
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two metrics are called {twice[0]!r}; compute them apart")
    if tuple(explanation.value.shape) != (game.size, game.n):
        raise ValueError(
            f"the explanation has shape {tuple(explanation.value.shape)}, and the game has {game.size} samples of "
            f"{game.n} players; pass the explanation of this game"
        )


def evaluate(designs: Sequence[Design], game: Game, sample: int, explanation: Explanation, seed: int) -> Outputs:
    """Return the raw outputs (rounds * g, outputs) and (rounds, g) of each design that can rank this sample."""
    rows: dict[Design, Rows] = {}
    for design in designs:
        attribution = design.attribution(explanation)[sample].cpu().numpy().astype(np.float64)
        if len(attribution) and np.isfinite(attribution).all():
            rows[design] = design.rows(attribution, seed, game.keys[sample])
    if not rows:
        return {}
    kept = np.concatenate([part.kept.reshape(-1, game.n) for part in rows.values()])
    arrangement = np.concatenate([part.arrangement.reshape(-1, game.n) for part in rows.values()])
    outputs = game.outputs(sample, torch.from_numpy(kept), torch.from_numpy(arrangement))
    shapes = [part.kept.shape[:2] for part in rows.values()]
    parts = outputs.split([rounds * points for rounds, points in shapes])
    return dict(zip(rows, zip(parts, shapes, strict=True), strict=True))


def sample_curve(metric: Metric, game: Game, sample: int, outputs: Outputs) -> np.ndarray:
    """Return the metric's (g,) curve of one sample; NaN where its design could not rank the players."""
    if metric.design() not in outputs:
        return np.full(len(grid(metric.grid_step)), np.nan)
    raw, shape = outputs[metric.design()]
    readings = metric.read(game, sample, raw).to("cpu", torch.float64).reshape(shape)
    return metric.curve(readings).numpy()


def scores(curves: list[np.ndarray], percents: np.ndarray) -> Scores:
    """Stack the curves of all samples and take their areas."""
    stacked = np.array(curves, dtype=np.float64).reshape(len(curves), len(percents))
    areas = np.array([area(curve, percents) for curve in stacked], dtype=np.float64)
    return Scores(torch.from_numpy(areas), torch.from_numpy(stacked), percents)
