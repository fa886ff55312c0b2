"""Every stage on the eICU demo, and on the MIMIC-III demo as far as it is meant to go, with a small model."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from conf.load import load_study
from flows import steps
from flows.context import open_context
from tests.conftest import ROOT

pytestmark = pytest.mark.data

SMALL = ["model.heads=2", "model.layers=1", "model.width=32", "model.feed_forward=64", "model.epochs=2"]
FEW = ["explain.samples=3", "evaluate.permutations=2", "evaluate.grid_step=20", "timing.samples=1", "device=cpu"]


@pytest.mark.parametrize("task", ["los", "mortality"])
def test_eicu_through_every_stage(shared_data, tmp_path, task):
    overrides = [f"data.path={shared_data / 'eicu_demo'}", f"storage={tmp_path}", *SMALL, *FEW]
    study = load_study(ROOT / "conf" / f"eicu-demo-{task}.yaml", overrides)
    context = open_context(study)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    methods = study.explainers if task == "los" else study.explainers[:1]
    runs = [steps.explain(context, method, data, model) for method in methods]
    runs = [steps.timing(context, steps.evaluate(context, run, data, model), data, model) for run in runs]
    with context.tracker.run("summary", {"stage": "summary"}) as run_id:
        results, files = steps.report(context, runs, data, model, run_id)
    table = pd.read_csv(files["table.csv"]).set_index("method")
    assert list(table.index) == [method.label for method in methods]
    for metric in study.evaluate.metrics:
        assert table[metric].map(math.isfinite).all(), metric
    assert (table["evaluations"] <= 1200).all()
    assert results.sample_count == 3
    events = {name.partition("//")[0] for sample in results.samples for name in sample.names}
    assert events <= {"LAB", "MED", "INF"} and events


@pytest.mark.parametrize("task", ["los", "mortality"])
def test_mimic3_is_extracted_by_its_studies(shared_data, tmp_path, task):
    overrides = [f"data.path={shared_data / 'mimic3_demo'}", f"storage={tmp_path}", "device=cpu"]
    study = load_study(ROOT / "conf" / f"mimic3-{task}.yaml", overrides)
    output = steps.preprocess(open_context(study)).output
    assert {path.name for path in output.folder.iterdir()} >= {"dataset", "vocabulary.json", "audit.json", "audit.md"}
