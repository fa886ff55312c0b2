"""L-Shapley, C-Shapley and the Myerson value: against replicas that read the formulas literally, and by hand."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from explainers import Explanation, Game, get_explainer
from explainers import graph_explainer as shared
from explainers.connected import regression_rows
from explainers.graphs import adjacency_matrix, connected_subsets, grid, line, neighbourhoods, players_of
from explainers.lshapley import subsets_of_neighbourhoods
from tests.games import naive_shapley

Coalition = frozenset[int]
SetFunction = Callable[[Coalition], float]


def game_of(v: SetFunction, n: int) -> Game:
    """Return the game of a set function, which is asked once a coalition."""
    memory: dict[Coalition, float] = {}

    def values(kept: torch.Tensor) -> torch.Tensor:
        out = []
        for row in kept.numpy():
            coalition = frozenset(np.flatnonzero(row).tolist())
            if coalition not in memory:
                memory[coalition] = v(coalition)
            out.append(memory[coalition])
        return torch.tensor(out, dtype=torch.float64)

    return Game.from_set_function(values, n)


def random_function(seed: int) -> SetFunction:
    """Return an independent random number for every coalition, the empty one too."""
    return cache(lambda coalition: float(np.random.default_rng([seed, 1 + sum(2**i for i in coalition)]).normal()))


def component_additive(graph: nx.Graph, seed: int) -> SetFunction:
    """Return a game that is a constant plus one random number for each connected component of a coalition."""
    worth = random_function(seed)
    return cache(lambda s: 2.5 + sum(worth(frozenset(c)) for c in nx.connected_components(graph.subgraph(s))))


def explained(name: str, v: SetFunction, n: int, **options: Any) -> Explanation:
    return get_explainer(name, **options).explain(game_of(v, n))


def value(name: str, v: SetFunction, n: int, **options: Any) -> np.ndarray:
    return explained(name, v, n, **options).value[0].numpy()


def subsets(players: Any) -> list[Coalition]:
    members = sorted(players)
    return [frozenset(c) for size in range(len(members) + 1) for c in itertools.combinations(members, size)]


def near(graph: nx.Graph, i: int, order: int) -> Coalition:
    return frozenset(nx.single_source_shortest_path_length(graph, i, cutoff=order))


def connected(graph: nx.Graph, coalition: Coalition) -> bool:
    return bool(coalition) and nx.is_connected(graph.subgraph(coalition))


def outside_of(graph: nx.Graph, i: int, order: int, outside: str) -> Coalition:
    return frozenset() if outside == "ablate" else frozenset(graph) - near(graph, i, order)


def naive_lshapley(graph: nx.Graph, v: SetFunction, order: int, outside: str = "ablate") -> np.ndarray:
    phi = np.zeros(len(graph))
    for i in graph:
        around, beyond = near(graph, i, order), outside_of(graph, i, order, outside)
        for t in subsets(around):
            if i in t:
                weight = 1 / (len(around) * math.comb(len(around) - 1, len(t) - 1))
                phi[i] += weight * (v(t | beyond) - v((t | beyond) - {i}))
    return phi


def naive_cshapley(
    graph: nx.Graph, v: SetFunction, order: int, weights: str = "boundary", outside: str = "ablate"
) -> np.ndarray:
    phi = np.zeros(len(graph))
    for i in graph:
        beyond = outside_of(graph, i, order, outside)
        for u in subsets(near(graph, i, order)):
            if i not in u or not connected(graph, u):
                continue
            size, b = len(u), len(nx.node_boundary(graph, u))
            if weights == "paper":
                weight = 2 / ((size + 2) * (size + 1) * size)
            else:
                weight = math.factorial(size - 1) * math.factorial(b) / math.factorial(size + b)
            phi[i] += weight * (v(u | beyond) - v((u | beyond) - {i}))
    return phi


def shapley(v: SetFunction, n: int) -> np.ndarray:
    """Return Shapley values by the sum over all coalitions."""
    phi = np.zeros(n)
    for coalition in subsets(range(n)):
        for i in coalition:
            weight = 1 / (n * math.comb(n - 1, len(coalition) - 1))
            phi[i] += weight * (v(coalition) - v(coalition - {i}))
    return phi


def restricted(graph: nx.Graph, v: SetFunction) -> SetFunction:
    """Return Myerson's game: each connected component of a coalition for itself."""
    nothing = v(frozenset())
    parts = nx.connected_components
    return cache(lambda s: nothing + sum(v(frozenset(c)) - nothing for c in parts(graph.subgraph(s))))


def naive_regression(rows: list[Coalition], v: SetFunction, n: int, row_weights: str = "size") -> np.ndarray:
    """Return the constrained least squares by eliminating the last player, as KernelSHAP's authors do."""
    nothing, everything = v(frozenset()), v(frozenset(range(n)))
    x = np.array([[float(i in row) for i in range(n)] for row in rows])
    y = np.array([v(row) - nothing for row in rows])
    alike = {size: sum(len(r) == size for r in rows) for size in range(1, n)}
    many = {size: math.comb(n, size) if row_weights == "kernel" else alike[size] for size in range(1, n)}
    weight = np.array([(n - 1) / (many[len(r)] * len(r) * (n - len(r))) for r in rows]) ** 0.5
    left = (x[:, :-1] - x[:, -1:]) * weight[:, None]
    phi = np.linalg.lstsq(left, (y - x[:, -1] * (everything - nothing)) * weight, rcond=None)[0]
    return np.append(phi, everything - nothing - phi.sum())


def random_tree(n: int, seed: int) -> nx.Graph:
    rng = np.random.default_rng(seed)
    names = rng.permutation(n).tolist()
    tree = nx.Graph()
    tree.add_nodes_from(range(n))
    tree.add_edges_from((names[i], names[int(rng.integers(i))]) for i in range(1, n))
    return tree


def random_graph(n: int, seed: int) -> nx.Graph:
    """Return a graph of ``n`` players, often not connected."""
    return nx.gnp_random_graph(n, 0.45, seed=seed)


def grid_graph(rows: int, columns: int) -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns), ordering="sorted")


def options_of(graph: nx.Graph) -> dict[str, Any]:
    return {"graph": nx.to_numpy_array(graph, nodelist=range(len(graph)), dtype=int).tolist()}


GRAPHS = [pytest.param(nx.path_graph(n), {"graph": "line"}, id=f"line of {n}") for n in (1, 2, 3, 5)] + [
    pytest.param(grid_graph(2, 3), {"graph": "grid", "shape": [2, 3]}, id="grid 2 x 3"),
    pytest.param(nx.cycle_graph(5), options_of(nx.cycle_graph(5)), id="ring"),
    pytest.param(nx.star_graph(4), {"graph": nx.star_graph(4)}, id="star"),
    pytest.param(nx.complete_graph(4), options_of(nx.complete_graph(4)), id="complete"),
    pytest.param(nx.Graph([(0, 1), (2, 3), (3, 4)]), options_of(nx.Graph([(0, 1), (2, 3), (3, 4)])), id="two parts"),
]
on_graphs = pytest.mark.parametrize(("graph", "options"), GRAPHS)


# --- against the formulas -----------------------------------------------------------------------------------------


@on_graphs
@pytest.mark.parametrize("order", [1, 2, 9])
@pytest.mark.parametrize("outside", ["ablate", "keep"])
def test_lshapley_is_its_formula(graph, options, order, outside):
    v = random_function(1)
    found = value("lshapley", v, len(graph), order=order, outside=outside, **options)
    assert np.allclose(found, naive_lshapley(graph, v, order, outside), rtol=0, atol=1e-12)


@on_graphs
@pytest.mark.parametrize("order", [1, 2, 9])
@pytest.mark.parametrize("outside", ["ablate", "keep"])
@pytest.mark.parametrize("weights", ["boundary", "paper"])
def test_cshapley_is_its_formula(graph, options, order, outside, weights):
    v = random_function(2)
    found = value("cshapley", v, len(graph), order=order, outside=outside, weights=weights, **options)
    assert np.allclose(found, naive_cshapley(graph, v, order, weights, outside), rtol=0, atol=1e-12)


@on_graphs
def test_myerson_is_the_shapley_value_of_the_restricted_game(graph, options):
    v = random_function(3)
    found = value("myerson", v, len(graph), **options)
    assert np.allclose(found, naive_shapley(restricted(graph, v), len(graph)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("graph", "rows", "options"),
    [
        pytest.param(nx.path_graph(6), None, {"max_size": 3}, id="trigrams"),
        pytest.param(nx.path_graph(6), None, {"max_size": 99}, id="all n-grams"),
        pytest.param(random_graph(6, 1), None, {"max_size": 2, **options_of(random_graph(6, 1))}, id="edges"),
        pytest.param(
            grid_graph(2, 3),
            [*map(frozenset, [{0}, {1}, {2}, {3}, {4}, {5}, {0, 1, 3, 4}, {1, 2, 4, 5}])],
            {"graph": "grid", "shape": [2, 3]},
            id="patches",
        ),
    ],
)
@pytest.mark.parametrize("row_weights", ["size", "kernel"])
def test_the_regression_is_kernelshap_on_connected_rows(graph, rows, options, row_weights):
    v, n = random_function(4), len(graph)
    if rows is None:
        rows = [s for s in subsets(range(n)) if len(s) <= min(options["max_size"], n - 1) and connected(graph, s)]
    result = explained("cshapley", v, n, form="regression", row_weights=row_weights, **options)
    assert np.allclose(result.value[0], naive_regression(rows, v, n, row_weights), rtol=0, atol=1e-9)
    assert result.evaluations[0] == len(rows) + 2 == result.audit[0]["coalitions"] + 2
    assert result.value.sum() == pytest.approx(v(frozenset(range(n))) - v(frozenset()), abs=1e-12)


# --- what they are equal to ---------------------------------------------------------------------------------------


def done_when_graphs() -> list[Any]:
    lines = [pytest.param(nx.path_graph(n), {}, n, id=f"line of {n}") for n in (2, 5, 9)]
    grids = [
        pytest.param(grid_graph(3, 3), {"graph": "grid", "shape": [3, 3]}, seed, id=f"grid {seed}") for seed in range(3)
    ]
    trees = [
        pytest.param(tree, {"graph": tree}, seed, id=f"tree {seed}")
        for seed in range(6)
        for tree in [random_tree(4 + seed, seed)]
    ]
    return lines + grids + trees


@pytest.mark.parametrize(("graph", "options", "seed"), done_when_graphs())
def test_cshapley_of_order_n_is_the_myerson_value_of_component_additive_games(graph, options, seed):
    n, v = len(graph), component_additive(graph, seed)
    cshapley = value("cshapley", v, n, order=n, **options)
    myerson = value("myerson", v, n, **options)
    assert np.abs(myerson).max() > 0.1
    assert np.abs(cshapley - myerson).max() < 1e-9
    assert np.abs(myerson - shapley(v, n)).max() < 1e-9, "of such a game the Myerson value is the Shapley value"
    if n > 2:
        paper = value("cshapley", v, n, order=n, weights="paper", **options)
        assert np.abs(paper - myerson).max() > 1e-3, "the paper's weights must not pass this test"


@on_graphs
def test_lshapley_of_order_n_is_the_shapley_value_on_each_connected_part(graph, options):
    v, n = random_function(5), len(graph)
    found = value("lshapley", v, n, order=n, **options)
    for part in map(sorted, nx.connected_components(graph)):
        alone = shapley(lambda c, part=part: v(frozenset(part[i] for i in c)), len(part))
        assert np.allclose(found[part], alone, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_lshapley_of_order_n_is_the_shapley_value_on_a_line(n):
    v = random_function(6)
    assert np.abs(value("lshapley", v, n, order=n) - shapley(v, n)).max() < 1e-9


def test_on_a_complete_graph_all_four_are_the_shapley_value():
    v, n = random_function(7), 6
    truth, complete = shapley(v, n), options_of(nx.complete_graph(n))
    for name, options in (
        ("lshapley", {}),
        ("cshapley", {"order": 1}),
        ("cshapley", {"form": "regression", "max_size": n}),
        ("myerson", {}),
    ):
        assert np.abs(value(name, v, n, **options, **complete) - truth).max() < 1e-9, name


def test_a_far_player_that_is_kept_is_seen_and_one_that_is_ablated_is_not():
    """v = 1 if both ends of five are there: of order 1, no neighbourhood holds both."""
    v = lambda s: float({0, 4} <= s)  # noqa: E731
    for name in ("lshapley", "cshapley"):
        assert value(name, v, 5, order=1).tolist() == [0, 0, 0, 0, 0]
        kept = value(name, v, 5, order=1, outside="keep")
        assert np.allclose(
            kept, [1, 0, 0, 0, 1] if name == "lshapley" else naive_cshapley(nx.path_graph(5), v, 1, outside="keep")
        )
        assert kept[0] > 0.5


# --- five players on a line, by hand ------------------------------------------------------------------------------


def pair(i: int, j: int) -> SetFunction:
    """Return the game that is worth 1 where both are there."""
    return lambda coalition: float({i, j} <= coalition)


def by_hand(name: str, v: SetFunction, **options: Any) -> list[Fraction]:
    return [Fraction(x).limit_denominator(1000) for x in value(name, v, 5, **options).tolist()]


def parts(*numbers: str | int) -> list[Fraction]:
    return [Fraction(number) for number in numbers]


def test_neighbours_by_hand_with_the_papers_weights():
    """1 counts in {1,2} (2/(4*3*2) = 1/12) and {0,1,2} (2/(5*4*3) = 1/30); 2 in {1,2} and {1,2,3}."""
    assert by_hand("cshapley", pair(1, 2), order=1, weights="paper") == parts(0, "7/60", "7/60", 0, 0)
    # order 4, both: {1,2} 1/12, {0,1,2} and {1,2,3} 1/30 each, {0..3} and {1..4} 1/60 each, {0..4} 2/210
    assert by_hand("cshapley", pair(1, 2), order=4, weights="paper") == parts(0, "27/140", "27/140", 0, 0)


def test_neighbours_by_hand_with_boundary_weights():
    """{0,1,2} has one player beside it: 2! 1! / 4! = 1/12; {1,2} and {1,2,3} have two: 1/12 and 1/30."""
    assert by_hand("cshapley", pair(1, 2), order=1) == parts(0, "1/6", "7/60", 0, 0)
    # order 4: 1/12 + 1/12 + 1/30 + 1/20 + 1/20 + 1/5 = 1/2, the Shapley value of a pair
    assert by_hand("cshapley", pair(1, 2), order=4) == parts(0, "1/2", "1/2", 0, 0)
    assert by_hand("lshapley", pair(1, 2), order=1) == parts(0, "1/2", "1/2", 0, 0)


def test_a_gap_by_hand():
    """0 and 2 are worth 1 together and do not touch: C-Shapley evaluates {0, 2} as one coalition, Myerson never.

    0 in {0,1,2}, {0..3}, {0..4}: 1/12 + 1/20 + 1/5 = 1/3; 1 changes nothing in them; for Myerson it makes the pair.
    """
    assert by_hand("cshapley", pair(0, 2), order=4) == parts("1/3", 0, "1/3", 0, 0)
    assert by_hand("cshapley", pair(0, 2), order=4, weights="paper") == parts("5/84", 0, "5/84", 0, 0)
    assert by_hand("myerson", pair(0, 2)) == parts("1/3", "1/3", "1/3", 0, 0)
    assert by_hand("lshapley", pair(0, 2), order=1) == parts(0, 0, 0, 0, 0)
    assert by_hand("lshapley", pair(0, 2), order=2) == parts("1/2", 0, "1/2", 0, 0)


# --- evaluations --------------------------------------------------------------------------------------------------


def cheap(kept: torch.Tensor) -> torch.Tensor:
    return torch.tanh(kept.double() @ torch.linspace(-1, 1, kept.shape[1], dtype=torch.float64))


def counted(name: str, n: int, **options: Any) -> tuple[int, Explanation]:
    """Return how many rows reached the function, and the explanation."""
    seen: list[torch.Tensor] = []
    game = Game.from_set_function(lambda kept: (seen.append(kept), cheap(kept))[1], n)
    result = get_explainer(name, **options).explain(game)
    rows = torch.cat(seen)
    assert len(torch.unique(rows, dim=0)) == len(rows) == game.spent[0] == int(result.evaluations[0])
    return len(rows), result


@pytest.mark.parametrize(("order", "evaluations"), [(1, 596), (2, 2_352), (3, 9_280), (4, 36_608)])
def test_lshapley_evaluates_each_subset_once_on_a_line_of_150(order, evaluations):
    assert counted("lshapley", 150, order=order)[0] == evaluations


@pytest.mark.parametrize(("order", "evaluations"), [(1, 596), (2, 1_329), (3, 2_344), (4, 3_635)])
def test_cshapley_evaluates_each_subset_once_on_a_line_of_150(order, evaluations):
    assert counted("cshapley", 150, order=order)[0] == evaluations


def test_square_patches_up_to_4_on_an_image_of_28_by_28():
    """784 + 729 + 676 + 625 patches, and the two ends that the efficiency constraint needs: fewer than 4 a pixel."""
    rows, side = regression_rows(grid(28, 28), 4, None)
    assert (len(rows), side) == (2_814, 4)
    spent, result = counted("cshapley", 784, form="regression", graph="grid", shape=[28, 28])
    assert spent == 2_814 + 2 <= 4 * 784
    assert result.audit[0]["coalitions"] == 2_814 and result.audit[0]["rank_short"] == 0


def test_order_1_on_an_image_is_about_sixteen_thousand():
    image = {"graph": "grid", "shape": [28, 28], "order": 1}
    assert counted("lshapley", 784, **image)[0] == counted("cshapley", 784, **image)[0] == 16_551


def test_four_evaluations_a_word_hold_every_4_gram():
    spent, result = counted("cshapley", 150, form="regression", budget=600, max_size=20)
    assert spent == 150 + 149 + 148 + 147 + 2 and result.audit[0]["max_size"] == 4


def test_myerson_evaluates_connected_subsets_only():
    assert counted("myerson", 150)[0] == 150 * 151 // 2 + 1
    assert counted("myerson", 9, graph="grid", shape=[3, 3])[0] == 218 + 1


@pytest.mark.parametrize("outside", ["ablate", "keep"])
def test_small_blocks_give_the_same_and_evaluate_no_more(monkeypatch, outside):
    methods = [("lshapley", {"order": 2, "outside": outside}), ("cshapley", {"outside": outside}), ("myerson", {}),
               ("cshapley", {"form": "regression"})]  # fmt: skip
    before = [counted(name, 30, **options) for name, options in methods]
    for module in ("explainers.graph_explainer", "explainers.lshapley", "explainers.myerson"):
        monkeypatch.setattr(f"{module}.BLOCK_ENTRIES", 30 * 7)
    rows = []
    game = Game.from_set_function(lambda kept: (rows.append(len(kept)), cheap(kept))[1], 30)
    for (name, options), (spent, result) in zip(methods, before, strict=True):
        again, same = counted(name, 30, **options)
        assert again == spent
        assert (same.value - result.value).abs().max() < 1e-12
        get_explainer(name, **options).explain(game)
    assert max(rows) <= 2 * 7, "a block is complete before it is twice as long"


@pytest.mark.parametrize("form", ["direct", "regression"])
@pytest.mark.parametrize("graph", ["line", "grid"])
def test_a_budget_takes_the_longest_n_grams_that_fit(form, graph):
    n, where = 36, {"graph": "grid", "shape": [6, 6]} if graph == "grid" else {}
    least = get_explainer("cshapley", form=form, **where).least_budget(n)
    options = {"form": form, **where, **({"max_size": 6} if form == "regression" else {"order": 3})}
    sizes = []
    for budget in range(least, least + 400, 7):
        spent, result = counted("cshapley", n, budget=budget, **options)
        assert spent <= budget
        sizes.append(result.audit[0]["max_size"])
    assert sizes == sorted(sizes) and sizes[0] == 2 and sizes[-1] > 2


def test_a_budget_that_cuts_leaves_the_sum_over_shorter_subsets():
    v, graph = random_function(8), nx.path_graph(6)
    found = explained("cshapley", v, 6, order=9, budget=14)
    assert found.audit[0]["max_size"] == 2 and found.evaluations[0] == 1 + 6 + 5
    truth = np.zeros(6)
    for i, u in itertools.product(range(6), subsets(range(6))):
        if i in u and len(u) <= 2 and connected(graph, u):
            b = len(nx.node_boundary(graph, u))
            weight = math.factorial(len(u) - 1) * math.factorial(b) / math.factorial(len(u) + b)
            truth[i] += weight * (v(u) - v(u - {i}))
    assert np.allclose(found.value[0], truth, rtol=0, atol=1e-12)
    assert np.allclose(value("cshapley", v, 6, order=9, budget=10**9), naive_cshapley(graph, v, 9), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 9), seed=st.integers(0, 500), order=st.integers(1, 4))
def test_the_subsets_are_all_there_and_each_once(n, seed, order):
    graph = random_graph(n, seed)
    drawn = shared.GraphExplainer.graph_of(get_explainer("myerson", graph=graph), n)  # type: ignore[arg-type]
    around = neighbourhoods(drawn, order)
    assert [frozenset(players_of(m)) for m in around] == [near(graph, i, order) for i in range(n)]
    inside = np.array([[bool(m >> j & 1) for j in range(n)] for m in around])
    local = [frozenset(np.flatnonzero(r).tolist()) for block in subsets_of_neighbourhoods(inside, 3) for r in block]
    assert len(local) == len(set(local))
    assert set(local) == {s for i in range(n) for s in subsets(near(graph, i, order))}
    found = list(connected_subsets(drawn, around))
    sets = [frozenset(players_of(part.players)) for part in found]
    assert len(sets) == len(set(sets)) and [len(s) for s in sets] == sorted(len(s) for s in sets)
    assert set(sets) == {
        u for u in subsets(range(n)) if connected(graph, u) and any(u <= near(graph, i, order) for i in u)
    }
    for part, u in zip(found, sets, strict=True):
        assert frozenset(players_of(part.centres)) == {i for i in u if u <= near(graph, i, order)}
        assert frozenset(players_of(part.boundary)) == nx.node_boundary(graph, u)


# --- axioms, where they hold --------------------------------------------------------------------------------------

METHODS = [
    ("lshapley", {"order": 1}),
    ("lshapley", {"order": 2, "outside": "keep"}),
    ("cshapley", {"order": 2}),
    ("cshapley", {"order": 2, "weights": "paper"}),
    ("cshapley", {"order": 1, "outside": "keep"}),
    ("cshapley", {"form": "regression", "max_size": 3}),
    ("myerson", {}),
]
all_methods = pytest.mark.parametrize(
    ("name", "options"),
    METHODS,
    ids=lambda part: part if isinstance(part, str) else "-".join(map(str, part.values())) or "exact",
)
SEEDS = {"n": st.integers(1, 6), "seed": st.integers(0, 10_000)}


@all_methods
@settings(max_examples=15, deadline=None)
@given(**SEEDS, factor=st.floats(-3, 3))
def test_linearity(name, options, n, seed, factor):
    graph, v, w = random_graph(n, seed), random_function(seed), random_function(seed + 1)
    one, two = (value(name, f, n, graph=graph, **options) for f in (v, w))
    both = value(name, lambda s: v(s) + factor * w(s), n, graph=graph, **options)
    assert np.allclose(both, one + factor * two, rtol=0, atol=1e-9)


@all_methods
@settings(max_examples=15, deadline=None)
@given(**SEEDS, constant=st.floats(-5, 5))
def test_a_constant_is_nobodys(name, options, n, seed, constant):
    graph, v = random_graph(n, seed), random_function(seed)
    moved = value(name, lambda s: v(s) + constant, n, graph=graph, **options)
    assert np.allclose(moved, value(name, v, n, graph=graph, **options), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("name", "options"), [m for m in METHODS if m[0] != "myerson" and "form" not in m[1]])
@settings(max_examples=15, deadline=None)
@given(**SEEDS)
def test_a_player_that_changes_nothing_gets_nothing(name, options, n, seed):
    graph, v, null = random_graph(n, seed), random_function(seed), seed % n
    found = value(name, lambda s: v(s - {null}), n, graph=graph, **options)
    assert abs(found[null]) < 1e-12
    assert n == 1 or nx.degree(graph, (null + 1) % n) == 0 or np.abs(found).max() > 0


def test_the_myerson_value_pays_a_player_that_changes_nothing_for_holding_others_together():
    assert value("myerson", lambda s: float({0, 2} <= s), 3)[1] == pytest.approx(1 / 3)


@all_methods
@settings(max_examples=15, deadline=None)
@given(**SEEDS)
def test_renaming_the_players_renames_their_values(name, options, n, seed):
    graph, v = random_graph(n, seed), random_function(seed)
    names = np.random.default_rng(seed).permutation(n).tolist()
    renamed = nx.relabel_nodes(graph, dict(enumerate(names)))
    found = value(name, lambda s: v(frozenset(names.index(p) for p in s)), n, graph=renamed, **options)
    assert np.allclose(found[names], value(name, v, n, graph=graph, **options), rtol=0, atol=1e-9)


@all_methods
@settings(max_examples=15, deadline=None)
@given(**SEEDS)
def test_players_alike_in_game_and_graph_get_the_same(name, options, n, seed):
    """The game and the line are both mirrored, so that i and n-1-i cannot be told apart."""
    v = random_function(seed)
    mirrored = lambda s: v(s) + v(frozenset(n - 1 - i for i in s))  # noqa: E731
    found = value(name, mirrored, n, **options)
    assert np.allclose(found, found[::-1], rtol=0, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(**SEEDS)
def test_the_myerson_value_shares_out_each_connected_part_and_is_fair(n, seed):
    """Myerson's own two axioms: what a part is worth goes to it, and taking an edge away costs both its ends alike."""
    graph, v = random_graph(n, seed), random_function(seed)
    result = explained("myerson", v, n, graph=graph)
    found = result.value[0].numpy()
    assert abs(result.audit[0]["efficiency_gap"]) < 1e-9
    for part in nx.connected_components(graph):
        assert found[sorted(part)].sum() == pytest.approx(v(frozenset(part)) - v(frozenset()), abs=1e-9)
    for i, j in graph.edges:
        less = nx.Graph(graph)
        less.remove_edge(i, j)
        lost = found - value("myerson", v, n, graph=less)
        assert lost[i] == pytest.approx(lost[j], abs=1e-9)


# --- graphs and options -------------------------------------------------------------------------------------------


def test_the_weight_is_computed_in_logarithms_and_is_the_factorials():
    for size, boundary in itertools.product(range(1, 9), range(9)):
        exact = Fraction(math.factorial(size - 1) * math.factorial(boundary), math.factorial(size + boundary))
        assert shared.boundary_weight(size, boundary) == pytest.approx(float(exact), rel=1e-13)
    assert 0 < shared.boundary_weight(20, 300) < 1e-30 and math.isfinite(shared.boundary_weight(5_000, 5_000))


def test_a_grid_runs_row_by_row_and_a_line_is_no_ring():
    assert [sorted(players_of(m)) for m in grid(2, 3).adjacent] == [
        [1, 3],
        [0, 2, 4],
        [1, 5],
        [0, 4],
        [1, 3, 5],
        [2, 4],
    ]
    assert [sorted(players_of(m)) for m in line(4).adjacent] == [[1], [0, 2], [1, 3], [2]]


RING = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]


@pytest.mark.parametrize(
    "given_as",
    [
        RING,
        tuple(map(tuple, RING)),
        np.array(RING),
        np.array(RING, dtype=bool),
        np.array(RING, dtype=float),
        torch.tensor(RING),
        nx.cycle_graph(4),
        nx.DiGraph(nx.cycle_graph(4)),
        nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 3), (3, 0)]),
        nx.Graph([(3, 2), (2, 1), (1, 0), (0, 3)]),
    ],
    ids=lambda graph: type(graph).__name__,
)
def test_a_graph_may_come_as_lists_arrays_or_from_networkx(given_as):
    explainer = get_explainer("cshapley", graph=given_as)
    assert explainer.model_dump(mode="json")["graph"] == RING
    assert adjacency_matrix(given_as) == tuple(map(tuple, RING))


@pytest.mark.parametrize("name", ["lshapley", "cshapley", "myerson"])
def test_options_survive_yaml_and_json(name):
    for options in ({}, {"graph": "grid", "shape": [2, 3]}, {"graph": nx.path_graph(4)}, {"graph": np.array(RING)}):
        explainer = get_explainer(name, **options)
        said = explainer.model_dump(mode="json", exclude_defaults=True)
        for back in (json.loads(json.dumps(said)), yaml.safe_load(yaml.safe_dump(said))):
            again = get_explainer(name, **back)
            assert again == explainer and hash(again) == hash(explainer)


def test_a_line_serves_samples_of_any_length_and_other_graphs_one():
    v = random_function(9)
    method = get_explainer("lshapley", order=2)
    for n in (1, 2, 3, 7):
        found = method.explain(game_of(v, n)).value[0].numpy()
        assert np.allclose(found, naive_lshapley(nx.path_graph(n), v, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["lshapley", "cshapley", "myerson"])
@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_players_get_their_shapley_values(name, n):
    v = random_function(10)
    result = explained(name, v, n)
    assert np.allclose(result.value[0], shapley(v, n), rtol=0, atol=1e-12)
    assert result.evaluations.tolist() == [2**n]


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_players_by_regression(n):
    v = random_function(11)
    result = explained("cshapley", v, n, form="regression")
    assert np.allclose(result.value[0], shapley(v, n), rtol=0, atol=1e-12)
    assert result.evaluations.tolist() == [2**n]


def test_an_order_beyond_the_sequence_takes_everybody():
    v = random_function(12)
    assert np.array_equal(value("lshapley", v, 4, order=3), value("lshapley", v, 4, order=50))
    assert np.array_equal(value("cshapley", v, 4, order=3), value("cshapley", v, 4, order=50))


def test_what_is_kept_beyond_nobody_changes_nothing():
    v = random_function(13)
    for name in ("lshapley", "cshapley"):
        ablated, kept = (value(name, v, 5, order=9, outside=outside) for outside in ("ablate", "keep"))
        assert np.allclose(ablated, kept, rtol=0, atol=1e-12)


def test_a_graph_without_edges_leaves_each_player_alone():
    v, empty = random_function(14), {"graph": [[0, 0, 0]] * 3}
    alone = [v(frozenset({i})) - v(frozenset()) for i in range(3)]
    for name in ("lshapley", "cshapley", "myerson"):
        assert np.allclose(value(name, v, 3, **empty), alone, rtol=0, atol=1e-12)
    assert explained("cshapley", v, 3, budget=4, **empty).audit[0]["max_size"] == 1


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ("ring", r"graph is 'ring'; it is 'line', 'grid', or an adjacency matrix"),
        ([], r"graph is \[\]; it is 'line', 'grid', or an adjacency matrix of n rows"),
        (3, r"graph is 3; it is"),
        ([0, 1], r"graph is \[0, 1\]; it is"),
        (np.zeros((2, 3), int), r"row 0 of the adjacency matrix has 3 entries, and there are 2 rows"),
        ([[0, 1], [1]], r"row 1 of the adjacency matrix has 1 entries, and there are 2 rows; give n x n"),
        ([[0, 1], [0, 0]], r"not symmetric: \[0\]\[1\] is 1 and \[1\]\[0\] is 0; give an undirected graph"),
        ([[0, 1], [1, 1]], r"entry \[1\]\[1\] of the adjacency matrix is 1; no player is its own neighbour"),
        ([[0, 2], [2, 0]], r"entry \[0\]\[1\] of the adjacency matrix is 2; give 0 or 1"),
        ([[0, 0.5], [0.5, 0]], r"entry \[0\]\[1\] of the adjacency matrix is 0.5; give 0 or 1"),
        ([[0, math.nan], [math.nan, 0]], r"entry \[0\]\[1\] of the adjacency matrix is nan; give 0 or 1"),
        ([[0, "1"], ["1", 0]], r"entry \[0\]\[1\] of the adjacency matrix is '1'; give 0 or 1"),
        (nx.DiGraph([(0, 1)]), r"not symmetric: .* give an undirected graph"),
        (nx.Graph([(0, 0), (0, 1)]), r"entry \[0\]\[0\] .* own neighbour"),
        (
            nx.Graph([("a", "b")]),
            r"nodes are \['a', 'b'\]\.\.\.; players are 0 to 1: .*convert_node_labels_to_integers",
        ),
        (nx.Graph([(1, 2)]), r"nodes are \[1, 2\]\.\.\.; players are 0 to 1"),
    ],
)
@pytest.mark.parametrize("name", ["lshapley", "cshapley", "myerson"])
def test_what_is_no_undirected_graph_is_refused_with_the_place(name, graph, said):
    with pytest.raises(ValueError, match=said):
        get_explainer(name, graph=graph)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"graph": "grid"}, r"graph grid needs its shape; give shape: \[rows, columns\]"),
        ({"shape": [3, 3]}, r"shape is \[3, 3\], and the graph is no grid; leave shape out"),
        ({"graph": RING, "shape": [2, 2]}, r"shape is \[2, 2\], and the graph is no grid"),
        ({"graph": "grid", "shape": [0, 3]}, r"greater than or equal to 1"),
        ({"graph": "grid", "shape": [9]}, r"shape"),
        ({"graph": "grid", "shape": [3, 3, 3]}, r"shape"),
        ({"order": 0}, r"order\n.*greater than or equal to 1"),
        ({"max_size": 1, "form": "regression"}, r"max_size\n.*greater than or equal to 2"),
        ({"max_size": 4}, r"option 'max_size' belongs to form 'regression', not 'direct'; leave it out"),
        ({"row_weights": "kernel"}, r"option 'row_weights' belongs to form 'regression'"),
        ({"form": "regression", "order": 2}, r"option 'order' belongs to form 'direct', not 'regression'"),
        ({"form": "regression", "weights": "paper"}, r"option 'weights' belongs to form 'direct'"),
        ({"form": "regression", "outside": "keep"}, r"option 'outside' belongs to form 'direct'"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        get_explainer("cshapley", **options)


@pytest.mark.parametrize("name", ["lshapley", "cshapley", "myerson"])
@pytest.mark.parametrize(
    ("options", "n", "said"),
    [
        (
            {"graph": "grid", "shape": [3, 3]},
            8,
            r"shape is \[3, 3\], which makes 9 players, and a sample has 8 players",
        ),
        (
            {"graph": "grid", "shape": [3, 3]},
            0,
            r"shape is \[3, 3\], which makes 9 players, and a sample has 0 players; give",
        ),
        ({"graph": RING}, 5, r"the adjacency matrix is 4 x 4, which makes 4 players, and a sample has 5 players"),
    ],
)
def test_a_graph_of_another_size_is_refused_before_anything_is_evaluated(name, options, n, said):
    method = get_explainer(name, **options)
    with pytest.raises(ValueError, match=f"^{name}: {said}"):
        method.check(n)
    game = Game.from_set_function(cheap, n)
    with pytest.raises(ValueError, match=said):
        method.explain(game)
    assert game.spent == [0]


@pytest.mark.parametrize(("form", "least"), [("direct", 2 * 10), ("regression", 10 + 9 + 2)])
def test_a_budget_without_bigrams_is_refused_with_the_least_that_would_do(form, least):
    game = Game.from_set_function(cheap, 10)
    with pytest.raises(
        ValueError, match=rf"budget is {least - 1} evaluations, .* 10 players .*raise budget to {least} "
    ):
        get_explainer("cshapley", form=form, budget=least - 1).explain(game)
    assert game.spent == [0]
    assert get_explainer("cshapley", form=form, budget=least).explain(game).evaluations[0] == least


def test_more_than_can_be_exact_is_refused_before_anything_is_evaluated():
    game = Game.from_set_function(cheap, 36)
    six = {"graph": "grid", "shape": [6, 6]}
    with pytest.raises(ValueError, match=r"myerson: this graph of 36 players needs more than 262,144 .* cshapley"):
        get_explainer("myerson", **six).explain(game)
    with pytest.raises(ValueError, match=r"myerson: budget is 500 evaluations, .* 36 players needs at least 667"):
        get_explainer("myerson", budget=500).explain(game)
    with pytest.raises(ValueError, match=r"cshapley: this graph of 36 players needs more than 262,144 .* lower order"):
        get_explainer("cshapley", order=4, **six).explain(game)
    with pytest.raises(ValueError, match=r"order is 3, and among 36 players a neighbourhood has 23, so 2\^23 subsets"):
        get_explainer("lshapley", order=3, **six).explain(game)
    with pytest.raises(ValueError, match=r"cshapley: this graph of 36 players needs more than 262,144 .* max_size"):
        complete = nx.complete_graph(36)
        get_explainer("cshapley", form="regression", max_size=9, graph=complete).explain(game)
    assert game.spent == [0]
    assert get_explainer("cshapley", order=4, budget=150, **six).explain(game).evaluations[0] <= 150


def test_a_grid_of_one_row_has_no_patches():
    with pytest.raises(
        ValueError, match=r"shape is \[1, 5\], and no square patch has a side of 2 there; take graph: line"
    ):
        get_explainer("cshapley", form="regression", graph="grid", shape=[1, 5]).check(5)
    v = random_function(15)
    flat = value("cshapley", v, 5, graph="grid", shape=[1, 5])
    assert np.array_equal(flat, value("cshapley", v, 5))
