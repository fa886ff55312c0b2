"""Games of models of feature vectors: absent features are averaged over a background (joint Shapley paper, Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from explainers.background import BackgroundGame
from explainers.lazy import Lazy
from explainers.logits import OutputScale, batch_size, check_choice, check_serves, on_scale

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

CPU_BATCH_FEATURES = 1 << 20
CUDA_BATCH_FEATURES = 1 << 24
MOST_TABLED = 20


class FeatureGame(BackgroundGame):
    """The mean prediction, or mean probability of one class, over the background; a player is a feature.

    Attributes:
        targets: the explained class of each sample; 0 where a number is predicted.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        features: torch.Tensor,
        background: torch.Tensor,
        target: int | None = None,
        scale: OutputScale = "probability",
        batch_tokens: int | None = None,
    ) -> None:
        """Build the game.

        Args:
            model: in ``eval()``: ``features`` (rows, n) in, ``logits`` (rows, classes) out; one output is a number
                that is predicted, and has no scale.
            features: (b, n) floats, the samples.
            background: (m, n) the rows whose values stand for absent features; one row is a baseline.
            target: the explained class; None takes the class predicted on the untouched sample.
            scale: what is averaged: the probability, log-probability or logit of ``target``.
            batch_tokens: at most this many features a forward pass (at least one row); None suits the device.

        Raises:
            ValueError: ``features`` or ``background`` has another shape, the model is training, or there is no such
                scale or target.
        """
        check_choice("scale", scale, OutputScale)
        check_serves(model, target)
        device = next(model.parameters()).device
        at_once = batch_size(batch_tokens, device, CPU_BATCH_FEATURES, CUDA_BATCH_FEATURES)
        super().__init__(lambda rows: model(features=rows).logits[:, 0], features.to(device), background, at_once)
        self.model = model
        self.scale: OutputScale = scale
        self.predicts_number = getattr(getattr(model, "config", None), "num_labels", 1) == 1
        with torch.inference_mode():
            self.targets = [int(model(features=row[None]).logits[0].argmax()) for row in self.x]
        if target is not None:
            self.targets = [target] * self.size

    def output(self, sample: int, rows: torch.Tensor) -> torch.Tensor:
        """Return the prediction, or the target's output on the game's scale (rows,)."""
        logits = self.model(features=rows).logits.double()
        return logits[:, 0] if self.predicts_number else on_scale(logits, self.targets[sample], self.scale)

    def agrees(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return whether the target has more than half of the mean probability.

        Raises:
            ValueError: a number is predicted.
        """
        if self.predicts_number:
            raise ValueError(
                "the model predicts a number, so no class can be kept or lost; take metrics that read the output: "
                "ins_auc, del_auc, ins_auc_fixed, del_auc_fixed"
            )
        return super().agrees(sample, outputs)


class ForestGame(FeatureGame):
    """The same game of a forest with few features: the worths of all coalitions from the forest's leaves, at once.

    A leaf is a box. A row that takes the features of a coalition S from the sample and the others from a background row
    is in it where, of the features in which the box holds only one of the two, S has all that the sample needs and none
    that the background row needs. So the mean over the background is a sum of indicators of such S, and no row of it is
    evaluated. One evaluation is one coalition, as in the slow way, to which it is equal.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        features: torch.Tensor,
        background: torch.Tensor,
        leaves: ForestLeaves | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        """Build the game; see :class:`FeatureGame`.

        Args:
            model: has ``boxes()``: lower and upper bounds (leaves, n) and what each leaf adds (leaves,).
            features: (b, n) floats.
            background: (m, n) floats.
            leaves: of ``model`` and ``background``; games of one model may share them.
            batch_tokens: as in :class:`FeatureGame`, for the untouched samples.

        Raises:
            ValueError: more than 20 features, for which 2^n worths are too many.
        """
        super().__init__(model, features, background, batch_tokens=batch_tokens)
        if self.n > MOST_TABLED:
            raise ValueError(f"a forest's leaves give all 2^n worths, and n is {self.n}; take FeatureGame beyond 20")
        self.leaves = leaves or ForestLeaves.of(model, background)
        self.tables: dict[int, np.ndarray] = {}

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return the mean output of each coalition (rows, 1)."""
        if sample not in self.tables:
            self.tables[sample] = self.leaves.worths(self.x[sample].cpu().numpy())
        codes = (inputs.cpu().numpy().astype(np.int64) << np.arange(self.n)).sum(1)
        return torch.from_numpy(self.tables[sample][codes][:, None]).to(self.device)


@dataclass(frozen=True)
class ForestLeaves:
    """The leaves of a forest, and in which features each holds each background row.

    Attributes:
        lower: (leaves, n) a leaf holds what is above it.
        upper: (leaves, n) and not above this.
        value: (leaves,) what a leaf adds to the prediction.
        held: (m, leaves) the features, as bits, in which a leaf holds a background row.
    """

    lower: np.ndarray
    upper: np.ndarray
    value: np.ndarray
    held: np.ndarray

    @classmethod
    def of(cls, model: Any, background: torch.Tensor) -> ForestLeaves:
        """Return the leaves of a forest that are reached, at least in part, from a background."""
        lower, upper, value = (part.cpu().numpy() for part in model.boxes())
        return cls(lower, upper, value, held_bits(lower, upper, background.cpu().numpy()))

    def worths(self, x: np.ndarray) -> np.ndarray:
        """Return v (2^n,) of every coalition for a sample (n,): bit i of the place tells whether feature i is in it."""
        n = len(x)
        whole = (1 << n) - 1
        own = held_bits(self.lower, self.upper, x[None])[0]
        row, leaf = np.nonzero((self.held | own) == whole)
        present = whole & ~self.held[row, leaf].astype(np.int64)  # where the leaf holds the sample alone
        absent = whole & ~own[leaf].astype(np.int64)
        kinds, place = np.unique(present << n | absent, return_inverse=True)
        weight = np.bincount(place, self.value[leaf]) / len(self.held)
        return indicator_sums(kinds >> n, kinds & whole, weight, n)


def held_bits(lower: np.ndarray, upper: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (rows, leaves) the features, as bits, in which each leaf's box holds each row."""
    held = np.zeros((len(rows), len(lower)), dtype=np.int32)
    for feature, column in enumerate(rows.T.astype(lower.dtype)):
        inside = (column[:, None] > lower[:, feature]) & (column[:, None] <= upper[:, feature])
        held |= inside.astype(np.int32) << feature
    return held


def indicator_sums(present: np.ndarray, absent: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    """Return (2^n,) for each coalition S the sum of weights whose ``present`` are in S and whose ``absent`` are not.

    ``[absent outside S]`` is an alternating sum over the subsets of ``absent`` inside S.

    >>> indicator_sums(np.array([1]), np.array([2]), np.array([5.0]), 2).tolist()
    [0.0, 5.0, 0.0, 0.0]
    """
    for feature in range(n):
        has = (absent >> feature & 1).astype(bool)
        present = np.concatenate([present, present[has] | 1 << feature])
        weight = np.concatenate([weight, -weight[has]])
        absent = np.concatenate([absent, absent[has]])
    table = np.bincount(present, weight, 1 << n)
    for feature in range(n):
        halves = table.reshape(-1, 2, 1 << feature)  # a view: (..., absent or present, ...)
        halves[:, 1] += halves[:, 0]
    return table
