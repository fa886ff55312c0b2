"""What the values on graphs share: the options that name a graph, weights, and coalitions in bounded blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from explainers.base import Explainer
from explainers.graphs import NAMED, Graph, Matrix, adjacency_matrix, graph_of_matrix, grid, line
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

BLOCK_ENTRIES = 1 << 20
MOST_COALITIONS = 1 << 18
Outside = Literal["ablate", "keep"]


class GraphExplainer(Explainer):
    """A method that knows who is whose neighbour; a line fits every sample, any other graph those of its size."""

    graph: Literal["line", "grid"] | Matrix = Field(
        "line", title="Graph", description="line, grid, or an adjacency matrix: n rows of n entries 0 or 1."
    )
    shape: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(
        None, title="Grid shape", description="[rows, columns] (grid only); players run row by row."
    )

    @field_validator("graph", mode="before")
    @classmethod
    def _named_or_matrix(cls, graph: Any) -> Any:
        return graph if isinstance(graph, str) and graph in NAMED else adjacency_matrix(graph)

    @model_validator(mode="after")
    def _shape_of_grid(self) -> Self:
        if self.graph == "grid" and self.shape is None:
            raise ValueError("graph grid needs its shape; give shape: [rows, columns]")
        if self.graph != "grid" and self.shape is not None:
            raise ValueError(
                f"shape is {list(self.shape)}, and the graph is no grid; leave shape out or take graph: grid"
            )
        return self

    def graph_of(self, n: int) -> Graph:
        """Return the graph of ``n`` players.

        Raises:
            ValueError: the grid or the matrix is of another size.
        """
        if self.graph == "line":
            return line(n)
        if self.shape is not None:
            size, what = self.shape[0] * self.shape[1], f"shape is {list(self.shape)}"
        else:
            size, what = len(self.graph), f"the adjacency matrix is {len(self.graph)} x {len(self.graph)}"
        if size != n:
            raise ValueError(
                f"{self.label()}: {what}, which makes {size} players, and a sample has {n} players; "
                "give the graph of the samples, or graph: line"
            )
        return grid(*self.shape) if self.shape is not None else graph_of_matrix(self.graph)  # type: ignore[arg-type]

    def check(self, n: int) -> None:
        """Raise ValueError where the graph is of another size, or the budget is too small for ``n`` players."""
        self.graph_of(n)
        super().check(n)


class TooManyCoalitions(ValueError):
    """More coalitions than are kept at a time."""

    def __init__(self, name: str, n: int, advice: str) -> None:
        super().__init__(f"{name}: this graph of {n} players needs more than {MOST_COALITIONS:,} evaluations; {advice}")


def boundary_weight(size: int, boundary: int) -> float:
    """Return ``(u-1)! b! / (u+b)!``: the chance that in a random order u given players come before b others, i last.

    With u the players of a connected set and b those of its boundary, it is the chance that the set is i's component
    when i joins. Computed in logarithms.

    >>> [round(1 / boundary_weight(3, b)) for b in (0, 1, 2)]  # b = 2 is the paper's 2 / ((u+2)(u+1)u)
    [3, 12, 30]
    """
    return math.exp(math.lgamma(size) + math.lgamma(boundary + 1) - math.lgamma(size + boundary + 1))


def packed(subsets: Sequence[int], n: int) -> np.ndarray:
    """Return sets of players as (subsets, ceil(n / 8)) bytes, lowest bit first."""
    width = (n + 7) // 8
    together = b"".join(subset.to_bytes(width, "little") for subset in subsets)
    return np.frombuffer(together, dtype=np.uint8).reshape(-1, width)


def unpacked(rows: np.ndarray, n: int) -> np.ndarray:
    """Return (rows, n) boolean from packed rows."""
    return np.unpackbits(rows, axis=1, count=n, bitorder="little").astype(bool)


def coalition_blocks(rows: np.ndarray, n: int) -> Iterator[torch.Tensor]:
    """Yield packed rows as (rows, n) boolean coalitions, so many at a time that a block stays small."""
    size = max(1, BLOCK_ENTRIES // n)
    for start in range(0, len(rows), size):
        yield torch.from_numpy(unpacked(rows[start : start + size], n))
