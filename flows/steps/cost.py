"""The timing step: what one method costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from flows.context import Context
from flows.steps.shared import (
    MethodRun,
    load_subject,
)
from tasks.store import Output
from tasks.subject import Subject
from tasks.timing import time_method


def timing(context: Context, run: MethodRun, data: Output, model: Output, subject: Subject | None = None) -> MethodRun:
    """Time one method, always anew and alone on the device, and add its cost to the method's run."""
    study = context.study
    subject = subject or load_subject(context, data, model)

    def work(folder: Path) -> None:
        with context.store.lock("device"):
            frame = time_method(subject, run.method, study.timing.samples, study.seed)
        frame.to_csv(folder / "timing.csv", index=False)

    output = context.store.make("timing", timing_made(context, run), work)
    frame = pd.read_csv(output.folder / "timing.csv")
    numbers: dict[str, float] = {}
    for name in ("seconds", "evaluations", "peak_memory_mb"):
        numbers[name] = float(frame[name].mean())
        numbers[f"stderr/{name}"] = float(frame[name].std(ddof=1)) / len(frame) ** 0.5
    with context.tracker.run("", {}, run.run_id):
        context.tracker.metrics(run.run_id, numbers)
        context.tracker.table(run.run_id, frame, "timing.csv")
        context.tracker.set_tags(run.run_id, {"timed_samples": str(len(frame)), "timed_on": context.device})
    return replace(run, timing=output, reused=False)


def timing_made(context: Context, run: MethodRun) -> dict[str, Any]:
    """Return what names a timing; it is measured again each time all the same."""
    return {
        "conf": context.study.timing.model_dump(mode="json"),
        "inputs": {"explain": run.explain.digest},
        "seed": context.study.seed,
        "device": context.device,
    }
