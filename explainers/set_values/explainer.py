"""What joint Shapley values and the interaction indices share: options, and which estimator runs."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.game import Game
from explainers.lazy import Lazy
from explainers.set_values.exact import exact
from explainers.set_values.shared import shared
from explainers.set_values.sizes import least_shared
from explainers.set_values.table import empty_set_table, set_table
from explainers.set_values.targets import Estimates, Members, SetIndex, all_sets, direct_count

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BYTES_PER_COALITION = 16  # the worths, and one weighted copy of them
BYTES_PER_SET = 256  # a row of the table, and the arrays behind it
MOST_SETS = 1 << 23


class SetExplainer(Explainer):
    """A method that gives a value to every set of at most ``order`` players."""

    order: int = Field(2, ge=1, title="Order", description="k: the most players of a set.")
    estimator: Literal["auto", "exact", "sampled"] = Field(
        "auto", title="Estimator", description="auto: exact where the budget holds all coalitions, else sampled."
    )
    budget: int = Field(
        2000, ge=1, title="Budget", description="Model evaluations a sample; exact takes what it needs."
    )
    max_players: int = Field(
        26, ge=1, title="Most players", description="exact refuses longer samples: 16 bytes times 2^n."
    )

    fewer_sets: ClassVar[str] = "lower order"

    @abstractmethod
    def weights(self, n: int, order: int) -> SetIndex:
        """Return the weights for ``n`` players and sets of at most ``order``."""

    def set_index(self, n: int) -> SetIndex:
        """Return the weights for a sample of ``n`` players: a default order is cut to them."""
        return self.weights(n, min(self.order, n))

    def is_exact(self, n: int) -> bool:
        """Return whether every coalition of ``n`` players is evaluated."""
        affordable = n <= self.max_players and 2**n <= self.budget
        return self.estimator == "exact" or (affordable and (self.estimator == "auto" or self.asks_for_all()))

    def asks_for_all(self) -> bool:
        """Return whether all sets up to the order are asked for; nothing is drawn where the budget holds everything."""
        return True

    def check(self, n: int) -> None:
        """Raise ValueError where order, size or budget do not fit a sample of ``n`` players."""
        if n == 0:
            return
        if "order" in self.model_fields_set and self.order > n:
            raise ValueError(
                f"{self.label()}: order is {self.order}, and no set of a sample of {n} players is so large; "
                f"lower order to {n}, or leave it out to take the default, cut to the sample"
            )
        if self.is_exact(n) and n > self.max_players:
            raise ValueError(
                f"{self.label()} on {n} players needs 2^{n} evaluations and {in_bytes(BYTES_PER_COALITION * 2**n)}, "
                f"and max_players is {self.max_players}; take estimator sampled, or raise max_players"
            )
        if self.set_count(n) > MOST_SETS:
            raise ValueError(
                f"{self.label()}: a sample of {n} players has {self.set_count(n):,} sets of up to {self.order}, which "
                f"take {in_bytes(BYTES_PER_SET * self.set_count(n))}, and the most are {MOST_SETS:,}; {self.fewer_sets}"
            )
        super().check(n)

    def set_count(self, n: int) -> int:
        """Return how many sets a sample of ``n`` players has in the table."""
        return sum(math.comb(n, t) for t in range(1, min(self.order, n) + 1))

    def least_budget(self, n: int) -> int:
        """Return all coalitions for ``exact``; the border sizes and two pairs, or all coalitions, for the others."""
        if n == 0 or (self.estimator == "exact" and "budget" not in self.model_fields_set):
            return 1
        if self.estimator == "exact":
            return 2**n
        least = self.least_sampled(self.set_index(n))
        return min(2**n, least) if self.estimator == "auto" or self.asks_for_all() else least

    def least_sampled(self, index: SetIndex) -> int:
        """Return the fewest evaluations of a sampled explanation."""
        sizes = range(1, index.order + 1)
        return least_shared(index, sizes) + direct_count(index, sizes)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Explain one sample: exactly, or from ``budget`` evaluations."""
        index = self.set_index(game.n)
        if self.is_exact(game.n):
            return self.explain_exactly(game, sample, index)
        return self.explain_by_draws(game, sample, rng, index)

    def explain_exactly(self, game: Game, sample: int, index: SetIndex) -> SampleExplanation:
        """Explain by evaluating every coalition."""
        targets = all_sets(index.n, index.order)
        return told(index, targets, exact(game, sample, index, targets))

    def explain_by_draws(self, game: Game, sample: int, rng: np.random.Generator, index: SetIndex) -> SampleExplanation:
        """Explain from at most ``budget`` evaluations."""
        targets = all_sets(index.n, index.order)
        return told(index, targets, shared(game, sample, rng, index, targets, self.budget))

    def explain_nothing(self) -> SampleExplanation:
        """Return empty importances and an empty table."""
        empty = torch.zeros(0, dtype=torch.float64)
        return SampleExplanation(value=empty, value_stderr=empty, sets=empty_set_table())


def told(index: SetIndex, targets: Members, found: Estimates, singles: np.ndarray | None = None) -> SampleExplanation:
    """Return what was found: the table of ``targets``, and the single players' values (n,) with standard errors.

    Without ``singles``, exact values of all players, they are taken from the sets of one player, NaN for those that
    were not asked for.
    """
    sets = [tuple(row) for members in targets.values() for row in members.tolist()]
    value, stderr = (np.concatenate([column[t] for t in targets]) for column in (found.value, found.stderr))
    errors = np.zeros(index.n)
    if singles is None:
        singles, errors = np.full(index.n, np.nan), np.full(index.n, np.nan)
        if 1 in targets:
            players = targets[1][:, 0]
            singles[players], errors[players] = found.value[1], found.stderr[1]
    audit = {"empty_value": found.empty, "replicates": float(found.replicates)}
    every = len(sets) == sum(math.comb(index.n, t) for t in range(1, index.order + 1))
    if index.efficient and every and found.full is not None:
        audit["joint_efficiency_gap"] = float(value.sum() - found.full)
    return SampleExplanation(
        torch.from_numpy(singles),
        value_stderr=torch.from_numpy(errors),
        sets=set_table(sets, value, stderr),
        audit=audit,
    )


def in_bytes(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1 << 60:
        return f"{count:,} bytes ({count / (1 << 30):.3g} GiB)"
    return f"about 2^{count.bit_length() - 1} bytes"
