"""The study: preprocess, train, explain, evaluate, time, report; and one method of it made again."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from prefect import flow
from pydantic import BeforeValidator, Field

from conf.schema import Method, Study
from flows import stages
from flows.context import Context
from flows.forms import from_form
from flows.stages import Changes, Force, Picked, begin, chosen, picked, run_name
from flows.steps import MethodRun
from flows.upstream import scored_methods

Filled = Annotated[
    Study,
    BeforeValidator(from_form),
    Field(title="Study", description="Everything that a study may say; a field that is left empty takes its default."),
]
Label = Annotated[
    str, Field(title="Method", description="Label of the study's method to run again; empty: the whole study.")
]


@flow(name="study", flow_run_name=run_name)
def study(study: Filled, force: Force = False) -> str:
    """Run a whole study; what is already there and intact is reused. Returns the summary run's id."""
    return run_study(begin(study, force), list(study.explainers))


@flow(name="rerun", flow_run_name=run_name)
def rerun(study: Picked, method: Label = "", force: Force = False, changes: Changes = "") -> str:
    """Run one method of a known study again, with its scores, cost and the report. Returns the summary run's id."""
    study = picked(study, changes)
    methods = chosen(study, (method,) if method else ())
    return run_study(begin(study, force), methods)


def run_study(context: Context, methods: list[Method]) -> str:
    """Run the stages in order, tie their runs to a new summary run, and return its id.

    With some of the methods only, ``force`` is for these: data and model are taken as they are, and the report is of
    all methods that have scores.
    """
    study = context.study
    whole = len(methods) == len(study.explainers)
    with context.tracker.run(*stages.summary_run(study)) as run_id:
        before = context if whole else replace(context, force=False)
        data = stages.do_preprocess(before)
        model = stages.do_train(before, data.output)
        explained = stages.do_explain(context, methods, data.output, model.output)
        timed = stages.do_timing(context, stages.do_evaluate(context, explained))
        runs = timed if whole else with_others(context, timed)
        stages.do_report(context, runs, run_id)
        tags = {"run.preprocess": data.run_id, "run.train": model.run_id}
        context.tracker.set_tags(run_id, tags | {f"run.{run.method.label}": run.run_id for run in runs})
    return run_id


def with_others(context: Context, made: list[MethodRun]) -> list[MethodRun]:
    """Return the study's methods in its order: those just made, and the others that have scores."""
    fresh = {run.method.label: run for run in made}
    others = scored_methods(context, [method for method in context.study.explainers if method.label not in fresh])
    known = fresh | {run.method.label: run for run in others}
    return [known[method.label] for method in context.study.explainers if method.label in known]
