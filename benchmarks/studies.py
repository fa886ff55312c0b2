"""Trained models for benchmarks: the stages of a study, run once and kept in `build/benchmarks`."""

from __future__ import annotations

from pathlib import Path

from conf.load import load_study
from flows import steps
from flows.context import open_context
from tasks.subject import Subject

ROOT = Path(__file__).parent.parent
STORAGE = ROOT / "build" / "benchmarks"


def trained(conf: str, overrides: list[str]) -> Subject:
    """Return model and samples of a study in ``conf/``, preprocessed and trained unless that was done before."""
    study = load_study(ROOT / "conf" / f"{conf}.yaml", [f"storage={STORAGE}", "device=cpu", *overrides])
    context = open_context(study)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    return Subject.load(data.folder, model.folder, study.explain, context.device)
