"""One explained sample's page, from what a study has left on disk: no flow runs, nothing is computed but positions."""

from __future__ import annotations

from pathlib import Path

from conf.schema import Study
from flows.context import open_context
from flows.stages import inputs_of
from flows.steps.pages import study_results
from flows.upstream import UpstreamError, scored_methods
from tasks.report import write_sample


def sample_page(study: Study, number: int, out: Path) -> Path:
    """Write the page of one sample with the methods that have scores, and return its path.

    Args:
        study: one that has run.
        number: which of the explained samples, from 1.
        out: a folder.

    Raises:
        ValueError: there is no such sample, or the study has no scores yet.
    """
    if not 1 <= number <= study.explain.samples:
        raise ValueError(f"sample is {number}, and the study explains {study.explain.samples}; count from 1")
    context = open_context(study)
    runs = scored_methods(context, list(study.explainers))
    if not runs:
        raise UpstreamError(f"the study {study.name!r} has no scores yet; run `ordeval run` on it first")
    data, model = inputs_of(context, runs)
    results = study_results(context, runs, data, model)
    return write_sample(results, results.samples[number - 1].sample, out)
