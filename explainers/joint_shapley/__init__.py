"""Joint Shapley values: what a set of players adds, on average, where it joins as one (Harris et al. 2022)."""

from __future__ import annotations

import math
from collections import Counter
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from explainers.base import SampleExplanation
from explainers.game import Game
from explainers.joint_shapley.differences import differences, least_differences
from explainers.joint_shapley.weights import joint_terms
from explainers.set_values.exact import exact
from explainers.set_values.explainer import SetExplainer, told
from explainers.set_values.shared import shared
from explainers.set_values.sizes import least_shared
from explainers.set_values.targets import Estimates, Members, SetIndex, all_sets, given_sets

Sets = tuple[tuple[int, ...], ...]


class JointShapley(SetExplainer):
    """Joint Shapley values of order k (Harris et al. 2022): what sets of up to k players add when they join as one.

    Source: Theorem 1 (the values), App. A (arrivals), section 4.2 (sampling).
    """

    name: ClassVar[str] = "joint_shapley"
    fewer_sets: ClassVar[str] = "give sets, or lower order"

    sets: Sets = Field((), title="Sets", description="Only these sets of players, counted from 0.")
    top_pairs: int | None = Field(
        None, ge=1, title="Top pairs", description="Only the single players and so many pairs, found by a first pass."
    )

    @field_validator("sets")
    @classmethod
    def _plain_sets(cls, sets: Sets) -> Sets:
        for members in sets:
            if not members or min(members) < 0:
                raise ValueError(f"set {members} has no player or a negative one; give players counted from 0")
            if len(set(members)) < len(members):
                raise ValueError(f"set {members} names a player twice; name each once")
        ordered = sorted((tuple(sorted(members)) for members in sets), key=lambda members: (len(members), members))
        for members, times in Counter(ordered).items():
            if times > 1:
                raise ValueError(f"set {members} is given {times} times; give each set once")
        return tuple(ordered)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.sets and len(self.sets[-1]) > self.order:
            raise ValueError(
                f"set {self.sets[-1]} has {len(self.sets[-1])} players and order is {self.order}; "
                f"raise order to {len(self.sets[-1])} or leave the set out"
            )
        if self.sets and self.top_pairs is not None:
            raise ValueError(f"sets and top_pairs={self.top_pairs} are both given; give one of them")
        if self.top_pairs is not None and self.order < 2:
            raise ValueError(f"top_pairs is {self.top_pairs} and order is {self.order}; raise order to 2 or more")
        return self

    def label(self) -> str:
        """Return ``joint_shapley``, with the estimator where it is not the default."""
        return self.name if self.estimator == "auto" else f"{self.name}_{self.estimator}"

    def weights(self, n: int, order: int) -> SetIndex:
        """Return the weights of Theorem 1."""
        return SetIndex(n, joint_terms(n, order), efficient=True)

    def check(self, n: int) -> None:
        """Raise ValueError where order, sets, size or budget do not fit a sample of ``n`` players."""
        for members in self.sets if n else ():
            if members[-1] >= n:
                raise ValueError(
                    f"{self.label()}: set {members} names player {members[-1]}, and a sample of {n} players has "
                    f"players 0 to {n - 1}; give sets of those"
                )
        super().check(n)

    def asks_for_all(self) -> bool:
        """Return whether neither ``sets`` nor ``top_pairs`` is given."""
        return not self.sets and self.top_pairs is None

    def set_count(self, n: int) -> int:
        """Return how many sets are estimated on ``n`` players."""
        if self.sets:
            return len(self.sets)
        return n + math.comb(n, 2) if self.top_pairs else super().set_count(n)

    def least_sampled(self, index: SetIndex) -> int:
        """Return the fewest evaluations of a sampled explanation."""
        if self.sets:
            return least_differences(len(self.sets))
        if self.top_pairs and index.order > 1:
            return least_shared(index, (1, 2)) + least_differences(self.pair_count(index.n))
        return super().least_sampled(index)

    def pair_count(self, n: int) -> int:
        """Return how many pairs are looked at closely: ``top_pairs``, or all where there are fewer."""
        return min(self.top_pairs or 0, math.comb(n, 2))

    def explain_exactly(self, game: Game, sample: int, index: SetIndex) -> SampleExplanation:
        """Evaluate every coalition; the single players' values cost nothing more, whatever sets are asked for."""
        if self.asks_for_all():
            return super().explain_exactly(game, sample, index)
        targets = all_sets(index.n, min(2, index.order))
        rows = {t: np.arange(len(members)) for t, members in targets.items()}
        if self.sets:
            given = given_sets(self.sets)
            targets = given | {1: targets[1]}
            rows = {t: given[1][:, 0] if t == 1 else np.arange(len(members)) for t, members in given.items()}
        found = exact(game, sample, index, targets)
        if self.top_pairs and index.order > 1:
            rows[2] = strongest(found.value[2], self.pair_count(index.n))
        return told(index, *picked(targets, found, rows), singles=found.value[1])

    def explain_by_draws(self, game: Game, sample: int, rng: np.random.Generator, index: SetIndex) -> SampleExplanation:
        """Explain all sets together, the given sets one by one, or the pairs that a first pass finds."""
        if self.sets:
            targets = given_sets(self.sets)
            return told(index, targets, differences(game, sample, rng, index, targets, self.budget))
        if self.top_pairs is None or index.order < 2:
            return super().explain_by_draws(game, sample, rng, index)
        return told(index, *self.two_passes(game, sample, rng, index))

    def two_passes(
        self, game: Game, sample: int, rng: np.random.Generator, index: SetIndex
    ) -> tuple[Members, Estimates]:
        """Find the strongest pairs with half of the budget; estimate them anew: the choice would bias them."""
        count = self.pair_count(index.n)
        half = min(max(self.budget // 2, least_shared(index, (1, 2))), self.budget - least_differences(count))
        targets = all_sets(index.n, 2)
        first = shared(game, sample, rng, index, targets, half)
        top = {1: targets[1], 2: targets[2][strongest(first.value[2], count)]}
        second = differences(game, sample, rng, index, {2: top[2]}, self.budget - half)
        value = {1: first.value[1], 2: second.value[2]}
        stderr = {1: first.stderr[1], 2: second.stderr[2]}
        return top, Estimates(value, stderr, first.empty, first.full, second.replicates)


def strongest(value: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the ``count`` largest magnitudes, ascending; the first come first among equals."""
    return np.sort(np.argsort(-np.abs(value), kind="stable")[:count])


def picked(targets: Members, found: Estimates, rows: dict[int, np.ndarray]) -> tuple[Members, Estimates]:
    """Return some of the sets, by their places within each size, and what was found about them."""
    value = {t: found.value[t][places] for t, places in rows.items()}
    stderr = {t: found.stderr[t][places] for t, places in rows.items()}
    chosen = {t: targets[t][places] for t, places in rows.items()}
    return chosen, Estimates(value, stderr, found.empty, found.full, found.replicates)
