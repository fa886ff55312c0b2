"""The train stage: read, check, train, score, write."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tasks.content import read_content
from tasks.train.building import check_fits
from tasks.train.calibration import calibration_curve, calibration_scores, draw_calibration
from tasks.train.data import Part, check_parts, read_parts
from tasks.train.scores import Scores, score
from tasks.train.served import no_progress_bars, predict, predict_features, predict_pixels, probability_columns
from tasks.train.tables import made, number_scores
from tasks.train.training import Epoch, Progress, Setting, Trained, train
from tasks.vocabulary import vocabulary_of

if TYPE_CHECKING:
    from conf.schema import Model

MADE = ("forest", "polynomial")


def fit(
    data_dir: Path,
    model: Model,
    seed: int,
    device: str,
    out: Path,
    progress: Progress | None = None,
) -> Scores:
    """Train a classifier on the preprocess stage's output, score it on the test part, and write both to ``out``.

    Writes ``model/`` (config.json, model.safetensors), ``scores.json``, ``history.csv`` (one row an epoch),
    ``predictions.csv`` (sample, split, label, probability of class 1, or of each class where there are more),
    ``calibration.csv`` and ``calibration.png``. The same arguments give the same files on one machine's CPU; global
    random states are left as they were.

    Args:
        data_dir: holds ``dataset/``, ``content.json`` and, of token sequences, ``vocabulary.json``.
        model: architecture and training options.
        seed: names the random streams.
        device: "cpu" or "cuda".
        out: a folder, made where it does not exist.
        progress: is called after each epoch with epoch, of, train_loss, validation_loss and validation_auroc.

    Returns:
        Finite numbers. Of classes: auroc, auprc, accuracy, brier with ``_low`` and ``_high``; calibration_error, and
        where they exist calibration_slope and calibration_intercept; majority_accuracy and, of two classes, prevalence
        of the test part. Of predicted numbers: r2, rmse, mae with ``_low`` and ``_high``. Of all:
        train_samples, validation_samples, test_samples; epochs, best_epoch, validation_loss; parameters.

    Raises:
        FileNotFoundError: ``data_dir`` lacks a file.
        ValueError: one class only, a sequence longer than the model, an empty part, an architecture that does not
            read this kind of data, CUDA asked for but absent, or a loss that diverged.
    """
    check_device(device)
    content = read_content(data_dir)
    check_fits(model, content)
    vocabulary = vocabulary_of(data_dir, content)
    words = model.augment == "leave_words_out" or model.first_filters == "word_beginnings"
    parts = read_parts(data_dir, content, words)
    check_parts(parts, content, vocabulary)
    setting = Setting(model, content, vocabulary, seed, device)
    trained = set_up(parts, setting) if model.architecture in MADE else train(parts, setting, progress)
    probabilities = {name: predicted_by(trained, part, setting) for name, part in parts.items()}
    out.mkdir(parents=True, exist_ok=True)
    labels, predicted = parts["test"].labels, probabilities["test"]
    if content.classes:
        scores = score(labels, predicted, model.bootstrap, seed) | calibrated(labels, predicted, out)
    else:
        scores = number_scores(labels, predicted[:, 0], model.bootstrap, seed)
    scores |= facts(parts, trained)
    with no_progress_bars():
        trained.network.save_pretrained(out / "model")
    write_tables(out, parts, probabilities, trained.history)
    (out / "scores.json").write_text(json.dumps(scores, indent=2, sort_keys=True, allow_nan=False) + "\n")
    return scores


def set_up(parts: dict[str, Part], setting: Setting) -> Trained:
    """Return a model that no gradient trains; its only record holds mean squared errors."""
    network: Any = made(setting.model, setting.content, parts["train"], setting.seed)
    network.to(setting.device)
    losses = {
        name: float(((predict_features(network, np.asarray(part.inputs))[:, 0] - part.labels) ** 2).mean())
        for name, part in parts.items()
    }
    return Trained(network, [Epoch(1, losses["train"], losses["validation"], None)])


def calibrated(labels: np.ndarray, probabilities: np.ndarray, out: Path) -> Scores:
    """Return the calibration's scores, and write its curve and figure."""
    labels, predicted = reliability(labels, probabilities)
    curve = calibration_curve(labels, predicted)
    curve.to_csv(out / "calibration.csv", index=False)
    draw_calibration(curve, out / "calibration.png")
    return calibration_scores(labels, predicted)


def predicted_by(trained: Trained, part: Part, setting: Setting) -> np.ndarray:
    """Return the probability of each class (r, classes) for one part."""
    if setting.content.kind == "table":
        return predict_features(trained.network, np.asarray(part.inputs))
    if setting.vocabulary is None:
        return predict_pixels(trained.network, np.asarray(part.inputs))
    return predict(trained.network, list(part.inputs), setting.vocabulary.cls, setting.vocabulary.pad)


def reliability(labels: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the calibration curve compares, both (r,): label and probability of class 1.

    Of more than two classes: whether the likeliest class is right, and its probability (Guo et al. 2017, section 2).
    """
    if probabilities.shape[1] == 2:
        return labels, probabilities[:, 1]
    return (probabilities.argmax(1) == labels).astype(int), probabilities.max(1)


def check_device(device: str) -> None:
    """Raise ValueError where ``device`` is not "cpu" or a "cuda" that is there."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; it is cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, and torch finds no CUDA device; set device=cpu or device=auto")


def facts(parts: dict[str, Part], trained: Trained) -> Scores:
    """Return the counts that put the scores in context."""
    best = min(trained.history, key=lambda epoch: epoch.validation_loss)
    return {
        **shares(parts["test"].labels),
        **{f"{name}_samples": float(len(part.labels)) for name, part in parts.items()},
        "epochs": float(len(trained.history)),
        "best_epoch": float(best.epoch),
        "validation_loss": best.validation_loss,
        "parameters": float(trained.network.num_parameters()),
    }


def shares(labels: np.ndarray) -> Scores:
    """Return what guessing the commonest class would score, and of two classes the share of class 1."""
    if not np.issubdtype(labels.dtype, np.integer):
        return {}
    found = np.bincount(labels) / len(labels)
    return {"majority_accuracy": float(found.max())} | ({"prevalence": float(found[1])} if len(found) == 2 else {})


def write_tables(out: Path, parts: dict[str, Part], probabilities: dict[str, np.ndarray], history: list[Epoch]) -> None:
    """Write history.csv and predictions.csv."""
    with (out / "history.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(asdict(history[0])))
        table.writeheader()
        table.writerows(asdict(epoch) for epoch in history)
    with (out / "predictions.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["sample", "split", "label", *probability_columns(probabilities["test"])])
        for name, part in parts.items():
            columns = probability_columns(probabilities[name]).values()
            lines.writerows(zip(part.samples, [name] * len(part.samples), part.labels, *columns, strict=True))
