"""The Myerson value: the Shapley value of the game in which only connected players act together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import SampleExplanation
from explainers.game import Game
from explainers.graph_explainer import (
    BLOCK_ENTRIES,
    MOST_COALITIONS,
    GraphExplainer,
    TooManyCoalitions,
    boundary_weight,
    packed,
    unpacked,
)
from explainers.graphs import ConnectedSubset, Graph, connected_subsets, neighbourhoods
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class Myerson(GraphExplainer):
    """The Myerson value (Myerson 1977), exact: the Shapley value of the sum over a coalition's connected components.

    ``v_G(S) = v(empty) + sum over the components C of S of [v(C) - v(empty)]``. Only connected subsets are evaluated,
    and the empty one: n (n + 1) / 2 + 1 on a line, up to 2^n elsewhere. Efficient on each component of the graph.

    Source: "L-Shapley and C-Shapley", section 4.2, after Myerson 1977, "Graphs and Cooperation in Games".
    """

    name: ClassVar[str] = "myerson"

    budget: int = Field(20_000, ge=1, title="Budget", description="Samples that need more evaluations are refused.")

    def least_budget(self, n: int) -> int:
        """Return the number of connected subsets and the empty one; counting ends where there are too many."""
        return 1 + sum(1 for _ in islice(every_connected_subset(self.graph_of(n)), MOST_COALITIONS))

    def check(self, n: int) -> None:
        """Raise ValueError where the graph does not fit ``n`` players, or has too many connected subsets."""
        if self.least_budget(n) > MOST_COALITIONS:
            raise TooManyCoalitions(self.name, n, "it is exact only: take cshapley or lshapley")
        super().check(n)

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Evaluate each connected subset once and add up; nothing is drawn.

        A connected set C counts for its player i when i joins the others of C and none of its boundary is there:
        chance ``(u-1)! b! / (u+b)!``. It counts against i of its boundary when i joins all of C and none of
        the rest of the boundary is there: chance ``u! (b-1)! / (u+b)!``.
        """
        n = game.n
        empty = float(game.evaluate(sample, torch.zeros((1, n), dtype=torch.bool))[0])
        value, worth = np.zeros(n), 0.0
        subsets = every_connected_subset(self.graph_of(n))
        while block := list(islice(subsets, max(1, BLOCK_ENTRIES // n))):
            inside = unpacked(packed([part.players for part in block], n), n)
            around = unpacked(packed([part.boundary for part in block], n), n)
            gains = game.evaluate(sample, torch.from_numpy(inside)).cpu().numpy() - empty
            sizes = zip(inside.sum(1).tolist(), around.sum(1).tolist(), strict=True)
            chances = np.array([(boundary_weight(u, b), boundary_weight(u + 1, b - 1) if b else 0.0) for u, b in sizes])
            value += (gains * chances[:, 0]) @ inside - (gains * chances[:, 1]) @ around
            worth += float(gains[~around.any(1)].sum())
        return SampleExplanation(torch.from_numpy(value), audit={"efficiency_gap": float(value.sum()) - worth})


def every_connected_subset(graph: Graph) -> Iterator[ConnectedSubset]:
    """Yield every connected subset, small ones first."""
    return connected_subsets(graph, neighbourhoods(graph, graph.n))
