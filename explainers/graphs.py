"""Graphs of players: lines, grids and adjacency matrices, with their neighbourhoods and connected subsets.

A set of players is an ``int`` here, bit i for player i: sets are then hashable, and unions and intersections of
neighbourhoods take one operation, whatever n is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

NAMED = ("line", "grid")
Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Graph:
    """An undirected graph of players 0..n-1, connected or not.

    Attributes:
        adjacent: (n,) the set of each player's neighbours.
        shape: rows and columns of a grid, whose players run row by row; None for any other graph.
    """

    adjacent: tuple[int, ...]
    shape: tuple[int, int] | None = None

    @property
    def n(self) -> int:
        """Return the number of players."""
        return len(self.adjacent)


class ConnectedSubset(NamedTuple):
    """A connected set of players.

    Attributes:
        players: the set.
        centres: those of its players in whose neighbourhood all of it lies.
        boundary: the players outside it that are adjacent to it.
    """

    players: int
    centres: int
    boundary: int


def line(n: int) -> Graph:
    """Return the path of ``n`` players, edges between followers; no ring."""
    everyone = (1 << n) - 1
    return Graph(tuple((1 << i << 1 | 1 << i >> 1) & everyone for i in range(n)))


def grid(rows: int, columns: int) -> Graph:
    """Return the grid of ``rows x columns`` players, row by row, each beside those above, below, left and right."""

    def neighbours(row: int, column: int) -> int:
        beside = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        return sum(1 << r * columns + c for r, c in beside if 0 <= r < rows and 0 <= c < columns)

    return Graph(tuple(neighbours(row, column) for row in range(rows) for column in range(columns)), (rows, columns))


def graph_of_matrix(matrix: Matrix) -> Graph:
    """Return the graph of a checked adjacency matrix (n, n) of 0 and 1."""
    return Graph(tuple(sum(1 << j for j, there in enumerate(row) if there) for row in matrix))


def adjacency_matrix(graph: Any) -> Matrix:
    """Return the adjacency matrix (n, n) of 0 and 1 that ``graph`` stands for.

    Args:
        graph: nested sequences, an array or tensor, or a networkx graph whose nodes are 0..n-1.

    Raises:
        ValueError: it is not square, not symmetric, has other entries than 0 and 1, or a player is its own neighbour.
    """
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        graph = matrix_of_networkx(graph)
    rows = graph.tolist() if hasattr(graph, "tolist") else graph
    if not isinstance(rows, list | tuple) or not rows or not all(isinstance(row, list | tuple) for row in rows):
        raise ValueError(f"graph is {graph!r}; it is 'line', 'grid', or an adjacency matrix of n rows of n entries")
    n = len(rows)
    for i, row in enumerate(rows):
        if len(row) != n:
            raise ValueError(
                f"row {i} of the adjacency matrix has {len(row)} entries, and there are {n} rows; give n x n"
            )
        for j, entry in enumerate(row):
            if entry not in (0, 1):
                raise ValueError(f"entry [{i}][{j}] of the adjacency matrix is {entry!r}; give 0 or 1")
    for i in range(n):
        if rows[i][i]:
            raise ValueError(f"entry [{i}][{i}] of the adjacency matrix is 1; no player is its own neighbour, give 0")
        for j in range(i):
            if rows[i][j] != rows[j][i]:
                raise ValueError(
                    f"the adjacency matrix is not symmetric: [{j}][{i}] is {rows[j][i]!r} and [{i}][{j}] is "
                    f"{rows[i][j]!r}; give an undirected graph"
                )
    return tuple(tuple(int(entry) for entry in row) for row in rows)


def matrix_of_networkx(graph: Any) -> list[list[int]]:
    """Return the adjacency matrix of a networkx graph; weights and parallel edges do not matter.

    Raises:
        ValueError: its nodes are not 0..n-1, so that nobody knows which player is which.
    """
    n = len(graph.nodes)
    if set(graph.nodes) != set(range(n)):
        raise ValueError(
            f"the graph's nodes are {list(graph.nodes)[:5]!r}...; players are 0 to {n - 1}: rename the nodes, "
            "for example by networkx.convert_node_labels_to_integers"
        )
    rows = [[0] * n for _ in range(n)]
    for i, j in graph.edges():
        rows[i][j] = 1
        if not graph.is_directed():
            rows[j][i] = 1
    return rows


def players_of(subset: int) -> Iterator[int]:
    """Yield the players of a set, smallest first."""
    while subset:
        lowest = subset & -subset
        yield lowest.bit_length() - 1
        subset ^= lowest


def beside(graph: Graph, subset: int) -> int:
    """Return the boundary of a set: the players outside it that are adjacent to it."""
    around = 0
    for i in players_of(subset):
        around |= graph.adjacent[i]
    return around & ~subset


def neighbourhoods(graph: Graph, order: int) -> tuple[int, ...]:
    """Return ``N_k(i)`` of each player i: those within graph distance ``order``, itself among them.

    >>> neighbourhoods(line(4), 1) == (0b0011, 0b0111, 0b1110, 0b1100)
    True
    """
    found = []
    for i in range(graph.n):
        near = newest = 1 << i
        for _ in range(order):
            newest = beside(graph, newest) & ~near
            if not newest:
                break
            near |= newest
        found.append(near)
    return tuple(found)


def components(graph: Graph, subset: int) -> list[int]:
    """Return the connected components of a set of players."""
    found = []
    while subset:
        component = newest = subset & -subset
        while newest:
            newest = beside(graph, newest) & subset & ~component
            component |= newest
        found.append(component)
        subset &= ~component
    return found


def connected_subsets(graph: Graph, near: tuple[int, ...]) -> Iterator[ConnectedSubset]:
    """Yield each connected subset that lies in the neighbourhood of one of its players; once each, small ones first.

    Those of s + 1 players grow out of those of s: take any but the centre off a connected set so that it stays
    connected (a leaf of a spanning tree), and it still lies in the centre's neighbourhood. A caller who has enough
    stops; what is held is one size at a time.

    Args:
        graph: the graph.
        near: (n,) the neighbourhoods ``N_k(i)``.
    """
    level = {1 << i: (near[i], graph.adjacent[i]) for i in range(graph.n)}
    for subset, (common, boundary) in level.items():
        yield ConnectedSubset(subset, subset & common, boundary)
    while level:
        grown: dict[int, tuple[int, int]] = {}
        for subset, (common, boundary) in level.items():
            for j in players_of(boundary):
                bigger, shared = subset | 1 << j, common & near[j]
                if bigger in grown or not bigger & shared:
                    continue
                around = (boundary | graph.adjacent[j]) & ~bigger
                grown[bigger] = (shared, around)
                yield ConnectedSubset(bigger, bigger & shared, around)
        level = grown


def square_patches(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Yield (side, players) of every square patch of a grid, small ones first."""
    for side in range(1, min(rows, columns) + 1):
        bar = (1 << side) - 1
        corner = sum(bar << row * columns for row in range(side))
        for row in range(rows - side + 1):
            for column in range(columns - side + 1):
                yield side, corner << row * columns + column
