"""Each stage as a Prefect flow of its own: run alone on an earlier run's output, from the command line or the UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from prefect import flow, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_progress_artifact
from prefect.artifacts import update_progress_artifact as update_progress
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from pydantic import Field

from conf.schema import Method, Study
from flows import steps
from flows.context import Context, open_context
from flows.progress import reporter
from flows.steps import MethodRun, StageRun
from flows.upstream import data_of, methods_of, model_of
from tasks.evaluate import check_metrics
from tasks.explain import check_methods
from tasks.store import Output
from tasks.tracking import experiment_link

Upstream = Annotated[
    str, Field(title="Earlier run", description="Id of the MLflow run to go on from; empty: this study's own.")
]
Force = Annotated[bool, Field(title="Force", description="Make the output again even where an intact one is there.")]
Labels = Annotated[
    tuple[str, ...], Field(title="Methods", description="Labels of the study's methods; none: all of them.")
]


def begin(study: Study, force: bool = False) -> Context:
    """Open the context of a flow that runs now."""
    return open_context(study, force, ArtifactProgress(), str(flow_run.get_id() or ""))


class ArtifactProgress:
    """Shows progress on the terminal and as Prefect progress artifacts, one for each piece of work."""

    def __init__(self) -> None:
        self.artifacts: dict[str, Any] = {}

    def __call__(self, what: str, done: int, of: int) -> None:
        """Report that ``done`` of ``of`` are finished."""
        reporter()(what, done, of)
        percent = 100.0 * done / max(of, 1)
        if what not in self.artifacts:
            key = "".join(character if character.isalnum() else "-" for character in what.lower())
            self.artifacts[what] = create_progress_artifact(percent, key=key, description=what)
        else:
            update_progress(self.artifacts[what], progress=percent)


@flow(name="preprocess", flow_run_name="{study.name} / preprocess")
def preprocess(study: Study, force: Force = False) -> str:
    """Turn the raw tables into tokens, a vocabulary and an audit. Returns the MLflow run's id."""
    return do_preprocess(begin(study, force)).run_id


@flow(name="train", flow_run_name="{study.name} / train")
def train(study: Study, run: Upstream = "", force: Force = False) -> str:
    """Train and register the model on a preprocess run's output. Returns the MLflow run's id."""
    context = begin(study, force)
    return do_train(context, data_of(context, run)).run_id


@flow(name="explain", flow_run_name="{study.name} / explain")
def explain(study: Study, run: Upstream = "", methods: Labels = (), force: Force = False) -> list[str]:
    """Explain the study's samples with each method, on a train run's model. Returns the methods' MLflow run ids."""
    context = begin(study, force)
    model = model_of(context, run)
    return [done.run_id for done in do_explain(context, chosen(study, methods), data_of(context, "", model), model)]


@flow(name="evaluate", flow_run_name="{study.name} / evaluate")
def evaluate(study: Study, run: Upstream = "", methods: Labels = (), force: Force = False) -> list[str]:
    """Score the methods' explanations with every metric. Returns the methods' MLflow run ids."""
    context = begin(study, force)
    runs = methods_of(context, run, chosen(study, methods))
    return [done.run_id for done in do_evaluate(context, runs)]


@flow(name="timing", flow_run_name="{study.name} / timing")
def timing(study: Study, run: Upstream = "", methods: Labels = ()) -> list[str]:
    """Measure seconds, evaluations and memory of each method, alone on the device; never reused."""
    context = begin(study)
    runs = methods_of(context, run, chosen(study, methods))
    return [done.run_id for done in do_timing(context, runs)]


@flow(name="report", flow_run_name="{study.name} / report")
def report(study: Study, methods: Labels = ()) -> str:
    """Write the comparison table, curves and figures of what has been evaluated. Returns the summary run's id."""
    context = begin(study)
    runs = methods_of(context, "", chosen(study, methods), scored=True)
    with context.tracker.run(f"{study.name} / summary", {"stage": "summary"}) as run_id:
        do_report(context, runs, run_id)
    return run_id


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
    create_markdown_artifact(files["table.md"].read_text(), key="comparison", description="Methods x metrics")
    create_link_artifact(files["report.html"].as_uri(), key="report", description="The report on this machine")
    reporter().table(results, files["report.html"], context.tracker.uri, experiment_link(context.tracker))
    return files["report.html"]


def inputs_of(context: Context, runs: list[MethodRun]) -> tuple[Output, Output]:
    """Return the preprocess and train outputs behind the methods' explanations."""
    model = model_of(context, "", runs[0].explain)
    return data_of(context, "", model), model


def as_task(name: str, step):
    """Return ``step`` as an uncached, unpersisted Prefect task: reuse is the store's business, by content."""
    return task(step, name=name, cache_policy=NO_CACHE, persist_result=False)
