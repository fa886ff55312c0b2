"""The Shapley family: exactness, efficiency, budgets, and the engine under it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from explainers import Game, explainers, get_explainer
from explainers.designs import log_kernel, size_probabilities, walk_coalitions
from explainers.game import distinct_rows
from tests.games import naive_shapley


def random_set_game(n: int, seed: int):
    """Return a set-function game with a random number a coalition, and the function."""
    table = np.random.default_rng(seed).normal(size=2**n)

    def v(kept: torch.Tensor) -> torch.Tensor:
        return torch.tensor(table[(kept.numpy() * 2 ** np.arange(n)).sum(1)])

    def naive(coalition: frozenset[int]) -> float:
        return table[sum(2**i for i in coalition)]

    return Game.from_set_function(v, n), naive


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_kernelshap_is_exact_when_the_budget_holds_every_coalition(n):
    game, v = random_set_game(n, seed=n)
    result = get_explainer("kernelshap", budget=2**n).explain(game)
    assert np.allclose(result.value[0], naive_shapley(v, n), atol=1e-9)
    assert result.evaluations.tolist() == [2**n]


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 14), seed=st.integers(0, 1000), extra=st.integers(0, 300))
def test_efficiency_and_budget(n, seed, extra):
    game, _ = random_set_game(n, seed)
    ends = game.evaluate(0, torch.stack([torch.zeros(n).bool(), torch.ones(n).bool()]))
    for name in ("kernelshap", "sample_shapley"):
        method = get_explainer(name, budget=2 + 2 * n + extra)
        result = method.explain(game, seed=seed)
        assert float(result.value.sum() - (ends[1] - ends[0])) == pytest.approx(0, abs=1e-9)
        assert result.evaluations[0] <= 2 + 2 * n + extra


@pytest.mark.parametrize(("name", "budget", "most"), [("kernelshap", 200, 0.08), ("sample_shapley", 20_000, 0.03)])
def test_sampling_converges(name, budget, most):
    weights = torch.randn(10, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def v(kept: torch.Tensor) -> torch.Tensor:
        return torch.tanh(kept.double() @ weights)

    truth = naive_by_subsets(v, 10)
    result = get_explainer(name, budget=budget).explain(Game.from_set_function(v, 10), seed=0)
    assert np.sqrt(np.mean((result.value[0].numpy() - truth) ** 2)) < most * truth.std()


def naive_by_subsets(v, n: int) -> np.ndarray:
    """Return Shapley values by Eq. 3 over all subsets."""
    kept = torch.tensor(list(itertools.product([False, True], repeat=n)))
    values = v(kept).numpy()
    sizes = kept.sum(1).numpy()
    position = {tuple(row): k for k, row in enumerate(kept.tolist())}
    out = np.zeros(n)
    for k, row in enumerate(kept.tolist()):
        for i in range(n):
            if not row[i]:
                grown = position[(*row[:i], True, *row[i + 1 :])]
                weight = math.factorial(sizes[k]) * math.factorial(n - sizes[k] - 1) / math.factorial(n)
                out[i] += weight * (values[grown] - values[k])
    return out


def test_sample_shapley_is_unbiased():
    game, v = random_set_game(5, seed=3)
    truth = torch.tensor(naive_shapley(v, 5))
    draws = torch.stack([get_explainer("sample_shapley", budget=30).explain(game, seed=s).value[0] for s in range(300)])
    assert ((draws.mean(0) - truth) / (draws.std(0) / 300**0.5)).abs().max() < 4


def test_null_and_symmetric_players():
    def v(kept: torch.Tensor) -> torch.Tensor:
        return (kept[:, 0] & kept[:, 1]).double() * 6 + kept[:, 2].double()

    result = get_explainer("kernelshap", budget=16).explain(Game.from_set_function(v, 4))
    assert torch.allclose(result.value[0], torch.tensor([3.0, 3.0, 1.0, 0.0]).double(), atol=1e-9)


def test_kernel_of_five_players_by_hand():
    """mu(s) = 4 / (C(5,s) s (5-s)): 4/20, 4/60, 4/60, 4/20; mass C(5,s) mu(s) proportional to 1/4, 1/6, 1/6, 1/4."""
    assert np.allclose(np.exp(log_kernel(5)), [0.2, 1 / 15, 1 / 15, 0.2])
    assert np.allclose(size_probabilities(5), np.array([3, 2, 2, 3]) / 10)


def test_walk_coalitions_by_hand():
    assert walk_coalitions(torch.tensor([[2, 0, 1]]))[0].int().tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1]]


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), max_size=30))
def test_distinct_rows_finds_each_row_once(rows):
    inputs = torch.tensor(rows, dtype=torch.long).reshape(-1, 3)
    first, inverse = distinct_rows(inputs)
    assert torch.equal(inputs[first][inverse], inputs)
    assert len(first) == len({tuple(row) for row in rows})
    assert first.tolist() == sorted(first.tolist())


def test_equal_inputs_are_evaluated_once_and_counted_once():
    calls = []
    game = Game.from_function(lambda t: (calls.append(len(t)), t.sum(1).double())[1], torch.tensor([[4, 4, 9]]), 0)
    kept = torch.tensor([[1, 0, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    assert game.evaluate(0, kept).tolist() == [13.0, 13.0, 0.0, 17.0]
    assert sum(calls) == 3 and game.spent == [3]


def test_a_function_of_the_wrong_shape_is_named():
    game = Game.from_function(lambda t: t.double(), torch.tensor([[1, 2]]), 0)
    with pytest.raises(ValueError, match=r"f returned shape \(1, 2\) for 1 rows"):
        game.evaluate(0, torch.ones((1, 2), dtype=torch.bool))


def test_floating_tokens_are_refused():
    with pytest.raises(ValueError, match=r"float32; give \(b, n\) integer tokens"):
        Game.from_function(lambda t: t, torch.ones(2, 3), 0)


def test_unknown_names_and_options_name_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'kernelshap'"):
        get_explainer("kernel_shap")
    with pytest.raises(ValueError, match="did you mean 'budget'"):
        get_explainer("kernelshap", bugdet=3)


def test_out_of_memory_halves_the_batch():
    sizes = []

    def f(tokens: torch.Tensor) -> torch.Tensor:
        if len(tokens) > 3:
            raise torch.OutOfMemoryError("too many rows")
        sizes.append(len(tokens))
        return tokens.sum(1).double()

    game = Game.from_function(f, torch.tensor([[1, 2, 4, 8]]), 0)
    result = get_explainer("kernelshap", budget=16).explain(game)
    assert torch.allclose(result.value[0], torch.tensor([1.0, 2.0, 4.0, 8.0]).double())
    assert max(sizes) <= 3


def test_every_explainer_says_in_one_line_what_it_is():
    for name, kind in explainers().items():
        assert name == kind.name
        assert kind.__doc__ and len(kind.__doc__.splitlines()[0]) <= 130
