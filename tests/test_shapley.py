"""The Shapley family: exactness, efficiency, budgets, and the engine under it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import explainers.crossfit as explainers_crossfit
import explainers.folds as explainers_folds
import explainers.pairs as explainers_pairs
import explainers.sample_shapley as explainers_sample_shapley
from explainers import Game, explainers, get_explainer
from explainers.crossfit import Linear, affords, design, first_rows, read_for_all
from explainers.designs import log_kernel, size_probabilities, walk_coalitions
from explainers.folds import shares_of
from explainers.game import distinct_rows
from explainers.pairs import Pairs, masses
from explainers.sample_shapley import balanced, stratified_orders
from explainers.streams import stream
from explainers.triples import Triples, Whitened, cubic
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


@pytest.mark.parametrize(("n", "budget"), [(5, 6), (5, 10), (5, 26), (5, 31), (6, 50), (7, 62), (7, 110)])
def test_sample_shapley_is_unbiased(n, budget):
    """Within 3 standard errors, but for the chance that one of 40 values is farther: 4.1 has one in 600.

    From 6 n + 2 evaluations on there is a surrogate; a random table has interactions of every order.
    """
    game, v = random_set_game(n, seed=3)
    truth = torch.tensor(naive_shapley(v, n))
    method = get_explainer("sample_shapley", budget=budget)
    draws = torch.stack([method.explain(game, seed=seed).value[0] for seed in range(200)])
    away = (draws.mean(0) - truth) / (draws.std(0) / 200**0.5)
    assert away.abs().max() < 4.1 and away.abs().median() < 1.5


@pytest.mark.parametrize("budget", [90, 110, 250])
def test_sample_shapley_is_unbiased_with_rows_left_over(budget, monkeypatch):
    """With or without interactions in the surrogate; 20 rows are fitted, the others are only predicted."""
    monkeypatch.setattr(explainers_crossfit, "MODELLED", 20)
    monkeypatch.setattr(explainers_crossfit, "INTERACTING", 8 if budget == 90 else 4)
    if budget != 90:
        monkeypatch.setattr(explainers_crossfit, "largest_block", lambda n: 24)
        monkeypatch.setattr(explainers_pairs, "largest_block", lambda n: 24)
    game, _ = random_set_game(8, seed=4)
    truth = torch.tensor(naive_by_subsets(game.v, 8))
    results = [get_explainer("sample_shapley", budget=budget).explain(game, seed=seed) for seed in range(200)]
    draws = torch.stack([result.value[0] for result in results])
    away = (draws.mean(0) - truth) / (draws.std(0) / 200**0.5)
    assert away.abs().max() < 4.1 and away.abs().median() < 1.5
    errors = torch.stack([result.value_stderr[0] for result in results])
    assert 0.9 <= ((draws - truth).abs() <= 1.96 * errors).double().mean() <= 0.98


@pytest.mark.parametrize("n", [5, 12, 20, 31, 33, 60, 150, 340, 591])
def test_every_fold_and_the_rest_have_every_size(n):
    """Where a size were in no row of a fold, or in none of the rest, its part of the values would be missing."""
    for count in (3 * n, 4 * n + 1, 200, 300, 1000, 20_000):
        if affords(n, count) and count < 2 ** (n - 1) - 1:
            rows = first_rows(n, count)
            pairs = design(stream(n, "pairs"), n, count, torch.device("cpu"))
            shares, sizes = shares_of(pairs.layout, rows), pairs.sizes.numpy() - 1
            number = len(shares.starts) - 1
            assert (
                number >= 2 and shares.starts[-1] == rows and (shares.order.sort().values == torch.arange(rows)).all()
            )
            folds = torch.empty_like(shares.order)
            folds[shares.order] = torch.searchsorted(torch.tensor(shares.starts), torch.arange(rows), right=True) - 1
            for size in range(n // 2):
                held = sizes[:rows] == size
                if held.sum() < pairs.pools[size]:
                    assert sorted(set(folds[torch.from_numpy(held)].tolist())) == list(range(number))
                    assert rows == count or (sizes[rows:] == size).any()
                else:
                    assert (folds[torch.from_numpy(held)] == -1).all()


def test_what_is_remembered_of_designs_is_bounded():
    """Samples of one length share a small design; a large one is not kept, or 64 of them would fill the memory."""
    before = [explainers_pairs.remembered.cache_info(), explainers_folds.remembered.cache_info()]
    for count in (2 * explainers_pairs.REMEMBERED, 200, 200):
        pairs = design(stream(0, "pairs"), 20, count, torch.device("cpu"))
        shares_of(pairs.layout, first_rows(20, count))
    after = [explainers_pairs.remembered.cache_info(), explainers_folds.remembered.cache_info()]
    assert [now.hits + now.misses - then.hits - then.misses for then, now in zip(before, after, strict=True)] == [2, 2]
    assert all(now.hits > then.hits for then, now in zip(before, after, strict=True))


def test_a_coalition_is_read_for_all_players_by_hand():
    """Of the 4! orders 2! 2! pass {0, 2}; one of 2 has player 0 join last, one of 2 has player 1 join next."""
    x = torch.tensor([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, -1.0]]).double()
    read = read_for_all(x, torch.tensor([2, 1]))
    assert torch.allclose(read, torch.tensor([[1 / 2, -1 / 2, 1 / 2, -1 / 2], [-1 / 3, 1, -1 / 3, -1 / 3]]).double())


@pytest.mark.parametrize("interacting", [False, True])
def test_a_fold_is_predicted_by_the_others(interacting):
    """The closed form of a fit without a fold is the fit without its rows."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 2, (30, 4), generator=draws).double() * 2 - 1
    y, weights = torch.randn(30, generator=draws).double(), torch.rand(30, generator=draws).double() + 0.5
    folds, starts = torch.arange(30) * 4 // 30 - 1, [8, 15, 23, 30]

    def fit(rows: torch.Tensor) -> Linear | Whitened:
        part = x[rows], y[rows], weights[rows]
        return Whitened(*part, cubic(x[rows], x[rows], torch.ones(4).double())) if interacting else Linear(*part)

    away = fit(torch.arange(30)).unseen(starts)
    assert (away[folds < 0] == 0).all()
    for fold in range(3):
        rest, own = torch.nonzero(folds != fold)[:, 0], torch.nonzero(folds == fold)[:, 0]
        other = fit(rest)
        told = x[own] @ other.linear
        if isinstance(other, Whitened):
            told = told + cubic(x[own], x[rest], torch.ones(4).double()) @ other.residuals
        assert torch.allclose(away[own], y[own] - told, atol=1e-9)


@pytest.mark.parametrize("name", ["kernelshap", "sample_shapley"])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 12])
def test_values_are_exact_where_the_budget_holds_every_coalition(name, n):
    game, _ = random_set_game(n, seed=n)
    result = get_explainer(name, budget=2**n).explain(game)
    assert np.allclose(result.value[0], naive_by_subsets(game.v, n), atol=1e-9)
    assert result.evaluations.tolist() == [2**n]
    assert result.value_stderr[0].tolist() == [0.0] * n


def waves(n: int, seed: int):
    """Return a smooth set function with interactions of every order."""
    weights = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return lambda kept: torch.tanh(kept.double() @ weights - 0.3) + torch.sin(kept.double() @ weights.flip(0))


@pytest.mark.parametrize(
    ("name", "budget", "quantile"),
    [
        ("kernelshap", 80, 1.96),
        ("kernelshap", 300, 1.96),
        ("sample_shapley", 56, 4.3),
        ("sample_shapley", 80, 1.96),
        ("sample_shapley", 300, 1.96),
    ],
)
def test_standard_errors_cover_the_truth(name, budget, quantile):
    """Nominal 95 %: with the normal quantile, or Student's where it averages few orders (3: two degrees of freedom)."""
    covered = []
    for seed in range(40):
        v = waves(10, seed % 8)
        result = get_explainer(name, budget=budget).explain(Game.from_set_function(v, 10), seed=seed)
        away = np.abs(result.value[0].numpy() - naive_by_subsets(v, 10))
        covered.append(away <= quantile * result.value_stderr[0].numpy())
    assert 0.90 <= np.mean(covered) <= 0.98


def test_too_few_rows_say_that_their_error_is_unknown():
    for name, budget in (("kernelshap", 22), ("sample_shapley", 20)):
        result = get_explainer(name, budget=budget).explain(Game.from_set_function(waves(10, 0), 10))
        assert result.value_stderr.isnan().all() and result.value.isfinite().all()


@pytest.mark.parametrize("name", ["kernelshap", "sample_shapley"])
def test_additive_and_pairwise_games_are_solved_exactly(name):
    """Pairs of complements, and orders walked both ways, cancel interactions of two."""
    weights = torch.arange(1.0, 10.0).double()
    for v, truth in (
        (lambda kept: torch.zeros(len(kept)).double(), torch.zeros(9).double()),
        (lambda kept: kept.double() @ weights, weights),
        (lambda kept: (kept.double() @ weights) ** 2, weights * weights.sum()),
    ):
        result = get_explainer(name, budget=100).explain(Game.from_set_function(v, 9))
        assert torch.allclose(result.value[0], truth, atol=1e-8)
        assert result.value_stderr.abs().max() < 1e-6


def test_interactions_of_three_are_learnt():
    triples = torch.tensor(list(itertools.combinations(range(8), 3)))
    weights = torch.randn(len(triples), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def v(kept: torch.Tensor) -> torch.Tensor:
        return kept[:, triples].all(2).double() @ weights

    truth = torch.zeros(8).double().index_add_(0, triples.flatten(), (weights / 3).repeat_interleave(3))
    game = Game.from_set_function(v, 8)
    errors = [float((get_explainer("kernelshap", budget=b).explain(game).value[0] - truth).norm()) for b in (60, 200)]
    assert errors[1] < 0.05 * errors[0] and errors[0] < 0.5 * float(truth.norm())


def test_triples_have_the_values_of_the_game_they_stand_for():
    """h(x) = v(S) - v(N without S) of a game by definition: half of h is such a game."""
    draws = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 2, (4, 5), generator=draws).double() * 2 - 1
    weights, scales = torch.randn(4, generator=draws).double(), torch.rand(5, generator=draws).double() + 0.5
    triples = Triples(rows, weights, scales)
    by_hand = [
        float(sum(weights[j] * (scales * x * rows[j])[list(t)].prod() for j in range(4) for t in TRIPLES_OF_FIVE))
        for x in rows
    ]
    assert np.allclose(triples.at(rows), by_hand)
    values = naive_by_subsets(lambda kept: triples.at(kept.double() * 2 - 1) / 2, 5)
    assert np.allclose(triples.values(), values)


TRIPLES_OF_FIVE = list(itertools.combinations(range(5), 3))


@pytest.mark.parametrize(("n", "count"), [(4, 7), (5, 9), (9, 60), (10, 200), (10, 511), (30, 200)])
def test_pairs_are_distinct_and_stand_for_all(n, count):
    pairs = Pairs(stream(0, "pairs"), n, count, torch.device("cpu"))
    kept, weights, missing = (torch.cat(parts) for parts in zip(*pairs.blocks(7), strict=True))
    both = torch.cat([kept, ~kept])
    assert len(kept) == count and len(torch.unique(both, dim=0)) == 2 * count
    assert torch.equal(torch.minimum(kept.sum(1), n - kept.sum(1)), pairs.sizes)
    sizes = torch.arange(1, n // 2 + 1)
    mass = torch.zeros(len(sizes)).double().index_add_(0, pairs.sizes - 1, weights)
    assert torch.allclose(mass, torch.from_numpy(masses(n)))
    assert pairs.complete == (count == 2 ** (n - 1) - 1) == bool((missing == 0).all())


def test_pairs_of_a_size_are_drawn_alike():
    counts = torch.zeros(6, 6)
    for seed in range(1500):
        kept, _, _ = next(Pairs(stream(seed, "pairs"), 6, 8, torch.device("cpu")).blocks(8))
        part = kept[kept.sum(1) == 2].double()
        counts += part.T @ part
    pairs = counts[*torch.triu_indices(6, 6, 1)]
    assert pairs.std() / pairs.mean() < 3 * (1 / pairs.mean()) ** 0.5


def test_orders_are_uniform_and_their_sides_balanced():
    orders = torch.cat([stratified_orders(stream(s, "orders"), 5, 4, torch.device("cpu")) for s in range(600)])
    _, counts = torch.unique(orders, dim=0, return_counts=True)
    assert len(counts) == 24 and ((counts - 125) ** 2 / 125).sum() < 50  # chi-squared, 23 degrees of freedom
    signs = balanced(stream(0, "sides"), 8, 7, torch.device("cpu")).double() * 2 - 1
    assert torch.equal(signs.T @ signs, 8 * torch.eye(7).double())


@pytest.mark.parametrize("name", ["kernelshap", "sample_shapley"])
def test_blocks_change_nothing_beyond_rounding(name, monkeypatch):
    game = Game.from_set_function(waves(20, 0), 20)
    method = get_explainer(name, budget=1500)
    whole = method.explain(game)
    monkeypatch.setattr(explainers_pairs, "BLOCK_ENTRIES", 20 * 600)
    monkeypatch.setattr(explainers_sample_shapley, "BLOCK_ENTRIES", 20**2 * 7)
    cut = method.explain(game)
    assert torch.allclose(whole.value, cut.value, atol=1e-12)
    assert torch.allclose(whole.value_stderr, cut.value_stderr, atol=1e-10)


def test_loco_has_the_numbers_of_feature_ablation():
    from captum.attr import FeatureAblation

    v = waves(9, 2)
    ablation = FeatureAblation(lambda vectors: v(vectors > 0.5))
    theirs = ablation.attribute(torch.ones((1, 9), dtype=torch.float64), perturbations_per_eval=9)
    result = get_explainer("loco").explain(Game.from_set_function(v, 9))
    assert torch.allclose(result.value, theirs, atol=1e-12) and result.evaluations.tolist() == [10]


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
