"""Each stage as a Prefect flow of its own: run alone on an earlier run's output, from the command line or the UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from pydantic import Field

from conf.schema import Method, Study
from flows import steps
from flows.artifacts import ArtifactProgress, show_results
from flows.context import Context, open_context
from flows.forms import read_parts
from flows.known import known_study, remember, storage_here
from flows.logs import log, told
from flows.steps import MethodRun, StageRun
from flows.upstream import data_of, methods_of, model_of
from tasks.evaluate import check_metrics
from tasks.explain import check_methods
from tasks.store import Output

Picked = Annotated[
    Study | str,
    Field(title="Study", description="A study that ran here, as it last ran, or one of conf/."),
]
Upstream = Annotated[
    str,
    Field(title="Earlier run", description="Name or id of the MLflow run to go on from; empty: this study's own."),
]
Force = Annotated[bool, Field(title="Force", description="Make the output again even where an intact one is there.")]
Labels = Annotated[
    tuple[str, ...], Field(title="Methods", description="Labels of the study's methods; none: all of them.")
]
Changes = Annotated[
    str,
    Field(title="Changes", description="Options to change, such as explain.samples=10, seed=1; empty: none."),
]


def begin(study: Study, force: bool = False) -> Context:
    """Open the context of a flow that runs now, and keep the study's conf under its name."""
    context = open_context(study, force, ArtifactProgress(study.name), str(flow_run.get_id() or ""))
    remember(study, context.store)
    methods = ", ".join(method.label for method in study.explainers)
    log.info("study %s: %s on %s, seed %d; %s", study.name, study.data.task, study.data.dataset, study.seed, methods)
    return context


def picked(study: Study | str, changes: str) -> Study:
    """Return the study that a form or a caller names.

    Raises:
        ConfError: there is none of this name, or it cannot run with these changes.
        ValueError: changes to a study that is given whole.
    """
    if isinstance(study, str):
        return known_study(study, storage_here(), read_parts(changes))
    if changes:
        raise ValueError(f"changes is {changes!r} and the study is given whole; make the changes in it")
    return study


def run_name() -> str:
    """Return the flow run's name: the study, and the stage where it is one alone."""
    study, stage = flow_run.get_parameters()["study"], flow_run.get_flow_name()
    name = study if isinstance(study, str) else study["name"] if isinstance(study, dict) else study.name
    return name if stage == "study" else f"{name} / {stage}"


@flow(name="preprocess", flow_run_name=run_name)
def preprocess(study: Picked, changes: Changes = "", force: Force = False) -> str:
    """Turn the raw tables into tokens, a vocabulary and an audit. Returns the MLflow run's id."""
    return do_preprocess(begin(picked(study, changes), force)).run_id


@flow(name="train", flow_run_name=run_name)
def train(study: Picked, run: Upstream = "", changes: Changes = "", force: Force = False) -> str:
    """Train and register the model on a preprocess run's output. Returns the MLflow run's id."""
    context = begin(picked(study, changes), force)
    return do_train(context, data_of(context, run)).run_id


@flow(name="explain", flow_run_name=run_name)
def explain(
    study: Picked, run: Upstream = "", methods: Labels = (), changes: Changes = "", force: Force = False
) -> list[str]:
    """Explain the study's samples with each method, on a train run's model. Returns the methods' MLflow run ids."""
    study = picked(study, changes)
    context = begin(study, force)
    model = model_of(context, run)
    return [done.run_id for done in do_explain(context, chosen(study, methods), data_of(context, "", model), model)]


@flow(name="evaluate", flow_run_name=run_name)
def evaluate(
    study: Picked, run: Upstream = "", methods: Labels = (), changes: Changes = "", force: Force = False
) -> list[str]:
    """Score the methods' explanations with every metric. Returns the methods' MLflow run ids."""
    study = picked(study, changes)
    context = begin(study, force)
    runs = methods_of(context, run, chosen(study, methods))
    return [done.run_id for done in do_evaluate(context, runs)]


@flow(name="timing", flow_run_name=run_name)
def timing(study: Picked, run: Upstream = "", methods: Labels = (), changes: Changes = "") -> list[str]:
    """Measure seconds, evaluations and memory of each method, alone on the device; never reused."""
    study = picked(study, changes)
    context = begin(study)
    runs = methods_of(context, run, chosen(study, methods))
    return [done.run_id for done in do_timing(context, runs)]


@flow(name="report", flow_run_name=run_name)
def report(study: Picked, methods: Labels = (), changes: Changes = "") -> str:
    """Write the comparison table, curves and figures of what has been evaluated. Returns the summary run's id."""
    study = picked(study, changes)
    context = begin(study)
    runs = methods_of(context, "", chosen(study, methods), scored=True)
    with context.tracker.run(*summary_run(study)) as run_id:
        do_report(context, runs, run_id)
    return run_id


def summary_run(study: Study) -> tuple[str, dict[str, str]]:
    """Return the name and tags of a summary run."""
    return f"{study.name} / summary / seed {study.seed}", {"stage": "summary"}


def chosen(study: Study, labels: tuple[str, ...]) -> list[Method]:
    """Return the study's methods with these labels, all where none is given.

    Raises:
        ValueError: the study has no such label.
    """
    known = {method.label: method for method in study.explainers}
    for label in labels:
        if label not in known:
            raise ValueError(f"the study has no method {label!r}; there are: {', '.join(known)}")
    return [known[label] for label in labels] if labels else list(study.explainers)


def do_preprocess(context: Context) -> StageRun:
    """Run the preprocess step as a task."""
    return as_task("preprocess", steps.preprocess)(context)


def do_train(context: Context, data: Output) -> StageRun:
    """Check what comes later against the data, then run the train step as a task."""
    check_methods(data.folder, context.study.explain, list(context.study.explainers))
    check_metrics(data.folder, context.study.evaluate)
    return as_task("train", steps.train)(context, data)


def do_explain(context: Context, methods: list[Method], data: Output, model: Output) -> list[MethodRun]:
    """Explain with each method as a task of its own."""
    check_methods(data.folder, context.study.explain, methods)
    subject = steps.load_subject(context, data, model)
    return [as_task(f"explain {m.label}", steps.explain)(context, m, data, model, subject) for m in methods]


def do_evaluate(context: Context, runs: list[MethodRun]) -> list[MethodRun]:
    """Score each method as a task of its own."""
    data, model = inputs_of(context, runs)
    check_metrics(data.folder, context.study.evaluate)
    subject = steps.load_subject(context, data, model)
    return [as_task(f"evaluate {r.method.label}", steps.evaluate)(context, r, data, model, subject) for r in runs]


def do_timing(context: Context, runs: list[MethodRun]) -> list[MethodRun]:
    """Time each method as a task of its own, one after the other."""
    data, model = inputs_of(context, runs)
    subject = steps.load_subject(context, data, model)
    return [as_task(f"time {r.method.label}", steps.timing)(context, r, data, model, subject) for r in runs]


def do_report(context: Context, runs: list[MethodRun], run_id: str) -> Path:
    """Write and log the report, show it in Prefect and on the terminal, and return its page."""
    data, model = inputs_of(context, runs)
    results, files = as_task("report", steps.report)(context, runs, data, model, run_id)
    show_results(context, runs, results, files["report.html"], run_id)
    return files["report.html"]


def inputs_of(context: Context, runs: list[MethodRun]) -> tuple[Output, Output]:
    """Return the preprocess and train outputs behind the methods' explanations."""
    model = model_of(context, "", runs[0].explain)
    return data_of(context, "", model), model


def as_task(name: str, step):
    """Return ``step`` as an uncached, unpersisted Prefect task: reuse is the store's business, by content."""
    work: Any = told(name, step)  # Prefect's overloads know no NO_CACHE beside a typed function
    return task(work, name=name, cache_policy=NO_CACHE, persist_result=False)
