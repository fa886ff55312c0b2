"""The preprocess step: raw tables to tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conf.schema import Data
from flows.context import Context
from flows.steps.shared import (
    StageRun,
    flat,
    is_number,
    stage_run,
)
from tasks import preprocess as preprocessing
from tasks.preprocess.source import get_source
from tasks.store import Output, code_digest, read_json


def preprocess(context: Context) -> StageRun:
    """Turn the raw tables into tokens; reuse them if conf, raw files, seed and code are the same."""
    made = preprocess_made(context)
    return stage_run(context, "preprocess", made, lambda folder: make_preprocess(context, folder), log_preprocess)


def preprocess_made(context: Context) -> dict[str, Any]:
    """Return what a preprocess output is made from: the raw files count by content, not by where they lie."""
    data = context.study.data
    preprocessing.check(data)
    raw = {raw_name(data, path): context.store.file_digest(path) for path in preprocessing.inputs(data)}
    return {
        "conf": data.model_dump(mode="json", exclude={"path", "labels_path", "memory_limit", "threads"}),
        "inputs": {"raw": raw},
        "seed": context.study.seed,
        "code": code_digest("tasks.preprocess", type(get_source(data)).__module__),
    }


def raw_name(data: Data, path: Path) -> str:
    """Return how a raw file is told from the others: its place in the data folder, wherever that is."""
    if data.path is None or not path.is_relative_to(data.path):
        # of a pretrained encoder's folder, or what a public home's loader keeps
        folder = Path(data.text.pretrained)
        return f"pretrained/{path.relative_to(folder)}" if path.is_relative_to(folder) else f"public/{path.name}"
    if data.labels_path is not None and path.is_relative_to(data.labels_path):
        return f"labels/{path.relative_to(data.labels_path) if path != data.labels_path else path.name}"
    return f"data/{path.relative_to(data.path)}"


def make_preprocess(context: Context, folder: Path) -> None:
    """Write the preprocess output."""
    preprocessing.preprocess(context.study.data, context.study.seed, folder, context.store.stay_hash())


def log_preprocess(context: Context, run_id: str, output: Output) -> None:
    """Log the audit, the vocabulary and the raw data set's digest."""
    audit = read_json(output.folder / "audit.json")
    context.tracker.metrics(run_id, {name: float(value) for name, value in flat(audit) if is_number(value)})
    for name in ("audit.json", "audit.md", "content.json", "vocabulary.json", "truth.json"):
        if (output.folder / name).is_file():
            context.tracker.artifact(run_id, output.folder / name)
    context.tracker.dataset(run_id, context.study.data.dataset, output.digest, "preprocess")
