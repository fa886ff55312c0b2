"""The preprocess step: raw tables to tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flows.context import Context
from flows.steps.shared import (
    StageRun,
    flat,
    is_number,
    stage_run,
)
from tasks import preprocess as preprocessing
from tasks.preprocess.source import get_source
from tasks.store import Output, code_digest


def preprocess(context: Context) -> StageRun:
    """Turn the raw tables into tokens; reuse them if conf, raw files, seed and code are the same."""
    made = preprocess_made(context)
    return stage_run(context, "preprocess", made, lambda folder: make_preprocess(context, folder), log_preprocess)


def preprocess_made(context: Context) -> dict[str, Any]:
    """Return what a preprocess output is made from: the raw files count by content, not by where they lie."""
    data = context.study.data
    preprocessing.check(data)
    raw = {path.name: context.store.file_digest(path) for path in preprocessing.inputs(data)}
    return {
        "conf": data.model_dump(mode="json", exclude={"path", "labels_path", "memory_limit", "threads"}),
        "inputs": {"raw": raw},
        "seed": context.study.seed,
        "code": code_digest("tasks.preprocess", type(get_source(data)).__module__),
    }


def make_preprocess(context: Context, folder: Path) -> None:
    """Write the preprocess output."""
    preprocessing.preprocess(context.study.data, context.study.seed, folder, context.store.stay_hash())


def log_preprocess(context: Context, run_id: str, output: Output) -> None:
    """Log the audit, the vocabulary and the raw data set's digest."""
    audit = json.loads((output.folder / "audit.json").read_text())
    context.tracker.metrics(run_id, {name: float(value) for name, value in flat(audit) if is_number(value)})
    for name in ("audit.json", "audit.md", "vocabulary.json", "truth.json"):
        if (output.folder / name).is_file():
            context.tracker.artifact(run_id, output.folder / name)
    context.tracker.dataset(run_id, context.study.data.dataset, output.digest, "preprocess")
