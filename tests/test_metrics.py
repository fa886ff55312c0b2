"""Metrics: hand-worked areas, ties, permutations, sharing, invariances."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig, BertForSequenceClassification

from explainers import ClassifierGame, Explanation, Game
from explainers.streams import stream
from metrics import compute_all, get_metric, metrics
from metrics.ranking import area, counts, descending, grid, levels

NAMES = (
    *("inc_auc", "exc_auc", "ins_auc", "del_auc"),
    *("inc_auc_fixed", "exc_auc_fixed", "ins_auc_fixed", "del_auc_fixed"),
    *("perm_auc", "log_odds_drop"),
)
FIXED = tuple(name for name in NAMES if name.endswith("_fixed"))


def explained(value: list | np.ndarray, position: list | None = None, position_ls: list | None = None) -> Explanation:
    def rows(entries: list | np.ndarray | None) -> torch.Tensor | None:
        return None if entries is None else torch.tensor(np.atleast_2d(np.array(entries, dtype=float)))

    values = rows(value)
    spent = torch.zeros(len(values), dtype=torch.long)
    return Explanation(values, rows(position), rows(position_ls), None, spent, tuple({} for _ in values))


def additive() -> Game:
    weights = torch.tensor([0.45, 0.1, 0.2, 0.05], dtype=torch.float64)
    return Game.from_set_function(lambda kept: 0.1 + kept.double() @ weights, 4)


def ordered(tokens: torch.Tensor) -> torch.Tensor:
    """Depend on which token is in which slot: (first + 2 last) / 200."""
    return (tokens[:, 0] + 2 * tokens[:, -1]).double() / 200


def test_the_names_and_their_directions():
    assert set(NAMES) == set(metrics())
    better_low = {name for name, kind in metrics().items() if not kind.higher_is_better}
    assert better_low == {"exc_auc", "del_auc", "exc_auc_fixed", "del_auc_fixed"}


def test_unknown_names_and_options_name_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'inc_auc'"):
        get_metric("incauc")
    with pytest.raises(ValueError, match="did you mean 'grid_step'"):
        get_metric("inc_auc", gridstep=4)
    with pytest.raises(ValueError, match="permutations"):
        get_metric("inc_auc", permutations=0)


@pytest.mark.parametrize(
    ("name", "curve", "score"),
    [
        # ranked 0, 2, 1, 3; outputs .1, .1+.45, +.2, +.1, +.05; a function agrees where its output is above one half
        ("ins_auc_fixed", [0.1, 0.55, 0.75, 0.85, 0.9], (0.05 + 0.55 + 0.75 + 0.85 + 0.45) / 4),  # .6625
        ("inc_auc_fixed", [0, 1, 1, 1, 1], (0 + 1 + 1 + 1 + 0.5) / 4),  # .875
        # .9, .9-.45, -.2, -.1, -.05
        ("del_auc_fixed", [0.9, 0.45, 0.25, 0.15, 0.1], (0.45 + 0.45 + 0.25 + 0.15 + 0.05) / 4),  # .3375
        ("exc_auc_fixed", [1, 0, 0, 0, 0], 0.5 / 4),  # .125
    ],
)
def test_hand_worked_areas_of_an_additive_game(name, curve, score):
    for metric in (name, name.removesuffix("_fixed")):  # arrangements do not matter to a set function
        result = get_metric(metric, grid_step=25).compute(additive(), explained([0.45, 0.1, 0.2, 0.05]))
        assert result.curve[0].tolist() == pytest.approx(curve, abs=1e-12)
        assert float(result.score[0]) == pytest.approx(score, abs=1e-12)
        assert result.grid.tolist() == [0, 25, 50, 75, 100]


def test_attributions_rank_by_sign_not_magnitude():
    # -9 is the lowest: ranked 0, 2, 1, 3 as before
    result = get_metric("ins_auc_fixed", grid_step=25).compute(additive(), explained([0.45, 0.1, 0.2, -9.0]))
    assert float(result.score[0]) == pytest.approx(0.6625, abs=1e-12)


def test_log_odds_drop_by_hand():
    # p = .9, .45, .25, .15, .1: odds 9, 9/11, 1/3, 3/17, 1/9
    result = get_metric("log_odds_drop", grid_step=25).compute(additive(), explained([0.45, 0.1, 0.2, 0.05]))
    curve = [0, math.log(11), math.log(27), math.log(51), math.log(81)]
    assert result.curve[0].tolist() == pytest.approx(curve, abs=1e-12)
    assert float(result.score[0]) == pytest.approx((math.log(11 * 27 * 51) + math.log(81) / 2) / 4, abs=1e-12)


def test_log_odds_are_clipped():
    # one player: p = 1 with it, 0 without: both clipped by 1e-6, so the drop is 2 log((1 - 1e-6) / 1e-6)
    game = Game.from_set_function(lambda kept: kept[:, 0].double(), 1)
    result = get_metric("log_odds_drop", grid_step=50).compute(game, explained([1.0]))
    assert result.curve[0].tolist() == pytest.approx([0, 0, 2 * math.log((1 - 1e-6) / 1e-6)], rel=1e-9)


def test_perm_auc_moves_by_hand():
    # tokens by player 10..50; position importance + .5, + 3, - 1, - 2, 0; most extreme outermost:
    # 20 %: player 1 to the end       0 2 3 4 1   10 + 2*20 =  50
    # 40 %: player 3 to the front     3 0 2 4 1   40 + 2*20 =  80
    # 60 %: player 2 behind it        3 2 0 4 1   80
    # 80 %: player 0 before player 1  3 2 4 0 1   80
    # 100 %: player 4 is 0, it stays              80        (0 %: 10 + 2*50 = 110)
    rows: list[list[int]] = []

    def f(tokens: torch.Tensor) -> torch.Tensor:
        rows.extend(tokens.tolist())
        return ordered(tokens)

    game = Game.from_function(f, torch.tensor([[10, 20, 30, 40, 50]]), ablated=0)
    position = [0.5, 3.0, -1.0, -2.0, 0.0]
    result = get_metric("perm_auc", grid_step=20).compute(game, explained([0.0] * 5, position))
    assert (result.curve[0] * 200).tolist() == pytest.approx([110, 50, 80, 80, 80, 80])
    assert float(result.score[0]) == pytest.approx((55 + 50 + 80 + 80 + 80 + 40) / 5 / 200)
    assert rows == [
        [10, 20, 30, 40, 50],
        [10, 30, 40, 50, 20],
        [40, 10, 30, 50, 20],
        [40, 30, 10, 50, 20],
        [40, 30, 50, 10, 20],
    ]


def test_perm_auc_takes_slope_then_beta_then_value():
    game = Game.from_function(ordered, torch.tensor([[10, 20, 30]]), ablated=0)
    metric = get_metric("perm_auc", grid_step=34)
    # moving player 0 to the end: 1 2 0; moving player 2 to the front: 2 0 1; nothing
    to_end, to_front, nothing = [5.0, 0, 0], [0, 0, -5.0], [0.0, 0, 0]

    def last(explanation: Explanation) -> float:
        return 200 * float(metric.compute(game, explanation).curve[0, -1])

    assert last(explained(nothing, to_end, to_front)) == pytest.approx(20 + 2 * 10)
    assert last(explained(nothing, None, to_front)) == pytest.approx(30 + 2 * 20)
    assert last(explained(to_end)) == pytest.approx(20 + 2 * 10)


def naive_curve(tokens: list[int], attribution: list[float], permutations: np.ndarray, keep_top: bool) -> list[float]:
    """Mask by player, then put player ``sigma(l)`` into slot l; one row at a time."""
    n = len(tokens)
    order = sorted(range(n), key=lambda player: -attribution[player])
    curve = []
    for percent in [*range(0, 100, 4), 100]:
        top = set(order[: percent * n // 100])
        masked = [t if (player in top) == keep_top else 0 for player, t in enumerate(tokens)]
        outputs = [(masked[sigma[0]] + 2 * masked[sigma[-1]]) / 200 for sigma in permutations]
        curve.append(sum(outputs) / len(outputs))
    return curve


@pytest.mark.parametrize(("name", "keep_top"), [("ins_auc", True), ("del_auc", False)])
def test_permuted_curves_are_those_of_a_naive_loop(name, keep_top):
    tokens, attribution = [10, 20, 30, 40, 50], [0.1, -0.4, 0.9, 0.3, -0.2]
    game = Game.from_function(ordered, torch.tensor([tokens]), ablated=0)
    drawn = stream(7, "metric permutations", game.keys[0])
    permutations = np.array([drawn.permuted(np.arange(5)) for _ in range(10)])
    assert any((np.argsort(sigma) != sigma).any() for sigma in permutations), "an involution would hide a mix-up"
    result = get_metric(name).compute(game, explained(attribution), seed=7)
    assert result.curve[0].tolist() == pytest.approx(naive_curve(tokens, attribution, permutations, keep_top))


def test_agreement_is_a_share_of_the_permutations():
    # full input, only the token in slot 0 counts: the share of permutations with player 2 first
    game = Game.from_function(lambda rows: (rows[:, 0] == 30).double(), torch.tensor([[10, 20, 30]]), ablated=0)
    drawn = stream(0, "metric permutations", game.keys[0])
    share = np.mean([drawn.permuted(np.arange(3))[0] == 2 for _ in range(40)])
    result = get_metric("inc_auc", permutations=40).compute(game, explained([1.0, 2.0, 3.0]))
    assert float(result.curve[0, -1]) == pytest.approx(share)
    assert 0 < share < 1


def bumpy(kept: torch.Tensor) -> torch.Tensor:
    """Depend on the coalition in no simple way, in 0..1."""
    return ((kept.double() @ torch.tensor([3.0, 5.0, 6.0, 9.0], dtype=torch.float64)) ** 2 % 7) / 7


@pytest.mark.parametrize("attribution", [[1, 1, 1, 1], [2, 1, 2, 1], [0, 1, 1, 1]])
def test_ties_are_the_average_over_all_tie_orders(attribution):
    game = Game.from_set_function(bumpy, 4)
    orders = [
        order
        for order in itertools.permutations(range(4))
        if all(attribution[a] >= attribution[b] for a, b in itertools.pairwise(order))
    ]
    exact = np.zeros(5)
    for order in orders:
        kept = torch.tensor([[player in order[:k] for player in range(4)] for k in range(5)])
        exact += bumpy(kept).numpy() / len(orders)
    result = get_metric("ins_auc_fixed", grid_step=25, tie_orders=4000).compute(game, explained(attribution))
    # outputs lie in 0..1: the standard error of 4,000 draws is at most .5 / sqrt(4000) = .008
    assert result.curve[0].tolist() == pytest.approx(exact, abs=0.03)
    permuted = get_metric("ins_auc", grid_step=25, tie_orders=4000).compute(game, explained(attribution))
    assert permuted.curve[0].tolist() == pytest.approx(exact, abs=0.03)


def test_ties_of_positions_are_averaged_too():
    # both players tie: half of the orders move player 0 first (1 0: 20 + 20), half player 1 (0 1: 10 + 40)
    game = Game.from_function(ordered, torch.tensor([[10, 20]]), ablated=0)
    result = get_metric("perm_auc", grid_step=50, tie_orders=1000).compute(game, explained([1.0, 1.0]))
    assert 200 * float(result.curve[0, 1]) == pytest.approx((40 + 50) / 2, abs=1)


@pytest.mark.parametrize("n", [3, 7, 150])
@pytest.mark.parametrize("name", ["ins_auc", "del_auc", "ins_auc_fixed", "del_auc_fixed", "perm_auc"])
def test_a_constant_curve_has_its_height_as_area(name, n):
    game = Game.from_set_function(lambda kept: torch.full((len(kept),), 0.7, dtype=torch.float64), n)
    attribution = np.random.default_rng(n).normal(size=n)
    assert float(get_metric(name).compute(game, explained(attribution)).score[0]) == pytest.approx(0.7, abs=1e-12)


@given(step=st.integers(1, 100), height=st.floats(-5, 5))
def test_any_grid_spans_0_to_100_with_weight_1(step, height):
    percents = grid(step)
    assert percents[0] == 0 and percents[-1] == 100 and (np.diff(percents) > 0).all()
    assert area(np.full(len(percents), height), percents) == pytest.approx(height, abs=1e-12)


def test_counts_are_rounded_down():
    # 4 % of 7 is 0.28, 28 % is 1.96, 32 % is 2.24, 56 % is 3.92, 60 % is 4.2, 96 % is 6.72
    assert counts(np.array([0, 4, 28, 32, 56, 60, 96, 100]), 7).tolist() == [0, 0, 1, 2, 3, 4, 6, 7]
    assert counts(np.array([29, 58]), 100).tolist() == [29, 58]  # int(0.29 * 100) is 28
    game = Game.from_set_function(lambda kept: kept.double().mean(1), 7)
    curve = get_metric("ins_auc_fixed").compute(game, explained(np.arange(7.0))).curve[0] * 7
    assert curve.round().long().tolist() == [percent * 7 // 100 for percent in range(0, 101, 4)]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.integers(0, 5))
def test_rankings_descend_and_hold_every_player(values, seed):
    values = np.array(values, dtype=float)
    for order in descending(values, 3, seed, "sample"):
        assert sorted(order.tolist()) == list(range(len(values)))
        assert (np.diff(values[order]) <= 0).all()


def test_rounding_does_not_break_a_tie():
    assert levels(np.array([0.1 + 0.2, 0.3, 0.3 + 1e-9])).tolist() == [0, 0, 1]
    assert levels(np.array([0.0, -0.0, 0.0])).tolist() == [0, 0, 0]


@given(st.permutations(range(6)))
@settings(max_examples=10, deadline=None)
def test_methods_with_one_ranking_get_identical_scores(ranking):
    game = Game.from_function(ordered, torch.tensor([[10, 20, 30, 40, 50, 60]]), ablated=0)
    chosen = [get_metric(name) for name in NAMES if name != "perm_auc"]
    one = compute_all(chosen, game, explained(np.array(ranking, dtype=float)), seed=3)
    other = compute_all(chosen, game, explained(np.exp(np.array(ranking, dtype=float)) - 20), seed=3)
    for name, result in one.items():
        assert torch.equal(result.curve, other[name].curve)
        assert torch.equal(result.score, other[name].score)


def test_the_best_ranking_wins():
    weights, good = additive(), explained([0.45, 0.1, 0.2, 0.05])
    bad = explained([-0.45, -0.1, -0.2, -0.05])
    for name in NAMES:
        if name == "perm_auc":  # a set function has no positions
            continue
        metric = get_metric(name)
        better, worse = (float(metric.compute(weights, e).score[0]) for e in (good, bad))
        assert (better > worse) == metric.higher_is_better and better != worse


def tied_and_untied() -> tuple[Game, Explanation]:
    x = torch.tensor([[10, 20, 30, 40, 50], [50, 20, 10, 40, 30]])
    value = [[0.5, 0.5, 0.1, -0.2, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0]]
    return Game.from_function(ordered, x, ablated=0), explained(value, [[1.0, -1, 0, 0, 2]] * 2)


def test_together_and_alone_give_the_same():
    game, explanation = tied_and_untied()
    together = compute_all([get_metric(name) for name in NAMES], game, explanation, seed=2)
    for name in NAMES:
        alone = get_metric(name).compute(game, explanation, seed=2)
        assert torch.equal(together[name].curve, alone.curve)
        assert torch.equal(together[name].score, alone.score)


def spent(*names: str) -> int:
    game = Game.from_function(ordered, torch.arange(10, 210, 10)[None], ablated=0)
    attribution = np.random.default_rng(0).normal(size=20)
    compute_all([get_metric(name) for name in names], game, explained(attribution))
    return game.spent[0]


def test_metrics_of_one_design_cost_what_one_costs():
    assert spent("inc_auc", "ins_auc") == spent("inc_auc")
    assert spent("exc_auc", "del_auc") == spent("del_auc")
    assert spent("exc_auc_fixed", "del_auc_fixed", "log_odds_drop") == spent("log_odds_drop") == 21  # 0..20 ablated
    # all-ablated is one row whatever the arrangement, all-kept is shared between top and rest
    assert spent("inc_auc", "exc_auc") == spent("inc_auc") + spent("exc_auc") - 11
    # at most 10 arrangements of the 19 counts between, of none and of all; fewer where two rows look the same
    assert 150 <= spent("inc_auc") <= 10 * 20 + 1


@pytest.mark.parametrize("name", NAMES)
def test_no_players_is_nan_and_costs_nothing(name):
    game = Game.from_function(lambda rows: torch.ones(len(rows)), torch.zeros((2, 0), dtype=torch.long), ablated=0)
    result = get_metric(name).compute(game, explained(np.zeros((2, 0))))
    assert bool(result.score.isnan().all()) and tuple(result.score.shape) == (2,)
    assert bool(result.curve.isnan().all()) and tuple(result.curve.shape) == (2, 26)
    assert game.spent == [0, 0]


def test_one_and_two_players_by_hand():
    # n = 1: below 100 % nobody is chosen. ins: .2 until 96 %, then .6 -> .2 + .04 * .4 / 2; del mirrored
    game = Game.from_set_function(lambda kept: 0.2 + 0.4 * kept.double().mean(1), 1)
    assert score("ins_auc", game, [1.0]) == pytest.approx(0.2 + 0.04 * 0.4 / 2)
    assert score("del_auc_fixed", game, [1.0]) == pytest.approx(0.6 - 0.04 * 0.4 / 2)
    # n = 2, grid 0, 50, 100: .2, .5, .6
    weights = torch.tensor([0.1, 0.3], dtype=torch.float64)
    game = Game.from_set_function(lambda kept: 0.2 + kept.double() @ weights, 2)
    assert score("ins_auc", game, [1.0, 2.0], grid_step=50) == pytest.approx((0.1 + 0.5 + 0.3) / 2)
    assert score("perm_auc", game, [1.0, 2.0]) == pytest.approx(0.6)


def score(name: str, game: Game, attribution: list[float], **options: int) -> float:
    return float(get_metric(name, **options).compute(game, explained(attribution)).score[0])


def test_an_attribution_that_is_not_finite_ranks_nothing():
    game, explanation = tied_and_untied()
    explanation.value[0, 1] = math.nan
    result = compute_all([get_metric("ins_auc"), get_metric("perm_auc")], game, explanation)
    assert result["ins_auc"].score.isnan().tolist() == [True, False]
    assert result["perm_auc"].score.isnan().tolist() == [False, False]


def test_a_misfit_is_refused():
    with pytest.raises(ValueError, match=r"shape \(1, 3\).* 1 samples of 4"):
        get_metric("inc_auc").compute(additive(), explained([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="two metrics are called 'inc_auc'"):
        compute_all([get_metric("inc_auc"), get_metric("inc_auc", grid_step=50)], additive(), explained([1.0] * 4))


def test_a_sample_does_not_depend_on_its_place_or_on_the_seed_of_others():
    game, explanation = tied_and_untied()
    turned = Game.from_function(ordered, game.x.flip(0), ablated=0)
    mirrored = explained(explanation.value.flip(0).numpy(), explanation.position.flip(0).tolist())
    for name in NAMES:
        metric = get_metric(name)
        assert torch.equal(metric.compute(game, explanation).curve, metric.compute(turned, mirrored).curve.flip(0))
    metric = get_metric("ins_auc", permutations=3)
    assert not torch.equal(metric.compute(game, explanation, 0).curve, metric.compute(game, explanation, 1).curve)


def test_batches_do_not_matter_to_a_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
        )
        model = BertForSequenceClassification(config).eval()
    tokens = torch.from_numpy(np.random.default_rng(2).integers(5, 30, size=(2, 8)))
    explanation = explained(np.random.default_rng(3).normal(size=(2, 8)))
    chosen = [get_metric(name, grid_step=20, permutations=4) for name in NAMES]
    games = [ClassifierGame(model, tokens, 4, prefix=(2,), batch_tokens=size) for size in (9, 100, 4096)]
    first, *others = [compute_all(chosen, game, explanation) for game in games]
    for other in others:
        for name in NAMES:
            assert torch.allclose(first[name].curve, other[name].curve, atol=1e-5), name
    untouched = games[0].probability(0, games[0].outputs(0, torch.ones((1, 8), dtype=torch.bool)))
    assert float(first["perm_auc"].curve[0, 0]) == pytest.approx(float(untouched), abs=1e-6)


def test_importing_metrics_and_explainers_does_not_load_torch():
    import subprocess
    import sys

    heavy = "{'torch', 'transformers', 'captum', 'pandas'} & set(sys.modules)"
    code = f"import sys, metrics, explainers; metrics.metrics(); explainers.explainers(); sys.exit(str({heavy} or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
