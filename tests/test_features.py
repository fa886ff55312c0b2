"""Forests beside scikit-learn, known functions, and games that average absent features over a background."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from transformers import AutoModelForSequenceClassification

from explainers import Game, get_explainer
from explainers.features import FeatureGame, ForestGame, ForestLeaves, indicator_sums
from tasks.train.networks.mlp import Mlp, MlpConfig
from tasks.train.networks.polynomial import Polynomial, PolynomialConfig
from tasks.train.tables import forest_of


def fitted(rows: int = 120, n: int = 5, trees: int = 7, **options) -> tuple[RandomForestRegressor, np.ndarray]:
    rng = np.random.default_rng([rows, n])
    x = np.round(rng.normal(size=(rows, n)), 1).astype(np.float32)  # many ties
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + 0.1 * rng.normal(size=rows)
    return RandomForestRegressor(trees, random_state=0, **options).fit(x, y), x


def outputs(model, rows: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return model(features=torch.from_numpy(rows)).logits[:, 0].numpy()


# --- forest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"max_depth": 1}, {"max_depth": 4, "min_samples_leaf": 5}], ids=str)
def test_a_forest_predicts_what_scikit_learn_predicts(options):
    theirs, x = fitted(**options)
    ours = forest_of(theirs)
    thresholds = np.concatenate([tree.tree_.threshold for tree in theirs.estimators_]).astype(np.float32)
    edges = np.random.default_rng(0).choice(thresholds, size=(400, x.shape[1]))
    for rows in (x, edges, np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))):
        assert np.allclose(outputs(ours, rows), theirs.predict(rows), atol=1e-6)


def test_a_tree_that_never_splits_is_a_constant():
    x, y = np.zeros((5, 2), dtype=np.float32), np.full(5, 3.0)
    ours = forest_of(RandomForestRegressor(2, random_state=0).fit(x, y))
    assert outputs(ours, x).tolist() == [3.0] * 5
    lower, upper, value = ours.boxes()
    assert lower.shape == (2, 2) and torch.isinf(lower).all() and torch.isinf(upper).all() and float(value.sum()) == 3


def test_a_row_is_in_one_box_of_each_tree_and_their_values_add_up():
    theirs, x = fitted()
    lower, upper, value = forest_of(theirs).boxes()
    rows = torch.from_numpy(x)[:, None]
    inside = ((rows > lower) & (rows <= upper)).all(2)
    assert inside.sum(1).tolist() == [len(theirs.estimators_)] * len(x)
    assert np.allclose((inside.double() @ value).numpy(), theirs.predict(x), atol=1e-6)


def test_a_forest_comes_back_from_safetensors(tmp_path):
    theirs, x = fitted()
    ours = forest_of(theirs)
    ours.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    back = AutoModelForSequenceClassification.from_pretrained(str(tmp_path)).eval()
    assert np.array_equal(outputs(back, x), outputs(ours, x)) and back.config.num_labels == 1


def test_wrong_shapes_are_told():
    with pytest.raises(ValueError, match=r"features has shape \(3, 4\), and the model takes \(rows, 5\)"):
        forest_of(fitted()[0])(features=torch.zeros((3, 4)))


# --- known functions -----------------------------------------------------------------------------------------------


def polynomial(exponents: list[list[int]], coefficients: list[float]) -> Polynomial:
    model = Polynomial(PolynomialConfig(num_features=len(exponents[0]), exponents=exponents))
    with torch.no_grad():
        model.coefficients.copy_(torch.tensor(coefficients))
    return model.eval()


def test_a_polynomial_by_hand_and_back_from_safetensors(tmp_path):
    model = polynomial([[1, 0, 0], [0, 2, 1]], [1.0, -0.5])
    rows = np.array([[2.0, 3.0, 4.0], [0.0, -1.0, 1.0]])
    assert outputs(model, rows).tolist() == [2 - 18, -0.5]
    model.save_pretrained(tmp_path)
    back = AutoModelForSequenceClassification.from_pretrained(str(tmp_path)).eval()
    assert outputs(back, rows).tolist() == [-16.0, -0.5]


# --- games ---------------------------------------------------------------------------------------------------------


def cube(n: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product([False, True], repeat=n)))


def test_indicator_sums_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    n, kinds = 4, 30
    sides = rng.integers(3, size=(kinds, n))  # 0 free, 1 present, 2 absent
    bits = 1 << np.arange(n)
    weight = rng.normal(size=kinds)
    found = indicator_sums((sides == 1) @ bits, (sides == 2) @ bits, weight, n)
    for code in range(2**n):
        has = (code >> np.arange(n) & 1).astype(bool)
        fits = (has | (sides != 1)).all(1) & (~has | (sides != 2)).all(1)
        assert found[code] == pytest.approx(weight[fits].sum(), abs=1e-12)


def test_the_worths_from_the_leaves_are_those_of_eq_7():
    theirs, x = fitted(trees=5)
    model, rows = forest_of(theirs), torch.from_numpy(x)
    sample, background = rows[:2], rows[10:60]
    fast = ForestGame(model, sample, background)
    slow = Game.from_background(lambda r: model(features=r).logits[:, 0], sample, background)
    shared = ForestGame(model, sample, background, leaves=ForestLeaves.of(model, background))
    for place in range(2):
        wanted = slow.evaluate(place, cube(5))
        assert torch.allclose(fast.evaluate(place, cube(5)), wanted, atol=1e-9)
        assert torch.equal(shared.evaluate(place, cube(5)), fast.evaluate(place, cube(5)))
    assert float(wanted[-1]) == pytest.approx(theirs.predict(x[1:2])[0], abs=1e-6)
    assert shared.spent[0] == slow.spent[0] == 32 and shared.spent_tokens[0] == 32 * 5 * 50


def test_more_than_twenty_features_are_refused_before_anything_is_made():
    theirs, x = fitted(n=21, trees=1)
    with pytest.raises(ValueError, match="n is 21; take FeatureGame"):
        ForestGame(forest_of(theirs), torch.from_numpy(x[:1]), torch.from_numpy(x[:3]))


def test_a_game_of_a_number_is_the_games_of_its_function():
    model = polynomial([[1, 1, 0]], [1.0])
    rows = torch.from_numpy(np.random.default_rng(0).uniform(size=(6, 3)))
    game = FeatureGame(model, rows, rows)
    plain = Game.from_background(lambda r: r[:, 0] * r[:, 1], rows, rows)
    for place in range(6):
        assert torch.allclose(game.evaluate(place, cube(3)), plain.evaluate(place, cube(3)), atol=1e-12)
    assert game.targets == [0] * 6
    with pytest.raises(ValueError, match="the model predicts a number"):
        game.agrees(0, torch.zeros((1, 1)))
    value = get_explainer("joint_shapley", order=1).explain(game).value
    function = rows[:, 0] * rows[:, 1]
    assert torch.allclose(value.sum(1), function - function.mean(), atol=1e-12)


def test_a_game_of_classes_averages_the_probability_of_the_predicted_one():
    torch.manual_seed(0)
    model = Mlp(MlpConfig(num_features=3, num_labels=2)).eval()
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([0.0, 0.3]))
    rows = torch.randn((4, 3))
    game = FeatureGame(model, rows[:2], rows)
    kept = torch.tensor([[True, False, True]])
    for place in range(2):
        mixed = torch.where(kept, rows[place], rows)
        with torch.no_grad():
            probability = model(features=mixed).logits.double().softmax(1)
            target = int(model(features=rows[place][None]).logits.argmax())
        assert game.targets[place] == target
        assert float(game.evaluate(place, kept)) == pytest.approx(float(probability[:, target].mean()), abs=1e-12)
    assert FeatureGame(model, rows[:2], rows, target=0).targets == [0, 0]
    with pytest.raises(ValueError, match="target is 2, and the model has the classes 0 to 1"):
        FeatureGame(model, rows, rows, target=2)
