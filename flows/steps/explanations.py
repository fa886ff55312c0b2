"""The explain step: one method, one row in MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conf.schema import Method
from explainers import Explainer, get_explainer
from flows.context import Context
from flows.steps.shared import (
    MethodRun,
    Work,
    load_subject,
    log_conf,
    software,
)
from tasks.explain import CLOCK, audit_means, explain_method
from tasks.gather import attribution_table, set_tables
from tasks.store import Output, code_digest, digest_of, read_json
from tasks.subject import Subject
from tasks.tracking_notes import COLOUR, NOTE, method_colour, method_note


def explain(context: Context, method: Method, data: Output, model: Output, subject: Subject | None = None) -> MethodRun:
    """Explain the study's samples by one method; an intact earlier output is reused and its run linked."""
    made = explain_made(context, method, data, model)
    digest = digest_of(made)
    with context.store.lock(f"explain-{digest}"):
        output = None if context.force else context.store.find("explain", digest)
        known = context.tracker.find(stage="method", method=method.label, explain=digest)
        if output is not None and known is not None:
            return MethodRun(method, known.info.run_id, output, reused=True)
        with context.tracker.run(method_run_name(context, method), method_tags(context, method, data, model)) as run_id:
            log_conf(context, run_id, "explain", made)
            if output is None:
                subject = subject or load_subject(context, data, model)
                work = explain_work(context, subject, method)
                output = context.store.make("explain", made, work, keep_unfinished=not context.force)
            log_explanation(context, run_id, data, output)
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
        "inputs": {"preprocess": data.digest, "train": model.digest, "weights": weights_digest(model)},
        "seed": context.study.seed,
        "code": code_digest("tasks.explain", type(explainer).__module__),
        "device": context.device,
        "software": software(),
    }


def weights_digest(model: Output) -> str:
    """Return the sha256 of a model's weights: on CUDA the same training need not give the same bytes."""
    return str(model.manifest["files"]["model/model.safetensors"]["sha256"])


def explainer_options(explainer: Explainer) -> dict[str, Any]:
    """Return an explainer's options that are not its defaults: saying a default aloud changes nothing."""
    return explainer.model_dump(mode="json", exclude_defaults=True)


def explain_work(context: Context, subject: Subject, method: Method) -> Work:
    """Return the function that writes one method's explanations."""

    def work(folder: Path) -> None:
        def progress(done: int, of: int) -> None:
            context.progress(f"explain {method.label}, samples", done, of)

        with context.store.lock("device", shared=True):
            explain_method(subject, method, context.study.seed, folder, context.study.explain.workers, progress)

    return work


def method_run_name(context: Context, method: Method) -> str:
    """Return a method run's name, for people."""
    return f"{context.study.name} / {method.label} / seed {context.study.seed}"


def method_tags(context: Context, method: Method, data: Output, model: Output) -> dict[str, str]:
    """Return the tags that tie a method's run to its study and its inputs, its description and its colour."""
    tags = {"stage": "method", "method": method.label, "preprocess": data.digest, "train": model.digest}
    return {**tags, NOTE: method_note(context.study, method), COLOUR: method_colour(context.study, method)}


def log_explanation(context: Context, run_id: str, data: Output, output: Output) -> None:
    """Log a method's attributions, audit and share of time inside the model."""
    study = context.study
    audit = audit_means(output.folder, study.explain.shard_size, study.explain.samples)
    numbers = {name.replace("audit.", "explain/", 1): number for name, number in audit.items()}
    clock = read_json(output.folder / CLOCK)
    if clock["seconds"] > 0:
        numbers["explain/seconds"] = clock["seconds"]
        numbers["explain/model_share"] = clock["model_seconds"] / clock["seconds"]
    context.tracker.metrics(run_id, numbers)
    context.tracker.table(run_id, attribution_table(study, data.folder, output.folder), "attributions.csv")
    for name, table in set_tables(study, data.folder, output.folder).items():
        context.tracker.table(run_id, table, name)
    context.tracker.dataset(run_id, study.data.dataset, data.digest, "explain")
    context.tracker.set_tags(run_id, {"explain": output.digest})
