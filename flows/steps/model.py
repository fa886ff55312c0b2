"""The train step: tokens to a registered model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from flows.context import Context
from flows.steps.shared import (
    StageRun,
    is_number,
    software,
    stage_run,
)
from tasks.store import Output, code_digest, read_json
from tasks.tracking_model import log_classifier
from tasks.train import fit


def train(context: Context, data: Output) -> StageRun:
    """Train the model; reuse it if data, conf, seed, code, device and software are the same."""
    made = train_made(context, data)
    return stage_run(context, "train", made, lambda folder: make_train(context, data, folder), log_train)


def train_made(context: Context, data: Output) -> dict[str, Any]:
    """Return what a model is made from."""
    return {
        "conf": context.study.model.model_dump(mode="json"),
        "inputs": {"preprocess": data.digest},
        "seed": context.study.seed,
        "code": code_digest("tasks.train.fitting", "tasks.train.served"),
        "device": context.device,
        "software": software(),
    }


def make_train(context: Context, data: Output, folder: Path) -> None:
    """Write the train output."""
    study = context.study

    def progress(record: dict) -> None:
        loss = f"validation loss {record['validation_loss']:.4g}"
        context.progress("train, epochs", int(record["epoch"]), study.model.epochs, loss)

    with context.store.lock("device", shared=True):
        context.progress("train, epochs", 0, study.model.epochs)
        scores = fit(data.folder, study.model, study.seed, context.device, folder, progress)
    if scores["epochs"] < study.model.epochs:
        context.progress("train, epochs", study.model.epochs, study.model.epochs, f"stopped after {scores['epochs']:g}")


def log_train(context: Context, run_id: str, output: Output) -> None:
    """Log scores, history, calibration and the registered model."""
    scores = read_json(output.folder / "scores.json")
    context.tracker.metrics(run_id, {name: float(value) for name, value in scores.items() if is_number(value)})
    history = pd.read_csv(output.folder / "history.csv")
    rows = [
        (f"epoch/{name}", float(value), int(row["epoch"]))
        for _, row in history.iterrows()
        for name, value in row.items()
        if name != "epoch"
    ]
    context.tracker.metric_rows(run_id, rows)
    for name in ("scores.json", "history.csv", "calibration.csv", "calibration.png"):
        if (output.folder / name).is_file():  # predicted numbers have no calibration
            context.tracker.artifact(run_id, output.folder / name)
    data = context.store.folder("preprocess", output.upstream("preprocess"))
    context.tracker.dataset(run_id, context.study.data.dataset, data.name, "train")
    uri = log_classifier(run_id, output.folder / "model", data, context.study.name, context.tracker.uri)
    context.tracker.set_tags(run_id, {"registered_model": uri})
