"""The project's own OrdShap estimator: balance, bias, standard errors, stopping, times."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from explainers import Game, get_explainer
from explainers.designs import walk_coalitions
from explainers.draws import Draws, inverse, splitmix64
from explainers.ordshap.arrangements import Arrangements, field_of
from explainers.ordshap.beta import BetaMoment
from explainers.ordshap.evidence import groups_for_cells
from explainers.ordshap.scale import slot_scale, time_scale
from explainers.ordshap.smooth import smooth_matrix
from explainers.ordshap.walks import group_cost
from tests.games import PairOrderGame, ordered_game, random_ordered_game, toy_game

CPU = torch.device("cpu")
QUANTITIES = ("value", "position", "matrix", "position_ls")


def arrangements(n: int, seed: int = 0) -> Arrangements:
    return Arrangements(np.random.default_rng(seed), n, CPU)


# --- draws --------------------------------------------------------------------------------------------------------


def test_draws_do_not_depend_on_how_rows_are_asked_for():
    whole = Draws(np.random.default_rng(3), 5, CPU)
    parts = Draws(np.random.default_rng(3), 5, CPU)
    assert torch.equal(whole.keys(9), torch.cat([parts.keys(2), parts.keys(0), parts.keys(7)]))
    assert not torch.equal(whole.permutations(50), whole.permutations(50))


def test_splitmix64_is_the_reference_generator():
    """First outputs of the reference implementation seeded with 1234567 (Vigna's splitmix64.c)."""
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    got = splitmix64(torch.arange(5), 1234567).numpy().astype(np.uint64)
    assert got.tolist() == expected


def test_permutations_are_uniform():
    rows = Draws(np.random.default_rng(0), 4, CPU).permutations(24_000)
    _, counts = torch.unique(rows, dim=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 60, "chi square with 23 degrees of freedom"
    assert torch.equal(inverse(rows).gather(1, rows), torch.arange(4).expand_as(rows))


# --- arrangements -------------------------------------------------------------------------------------------------


def mirrored(slots: torch.Tensor) -> torch.Tensor:
    return torch.cat([slots, slots.shape[1] - 1 - slots])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 25, 27])
def test_a_unit_takes_every_player_to_every_slot_equally_often(n):
    source = arrangements(n)
    for _ in range(3):
        slots = mirrored(source.next_unit(source.units))
        assert torch.equal(slots.sort(1).values, torch.arange(n).expand_as(slots))
        counts = torch.stack([torch.bincount(slots[:, player], minlength=n) for player in range(n)])
        assert (counts == len(slots) // n).all()


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 25])
def test_a_set_takes_every_pair_of_players_to_every_pair_of_slots_once(n):
    source = arrangements(n, seed=n)
    slots = mirrored(torch.cat([source.next_unit(source.units) for _ in range(source.units)]))
    for one, other in [(0, 1), (n - 1, 0), (n // 2, n - 1)]:
        if one != other:
            pairs = torch.bincount(slots[:, one] * n + slots[:, other], minlength=n * n).view(n, n)
            assert torch.equal(pairs, (~torch.eye(n, dtype=torch.bool)).long())


@pytest.mark.parametrize("n", [1, 6, 12, 15, 128])
def test_there_is_a_field_where_n_is_a_prime_power_and_small(n):
    assert field_of(n) is None


@pytest.mark.parametrize("n", [8, 9, 27])
def test_fields_are_fields(n):
    field = field_of(n)
    plus, times = field.plus.numpy(), field.times.numpy()
    a, b, c = np.random.default_rng(0).integers(0, n, size=(3, 200))
    assert (times[a, plus[b, c]] == plus[times[a, b], times[a, c]]).all()
    assert (times[times[a, b], c] == times[a, times[b, c]]).all() and (times[a, b] == times[b, a]).all()
    assert (times[1] == np.arange(n)).all() and ((times[1:, 1:] > 0).all())


@pytest.mark.parametrize(("n", "groups"), [(2, 1), (7, 3), (8, 4), (9, 5), (30, 15), (30, 40), (150, 16)])
def test_strata_are_arrangements_that_spread_a_player_over_the_distances(n, groups):
    slots = arrangements(n).strata(groups)
    assert torch.equal(slots.sort(1).values, torch.arange(n).expand(groups, n))
    distance = (slots.double() - (n - 1) / 2).abs()
    if n % 2 == 0 and groups == n // 2:
        assert all(torch.equal(distance[:, i].sort().values, torch.arange(n // 2) + 0.5) for i in range(n))
    if groups == 16:
        farthest = (distance.sort(0).values - (torch.arange(16)[:, None] + 0.5) * n / 32).abs().max()
        assert farthest < n / 10


def test_every_slot_is_equally_likely_in_a_stratum():
    counts = torch.zeros(5)
    for seed in range(2000):
        counts[arrangements(5, seed).strata(2)[0, 3]] += 1
    assert ((counts - 400) ** 2 / 400).sum() < 25, "chi square with 4 degrees of freedom"


# --- bias and standard errors -------------------------------------------------------------------------------------


def draws_of(game: Game, budget: int, seeds: int) -> dict[str, torch.Tensor]:
    runs = [get_explainer("ordshap", budget=budget).explain(game, seed) for seed in range(seeds)]
    names = [*QUANTITIES, "value_stderr", "position_stderr", "matrix_stderr"]
    return {name: torch.stack([getattr(run, name)[0] for run in runs]) for name in names}


@pytest.mark.parametrize(("n", "budget"), [(4, 160), (5, 400)])
def test_unbiased_on_random_games(n, budget):
    """200 seeds; the bound on the largest of m entries is that of three standard errors on one (Bonferroni)."""
    game, _ = random_ordered_game(n, seed=5)
    truth = get_explainer("ordshap", estimator="exact").explain(game)
    draws = draws_of(game, budget, 200)
    for name in QUANTITIES:
        exact = getattr(truth, name)[0]
        error = (draws[name].mean(0) - exact) / (draws[name].std(0) / 200**0.5)
        assert error.abs().max() < norm.isf(norm.sf(3) / error.numel()), name


@pytest.mark.parametrize(("n", "budget"), [(5, 400), (5, 700)])
def test_standard_errors_cover_the_truth(n, budget):
    game, _ = random_ordered_game(n, seed=6)
    truth = get_explainer("ordshap", estimator="exact").explain(game)
    draws = draws_of(game, budget, 120)
    for name in ("value", "position", "matrix"):
        covered = (draws[name] - getattr(truth, name)[0]).abs() <= 1.96 * draws[f"{name}_stderr"]
        assert 0.9 <= covered.double().mean() <= 0.98, name


def test_value_is_unbiased_and_covered_far_below_whole_cells():
    wavy = torch.sin(torch.arange(13.0, dtype=torch.float64) * 1.3)

    def f(tokens: torch.Tensor) -> torch.Tensor:
        slot = torch.arange(12.0, dtype=torch.float64)
        return torch.tanh((wavy[tokens] * (tokens > 0) * torch.cos(slot)).sum(1)) + 0.1 * tokens[:, 0]

    game = Game.from_function(f, torch.arange(1, 13)[None], 0)
    reference = get_explainer("ordshap", budget=60_000).explain(game, seed=99)
    draws = draws_of(game, 300, 100)
    gap = draws["value"].mean(0) - reference.value[0]
    error = (draws["value"].var(0) / 100 + reference.value_stderr[0] ** 2).sqrt()
    assert (gap / error).abs().max() < norm.isf(norm.sf(3) / 12)
    covered = (draws["value"] - reference.value[0]).abs() <= 1.96 * draws["value_stderr"]
    assert covered.double().mean() >= 0.95, "they err on the wide side: what the strata take away is not counted"


def test_value_is_exact_on_the_closed_form_and_position_close_from_few_evaluations():
    """Mirror images and reversed orders cancel everything that the pair-order game holds, but for PI."""
    known = PairOrderGame(30, seed=3)
    gamma = known.gamma()
    away = np.arange(30) - 14.5
    slopes = gamma @ away / (away**2).sum()
    result = get_explainer("ordshap", budget=3000).explain(known.game(), seed=2)
    assert np.abs(result.value[0].numpy() - gamma.mean(1)).max() < 1e-12
    assert np.sqrt(np.mean((result.position[0].numpy() - slopes) ** 2)) < 0.03 * slopes.std()
    assert np.sqrt(np.mean((result.matrix[0].numpy() - gamma) ** 2)) < 0.01 * gamma.std()
    assert result.audit[0]["smoothed"] == 1.0
    whole = get_explainer("ordshap", budget=1 + groups_for_cells(30) * group_cost(30)).explain(known.game(), seed=2)
    assert whole.audit[0]["smoothed"] == 0.0 and whole.audit[0]["groups"] >= groups_for_cells(30)


def test_exact_where_the_budget_holds_every_placement():
    result = get_explainer("ordshap", budget=13_327).explain(toy_game())
    truth = get_explainer("ordshap", estimator="exact").explain(toy_game())
    for name in QUANTITIES:
        assert torch.equal(getattr(result, name), getattr(truth, name))
    assert (result.value_stderr == 0).all() and (result.matrix_stderr == 0).all()


def test_beta_of_walks_is_that_of_the_enumeration_when_all_walks_are_taken():
    """All 4! orders under all 4! arrangements: the moments are exact, so beta is."""
    game, _ = random_ordered_game(4, seed=2)
    orders = torch.cartesian_prod(*[torch.arange(4)] * 4)
    orders = orders[(orders.sort(1).values == torch.arange(4)).all(1)]
    empty = game.evaluate(0, torch.zeros((1, 4), dtype=torch.bool))[0]
    beta = BetaMoment(4, CPU)
    for slots in orders:
        up = walk_coalitions(orders)
        kept = torch.stack([up, ~up], 1)
        seats = torch.stack([inverse(slots[None])[0], inverse(slots[None])[0].flip(0)])
        paths = []
        for seat in seats:
            rows = kept.reshape(-1, 4)
            paths.append(game.evaluate(0, rows, seat.expand(len(rows), 4)).view(len(orders), 2, 5) - empty)
        both = torch.stack(paths, 1)
        beta.add(both[:, :, 0], both[:, :, 1], inverse(orders), slots.expand(len(orders), 4))
    exact = get_explainer("ordshap", estimator="exact").explain(game).position_ls[0]
    assert torch.allclose(beta.solve().coefficients, exact, atol=1e-10)


# --- stopping -----------------------------------------------------------------------------------------------------


def test_target_stderr_stops_when_it_is_reached_and_says_what_was_spent():
    game, _ = random_ordered_game(5, seed=1)
    all_in = get_explainer("ordshap", budget=1500).explain(game, seed=0)
    loose = get_explainer("ordshap", budget=1500, target_stderr=3 * float(all_in.value_stderr.max()))
    stopped = loose.explain(game, seed=0)
    assert stopped.value_stderr.max() <= loose.target_stderr
    assert stopped.evaluations[0] < all_in.evaluations[0] / 2
    never = get_explainer("ordshap", budget=1500, target_stderr=1e-9).explain(game, seed=0)
    assert 1000 < never.evaluations[0] <= 1500 and never.value_stderr.max() > 1e-9


def test_target_stderr_does_not_depend_on_batches_or_company():
    x = torch.randint(1, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    weights = torch.randn(40, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.tanh(weights[tokens, torch.arange(9)].sum(1))

    method = get_explainer("ordshap", budget=4000, target_stderr=0.02)
    both = method.explain(Game.from_function(f, x, 0), seed=4)
    alone = method.explain(Game.from_function(f, x[1:], 0, batch_tokens=50), seed=4)
    assert both.evaluations[1] == alone.evaluations[0]
    assert torch.allclose(both.value[1], alone.value[0], atol=1e-9)


def test_inert_players_are_told_from_the_input_alone_and_get_nothing():
    game = Game.from_function(lambda t: (t * torch.arange(1, 5)).sum(1).double(), torch.tensor([[3, 0, 5, 0]]), 0)
    assert game.inert(0).tolist() == [False, True, False, True] and game.spent == [0]
    result = get_explainer("ordshap", budget=120).explain(game)
    assert result.value[0, game.inert(0)].abs().max() < 1e-12


# --- times --------------------------------------------------------------------------------------------------------


def by_hand(gamma: torch.Tensor, times: list[float]) -> torch.Tensor:
    """Return PI of Eq. 15 read literally: gamma by time, divided by the slots of that time, then the slope over G."""
    distinct = sorted(set(times))
    columns = [gamma[:, [slot for slot, t in enumerate(times) if t == g]].mean(1) for g in distinct]
    by_time, points = torch.stack(columns, 1), torch.tensor(distinct, dtype=torch.float64)
    away = points - points.mean()
    return by_time @ away / (away**2).sum()


@pytest.mark.parametrize("times", [[0.0, 0.0, 1.5, 7.0], [2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 2.0, 2.0]])
def test_position_per_unit_of_time(times):
    _, w = random_ordered_game(4, seed=3)
    payoff = ordered_game(w, 4).f
    game = Game.from_function(payoff, torch.arange(1, 5)[None], 0, times=torch.tensor([times], dtype=torch.float64))
    plain = get_explainer("ordshap", estimator="exact").explain(game)
    timed = get_explainer("ordshap", estimator="exact", positions="times").explain(game)
    assert torch.allclose(timed.position[0], by_hand(plain.matrix[0], times), atol=1e-12)
    assert torch.allclose(timed.value, plain.value, atol=1e-12), "VI stays the Shapley value"
    for slot, time in enumerate(times):
        same = [other for other, t in enumerate(times) if t == time]
        assert torch.allclose(timed.matrix[0][:, slot], plain.matrix[0][:, same].mean(1), atol=1e-12)
    walked = get_explainer("ordshap", budget=200, positions="times").explain(game, seed=0)
    assert (walked.position - timed.position).abs().max() <= 6 * walked.position_stderr.max()


def test_one_time_alone_has_no_slope():
    scale = time_scale(torch.tensor([3.0, 3.0, 3.0]))
    assert (scale.weights == 0).all() and torch.allclose(scale.together, torch.full((3, 3), 1 / 3).double())


def test_times_are_needed_and_belong_to_two_estimators():
    game = toy_game()
    with pytest.raises(ValueError, match="positions is 'times', and the game has no times"):
        get_explainer("ordshap", positions="times").explain(game)
    with pytest.raises(ValueError, match="positions 'times' needs estimator walks or exact, not 'algorithm2'"):
        get_explainer("ordshap", positions="times", estimator="algorithm2")
    with pytest.raises(ValueError, match="option 'target_stderr' belongs to estimator 'walks'"):
        get_explainer("ordshap", target_stderr=0.1, estimator="exact")


# --- smoothing ----------------------------------------------------------------------------------------------------


def test_smoothing_finds_a_polynomial_and_keeps_the_row_means():
    """Noise-free groups of a gamma that lies in the basis are fitted to rounding."""
    n, groups = 20, 40
    places = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / ((n - 1) / 2)
    rng = np.random.default_rng(0)
    coefficients = torch.from_numpy(rng.normal(size=(n, 4)))
    gamma = coefficients @ torch.stack([places**0, places, places**2, places**3])
    slots = arrangements(n).strata(groups)
    players = torch.arange(n).expand_as(slots)
    marginals = torch.stack([gamma[players, slots], gamma[players, n - 1 - slots]], 1)
    found = smooth_matrix(gamma.mean(1), marginals, slots, slot_scale(n, CPU))
    assert torch.allclose(found.matrix, gamma, atol=1e-6)
    assert torch.allclose(found.matrix.mean(1), gamma.mean(1), atol=1e-12)


def test_smoothing_takes_noise_for_noise():
    """Pure noise around straight lines: the bends are dropped, and the line is far better than the cells."""
    n, groups = 40, 60
    rng = np.random.default_rng(1)
    places = torch.arange(n, dtype=torch.float64) - (n - 1) / 2
    gamma = torch.from_numpy(rng.normal(size=n))[:, None] + torch.from_numpy(rng.normal(size=n) / n)[:, None] * places
    slots = arrangements(n).strata(groups)
    players = torch.arange(n).expand_as(slots)
    marginals = torch.stack([gamma[players, slots], gamma[players, n - 1 - slots]], 1)
    marginals = marginals + torch.from_numpy(rng.normal(size=marginals.shape))
    found = smooth_matrix(marginals.mean((0, 1)), marginals, slots, slot_scale(n, CPU))
    assert (found.matrix - gamma).square().mean().sqrt() < 0.25, "a cell's own mean has an error of about 0.6"
    covered = (found.matrix - gamma).abs() <= 1.96 * found.stderr
    assert 0.88 <= covered.double().mean() <= 0.99
