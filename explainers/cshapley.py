"""C-Shapley: marginal contributions to connected subsets of each player's neighbourhood on a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from explainers.base import SampleExplanation
from explainers.connected import Marginals, Weights, direct_marginals, regression_rows
from explainers.designs import log_kernel
from explainers.game import Game
from explainers.graph_explainer import GraphExplainer, Outside, coalition_blocks
from explainers.lazy import Lazy
from explainers.solve import NormalEquations

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

DIRECT, REGRESSION = ("order", "weights", "outside"), ("max_size", "row_weights")

RowWeights = Literal["size", "kernel"]


class CShapley(GraphExplainer):
    """C-Shapley (Chen et al. 2019): marginal contributions to connected subsets, such as n-grams, of a graph.

    ``direct``: ``phi_i = sum_{U connected, i in U, U within N_k(i)} weight(U) [v(U) - v(U without i)]``, where U
    without i is one coalition even if it falls apart. ``regression``: KernelSHAP's constrained least squares whose rows
    are the n-grams of a line, the square patches of a grid, the connected subsets of any other graph; the rows of one
    size share the weight that all coalitions of that size have there, as drawn rows do. Nothing is drawn; where a
    ``budget`` is given, the larger subsets that do not fit are left out.

    Source: "L-Shapley and C-Shapley", section 3.2 (direct), sections 4.3.2 and 5 (regression).
    """

    name: ClassVar[str] = "cshapley"

    form: Literal["direct", "regression"] = Field(
        "direct", title="Form", description="A weighted sum, or least squares."
    )
    order: int = Field(4, ge=1, title="Order k", description="Neighbours are within graph distance k (direct only).")
    weights: Weights = Field(
        "boundary", title="Weights", description="The Myerson value's or the paper's (direct only)."
    )
    outside: Outside = Field("ablate", title="Outside", description="Players beyond the neighbourhood (direct only).")
    max_size: int = Field(
        4, ge=2, title="Longest n-gram", description="On a grid the side of the largest patch (regression only)."
    )
    row_weights: RowWeights = Field(
        "size",
        title="Row weights",
        description="size: the rows of a size share KernelSHAP's weight of that size; kernel: as printed (regression "
        "only).",
    )
    budget: int | None = Field(None, ge=1, title="Budget", description="Model evaluations a sample; none: as needed.")

    @model_validator(mode="after")
    def _belongs(self) -> Self:
        for option in REGRESSION if self.form == "direct" else DIRECT:
            if option in self.model_fields_set:
                owner = "regression" if self.form == "direct" else "direct"
                raise ValueError(f"option {option!r} belongs to form {owner!r}, not {self.form!r}; leave it out")
        return self

    def label(self) -> str:
        """Return the name, with what is not the default."""
        chosen = (self.form, self.weights, self.outside, self.row_weights)
        told = [said for said in chosen if said not in ("direct", "boundary", "ablate", "size")]
        return "_".join([self.name, *told])

    def least_budget(self, n: int) -> int:
        """Return the cost with subsets of at most two players (on a grid, by regression, patches of side 2)."""
        if n == 0:
            return 1
        if self.form == "regression":
            return 2 + len(regression_rows(self.graph_of(n), 2, None)[0])
        return len(self._marginals(n, None, 2).rows)

    def check(self, n: int) -> None:
        """Raise ValueError where graph or budget do not fit ``n`` players, or too many coalitions are needed."""
        super().check(n)
        if n > 0 and self.form == "regression":
            self._rows(n)
        elif n > 0:
            self._marginals(n, self.budget, n)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Evaluate each coalition once, then sum or solve; nothing is drawn."""
        if self.form == "regression":
            return regression(game, sample, *self._rows(game.n), self.row_weights)
        marginals = self._marginals(game.n, self.budget, game.n)
        return SampleExplanation(marginals.value(game, sample), audit={"max_size": float(marginals.sizes[-1])})

    def _marginals(self, n: int, budget: int | None, max_size: int) -> Marginals:
        return direct_marginals(self.graph_of(n), self.order, self.weights, self.outside, budget, max_size)

    def _rows(self, n: int) -> tuple[np.ndarray, int]:
        return regression_rows(self.graph_of(n), self.max_size, self.budget)


def regression(game: Game, sample: int, rows: np.ndarray, max_size: int, row_weights: RowWeights) -> SampleExplanation:
    """Return the least squares on ``rows`` with KernelSHAP's weights and the efficiency constraint."""
    n = game.n
    ends = torch.stack([torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)])
    empty, full = game.evaluate(sample, ends)
    kernel = torch.from_numpy(weight_of_size(rows, n, row_weights)).to(game.device)
    equations = NormalEquations(n, game.device)
    for kept in coalition_blocks(rows, n):
        inside = kept.to(game.device)
        equations.add(inside.double(), game.evaluate(sample, kept) - empty, kernel[inside.sum(1) - 1])
    solution = equations.solve_with_sum(n, full - empty)
    audit = {
        "efficiency_gap": float(solution.coefficients.sum() - (full - empty)),
        "coalitions": float(len(rows)),
        "max_size": float(max_size),
        "rank": float(solution.rank),
        "condition": solution.condition,
        "rank_short": float(solution.rank < n),
    }
    return SampleExplanation(solution.coefficients, audit=audit)


def weight_of_size(rows: np.ndarray, n: int, row_weights: RowWeights) -> np.ndarray:
    """Return the weight of a row of each size 1..n-1, (n-1,); only their ratios matter.

    ``kernel`` is KernelSHAP's ``(n-1) / (C(n, s) s (n-s))``. ``size`` gives the rows of a size together what all
    ``C(n, s)`` coalitions of that size have there, ``(n-1) / (s (n-s))``; where all of them are rows the two agree.
    """
    if row_weights == "kernel":
        return np.exp(log_kernel(n) - log_kernel(n)[:1])  # mu(1) is the largest
    sizes = np.arange(1, n)
    counts = np.zeros(n + 1)
    for kept in coalition_blocks(rows, n):
        counts += np.bincount(kept.sum(1).numpy(), minlength=n + 1)
    return (n - 1) / (sizes * (n - sizes)) / np.maximum(counts[1:n], 1)
