"""Texts and images through every stage, and their registered models where there is no ordeval."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import load_from_disk

from conf.load import check_study
from flows import steps
from flows.context import open_context
from tasks.explain import check_methods, read_explanation
from tasks.subject import Subject
from tasks.timing import time_method
from tasks.train import load_model, predict
from tasks.train.served import predict_pixels
from tests.builders_public import BAD, GOOD, digits, encoder, reviews

TEXT: dict[str, Any] = {
    "name": "reviews",
    "device": "cpu",
    "data": {"dataset": "imdb", "task": "sentiment", "tokens": {"min_count": 1}, "text": {"sentences": True}},
    "model": {"architecture": "word_cnn", "dropout": 0.1, "epochs": 8, "learning_rate": 0.003, "bootstrap": 50},
    "explainers": ["kernelshap", "lshapley", {"method": "cshapley", "order": 2}, "saliency"],
    "explain": {"samples": 5, "shard_size": 2, "output": "log_probability", "budget_per_player": 4},
    "evaluate": {"metrics": ["log_odds_drop", "del_auc_fixed"], "grid_step": 25},
}
IMAGES: dict[str, Any] = {
    "name": "digits",
    "device": "cpu",
    "data": {"dataset": "mnist", "task": "three_or_eight"},
    "model": {"architecture": "digit_cnn", "epochs": 6, "learning_rate": 0.01, "augment": "shift", "bootstrap": 50},
    "explainers": [
        {"method": "cshapley", "form": "regression", "graph": "grid", "shape": [16, 16], "max_size": 2},
        "saliency",
    ],
    "explain": {"samples": 3, "shard_size": 2, "output": "log_probability"},
    "evaluate": {"metrics": ["log_odds_drop"], "grid_step": 25},
}


class Done:
    """A study that went through every stage but timing."""

    def __init__(self, raw: dict[str, Any], folder: Path, storage: Path) -> None:
        data = {**raw["data"], "path": str(folder)}
        self.study = check_study({**raw, "data": data, "storage": str(storage)}, raw["name"])
        self.context = open_context(self.study)
        self.data = steps.preprocess(self.context).output
        check_methods(self.data.folder, self.study.explain, list(self.study.explainers))
        self.trained = steps.train(self.context, self.data)
        self.model = self.trained.output
        runs = [steps.explain(self.context, method, self.data, self.model) for method in self.study.explainers]
        self.runs = [steps.evaluate(self.context, run, self.data, self.model) for run in runs]
        with self.context.tracker.run("summary", {"stage": "summary"}) as self.run_id:
            self.results, self.files = steps.report(self.context, self.runs, self.data, self.model, self.run_id)

    def explanation(self, place: int, index: int):
        return read_explanation(self.runs[place].explain.folder, self.study.explain.shard_size, index)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("text")
    return Done(TEXT, reviews(folder / "raw"), folder / "store")


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("images")
    return Done(IMAGES, digits(folder / "raw"), folder / "store")


def test_a_text_study_learns_and_its_words_of_praise_stand_out(text):
    scores = json.loads((text.model.folder / "scores.json").read_text())
    assert scores["accuracy"] > 0.9 and scores["test_samples"] == 80
    rows = load_from_disk(str(text.data.folder / "dataset"))["test"]
    right = 0
    for index in range(text.study.explain.samples):
        words = [word.lower() for word in rows[index]["word_texts"]]
        for place in range(3):  # kernelshap, lshapley, cshapley
            value = text.explanation(place, index).value[0]
            assert len(value) == len(words)
            right += words[int(value.argmax())] in GOOD + BAD
    assert right >= 12, "of 15"


def test_every_method_had_its_evaluations_a_player(text):
    for index in range(text.study.explain.samples):
        for place, run in enumerate(text.runs):
            found = text.explanation(place, index)
            if run.method.method != "saliency":
                assert int(found.evaluations[0]) <= 4 * found.value.shape[1]


def test_a_text_study_has_words_in_its_table_and_no_hours(text):
    artifact = text.context.tracker.client.download_artifacts(text.runs[0].run_id, "attributions.csv")
    table = pd.read_csv(artifact)
    assert list(table.columns[:4]) == ["sample", "slot", "code", "value"]
    assert table["sample"].str.match(r"test-\d{6}$").all()
    assert {"log_odds_drop", "del_auc_fixed"} == set(text.results.metrics)
    assert text.files["report.html"].stat().st_size > 10_000


def test_sentences_are_players_and_a_budget_is_theirs(text):
    explain = text.study.explain.model_copy(update={"players": "sentences"})
    subject = Subject.load(text.data.folder, text.model.folder, explain, "cpu")
    game = subject.game(0)
    assert game.n == 2 and game.input_width() == len(subject.rows[0]["tokens"])
    frame = time_method(subject, text.study.explainers[0], 2, 0)
    assert (frame["evaluations"] <= 8).all()


def test_an_image_study_finds_the_bright_half(images):
    scores = json.loads((images.model.folder / "scores.json").read_text())
    assert scores["accuracy"] > 0.9
    names = images.results.samples[0].names
    assert names[0] == "row 1, column 1" and names[17] == "row 2, column 2" and len(names) == 256
    subject = Subject.load(images.data.folder, images.model.folder, images.study.explain, "cpu")
    for index in range(3):
        found = images.explanation(0, index)
        game = subject.game(index)
        ends = torch.tensor([[False] * 256, [True] * 256])
        none, whole = game.evaluate(0, ends).tolist()
        assert found.value.sum().item() == pytest.approx(whole - none, abs=1e-6)


def test_players_and_architectures_that_do_not_fit_are_told_early(text, images):
    explain = images.study.explain.model_copy(update={"players": "words"})
    with pytest.raises(ValueError, match="explain.players is 'words'; of image data it is tokens"):
        check_methods(images.data.folder, explain, list(images.study.explainers))
    with pytest.raises(ValueError, match="explain.players is 'words'; of image data it is tokens"):
        open_context(images.study.model_copy(update={"explain": explain}))
    explain = images.study.explain.model_copy(update={"removal": "attention_mask"})
    with pytest.raises(ValueError, match="explain.removal is 'attention_mask'; of image data it is 'mask_token'"):
        Subject.load(images.data.folder, images.model.folder, explain, "cpu")
    explain = text.study.explain.model_copy(update={"players": "times"})
    with pytest.raises(ValueError, match="of text data it is tokens or words or sentences"):
        check_methods(text.data.folder, explain, list(text.study.explainers))
    wrong = text.study.model_copy(update={"model": images.study.model})
    told = r"'digit_cnn', which cannot read texts; take bert or word_cnn or char_cnn or bilstm or pretrained$"
    with pytest.raises(ValueError, match=told):
        open_context(wrong)
    with pytest.raises(ValueError, match=told):
        steps.train(replace(text.context, study=wrong), text.data)


FRESH = """
import json, sys
class NoOrdeval:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"conf", "explainers", "flows", "metrics", "tasks"}:
            raise ImportError("ordeval is not installed here")
sys.meta_path.insert(0, NoOrdeval())
import mlflow, pandas
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
frame = pandas.DataFrame({sys.argv[3]: json.loads(sys.argv[4])})
print("ANSWERS" + json.dumps(model.predict(frame).probability.tolist()))
"""


def fresh(done: Done, column: str, rows: list[list[int]], folder: Path) -> list[float]:
    uri = done.context.tracker.get(done.trained.run_id).data.tags["registered_model"]
    command = [sys.executable, "-P", "-c", FRESH, done.context.tracker.uri, uri, column, json.dumps(rows)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.split("ANSWERS")[1])


def test_the_registered_text_network_loads_where_there_is_no_ordeval(text, tmp_path):
    rows = load_from_disk(str(text.data.folder / "dataset"))["test"]["tokens"][:3]
    here = predict(load_model(text.model.folder / "model", "cpu"), rows, 1, 0)[:, 1]
    assert fresh(text, "tokens", rows, tmp_path) == pytest.approx(here.tolist(), abs=1e-6)


def test_the_registered_image_network_loads_where_there_is_no_ordeval(images, tmp_path):
    rows = load_from_disk(str(images.data.folder / "dataset"))["test"]["pixels"][:3]
    pixels = np.array(rows, dtype=np.uint8).reshape(3, 1, 16, 16)
    here = predict_pixels(load_model(images.model.folder / "model", "cpu"), pixels)[:, 1]
    assert fresh(images, "pixels", rows, tmp_path) == pytest.approx(here.tolist(), abs=1e-6)


def test_a_pretrained_encoder_is_fine_tuned_and_sentences_are_explained(tmp_path):
    folder = encoder(tmp_path / "encoder")
    raw = {
        **TEXT,
        "data": {**TEXT["data"], "text": {"unit": "pieces", "pretrained": str(folder), "sentences": True}},
        "model": {"architecture": "pretrained", "epochs": 12, "learning_rate": 0.01, "bootstrap": 50},
        "explainers": [{"method": "ordshap", "budget": 40}, "kernelshap"],
        "explain": {"samples": 3, "players": "sentences", "removal": "attention_mask"},
        "evaluate": {"metrics": ["inc_auc"], "grid_step": 50, "permutations": 2},
    }
    done = Done(raw, reviews(tmp_path / "raw"), tmp_path / "store")
    row = load_from_disk(str(done.data.folder / "dataset"))["test"][0]
    names = json.loads((done.data.folder / "vocabulary.json").read_text())["tokens"]
    pieces = [names[token] for token in row["tokens"]]
    assert "".join(piece.removeprefix("##") for piece in pieces) == "".join(row["word_texts"]).lower()
    assert len(set(row["words"])) == len(row["word_texts"]) <= len(pieces)
    assert json.loads((done.model.folder / "scores.json").read_text())["accuracy"] > 0.8
    for index, view in enumerate(done.results.samples):
        found = done.explanation(0, index)
        assert view.names == list(load_from_disk(str(done.data.folder / "dataset"))["test"][index]["sentence_texts"])
        assert found.value.shape == found.position.shape == (1, len(view.names))
    wrong = done.study.model_copy(update={"model": done.study.model.model_copy(update={"architecture": "bert"})})
    with pytest.raises(ValueError, match="a pretrained encoder needs its own tokens"):
        steps.train(open_context(wrong), done.data)


def test_the_encoders_weights_are_part_of_what_a_result_is_made_from(tmp_path):
    folder = encoder(tmp_path / "encoder")
    text = {"unit": "pieces", "pretrained": str(folder)}
    raw = {**TEXT, "data": {**TEXT["data"], "path": str(reviews(tmp_path / "raw")), "text": text}}
    context = open_context(check_study({**raw, "storage": str(tmp_path / "store")}, "reviews"))
    before = steps.preprocess_made(context)
    assert "pretrained/model.safetensors" in before["inputs"]["raw"]
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert steps.preprocess_made(context)["inputs"] != before["inputs"]
