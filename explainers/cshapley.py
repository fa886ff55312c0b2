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

DIRECT, REGRESSION = ("order", "weights", "outside"), ("max_size",)


class CShapley(GraphExplainer):
    """C-Shapley (Chen et al. 2019): marginal contributions to connected subsets, such as n-grams, of a graph.

    ``direct``: ``phi_i = sum_{U connected, i in U, U within N_k(i)} weight(U) [v(U) - v(U without i)]``, where U
    without i is one coalition even if it falls apart. ``regression``: KernelSHAP's constrained least squares whose rows
    are the n-grams of a line, the square patches of a grid, the connected subsets of any other graph. Nothing is
    drawn; where a ``budget`` is given, the larger subsets that do not fit are left out.

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
        told = [
            said for said in (self.form, self.weights, self.outside) if said not in ("direct", "boundary", "ablate")
        ]
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
            return regression(game, sample, *self._rows(game.n))
        marginals = self._marginals(game.n, self.budget, game.n)
        return SampleExplanation(marginals.value(game, sample), audit={"max_size": float(marginals.sizes[-1])})

    def _marginals(self, n: int, budget: int | None, max_size: int) -> Marginals:
        return direct_marginals(self.graph_of(n), self.order, self.weights, self.outside, budget, max_size)

    def _rows(self, n: int) -> tuple[np.ndarray, int]:
        return regression_rows(self.graph_of(n), self.max_size, self.budget)


def regression(game: Game, sample: int, rows: np.ndarray, max_size: int) -> SampleExplanation:
    """Return the least squares on ``rows`` with KernelSHAP's weights and the efficiency constraint."""
    n = game.n
    ends = torch.stack([torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)])
    empty, full = game.evaluate(sample, ends)
    # only ratios of weights matter, and mu(1) is the largest
    kernel = torch.from_numpy(np.exp(log_kernel(n) - log_kernel(n)[:1])).to(game.device)
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
