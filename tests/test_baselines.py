"""The baseline methods through captum: closed forms, brute force, invariances."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import BertForSequenceClassification
from transformers.activations import GELUActivation

from explainers import ClassifierGame, Explainer, Game, get_explainer
from explainers.deeplift import attribute
from explainers.embeddings import private_view
from tests.models import tiny_bert

MASK, CLS = 4, 2
GRADIENT = ("saliency", "integrated_gradients", "deeplift")
EVALUATION = ("lime", "loco")
BASELINES = (*EVALUATION, *GRADIENT, "random")


@pytest.fixture(scope="module")
def bert() -> BertForSequenceClassification:
    return tiny_bert(words=30, layers=2, scale=10)


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).integers(5, 30, size=(3, 9)))


def baseline(name: str) -> Explainer:
    return get_explainer(name, **({"budget": 100} if name == "lime" else {}))


class Bag(nn.Module):
    """A double-precision classifier: embeddings, a layer over all positions, an activation, two logits."""

    def __init__(self, length: int, activation: nn.Module) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)

        def weights(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))

        self.embedding = nn.Embedding(30, 3, _weight=weights(30, 3).detach())
        self.hidden, self.activation, self.out = weights(length * 3, 6), activation, weights(6, 2)
        self.eval()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(
        self, input_ids: torch.Tensor | None = None, inputs_embeds: torch.Tensor | None = None
    ) -> SimpleNamespace:
        embedded = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        return SimpleNamespace(logits=self.activation(embedded.flatten(1) @ self.hidden) @ self.out)


def bag_game(activation: nn.Module, tokens: torch.Tensor) -> ClassifierGame:
    return ClassifierGame(Bag(tokens.shape[1], activation), tokens, MASK, target=1, scale="logit")


def additive(coefficients: list[float]) -> Game:
    weights = torch.tensor(coefficients, dtype=torch.float64)
    return Game.from_set_function(lambda kept: 0.25 + kept.double() @ weights, len(coefficients))


def test_loco_is_brute_force_leave_one_out(bert, tokens):
    game = ClassifierGame(bert, tokens, MASK, prefix=(CLS,))
    result = get_explainer("loco").explain(game)
    for sample in range(3):
        whole = probability(bert, tokens[sample], game.targets[sample])
        for player in range(9):
            masked = tokens[sample].clone()
            masked[player] = MASK
            drop = whole - probability(bert, masked, game.targets[sample])
            assert float(result.value[sample, player]) == pytest.approx(drop, abs=1e-6)
    assert result.evaluations.tolist() == [10, 10, 10]
    assert result.value.abs().max() > 1e-3


def probability(bert: nn.Module, row: torch.Tensor, target: int) -> float:
    ids = torch.cat([torch.tensor([CLS]), row])[None]
    with torch.no_grad():
        return float(bert(input_ids=ids).logits.double().softmax(1)[0, target])


def test_loco_sign_is_with_minus_without():
    assert get_explainer("loco").explain(additive([2.0, -1.0])).value.tolist() == [[2.0, -1.0]]


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_lime_without_penalty_recovers_an_additive_game(coefficients):
    result = get_explainer("lime", ridge=0, budget=60).explain(additive(coefficients))
    assert result.value[0].tolist() == pytest.approx(coefficients, abs=1e-5)


def test_lime_is_the_weighted_ridge_regression_of_its_rows():
    # the rows that were evaluated are recorded; normal equations with an unpenalised intercept, by hand
    seen: list[torch.Tensor] = []

    def v(kept: torch.Tensor) -> torch.Tensor:
        seen.append(kept)
        return (kept[:, 0] & kept[:, 1]).double() - 0.5 * kept[:, 2].double()

    game = Game.from_set_function(v, 20)
    value = get_explainer("lime", budget=40, ridge=2.0, kernel_width=0.5).explain(game, seed=3).value[0].numpy()
    rows = torch.cat(seen).double().numpy()
    assert len(rows) == 40, "all 40 draws of 20 players are distinct here"
    distance = 1 - np.sqrt(rows.mean(1))  # cosine between a 0/1 vector of s ones and the vector of n ones: sqrt(s/n)
    weight = np.exp(-(distance**2) / (2 * 0.5**2))
    design = np.column_stack([np.ones(40), rows])
    outputs = (rows[:, 0] * rows[:, 1]) - 0.5 * rows[:, 2]
    penalty = 2.0 * np.diag([0.0] + [1.0] * 20)
    expected = np.linalg.solve(design.T @ (weight[:, None] * design) + penalty, design.T @ (weight * outputs))[1:]
    assert value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("budget", [13, 50, 1000])
@pytest.mark.parametrize("n", [1, 2, 12])
def test_lime_spends_at_most_its_budget(n, budget):
    game = additive([1.0] * n)
    result = get_explainer("lime", budget=budget).explain(game)
    assert 2 <= int(result.evaluations[0]) <= min(budget, 2**n)


def test_lime_sees_a_lone_player_kept_and_ablated_even_with_the_smallest_budget():
    for seed in range(5):
        result = get_explainer("lime", budget=2, ridge=0).explain(additive([1.5]), seed)
        assert result.value.tolist() == [[pytest.approx(1.5, abs=1e-6)]]


def test_lime_says_which_budget_it_needs():
    with pytest.raises(ValueError, match=r"budget is 5 .* needs at least 9"):
        get_explainer("lime", budget=5).explain(additive([1.0] * 8))


def test_integrated_gradients_of_a_linear_model_is_the_closed_form(tokens):
    game = bag_game(nn.Identity(), tokens)
    result = get_explainer("integrated_gradients", steps=3).explain(game)
    model = game.model
    slope = (model.hidden @ model.out[:, 1]).reshape(9, 3)
    table = model.embedding.weight
    for sample in range(3):
        closed = ((table[tokens[sample]] - table[MASK]) * slope).mean(1)
        assert result.value[sample].tolist() == pytest.approx(closed.tolist(), rel=1e-6)  # captum's nodes are float32
    assert result.evaluations.tolist() == [5, 5, 5]


def test_integrated_gradients_gap_falls_with_the_steps(bert, tokens):
    game = ClassifierGame(bert, tokens, MASK, prefix=(CLS,))

    def widest_gap(steps: int) -> float:
        audit = get_explainer("integrated_gradients", steps=steps).explain(game).audit
        return max(abs(numbers["completeness_gap"]) for numbers in audit)

    coarse, fine = widest_gap(2), widest_gap(200)
    assert coarse > 1e-3
    assert fine < 2e-4 and fine < coarse / 10


def test_gap_counts_all_positions_and_dimensions(tokens):
    # by hand: 3 dimensions, no special token: gap = 3 * sum of the players' means - (f(x) - f(all masked))
    game = bag_game(nn.Tanh(), tokens)
    result = get_explainer("integrated_gradients", steps=4).explain(game)
    whole = torch.ones((1, 9), dtype=torch.bool)
    for sample in range(3):
        change = float(game.evaluate(sample, whole) - game.evaluate(sample, ~whole))
        gap = 3 * float(result.value[sample].sum()) - change
        assert result.audit[sample]["completeness_gap"] == pytest.approx(gap, abs=1e-9)
        assert abs(gap) > 1e-6


@pytest.mark.parametrize("activation", [GELUActivation(), nn.GELU(), nn.Tanh(), nn.ReLU()])
def test_deeplift_rescale_is_complete_for_elementwise_activations(activation, tokens):
    game = bag_game(activation, tokens)
    result = get_explainer("deeplift", epsilon=1e-10).explain(game)
    assert all(abs(audit["completeness_gap"]) < 1e-9 for audit in result.audit)
    assert result.evaluations.tolist() == [4, 4, 4]


def test_deeplift_of_one_hidden_layer_is_the_closed_form(tokens):
    # rescale rule: unit h passes (act(z_h) - act(z0_h)) / (z_h - z0_h)
    game = bag_game(GELUActivation(), tokens)
    model = game.model
    x, x0 = model.embedding.weight[tokens[0]], model.embedding.weight[MASK].expand(9, 3)
    z, z0 = x.flatten() @ model.hidden, x0.flatten() @ model.hidden
    passed = (nn.functional.gelu(z) - nn.functional.gelu(z0)) / (z - z0)
    slope = (model.hidden @ (passed * model.out[:, 1])).reshape(9, 3)
    result = get_explainer("deeplift").explain(game)
    assert result.value[0].tolist() == pytest.approx(((x - x0) * slope).mean(1).tolist(), abs=1e-10)


def test_deeplift_on_bert_reports_its_gap_and_warns_of_nothing(bert, tokens):
    game = ClassifierGame(bert, tokens, MASK, prefix=(CLS,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = get_explainer("deeplift").explain(game)
    view = private_view(game, 0)
    total = float(attribute(view, 1e-5).detach().double().sum())
    whole = torch.ones((1, 9), dtype=torch.bool)
    change = float(game.evaluate(0, whole) - game.evaluate(0, ~whole))
    assert result.audit[0]["completeness_gap"] == pytest.approx(total - change, abs=1e-5)


def test_saliency_is_the_mean_magnitude_of_the_gradient(bert, tokens):
    game = ClassifierGame(bert, tokens, MASK, prefix=(CLS,))
    signed = get_explainer("saliency", absolute=False).explain(game)
    result = get_explainer("saliency").explain(game)
    embedded = bert.get_input_embeddings()(torch.cat([torch.tensor([CLS]), tokens[0]])[None]).detach().requires_grad_()
    bert(inputs_embeds=embedded).logits.softmax(1)[0, game.targets[0]].backward(inputs=[embedded])
    assert result.value[0].tolist() == pytest.approx(embedded.grad[0, 1:].abs().mean(1).tolist(), rel=1e-4)
    assert signed.value[0].tolist() == pytest.approx(embedded.grad[0, 1:].mean(1).tolist(), rel=1e-3, abs=1e-7)
    assert result.evaluations.tolist() == [1, 1, 1]


def test_gradient_methods_leave_the_model_as_it_was_while_threads_share_it(bert, tokens):
    game = ClassifierGame(bert, tokens, MASK, prefix=(CLS,))
    serial = {name: get_explainer(name).explain(game).value for name in ("deeplift", "loco")}

    def explain(name: str) -> torch.Tensor:
        return get_explainer(name).explain(ClassifierGame(bert, tokens, MASK, prefix=(CLS,))).value

    names = ["deeplift", "loco"] * 6
    with ThreadPoolExecutor(4) as pool:
        for name, value in zip(names, pool.map(explain, names), strict=True):
            assert torch.allclose(value, serial[name], atol=1e-6)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in bert.modules())
    assert all(parameter.grad is None for parameter in bert.parameters())


def test_random_is_uniform_and_free(tokens):
    game = Game.from_function(lambda rows: rows.double().mean(1), tokens.repeat(1, 200), MASK)
    result = get_explainer("random").explain(game, seed=1)
    assert bool((result.value >= 0).all()) and bool((result.value < 1).all())
    assert float(result.value.mean()) == pytest.approx(0.5, abs=0.03)  # 5,400 draws: standard error 0.004
    assert result.evaluations.tolist() == [0, 0, 0] and game.spent == [0, 0, 0]
    assert not torch.equal(result.value, get_explainer("random").explain(game, seed=2).value)


@pytest.mark.parametrize("name", BASELINES)
def test_same_seed_same_result_whatever_the_batches(bert, tokens, name):
    method = baseline(name)

    def value(batch_tokens: int) -> torch.Tensor:
        return method.explain(
            ClassifierGame(bert, tokens, MASK, prefix=(CLS,), batch_tokens=batch_tokens), seed=4
        ).value

    assert torch.equal(value(4096), value(4096))
    assert torch.allclose(value(4096), value(25), atol=1e-6)


@pytest.mark.parametrize("name", BASELINES)
def test_a_sample_does_not_depend_on_its_place(bert, tokens, name):
    method, order = baseline(name), [2, 0, 1]
    value = method.explain(ClassifierGame(bert, tokens, MASK, prefix=(CLS,)), seed=4).value
    moved = method.explain(ClassifierGame(bert, tokens[order], MASK, prefix=(CLS,)), seed=4).value
    assert torch.allclose(moved, value[order], atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("name", BASELINES)
def test_short_sequences(bert, tokens, name, n):
    result = baseline(name).explain(ClassifierGame(bert, tokens[:, :n], MASK, prefix=(CLS,)))
    assert tuple(result.value.shape) == (3, n)
    assert bool(result.value.isfinite().all())
    assert bool((result.value != 0).all())
    assert result.position is None and result.matrix is None


@pytest.mark.parametrize("name", BASELINES)
def test_the_global_generator_is_left_alone(bert, tokens, name):
    before = torch.get_rng_state()
    baseline(name).explain(ClassifierGame(bert, tokens[:1], MASK, prefix=(CLS,)))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", GRADIENT)
def test_gradient_methods_refuse_a_plain_function(name):
    assert baseline(name).needs_gradient
    with pytest.raises(ValueError, match="wraps a function"):
        baseline(name).explain(additive([1.0, 2.0]))
