"""What a report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

SCORE_COLUMNS = ("method", "metric", "sample", "score")
CURVE_COLUMNS = ("method", "metric", "percent", "mean", "stderr", "samples")
COST_COLUMNS = ("seconds", "evaluations", "peak_memory_mb")
TIMING_COLUMNS = ("method", "sample", *COST_COLUMNS)
SET_COLUMNS = ("set", "value", "stderr")


@dataclass(frozen=True)
class MethodView:
    """One method's explanation of one sample with n events, float64.

    Attributes:
        value: (n,) value importance, Shapley value, or the method's attribution.
        position: (n,) position importance per slot (the slope of gamma, Eq. 10); None where a method has none.
        matrix: (n, n) gamma (Eq. 8), events x slots, NaN in cells without a draw; None where a method has none.
        sets: columns set (tuple of 0-based events), value, stderr (NaN where it is unknown); None where a method
            values no sets.
    """

    value: np.ndarray
    position: np.ndarray | None = None
    matrix: np.ndarray | None = None
    sets: pd.DataFrame | None = None


@dataclass(frozen=True)
class SampleView:
    """One explained sample with n events, in time order; or n words of a text, pixels of an image, columns of a table.

    Attributes:
        sample: its keyed hash, never an identifier.
        names: n event names, words or sentences.
        hours: (n,) hours since the window's start; None where players have no times, as the words of a text.
        label: the true class, or the true number.
        probability: what the model gives ``target`` on the untouched input, or the number that it predicts.
        target: the explained class; None where a number is predicted.
        attributions: one view a method.
        image: (rows, columns) or (rows, columns, 3) numbers from 0 to 1, whose rows * columns pixels are the players;
            None where the sample is no image.
        table: whether the players are columns of a table, which stand in no order.
        player: what a player is called: event, visit, word, pixel, feature, ...
        moved: by event (0-based), (n,) the explained output with this event in each slot, the others in their order;
            empty where the model was not asked.
    """

    sample: str
    names: list[str]
    hours: np.ndarray | None
    label: float
    probability: float
    target: int | None
    attributions: dict[str, MethodView]
    image: np.ndarray | None = None
    table: bool = False
    player: str = "event"
    moved: Mapping[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.names)
        if self.hours is not None and len(self.hours) != n:
            raise ValueError(f"sample {self.sample} has {n} event names and {len(self.hours)} hours; give one each")
        if self.image is not None and self.image.shape[0] * self.image.shape[1] != n:
            raise ValueError(f"sample {self.sample} has {n} players and an image of shape {self.image.shape}")
        for event, outputs in self.moved.items():
            if not 0 <= event < n or np.shape(outputs) != (n,):
                raise ValueError(
                    f"sample {self.sample}: outputs of shape {np.shape(outputs)} for event {event} moved; "
                    f"its {n} events need ({n},), for an event from 0 to {n - 1}"
                )
        for method, view in self.attributions.items():
            if view.sets is not None:
                check_columns(f"sample {self.sample}: sets of {method}", view.sets, SET_COLUMNS)
            wanted = {"value": (n,), "position": (n,), "matrix": (n, n)}
            for part, shape in wanted.items():
                array = getattr(view, part)
                if array is not None and np.shape(array) != shape:
                    raise ValueError(
                        f"sample {self.sample}: {part} of {method} has shape {np.shape(array)}; "
                        f"its {n} events need {shape}"
                    )

    @property
    def about(self) -> str:
        """Return what positive numbers speak for."""
        return "a higher prediction" if self.target is None else f"class {self.target}"


@dataclass(frozen=True)
class StudyResults:
    """Everything that a report shows.

    Attributes:
        name: the study's name.
        dataset: the data set's name.
        task: what the model predicts.
        scores: columns method, metric, sample, score; one row a sample, NaN where a metric is undefined.
        curves: columns method, metric, percent, mean, stderr, samples.
        timing: columns method, sample, seconds, evaluations, peak_memory_mb; may have no row.
        model: test scores of the model by name, with ``<name>_low`` and ``<name>_high`` where there is an interval.
        audit: what preprocessing kept and dropped; nested mappings of names to numbers and texts.
        samples: the explained samples; the first ones are drawn.
        truth: the planted effects, ``{"codes": {code: {"kind", "value", "position"}}}``, on the logit of class 1;
            None for real data.
        made: how this was made, by name: git commit, versions, seeds, digests, device, output scale, ...
        seed: of the draws behind intervals and p-values.
        output: the scale that is explained: probability, log_probability or logit.
        calibration: columns from, to, samples, predicted, observed, observed_low, observed_high; may have no row.
        history: columns epoch, train_loss, validation_loss, validation_auroc; may have no row.
    """

    name: str
    dataset: str
    task: str
    scores: pd.DataFrame
    curves: pd.DataFrame
    timing: pd.DataFrame
    model: dict[str, float]
    audit: dict
    samples: list[SampleView]
    truth: dict | None
    made: dict[str, str]
    seed: int = 0
    output: str = "probability"
    calibration: pd.DataFrame = field(default_factory=pd.DataFrame)
    history: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __post_init__(self) -> None:
        check_columns("scores", self.scores, SCORE_COLUMNS)
        check_columns("curves", self.curves, CURVE_COLUMNS)
        if len(self.timing):
            check_columns("timing", self.timing, TIMING_COLUMNS)
        if self.scores.empty:
            raise ValueError("scores has no row; evaluate at least one method before reporting")
        twice = self.scores[self.scores.duplicated(["method", "metric", "sample"])]
        if len(twice):
            row = twice.iloc[0]
            raise ValueError(
                f"scores has two rows for method {row['method']!r}, metric {row['metric']!r} "
                "and the same sample; give one row a sample"
            )

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods in the study's order: as they come in ``scores``."""
        return tuple(dict.fromkeys(self.scores["method"]))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics in the study's order: as they come in ``scores``."""
        return tuple(dict.fromkeys(self.scores["metric"]))

    @property
    def player(self) -> str:
        """Return what a player is called."""
        return self.samples[0].player if self.samples else "event"

    @property
    def about(self) -> str:
        """Return what positive numbers of any sample speak for."""
        known = [sample.target for sample in self.samples]
        return "a higher prediction" if known and known[0] is None else "the explained class"

    @property
    def sample_count(self) -> int:
        """Return how many samples were explained and scored."""
        return int(self.scores["sample"].nunique())


def check_columns(name: str, frame: pd.DataFrame, wanted: tuple[str, ...]) -> None:
    """Raise ValueError where ``frame`` lacks one of the ``wanted`` columns."""
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise ValueError(f"{name} lacks the column {missing[0]!r}; it needs: {', '.join(wanted)}")
