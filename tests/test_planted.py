"""On the synthetic cohort's true logit OrdShap finds the planted effects, position effects above inert codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from explainers import Game, get_explainer
from explainers.streams import stream
from tasks.preprocess.synthetic import INERT, draw_codes, kind, logit, true_importance

MASK = "MASK"


def logit_game(codes: list[str]) -> Game:
    """Return the game whose black box is the cohort's true logit; a masked event has no effect."""
    names = [MASK, *codes]

    def f(tokens: torch.Tensor) -> torch.Tensor:
        return torch.tensor([logit([names[token] for token in row]) for row in tokens.tolist()], dtype=torch.float64)

    return Game.from_function(f, torch.arange(1, len(codes) + 1)[None], 0)


@pytest.fixture(scope="module")
def stays() -> list[list[str]]:
    rng = stream(0, "test of planted effects")
    return [draw_codes(rng, int(events)) for events in rng.integers(8, 40, size=12)]


def test_position_effects_rank_above_inert_codes_with_the_planted_sign(stays):
    planted, size = [], []
    for codes in stays:
        result = get_explainer("ordshap", budget=1000).explain(logit_game(codes), seed=0)
        _, position = true_importance(codes)
        for code, found, true in zip(codes, result.position[0].tolist(), position, strict=True):
            if kind(code) in ("position", "value_and_position"):
                assert np.sign(found) == np.sign(true)
            if kind(code) in ("position", "value_and_position", "inert"):
                planted.append(code not in INERT)
                size.append(abs(found))
    assert 10 < sum(planted) < len(planted) - 10
    assert roc_auc_score(planted, size) > 0.999


def test_importance_equals_the_closed_form(stays):
    codes = next(codes for codes in stays if len(codes) <= 16)
    value, position = true_importance(codes)
    result = get_explainer("ordshap", budget=6000).explain(logit_game(codes), seed=0)
    assert np.allclose(result.value[0], value, atol=0.05 * np.abs(value).max())
    assert np.allclose(result.position[0], position, atol=0.05 * np.abs(position).max())
