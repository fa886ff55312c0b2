"""L-Shapley: the Shapley value within each player's neighbourhood on a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import SampleExplanation
from explainers.game import Game
from explainers.graph_explainer import BLOCK_ENTRIES, GraphExplainer, Outside
from explainers.graphs import neighbourhoods
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

MOST_NEIGHBOURS = 20


class LShapley(GraphExplainer):
    """L-Shapley (Chen et al. 2019): each player's Shapley value among its neighbours on a line, grid or other graph.

    ``phi_i = 1/|N_k(i)| sum_{T containing i, T within N_k(i)} [v(T) - v(T without i)] / C(|N_k(i)|-1, |T|-1)``, with
    the players outside ``N_k(i)`` ablated (the paper) or kept (its authors' code). Each distinct subset is evaluated
    once, whatever the number of neighbourhoods it lies in. The Shapley value where ``order`` reaches everybody.

    Source: "L-Shapley and C-Shapley", section 3.1.
    """

    name: ClassVar[str] = "lshapley"

    order: int = Field(1, ge=1, title="Order k", description="Neighbours are within graph distance k.")
    outside: Outside = Field("ablate", title="Outside", description="What the players beyond the neighbourhood are.")

    def label(self) -> str:
        """Return the name, with what differs from the paper."""
        return self.name if self.outside == "ablate" else f"{self.name}_{self.outside}"

    def check(self, n: int) -> None:
        """Raise ValueError where the graph is of another size, or a neighbourhood has too many players."""
        super().check(n)
        most = max((near.bit_count() for near in neighbourhoods(self.graph_of(n), self.order)), default=0)
        if most > MOST_NEIGHBOURS:
            raise ValueError(
                f"{self.label()}: order is {self.order}, and among {n} players a neighbourhood has {most}, so 2^{most} "
                f"subsets; lower order until it has at most {MOST_NEIGHBOURS}, or take cshapley"
            )

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Add up the marginal contributions block by block; nothing is drawn."""
        near = neighbourhoods(self.graph_of(game.n), self.order)
        inside = np.array([[i >> j & 1 for j in range(game.n)] for i in near], dtype=bool)
        value = np.zeros(game.n)
        for subsets in subsets_of_neighbourhoods(inside, max(1, BLOCK_ENTRIES // game.n)):
            kept = subsets if self.outside == "ablate" else ~subsets
            outputs = game.evaluate(sample, torch.from_numpy(kept)).cpu().numpy()
            value += outputs @ coefficients(subsets, inside, self.outside)
        return SampleExplanation(torch.from_numpy(value))


def subsets_of_neighbourhoods(inside: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yield every subset of every neighbourhood, each once, in blocks (about ``rows``, n) boolean.

    A subset belongs to the first player in whose neighbourhood it lies, so that none need be remembered.

    Args:
        inside: (n, n) boolean, the neighbourhood of each player.
        rows: a block is complete when it has so many.
    """
    n = len(inside)
    waiting: list[np.ndarray] = []
    for i in range(n):
        members = np.flatnonzero(inside[i])
        for start in range(0, 2 ** len(members), rows):
            codes = np.arange(start, min(start + rows, 2 ** len(members)))
            chosen = (codes[:, None] >> np.arange(len(members)) & 1).astype(bool)
            mine = lies_within(chosen, inside[: i + 1, members]).argmax(1) == i
            subsets = np.zeros((int(mine.sum()), n), dtype=bool)
            subsets[:, members] = chosen[mine]
            waiting.append(subsets)
            if sum(map(len, waiting)) >= rows:
                yield np.concatenate(waiting)
                waiting = []
    if waiting:
        yield np.concatenate(waiting)


def lies_within(subsets: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return (rows, players) boolean: whether each subset (rows, m) lies in each neighbourhood (players, m)."""
    return subsets.astype(np.float32) @ (~inside).T.astype(np.float32) == 0


def coefficients(subsets: np.ndarray, inside: np.ndarray, outside: Outside) -> np.ndarray:
    """Return (rows, n): what the output of each subset counts in each player's value.

    With T the kept part of ``N_k(i)`` it is the Shapley weight of size |T| if T has i; if not, T completes
    T with i, and it is minus the weight of size |T| + 1. Where the outside is kept, ``subsets`` holds what is ablated.
    """
    sizes = inside.sum(1)
    subset_sizes = subsets.sum(1)[:, None]
    present = subsets if outside == "ablate" else ~subsets
    joined = np.where(present, 0, 1) + (subset_sizes if outside == "ablate" else sizes - subset_sizes)
    weights = np.zeros((len(sizes), int(sizes.max()) + 2))
    for i, size in enumerate(sizes.tolist()):
        weights[i, 1 : size + 1] = [1 / (size * math.comb(size - 1, t - 1)) for t in range(1, size + 1)]
    signed = np.where(present, 1.0, -1.0) * weights[np.arange(len(sizes)), np.clip(joined, 0, weights.shape[1] - 1)]
    return np.where(lies_within(subsets, inside), signed, 0.0)
