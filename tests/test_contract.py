"""What every explainer and every metric owes its callers; plug-ins are discovered, so a new one is tested here too."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from transformers import BertForSequenceClassification

from explainers import ClassifierGame, Explainer, Explanation, Game, explainers, get_explainer
from explainers.streams import stream
from metrics import Metric, compute_all, get_metric, metrics
from tests.models import tiny_bert

CLS, MASK, FIRST, WORDS = 1, 2, 4, 24
LENGTHS = (0, 1, 2)
TOLD = ("value", "position", "position_ls", "matrix", "value_stderr", "position_stderr", "matrix_stderr")
NEEDED = {"row_weights": {"form": "regression"}}  # options that only serve beside another choice


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every explainer with its defaults, and with each other choice of each of its Literal options."""
    for name, kind in explainers().items():
        yield name, {}
        for option, field in kind.model_fields.items():
            if get_origin(field.annotation) is Literal:
                others = [choice for choice in get_args(field.annotation) if choice != field.default]
                yield from ((name, {**NEEDED.get(option, {}), option: choice}) for choice in others)


def tell(part: Any) -> str:
    return part if isinstance(part, str) else "-".join(map(str, part.values())) or "default"


VARIANTS = list(variants())
EVALUATING = [(name, options) for name, options in VARIANTS if not explainers()[name].needs_gradient]
BUDGETED = [(name, options) for name, options in VARIANTS if "budget" in explainers()[name].model_fields]
METRICS = list(metrics())
all_variants = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=tell)
evaluating_variants = pytest.mark.parametrize(("name", "options"), EVALUATING, ids=tell)
budgeted_variants = pytest.mark.parametrize(("name", "options"), BUDGETED, ids=tell)


@cache
def bert() -> BertForSequenceClassification:
    return tiny_bert(words=FIRST + WORDS, layers=1, scale=8)


def sequences(samples: int, n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([7, n]).integers(FIRST, FIRST + WORDS, size=(samples, n)))


def bert_game(tokens: torch.Tensor, **options: Any) -> ClassifierGame:
    return ClassifierGame(bert(), tokens, ablated=MASK, prefix=(CLS,), times=clock(tokens), **options)


def clock(tokens: torch.Tensor) -> torch.Tensor:
    """Return the times of the slots: the first two are one time, as in a visit."""
    return (torch.arange(tokens.shape[1], dtype=torch.float64) - 1).clamp_min(0).expand(tokens.shape) * 1.5


def share(tokens: torch.Tensor) -> torch.Tensor:
    """A smooth function of tokens and their order, between 0 and 1."""
    slot = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float64)
    return torch.sigmoid((torch.sin(tokens.double() * 1.7) * (tokens != MASK) * torch.cos(slot)).sum(1))


def function_game(samples: int, n: int) -> Game:
    tokens = sequences(samples, n)
    return Game.from_function(share, tokens, MASK, times=clock(tokens))


def weighed(kept: torch.Tensor) -> torch.Tensor:
    """A set function that is not additive."""
    weights = torch.arange(1, kept.shape[1] + 1, dtype=torch.float64)
    return torch.tanh(kept.double() @ weights / 10) + 0.25


def set_game(n: int) -> Game:
    return Game.from_set_function(weighed, n)


def needs_times(options: dict[str, Any]) -> bool:
    """Return whether the explainer asks for times, which a set function has none of."""
    return options.get("positions") == "times"


def served(name: str, options: dict[str, Any], n: int) -> Explainer:
    """Return the explainer with a budget that ``n`` players need, and not much more."""
    kind = explainers()[name]
    if "budget" in kind.model_fields:
        least = get_explainer(name, **options, budget=1).least_budget(n)
        options = {**options, "budget": least + 40}
    return get_explainer(name, **options)


def at_budget(name: str, options: dict[str, Any], budget: int, n: int) -> Explainer | None:
    """Return the explainer with this budget, or None where it says what keeps it from serving ``n`` players."""
    explainer = get_explainer(name, **options, budget=budget)
    try:
        explainer.check(n)
    except ValueError as error:
        least = explainer.least_budget(n)
        assert f"{n} players" in str(error) and (budget < least or "max_players" in str(error))
        return None
    return explainer


def assert_shapes(explanation: Explanation, samples: int, n: int) -> None:
    vector, square = (samples, n), (samples, n, n)
    for field, shape in zip(TOLD, [vector] * 3 + [square] + [vector] * 2 + [square], strict=True):
        column = getattr(explanation, field)
        if column is not None:
            assert tuple(column.shape) == shape, field
            assert column.dtype == torch.float64 and column.device.type == "cpu" and not column.requires_grad, field
    if explanation.sets is not None:
        assert list(explanation.sets.columns) == ["sample", "set", "value", "stderr"]
        assert explanation.sets["sample"].nunique() == samples * (n > 0)
    assert explanation.evaluations.dtype == torch.long and tuple(explanation.evaluations.shape) == (samples,)
    assert (explanation.evaluations >= 0).all()
    assert len(explanation.audit) == samples
    assert all(math.isfinite(number) for audit in explanation.audit for number in audit.values())


def kinds(explanation: Explanation) -> set[str]:
    return {field for field in TOLD if getattr(explanation, field) is not None}


def farthest(one: Explanation, two: Explanation) -> float:
    """Return the largest difference between two explanations; a NaN must meet a NaN."""
    assert kinds(one) == kinds(two)
    assert one.evaluations.tolist() == two.evaluations.tolist()
    gaps = [0.0]
    for field in kinds(one):
        left, right = getattr(one, field), getattr(two, field)
        assert torch.equal(left.isnan(), right.isnan())
        gaps.append(float((left - right).nan_to_num().abs().max()) if left.numel() else 0.0)
    return max(gaps)


def rows_of(explanation: Explanation, samples: list[int]) -> Explanation:
    columns = {field: getattr(explanation, field) for field in TOLD}
    cut = {field: None if column is None else column[samples] for field, column in columns.items()}
    audit = tuple(explanation.audit[sample] for sample in samples)
    return Explanation(**cut, evaluations=explanation.evaluations[samples], audit=audit)


@contextmanager
def untouched_randomness() -> Iterator[None]:
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    yield
    assert torch.equal(before[0], torch.get_rng_state()), "torch's global generator moved"
    assert str(before[1]) == str(np.random.get_state()), "numpy's global generator moved"
    assert before[2] == random.getstate(), "Python's global generator moved"


# --- explainers ---------------------------------------------------------------------------------------------------


@all_variants
def test_every_length_down_to_none_is_explained_on_a_model(name, options):
    told = []
    for n in LENGTHS:
        explanation = served(name, options, n).explain(bert_game(sequences(2, n)))
        assert_shapes(explanation, 2, n)
        assert explanation.value.isfinite().all()
        told.append(kinds(explanation))
    assert told[0] == told[1] == told[2], "an empty sample has the same parts as any other"


@evaluating_variants
def test_every_length_down_to_none_is_explained_on_functions(name, options):
    for n in LENGTHS:
        explainer = served(name, options, n)
        for game in (function_game(3, n), *([] if needs_times(options) else [set_game(n)])):
            explanation = explainer.explain(game)
            assert_shapes(explanation, game.size, n)
            assert explanation.value.isfinite().all()


@all_variants
def test_no_samples_are_no_rows(name, options):
    assert_shapes(served(name, options, 3).explain(bert_game(sequences(0, 3))), 0, 3)


@pytest.mark.parametrize("name", sorted({name for name, _ in VARIANTS if explainers()[name].needs_gradient}))
def test_a_gradient_method_refuses_a_function(name):
    with pytest.raises(ValueError, match="needs a model with embeddings, .* wraps a function; use ClassifierGame"):
        get_explainer(name).explain(function_game(1, 3))


@budgeted_variants
def test_evaluations_stay_within_the_budget_and_are_what_the_function_got(name, options):
    tried = 0
    for n in (1, 2, 3, 4, 7, 40):
        least = get_explainer(name, **options, budget=1).least_budget(n)
        for budget in sorted({least, 300, 1000}):
            explainer = at_budget(name, options, budget, n)
            if explainer is None:
                continue
            got = []
            tokens = sequences(1, n)
            game = Game.from_function(
                lambda rows, got=got: got.append(len(rows)) or share(rows), tokens, MASK, times=clock(tokens)
            )
            explanation = explainer.explain(game)
            assert 0 < int(explanation.evaluations[0]) <= budget
            assert sum(got) == int(explanation.evaluations[0])
            tried += 1
    assert tried >= 4


@all_variants
def test_evaluations_are_the_rows_that_went_through_the_model(name, options):
    game = bert_game(sequences(2, 4), batch_tokens=20)
    rows = []
    hook = bert().register_forward_hook(
        lambda module, args, kwargs, out: rows.append(len(out.logits)), with_kwargs=True
    )
    try:
        explanation = served(name, options, 4).explain(game)
    finally:
        hook.remove()
    assert sum(rows) == int(explanation.evaluations.sum()) == sum(game.spent)


@budgeted_variants
def test_too_small_a_budget_says_which_would_do(name, options):
    least = get_explainer(name, **options, budget=1).least_budget(4)
    assert least > 1
    with pytest.raises(
        ValueError, match=rf"budget is {least - 1} evaluations, .* 4 players .* raise budget to {least}"
    ):
        get_explainer(name, **options, budget=least - 1).explain(function_game(1, 4))


@all_variants
def test_one_seed_is_one_result_and_another_seed_is_another_where_anything_is_drawn(name, options):
    n = 4
    explainer = served(name, options, n)
    first, again = (explainer.explain(bert_game(sequences(2, n)), seed=3) for _ in range(2))
    assert farthest(first, again) == 0
    rng = stream(0, "any")
    before = str(rng.bit_generator.state), rng.bit_generator.seed_seq.n_children_spawned
    explainer.explain_sample(bert_game(sequences(2, n)), 0, rng)
    draws = before != (str(rng.bit_generator.state), rng.bit_generator.seed_seq.n_children_spawned)
    other = explainer.explain(bert_game(sequences(2, n)), seed=4)
    changed = any(
        not torch.equal(getattr(first, field).nan_to_num(), getattr(other, field).nan_to_num())
        for field in kinds(first)
    )
    assert changed == draws


DRAWLESS = {"cshapley", "myerson"}  # their budget bounds a design that is not random


def test_the_methods_that_sample_do_draw():
    for name, options in BUDGETED:
        if options.get("estimator") != "exact" and name not in DRAWLESS:
            explainer = get_explainer(name, **options, budget=400)
            one, other = (explainer.explain(function_game(1, 12), seed) for seed in (0, 1))
            same_sets = one.sets is None or one.sets.equals(other.sets)
            assert not (torch.equal(one.value, other.value) and same_sets), name


@all_variants
def test_order_company_and_batches_change_nothing_beyond_rounding(name, options):
    n, tokens = 5, sequences(4, 5)
    tokens[3] = tokens[0]
    explainer = served(name, options, n)
    together = explainer.explain(bert_game(tokens))
    backwards = explainer.explain(bert_game(tokens.flip(0)))
    assert farthest(together, rows_of(backwards, [3, 2, 1, 0])) < 1e-5
    alone = explainer.explain(bert_game(tokens[1:2], batch_tokens=7))
    assert farthest(rows_of(together, [1]), alone) < 1e-5
    assert farthest(rows_of(together, [0]), rows_of(together, [3])) < 1e-5


@all_variants
def test_nothing_that_was_passed_in_is_changed(name, options):
    tokens, model = sequences(2, 4), bert()
    before, weights = tokens.clone(), {key: value.clone() for key, value in model.state_dict().items()}
    explainer = served(name, options, 4)
    said = explainer.model_dump()
    with untouched_randomness():
        explainer.explain(bert_game(tokens))
    assert torch.equal(tokens, before)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    assert not model.training and all(weight.grad is None for weight in model.parameters())
    assert all(weight.requires_grad for weight in model.parameters())
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()]
    assert sum(hooks) == 0
    assert explainer.model_dump() == said


@evaluating_variants
def test_a_function_may_return_single_precision_and_keeps_its_tokens(name, options):
    tokens = sequences(2, 4)
    before = tokens.clone()
    game = Game.from_function(lambda rows: share(rows).float(), tokens, MASK, times=clock(tokens))
    assert_shapes(served(name, options, 4).explain(game), 2, 4)
    assert torch.equal(tokens, before)


EFFICIENT = {"kernelshap", "sample_shapley", "ordshap", "ordshap_exact", "ordshap_algorithm2", "ordshap_least_squares"}
EFFICIENT |= {"cshapley_regression", "cshapley_regression_kernel", "myerson", "ordshap_times"}


@evaluating_variants
def test_efficiency_of_those_that_claim_it(name, options):
    for n in (1, 2, 4, 12):
        explainer = served(name, options, n)
        if explainer.label() not in EFFICIENT:
            assert "efficiency_gap" not in explainer.explain(set_game(2)).audit[0]
            return
        try:
            explainer.check(n)
        except ValueError:
            continue
        if not needs_times(options):
            explanation = explainer.explain(set_game(n))
            assert abs(explanation.audit[0]["efficiency_gap"]) < 1e-9
            worth = weighed(torch.ones((1, n))) - weighed(torch.zeros((1, n)))
            assert float(explanation.value.sum()) == pytest.approx(float(worth), abs=1e-9)
        ordered = explainer.explain(function_game(2, n))
        assert max(abs(audit["efficiency_gap"]) for audit in ordered.audit) < 1e-9


def test_the_efficient_ones_are_all_there():
    labels = {get_explainer(name, **options).label() for name, options in VARIANTS}
    assert labels >= EFFICIENT
    assert len(labels) == len(VARIANTS), "two variants share a label, so no study can hold both"


def test_a_model_refuses_what_it_cannot_be_asked():
    with pytest.raises(ValueError, match="sequence has 40 tokens and 1 special ones, and the model takes 32"):
        bert_game(sequences(1, 40))
    with pytest.raises(ValueError, match="scale is 'logits'; it is one of: probability, log_probability, logit"):
        bert_game(sequences(1, 3), scale="logits")
    with pytest.raises(ValueError, match="target is 2, and the model has the classes 0 to 1"):
        bert_game(sequences(1, 3), target=2)


# --- metrics ------------------------------------------------------------------------------------------------------


def few(name: str, **options: Any) -> Metric:
    return get_metric(name, **{"grid_step": 25, "permutations": 3, "tie_orders": 2, **options})


def guessed(game: Game, seed: int = 0) -> Explanation:
    """An explanation that has every part."""
    rng = np.random.default_rng(seed)
    shape = (game.size, game.n)

    def part(*more: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=(*shape, *more)))

    nothing = torch.zeros(game.size, dtype=torch.long)
    return Explanation(part(), part(), part(), part(game.n), nothing, tuple({} for _ in range(game.size)))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("make", [lambda n: bert_game(sequences(2, n)), lambda n: function_game(2, n), set_game])
def test_every_length_down_to_none_is_scored(name, make):
    for n in LENGTHS:
        game = make(n)
        metric = few(name)
        scores = compute_all([metric], game, guessed(game))[name]
        grid = len(scores.grid)
        assert tuple(scores.score.shape) == (game.size,) and tuple(scores.curve.shape) == (game.size, grid)
        assert scores.score.dtype == scores.curve.dtype == torch.float64
        assert scores.grid[0] == 0 and scores.grid[-1] == 100
        assert scores.score.isfinite().all() == (n > 0) and scores.curve.isfinite().all() == (n > 0)
        alone = metric.compute(game, guessed(game))
        assert torch.equal(alone.score.nan_to_num(-1), scores.score.nan_to_num(-1))


@all_variants
def test_every_metric_scores_every_method_at_every_length(name, options):
    for n in LENGTHS:
        game = bert_game(sequences(2, n))
        explanation = served(name, options, n).explain(game)
        scores = compute_all([few(metric) for metric in METRICS], game, explanation)
        assert list(scores) == METRICS
        assert all(result.score.isfinite().all() == (n > 0) for result in scores.values())


def test_one_seed_is_one_score_whatever_the_order_company_and_batches():
    tokens = sequences(3, 5)
    game = bert_game(tokens)
    explanation, chosen = guessed(game), [few(name) for name in METRICS]
    first = compute_all(chosen, game, explanation, seed=1)
    again = compute_all(chosen, bert_game(tokens), explanation, seed=1)
    backwards = compute_all(chosen[::-1], bert_game(tokens.flip(0)), rows_of(explanation, [2, 1, 0]), seed=1)
    alone = compute_all(chosen, bert_game(tokens[1:2], batch_tokens=7), rows_of(explanation, [1]), seed=1)
    for name in METRICS:
        assert torch.equal(first[name].score, again[name].score)
        assert (first[name].score - backwards[name].score.flip(0)).abs().max() < 1e-5
        assert (first[name].curve[1] - alone[name].curve[0]).abs().max() < 1e-5


def test_another_seed_permutes_otherwise():
    game = bert_game(sequences(2, 6))
    explanation = guessed(game)
    seeds = [compute_all([few("ins_auc")], game, explanation, seed)["ins_auc"].score for seed in (0, 1)]
    assert not torch.equal(*seeds)


@pytest.mark.parametrize("name", METRICS)
def test_scoring_changes_nothing_that_was_passed_in(name):
    tokens = sequences(2, 4)
    game, before = bert_game(tokens), tokens.clone()
    explanation = guessed(game)
    kept = {field: getattr(explanation, field).clone() for field in kinds(explanation)}
    with untouched_randomness():
        compute_all([few(name)], game, explanation)
    assert torch.equal(tokens, before)
    assert all(torch.equal(getattr(explanation, field), column) for field, column in kept.items())


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_attribution_that_is_not_finite_scores_nan_and_leaves_its_neighbours_alone(name, bad):
    game = bert_game(sequences(2, 3))
    explanation = guessed(game)
    right = compute_all([few(name)], game, explanation)[name].score
    for field in TOLD[:3]:
        getattr(explanation, field)[0, 1] = bad
    wrong = compute_all([few(name)], game, explanation)[name].score
    assert wrong[0].isnan() and wrong[1] == right[1]


@pytest.mark.parametrize("name", METRICS)
def test_equal_attributions_are_scored_as_the_mean_over_tie_orders(name):
    game = bert_game(sequences(1, 3))
    flat = Explanation(torch.ones((1, 3)).double(), None, None, None, torch.zeros(1, dtype=torch.long), ({},))
    many = few(name, tie_orders=60)
    scores = [compute_all([many], game, flat, seed)[name].score for seed in (0, 1)]
    assert abs(float(scores[0] - scores[1])) < 0.15
    assert all(score.isfinite().all() for score in scores)


@pytest.mark.parametrize("name", METRICS)
def test_an_explanation_of_other_samples_is_refused(name):
    with pytest.raises(ValueError, match=r"has shape \(2, 3\), and the game has 2 samples of 4 players"):
        compute_all([few(name)], bert_game(sequences(2, 4)), guessed(bert_game(sequences(2, 3))))


# --- what people read ---------------------------------------------------------------------------------------------

PLUGINS: list[tuple[str, type[BaseModel]]] = [*explainers().items(), *metrics().items()]  # type: ignore[list-item]


@pytest.mark.parametrize(("name", "kind"), PLUGINS, ids=[name for name, _ in PLUGINS])
def test_each_says_in_one_line_what_it_is_and_titles_its_options(name, kind):
    first, *rest = inspect.cleandoc(kind.__dict__["__doc__"]).splitlines()
    assert 15 <= len(first) <= 120 and first.rstrip()[-1] in ".;"
    assert not rest or rest[0] == "", "the docstring's first sentence must end on its first line: it is what is listed"
    for option, field in kind.model_fields.items():
        assert field.title, f"{name}.{option} has no title"
    assert kind.model_config["frozen"] and kind.model_config["extra"] == "forbid"
    assert "properties" in kind.model_json_schema()


@pytest.mark.parametrize(("name", "kind"), PLUGINS, ids=[name for name, _ in PLUGINS])
def test_unknown_options_and_names_are_told_with_the_nearest(name, kind):
    get: Any = get_explainer if name in explainers() else get_metric
    with pytest.raises(ValueError, match=rf"unknown \w+ '{name}x': did you mean '{name}'"):
        get(name + "x")
    with pytest.raises(ValueError, match=f"{name} has no option 'nonsense'"):
        get(name, nonsense=1)


def test_an_explanation_documents_its_parts():
    documented = inspect.getdoc(Explanation) or ""
    assert all(f"{field.name}:" in documented for field in fields(Explanation))
