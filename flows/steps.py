"""Each stage as one function: look for an intact output, else make it; log it; say where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from conf.schema import Method
from explainers import Explainer, get_explainer
from flows.context import Context
from tasks import preprocess as preprocessing
from tasks.evaluate import chosen_metrics, evaluate_method, read_curves, read_scores
from tasks.explain import CLOCK, Subject, audit_means, explain_method, test_rows
from tasks.gather import MethodOutputs, attribution_table, gather
from tasks.preprocess.source import get_source
from tasks.report import StudyResults, summary, write_report
from tasks.store import Output, code_digest, digest_of
from tasks.timing import time_method
from tasks.tracking_model import log_classifier
from tasks.train import fit

SOFTWARE = ("torch", "transformers", "captum")


@dataclass(frozen=True)
class StageRun:
    """A stage's output and the MLflow run that holds what was logged of it."""

    output: Output
    run_id: str
    reused: bool


@dataclass(frozen=True)
class MethodRun:
    """One method's row in MLflow, and the outputs behind it."""

    method: Method
    run_id: str
    explain: Output
    evaluate: Output | None = None
    timing: Output | None = None
    reused: bool = False


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


def train(context: Context, data: Output) -> StageRun:
    """Train the model; reuse it if data, conf, seed, code, device and software are the same."""
    made = train_made(context, data)
    return stage_run(context, "train", made, lambda folder: make_train(context, data, folder), log_train)


def train_made(context: Context, data: Output) -> dict[str, Any]:
    """Return what a model is made from."""
    return {
        "conf": context.study.model.model_dump(mode="json"),
        "max_tokens": data.manifest["made"]["conf"]["tokens"]["max_tokens"],
        "inputs": {"preprocess": data.digest},
        "seed": context.study.seed,
        "code": code_digest("tasks.train.fitting", "tasks.train.served"),
        "device": context.device,
        "software": {name: version(name) for name in SOFTWARE},
    }


def make_train(context: Context, data: Output, folder: Path) -> None:
    """Write the train output."""
    study = context.study
    longest = data.manifest["made"]["conf"]["tokens"]["max_tokens"]

    def progress(record: dict) -> None:
        context.progress("train", int(record["epoch"]), study.model.epochs)

    with context.store.lock("device"):
        fit(data.folder, study.model, longest, study.seed, context.device, folder, progress)


def log_train(context: Context, run_id: str, output: Output) -> None:
    """Log scores, history, calibration and the registered model."""
    scores = json.loads((output.folder / "scores.json").read_text())
    context.tracker.metrics(run_id, {name: float(value) for name, value in scores.items() if is_number(value)})
    history = pd.read_csv(output.folder / "history.csv")
    rows = [
        (f"epoch.{name}", float(value), int(row["epoch"]))
        for _, row in history.iterrows()
        for name, value in row.items()
        if name != "epoch"
    ]
    context.tracker.metric_rows(run_id, rows)
    for name in ("scores.json", "history.csv", "calibration.csv", "calibration.png"):
        context.tracker.artifact(run_id, output.folder / name)
    data = context.store.folder("preprocess", output.upstream("preprocess"))
    context.tracker.dataset(run_id, context.study.data.dataset, data.name, "train")
    uri = log_classifier(
        run_id, output.folder / "model", data / "vocabulary.json", context.study.name, context.tracker.uri
    )
    context.tracker.set_tags(run_id, {"registered_model": uri})


def stage_run(context: Context, stage: str, made: Mapping[str, Any], work, record) -> StageRun:
    """Return the intact output and its run, or make and log them.

    Args:
        context: the execution.
        stage: "preprocess" or "train".
        made: what the output is made from.
        work: writes the output into a folder.
        record: logs an output to a run.
    """
    digest = digest_of(made)
    with context.store.lock(f"{stage}-{digest}"):
        output = None if context.force else context.store.find(stage, digest)
        known = context.tracker.find(stage=stage, output=digest)
        if output is not None and known is not None:
            return StageRun(output, known.info.run_id, reused=True)
        study = context.study
        with context.tracker.run(f"{study.data.dataset}-{study.data.task} / {stage}", {"stage": stage}) as run_id:
            log_conf(context, run_id, stage, made)
            if output is None:
                output = context.store.make(stage, made, work)
            record(context, run_id, output)
            context.tracker.set_tags(run_id, {"output": digest})
    return StageRun(output, run_id, reused=False)


def log_conf(context: Context, run_id: str, stage: str, made: Mapping[str, Any]) -> None:
    """Log a stage's own conf as params, and what it was made from as an artifact."""
    params = {name: value for name, value in flat({stage: made["conf"]}) if value is not None}
    context.tracker.params(run_id, params | {"seed": made["seed"]})
    context.tracker.json(run_id, dict(made), "made_from.json")


def explain(context: Context, method: Method, data: Output, model: Output, subject: Subject | None = None) -> MethodRun:
    """Explain the study's samples by one method; an intact earlier output is reused and its run linked."""
    made = explain_made(context, method, data, model)
    digest = digest_of(made)
    with context.store.lock(f"explain-{digest}"):
        output = None if context.force else context.store.find("explain", digest)
        known = context.tracker.find(stage="method", method=method.label, explain=digest)
        if output is not None and known is not None:
            context.tracker.make_latest(known.info.run_id, method.label, context.study.seed)
            return MethodRun(method, known.info.run_id, output, reused=True)
        if context.force:
            context.store.forget("explain", digest)
        with context.tracker.run(method_run_name(context, method), method_tags(method, data, model)) as run_id:
            log_conf(context, run_id, "explain", made)
            if output is None:
                subject = subject or load_subject(context, data, model)
                output = context.store.make("explain", made, explain_work(context, subject, method), True)
            log_explanation(context, run_id, data, output)
        context.tracker.make_latest(run_id, method.label, context.study.seed)
    return MethodRun(method, run_id, output)


def explain_made(context: Context, method: Method, data: Output, model: Output) -> dict[str, Any]:
    """Return what explanations are made from; a method's label and the number of workers change nothing."""
    explainer = get_explainer(method.method, **method.options)
    return {
        "conf": {
            "method": method.method,
            "options": explainer_options(explainer),
            **context.study.explain.model_dump(mode="json", exclude={"workers"}),
        },
        "inputs": {"preprocess": data.digest, "train": model.digest},
        "seed": context.study.seed,
        "code": code_digest("tasks.explain", type(explainer).__module__),
        "device": context.device,
        "software": {name: version(name) for name in SOFTWARE},
    }


def explainer_options(explainer: Explainer) -> dict[str, Any]:
    """Return an explainer's options that were given, as a study's YAML would."""
    return explainer.model_dump(mode="json", exclude_unset=True)


def explain_work(context: Context, subject: Subject, method: Method):
    """Return the function that writes one method's explanations."""

    def work(folder: Path) -> None:
        def progress(done: int, of: int) -> None:
            context.progress(f"explain {method.label}", done, of)

        explain_method(subject, method, context.study.seed, folder, context.study.explain.workers, progress)

    return work


def load_subject(context: Context, data: Output, model: Output) -> Subject:
    """Return the model and the samples to explain."""
    return Subject.load(data.folder, model.folder, context.study.explain, context.device)


def method_run_name(context: Context, method: Method) -> str:
    """Return a method run's name, for people."""
    study = context.study
    return f"{study.data.dataset}-{study.data.task} / {method.label} / seed {study.seed}"


def method_tags(method: Method, data: Output, model: Output) -> dict[str, str]:
    """Return the tags that tie a method's run to its study and its inputs."""
    return {"stage": "method", "method": method.label, "preprocess": data.digest, "train": model.digest}


def log_explanation(context: Context, run_id: str, data: Output, output: Output) -> None:
    """Log a method's attributions, audit and share of time inside the model."""
    study = context.study
    numbers = audit_means(output.folder, study.explain.shard_size, study.explain.samples)
    clock = json.loads((output.folder / CLOCK).read_text())
    if clock["seconds"] > 0:
        numbers["explain.seconds"] = clock["seconds"]
        numbers["explain.model_share"] = clock["model_seconds"] / clock["seconds"]
    context.tracker.metrics(run_id, numbers)
    context.tracker.table(run_id, attribution_table(study, data.folder, output.folder), "attributions.csv")
    context.tracker.dataset(run_id, study.data.dataset, data.digest, "explain")
    context.tracker.set_tags(run_id, {"explain": output.digest})


def evaluate(
    context: Context, run: MethodRun, data: Output, model: Output, subject: Subject | None = None
) -> MethodRun:
    """Score one method; its scores go to its explanations' run, or to a new one if that has other scores."""
    made = evaluate_made(context, run)
    digest = digest_of(made)
    label = run.method.label
    with context.store.lock(f"evaluate-{digest}"):
        output = None if context.force else context.store.find("evaluate", digest)
        known = context.tracker.find(stage="method", method=label, explain=run.explain.digest, evaluate=digest)
        if output is not None and known is not None:
            context.tracker.make_latest(known.info.run_id, label, context.study.seed)
            return replace(run, run_id=known.info.run_id, evaluate=output)
        if context.force:
            context.store.forget("evaluate", digest)
        other = context.tracker.get(run.run_id).data.tags.get("evaluate", digest) != digest
        name, tags = method_run_name(context, run.method), method_tags(run.method, data, model)
        with context.tracker.run(name, tags, "" if other else run.run_id) as run_id:
            if other:
                log_conf(context, run_id, "explain", run.explain.manifest["made"])
                log_explanation(context, run_id, data, run.explain)
            context.tracker.params(run_id, {name: value for name, value in flat({"evaluate": made["conf"]})})
            if output is None:
                subject = subject or load_subject(context, data, model)
                output = context.store.make("evaluate", made, evaluate_work(context, subject, run), True)
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
        "software": {name: version(name) for name in SOFTWARE},
    }


def evaluate_work(context: Context, subject: Subject, run: MethodRun):
    """Return the function that writes one method's scores."""
    study = context.study

    def work(folder: Path) -> None:
        def progress(done: int, of: int) -> None:
            context.progress(f"evaluate {run.method.label}", done, of)

        workers = study.explain.workers
        evaluate_method(subject, run.explain.folder, study.evaluate, study.seed, folder, workers, progress)

    return work


def log_scores(context: Context, run_id: str, data: Output, output: Output) -> None:
    """Log each metric's mean and standard error, its curve (step = percent) and the per-sample scores."""
    study = context.study
    stays = stays_of(context, data)
    scores = read_scores(output.folder, study.evaluate, study.explain.shard_size, stays)
    grouped = scores.groupby("metric", sort=False)["score"]
    numbers = {name: float(value) for name, value in grouped.mean().items()}
    numbers |= {f"{name}.stderr": float(value) for name, value in grouped.sem().items()}
    numbers |= {f"{name}.undefined_samples": float(column.isna().sum()) for name, column in grouped}
    context.tracker.metrics(run_id, {name: number for name, number in numbers.items()})
    curves = read_curves(output.folder, study.evaluate, study.explain.shard_size, len(stays))
    rows = [(f"curve.{row.metric}", float(row.mean), int(row.percent)) for row in curve_rows(curves)]
    context.tracker.metric_rows(run_id, rows)
    context.tracker.table(run_id, scores, "scores.csv")
    context.tracker.table(run_id, curves, "curves.csv")
    context.tracker.set_tags(run_id, {"evaluate": output.digest})


@dataclass(frozen=True)
class CurveRow:
    """One point of one metric's mean curve."""

    metric: str
    percent: float
    mean: float


def curve_rows(curves: pd.DataFrame) -> list[CurveRow]:
    """Return the points of all curves."""
    columns = zip(curves["metric"], curves["percent"], curves["mean"], strict=True)
    return [CurveRow(str(metric), float(percent), float(mean)) for metric, percent, mean in columns]


def stays_of(context: Context, data: Output) -> list[str]:
    """Return the keyed hashes of the explained stays."""
    return list(test_rows(data.folder, context.study.explain.samples)["stay"])


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
        numbers[f"{name}.stderr"] = float(frame[name].sem())
    with context.tracker.run("", {}, run.run_id):
        context.tracker.metrics(run.run_id, numbers)
        context.tracker.table(run.run_id, frame, "timing.csv")
        context.tracker.set_tags(run.run_id, {"timed_samples": str(len(frame)), "timed_on": context.device})
    return replace(run, timing=output)


def timing_made(context: Context, run: MethodRun) -> dict[str, Any]:
    """Return what names a timing; it is measured again each time all the same."""
    return {
        "conf": context.study.timing.model_dump(mode="json"),
        "inputs": {"explain": run.explain.digest},
        "seed": context.study.seed,
        "device": context.device,
    }


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
    tracker = context.tracker
    tracker.artifact(run_id, output.folder, "report")
    tracker.table(run_id, summary(results).reset_index(), "summary.csv")
    tracker.json(run_id, {run.method.label: run.run_id for run in runs}, "method_runs.json")
    tracker.set_tags(run_id, {"preprocess": data.digest, "train": model.digest, "report": output.digest})
    return results, files


def evaluated(run: MethodRun) -> Output:
    """Return a method's scores.

    Raises:
        ValueError: it has none yet.
    """
    if run.evaluate is None:
        raise ValueError(f"{run.method.label} has no scores yet; run the evaluate stage first")
    return run.evaluate


def facts(context: Context, runs: list[MethodRun], data: Output, model: Output) -> dict[str, str]:
    """Return how a study was made, by name, for people."""
    tags = context.tracker.get(runs[0].run_id).data.tags
    return {
        "study run": context.study_run,
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


def flat(nested: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of nested mappings with dotted names that MLflow takes."""
    leaves: list[tuple[str, Any]] = []
    for key, value in nested.items():
        name = f"{prefix}{mlflow_name(str(key))}"
        leaves.extend(flat(value, f"{name}.") if isinstance(value, Mapping) else [(name, value)])
    return leaves


def mlflow_name(name: str) -> str:
    """Return ``name`` with the characters that MLflow refuses replaced."""
    return "".join(character if character.isalnum() or character in "_-. /" else "_" for character in name)


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a number (a truth value is not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
