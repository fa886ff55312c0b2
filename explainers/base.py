"""What every explainer is: options that are checked, and an explanation of each sample of a game."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from explainers.game import Game
from explainers.lazy import Lazy
from explainers.set_values.table import stack_sets
from explainers.streams import stream

if TYPE_CHECKING:
    import pandas as pd
    import torch
else:
    torch = Lazy("torch")


@dataclass(frozen=True)
class SampleExplanation:
    """The explanation of one sample with n players; float64, on any device.

    Attributes:
        value: (n,) value importance, Shapley value, or the method's attribution.
        position: (n,) position importance as the slope of gamma; None where a method has none.
        position_ls: (n,) beta of Eq. 11; None where a method has none.
        matrix: (n, n) gamma, players x slots; None where a method has none.
        value_stderr: (n,) standard errors; None where a method estimates none, NaN where the budget did not reach.
        position_stderr: (n,) the same of the position importance.
        matrix_stderr: (n, n) the same of gamma.
        audit: named numbers about this estimate (gaps, ranks, empty cells).
        sets: table of ``set`` (tuple of 0-based players), ``value``, ``stderr``; None where a method has none.
    """

    value: torch.Tensor
    position: torch.Tensor | None = None
    position_ls: torch.Tensor | None = None
    matrix: torch.Tensor | None = None
    value_stderr: torch.Tensor | None = None
    position_stderr: torch.Tensor | None = None
    matrix_stderr: torch.Tensor | None = None
    audit: Mapping[str, float] = field(default_factory=dict)
    sets: pd.DataFrame | None = None


@dataclass(frozen=True)
class Explanation:
    """The explanation of b samples with n players each; float64 on the CPU.

    Attributes:
        value: (b, n) value importance, Shapley value, or the method's attribution.
        position: (b, n) position importance, the slope of gamma (Eq. 10), per slot; None where a method has none.
        position_ls: (b, n) beta of Eq. 11; None where a method has none.
        matrix: (b, n, n) gamma (Eq. 8), players x slots; None where a method has none.
        evaluations: (b,) black-box evaluations spent on each sample.
        audit: one mapping of named numbers a sample.
        value_stderr: (b, n) standard errors of each sample's estimate (not of a mean over samples); None where a
            method estimates none, NaN where the budget did not reach to one.
        position_stderr: (b, n) the same of the position importance.
        matrix_stderr: (b, n, n) the same of gamma.
        sets: tidy table of ``sample``, ``set`` (tuple of 0-based players), ``value``, ``stderr`` (0 where exact); None
            where a method has none.
    """

    value: torch.Tensor
    position: torch.Tensor | None
    position_ls: torch.Tensor | None
    matrix: torch.Tensor | None
    evaluations: torch.Tensor
    audit: tuple[Mapping[str, float], ...]
    value_stderr: torch.Tensor | None = None
    position_stderr: torch.Tensor | None = None
    matrix_stderr: torch.Tensor | None = None
    sets: pd.DataFrame | None = None


class Explainer(BaseModel, ABC):
    """One way of explaining; subclasses are found by name, their fields are their options.

    A subclass sets ``name`` and writes :meth:`explain_sample`. Its first docstring line is for ``ordeval list``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    needs_gradient: ClassVar[bool] = False

    def explain(self, game: Game, seed: int = 0) -> Explanation:
        """Explain every sample of ``game``.

        A sample's draws come from a stream of its own, named by (seed, method, sample).

        Raises:
            ValueError: the budget is smaller than the method can use at this n, or the game lacks what it needs.
        """
        self.check(game.n)
        parts: list[SampleExplanation] = []
        evaluations: list[int] = []
        for sample in range(game.size):
            before = game.spent[sample]
            if game.n == 0:
                parts.append(self.explain_nothing())
            else:
                with game.remembering(sample):
                    parts.append(self.explain_sample(game, sample, stream(seed, self.name, game.keys[sample])))
            evaluations.append(game.spent[sample] - before)
        return stack(parts, evaluations, game.n)

    @abstractmethod
    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Explain one sample with at least one player."""

    def explain_nothing(self) -> SampleExplanation:
        """Return the explanation of a sample without players: empty, no evaluation."""
        return SampleExplanation(value=torch.zeros(0, dtype=torch.float64))

    def check(self, n: int) -> None:
        """Raise ValueError where the options cannot serve a sample of ``n`` players."""
        least = self.least_budget(n)
        budget = getattr(self, "budget", None)
        if budget is not None and n > 0 and budget < least:
            raise ValueError(
                f"{self.label()}: budget is {budget} evaluations, and a sample of {n} players needs at least {least}; "
                f"raise budget to {least} or more"
            )

    def least_budget(self, n: int) -> int:
        """Return the smallest number of evaluations that this method can use on ``n`` players."""
        return 1

    def label(self) -> str:
        """Return a short name that tells this method from another with other options."""
        return self.name


def stack(parts: list[SampleExplanation], evaluations: list[int], n: int) -> Explanation:
    """Stack samples' explanations into (b, ...) float64 CPU tensors."""

    def column(name: str, shape: tuple[int, ...]) -> torch.Tensor | None:
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            return None
        rows = [value.detach().to("cpu", torch.float64) for value in values]
        return torch.stack(rows) if rows else torch.zeros((0, *shape), dtype=torch.float64)

    value = column("value", (n,))
    assert value is not None
    return Explanation(
        value=value,
        position=column("position", (n,)),
        position_ls=column("position_ls", (n,)),
        matrix=column("matrix", (n, n)),
        evaluations=torch.tensor(evaluations, dtype=torch.long),
        audit=tuple(part.audit for part in parts),
        value_stderr=column("value_stderr", (n,)),
        position_stderr=column("position_stderr", (n,)),
        matrix_stderr=column("matrix_stderr", (n, n)),
        sets=stack_sets([part.sets for part in parts]),
    )
