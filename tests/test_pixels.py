"""The game of an image classifier: removal, arrangements, batches, gradients, bad input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from explainers import PixelGame, get_explainer
from tasks.train.networks import NETWORKS


class Linear(torch.nn.Module):
    """Logits 0 and the weighted sum of all pixels: a game whose Shapley values are known."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(weights)
        self.config = SimpleNamespace(num_labels=2)

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        score = (pixel_values * self.weights).sum((1, 2, 3))
        return SimpleNamespace(logits=torch.stack([torch.zeros_like(score), score], dim=1))


REFERENCE = (0.25, 0.5)


def linear_game(scale: str = "logit", **options) -> tuple[PixelGame, torch.Tensor]:
    rng = np.random.default_rng(0)
    weights = torch.from_numpy(rng.normal(size=(2, 3, 4)))
    pixels = torch.from_numpy(rng.random((1, 2, 3, 4)))
    pixels[0, :, 1, 2] = torch.tensor(REFERENCE)
    game = PixelGame(Linear(weights).eval(), pixels, REFERENCE, target=1, scale=scale, **options)
    worth = (weights * (pixels[0] - torch.tensor(REFERENCE).double()[:, None, None])).sum(0).flatten()
    return game, worth


def test_an_absent_pixel_has_the_reference_value_in_every_channel():
    game, worth = linear_game()
    kept = torch.rand(20, 12, generator=torch.Generator().manual_seed(0)) < 0.5
    outputs = game.evaluate(0, kept)
    empty = game.evaluate(0, torch.zeros(1, 12, dtype=torch.bool))
    assert outputs - empty == pytest.approx((kept.double() @ worth).numpy(), abs=1e-12)


@pytest.mark.parametrize("method", ["kernelshap", "sample_shapley", "loco"])
def test_methods_find_the_worth_of_each_pixel(method):
    game, worth = linear_game()
    options = {} if method == "loco" else {"budget": 400}
    value = get_explainer(method, **options).explain(game).value[0]
    assert value == pytest.approx(worth.numpy(), abs=1e-9)


def test_gradients_reach_the_pixels():
    game, _ = linear_game()
    weights = game.model.weights.detach().flatten(1)
    value = get_explainer("saliency").explain(game).value[0]
    assert value == pytest.approx(weights.abs().mean(0).numpy(), abs=1e-12)
    attribution = get_explainer("integrated_gradients").explain(game).value[0]
    _, worth = linear_game()
    assert attribution == pytest.approx((worth / 2).numpy(), abs=1e-9), "the mean over channels"


def test_a_pixel_of_the_reference_value_is_inert_and_costs_nothing():
    game, worth = linear_game()
    assert game.inert(0).nonzero().flatten().tolist() == [6] and worth[6] == 0
    both = torch.ones(2, 12, dtype=torch.bool)
    both[1, 6] = False
    before = game.spent[0]
    game.evaluate(0, both)
    assert game.spent[0] == before + 1


def test_an_arrangement_moves_whole_pixels():
    game, _ = linear_game()
    arrangement = torch.randperm(12, generator=torch.Generator().manual_seed(3))[None]
    moved = PixelGame(
        game.model, game.images[:, :, :-1][..., arrangement[0]].reshape(1, 2, 3, 4), REFERENCE, target=1, scale="logit"
    )
    everyone = torch.ones(1, 12, dtype=torch.bool)
    assert game.evaluate(0, everyone, arrangement).item() == pytest.approx(moved.evaluate(0, everyone).item())


def test_the_predicted_class_is_explained_and_scales_agree():
    network = NETWORKS["digit_cnn"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = network(network.config_class(num_labels=3, height=16, width=16, mean=[0.2], std=[0.5])).eval()
    pixels = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    game = PixelGame(model, pixels, (0.2,))
    with torch.no_grad():
        logits = model(pixel_values=pixels).logits.double()
    assert game.targets == logits.argmax(1).tolist()
    everyone = torch.ones(1, 256, dtype=torch.bool)
    outputs = game.outputs(1, everyone)
    chance = torch.softmax(logits, 1)[1, game.targets[1]].item()
    assert game.value(1, outputs).item() == pytest.approx(chance, abs=1e-6)
    assert game.agrees(1, outputs).tolist() == [True]
    log = PixelGame(model, pixels, (0.2,), scale="log_probability").evaluate(1, everyone)
    assert log.exp().item() == pytest.approx(chance, abs=1e-6)


@pytest.mark.parametrize("batch", [1, 50, None])
def test_batches_change_nothing_beyond_rounding(batch):
    game, _ = linear_game(batch_tokens=batch)
    whole, _ = linear_game()
    kept = torch.rand(30, 12, generator=torch.Generator().manual_seed(0)) < 0.5
    assert game.evaluate(0, kept) == pytest.approx(whole.evaluate(0, kept).numpy(), abs=1e-12)


def test_bad_input_is_told():
    model = Linear(torch.ones(1, 2, 2)).eval()
    with pytest.raises(ValueError, match=r"pixels has shape \(2, 2\) and type torch.float32; give floats"):
        PixelGame(model, torch.zeros(2, 2), (0.0,))
    with pytest.raises(ValueError, match="reference has 3 entries and the images 1 channels"):
        PixelGame(model, torch.zeros(1, 1, 2, 2), (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="target is 2, and the model has the classes 0 to 1"):
        PixelGame(model, torch.zeros(1, 1, 2, 2), (0.0,), target=2)
    with pytest.raises(ValueError, match="scale is 'odds'"):
        PixelGame(model, torch.zeros(1, 1, 2, 2), (0.0,), scale="odds")
    with pytest.raises(ValueError, match="training mode"):
        PixelGame(Linear(torch.ones(1, 2, 2)), torch.zeros(1, 1, 2, 2), (0.0,))
