"""What the steps share: references to outputs and runs, reuse of stage outputs, names that MLflow takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conf.schema import Method
from flows.context import Context
from tasks.store import Output, digest_of
from tasks.subject import Subject
from tasks.tracking_notes import NOTE, stage_note

SOFTWARE = ("torch", "transformers", "captum")

Work = Callable[[Path], None]
Record = Callable[[Context, str, Output], None]


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


def evaluated(run: MethodRun) -> Output:
    """Return a method's scores.

    Raises:
        ValueError: it has none yet.
    """
    if run.evaluate is None:
        raise ValueError(f"{run.method.label} has no scores yet; run the evaluate stage first")
    return run.evaluate


def software() -> dict[str, str]:
    """Return the versions that a number can depend on."""
    return {name: version(name) for name in SOFTWARE}


def stage_run(context: Context, stage: str, made: Mapping[str, Any], work: Work, record: Record) -> StageRun:
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
        name = f"{study.name} / {stage} / seed {study.seed}"
        with context.tracker.run(name, {"stage": stage, NOTE: stage_note(study, stage)}) as run_id:
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


def load_subject(context: Context, data: Output, model: Output) -> Subject:
    """Return the model and the samples to explain."""
    return Subject.load(data.folder, model.folder, context.study.explain, context.device)


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
