"""The evaluate step: every metric of one method."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.context import Context
from flows.steps.explanations import log_explanation, method_run_name, method_tags
from flows.steps.shared import (
    MethodRun,
    Work,
    flat,
    load_subject,
    log_conf,
    software,
)
from tasks.evaluate import chosen_metrics, evaluate_method, read_curves, read_scores
from tasks.store import Output, code_digest, digest_of
from tasks.subject import Subject, test_rows


def evaluate(
    context: Context, run: MethodRun, data: Output, model: Output, subject: Subject | None = None
) -> MethodRun:
    """Score one method; its scores go to its explanations' run, or to a new one if that has other scores.

    The row becomes its method's latest: it is the one with explanations and scores.
    """
    made = evaluate_made(context, run)
    digest = digest_of(made)
    label = run.method.label
    with context.store.lock(f"evaluate-{digest}"):
        output = None if context.force else context.store.find("evaluate", digest)
        scored = context.tracker.get(run.run_id).data.tags.get("evaluate", "")
        known = context.tracker.find(stage="method", method=label, explain=run.explain.digest, evaluate=digest)
        if output is not None and known is not None and scored:
            run_id = run.run_id if scored == digest else known.info.run_id
            context.tracker.make_latest(run_id, label, context.study.seed)
            return replace(run, run_id=run_id, evaluate=output, reused=True)
        other = scored not in ("", digest)
        name, tags = method_run_name(context, run.method), method_tags(context, run.method, data, model)
        with context.tracker.run(name, tags, "" if other else run.run_id) as run_id:
            if other:
                log_conf(context, run_id, "explain", run.explain.manifest["made"])
                log_explanation(context, run_id, data, run.explain)
            context.tracker.params(run_id, {name: value for name, value in flat({"evaluate": made["conf"]})})
            if output is None:
                subject = subject or load_subject(context, data, model)
                work = evaluate_work(context, subject, run)
                output = context.store.make("evaluate", made, work, keep_unfinished=not context.force)
            log_scores(context, run_id, data, output)
        context.tracker.make_latest(run_id, label, context.study.seed)
    return replace(run, run_id=run_id, evaluate=output, reused=False)


def evaluate_made(context: Context, run: MethodRun) -> dict[str, Any]:
    """Return what scores are made from."""
    modules = sorted({type(metric).__module__ for metric in chosen_metrics(context.study.evaluate)})
    return {
        "conf": context.study.evaluate.model_dump(mode="json"),
        "inputs": {"explain": run.explain.digest},
        "seed": context.study.seed,
        "code": code_digest("tasks.evaluate", *modules),
        "device": context.device,
        "software": software(),
    }


def evaluate_work(context: Context, subject: Subject, run: MethodRun) -> Work:
    """Return the function that writes one method's scores."""
    study = context.study

    def work(folder: Path) -> None:
        def progress(done: int, of: int) -> None:
            context.progress(f"evaluate {run.method.label}, samples", done, of)

        workers = study.explain.workers
        with context.store.lock("device", shared=True):
            evaluate_method(subject, run.explain.folder, study.evaluate, study.seed, folder, workers, progress)

    return work


def log_scores(context: Context, run_id: str, data: Output, output: Output) -> None:
    """Log each metric's mean and standard error, its curve (step = percent) and the per-sample scores."""
    study = context.study
    samples = samples_of(context, data)
    scores = read_scores(output.folder, study.evaluate, study.explain.shard_size, samples)
    grouped = scores.groupby("metric", sort=False)["score"]
    numbers = {str(name): float(value) for name, value in grouped.mean().items()}
    numbers |= {f"stderr/{name}": float(value) for name, value in grouped.sem().items()}
    numbers |= {f"undefined_samples/{name}": float(column.isna().sum()) for name, column in grouped}
    context.tracker.metrics(run_id, numbers)
    curves = read_curves(output.folder, study.evaluate, study.explain.shard_size, len(samples))
    columns = zip(curves["metric"], curves["percent"], curves["mean"], strict=True)
    points = [(f"curve/{metric}", float(mean), round(percent)) for metric, percent, mean in columns]
    context.tracker.metric_rows(run_id, points)
    context.tracker.table(run_id, scores, "scores.csv")
    context.tracker.table(run_id, curves, "curves.csv")
    context.tracker.set_tags(run_id, {"evaluate": output.digest})


def samples_of(context: Context, data: Output) -> list[str]:
    """Return the names of the explained samples."""
    return list(test_rows(data.folder, context.study.explain.samples)["sample"])
