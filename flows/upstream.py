"""Finding what a stage goes on from: an MLflow run that a person picked, or this study's own output."""

from __future__ import annotations

from dataclasses import replace

from conf.schema import Method
from flows import steps
from flows.context import Context
from flows.steps import MethodRun
from tasks.store import Output, digest_of


class UpstreamError(ValueError):
    """There is nothing to go on from; the message says which stage to run first, or what is wrong with the run."""


def data_of(context: Context, run_id: str, model: Output | None = None) -> Output:
    """Return the preprocess output of a run, of a model, or of the study's own conf."""
    if model is not None:
        return needed(context, "preprocess", model.upstream("preprocess"))
    if run_id:
        return needed(context, "preprocess", stage_tag(context, run_id, "preprocess", "output"))
    return needed(context, "preprocess", digest_of(steps.preprocess_made(context)))


def model_of(context: Context, run_id: str, explanations: Output | None = None) -> Output:
    """Return the train output of a run, of explanations, or of the study's own conf."""
    if explanations is not None:
        return needed(context, "train", explanations.upstream("train"))
    if run_id:
        return needed(context, "train", stage_tag(context, run_id, "train", "output"))
    return needed(context, "train", digest_of(steps.train_made(context, data_of(context, ""))))


def methods_of(context: Context, run_id: str, methods: list[Method], scored: bool = False) -> list[MethodRun]:
    """Return the method runs to go on from: one picked by id, or those of the study's own conf.

    Args:
        context: the execution.
        run_id: a method's run; empty takes every method's own.
        methods: which methods of the study.
        scored: whether scores must be there too (and timing is taken where it is).
    """
    if run_id:
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
