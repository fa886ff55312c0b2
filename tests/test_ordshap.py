"""OrdShap: anchors, brute force, closed forms, budgets, short sequences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from explainers import Game, get_explainer
from explainers.ordshap.exact import placements, placements_count
from tests.games import (
    PairOrderGame,
    naive_gamma,
    naive_sanchez_bergantinos,
    ordered_game,
    random_ordered_game,
    toy_game,
)

SAMPLING = ["walks", "algorithm1", "algorithm2", "least_squares"]


def test_toy_of_section_4_3_to_1e_9():
    result = get_explainer("ordshap", estimator="exact").explain(toy_game())
    slots = torch.arange(1, 7, dtype=torch.float64)
    expected = torch.stack([0.3 * (slots - 1)] * 3 + [0.9 * (6 - slots)] + [torch.zeros(6)] * 2)
    assert torch.allclose(result.matrix[0], expected, atol=1e-9, rtol=0)
    assert torch.allclose(result.value[0], torch.tensor([0.75, 0.75, 0.75, 2.25, 0, 0]).double(), atol=1e-9, rtol=0)
    assert torch.allclose(
        result.position[0], torch.tensor([0.3, 0.3, 0.3, -0.9, 0, 0], dtype=torch.float64), atol=1e-9, rtol=0
    )
    hat, bag = 77 / 254, -231 / 254
    expected_ls = torch.tensor([hat, hat, hat, bag, 0, 0], dtype=torch.float64)
    assert torch.allclose(result.position_ls[0], expected_ls, atol=1e-9, rtol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_equals_eq_8_read_literally_on_random_games(n, seed):
    game, w = random_ordered_game(n, seed)
    result = get_explainer("ordshap", estimator="exact").explain(game)
    gamma = naive_gamma(w, n)
    assert np.allclose(result.matrix[0], gamma, atol=1e-12)
    slopes = np.polyfit(np.arange(n), gamma.T, 1)[0] if n > 1 else [0.0]
    assert np.allclose(result.position[0], slopes, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_value_is_the_sanchez_bergantinos_value(n):
    game, w = random_ordered_game(n, seed=7)
    result = get_explainer("ordshap", estimator="exact").explain(game)
    assert np.allclose(result.value[0], naive_sanchez_bergantinos(w, n), atol=1e-12)


def test_convention_on_an_asymmetric_permutation():
    """sigma = (2, 3, 1) in one-line notation puts player 2 in slot 1: w sees the tokens x2, x3, x1."""
    seen = []
    game = Game.from_function(lambda t: (seen.append(t.clone()), t[:, 0].double())[1], torch.tensor([[10, 20, 30]]), 0)
    game.evaluate(0, torch.tensor([[True, True, False]]), torch.tensor([[1, 2, 0]]))
    assert seen[-1].tolist() == [[20, 0, 10]]


def test_algorithm1_on_the_closed_form_at_n_30():
    pair_order = PairOrderGame(30, seed=3)
    gamma = pair_order.gamma()
    away = np.arange(30) - 14.5
    result = get_explainer("ordshap", estimator="algorithm1", budget=60_000).explain(pair_order.game(), seed=1)
    value_error = np.sqrt(np.mean((result.value[0].numpy() - gamma.mean(1)) ** 2))
    position_error = np.sqrt(np.mean((result.position[0].numpy() - gamma @ away / (away**2).sum()) ** 2))
    assert value_error < 0.05 * gamma.mean(1).std()
    assert position_error < 0.2 * (gamma @ away / (away**2).sum()).std()
    assert np.sqrt(np.mean((result.matrix[0].numpy() - gamma) ** 2)) < 0.35 * gamma.std()
    assert result.evaluations[0] <= 60_000


@pytest.mark.parametrize("estimator", ["algorithm2", "least_squares"])
def test_least_squares_value_at_n_30(estimator):
    pair_order = PairOrderGame(30, seed=3)
    truth = pair_order.gamma().mean(1)
    result = get_explainer("ordshap", estimator=estimator, budget=60_000).explain(pair_order.game(), seed=1)
    assert np.sqrt(np.mean((result.value[0].numpy() - truth) ** 2)) < 0.15 * truth.std()
    assert result.position is None and result.matrix is None


@pytest.mark.parametrize("estimator", ["algorithm2", "least_squares"])
def test_position_ls_converges_to_the_exact_beta(estimator):
    game, _ = random_ordered_game(4, seed=2)
    beta = get_explainer("ordshap", estimator="exact").explain(game).position_ls[0]
    result = get_explainer("ordshap", estimator=estimator, budget=200_000).explain(game, seed=0)
    assert torch.allclose(result.position_ls[0], beta, atol=0.03)
    slope = get_explainer("ordshap", estimator="exact").explain(game).position[0]
    assert (beta - slope).abs().max() > 0.05, "the two estimands differ on this game"


def test_algorithm1_is_unbiased_on_a_random_game():
    game, _ = random_ordered_game(4, seed=5)
    truth = get_explainer("ordshap", estimator="exact").explain(game)
    method = get_explainer("ordshap", estimator="algorithm1", budget=160)
    runs = [method.explain(game, seed=seed) for seed in range(200)]
    for name in ("value", "position", "matrix"):
        draws = torch.stack([getattr(run, name)[0] for run in runs])
        error = (draws.mean(0) - getattr(truth, name)[0]) / (draws.std(0) / 200**0.5)
        assert error.abs().max() < 4.5, name


def test_algorithm1_leaves_unreached_cells_nan_never_zero():
    game = PairOrderGame(10, seed=0).game()
    result = get_explainer("ordshap", estimator="algorithm1", budget=100).explain(game)
    assert result.audit[0]["empty_cells"] == result.matrix[0].isnan().sum() == 50
    assert result.value.isfinite().all() and result.position.isfinite().all()
    full = get_explainer("ordshap", estimator="algorithm1", budget=200).explain(game)
    assert full.audit[0]["empty_cells"] == 0 and full.matrix.isfinite().all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 9), budget=st.integers(70, 400))
def test_walks_are_efficient_and_within_budget(seed, n, budget):
    pair_order = PairOrderGame(n, seed) if n > 1 else None
    game = pair_order.game() if pair_order else ordered_game(lambda slots: 2.0 if slots[0] == 0 else 0.5, 1)
    result = get_explainer("ordshap", budget=budget).explain(game, seed=seed)
    assert abs(result.audit[0]["efficiency_gap"]) < 1e-9
    assert result.evaluations[0] <= budget
    assert torch.allclose(result.matrix.mean(2), result.value, atol=1e-9)


@pytest.mark.parametrize("estimator", SAMPLING)
def test_null_player_gets_nothing_in_expectation_and_a_duplicate_of_the_mask_exactly_nothing(estimator):
    def f(tokens: torch.Tensor) -> torch.Tensor:
        return (tokens == 1).double() @ torch.arange(1.0, 6.0, dtype=torch.float64)

    game = Game.from_function(f, torch.tensor([[1, 0, 1, 1, 0]]), 0)
    result = get_explainer("ordshap", estimator=estimator, budget=3000).explain(game, seed=1)
    tolerance = 1e-12 if estimator in ("walks", "algorithm1") else 0.35
    assert result.value[0, [1, 4]].abs().max() < tolerance


@pytest.mark.parametrize("estimator", [*SAMPLING, "exact"])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_short_sequences(estimator, n):
    def f(tokens: torch.Tensor) -> torch.Tensor:
        return (tokens * torch.arange(1, tokens.shape[1] + 1)).sum(1).double()

    game = Game.from_function(f, torch.arange(5, 5 + n)[None], 0)
    options = {} if estimator == "exact" else {"budget": 400}
    result = get_explainer("ordshap", estimator=estimator, **options).explain(game, seed=0)
    assert result.value.shape == (1, n)
    assert result.value.isfinite().all()
    if n == 0:
        assert result.evaluations.tolist() == [0]
    if n == 1:
        assert result.value.tolist() == [[5.0]]
    if n == 2 and estimator in ("walks", "exact", "algorithm1"):
        assert torch.allclose(result.value[0], torch.tensor([7.5, 9.0]).double(), atol=1.0)
    if n == 2 and estimator == "exact":
        assert torch.allclose(result.matrix[0], torch.tensor([[5.0, 10.0], [6.0, 12.0]]).double())


@pytest.mark.parametrize("estimator", SAMPLING)
def test_batch_size_order_and_company_change_nothing_beyond_rounding(estimator):
    weights = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.tanh(weights[tokens, torch.arange(6)].sum(1))

    x = torch.randint(1, 40, (3, 6), generator=torch.Generator().manual_seed(1))
    method = get_explainer("ordshap", estimator=estimator, budget=500)
    together = method.explain(Game.from_function(f, x, 0), seed=4)
    small = method.explain(Game.from_function(f, x.flip(0), 0, batch_tokens=17), seed=4)
    alone = method.explain(Game.from_function(f, x[1:2], 0, batch_tokens=6), seed=4)
    assert torch.allclose(together.value, small.value.flip(0), atol=1e-9)
    assert torch.allclose(together.value[1:2], alone.value, atol=1e-9)
    other = method.explain(Game.from_function(f, x, 0), seed=5)
    assert not torch.allclose(together.value, other.value, atol=1e-9)


@pytest.mark.parametrize("estimator", SAMPLING)
def test_budget_too_small_is_an_error_with_the_least_that_works(estimator):
    game = PairOrderGame(12, seed=0).game()
    with pytest.raises(ValueError, match=r"budget is 5 .*12 players needs at least (\d+)") as error:
        get_explainer("ordshap", estimator=estimator, budget=5).explain(game)
    least = int(str(error.value).split("at least ")[1].split(";")[0])
    result = get_explainer("ordshap", estimator=estimator, budget=least).explain(game)
    assert result.evaluations[0] <= least


def test_exact_refuses_what_it_cannot_enumerate():
    with pytest.raises(ValueError, match="9 players needs 17,572,114 evaluations"):
        get_explainer("ordshap", estimator="exact").explain(PairOrderGame(9, seed=0).game())


def test_walks_are_exact_cell_by_cell_after_whole_cycles_on_a_game_without_interactions():
    """f = sum of token * slot: gamma[i, l] = x_i (l + 1); 8 pairs of 2n - 1 = 3 evaluations, and the empty one."""
    game = Game.from_function(lambda t: (t * torch.tensor([1, 2])).sum(1).double(), torch.tensor([[5, 6]]), 0)
    result = get_explainer("ordshap", budget=1 + 8 * 3).explain(game, seed=0)
    assert torch.allclose(result.matrix[0], torch.tensor([[5.0, 10.0], [6.0, 12.0]]).double())
    assert torch.allclose(result.position[0], torch.tensor([5.0, 6.0]).double())


def test_placements_are_all_there_in_order():
    rows = placements(4)
    assert len(rows) == placements_count(4) == 209
    assert rows.tolist() == sorted(rows.tolist())


def test_option_of_another_estimator_is_an_error():
    with pytest.raises(ValueError, match="'subsets' belongs to estimator 'algorithm1'"):
        get_explainer("ordshap", estimator="walks", subsets=4)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n=st.integers(2, 7),
    null=st.integers(0, 6),
    batch_tokens=st.integers(1, 60),
    estimator=st.sampled_from(["walks", "algorithm1"]),
)
def test_a_null_player_gets_exactly_nothing_whatever_the_batches(seed, n, null, batch_tokens, estimator):
    """The null player's token adds nothing in any slot; estimators made of marginal contributions give it exactly 0."""
    rng = np.random.default_rng(seed)
    effect = torch.tensor(rng.normal(size=(n + 1, n)))
    effect[0] = 0
    effect[1 + null % n] = 0

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.tanh(effect[tokens, torch.arange(n)].sum(1))

    x = torch.arange(1, n + 1)[None]
    method = get_explainer("ordshap", estimator=estimator, budget=200)
    result = method.explain(Game.from_function(f, x, 0), seed=seed)
    chunked = method.explain(Game.from_function(f, x, 0, batch_tokens=batch_tokens), seed=seed)
    assert result.value[0, null % n].abs() < 1e-12 and result.position[0, null % n].abs() < 1e-12
    assert torch.allclose(result.matrix.nan_to_num(), chunked.matrix.nan_to_num(), atol=1e-9)
    assert result.evaluations.tolist() == chunked.evaluations.tolist()
