"""The engine: removal of absent players, players as groups of tokens, memory of inputs, shared batches, precision."""

from __future__ import annotations

import itertools
import json
import threading
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset, DatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

import explainers.rows
from conf.load import ConfError, check_study
from conf.schema import Explain, Method
from explainers import ClassifierGame, Explanation, Game, get_explainer
from explainers.base import SampleExplanation
from explainers.loco import Loco
from explainers.memo import MOST_ROWS, WIDEST, Memo
from explainers.together import explain_together
from metrics import compute_all, get_metric, metrics
from tasks.content import Content, write_content
from tasks.explain import SHARDS, check_methods, explain_method, read_explanation
from tasks.gather import MethodOutputs, attribution_table, player_rows, sample_views
from tasks.subject import Subject, players_in, players_of
from tasks.vocabulary import Vocabulary
from tests.games import naive_gamma, naive_shapley
from tests.models import tiny_bert
from tests.studies import TINY

CLS, MASK, FIRST, WORDS = 1, 2, 4, 30


@cache
def bert() -> BertForSequenceClassification:
    return tiny_bert(words=WORDS, layers=2, scale=8)


def sequences(samples: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([seed, length]).integers(FIRST, WORDS, size=(samples, length)))


def bert_game(tokens: torch.Tensor, **options: Any) -> ClassifierGame:
    return ClassifierGame(bert(), tokens, ablated=MASK, prefix=(CLS,), **options)


def rows_of(n: int, rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random coalitions, the empty and the full one first, and random arrangements."""
    rng = np.random.default_rng(seed)
    kept = rng.random((rows, n)) < rng.random((rows, 1))
    kept[0], kept[1] = False, True
    return torch.from_numpy(kept), torch.from_numpy(rng.permuted(np.tile(np.arange(n), (rows, 1)), axis=1))


class Recorder(torch.nn.Module):
    """Passes calls on to the tiny BERT, and keeps what it was given."""

    def __init__(self, most_rows: int = 10**9) -> None:
        super().__init__()
        self.inner = bert()
        self.config = self.inner.config
        self.most_rows = most_rows
        self.calls: list[dict[str, torch.Tensor]] = []
        self.eval()

    def forward(self, input_ids=None, attention_mask=None, position_ids=None):
        if len(input_ids) > self.most_rows:
            raise torch.OutOfMemoryError("too many rows")
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}
        self.calls.append({name: value for name, value in given.items() if value is not None})
        return self.inner(**self.calls[-1])


def recorded(tokens: torch.Tensor, most_rows: int = 10**9, **options: Any) -> tuple[ClassifierGame, Recorder]:
    model = Recorder(most_rows)
    game = ClassifierGame(model, tokens, ablated=MASK, prefix=(CLS,), **options)
    model.calls.clear()
    return game, model


# --- removal ------------------------------------------------------------------------------------------------------


def by_hand(removal: str, tokens: list[int], kept: list[bool], arrangement: list[int]) -> dict[str, torch.Tensor]:
    """Return the model's inputs for one row, written out slot by slot."""
    ids, seen, places = [CLS], [1], [0]
    for slot, player in enumerate(arrangement, start=1):
        if removal == "drop_tokens" and not kept[player]:
            continue
        ids.append(tokens[player] if kept[player] else MASK)
        seen.append(int(kept[player] or removal == "mask_token"))
        places.append(slot)
    row = {"input_ids": ids, "attention_mask": seen, "position_ids": places}
    return {name: torch.tensor([values]) for name, values in row.items()}


@pytest.mark.parametrize("removal", ["mask_token", "attention_mask", "drop_tokens"])
@pytest.mark.parametrize("arranged", [True, False])
def test_each_removal_is_what_it_says_row_by_row(removal, arranged):
    tokens = sequences(1, 6)
    kept, arrangement = rows_of(6, 30)
    if not arranged:
        arrangement = torch.arange(6).expand(30, -1)
    game = bert_game(tokens, removal=removal, scale="logit", batch_tokens=40)
    found = game.evaluate(0, kept, arrangement if arranged else None)
    with torch.inference_mode():
        wanted = [
            bert()(**by_hand(removal, tokens[0].tolist(), row.tolist(), order.tolist())).logits[0, game.targets[0]]
            for row, order in zip(kept, arrangement, strict=True)
        ]
    assert (found - torch.stack(wanted)).abs().max() < 1e-5


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_dropped_tokens_give_the_numbers_of_the_attention_mask(n):
    kept, arrangement = rows_of(n, 200, seed=n)
    options = {"scale": "probability", "batch_tokens": 97}
    hidden, dropped = (bert_game(sequences(1, n), removal=r, **options) for r in ("attention_mask", "drop_tokens"))
    for order in (None, arrangement):
        assert (hidden.evaluate(0, kept, order) - dropped.evaluate(0, kept, order)).abs().max() < 1e-6
    assert hidden.spent == dropped.spent
    if n > 2:
        masked = bert_game(sequences(1, n), **options).evaluate(0, kept, arrangement)
        assert (masked - hidden.evaluate(0, kept, arrangement)).abs().max() > 1e-3


def test_the_mask_token_game_gives_the_model_tokens_and_nothing_else():
    game, model = recorded(sequences(1, 6), batch_tokens=40)
    kept, arrangement = rows_of(6, 30)
    game.evaluate(0, kept, arrangement)
    assert all(list(call) == ["input_ids"] and call["input_ids"].dtype == torch.long for call in model.calls)
    assert {call["input_ids"].shape[1] for call in model.calls} == {7}
    assert sum(len(call["input_ids"]) for call in model.calls) == game.spent[0]
    assert game.spent_tokens[0] == 7 * game.spent[0]


def test_batches_of_dropped_tokens_fall_in_length_and_keep_the_budget_and_the_tokens_are_counted():
    game, model = recorded(sequences(1, 20), removal="drop_tokens", batch_tokens=60)
    kept, arrangement = rows_of(20, 100)
    game.evaluate(0, kept, arrangement)
    shapes = [tuple(call["input_ids"].shape) for call in model.calls]
    lengths = [length for _, length in shapes]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] == 21 and lengths[-1] < 5
    assert all(rows * length <= 60 for rows, length in shapes)
    assert game.spent_tokens[0] == sum(rows * length for rows, length in shapes)
    whole = game.spent[0] * 21
    assert int(kept.sum()) + game.spent[0] <= game.spent_tokens[0] < 0.75 * whole

    each = bert_game(sequences(1, 20), removal="drop_tokens", batch_tokens=1)
    each.evaluate(0, kept[:10], arrangement[:10])
    assert each.spent_tokens[0] == int(kept[:10].sum()) + 10
    hidden = bert_game(sequences(1, 20), removal="attention_mask", batch_tokens=60)
    hidden.evaluate(0, kept, arrangement)
    assert hidden.spent_tokens[0] == whole


@pytest.mark.parametrize("removal", ["attention_mask", "drop_tokens"])
def test_equal_inputs_are_still_evaluated_once(removal):
    game = bert_game(torch.tensor([[9, 9, MASK]]), removal=removal)
    kept = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    game.evaluate(0, kept, torch.tensor([[0, 1, 2], [0, 2, 1], [1, 0, 2], [0, 1, 2], [2, 1, 0]]))
    assert game.spent == [3], "a mask token that is there is not an absent one"


class Plain(torch.nn.Module):
    """A classifier that takes what ``forward`` of a subclass names."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn((WORDS, 2), generator=torch.Generator().manual_seed(0)))
        self.eval()

    def logits(self, input_ids: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.weights[input_ids].mean(1))


class TakesTokens(Plain):
    def forward(self, input_ids):
        return self.logits(input_ids)


class TakesMask(Plain):
    def forward(self, input_ids, attention_mask=None):
        weight = 1.0 if attention_mask is None else attention_mask[..., None]
        return SimpleNamespace(logits=(self.weights[input_ids] * weight).sum(1))


class IgnoresMask(Plain):
    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return self.logits(input_ids)


def roberta() -> RobertaForSequenceClassification:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = RobertaForSequenceClassification(RobertaConfig(vocab_size=WORDS, pad_token_id=0, **sizes)).eval()
        for parameter in model.parameters():
            parameter.data *= 8 if parameter.dim() > 1 else 1
    return model


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (TakesTokens(), {"removal": "attention_mask"}, "'attention_mask' and TakesTokens takes no attention_mask"),
    (TakesTokens(), {"removal": "drop_tokens"}, "'drop_tokens' and TakesTokens takes no attention_mask"),
    (TakesMask(), {"removal": "drop_tokens"}, "'drop_tokens' and TakesMask takes no position_ids; take removal mask"),
    (IgnoresMask(), {"removal": "attention_mask"}, "IgnoresMask sees tokens behind the mask; take removal mask_token"),
    (roberta(), {"removal": "drop_tokens"}, "does not number its positions 0, 1, 2, ...; take removal attention_mask"),
    (bert(), {"removal": "drop_tokens", "prefix": ()}, "no special token in front of the players"),
    (bert(), {"removal": "nothing"}, "removal is 'nothing'; it is one of: mask_token, attention_mask, drop_tokens"),
    (bert(), {"precision": "half"}, "precision is 'half'; it is one of: full, bfloat16, float16"),
    (bert(), {"batch_tokens": 0}, "batch_tokens is 0; give at least 1"),
]


@pytest.mark.parametrize(("model", "options", "message"), REFUSED, ids=[message[:40] for *_, message in REFUSED])
def test_what_a_model_cannot_serve_is_refused_before_long_work(model, options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        ClassifierGame(model, sequences(1, 5), MASK, **{"prefix": (CLS,), **options})


def test_a_model_that_can_serve_a_removal_may():
    for model in (TakesMask(), roberta()):
        game = ClassifierGame(model, sequences(1, 5), MASK, (CLS,), removal="attention_mask")
        assert game.evaluate(0, torch.zeros((1, 5)).bool()).isfinite().all()
    for length in (0, 1):
        bert_game(sequences(1, length), removal="drop_tokens")


def test_negative_tokens_are_refused():
    with pytest.raises(ValueError, match="tokens holds -1; a token is 0 or more"):
        bert_game(torch.tensor([[4, -1]]))


# --- players ------------------------------------------------------------------------------------------------------


def naive_row(blocks: list[list[int]], kept: list[bool], arrangement: list[int]) -> list[int]:
    return [token if kept[player] else 0 for player in arrangement for token in blocks[player]]


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), seed=st.integers(0, 99), long=st.booleans())
def test_whole_players_move_and_whole_players_go(sizes, seed, long):
    n, start = len(sizes), 2**40 if long else 5
    blocks, count = [], itertools.count(start)
    for size in sizes:
        blocks.append([next(count) for _ in range(size)])
    seen: list[list[int]] = []
    x = torch.tensor([list(itertools.chain(*blocks))])
    groups = torch.tensor([[player for player, size in enumerate(sizes) for _ in range(size)]])
    game = Game.from_function(lambda t: (seen.extend(t.tolist()), t.sum(1).double())[1], x, 0, groups=groups)
    kept, arrangement = rows_of(n, 12, seed) if n > 1 else rows_of(1, 12, seed)
    found = game.evaluate(0, kept, arrangement)
    wanted = [naive_row(blocks, k, a) for k, a in zip(kept.tolist(), arrangement.tolist(), strict=True)]
    assert found.tolist() == [sum(row) for row in wanted]
    assert sorted(seen) == sorted(map(list, {tuple(row) for row in wanted}))
    identity = torch.arange(n).expand(len(kept), -1)
    assert torch.equal(game.evaluate(0, kept, identity), game.evaluate(0, kept))
    assert game.n == n and game.input_width() == sum(sizes)


def block_payoff(tokens: torch.Tensor) -> torch.Tensor:
    place = torch.arange(1, tokens.shape[1] + 1)
    return torch.sin(tokens.double() * place + (tokens > 0).sum(1, keepdim=True)).sum(1)


def block_game(blocks: list[list[int]]) -> Game:
    groups = torch.tensor([[player for player, block in enumerate(blocks) for _ in block]])
    return Game.from_function(block_payoff, torch.tensor([list(itertools.chain(*blocks))]), 0, groups=groups)


def worth(blocks: list[list[int]], kept: list[bool], arrangement: list[int]) -> float:
    return float(block_payoff(torch.tensor([naive_row(blocks, kept, arrangement)])))


def test_shapley_values_of_groups_are_those_of_the_naive_game():
    blocks = [[1], [2, 3, 4], [5, 6]]

    def v(coalition: frozenset[int]) -> float:
        return worth(blocks, [player in coalition for player in range(3)], [0, 1, 2])

    game = block_game(blocks)
    assert not game.alike(0)
    for name, options in (("kernelshap", {"budget": 8}), ("sample_shapley", {"budget": 20_000})):
        value = get_explainer(name, **options).explain(game).value[0].numpy()
        assert np.allclose(value, naive_shapley(v, 3), atol=1e-9 if name == "kernelshap" else 0.05)
    left_out = [v(frozenset(range(3))) - v(frozenset(range(3)) - {i}) for i in range(3)]
    assert np.allclose(get_explainer("loco").explain(game).value[0].numpy(), left_out, atol=1e-6)


def test_gamma_of_groups_is_that_of_the_naive_game():
    blocks = [[1, 9], [2, 3], [5, 6]]

    def w(slots: tuple[int, ...]) -> float:
        absent = iter(player for player in range(3) if player not in slots)
        arrangement = [next(absent) if player < 0 else player for player in slots]
        return worth(blocks, [player in slots for player in range(3)], arrangement)

    game = block_game(blocks)
    assert game.alike(0)
    result = get_explainer("ordshap", estimator="exact").explain(game)
    assert np.allclose(result.matrix[0].numpy(), naive_gamma(w, 3), atol=1e-9)


def test_groups_that_are_mixed_serve_methods_that_keep_the_order():
    x, groups = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 0, 1, 0]])
    game = Game.from_function(lambda t: (t * torch.tensor([1, 10, 100, 1000])).sum(1).double(), x, 0, groups=groups)
    assert game.evaluate(0, torch.tensor([[True, False], [False, True]])).tolist() == [4020.0, 301.0]
    with pytest.raises(ValueError, match="players of the tokens are 1, 0, 1, 0; to be rearranged they stand side by"):
        game.evaluate(0, torch.ones((1, 2)).bool(), torch.tensor([[0, 1]]))


def bert_groups() -> torch.Tensor:
    return torch.tensor([[0, 1, 1, 2, 2, 2, 3], [0, 0, 0, 1, 2, 3, 3]])


@pytest.mark.parametrize("removal", ["mask_token", "attention_mask", "drop_tokens"])
def test_a_classifier_of_groups_is_explained_and_scored(removal):
    tokens = sequences(2, 7)
    game = bert_game(tokens, groups=bert_groups(), removal=removal, batch_tokens=50)
    explanation = get_explainer("kernelshap", budget=16).explain(game)
    assert tuple(explanation.value.shape) == (2, 4)
    full = game.evaluate(0, torch.ones((1, 4)).bool()) - game.evaluate(0, torch.zeros((1, 4)).bool())
    assert float(explanation.value[0].sum() - full) == pytest.approx(0, abs=1e-6)
    scores = compute_all([get_metric(name, grid_step=25, permutations=3) for name in metrics()], game, explanation)
    assert all(result.score.isfinite().all() for result in scores.values())


@pytest.mark.parametrize("name", ["saliency", "integrated_gradients", "deeplift"])
def test_gradient_methods_average_over_the_tokens_of_a_player(name):
    tokens, groups = sequences(2, 7), bert_groups()
    options = {"steps": 5} if name == "integrated_gradients" else {}
    each = get_explainer(name, **options).explain(bert_game(tokens)).value
    found = get_explainer(name, **options).explain(bert_game(tokens, groups=groups)).value
    wanted = [[each[b, groups[b] == player].mean() for player in range(4)] for b in range(2)]
    assert (found - torch.tensor(wanted)).abs().max() < 1e-6


def grouped(groups: Any, times: Any = None) -> Game:
    return Game.from_function(lambda t: t.sum(1).double(), sequences(2, 3), 0, groups=groups, times=times)


WRONG_GROUPS: list[tuple[Any, str]] = [
    (torch.zeros((2, 4), dtype=torch.long), r"groups has shape \(2, 4\) and type torch.int64; give \(2, 3\) integers"),
    (torch.zeros(3, dtype=torch.long), r"groups has shape \(3,\)"),
    (torch.zeros((2, 3)), r"type torch.float32; give \(2, 3\) integers"),
    (torch.zeros((2, 3)).bool(), r"type torch.bool; give \(2, 3\) integers"),
    (
        torch.tensor([[0, 1, 1], [0, 2, 2]]),
        "groups of sample 1 has the players 0, 2; number them 0, 1",
    ),
    (torch.tensor([[1, 1, 2], [0, 1, 1]]), "groups of sample 0 has the players 1, 2; number them"),
    (torch.tensor([[-1, 0, 1], [0, 1, 1]]), "groups of sample 0 has the players -1, 0, 1; number them"),
    (torch.tensor([[0, 1, 1], [0, 1, 2]]), "groups has 2 players in sample 0 and 3 in sample 1; .*give each its own"),
]


@pytest.mark.parametrize(("groups", "message"), WRONG_GROUPS, ids=[message[:30] for _, message in WRONG_GROUPS])
def test_wrong_groups_are_told(groups, message):
    with pytest.raises(ValueError, match=message):
        grouped(groups)
    with pytest.raises(ValueError, match=message):
        bert_game(sequences(2, 3), groups=groups)


WRONG_TIMES: list[tuple[Any, str]] = [
    (torch.zeros((2, 3)), r"times has shape \(2, 3\) and type torch.float32; give \(2, 2\) numbers"),
    (torch.zeros(2), r"times has shape \(2,\)"),
    (torch.tensor([[0.0, 1.0], [0.0, torch.nan]]), "times is nan at slot 1 of sample 1; give finite times"),
    (torch.tensor([[0.0, torch.inf], [0.0, 1.0]]), "times is inf at slot 1 of sample 0; give finite times"),
    (torch.tensor([[0.0, 1.0], [2.5, 1.0]]), "times falls from 2.5 to 1 after slot 0 of sample 1; .* sort the tokens"),
]


@pytest.mark.parametrize(("times", "message"), WRONG_TIMES, ids=[message[:30] for _, message in WRONG_TIMES])
def test_wrong_times_are_told(times, message):
    groups = torch.tensor([[0, 0, 1], [0, 1, 1]])
    with pytest.raises(ValueError, match=message):
        grouped(groups, times)
    with pytest.raises(ValueError, match=message):
        bert_game(sequences(2, 3), groups=groups, times=times)


def test_the_times_of_slots_are_kept_in_double_precision():
    assert grouped(None).times is None and bert_game(sequences(1, 3)).times is None
    game = grouped(None, torch.tensor([[0, 0, 5], [1, 2, 3]]))
    assert game.times.dtype == torch.float64 and game.times.tolist() == [[0, 0, 5], [1, 2, 3]]
    tenths = torch.tensor([[0.1, 0.2]], dtype=torch.float64)
    assert bert_game(sequences(1, 2), times=tenths).times.tolist() == [[0.1, 0.2]]
    assert Game.from_set_function(lambda kept: kept.sum(1), 3).times is None


def test_no_token_is_no_player():
    groups = torch.zeros((1, 0), dtype=torch.long)
    game = Game.from_function(lambda t: t.sum(1), torch.zeros((1, 0), dtype=torch.long), 0, groups=groups)
    assert game.n == 0 and get_explainer("loco").explain(game).value.shape == (1, 0)


@pytest.mark.parametrize(
    ("kept", "arrangement", "message"),
    [
        (torch.ones((2, 4)).bool(), None, r"kept has shape \(2, 4\) and type torch.bool; give \(rows, 3\) booleans"),
        (torch.ones(3).bool(), None, r"kept has shape \(3,\)"),
        (torch.ones((2, 3)), None, "type torch.float32; give"),
        (
            torch.ones((2, 3)).bool(),
            torch.zeros((1, 3)).long(),
            r"arrangement has shape \(1, 3\).*give \(2, 3\)",
        ),
        (torch.ones((2, 3)).bool(), torch.zeros((2, 3)), "arrangement has .* type torch.float32; give"),
    ],
)
def test_a_request_of_another_shape_is_told(kept, arrangement, message):
    with pytest.raises(ValueError, match=message):
        grouped(None).evaluate(0, kept, arrangement)


# --- memory of inputs ---------------------------------------------------------------------------------------------


def counted(x: torch.Tensor) -> tuple[Game, list[list[int]]]:
    seen: list[list[int]] = []
    return Game.from_function(lambda t: (seen.extend(t.tolist()), block_payoff(t))[1], x, 0), seen


def test_no_input_reaches_the_black_box_twice_while_a_sample_is_remembered():
    x = torch.tensor([[3, 3, 7, 8, 9]])
    game, seen = counted(x)
    plain, _ = counted(x)
    with game.remembering(0):
        for seed in range(20):
            kept, arrangement = rows_of(5, 1 + 7 * (seed % 3), seed) if seed % 3 else rows_of(5, 2, seed)
            for order in (arrangement, None):
                before = game.spent[0]
                found = game.evaluate(0, kept, order)
                assert torch.equal(found, plain.evaluate(0, kept, order))
                assert game.spent[0] - before <= len(kept)
        assert len(seen) == len({tuple(row) for row in seen}) == game.spent[0] < plain.spent[0]
        last = game.spent[0]
        game.evaluate(0, kept, arrangement)
        assert game.spent[0] == last
    game.evaluate(0, kept, arrangement)
    assert game.spent[0] > last, "what is remembered ends with the block: another method pays for itself"


def test_each_sample_has_its_own_memory_and_long_inputs_have_none():
    game, _ = counted(torch.tensor([[1, 2, 3], [1, 2, 3]]))
    full = torch.ones((1, 3)).bool()
    with game.remembering(0):
        with game.remembering(0):
            game.evaluate(0, full)
        for sample in (0, 1, 1):
            game.evaluate(sample, full)
    assert game.spent == [1, 2]
    long, _ = counted(torch.arange(1, WIDEST + 2)[None])
    with long.remembering(0):
        for _ in range(2):
            long.evaluate(0, torch.ones((1, WIDEST + 1)).bool())
    assert long.spent == [2]


def test_an_error_ends_the_memory():
    game, _ = counted(torch.tensor([[1, 2]]))
    with pytest.raises(RuntimeError, match="stop"), game.remembering(0):
        raise RuntimeError("stop")
    for _ in range(2):
        game.evaluate(0, torch.ones((1, 2)).bool())
    assert game.spent == [2]


def test_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("explainers.memo.MOST_ROWS", 10)
    game, seen = counted(torch.tensor([[1, 2, 3, 4, 5]]))
    kept = torch.from_numpy((np.arange(32)[:, None] >> np.arange(5) & 1).astype(bool))
    with game.remembering(0):
        for part in (kept[:4], kept, kept):
            game.evaluate(0, part)
    assert game.spent == [32 + 22] and len(seen) == 54
    assert MOST_ROWS <= 1 << 16


@pytest.mark.parametrize("hashes", [0, 1])
def test_a_collision_of_hashes_changes_no_number(hashes, monkeypatch):
    def collide(inputs: torch.Tensor) -> torch.Tensor:
        return inputs[:, 0].long() * hashes

    monkeypatch.setattr("explainers.game.row_hashes", collide)
    monkeypatch.setattr(explainers.rows, "row_hashes", collide)
    game, _ = counted(torch.tensor([[3, 5, 7, 8]]))
    with game.remembering(0):
        for seed in range(6):
            kept, arrangement = rows_of(4, 15, seed)
            wanted = [
                worth([[3], [5], [7], [8]], k, a) for k, a in zip(kept.tolist(), arrangement.tolist(), strict=True)
            ]
            assert game.evaluate(0, kept, arrangement).tolist() == wanted


@settings(max_examples=50, deadline=None)
@given(parts=st.lists(st.lists(st.integers(0, 40), max_size=12, unique=True), max_size=8))
def test_the_memory_holds_what_it_was_told(parts):
    memo = Memo()
    known: set[int] = set()
    for part in parts:
        inputs = torch.tensor(part, dtype=torch.int32)[:, None]
        hashes = (inputs[:, 0].long() * 7919) % 31  # several inputs a hash

        def ask(fresh: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return fresh.double() + 0.5

        found = memo.complete(inputs, hashes, ask)
        assert torch.equal(found, inputs.double() + 0.5)
        known |= set(part)
    assert (np.diff(memo.hashes) > 0).all() and len(memo.hashes) <= len(known)


# --- samples side by side -----------------------------------------------------------------------------------------

LENGTHS = (5, 3, 5, 1, 4, 2, 5, 0)
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("loco", {}),
    ("ordshap", {"budget": 150}),
    ("kernelshap", {"budget": 40}),
    ("sample_shapley", {"budget": 40}),
    ("lime", {"budget": 30}),
    ("saliency", {}),
    ("random", {}),
]


def games(**options: Any) -> list[ClassifierGame]:
    return [bert_game(sequences(1, length, seed=place), **options) for place, length in enumerate(LENGTHS)]


@pytest.mark.parametrize(("name", "options"), METHODS, ids=[name for name, _ in METHODS])
@pytest.mark.parametrize("removal", ["mask_token", "drop_tokens"])
def test_side_by_side_gives_what_each_sample_gives_alone_and_the_same_every_time(name, options, removal):
    explainer = get_explainer(name, **options)
    apart = games(removal=removal, batch_tokens=200)
    wanted = [explainer.explain(game, seed=3) for game in apart]
    runs = []
    for _ in range(2):
        side_by_side = games(removal=removal, batch_tokens=200)
        found = explain_together(explainer, side_by_side, seed=3)
        assert [game.spent for game in side_by_side] == [game.spent for game in apart]
        assert [part.evaluations.tolist() for part in found] == [part.evaluations.tolist() for part in wanted]
        runs.append(found)
        alone_again = explainer.explain(side_by_side[0], seed=3)
        assert torch.allclose(alone_again.value, wanted[0].value, atol=1e-6), "a game works alone afterwards"
    for one, two, each in zip(*runs, wanted, strict=True):
        assert torch.equal(one.value, two.value)
        assert torch.allclose(one.value, each.value, atol=1e-5)
        for field in ("position", "matrix"):
            if getattr(each, field) is not None:
                assert torch.equal(getattr(one, field), getattr(two, field))
                assert torch.allclose(getattr(one, field), getattr(each, field), atol=1e-4)


class Steps(Loco):
    """An explainer that asks for one row after the other."""

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        path = [game.evaluate(sample, torch.arange(game.n)[None] < count) for count in range(game.n + 1)]
        return SampleExplanation(torch.cat(path).diff())


def test_requests_that_meet_share_batches_within_the_budget():
    model, players = Recorder(), (9, 8, 9, 7)

    def calls(together: bool) -> list[tuple[int, int]]:
        made = [ClassifierGame(model, sequences(1, n, n), MASK, (CLS,), batch_tokens=29) for n in players]
        assert len({game.box() for game in made}) == 1
        model.calls.clear()
        explain_together(Steps(), made) if together else [Steps().explain(game) for game in made]
        shapes = [tuple(call["input_ids"].shape) for call in model.calls]
        if together:
            assert shapes[:2] == [(1, 10), (1, 9)], "whether padding shows is tried once"
            shapes = shapes[2:]
        assert sum(rows for rows, _ in shapes) == sum(game.spent[0] for game in made)
        assert sum(rows * length for rows, length in shapes) == sum(game.spent_tokens[0] for game in made)
        return shapes

    assert calls(False) == [(1, n + 1) for n in players for _ in range(n + 1)]
    shared = calls(True)
    assert all(rows * length <= 29 for rows, length in shared)
    assert shared == [(2, 10), (1, 9), (1, 8)] * 8 + [(2, 10), (1, 9), (2, 10)]


def test_what_cannot_share_a_batch_does_not():
    f, other = (lambda t: t.sum(1).double()), (lambda t: t.double().prod(1))
    made = [Game.from_function(g, sequences(1, n), 0) for g, n in ((f, 3), (f, 3), (f, 4), (other, 4))]
    assert len({game.box() for game in made}) == 2
    found = explain_together(get_explainer("kernelshap", budget=16), made)
    wanted = [get_explainer("kernelshap", budget=16).explain(game) for game in made]
    assert all(torch.equal(one.value, two.value) for one, two in zip(found, wanted, strict=True))

    for model in (TakesTokens(), IgnoresMask()):
        unequal = [ClassifierGame(model, sequences(1, n), MASK, (CLS,)) for n in (3, 4, 3)]
        assert len({game.box() for game in unequal}) == 1 and not unequal[0].takes_padding()
        alone = [get_explainer("loco").explain(game) for game in unequal]
        found = explain_together(get_explainer("loco"), unequal)
        assert all(torch.allclose(one.value, two.value, atol=1e-6) for one, two in zip(found, alone, strict=True))
    sets = [Game.from_set_function(lambda kept: kept.sum(1).double(), 3) for _ in range(2)]
    assert all(part.value.tolist() == [[1.0, 1.0, 1.0]] for part in explain_together(get_explainer("loco"), sets))


class Troubled(Loco):
    """An explainer that fails on one sample."""

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        for count in range(1, game.n + 1):
            try:
                game.evaluate(sample, torch.arange(game.n)[None] < count)
            except Exception as error:
                raise AssertionError("an abandoned sample may not go on") from error
            if count == 3:
                raise RuntimeError("sample of three or more")
        return SampleExplanation(torch.zeros(game.n, dtype=torch.float64))


def test_an_error_in_one_sample_ends_all_and_leaves_no_thread():
    before = threading.active_count()
    made = [Game.from_function(lambda t: t.sum(1).double(), sequences(1, n), 0) for n in (2, 5, 1, 4)]
    with pytest.raises(RuntimeError, match="sample of three or more"):
        explain_together(Troubled(), made)
    assert threading.active_count() == before
    assert get_explainer("loco").explain(made[0]).value.tolist()[0] == made[0].x[0].tolist()
    with pytest.raises(ValueError, match="budget is 3 evaluations"):
        explain_together(get_explainer("kernelshap", budget=3), made)
    assert threading.active_count() == before


def test_an_error_of_the_black_box_surfaces_and_leaves_no_thread():
    def broken(tokens: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"broken at {len(tokens)} rows")

    before = threading.active_count()
    made = [Game.from_function(broken, sequences(1, 3), 0) for _ in range(3)]
    with pytest.raises(RuntimeError, match=r"broken at \d+ rows"):
        explain_together(get_explainer("loco"), made)
    assert threading.active_count() == before


def test_together_with_none_or_one_is_alone():
    assert explain_together(get_explainer("loco"), []) == []
    game = bert_game(sequences(1, 4))
    one = explain_together(get_explainer("loco"), [game])
    assert torch.equal(one[0].value, get_explainer("loco").explain(game).value)


# --- memory that runs out -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"removal": "attention_mask"}, {"removal": "drop_tokens"}, {"precision": "bfloat16"}],
    ids=["mask_token", "attention_mask", "drop_tokens", "bfloat16"],
)
@pytest.mark.parametrize("together", [1, 3])
def test_a_batch_that_does_not_fit_is_halved(options, together):
    explainer = get_explainer("kernelshap", budget=60)
    tokens = [sequences(1, 6 + place, place) for place in range(together)]
    model = Recorder()
    small = [ClassifierGame(model, part, MASK, (CLS,), batch_tokens=4000, **options) for part in tokens]
    model.most_rows = 5
    model.calls.clear()
    found = explain_together(explainer, small)
    sizes = [len(call["input_ids"]) for call in model.calls]
    tried = 0 if together == 1 else 2
    assert max(sizes) <= 5 and sum(sizes) == tried + sum(game.spent[0] for game in small)
    whole = [ClassifierGame(bert(), part, MASK, (CLS,), **options) for part in tokens]
    tolerance = 1e-5 if "precision" not in options else 0.2
    for part, game in zip(found, whole, strict=True):
        assert torch.allclose(part.value, explainer.explain(game).value, atol=tolerance)


def test_a_single_row_that_does_not_fit_is_an_error():
    game, model = recorded(sequences(1, 5))
    model.most_rows = 0
    with pytest.raises(torch.OutOfMemoryError):
        game.evaluate(0, torch.ones((1, 5)).bool())
    assert game.spent == [0]


# --- precision ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_error_of_mixed_precision_is_told(precision):
    kept, arrangement = rows_of(6, 300)
    full, mixed = (bert_game(sequences(1, 6), precision=p) for p in ("full", precision))
    assert full.targets == mixed.targets
    difference = (full.evaluate(0, kept, arrangement) - mixed.evaluate(0, kept, arrangement)).abs()
    spent = list(mixed.spent)
    error = mixed.precision_error(0)
    assert error is not None and 0 < error <= float(difference.max()) + 1e-6
    assert error >= float(difference.quantile(0.5)), "32 of 300 inputs"
    assert mixed.spent == spent, "the control is not part of the cost"
    assert full.precision_error(0) is None


def test_the_error_is_that_of_the_largest_of_all_inputs_where_they_are_few_and_none_without_any():
    kept, _ = rows_of(4, 12)
    full, mixed = (bert_game(sequences(2, 4), precision=p) for p in ("full", "bfloat16"))
    assert mixed.precision_error(0) is None
    parts = [mixed.evaluate(0, part) for part in kept.split(5)]
    difference = (full.evaluate(0, kept) - torch.cat(parts)).abs().max()
    assert mixed.precision_error(0) == pytest.approx(float(difference), abs=1e-6)
    assert mixed.precision_error(1) is None
    gradient = bert_game(sequences(1, 4), precision="bfloat16")
    exact = get_explainer("saliency").explain(bert_game(sequences(1, 4))).value
    assert torch.equal(get_explainer("saliency").explain(gradient).value, exact), "gradients are in full precision"


# --- in a study ---------------------------------------------------------------------------------------------------


EVENTS = Content("events", ("0", "1"), 8)


def subject(**explain: Any) -> Subject:
    """Return seven samples of the tiny BERT, with hours of which some are equal."""
    rng = np.random.default_rng(5)
    lengths = (6, 4, 8, 1, 5, 6, 7)
    rows = {
        "sample": [f"stay{place}" for place in range(len(lengths))],
        "tokens": [rng.integers(FIRST, WORDS, size=length).tolist() for length in lengths],
        "hours": [np.sort(rng.integers(0, 4, size=length) / 2).astype(np.float32).tolist() for length in lengths],
        "label": [0] * len(lengths),
    }
    names = tuple(f"code{token}" for token in range(WORDS))
    options = Explain(**{"samples": len(lengths), "shard_size": 4, **explain})
    vocabulary = Vocabulary(names, pad=0, cls=CLS, mask=MASK, unk=3)
    return Subject(bert(), EVENTS, vocabulary, Dataset.from_dict(rows), options)


def explained(folder, method: Any, workers: int = 1, **explain: Any) -> list[Explanation]:
    made = subject(**explain)
    explain_method(made, Method.model_validate(method), 0, folder, workers)
    return [read_explanation(folder, made.explain.shard_size, place) for place in range(len(made.rows))]


def shards(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / SHARDS).iterdir())}


@pytest.mark.parametrize("together", [2, 3, 100])
def test_samples_side_by_side_are_those_alone_and_a_resumed_shard_has_the_same_bytes(together, tmp_path):
    method = {"method": "kernelshap", "budget": 60}
    alone = explained(tmp_path / "alone", method)
    found = explained(tmp_path / "one", method, together=together, workers=2)
    for one, two in zip(alone, found, strict=True):
        assert one.evaluations.tolist() == two.evaluations.tolist()
        assert torch.allclose(one.value, two.value, atol=1e-5)
    whole = shards(tmp_path / "one")
    (tmp_path / "one" / SHARDS / "00001.safetensors").unlink()
    explained(tmp_path / "one", method, together=together)
    assert shards(tmp_path / "one") == whole


def test_visits_are_players_and_the_rows_say_so(tmp_path):
    made = subject(players="times")
    found = explained(tmp_path, "loco", players="times", together=3)
    for place, row in enumerate(made.rows):
        visits = sorted(set(row["hours"]))
        game = made.game(place)
        assert game.n == len(visits) == found[place].value.shape[1]
        assert game.times.tolist() == [visits]
        players = players_of(row, EVENTS, made.vocabulary, "times")
        wanted = [
            " + ".join(f"code{t}" for t, h in zip(row["tokens"], row["hours"], strict=True) if h == visit)
            for visit in visits
        ]
        assert players.names == wanted and players.hours.tolist() == visits
        frame = player_rows(row["sample"], players, found[place])
        assert frame["slot"].tolist() == list(range(1, game.n + 1)) and frame["code"].tolist() == wanted
        assert torch.equal(torch.tensor(frame["value"].to_numpy()), found[place].value[0])
    assert subject().game(0).times.tolist() == [made.rows[0]["hours"]]
    assert any(made.game(place).n < subject().game(place).n for place in range(len(made.rows)))


def test_a_reports_rows_and_checks_count_visits(tmp_path):
    made = subject(players="times")
    data, model, explain = tmp_path / "data", tmp_path / "model", tmp_path / "explain"
    DatasetDict(test=made.rows).save_to_disk(str(data / "dataset"))
    special = {"pad": 0, "cls": CLS, "mask": MASK, "unk": 3}
    (data / "vocabulary.json").write_text(json.dumps({"tokens": made.vocabulary.names, "special": special}))
    write_content(EVENTS, data)
    model.mkdir()
    pd.DataFrame({"sample": made.rows["sample"], "probability": 0.25}).to_csv(model / "predictions.csv")
    options = made.explain.model_dump()
    study = check_study({**TINY, "explain": options, "explainers": ["loco"]}, "tiny")
    explained(explain, "loco", players="times")

    views = sample_views(study, data, model, [MethodOutputs("loco", explain, tmp_path, None)])
    for row, view in zip(made.rows, views, strict=True):
        assert view.hours.tolist() == sorted(set(row["hours"]))
        assert len(view.attributions["loco"].value) == len(view.names)
        assert " + ".join(view.names).split(" + ") == [f"code{token}" for token in row["tokens"]]
    table = attribution_table(study, data, explain)
    assert len(table) == sum(len(view.names) for view in views) < sum(map(len, made.rows["tokens"]))

    visits, tokens = (max(map(count, made.rows["hours"])) for count in (lambda hours: len(set(hours)), len))
    assert visits < tokens
    enough = Method.model_validate({"method": "sample_shapley", "budget": visits + 1})
    check_methods(data, study.explain, [enough])
    with pytest.raises(ValueError, match=f"a sample of {tokens} players needs at least {tokens + 1}"):
        check_methods(data, subject().explain, [enough])


def test_the_players_of_hours():
    of, hours = players_in([0.5, 0.5, 1.0, 1.0, 3.0], "times")
    assert of.tolist() == [0, 0, 1, 1, 2] and hours.tolist() == [0.5, 1.0, 3.0]
    of, hours = players_in([0.5, 0.5], "tokens")
    assert of.tolist() == [0, 1] and hours.tolist() == [0.5, 0.5]
    of, hours = players_in([], "times")
    assert len(of) == len(hours) == 0


def test_the_audit_tells_the_tokens_saved_and_the_error_of_mixed_precision(tmp_path):
    plain = explained(tmp_path / "plain", "loco")
    assert all(not {"tokens_saved", "precision_error"} & set(part.audit[0]) for part in plain)
    dropped = explained(tmp_path / "dropped", "loco", removal="drop_tokens", precision="bfloat16", batch_tokens=20)
    for part in dropped:
        n = part.value.shape[1]
        assert 0 <= part.audit[0]["precision_error"] < 0.2
        assert part.audit[0]["tokens_saved"] <= n / ((n + 1) * (n + 1)) + 1e-12
    assert max(part.audit[0]["tokens_saved"] for part in dropped) > 0
    assert "precision_error" not in explained(tmp_path / "random", "random", precision="bfloat16")[0].audit[0]


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"players": "visits"},
        "explain.players: Input should be 'tokens', 'times', 'words' or 'sentences' (it is 'visits')",
    ),
    ({"removal": "none"}, "explain.removal: Input should be 'mask_token', 'attention_mask' or 'drop_tokens'"),
    ({"precision": "half"}, "explain.precision: Input should be 'full', 'bfloat16' or 'float16' (it is 'half')"),
    ({"together": 0}, "explain.together: Input should be greater than or equal to 1 (it is 0)"),
    ({"together": 5000}, "explain.together: Input should be less than or equal to 1024 (it is 5000)"),
]


@pytest.mark.parametrize(("explain", "message"), WRONG, ids=[message[:20] for _, message in WRONG])
def test_a_study_is_told_what_it_cannot_say(explain, message):
    with pytest.raises(ConfError, match=message.replace("(", r"\(").replace(")", r"\)")):
        check_study({**TINY, "explain": explain}, "tiny")
