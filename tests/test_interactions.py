"""Interaction indices: the paper's Table 1, brute force, shapiq, identities, sampling, bad input."""

from __future__ import annotations

from fractions import Fraction as F
from statistics import NormalDist

import numpy as np
import pytest
import torch

from explainers import Game, get_explainer
from explainers.interactions import WEIGHTS
from tests.games import naive_shapley
from tests.naive_sets import (
    as_dict,
    as_fractions,
    game_of,
    majority,
    naive_index,
    sets_up_to,
    smooth_game,
    table_game,
    with_crosses,
    worth_of,
)

INDICES = ("SI", "GS", "AV", "ST")
SEEDS = 200


def exact(index: str, game: Game, order: int) -> dict[tuple[int, ...], float]:
    return as_dict(get_explainer("interactions", index=index, order=order, estimator="exact").explain(game))


def table_1_majority() -> dict[tuple[str, int], tuple[F, ...]]:
    """Printed values, except GS of a pair: 1, printed 1/2, which its formula does not give."""
    return {
        ("SI", 3): (F(1, 3), F(0), F(-2)),
        ("GS", 3): (F(1, 3), F(1), F(1)),
        ("AV", 3): (F(-1, 3), F(1, 3), F(0)),
        ("ST", 2): (F(0), F(1, 3)),
        ("ST", 3): (F(0), F(1), F(-2)),
    }


def table_1_crosses(c: F) -> dict[tuple[str, int], tuple[F, ...]]:
    """Printed values, except SI of a pair: c/2, printed c/3, which its formula does not give."""
    return {
        ("SI", 3): ((3 + c) / 3, c / 2, c),
        ("GS", 3): ((3 + c) / 3, (4 + c) / 2, 3 + c),
        ("AV", 3): (-c / 12, -c / 6, c * F(3, 4)),
        ("ST", 2): (F(1), c / 3),
        ("ST", 3): (F(1), F(0), c),
    }


TABLE_1 = [(majority, table_1_majority())]
TABLE_1 += [(with_crosses(c), table_1_crosses(c)) for c in (F(-2), F(5, 7), F(3))]


@pytest.mark.parametrize(("v", "printed"), TABLE_1, ids=["majority", "crosses -2", "crosses 5/7", "crosses 3"])
def test_table_1_as_exact_rationals(v, printed):
    for (index, order), by_size in printed.items():
        wanted = {members: by_size[len(members) - 1] for members in sets_up_to(3, order)}
        assert naive_index(index, v, 3, order) == wanted, index
        assert as_fractions(exact(index, game_of(v, 3), order)) == wanted, index


def test_the_two_misprints_of_table_1():
    assert naive_index("GS", majority, 3, 2)[0, 1] == 1
    assert naive_index("SI", with_crosses(F(6)), 3, 2)[0, 1] == 3  # c/2, not c/3


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (2, 2), (3, 2), (4, 4), (5, 3), (6, 2)])
def test_exact_agrees_with_brute_force(index, n, k):
    worth = np.random.default_rng([n, k]).normal(size=2**n) * 3 + 1
    wanted = naive_index(index, worth_of(worth), n, k)
    found = exact(index, table_game(worth), k)
    assert list(found) == list(wanted)
    assert max(abs(found[members] - float(wanted[members])) for members in wanted) < 1e-10


@pytest.mark.parametrize(("index", "theirs"), [("SI", "SII"), ("ST", "STII"), ("GS", "SGV")])
def test_exact_agrees_with_shapiq(index, theirs):
    shapiq = pytest.importorskip("shapiq.game_theory.exact", reason="shapiq is not installed")
    worth = np.random.default_rng(0).normal(size=2**6)
    worth[0] = 0.0
    codes = 2 ** np.arange(6)
    computer = shapiq.ExactComputer(n_players=6, game=lambda kept: worth[np.asarray(kept).astype(int) @ codes])
    for k in (1, 2, 3, 4):
        values = computer(theirs, order=k)
        found = exact(index, table_game(worth), k)
        assert max(abs(found[members] - values[members]) for members in found) < 1e-10


@pytest.mark.parametrize("index", ["SI", "GS", "ST"])
def test_order_1_is_the_shapley_value(index):
    worth = np.random.default_rng(0).normal(size=2**5)
    result = get_explainer("interactions", index=index, order=1).explain(table_game(worth))
    assert np.allclose(result.value[0], naive_shapley(worth_of(worth), 5), atol=1e-12)


def test_shapley_taylor_is_efficient():
    worth = np.random.default_rng(1).normal(size=2**6)
    for order in (1, 2, 3, 6):
        result = get_explainer("interactions", index="ST", order=order).explain(table_game(worth))
        assert result.sets["value"].sum() == pytest.approx(worth[-1] - worth[0], abs=1e-10)
        assert abs(result.audit[0]["joint_efficiency_gap"]) < 1e-10


@pytest.mark.parametrize(("index", "pair"), [("SI", 0.0), ("ST", 0.0), ("GS", 1.0)])
def test_an_additive_game_of_many_players_is_known(index, pair):
    """No pair of it interacts, and a pair that joins adds both its players."""
    n = 300
    own = np.random.default_rng(0).normal(size=n)
    game = Game.from_set_function(lambda kept: kept.double() @ torch.from_numpy(own), n)
    found = as_dict(get_explainer("interactions", index=index, budget=700).explain(game))
    assert found[4,] == pytest.approx(own[4], abs=1e-9)
    assert found[4, 7] == pytest.approx(pair * (own[4] + own[7]), abs=1e-9)


@pytest.mark.parametrize(("index", "inside"), [("SI", (1, 0)), ("ST", (0, 0)), ("GS", (1, 1)), ("AV", (-1, -1))])
def test_weights_of_a_thousand_players(index, inside):
    """What the drawn part makes of a player of T who adds 1: single weights have left float64, their sums have not."""
    terms = WEIGHTS[index](1000, 2)
    assert [terms[t - 1].additive() for t in (1, 2)] == [pytest.approx((weight, 0), abs=1e-9) for weight in inside]


def test_weights_of_added_values_are_a_distribution():
    for n in (1, 2, 7, 1000):
        terms = WEIGHTS["AV"](n, 1)[0]
        # the weights of the coalitions with the player in them: minus its mean Shapley value's
        assert terms.table[:, 1].sum() == pytest.approx(-1, abs=1e-9)
        assert terms.table[:, 0].sum() == pytest.approx(1, abs=1e-9)


# --- sampling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("index", "order"), [("SI", 2), ("SI", 3), ("GS", 2), ("ST", 2), ("ST", 3), ("AV", 2)])
def test_sampled_is_unbiased_and_its_standard_errors_cover(index, order):
    game = smooth_game(10, seed=5)
    truth = exact(index, game, order)
    budget = 300 if order == 2 else 600
    method = get_explainer("interactions", index=index, order=order, estimator="sampled", budget=budget)
    tables = [method.explain(game, seed=seed).sets for seed in range(SEEDS)]
    wanted = np.array([truth[members] for members in tables[0]["set"]])
    values = np.stack([table["value"] for table in tables])
    errors = np.stack([table["stderr"] for table in tables])
    drawn = errors.min(0) > 0
    assert drawn.any() and np.allclose(values[:, ~drawn], wanted[~drawn], atol=1e-10)
    away = np.abs(values.mean(0) - wanted)[drawn] / (values[:, drawn].std(0, ddof=1) / SEEDS**0.5)
    assert away.max() < NormalDist().inv_cdf(1 - 0.00135 / drawn.sum())
    assert (away**2).mean() < 2
    covered = (np.abs(values - wanted) < 1.96 * errors)[:, drawn]
    assert 0.90 < covered.mean() < 0.98


def test_shapley_taylor_below_the_order_is_not_sampled():
    """Sets below the order have their derivative at the empty coalition, which is evaluated, not estimated."""
    game = smooth_game(12)
    found = get_explainer("interactions", index="ST", order=3, estimator="sampled", budget=400).explain(game).sets
    truth = exact("ST", game, 3)
    small = found[found["set"].map(len) < 3]
    assert (small["stderr"] == 0).all() and (found["stderr"] > 0).sum() == 220
    assert np.allclose(small["value"], [truth[members] for members in small["set"]], atol=1e-12)


@pytest.mark.parametrize("index", INDICES)
def test_evaluations_stay_within_the_least_budget(index):
    for n in (1, 2, 3, 4, 5, 9):
        for order in range(1, min(n, 3) + 1):
            least = get_explainer("interactions", index=index, order=order, estimator="sampled").least_budget(n)
            method = get_explainer("interactions", index=index, order=order, estimator="sampled", budget=least)
            found = method.explain(smooth_game(n))
            assert found.evaluations[0] <= least <= 2**n
            assert found.sets["value"].notna().all() and found.sets["stderr"].notna().all()


# --- bad input -----------------------------------------------------------------------------------------------------


def test_bad_input_is_told():
    for options, said in (
        ({"index": "BII"}, "Input should be 'SI', 'ST', 'GS' or 'AV'"),
        ({"order": 0}, "greater than or equal to 1"),
        ({"order": 6}, "order is 6, and no set of a sample of 5 players is so large"),
        ({"estimator": "exact", "budget": 31}, "needs at least 32"),
        ({"index": "AV", "estimator": "sampled", "budget": 12}, "a sample of 5 players needs at least 26"),
        ({"estimator": "exact", "max_players": 4}, "2^5 evaluations and 512 bytes"),
    ):
        with pytest.raises(ValueError) as error:
            get_explainer("interactions", **options).explain(smooth_game(5))
        assert said in str(error.value)
