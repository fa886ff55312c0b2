"""The train stage: read, check, train, score, write."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from tasks.train.calibration import calibration_curve, calibration_scores, draw_calibration
from tasks.train.data import Part, check_parts, read_parts, read_vocabulary
from tasks.train.scores import Scores, score
from tasks.train.served import no_progress_bars, predict
from tasks.train.training import Epoch, Progress, Setting, Trained, train

if TYPE_CHECKING:
    from conf.schema import Model


def fit(
    data_dir: Path,
    model: Model,
    max_tokens: int,
    seed: int,
    device: str,
    out: Path,
    progress: Progress | None = None,
) -> Scores:
    """Train a classifier on the preprocess stage's output, score it on the test part, and write both to ``out``.

    Writes ``model/`` (config.json, model.safetensors), ``scores.json``, ``history.csv`` (one row an epoch),
    ``predictions.csv`` (stay hash, split, label, probability), ``calibration.csv`` and ``calibration.png``. The same
    arguments give the same files on one machine's CPU; global random states are left as they were.

    Args:
        data_dir: holds ``dataset/`` and ``vocabulary.json``.
        model: architecture and training options.
        max_tokens: the longest sequence, [CLS] not counted.
        seed: names the random streams.
        device: "cpu" or "cuda".
        out: a folder, made where it does not exist.
        progress: is called after each epoch with epoch, of, train_loss, validation_loss and validation_auroc.

    Returns:
        Finite numbers: auroc, auprc, accuracy, brier with ``_low`` and ``_high``; calibration_error, and where they
        exist calibration_slope and calibration_intercept; prevalence and majority_accuracy of the test part;
        train_stays, validation_stays, test_stays; epochs, best_epoch, validation_loss; parameters.

    Raises:
        FileNotFoundError: ``data_dir`` lacks a file.
        ValueError: one class only, a sequence longer than the model, an empty part, CUDA asked for but absent, or
            a loss that diverged.
    """
    check_device(device)
    vocabulary, parts = read_vocabulary(data_dir), read_parts(data_dir)
    check_parts(parts, vocabulary, max_tokens)
    trained = train(parts, vocabulary, Setting(model, max_tokens, seed, device), progress)
    probabilities = {
        name: predict(trained.network, part.sequences, vocabulary.cls, vocabulary.pad) for name, part in parts.items()
    }
    labels, predicted = parts["test"].labels, probabilities["test"]
    scores = score(labels, predicted, model.bootstrap, seed) | calibration_scores(labels, predicted)
    scores |= facts(parts, trained)
    out.mkdir(parents=True, exist_ok=True)
    with no_progress_bars():
        trained.network.save_pretrained(out / "model")
    write_tables(out, parts, probabilities, trained.history)
    curve = calibration_curve(labels, predicted)
    curve.to_csv(out / "calibration.csv", index=False)
    draw_calibration(curve, out / "calibration.png")
    (out / "scores.json").write_text(json.dumps(scores, indent=2, sort_keys=True, allow_nan=False) + "\n")
    return scores


def check_device(device: str) -> None:
    """Raise ValueError where ``device`` is not "cpu" or a "cuda" that is there."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; it is cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, and torch finds no CUDA device; set device=cpu or device=auto")


def facts(parts: dict[str, Part], trained: Trained) -> Scores:
    """Return the counts that put the scores in context."""
    prevalence = float(parts["test"].labels.mean())
    best = min(trained.history, key=lambda epoch: epoch.validation_loss)
    return {
        "prevalence": prevalence,
        "majority_accuracy": max(prevalence, 1 - prevalence),
        **{f"{name}_stays": float(len(part.labels)) for name, part in parts.items()},
        "epochs": float(len(trained.history)),
        "best_epoch": float(best.epoch),
        "validation_loss": best.validation_loss,
        "parameters": float(trained.network.num_parameters()),
    }


def write_tables(out: Path, parts: dict[str, Part], probabilities: dict[str, np.ndarray], history: list[Epoch]) -> None:
    """Write history.csv and predictions.csv."""
    with (out / "history.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(asdict(history[0])))
        table.writeheader()
        table.writerows(asdict(epoch) for epoch in history)
    with (out / "predictions.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["stay", "split", "label", "probability"])
        for name, part in parts.items():
            lines.writerows(zip(part.stays, [name] * len(part.stays), part.labels, probabilities[name], strict=True))
