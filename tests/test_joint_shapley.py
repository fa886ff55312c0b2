"""Joint Shapley values: the paper's tables, axioms, brute force, sampling, bad input, values over samples."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from explainers import Explainer, Explanation, Game, get_explainer
from explainers.joint_shapley.weights import joint_terms, log_weights
from explainers.set_values.over_samples import mean_absolute, presence_adjusted
from explainers.set_values.terms import log_binomial
from tests.games import naive_shapley
from tests.naive_sets import (
    as_dict,
    as_fractions,
    game_of,
    majority,
    naive_joint,
    naive_weights,
    sets_up_to,
    smooth_game,
    table_game,
    with_crosses,
    worth_of,
)

SEEDS = 200


def exact(game: Game, order: int) -> dict[tuple[int, ...], float]:
    return as_dict(get_explainer("joint_shapley", order=order, estimator="exact").explain(game))


# --- exact ---------------------------------------------------------------------------------------------------------

MAJORITY = {1: (F(1, 3),), 2: (F(1, 9), F(2, 9)), 3: (F(2, 21), F(4, 21), F(3, 21))}


def crosses(c: F) -> dict[int, tuple[F, ...]]:
    return {
        1: (F(1, 3) * (3 + c),),
        2: (F(5, 18) * (2 + c), F(1, 18) * (8 + c)),
        3: (F(5, 21) * (2 + c), F(1, 21) * (8 + c), F(3, 21) * (3 + c)),
    }


TABLE_1 = [(majority, MAJORITY)] + [(with_crosses(c), crosses(c)) for c in (F(-2), F(5, 7), F(3))]


@pytest.mark.parametrize(("v", "printed"), TABLE_1, ids=["majority", "crosses -2", "crosses 5/7", "crosses 3"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_table_1_as_exact_rationals(v, printed, k):
    wanted = {members: printed[k][len(members) - 1] for members in sets_up_to(3, k)}
    assert naive_joint(v, 3, k) == wanted
    assert as_fractions(exact(game_of(v, 3), k)) == wanted


TABLE_3 = {
    "x1": (lambda x: x[:, 0], (F(5, 21), F(0), F(0), F(1, 21), F(1, 21), F(0), F(1, 56))),
    "x1 + x2": (lambda x: x[:, 0] + x[:, 1], (F(5, 21), F(5, 21), F(0), F(2, 21), F(1, 21), F(1, 21), F(1, 28))),
    "x1 x2": (lambda x: x[:, 0] * x[:, 1], (F(5, 42), F(5, 42), F(0), F(1, 14), F(1, 42), F(1, 42), F(3, 112))),
}


@pytest.mark.parametrize("name", TABLE_3)
def test_table_3_as_exact_rationals(name):
    """All eight Bernoulli(1/2) vectors are the samples and the background: what n to infinity gives."""
    f, printed = TABLE_3[name]
    cube = torch.tensor(list(itertools.product([0.0, 1.0], repeat=3)), dtype=torch.float64)
    game = Game.from_background(f, cube, cube)
    sets = get_explainer("joint_shapley", order=3, estimator="exact").explain(game).sets
    values = presence_adjusted(sets, cube)
    assert as_fractions(dict(zip(values["set"], values["value"], strict=True))) == dict(
        zip(sets_up_to(3, 3), printed, strict=True)
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_order_1_is_the_shapley_value(n):
    worth = np.random.default_rng(n).normal(size=2**n)
    result = get_explainer("joint_shapley", order=1, estimator="exact").explain(table_game(worth))
    assert np.allclose(result.value[0], naive_shapley(worth_of(worth), n), atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(n, k) for n in (1, 2, 3, 4, 6) for k in range(1, n + 1)] + [(8, 3)])
def test_exact_agrees_with_brute_force(n, k):
    worth = np.random.default_rng([n, k]).normal(size=2**n) * 3 + 1
    wanted = naive_joint(worth_of(worth), n, k)
    found = exact(table_game(worth), k)
    assert list(found) == list(wanted) == sets_up_to(n, k)
    assert max(abs(found[members] - float(wanted[members])) for members in wanted) < 1e-10


def test_exact_agrees_with_shapiq():
    shapiq = pytest.importorskip("shapiq.game_theory.exact", reason="shapiq is not installed")
    worth = np.random.default_rng(0).normal(size=2**7)
    worth[0] = 0.0
    codes = 2 ** np.arange(7)
    theirs = shapiq.ExactComputer(n_players=7, game=lambda kept: worth[np.asarray(kept).astype(int) @ codes])
    for k in (1, 2, 3, 4):
        values = theirs("JointSV", order=k)
        found = exact(table_game(worth), k)
        assert max(abs(found[members] - values[members]) for members in found) < 1e-10


def test_exact_beyond_one_block_and_at_any_order():
    """An additive game's values are known at any n: the total weight of the S that avoid T, times T's own worth."""
    n, k = 17, 4
    own = np.random.default_rng(0).normal(size=n)
    game = Game.from_set_function(lambda kept: kept.double() @ torch.from_numpy(own) + 2, n)
    result = get_explainer("joint_shapley", order=k, estimator="exact").explain(game)
    q = naive_weights(n, k)
    mass = [float(sum(math.comb(n - t, s) * q[s] for s in range(n - t + 1))) for t in range(1, k + 1)]
    for members, value in as_dict(result).items():
        assert value == pytest.approx(mass[len(members) - 1] * own[list(members)].sum(), abs=1e-12)
    assert result.evaluations.tolist() == [2**n]


@pytest.mark.parametrize(("n", "k"), [(3, 3), (20, 2), (150, 2), (300, 3)])
def test_weights_are_those_of_eq_2(n, k):
    wanted = [math.log(q.numerator) - math.log(q.denominator) for q in naive_weights(n, k)]
    assert np.allclose(log_weights(n, k), wanted, atol=1e-10, rtol=0)
    for terms in joint_terms(n, k):
        s = np.arange(n - terms.size + 1)
        assert np.allclose(terms.mass, np.exp(log_binomial(n - terms.size, s) + np.array(wanted)[s]), rtol=1e-9)


def test_weights_when_the_order_is_n():
    n = 12
    wanted = [sum(math.comb(r, j) * (-2.0) ** (r - j) / (2 ** (n - j) - 1) for j in range(r + 1)) for r in range(n)]
    assert np.allclose(np.exp(log_weights(n, n)), wanted, atol=1e-12)


def test_weights_at_a_thousand_players():
    """Section 3: the weights of the last k sizes sum to 1 over all coalitions."""
    log = log_weights(1000, 3)
    assert np.isfinite(log).all() and log.min() < -708  # exp of it is 1e-308: where float64 ends
    last = np.arange(997, 1000)
    assert np.exp(log[last] + log_binomial(1000, last)).sum() == pytest.approx(1, abs=1e-9)


# --- axioms --------------------------------------------------------------------------------------------------------


@st.composite
def cases(draw) -> tuple[int, int, np.random.Generator]:
    n = draw(st.integers(1, 6))
    return n, draw(st.integers(1, n)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


def from_classes(n: int, equal: list[tuple[int, int]], rng: np.random.Generator) -> np.ndarray:
    """Return random worths (2^n,) in which the given pairs of coalitions are worth the same, and the empty one 0."""
    root = list(range(2**n))

    def find(code: int) -> int:
        while root[code] != code:
            code = root[code]
        return code

    for one, other in equal:
        root[find(one)] = find(other)
    draws = rng.normal(size=2**n)
    draws[find(0)] = 0.0
    return draws[[find(code) for code in range(2**n)]]


def code_of(members: tuple[int, ...]) -> int:
    return sum(1 << i for i in members)


def some_set(n: int, k: int, rng: np.random.Generator) -> tuple[int, ...]:
    size = int(rng.integers(1, k + 1))
    return tuple(sorted(rng.choice(n, size=size, replace=False).tolist()))


@settings(max_examples=40, deadline=None)
@given(cases(), st.floats(-5, 5))
def test_joint_linearity(case, factor):
    n, k, rng = case
    one, other = rng.normal(size=(2, 2**n))
    both = exact(table_game(one + factor * other), k)
    left, right = exact(table_game(one), k), exact(table_game(other), k)
    assert all(both[t] == pytest.approx(left[t] + factor * right[t], abs=1e-10) for t in both)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_joint_null(case):
    n, k, rng = case
    null = code_of(members := some_set(n, k, rng))
    worth = from_classes(n, [(s | null, s) for s in range(2**n) if not s & null], rng)
    assert exact(table_game(worth), k)[members] == pytest.approx(0, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_joint_efficiency(case):
    n, k, rng = case
    worth = rng.normal(size=2**n)
    result = get_explainer("joint_shapley", order=k, estimator="exact").explain(table_game(worth))
    assert result.sets["value"].sum() == pytest.approx(worth[-1] - worth[0], abs=1e-10)
    assert abs(result.audit[0]["joint_efficiency_gap"]) < 1e-10


@settings(max_examples=40, deadline=None)
@given(cases())
def test_joint_anonymity(case):
    n, k, rng = case
    worth = rng.normal(size=2**n)
    sigma = rng.permutation(n)
    moved = np.empty(2**n)
    for code in range(2**n):
        moved[code_of(tuple(int(sigma[i]) for i in range(n) if code >> i & 1))] = worth[code]
    before, after = exact(table_game(worth), k), exact(table_game(moved), k)
    assert all(before[t] == pytest.approx(after[tuple(sorted(sigma[list(t)].tolist()))], abs=1e-10) for t in before)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_joint_symmetry(case):
    n, k, rng = case
    one, other = some_set(n, k, rng), some_set(n, k, rng)
    a, b = code_of(one), code_of(other)
    equal = [(s | a, s | b) for s in range(2**n) if not s & (a | b)]
    equal += [(s | a, s) for s in range(2**n) if not s & a and s & b]
    equal += [(s | b, s) for s in range(2**n) if not s & b and s & a]
    found = exact(table_game(from_classes(n, equal, rng)), k)
    assert found[one] == pytest.approx(found[other], abs=1e-12)


# --- the result ----------------------------------------------------------------------------------------------------


def test_the_table_is_tidy_and_the_singles_are_the_value():
    tokens = torch.tensor([[4, 1, 3, 2], [2, 2, 5, 9]])
    game = Game.from_function(lambda t: (t[:, 0] * t[:, 1] + t.sum(1)).double(), tokens, 0)
    result = get_explainer("joint_shapley", order=2, estimator="exact").explain(game)
    assert list(result.sets.columns) == ["sample", "set", "value", "stderr"]
    assert result.sets["sample"].tolist() == [0] * 10 + [1] * 10
    assert result.sets["set"].tolist() == sets_up_to(4, 2) * 2
    assert (result.sets["stderr"] == 0).all()
    singles = result.sets[result.sets["set"].map(len) == 1]["value"].to_numpy().reshape(2, 4)
    assert np.array_equal(singles, result.value.numpy())


def test_what_the_empty_coalition_is_worth_is_subtracted_and_said():
    plain, lifted = smooth_game(5), smooth_game(5, empty=0.75)
    for estimator, budget in (("exact", 100), ("sampled", 24)):
        method = get_explainer("joint_shapley", estimator=estimator, budget=budget)
        one, other = method.explain(plain), method.explain(lifted)
        assert np.allclose(one.sets["value"], other.sets["value"], atol=1e-12)
        assert one.audit[0]["empty_value"] == 0 and other.audit[0]["empty_value"] == 0.75


def test_auto_is_exact_where_the_budget_holds_all_coalitions():
    game = smooth_game(6)
    assert (
        get_explainer("joint_shapley", budget=64)
        .explain(game)
        .sets.equals(get_explainer("joint_shapley", estimator="exact").explain(game).sets)
    )
    drawn = get_explainer("joint_shapley", budget=63).explain(game)
    assert drawn.audit[0]["replicates"] > 1 and (drawn.sets["stderr"] > 0).all()


def test_samples_batches_and_company_do_not_matter():
    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.sin(tokens.double() * torch.arange(1, 10)).sum(1).tanh()

    tokens = torch.from_numpy(np.random.default_rng(0).integers(1, 30, size=(3, 9)))
    for options in ({}, {"sets": ((0, 1), (2,))}, {"top_pairs": 3}):
        method = get_explainer("joint_shapley", estimator="sampled", budget=150, **options)
        together = method.explain(Game.from_function(f, tokens, 0)).sets
        alone = method.explain(Game.from_function(f, tokens[2:], 0, batch_tokens=40)).sets
        last = together[together["sample"] == 2].reset_index(drop=True)
        assert last["set"].tolist() == alone["set"].tolist()
        assert np.allclose(last[["value", "stderr"]], alone[["value", "stderr"]], atol=1e-12)


# --- sampling ------------------------------------------------------------------------------------------------------


def runs(method: Explainer, game: Game) -> list[Explanation]:
    return [method.explain(game, seed=seed) for seed in range(SEEDS)]


def assert_unbiased_and_covering(method: Explainer, game: Game, truth: dict[tuple[int, ...], float]) -> None:
    """Within 3 standard errors over the seeds, widened for the number of sets; intervals cover 90 to 98 %."""
    tables = [explanation.sets for explanation in runs(method, game)]
    wanted = np.array([truth[members] for members in tables[0]["set"]])
    values = np.stack([table["value"] for table in tables])
    errors = np.stack([table["stderr"] for table in tables])
    drawn = errors.min(0) > 0
    assert drawn.any() and np.allclose(values[:, ~drawn], wanted[~drawn], atol=1e-10)
    spread = values[:, drawn].std(0, ddof=1) / SEEDS**0.5
    away = np.abs(values.mean(0) - wanted)[drawn] / spread
    assert away.max() < NormalDist().inv_cdf(1 - 0.00135 / drawn.sum())
    assert (away**2).mean() < 2
    covered = (np.abs(values - wanted) < 1.96 * errors)[:, drawn]
    assert 0.90 < covered.mean() < 0.98


SAMPLED = [
    (10, {"order": 2, "budget": 300}),
    (10, {"order": 3, "budget": 600}),
    (10, {"order": 3, "budget": 1000, "sets": ((0,), (7,), (1, 4), (2, 5), (3, 6, 8))}),
    (40, {"order": 2, "budget": 1500, "sets": ((0,), (1, 30))}),
]


@pytest.mark.parametrize(("n", "options"), SAMPLED)
def test_sampled_is_unbiased_and_its_standard_errors_cover(n, options):
    game = smooth_game(n, seed=n)
    truth = exact(game, options["order"]) if n < 20 else additive_truth(n, options["order"])
    game = game if n < 20 else additive_game(n)
    assert_unbiased_and_covering(get_explainer("joint_shapley", estimator="sampled", **options), game, truth)


def own_worths(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=n)


def additive_game(n: int) -> Game:
    """Return an additive game with a bonus for size, whose values are known at any n."""
    own = torch.from_numpy(own_worths(n))
    return Game.from_set_function(lambda kept: kept.double() @ own + 20 * kept.sum(1).double().sqrt(), n)


def additive_truth(n: int, k: int) -> dict[tuple[int, ...], float]:
    q, own, truth = naive_weights(n, k), own_worths(n), {}
    for t in range(1, k + 1):
        mass = [float(math.comb(n - t, s) * q[s]) for s in range(n - t + 1)]
        bonus = sum(weight * 20 * (math.sqrt(s + t) - math.sqrt(s)) for s, weight in enumerate(mass))
        for members in itertools.combinations(range(n), t):
            truth[members] = sum(mass) * own[list(members)].sum() + bonus
    return truth


def test_sampled_is_unbiased_on_a_game_of_independent_worths():
    worth = np.random.default_rng(3).normal(size=2**6)
    method = get_explainer("joint_shapley", order=2, estimator="sampled", budget=50)
    truth = exact(table_game(worth), 2)
    values = np.stack([found.sets["value"] for found in runs(method, table_game(worth))])
    away = (values.mean(0) - np.array(list(truth.values()))) / (values.std(0, ddof=1) / SEEDS**0.5)
    assert np.abs(away).max() < NormalDist().inv_cdf(1 - 0.00135 / len(truth))


def test_sampling_converges_and_its_errors_shrink_with_the_budget():
    game = smooth_game(14, seed=1)
    truth = np.array(list(exact(game, 2).values()))
    errors = []
    for budget in (200, 2000, 8000):
        found = get_explainer("joint_shapley", estimator="sampled", budget=budget).explain(game).sets
        errors.append(np.sqrt(np.mean((found["value"] - truth) ** 2)))
        assert 0.5 < errors[-1] / np.sqrt(np.mean(found["stderr"] ** 2)) < 2
    assert errors[2] < errors[1] / 3 < errors[0] / 9
    assert errors[2] < 0.01 * truth.std()


def test_a_budget_for_all_coalitions_leaves_no_error():
    game = smooth_game(7, seed=1)
    found = get_explainer("joint_shapley", estimator="sampled", order=3, budget=128).explain(game)
    assert found.evaluations.tolist() == [128]
    assert np.allclose(found.sets["value"], list(exact(game, 3).values()), atol=1e-12)
    assert (found.sets["stderr"] == 0).all()


def test_an_additive_game_is_sampled_without_error():
    own = torch.from_numpy(own_worths(60))
    game = Game.from_set_function(lambda kept: kept.double() @ own + 1, 60)
    q = naive_weights(60, 2)
    mass = [float(sum(math.comb(60 - t, s) * q[s] for s in range(61 - t))) for t in (1, 2)]
    found = get_explainer("joint_shapley", budget=200).explain(game).sets
    wanted = [mass[len(members) - 1] * float(own[list(members)].sum()) for members in found["set"]]
    assert np.allclose(found["value"], wanted, atol=1e-12)


def test_given_sets_only():
    game = smooth_game(9)
    truth = exact(game, 3)
    sets = [(4, 2, 7), (3,), (0, 1)]
    for estimator in ("exact", "sampled"):
        found = get_explainer("joint_shapley", order=3, estimator=estimator, budget=600, sets=sets).explain(game)
        assert found.sets["set"].tolist() == [(3,), (0, 1), (2, 4, 7)]
        away = [abs(value - truth[members]) for members, value in as_dict(found).items()]
        assert (np.array(away) <= 4 * found.sets["stderr"].to_numpy() + 1e-12).all()
        assert abs(float(found.value[0, 3]) - truth[3,]) <= 4 * found.sets["stderr"][0] + 1e-12
        if estimator == "exact":
            assert found.value.isfinite().all(), "the other single players cost nothing"
        else:
            assert found.value.isfinite().sum() == 1, "what was not asked for is NaN, never 0"


def test_given_sets_of_all_players_and_of_a_thousand():
    own = torch.from_numpy(own_worths(1000))
    game = Game.from_set_function(lambda kept: kept.double() @ own, 1000)
    sets = ((0,), (1, 2), (3, 4, 5), (997, 998, 999))
    found = get_explainer("joint_shapley", order=3, budget=100, sets=sets).explain(game)
    masses = [float(terms.mass.sum()) for terms in joint_terms(1000, 3)]
    for members, value in as_dict(found).items():
        assert value == pytest.approx(masses[len(members) - 1] * float(own[list(members)].sum()), rel=0.5)
    whole = get_explainer("joint_shapley", order=3, estimator="sampled", budget=30, sets=((0, 1, 2),))
    assert as_dict(whole.explain(game_of(majority, 3))) == {(0, 1, 2): pytest.approx(3 / 21)}


def test_top_pairs_are_found_and_estimated_anew():
    n, heavy = 12, (3, 7, 8)

    def v(kept: torch.Tensor) -> torch.Tensor:
        return kept[:, heavy].double().sum(1) + 0.3 * smooth_game(n).evaluate(0, kept)

    game = Game.from_set_function(v, n)
    truth = exact(game, 2)
    best = sorted(sorted(itertools.combinations(range(n), 2), key=lambda pair: -abs(truth[pair]))[:3])
    assert best == list(itertools.combinations(heavy, 2))
    for estimator in ("exact", "sampled"):
        found = get_explainer("joint_shapley", top_pairs=3, estimator=estimator, budget=4096).explain(game)
        assert found.sets["set"].tolist() == [(i,) for i in range(n)] + best
        away = np.abs(found.sets["value"] - [truth[members] for members in found.sets["set"]])
        assert (away <= 4 * found.sets["stderr"] + 1e-12).all()
        assert found.value.isfinite().all() and found.evaluations[0] <= 4096
    assert len(get_explainer("joint_shapley", top_pairs=99).explain(smooth_game(3)).sets) == 3 + 3


def test_estimates_of_top_pairs_are_not_biased_by_their_choice():
    game = smooth_game(12, seed=4)
    truth = exact(game, 2)
    method = get_explainer("joint_shapley", estimator="sampled", top_pairs=4, budget=500)
    away, chosen = [], []
    for found in runs(method, game):
        pairs = found.sets.iloc[12:]
        chosen.append(np.abs(pairs["value"]).sum() - sum(abs(truth[members]) for members in pairs["set"]))
        away.extend(np.abs(pairs["value"] - [truth[members] for members in pairs["set"]]) < 1.96 * pairs["stderr"])
    assert abs(np.mean(chosen)) < 3 * np.std(chosen) / SEEDS**0.5
    assert 0.88 < np.mean(away) < 0.98


# --- arrivals (App. A) ---------------------------------------------------------------------------------------------


def arrivals(n: int, k: int, rng: np.random.Generator) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Simulate App. A literally: (who had arrived, who arrives) until all are there."""
    there: tuple[int, ...] = ()
    steps = []
    while len(there) < n:
        waiting = [i for i in range(n) if i not in there]
        choices = [c for size in range(1, min(k, len(waiting)) + 1) for c in itertools.combinations(waiting, size)]
        joins = choices[rng.integers(len(choices))]
        steps.append((there, joins))
        there = tuple(sorted(there + joins))
    return steps


def test_sets_that_never_arrive_count_as_zero():
    """n = 4, k = 2: leaving the zeros out inflates by 1/P(T arrives), P = 7/15 for a player and 8/45 for a pair."""
    n, k, rounds = 4, 2, 6000
    chances = [as_fractions({(): float(terms.mass.sum())})[()] for terms in joint_terms(n, k)]
    assert chances == [F(7, 15), F(8, 45)]
    worth = np.random.default_rng(1).normal(size=2**n)
    worth[0] = 0.0
    truth = exact(table_game(worth), k)
    rng = np.random.default_rng(0)
    gains: dict[tuple[int, ...], list[float]] = {members: [] for members in truth}
    for _ in range(rounds):
        for there, joins in arrivals(n, k, rng):
            gains[joins].append(worth[code_of(there + joins)] - worth[code_of(there)])
    for members, values in gains.items():
        with_zeros = np.concatenate([values, np.zeros(rounds - len(values))])
        chance = float(chances[len(members) - 1])
        assert len(values) / rounds == pytest.approx(chance, abs=4 * (chance * (1 - chance) / rounds) ** 0.5)
        assert with_zeros.mean() == pytest.approx(truth[members], abs=4 * with_zeros.std() / rounds**0.5)
        assert np.mean(values) == pytest.approx(truth[members] / chance, abs=4 * np.std(values) / len(values) ** 0.5)


# --- bad input -----------------------------------------------------------------------------------------------------


def refused(**options: Any) -> str:
    with pytest.raises(ValueError) as error:
        get_explainer("joint_shapley", **options).explain(smooth_game(5))
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"order": 0}, "greater than or equal to 1"),
        ({"order": 6}, "order is 6, and no set of a sample of 5 players is so large; lower order to 5"),
        ({"sets": [[0, 0]]}, r"set (0, 0) names a player twice"),
        ({"sets": [[]]}, "set () has no player"),
        ({"sets": [[-1, 2]]}, "set (-1, 2) has no player or a negative one"),
        ({"sets": [[0, 1], [1, 0]]}, "set (0, 1) is given 2 times"),
        ({"sets": [[1, 5]]}, "set (1, 5) names player 5, and a sample of 5 players has players 0 to 4"),
        ({"sets": [[0, 1, 2]]}, "set (0, 1, 2) has 3 players and order is 2; raise order to 3"),
        ({"sets": [[0]], "top_pairs": 1}, "sets and top_pairs=1 are both given"),
        ({"top_pairs": 0}, "greater than or equal to 1"),
        ({"top_pairs": 1, "order": 1}, "top_pairs is 1 and order is 1; raise order to 2 or more"),
        ({"estimator": "exact", "budget": 31}, "budget is 31 evaluations, and a sample of 5 players needs at least 32"),
        ({"estimator": "sampled", "budget": 15}, "needs at least 16; raise budget to 16 or more"),
        ({"estimator": "sampled", "sets": [[0], [1]], "budget": 16}, "needs at least 17"),
        ({"estimator": "exact", "max_players": 4}, "2^5 evaluations and 512 bytes"),
    ],
)
def test_bad_input_is_told(options, said):
    assert said in refused(**options)


def test_an_order_that_nobody_asked_for_is_cut_to_the_sample():
    assert as_dict(get_explainer("joint_shapley").explain(smooth_game(1)))[0,] == pytest.approx(
        float(smooth_game(1).evaluate(0, torch.tensor([[True]])))
    )


def test_too_many_players_are_refused_before_anything_is_evaluated_or_allocated():
    def never(kept: torch.Tensor) -> torch.Tensor:
        raise AssertionError("evaluated")

    with pytest.raises(ValueError, match=r"40 players needs 2\^40 evaluations and 17,592,186,044,416 bytes"):
        get_explainer("joint_shapley", estimator="exact").explain(Game.from_set_function(never, 40))
    with pytest.raises(ValueError, match=r"1000 players needs 2\^1000 evaluations and about 2\^1004 bytes"):
        get_explainer("joint_shapley", estimator="exact").explain(Game.from_set_function(never, 1000))
    with pytest.raises(ValueError, match="166,667,500 sets of up to 3, .* bytes .*; give sets, or lower order"):
        get_explainer("joint_shapley", order=3, budget=10_000).explain(Game.from_set_function(never, 1000))


# --- values over samples -------------------------------------------------------------------------------------------


def local_values() -> pd.DataFrame:
    rows = [(0, (0,), 1.0), (0, (1,), -2.0), (0, (0, 1), 4.0), (1, (0,), -3.0), (1, (1,), 5.0), (1, (0, 1), 6.0)]
    return pd.DataFrame(rows, columns=["sample", "set", "value"])


def test_mean_absolute_by_hand():
    assert mean_absolute(local_values()).values.tolist() == [[(0,), 2.0], [(1,), 3.5], [(0, 1), 5.0]]


def test_presence_adjusted_by_hand():
    """Sample 0 has feature 0 alone, sample 1 has both: signs + - - and + + +."""
    values = presence_adjusted(local_values(), np.array([[1, 0], [1, 1]]))
    assert values.values.tolist() == [[(0,), (1 - 3) / 2], [(1,), (2 + 5) / 2], [(0, 1), (-4 + 6) / 2]]
    assert presence_adjusted(local_values(), torch.tensor([[1.0, 0.0], [1.0, 1.0]])).equals(values)


def test_features_that_are_not_binary_are_refused():
    with pytest.raises(ValueError, match=r"feature 1 of sample 0 is 0.5; presence-adjusted values are for"):
        presence_adjusted(local_values(), np.array([[1, 0.5], [1, 1]]))
    with pytest.raises(ValueError, match="feature 0 of sample 1 is nan"):
        presence_adjusted(local_values(), np.array([[1, 0], [np.nan, 1]]))
    with pytest.raises(ValueError, match="features has 1 rows and the table 2 samples"):
        presence_adjusted(local_values(), np.ones((1, 2)))
    with pytest.raises(ValueError, match="features has 1 columns and a set names player 1"):
        presence_adjusted(local_values(), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"features has shape \(2,\)"):
        presence_adjusted(local_values(), np.ones(2))


def test_a_set_that_some_samples_lack_has_no_global_value():
    with pytest.raises(ValueError, match=r"set \(1,\) has a value in 1 of 2 samples"):
        mean_absolute(local_values().drop(1))


# --- removal by a background ---------------------------------------------------------------------------------------


def product(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0] * x[:, 1] + x[:, 2].exp()


def test_a_background_game_is_eq_7_read_literally():
    rng = np.random.default_rng(0)
    x, background = torch.from_numpy(rng.normal(size=(2, 3))), torch.from_numpy(rng.normal(size=(7, 3)))
    game = Game.from_background(product, x, background)
    kept = torch.tensor(list(itertools.product([False, True], repeat=3)))
    for sample in range(2):
        mixed = [np.mean([float(product(torch.where(row, x[sample], z)[None])) for z in background]) for row in kept]
        assert np.allclose(game.evaluate(sample, kept), mixed, atol=1e-12)
    assert float(game.evaluate(0, kept)[-1]) == pytest.approx(float(product(x[:1])), abs=1e-12)
    assert len(set(game.keys)) == 2


def test_a_background_game_does_not_depend_on_batches_and_keeps_to_them():
    rng = np.random.default_rng(1)
    x, background = torch.from_numpy(rng.normal(size=(1, 3))), torch.from_numpy(rng.normal(size=(50, 3)))
    calls: list[int] = []

    def f(rows: torch.Tensor) -> torch.Tensor:
        calls.append(rows.numel())
        return product(rows)

    kept = torch.tensor(list(itertools.product([False, True], repeat=3)))
    whole = Game.from_background(f, x, background).evaluate(0, kept)
    calls.clear()
    for batch_tokens in (1, 3, 40, 150, 333):
        game = Game.from_background(f, x, background, batch_tokens=batch_tokens)
        calls.clear()
        assert torch.equal(game.evaluate(0, kept), whole)
        assert max(calls) <= max(3, batch_tokens) and sum(calls) == 8 * 50 * 3
        assert game.spent == [8]


def test_one_background_row_is_a_baseline():
    x, baseline = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.5, 0.0, -1.0]])
    game = Game.from_background(product, x, baseline)
    assert float(game.evaluate(0, torch.tensor([[True, False, False]]))) == pytest.approx(math.exp(-1.0))


def test_backgrounds_that_cannot_serve_are_refused():
    x = torch.ones((1, 3))
    with pytest.raises(ValueError, match="background has no rows"):
        Game.from_background(product, x, torch.ones((0, 3)))
    with pytest.raises(ValueError, match=r"background has shape \(4, 2\) and x \(1, 3\); give \(rows, 3\)"):
        Game.from_background(product, x, torch.ones((4, 2)))
    with pytest.raises(ValueError, match=r"x has shape \(3,\)"):
        Game.from_background(product, torch.ones(3), torch.ones((4, 3)))
    with pytest.raises(ValueError, match=r"f returned shape \(4, 3\) for 4 rows; it must return \(4,\)"):
        Game.from_background(lambda rows: rows, x, torch.ones((4, 3))).evaluate(0, torch.ones((1, 3)).bool())
