"""OrdShap: value importance and position importance (Eq. 8-11), by one of several estimators."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from explainers.base import Explainer, SampleExplanation
from explainers.game import Game
from explainers.ordshap.algorithm1 import algorithm1
from explainers.ordshap.algorithm2 import algorithm2
from explainers.ordshap.exact import exact, placements_count
from explainers.ordshap.least_squares import least_squares
from explainers.ordshap.scale import Scale, slot_scale, time_scale
from explainers.ordshap.walks import group_cost, walks

EXACT_AT_MOST = 8  # players up to which walks gives way to enumeration where the budget holds it
Estimator = Literal["walks", "exact", "algorithm1", "algorithm2", "least_squares"]


class OrdShap(Explainer):
    """OrdShap: how much hangs on what happened (value importance) and how much on when (position importance).

    ``walks`` (default) and ``exact`` give value, position and matrix; ``algorithm1`` too; ``algorithm2`` and
    ``least_squares`` give value and ``position_ls`` (beta of Eq. 11, another estimand than the slope of gamma).
    """

    name: ClassVar[str] = "ordshap"

    estimator: Estimator = Field("walks", title="Estimator", description="walks is the project's own.")
    budget: int = Field(
        2000, ge=1, title="Budget", description="Model evaluations a sample; exact takes what it needs."
    )
    target_stderr: float | None = Field(
        None,
        gt=0,
        title="Target standard error",
        description="Stop once every value's standard error is at most this (walks only).",
    )
    positions: Literal["slots", "times"] = Field(
        "slots",
        title="Positions",
        description="times: PI per unit of time (an hour), equal times being one position (Eq. 15; walks and exact).",
    )
    permutations: int = Field(10, ge=1, title="L", description="Arrangements for each coalition (algorithm2 only).")
    subsets: int = Field(1, ge=1, title="K", description="Coalitions for each arrangement (algorithm1 only).")
    max_players: int = Field(8, ge=1, title="Most players", description="exact refuses longer samples.")

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        owners = {
            "target_stderr": "walks",
            "permutations": "algorithm2",
            "subsets": "algorithm1",
            "max_players": "exact",
        }
        for option, owner in owners.items():
            if option in self.model_fields_set and self.estimator != owner:
                raise ValueError(
                    f"option {option!r} belongs to estimator {owner!r}, not {self.estimator!r}; leave it out"
                )
        if self.positions == "times" and self.estimator not in ("walks", "exact"):
            raise ValueError(
                f"positions 'times' needs estimator walks or exact, not {self.estimator!r}; take one of these"
            )
        return self

    def label(self) -> str:
        """Return ``ordshap``, with the estimator where it is not the default."""
        parts = [self.name, *([self.estimator] if self.estimator != "walks" else [])]
        return "_".join([*parts, *(["times"] if self.positions == "times" else [])])

    def least_budget(self, n: int) -> int:
        """Return what one usable design costs (see each estimator)."""
        if self.estimator == "exact":
            return placements_count(n) if "budget" in self.model_fields_set else 1
        return {
            "walks": min(placements_count(n), 1 + 2 * group_cost(n)) if n <= EXACT_AT_MOST else 1 + 2 * group_cost(n),
            "algorithm1": 4 * n * self.subsets if n > 1 else 2,
            "algorithm2": 1 + 3 * self.permutations,
            "least_squares": 1 + 1 + 2 * n,
        }[self.estimator]

    def check(self, n: int) -> None:
        """Raise ValueError where ``exact`` would need too much, or the budget is too small."""
        if self.estimator == "exact" and n > self.max_players:
            raise ValueError(
                f"estimator exact on {n} players needs {placements_count(n):,} evaluations and max_players is "
                f"{self.max_players}; take another estimator or raise max_players"
            )
        super().check(n)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Explain one sample with the chosen estimator."""
        if self.estimator == "exact":
            return exact(game, sample, self.scale(game, sample))
        if self.estimator == "algorithm1":
            return algorithm1(game, sample, rng, self.budget, self.subsets)
        if self.estimator == "algorithm2":
            return algorithm2(game, sample, rng, self.budget, self.permutations)
        if self.estimator == "least_squares":
            return least_squares(game, sample, rng, self.budget)
        if game.n <= EXACT_AT_MOST and placements_count(game.n) <= self.budget and game.alike(sample):
            return exact(game, sample, self.scale(game, sample))
        return walks(game, sample, rng, self.budget, self.scale(game, sample), self.target_stderr)

    def scale(self, game: Game, sample: int) -> Scale:
        """Return what positions are measured in.

        Raises:
            ValueError: times are asked for, and the game has none.
        """
        if self.positions == "slots":
            return slot_scale(game.n, game.device)
        if game.times is None:
            raise ValueError("positions is 'times', and the game has no times; pass times=, or take positions='slots'")
        return time_scale(game.times[sample].to(game.device))

    def explain_nothing(self) -> SampleExplanation:
        """Return empty importances of the kinds that the estimator gives."""
        from torch import float64, zeros

        empty = zeros(0, dtype=float64)
        if self.estimator in ("algorithm2", "least_squares"):
            return SampleExplanation(value=empty, position_ls=empty)
        square = zeros((0, 0), dtype=float64)
        if self.estimator == "algorithm1":
            return SampleExplanation(value=empty, position=empty, matrix=square)
        return SampleExplanation(empty, empty, empty, square, empty, empty, square)
