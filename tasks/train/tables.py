"""Models of tables that no gradient trains: a forest that scikit-learn grows, and a known function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from explainers.streams import stream
from tasks.train.networks.forest import Forest, ForestConfig
from tasks.train.networks.polynomial import Polynomial, PolynomialConfig
from tasks.train.scores import Scores, bootstrap

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestRegressor
    from transformers import PreTrainedModel

    from conf.schema import Model
    from tasks.content import Content
    from tasks.train.data import Part


def made(model: Model, content: Content, train: Part, seed: int) -> PreTrainedModel:
    """Return the forest grown on the training part, or the known function of the data; in ``eval()``.

    Args:
        model: architecture ``forest`` (with its three options) or ``polynomial``.
        content: the features, and the known function.
        train: the training part; its features count as float32, as the forest will see them.
        seed: names the forest's random stream.
    """
    if model.architecture == "polynomial":
        return polynomial_of(content)
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        model.trees,
        max_features=model.features_a_split,
        min_samples_leaf=model.smallest_leaf,
        random_state=int(stream(seed, "train").integers(2**31)),
        n_jobs=1,
    )
    return forest_of(forest.fit(np.asarray(train.inputs, dtype=np.float32), train.labels))


def polynomial_of(content: Content) -> Polynomial:
    """Return the known function that the data tell."""
    exponents = [list(powers) for powers in content.exponents]
    network = Polynomial(PolynomialConfig(num_features=len(content.features), exponents=exponents))
    with torch.no_grad():
        network.coefficients.copy_(torch.tensor(content.coefficients))
    return network.eval()


def forest_of(forest: RandomForestRegressor) -> Forest:
    """Return a fitted scikit-learn forest of one output as arrays that torch walks."""
    trees = [tree.tree_ for tree in forest.estimators_]
    counts = [tree.node_count for tree in trees]
    roots = np.concatenate([[0], np.cumsum(counts)[:-1]])
    config = ForestConfig(
        num_features=forest.n_features_in_,
        trees=len(trees),
        nodes=sum(counts),
        depth=max(tree.max_depth for tree in trees),
    )
    network = Forest(config)
    inner = np.concatenate([tree.children_left >= 0 for tree in trees])
    own = np.arange(len(inner))
    sides = [
        np.where(inner, np.concatenate([side(tree) + root for tree, root in zip(trees, roots, strict=True)]), own)
        for side in (lambda tree: tree.children_left, lambda tree: tree.children_right)
    ]
    network.onward.copy_(torch.from_numpy(np.stack(sides, axis=1)))
    network.roots.copy_(torch.from_numpy(roots))
    feature = np.concatenate([tree.feature for tree in trees])
    network.feature.copy_(torch.from_numpy(np.where(inner, feature, 0)))
    threshold = np.concatenate([tree.threshold for tree in trees])
    network.threshold.copy_(torch.from_numpy(np.where(inner, rounded_down(threshold), np.float32(np.inf))))
    with torch.no_grad():
        network.value.copy_(torch.from_numpy(np.concatenate([tree.value[:, 0, 0] for tree in trees])))
    return network.eval()


def rounded_down(numbers: np.ndarray) -> np.ndarray:
    """Return the largest float32 that are not above ``numbers`` (float64): the same float32 are at most either."""
    nearest = numbers.astype(np.float32)
    return np.where(nearest > numbers, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def number_scores(labels: np.ndarray, predictions: np.ndarray, draws: int, seed: int) -> Scores:
    """Return r2, rmse and mae with ``_low`` and ``_high``: the middle 95 % of bootstrap draws of the samples.

    Args:
        labels: (r,) numbers.
        predictions: (r,) numbers.
        draws: number of bootstrap draws.
        seed: names the draws' random stream, with "bootstrap".
    """
    errors = (labels - predictions) ** 2
    away = np.abs(labels - predictions)

    def r2(weights: np.ndarray) -> np.ndarray:
        middle = weights @ labels / weights.sum(1)
        spread = weights @ labels**2 - weights.sum(1) * middle**2
        return 1 - np.divide(weights @ errors, spread, out=np.full(len(weights), np.nan), where=spread > 0)

    measures = {
        "r2": r2,
        "rmse": lambda weights: np.sqrt(weights @ errors / weights.sum(1)),
        "mae": lambda weights: weights @ away / weights.sum(1),
    }
    found: Scores = {}
    resampled = bootstrap(measures, len(labels), draws, seed)
    for name, measure in measures.items():
        point = float(measure(np.ones((1, len(labels))))[0])
        values = resampled[name][np.isfinite(resampled[name])]
        if np.isfinite(point) and len(values):
            low, high = np.quantile(values, [0.025, 0.975])
            found |= {name: point, f"{name}_low": float(low), f"{name}_high": float(high)}
    return found
