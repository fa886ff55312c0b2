"""The model's output as one token moves: right rows, few evaluations, nothing where slots mean nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explainers import Game
from flows import steps
from flows.context import open_context
from flows.steps.pages import moves, study_results
from tasks.gather import moving
from tasks.moves import arrangements, has_slots, moved_outputs, read_moves
from tests.studies import tiny_study


def digits(tokens: torch.Tensor) -> torch.Tensor:
    """Return the number that a row of digits spells: every arrangement has its own output."""
    powers = 10.0 ** torch.arange(tokens.shape[1] - 1, -1, -1, dtype=torch.float64)
    return (tokens.double() * powers).sum(1)


def test_each_player_in_each_slot_by_hand():
    game = Game.from_function(digits, torch.tensor([[9, 9, 9], [1, 2, 3]]), ablated=0)
    assert moved_outputs(game, 1, [0, 2]).tolist() == [[123, 213, 231], [312, 132, 123]]


def test_a_token_takes_at_most_as_many_evaluations_as_slots():
    game = Game.from_function(digits, torch.arange(1, 8)[None], ablated=0)
    moved_outputs(game, 0, [1, 4, 6])
    assert game.spent == [3 * 7]
    equal = Game.from_function(digits, torch.full((1, 7), 5), ablated=0)
    moved_outputs(equal, 0, [3])
    assert equal.spent == [1], "equal inputs are evaluated once"


def test_groups_move_as_one():
    groups = torch.tensor([[0, 0, 1]])
    game = Game.from_function(digits, torch.tensor([[1, 2, 3]]), ablated=0, groups=groups)
    assert moved_outputs(game, 0, [0]).tolist() == [[123, 312]]


def test_no_player_and_wrong_players():
    game = Game.from_function(digits, torch.tensor([[1, 2]]), ablated=0)
    assert moved_outputs(game, 0, []).shape == (0, 2)
    for player in (-1, 2):
        with pytest.raises(ValueError, match=f"player {player} cannot be moved: the sample has 2 players; give 0 to 1"):
            moved_outputs(game, 0, [player])


def test_rows_are_arrangements():
    for player in range(4):
        rows = arrangements(4, player)
        assert rows.sort(1).values.tolist() == [[0, 1, 2, 3]] * 4
        assert (rows == player).nonzero().tolist() == [[slot, slot] for slot in range(4)]


def test_where_slots_mean_nothing():
    assert has_slots(Game.from_function(digits, torch.tensor([[1, 2]]), ablated=0))
    assert not has_slots(Game.from_function(digits, torch.tensor([[1]]), ablated=0))
    assert not has_slots(Game.from_set_function(lambda kept: kept.sum(1).double(), 4))
    features = torch.tensor([[1.0, 2.0]])  # of a table
    assert not has_slots(Game.from_background(lambda rows: rows.sum(1), features, features))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    study = tiny_study(tmp_path_factory.mktemp("store"), report={"samples": 2, "moved_tokens": 3})
    context = open_context(study)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    runs = [steps.explain(context, method, data, model) for method in study.explainers]
    runs = [steps.evaluate(context, run, data, model) for run in runs]
    return context, runs, data, model


def test_the_report_s_samples_know_what_moving_does(done):
    context, runs, data, model = done
    results = study_results(context, runs, data, model)
    subject = steps.load_subject(context, data, model)
    assert [len(sample.moved) for sample in results.samples] == [3, 3, 0, 0, 0, 0]
    for index, sample in enumerate(results.samples[:2]):
        untouched = float(subject.game(index).evaluate(0, torch.ones((1, len(sample.names)), dtype=torch.bool))[0])
        strength = np.maximum(*(abs(x) / abs(x).max() for x in vars_of(sample)))
        assert set(sample.moved) == set(np.argsort(-strength, kind="stable")[:3])
        for event, outputs in sample.moved.items():
            assert outputs.shape == (len(sample.names),)
            assert outputs[event] == pytest.approx(untouched, abs=1e-6), "a token in its own slot changes nothing"
            assert np.ptp(outputs) > 0
    assert [sample.attributions["ordshap"].matrix is None for sample in results.samples] == [False] * 2 + [True] * 4


def vars_of(sample):
    view = sample.attributions["ordshap"]
    return view.value, view.position


def test_moved_outputs_are_kept(done, monkeypatch):
    context, runs, data, model = done
    players = moving(context.study, study_results(context, runs, data, model))
    first = moves(context, players, data, model)
    monkeypatch.setattr("flows.steps.pages.load_subject", None)  # the model is not needed again
    assert moves(context, players, data, model) == first
    assert sorted(read_moves(first.folder)) == sorted(players)


def test_none_are_asked_for(done):
    context, runs, data, model = done
    study = tiny_study(context.study.storage, report={"samples": 2, "moved_tokens": 0})
    assert moving(study, study_results(context, runs, data, model)) == {}
