"""The report step: all methods side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.context import Context
from flows.steps.explanations import weights_digest
from flows.steps.shared import (
    SOFTWARE,
    MethodRun,
    evaluated,
    load_subject,
    software,
)
from tasks.gather import MethodOutputs, gather, moving, with_moves
from tasks.moves import read_moves, write_moves
from tasks.report import StudyResults, summary, write_report
from tasks.store import Output, code_digest, digest_of
from tasks.tracking_summary import log_comparison


def report(
    context: Context, runs: list[MethodRun], data: Output, model: Output, run_id: str
) -> tuple[StudyResults, dict[str, Path]]:
    """Write the report, log all of it to the summary run ``run_id``, and return the results and its files."""
    results = study_results(context, runs, data, model)
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


def study_results(context: Context, runs: list[MethodRun], data: Output, model: Output) -> StudyResults:
    """Return all that a report shows; the model is asked what moving the strongest tokens does, once."""
    outputs = [
        MethodOutputs(
            run.method.label, run.explain.folder, evaluated(run).folder, run.timing.folder if run.timing else None
        )
        for run in runs
    ]
    results = gather(context.study, data.folder, model.folder, outputs, facts(context, runs, data, model))
    players = moving(context.study, results)
    if not players:
        return results
    return with_moves(results, players, read_moves(moves(context, players, data, model).folder))


def moves(context: Context, players: Mapping[int, Sequence[int]], data: Output, model: Output) -> Output:
    """Return the outputs of the model with the given players moved; an intact earlier output is reused."""
    made = moves_made(context, players, data, model)

    def work(folder: Path) -> None:
        with context.store.lock("device", shared=True):
            write_moves(load_subject(context, data, model), players, folder)

    digest = digest_of(made)
    with context.store.lock(f"moves-{digest}"):
        return context.store.find("moves", digest) or context.store.make("moves", made, work)


def moves_made(context: Context, players: Mapping[int, Sequence[int]], data: Output, model: Output) -> dict[str, Any]:
    """Return what moved outputs are made from: the players themselves, whoever picked them."""
    return {
        "conf": context.study.explain.model_dump(
            mode="json", include={"output", "players", "precision", "batch_tokens"}
        ),
        "players": {str(index): list(own) for index, own in players.items()},
        "inputs": {"preprocess": data.digest, "train": model.digest, "weights": weights_digest(model)},
        "code": code_digest("tasks.moves"),
        "device": context.device,
        "software": software(),
    }


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
