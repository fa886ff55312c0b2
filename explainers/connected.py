"""Which connected subsets C-Shapley evaluates: marginal contributions to them, or rows of a regression."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from explainers.game import Game
from explainers.graph_explainer import (
    MOST_COALITIONS,
    Outside,
    TooManyCoalitions,
    boundary_weight,
    coalition_blocks,
    packed,
)
from explainers.graphs import Graph, connected_subsets, neighbourhoods, players_of, square_patches
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

Weights = Literal["boundary", "paper"]


def paper_weight(size: int) -> float:
    """Return the paper's ``2 / ((u+2)(u+1)u)`` (Eq. 6), whatever the boundary is."""
    return 2 / ((size + 2) * (size + 1) * size)


@dataclass(frozen=True)
class Marginals:
    """Weighted marginal contributions of players, each to one coalition, and the coalitions that they need.

    Attributes:
        rows: the number of each coalition, in the order in which they came.
        players: (terms,) whose contribution a term is.
        joined: (terms,) the number of the coalition with the player.
        left: (terms,) the number of the coalition without.
        weights: (terms,) what the contribution is multiplied by.
        sizes: the sizes of connected subsets that were taken.
    """

    rows: dict[int, int] = field(default_factory=dict)
    players: array[int] = field(default_factory=lambda: array("i"))
    joined: array[int] = field(default_factory=lambda: array("i"))
    left: array[int] = field(default_factory=lambda: array("i"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    sizes: list[int] = field(default_factory=list)

    def add(self, player: int, coalition: int, weight: float) -> None:
        """Add the contribution of ``player`` to ``coalition``, which it is in."""
        self.players.append(player)
        self.joined.append(self.rows.setdefault(coalition, len(self.rows)))
        self.left.append(self.rows.setdefault(coalition & ~(1 << player), len(self.rows)))
        self.weights.append(weight)

    def cut(self, rows: int, terms: int) -> None:
        """Keep the first ``rows`` coalitions and the first ``terms`` terms."""
        for coalition in list(self.rows)[rows:]:
            del self.rows[coalition]
        for column in (self.players, self.joined, self.left, self.weights):
            del column[terms:]

    def value(self, game: Game, sample: int) -> torch.Tensor:
        """Evaluate each coalition once and return the (n,) sums."""
        blocks = coalition_blocks(packed(list(self.rows), game.n), game.n)
        outputs = torch.cat([game.evaluate(sample, kept) for kept in blocks]).cpu().numpy()
        terms = np.array(self.weights) * (outputs[np.array(self.joined)] - outputs[np.array(self.left)])
        return torch.from_numpy(np.bincount(np.array(self.players), weights=terms, minlength=game.n))


@lru_cache(maxsize=4)
def direct_marginals(
    graph: Graph, order: int, weights: Weights, outside: Outside, budget: int | None, max_size: int
) -> Marginals:
    """Return the terms of the direct form, by connected subsets of 1, 2, ... players.

    Args:
        graph: who is whose neighbour.
        order: k of the neighbourhoods.
        weights: how a connected subset weighs.
        outside: what the players beyond a neighbourhood are.
        budget: at most so many coalitions: the first size that does not fit, and all above, are left out.
        max_size: at most so many players a subset.

    Raises:
        TooManyCoalitions: there are more than this project keeps.
    """
    near = neighbourhoods(graph, order)
    beyond = [0 if outside == "ablate" else (1 << graph.n) - 1 & ~around for around in near]
    found = Marginals()
    for size, parts in groupby(connected_subsets(graph, near), key=lambda part: part.players.bit_count()):
        if size > max_size:
            break
        whole = len(found.rows), len(found.players)
        for part in parts:
            weight = paper_weight(size) if weights == "paper" else boundary_weight(size, part.boundary.bit_count())
            for i in players_of(part.centres):
                found.add(i, part.players | beyond[i], weight)
            if len(found.rows) > MOST_COALITIONS:
                raise TooManyCoalitions("cshapley", graph.n, "lower order, set a budget, or take form: regression")
            if budget is not None and len(found.rows) > budget:
                found.cut(*whole)
                return found
        found.sizes.append(size)
    return found


@lru_cache(maxsize=4)
def regression_rows(graph: Graph, max_size: int, budget: int | None) -> tuple[np.ndarray, int]:
    """Return the packed rows of the regression, the full coalition left out, and the largest size among them.

    Args:
        graph: who is whose neighbour.
        max_size: the longest n-gram, or the side of the largest patch of a grid.
        budget: at most so many rows and two more: the first size that does not fit, and all above, are left out.

    Raises:
        TooManyCoalitions: there are more than this project keeps.
        ValueError: a grid of one row or column, which has no square patch.
    """
    rows: list[int] = []
    largest = 0
    most = MOST_COALITIONS if budget is None else min(budget - 2, MOST_COALITIONS)
    for size, sized in groupby(sized_subsets(graph), key=lambda pair: pair[0]):
        if size > max_size:
            break
        more = list(islice((subset for _, subset in sized if subset.bit_count() < graph.n), most - len(rows) + 1))
        if len(rows) + len(more) > MOST_COALITIONS:
            raise TooManyCoalitions("cshapley", graph.n, "lower max_size, or set a smaller budget")
        if len(rows) + len(more) > most:
            break
        rows += more
        largest = size
    return packed(rows, graph.n), largest


def sized_subsets(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield (size, subset), small ones first: a grid's square patches by side, else connected subsets by players."""
    if graph.shape is None:
        everywhere = neighbourhoods(graph, graph.n)
        return ((part.players.bit_count(), part.players) for part in connected_subsets(graph, everywhere))
    if min(graph.shape) == 1 and graph.n > 1:
        raise ValueError(f"shape is {list(graph.shape)}, and no square patch has a side of 2 there; take graph: line")
    return square_patches(*graph.shape)
