"""The study: preprocess, train, explain, evaluate, time, report."""

from __future__ import annotations

from prefect import flow

from conf.schema import Study
from flows import stages
from flows.context import Context
from flows.stages import Force, begin


@flow(name="study", flow_run_name="{study.name}")
def study(study: Study, force: Force = False) -> str:
    """Run a whole study; what is already there and intact is reused. Returns the summary run's id."""
    context = begin(study, force)
    with context.tracker.run(f"{study.name} / summary", {"stage": "summary"}) as run_id:
        run_stages(context, run_id)
    return run_id


def run_stages(context: Context, run_id: str) -> None:
    """Run the stages in order and tie their runs to the summary run."""
    data = stages.do_preprocess(context)
    model = stages.do_train(context, data.output)
    explained = stages.do_explain(context, list(context.study.explainers), data.output, model.output)
    scored = stages.do_evaluate(context, explained)
    timed = stages.do_timing(context, scored)
    stages.do_report(context, timed, run_id)
    tags = {"run.preprocess": data.run_id, "run.train": model.run_id}
    context.tracker.set_tags(run_id, tags | {f"run.{run.method.label}": run.run_id for run in timed})
