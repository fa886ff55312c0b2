"""Finding what a stage goes on from: an MLflow run that a person picked, or this study's own output."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

from conf.schema import Method
from flows import steps
from flows.context import Context
from flows.steps import MethodRun
from tasks.store import Output, digest_of

log = logging.getLogger(__name__)

RUN_ID = re.compile(r"[0-9a-f]{32}")


class UpstreamError(ValueError):
    """There is nothing to go on from; the message says which stage to run first, or what is wrong with the run."""


def data_of(context: Context, run_id: str, model: Output | None = None) -> Output:
    """Return the preprocess output of a run, of a model, or of the study's own conf."""
    if model is not None:
        return needed(context, "preprocess", model.upstream("preprocess"))
    if run_id:
        run_id = run_called(context, run_id, "preprocess")
        return needed(context, "preprocess", stage_tag(context, run_id, "preprocess", "output"))
    return needed(context, "preprocess", digest_of(steps.preprocess_made(context)))


def model_of(context: Context, run_id: str, explanations: Output | None = None) -> Output:
    """Return the train output of a run, of explanations, or of the study's own conf."""
    if explanations is not None:
        return needed(context, "train", explanations.upstream("train"))
    if run_id:
        run_id = run_called(context, run_id, "train")
        return needed(context, "train", stage_tag(context, run_id, "train", "output"))
    return needed(context, "train", digest_of(steps.train_made(context, data_of(context, ""))))


def methods_of(context: Context, run_id: str, methods: list[Method], scored: bool = False) -> list[MethodRun]:
    """Return the method runs to go on from: one picked by name or id, or those of the study's own conf.

    Args:
        context: the execution.
        run_id: id or name of a method's run; empty takes every method's own.
        methods: which methods of the study.
        scored: whether scores must be there too (and timing is taken where it is).
    """
    if run_id:
        run_id = run_called(context, run_id, "method")
        digest = stage_tag(context, run_id, "method", "explain")
        label = context.tracker.get(run_id).data.tags["method"]
        output = needed(context, "explain", digest)
        return [MethodRun(method_of(label, output), run_id, output)]
    model = model_of(context, "")
    data = data_of(context, "", model)
    return [own_run(context, method, data, model, scored) for method in methods]


def own_run(context: Context, method: Method, data: Output, model: Output, scored: bool) -> MethodRun:
    """Return the method run that this study's own conf leads to."""
    output = needed(context, "explain", digest_of(steps.explain_made(context, method, data, model)))
    run = MethodRun(method, "", output)
    tags = {"stage": "method", "method": method.label, "explain": output.digest}
    if scored:
        run = replace(run, evaluate=needed(context, "evaluate", digest_of(steps.evaluate_made(context, run))))
        tags["evaluate"] = steps.evaluated(run).digest
        run = replace(run, timing=context.store.find("timing", digest_of(steps.timing_made(context, run))))
    known = context.tracker.find(**tags)
    if known is None:
        raise UpstreamError(f"MLflow has no run of {method.label} with these outputs; run `ordeval run` on this study")
    return replace(run, run_id=known.info.run_id)


def scored_methods(context: Context, methods: list[Method]) -> list[MethodRun]:
    """Return the runs of those methods that have scores, in their order; the others are named in the log."""
    model = model_of(context, "")
    data = data_of(context, "", model)
    found = []
    for method in methods:
        try:
            found.append(own_run(context, method, data, model, scored=True))
        except UpstreamError as error:
            log.warning("the report leaves %s out: %s", method.label, error)
    return found


def run_called(context: Context, name: str, stage: str) -> str:
    """Return the id of a run given by id or by name; of several with one name the newest finished ``stage`` run.

    Raises:
        UpstreamError: no run of this study is called so, or none of the wanted stage.
    """
    if RUN_ID.fullmatch(name):
        return name
    runs = context.tracker.called(name)
    if not runs:
        raise UpstreamError(
            f"no run of the study {context.study.name!r} is called {name!r}; copy a name, or an id, from the MLflow UI"
        )
    fitting = [run for run in runs if run.data.tags.get("stage") == stage and run.info.status == "FINISHED"]
    return str((fitting or runs)[0].info.run_id)


def method_of(label: str, explanations: Output) -> Method:
    """Return the method, with its options, that made ``explanations``."""
    conf = dict(explanations.manifest["made"]["conf"])
    return Method(method=conf["method"], label=label, options=dict(conf["options"]))


def stage_tag(context: Context, run_id: str, stage: str, tag: str) -> str:
    """Return a tag of a run, after checking that the run is of the wanted stage."""
    tags = context.tracker.get(run_id).data.tags
    if tags.get("stage") != stage:
        raise UpstreamError(f"run {run_id} is of stage {tags.get('stage', 'none')!r}; pick a {stage} run")
    if tag not in tags:
        raise UpstreamError(f"run {run_id} did not finish its {stage} stage; pick a finished one")
    return tags[tag]


def needed(context: Context, stage: str, digest: str) -> Output:
    """Return an output that must be there."""
    output = context.store.find(stage, digest)
    if output is None:
        raise UpstreamError(
            f"no intact {stage} output {digest} in {context.store.root}; "
            f"run `ordeval {stage}` on this study first, or give an earlier run"
        )
    return output
