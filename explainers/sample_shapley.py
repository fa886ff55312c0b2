"""SampleShapley: Strumbelj and Kononenko's sampling of random orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.designs import permutations, walk_coalitions
from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 22


class SampleShapley(Explainer):
    """SampleShapley (Strumbelj and Kononenko 2014): the mean marginal contribution over random orders; unbiased.

    Evaluations: ``2 + R (n - 1)`` for R whole orders. Efficiency holds up to rounding: every order telescopes.
    """

    name: ClassVar[str] = "sample_shapley"

    budget: int = Field(2000, ge=1, title="Budget", description="Model evaluations a sample.")

    def least_budget(self, n: int) -> int:
        """Return the cost of one order."""
        return n + 1

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Average the marginal contributions over as many whole orders as the budget pays for."""
        n = game.n
        ends = torch.stack([torch.zeros(n, dtype=torch.bool), torch.ones(n, dtype=torch.bool)])
        empty, full = game.evaluate(sample, ends)
        orders = (self.budget - 2) // (n - 1) if n > 1 else 1
        total = torch.zeros(n, dtype=torch.float64, device=game.device)
        block = max(1, BLOCK_ENTRIES // n**2)
        for start in range(0, orders, block):
            order = torch.from_numpy(permutations(rng, min(block, orders - start), n)).to(game.device)
            total.index_add_(0, order.reshape(-1), self._marginals(game, sample, order, empty, full).reshape(-1))
        value = total / orders
        return SampleExplanation(value, audit={"efficiency_gap": float(value.sum() - (full - empty))})

    @staticmethod
    def _marginals(
        game: Game, sample: int, order: torch.Tensor, empty: torch.Tensor, full: torch.Tensor
    ) -> torch.Tensor:
        """Return (orders, n): what each player in turn adds to its predecessors."""
        count, n = order.shape
        inner = walk_coalitions(order)[:, 1:n]
        outputs = game.evaluate(sample, inner.reshape(-1, n)).view(count, n - 1)
        path = torch.cat([empty.expand(count, 1), outputs, full.expand(count, 1)], dim=1)
        return path[:, 1:] - path[:, :-1]
