"""Text and image data sets: tokens and whose they are, pixels, parts, vocabulary, audit, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasets import load_from_disk
from pyarrow import parquet

from conf.load import ConfError, check_study
from conf.schema import Data, Tokens
from tasks.content import read_content
from tasks.preprocess import DataError, inputs, preprocess
from tasks.preprocess.cut import drawn
from tasks.preprocess.text import kept_part, lowered, sentence_spans, tokenizer, whose, word_spans
from tests.builders_public import digits, reviews


def texts(folder: Path, **changes: Any) -> Data:
    return Data.model_validate({"dataset": "imdb", "task": "sentiment", "path": folder, **changes})


def written(data: Data, out: Path, seed: int = 0) -> tuple[dict, Any]:
    return preprocess(data, seed, out, str), load_from_disk(str(out / "dataset"))


# -- tokens ---------------------------------------------------------------------------------------------------------


def test_words_are_runs_of_letters_and_single_marks():
    tokenize, vocabulary = tokenizer(Data.model_validate({"dataset": "imdb", "task": "sentiment"}))
    assert vocabulary is None
    found = tokenize("It's GOOD, no?  10/10")
    assert found.pieces == ["it's", "good", ",", "no", "?", "10", "/", "10"]
    assert found.spans[0] == (0, 4) and found.spans[-1] == (19, 21)


def test_characters_keep_their_places_in_lower_case():
    tokenize, _ = tokenizer(
        Data.model_validate({"dataset": "ag_news", "task": "topic", "text": {"unit": "characters"}})
    )
    assert tokenize("Ab c").pieces == ["a", "b", " ", "c"]
    assert lowered("İx", True) == "İx"  # its lower case has two characters: it stays, and so do all places after it


def test_a_token_belongs_to_the_word_and_the_sentence_that_it_stands_in():
    text = "So good.  Not bad at all!"
    spans = [(place, place + 1) for place in range(len(text))]
    words, word_texts = whose(text, spans, word_spans(text, "characters"))
    assert word_texts == ["So", "good.", "Not", "bad", "at", "all!"]
    assert words[:4] == [0, 0, 0, 1] and words[-1] == 5
    sentences, sentence_texts = whose(text, spans, sentence_spans(text))
    assert sentence_texts == ["So good.", "Not bad at all!"]
    assert sentences == [0] * 10 + [1] * 15


def test_owners_are_numbered_without_gaps_after_a_cut():
    text = "One here. Two here. Three here."
    spans = word_spans(text, "words")[4:]  # here, and the mark after it, of the second sentence; then the third
    assert whose(text, spans, sentence_spans(text)) == ([0, 0, 1, 1, 1], ["Two here.", "Three here."])


def test_a_long_text_loses_the_end_that_is_not_kept():
    numbers = list(range(10))
    assert numbers[kept_part(10, Tokens(max_tokens=4))] == [6, 7, 8, 9]
    assert numbers[kept_part(10, Tokens(max_tokens=4, keep="first"))] == [0, 1, 2, 3]
    assert numbers[kept_part(10, Tokens(max_tokens=10))] == numbers


# -- texts ----------------------------------------------------------------------------------------------------------


def test_texts_become_tokens_with_their_words_and_sentences(tmp_path):
    data = texts(reviews(tmp_path / "raw"), tokens={"min_count": 1}, text={"sentences": True})
    audit, parts = written(data, tmp_path / "out")
    vocabulary = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
    assert vocabulary["tokens"][:4] == ["[PAD]", "[CLS]", "[MASK]", "[UNK]"] and "br" not in vocabulary["tokens"]
    raw = parquet.read_table(tmp_path / "raw" / "test.parquet").to_pylist()
    for row in parts["test"]:
        source = raw[int(row["sample"].removeprefix("test-"))]
        assert row["label"] == source["label"]
        assert [vocabulary["tokens"][token] for token in row["tokens"]] == [w.lower() for w in row["word_texts"]]
        assert row["words"] == list(range(len(row["tokens"])))
        assert len(row["sentence_texts"]) == len(set(row["sentences"])) == 2
        assert source["text"].startswith(row["sentence_texts"][0])
    assert parts["train"][0]["sentences"] == []
    assert audit["split"]["parts"]["test"] == {"samples": 80, "labels": {"negative": 40, "positive": 40}}
    content = read_content(tmp_path / "out")
    assert (content.kind, content.classes, content.longest) == ("text", ("negative", "positive"), 150)
    assert "| validation | 24 | 12 | 12 |" in (tmp_path / "out" / "audit.md").read_text()


def test_a_vocabulary_is_of_the_training_part_alone_and_other_words_are_unknown(tmp_path):
    folder = reviews(tmp_path / "raw")
    rows = parquet.read_table(folder / "test.parquet").to_pylist()
    rows[0]["text"] = "zebra film zebra"
    parquet.write_table(pa.Table.from_pylist(rows), folder / "test.parquet")
    _, parts = written(texts(folder), tmp_path / "out")
    vocabulary = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
    assert "zebra" not in vocabulary["tokens"]
    row = next(row for row in parts["test"] if row["sample"] == "test-000000")
    assert row["tokens"] == [3, vocabulary["tokens"].index("film"), 3]
    assert row["word_texts"] == ["zebra", "film", "zebra"]


def test_texts_without_a_token_take_no_part(tmp_path):
    folder = reviews(tmp_path / "raw")
    rows = parquet.read_table(folder / "train.parquet").to_pylist()
    rows[5]["text"] = " \n "
    parquet.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")
    audit, parts = written(texts(folder), tmp_path / "out")
    assert audit["rows"]["train"] == {"rows": 240, "empty text": 1}
    assert "train-000005" not in parts["train"]["sample"][:] + parts["validation"]["sample"][:]


def test_parts_do_not_overlap_and_the_same_seed_draws_the_same(tmp_path):
    data = texts(reviews(tmp_path / "raw"), split={"most_train": 100, "most_test": 30})
    _, one = written(data, tmp_path / "one")
    _, two = written(data, tmp_path / "two")
    _, other = written(data, tmp_path / "other", seed=1)
    names = {part: one[part]["sample"][:] for part in one}
    assert {part: len(rows) for part, rows in names.items()} == {"train": 90, "validation": 10, "test": 30}
    assert not set(names["train"]) & set(names["validation"])
    assert names == {part: two[part]["sample"][:] for part in two}
    assert names["test"] != other["test"]["sample"][:]
    assert sum(one["test"]["label"][:]) == 15


def test_every_stretch_of_the_drawn_order_is_stratified():
    labels = [0] * 90 + [1] * 30 + [None] * 7
    order = drawn(labels, True, 0, "imdb", "train")
    assert sorted(order.tolist()) == list(range(120))
    for start in range(0, 120, 20):
        assert sum(labels[row] for row in order[start : start + 20]) == 5
    assert drawn(labels, False, 0, "imdb", "train").tolist() != order.tolist()


# -- images ---------------------------------------------------------------------------------------------------------


def images(folder: Path, **changes: Any) -> Data:
    return Data.model_validate({"dataset": "mnist", "task": "three_or_eight", "path": folder, **changes})


def test_images_become_pixels_and_the_average_pixel_stands_for_an_absent_one(tmp_path):
    audit, parts = written(images(digits(tmp_path / "raw")), tmp_path / "out")
    content = read_content(tmp_path / "out")
    assert content.kind == "image" and content.shape == (1, 16, 16) and content.classes == ("three", "eight")
    train = np.array(parts["train"]["pixels"][:], dtype=float) / 255
    assert content.reference == pytest.approx([train.mean()]) and content.spread == pytest.approx([train.std()])
    assert audit["rows"]["test"] == {"rows": 60, "of other classes": 20}
    for row in parts["test"].select(range(5)):
        pixels = np.array(row["pixels"]).reshape(16, 16)
        assert (pixels[:, :8].mean() > pixels[:, 8:].mean()) == (row["label"] == 0)


def test_images_of_several_sizes_are_an_error(tmp_path):
    folder = digits(tmp_path / "raw")
    digits(tmp_path / "other", side=10)
    smaller = parquet.read_table(next((tmp_path / "other").glob("train*")))
    parquet.write_table(smaller, folder / "train-00001-of-00002.parquet")
    with pytest.raises(DataError, match="images of several sizes"):
        preprocess(images(folder), 0, tmp_path / "out", str)


# -- bad input ------------------------------------------------------------------------------------------------------


def test_bad_folders_are_told_before_any_work(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        inputs(texts(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no train\*\.parquet in .*: it holds nothing"):
        preprocess(texts(tmp_path / "empty"), 0, tmp_path / "out", str)
    folder = reviews(tmp_path / "raw")
    parquet.write_table(pa.table({"words": ["a"], "label": [0]}), folder / "test.parquet")
    with pytest.raises(DataError, match=r"the column text is missing: test\.parquet has words, label"):
        preprocess(texts(folder), 0, tmp_path / "out", str)
    (folder / "test.parquet").write_text("no parquet")
    with pytest.raises(DataError, match=r"a file cannot be read as parquet: test\.parquet"):
        preprocess(texts(folder), 0, tmp_path / "out", str)


def test_without_a_folder_and_offline_it_says_how_to_get_the_data(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = Data.model_validate({"dataset": "ag_news", "task": "topic"})
    with pytest.raises(DataError, match=r"fancyzhx/ag_news cannot be loaded .*HF_HUB_OFFLINE.*data\.path=FOLDER"):
        preprocess(data, 0, tmp_path / "out", str)


def test_one_class_is_an_error(tmp_path):
    folder = reviews(tmp_path / "raw")
    parquet.write_table(pa.table({"text": ["fine"] * 9, "label": [1] * 9}), folder / "train.parquet")
    with pytest.raises(DataError, match="the train part lacks a class: 8 samples, none of negative; give files"):
        preprocess(texts(folder), 0, tmp_path / "out", str)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_class_that_a_part_lacks_is_named(tmp_path, part):
    folder = reviews(tmp_path / "raw", 60, 40, classes=4)
    held = parquet.read_table(folder / f"{part}.parquet").to_pylist()
    parquet.write_table(pa.Table.from_pylist([row for row in held if row["label"] != 2]), folder / f"{part}.parquet")
    data = Data.model_validate({"dataset": "ag_news", "task": "topic", "path": folder})
    with pytest.raises(
        DataError, match=rf"the {part} part lacks a class: \d+ samples, none of Business; give files with"
    ):
        preprocess(data, 0, tmp_path / "out", str)


WRONG = [
    ({"data": {"dataset": "imdb", "task": "topic"}}, "data.task is 'topic'; for imdb it is one of: sentiment"),
    (
        {"data": {"dataset": "imdb", "task": "sentiment", "text": {"unit": "pieces"}}},
        "data.text.pretrained is empty; name an encoder",
    ),
    ({"explain": {"budget_per_player": 4, "together": 2}}, "set explain.together=1"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:20] for _, message in WRONG])
def test_a_study_is_told_what_it_cannot_say(changes, message):
    with pytest.raises(ConfError, match=message):
        check_study({"name": "wrong", **changes}, "wrong")
