"""What every metric is: a score and a curve for each explained sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from explainers import Explanation, Game
from explainers.lazy import Lazy
from metrics.designs import Design

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class Scores:
    """One metric of one method on b samples.

    Attributes:
        score: (b,) float64 on the CPU; NaN where a sample has no players, or an attribution that is not finite.
        curve: (b, g) float64 over the grid, the average over permutations and tie orders; NaN where the score is.
        grid: (g,) percent of the players, from 0 to 100.
    """

    score: torch.Tensor
    curve: torch.Tensor
    grid: np.ndarray


class Metric(BaseModel, ABC):
    """A measure of explanations; subclasses are found by name, and their first docstring line is what is listed.

    A metric is two things: the rows that it reads (:meth:`design`) and what it reads off them (:meth:`read`). Metrics
    with equal designs share the model's outputs (``compute_all``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    higher_is_better: ClassVar[bool]

    grid_step: int = Field(4, ge=1, le=100, title="Grid step", description="Percent of the players.")
    permutations: int = Field(10, ge=1, title="Permutations", description="Drawn from (seed, sample) alone.")
    tie_orders: int = Field(
        10, ge=1, title="Tie orders", description="Random orders of equal attributions that are averaged, at least."
    )

    @abstractmethod
    def design(self) -> Design:
        """Return which rows are read; metrics with equal designs share them."""

    @abstractmethod
    def read(self, game: Game, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return one reading a row (rows,) from the black box's raw outputs (rows, outputs)."""

    def curve(self, readings: torch.Tensor) -> torch.Tensor:
        """Return the (g,) curve of (rounds, g) readings: their mean over permutations and tie orders."""
        return readings.mean(0)

    def compute(self, game: Game, explanation: Explanation, seed: int = 0) -> Scores:
        """Score ``explanation`` of ``game``'s samples.

        Raises:
            ValueError: the explanation is not of this game's samples and players.
        """
        from metrics.shared import compute_all

        return compute_all([self], game, explanation, seed)[self.name]
