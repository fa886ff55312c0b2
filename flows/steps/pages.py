"""The report step: all methods side by side."""

from __future__ import annotations

from pathlib import Path

from flows.context import Context
from flows.steps.shared import (
    SOFTWARE,
    MethodRun,
    evaluated,
)
from tasks.gather import MethodOutputs, gather
from tasks.report import StudyResults, summary, write_report
from tasks.store import Output
from tasks.tracking_summary import log_comparison


def report(
    context: Context, runs: list[MethodRun], data: Output, model: Output, run_id: str
) -> tuple[StudyResults, dict[str, Path]]:
    """Write the report, log all of it to the summary run ``run_id``, and return the results and its files."""
    outputs = [
        MethodOutputs(
            run.method.label, run.explain.folder, evaluated(run).folder, run.timing.folder if run.timing else None
        )
        for run in runs
    ]
    results = gather(context.study, data.folder, model.folder, outputs, facts(context, runs, data, model))
    made = {"inputs": {run.method.label: [run.explain.digest, evaluated(run).digest] for run in runs}, "conf": {}}
    files: dict[str, Path] = {}
    output = context.store.make("report", made, lambda folder: files.update(write_report(results, folder)))
    files = {name: output.folder / name for name in files}
    tracker = context.tracker
    tracker.artifact(run_id, output.folder, "report")
    tracker.table(run_id, summary(results).reset_index(), "summary.csv")
    log_comparison(tracker, run_id, results)
    tracker.json(run_id, {run.method.label: run.run_id for run in runs}, "method_runs.json")
    tracker.set_tags(run_id, {"preprocess": data.digest, "train": model.digest, "report": output.digest})
    return results, files


def facts(context: Context, runs: list[MethodRun], data: Output, model: Output) -> dict[str, str]:
    """Return how a study was made, by name, for people."""
    tags = context.tracker.get(runs[0].run_id).data.tags
    return {
        "study run": context.tracker.tags["study_run"],
        "seed": str(context.study.seed),
        "device": context.tracker.tags["device"],
        "output scale": context.study.explain.output,
        "explained class": "the class predicted on the untouched input",
        "git commit": tags.get("git_commit", "none"),
        **{f"version of {name}": tags[f"version.{name}"] for name in SOFTWARE},
        "preprocess digest": data.digest,
        "train digest": model.digest,
        **{f"explain digest of {run.method.label}": run.explain.digest for run in runs},
    }
