"""The train stage: learning, determinism, scores by hand, prediction, and the logged model in a fresh process."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset, DatasetDict, Features, List, Value, disable_progress_bars
from safetensors.numpy import load_file
from sklearn.metrics import average_precision_score, roc_auc_score

from conf.schema import Model
from tasks.content import Content, write_content
from tasks.train import fit, load_model, predict
from tasks.train.bert import build
from tasks.train.calibration import calibration_curve, calibration_scores, wilson
from tasks.train.scores import auroc, score
from tasks.train.training import Setting, WeightedLoss, arguments, class_weights

CLS, PAD, VOCABULARY, LONGEST = 1, 0, 12, 12
DECIDES = 5
SMALL = Model(
    heads=2,
    layers=1,
    width=16,
    feed_forward=32,
    dropout=0.1,
    epochs=6,
    patience=3,
    batch_size=16,
    learning_rate=1e-2,
    bootstrap=200,
)
FEATURES = Features(
    {
        "sample": Value("string"),
        "tokens": List(Value("int32")),
        "hours": List(Value("float32")),
        "label": Value("int8"),
    }
)
Rule = Callable[[list[int], np.random.Generator], int]


def decided(tokens: list[int], rng: np.random.Generator) -> int:
    return int(DECIDES in tokens)


def coin(tokens: list[int], rng: np.random.Generator) -> int:
    return int(rng.random() < 0.5)


def cohort(folder: Path, rule: Rule = decided, sequences: dict[str, list[list[int]]] | None = None) -> Path:
    """Write a data set as the preprocess stage does: 120 + 40 + 40 stays of 3..12 tokens."""
    disable_progress_bars()
    rng = np.random.default_rng(3)
    parts = {}
    for name, size in (("train", 120), ("validation", 40), ("test", 40)):
        rows = [rng.integers(4, VOCABULARY, size=rng.integers(3, LONGEST + 1)).tolist() for _ in range(size)]
        rows += (sequences or {}).get(name, [])
        columns = {
            "sample": [f"{name}{row:04d}" for row in range(len(rows))],
            "tokens": rows,
            "hours": [[0.5] * len(row) for row in rows],
            "label": [rule(row, rng) for row in rows],
        }
        parts[name] = Dataset.from_dict(columns, features=FEATURES)
    DatasetDict(parts).save_to_disk(str(folder / "dataset"))
    tokens = ["[PAD]", "[CLS]", "[MASK]", "[UNK]"] + [f"LAB//{code}" for code in range(4, VOCABULARY)]
    special = {"pad": PAD, "cls": CLS, "mask": 2, "unk": 3}
    (folder / "vocabulary.json").write_text(json.dumps({"tokens": tokens, "counts": [0] * 12, "special": special}))
    write_content(Content("events", ("0", "1"), LONGEST), folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cohort(tmp_path_factory.mktemp("data"), sequences={"test": [[]]})


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, float], list[dict]]:
    out, told = tmp_path_factory.mktemp("out") / "new", []
    return out, fit(data, SMALL, 0, "cpu", out, progress=told.append), told


def random_model(seed: int = 0) -> torch.nn.Module:
    """Weights ten times the usual ones, so that the output hangs on the input as it does after training."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = build(SMALL, VOCABULARY, PAD, LONGEST, 2).eval()
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(10)
    return model


# -- fitting --------------------------------------------------------------------------------------------------------


def test_learns_and_writes(trained):
    out, scores, told = trained
    assert scores["auroc"] > 0.9
    assert all(np.isfinite(value) for value in scores.values())
    assert scores == json.loads((out / "scores.json").read_text())
    assert sorted(path.name for path in (out / "model").iterdir()) == ["config.json", "model.safetensors"]
    assert (out / "calibration.png").read_bytes().startswith(b"\x89PNG")
    history = pd.read_csv(out / "history.csv")
    assert list(history.epoch) == [row["epoch"] for row in told] == list(range(1, int(scores["epochs"]) + 1))
    assert history.validation_loss.min() == scores["validation_loss"]
    assert (scores["train_samples"], scores["validation_samples"], scores["test_samples"]) == (120, 40, 41)


def test_scores_agree_with_the_predictions_file(trained):
    out, scores, _ = trained
    test = pd.read_csv(out / "predictions.csv").query("split == 'test'")
    assert list(test["sample"]) == [f"test{row:04d}" for row in range(41)]
    assert scores["auroc"] == pytest.approx(roc_auc_score(test.label, test.probability), abs=1e-12)
    assert scores["accuracy"] == pytest.approx(((test.probability >= 0.5) == test.label).mean())
    assert scores["brier"] == pytest.approx(((test.probability - test.label) ** 2).mean())
    share = test.label.mean()
    assert (scores["prevalence"], scores["majority_accuracy"]) == pytest.approx((share, max(share, 1 - share)))
    assert pd.read_csv(out / "calibration.csv")["samples"].sum() == 41


def test_best_weights_are_kept_and_validation_loss_is_weighted(tmp_path):
    """On coin-flip labels the validation loss rises again; the kept model must have the least of it."""
    model = SMALL.model_copy(update={"epochs": 12, "patience": 2})
    out = tmp_path / "out"
    scores = fit(cohort(tmp_path / "data", rule=coin), model, 0, "cpu", out)
    losses = pd.read_csv(out / "history.csv").validation_loss
    assert scores["epochs"] == scores["best_epoch"] + 2 < 12
    assert losses.idxmin() + 1 == scores["best_epoch"]
    table = pd.read_csv(out / "predictions.csv")
    weights = class_weights(table.query("split == 'train'").label.to_numpy(), "balanced")
    kept = table.query("split == 'validation'")
    likelihood = np.where(kept.label == 1, kept.probability, 1 - kept.probability)
    assert np.mean(weights[kept.label] * -np.log(likelihood)) == pytest.approx(losses.min(), abs=1e-5)


def test_same_seed_same_weights_and_no_trace(data, trained, tmp_path):
    out, scores, _ = trained
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    again = fit(data, SMALL, 0, "cpu", tmp_path / "again")
    load_model(tmp_path / "again" / "model", "cpu")
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert torch.equal(torch.get_rng_state(), before[2])
    assert again == scores
    first, second = (load_file(folder / "model" / "model.safetensors") for folder in (out, tmp_path / "again"))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_another_seed_other_weights(data, trained, tmp_path):
    short = SMALL.model_copy(update={"epochs": 1})
    fit(data, short, 1, "cpu", tmp_path)
    name = "bert.embeddings.word_embeddings.weight"
    first, other = (load_file(folder / "model" / "model.safetensors")[name] for folder in (trained[0], tmp_path))
    assert not np.allclose(first, other)


def test_config_follows_conf(trained):
    config = load_model(trained[0] / "model", "cpu").config
    assert (config.num_attention_heads, config.num_hidden_layers, config.hidden_size) == (2, 1, 16)
    assert (config.intermediate_size, config.vocab_size, config.max_position_embeddings) == (32, VOCABULARY, 13)
    dropouts = config.hidden_dropout_prob, config.attention_probs_dropout_prob, config.classifier_dropout
    assert dropouts == (0.1, 0.1, 0.1)
    assert config._attn_implementation == "sdpa"


def test_reports_to_nobody(tmp_path):
    made = arguments(Setting(SMALL, Content("events", ("0", "1"), LONGEST), None, 0, "cpu"), tmp_path, 0)
    assert made.report_to == []
    assert made.disable_tqdm
    assert made.get_warmup_steps(100) == 10


# -- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["test", "train"])
def test_one_class_is_an_error(tmp_path, name):
    def rule(tokens: list[int], rng: np.random.Generator) -> int:
        rule.row += 1
        inside = rule.row <= 120 if name == "train" else rule.row > 160
        return 0 if inside else rule.row % 2

    rule.row = 0
    with pytest.raises(ValueError, match=f"the {name} part has one class only: all .* samples have label 0"):
        fit(cohort(tmp_path / "data", rule=rule), SMALL, 0, "cpu", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_class_without_samples_is_an_error(data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "three")
    write_content(Content("events", ("a", "b", "c"), LONGEST), copy)
    with pytest.raises(ValueError, match="the train part has no sample of class c; it could be neither learnt nor"):
        fit(copy, SMALL, 0, "cpu", tmp_path / "out")


def test_long_sequence_is_an_error(data, trained, tmp_path):
    with pytest.raises(ValueError, match=r"has 12 tokens and the model takes 11; shorten .* data\.tokens\.max_tokens"):
        copy = shutil.copytree(data, tmp_path / "short")
        write_content(Content("events", ("0", "1"), LONGEST - 1), copy)
        fit(copy, SMALL, 0, "cpu", tmp_path)
    with pytest.raises(ValueError, match="has 13 tokens and the model takes 12"):
        predict(load_model(trained[0] / "model", "cpu"), [[4] * 13], CLS, PAD)


def test_token_outside_the_vocabulary_is_an_error(tmp_path):
    folder = cohort(tmp_path, sequences={"test": [[4, 99]]})
    with pytest.raises(ValueError, match="the test part has the token 99, and the vocabulary ends at 11"):
        fit(folder, SMALL, 0, "cpu", tmp_path / "out")


def test_missing_input_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="run the preprocess stage"):
        fit(tmp_path, SMALL, 0, "cpu", tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=r"there is no config\.json"):
        load_model(tmp_path, "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_absent_cuda_is_an_error(data, tmp_path):
    with pytest.raises(ValueError, match="torch finds no CUDA device; set device=cpu"):
        fit(data, SMALL, 0, "cuda", tmp_path)


def test_diverging_training_is_an_error(data, tmp_path):
    with pytest.raises(ValueError, match=r"training diverged; lower model\.learning_rate"):
        fit(data, SMALL.model_copy(update={"learning_rate": 1e38}), 0, "cpu", tmp_path)


# -- loss -----------------------------------------------------------------------------------------------------------


def test_class_weights():
    labels = np.array([0] * 6 + [1] * 2)
    assert class_weights(labels, "balanced") == pytest.approx([8 / 12, 8 / 4])
    assert class_weights(labels, "balanced")[labels].mean() == pytest.approx(1)
    assert class_weights(labels, "none").tolist() == [1, 1]


def test_weighted_loss_by_hand():
    class Outputs:
        logits = torch.log(torch.tensor([[0.75, 0.25], [0.5, 0.5]]))

    loss = WeightedLoss(np.array([2.0, 3.0]))(Outputs, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx((-2 * np.log(0.75) - 3 * np.log(0.5)) / 2, rel=1e-6)


# -- scores ---------------------------------------------------------------------------------------------------------


def test_auroc_by_hand():
    """Positives .35 and .8 against negatives .1 and .4: three of four pairs in order; a tie is one half."""
    assert auroc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])) == 0.75
    assert auroc(np.array([0, 1, 1]), np.array([0.5, 0.5, 0.7])) == 0.75
    assert auroc(np.array([0, 1, 0, 1]), np.full(4, 0.3)) == 0.5


def test_intervals_hold_the_point_and_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=150)
    probabilities = np.round(np.clip(0.3 * labels + 0.7 * rng.random(150), 0, 1), 1)  # rounded: many ties
    both = np.column_stack([1 - probabilities, probabilities])
    found = score(labels, both, 500, seed=0)
    assert found["auroc"] == pytest.approx(roc_auc_score(labels, probabilities), abs=1e-12)
    assert found["auprc"] == pytest.approx(average_precision_score(labels, probabilities), abs=1e-12)
    for name in ("auroc", "auprc", "accuracy", "brier"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]
    share = found["accuracy"]
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / 150)
    assert found["accuracy_high"] - found["accuracy_low"] == pytest.approx(width, rel=0.15)
    assert found == score(labels, both, 500, seed=0)
    assert found != score(labels, both, 500, seed=1)


def test_resampled_auroc_is_that_of_repeated_stays():
    from tasks.train.scores import measures_of

    labels, probabilities = np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.2, 0.2, 0.4, 0.9])
    times = np.array([2, 0, 3, 1, 1])
    repeated = np.repeat(labels, times), np.repeat(probabilities, times)
    measures = measures_of(labels, probabilities)
    assert measures["auroc"](times[None]) == pytest.approx(roc_auc_score(*repeated))
    assert measures["auprc"](times[None]) == pytest.approx(average_precision_score(*repeated))


def test_a_single_positive_still_has_finite_intervals():
    positive = np.array([0.2, 0.9, 0.4, 0.6])
    found = score(np.array([0, 0, 0, 1]), np.column_stack([1 - positive, positive]), 200, seed=0)
    assert all(np.isfinite(value) for value in found.values())
    assert found["auroc"] == pytest.approx(2 / 3)


def test_calibration_by_hand():
    labels, probabilities = np.array([0, 0, 0, 1, 1, 1]), np.array([0.22, 0.24, 0.26, 0.28, 0.98, 1.0])
    curve = calibration_curve(labels, probabilities)
    assert curve.samples.tolist() == [4, 2]
    assert curve.predicted.tolist() == pytest.approx([0.25, 0.99])
    assert curve.observed.tolist() == [0.25, 1]
    assert calibration_scores(labels, probabilities)["calibration_error"] == pytest.approx(0.01 * 2 / 6)
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_calibration_slope_of_true_and_of_overconfident_probabilities():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=20_000)
    labels = (rng.random(20_000) < 1 / (1 + np.exp(-log_odds))).astype(int)
    true = calibration_scores(labels, 1 / (1 + np.exp(-log_odds)))
    twice = calibration_scores(labels, 1 / (1 + np.exp(-2 * log_odds - 1)))
    assert (true["calibration_slope"], true["calibration_intercept"]) == pytest.approx((1, 0), abs=0.07)
    assert (twice["calibration_slope"], twice["calibration_intercept"]) == pytest.approx((0.5, -0.5), abs=0.07)
    assert true["calibration_error"] < 0.02 < twice["calibration_error"]


def test_no_slope_where_none_exists():
    separated = calibration_scores(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.9]))
    constant = calibration_scores(np.array([0, 1, 1]), np.full(3, 0.4))
    assert set(separated) == set(constant) == {"calibration_error"}


# -- prediction -----------------------------------------------------------------------------------------------------


def test_padding_and_batches_change_nothing():
    model = random_model()
    rng = np.random.default_rng(0)
    sequences = [rng.integers(4, VOCABULARY, size=length).tolist() for length in (0, 12, 1, 5, 2, 12, 0, 7)]
    with torch.inference_mode():
        alone = [
            torch.softmax(model(input_ids=torch.tensor([[CLS, *sequence]])).logits.double(), 1)[0, 1].item()
            for sequence in sequences
        ]
    for batch in (1, 20, 4096):
        assert predict(model, sequences, CLS, PAD, batch)[:, 1] == pytest.approx(alone, abs=1e-5)
    assert np.ptp(alone) > 1e-3


def test_predicts_nothing_for_nothing():
    assert predict(random_model(), [], CLS, PAD).shape == (0, 2)
    assert predict(random_model(), [[]], CLS, PAD).shape == (1, 2)


def test_batches_hold_to_their_size():
    model, sizes = random_model(), []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    predict(model, [[4] * length for length in (3, 9, 3, 3, 12, 3)], CLS, PAD, batch=8)
    assert sizes == [(2, 4), (2, 4), (1, 10), (1, 13)]


def test_prediction_refuses_training_mode():
    with pytest.raises(ValueError, match=r"call model\.eval\(\)"):
        predict(random_model().train(), [[4]], CLS, PAD)


def test_unmasked_padding_would_change_the_output():
    """A row of padding tokens that is *not* masked would change the output: the mask is what hides it."""
    model = random_model()
    masked = predict(model, [[4, 5], [4] * 10], CLS, PAD)[0, 1]
    unmasked = predict(model, [[4, 5] + [PAD] * 8], CLS, PAD)[0, 1]
    assert abs(masked - unmasked) > 1e-4


# -- the logged model -----------------------------------------------------------------------------------------------

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
answers = [model.predict(pandas.DataFrame({"tokens": rows})).probability.tolist() for rows in json.loads(sys.argv[3])]
print("ANSWERS" + json.dumps(answers))
"""


def test_logged_model_loads_in_a_fresh_process(data, trained, tmp_path, monkeypatch):
    import mlflow

    from tasks.tracking_model import log_classifier

    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/tracking.db"
    client = mlflow.MlflowClient(uri)
    experiment = client.create_experiment("train", artifact_location=(tmp_path / "artifacts").as_uri())
    run = client.create_run(experiment).info.run_id
    folder = trained[0] / "model"
    before = mlflow.get_tracking_uri()
    made = [log_classifier(run, folder, data, "bert", uri) for _ in range(2)]
    assert made == ["models:/bert/1", "models:/bert/2"]
    assert mlflow.active_run() is None
    assert mlflow.get_tracking_uri() == before
    assert client.get_run(run).info.status == "RUNNING"
    assert client.get_model_version("bert", "2").run_id == run
    assert len(client.get_run(run).outputs.model_outputs) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifacts", "tracking.db"]
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".pkl", ".pickle", ".pt", ".bin"}]
    batches = [[[4, 5, 6]], [[5] * 12, [7], []]]
    found = in_a_fresh_process(uri, made[1], batches, tmp_path)
    here = [predict(load_model(folder, "cpu"), rows, CLS, PAD)[:, 1].tolist() for rows in batches]
    for one, other in zip(found, here, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def in_a_fresh_process(uri: str, model: str, batches: list[list[list[int]]], folder: Path) -> list[list[float]]:
    command = [sys.executable, "-P", "-c", FRESH, uri, model, json.dumps(batches)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.split("ANSWERS")[1])
