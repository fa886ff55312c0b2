"""A real study as a Prefect flow, its rows in MLflow, rerun, reuse, stages alone, and refusals."""

from __future__ import annotations

import itertools
import math
import re
import time
from pathlib import Path

import pandas as pd
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.sorting import LogSort

from conf.load import check_study
from flows import stages, steps
from flows.context import open_context
from flows.sample import sample_page
from flows.study import rerun
from flows.study import study as study_flow
from flows.upstream import UpstreamError
from tests.studies import TINY, tiny_study

pytestmark = pytest.mark.usefixtures("prefect_server")
METRICS = TINY["evaluate"]["metrics"]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def first(storage):
    """Run the tiny study once; return its summary run's id."""
    return study_flow(tiny_study(storage))


def tracker(storage, **changes):
    return open_context(tiny_study(storage, **changes)).tracker


def rows(storage, wanted="tags.stage = 'method' and tags.latest = 'true'"):
    there = tracker(storage)
    return there.client.search_runs([there.experiment_id], wanted)


def test_one_flat_row_a_method_with_every_metric_and_its_time(storage, first):
    found = rows(storage)
    assert {run.data.tags["method"] for run in found} == {"ordshap", "kernelshap", "integrated_gradients", "random"}
    for run in found:
        assert run.info.status == "FINISHED"
        assert "mlflow.parentRunId" not in run.data.tags
        for name in [*METRICS, "seconds", "evaluations", "peak_memory_mb"]:
            assert math.isfinite(run.data.metrics[name]), name
        assert run.data.metrics["inc_auc"] <= 1
        for tag in ("study_run", "git_commit", "version.torch", "seed", "device", "explain", "evaluate", "train"):
            assert run.data.tags[tag], tag
        assert run.inputs.dataset_inputs[0].dataset.name == "synthetic"
    random = next(run for run in found if run.data.tags["method"] == "random")
    assert random.data.metrics["evaluations"] == 0
    assert len({run.data.tags["mlflow.runColor"] for run in found}) == 4


def test_curves_are_stepped_by_percent_and_their_area_is_the_score(storage, first):
    there = tracker(storage)
    run = rows(storage)[0]
    points = there.client.get_metric_history(run.info.run_id, "curve/ins_auc") or there.client.get_metric_history(
        run.info.run_id, "curve/inc_auc"
    )
    assert [point.step for point in points] == [0, 25, 50, 75, 100]
    heights = [point.value for point in points]
    area = sum((a + b) / 2 * 0.25 for a, b in itertools.pairwise(heights))
    assert area == pytest.approx(run.data.metrics["inc_auc"], abs=1e-9)


def test_summary_run_ties_everything(storage, first):
    there = tracker(storage)
    summary = there.get(first)
    assert summary.data.tags["stage"] == "summary" and summary.info.status == "FINISHED"
    for run in rows(storage):
        assert summary.data.tags[f"run.{run.data.tags['method']}"] == run.info.run_id
    names = {item.path for item in there.client.list_artifacts(first, "report")}
    assert {"report/report.html", "report/table.md", "report/table.csv", "report/table.tex"} <= names


def test_attribution_table_has_keyed_hashes_only(storage, first, tmp_path):
    there = tracker(storage)
    run = next(run for run in rows(storage) if run.data.tags["method"] == "ordshap")
    path = there.client.download_artifacts(run.info.run_id, "attributions.csv", str(tmp_path))
    table = pd.read_csv(path)
    parts = ["value", "value_stderr", "position", "position_stderr", "position_ls"]
    assert list(table.columns) == ["sample", "slot", "hour", "code", *parts]
    assert table["sample"].nunique() == TINY["explain"]["samples"]
    assert table["sample"].astype(str).str.fullmatch("[0-9a-f]{16}").all()


def test_sets_are_logged_beside_the_attributions_by_hash_and_name(storage, first, tmp_path):
    method = {"method": "joint_shapley", "top_pairs": 3, "budget": 120}
    (run_id,) = stages.explain(tiny_study(storage, explainers=[method]))
    client = tracker(storage).client
    local = pd.read_csv(client.download_artifacts(run_id, "sets.csv", str(tmp_path)), dtype=str)
    assert list(local.columns) == ["sample", "set", "slots", "value", "stderr"]
    assert local["sample"].str.fullmatch("[0-9a-f]{16}").all()
    attributions = pd.read_csv(client.download_artifacts(run_id, "attributions.csv", str(tmp_path)), dtype=str)
    names = attributions.set_index(["sample", "slot"])["code"]
    for row in local.to_dict("records"):
        assert row["set"] == " & ".join(names[row["sample"], slot] for slot in row["slots"].split())
    pairs = local[local["slots"].str.contains(" ")]
    assert (pairs.groupby("sample").size() == 3).all() and pairs["sample"].nunique() == TINY["explain"]["samples"]
    whole = pd.read_csv(client.download_artifacts(run_id, "sets_global.csv", str(tmp_path)))
    assert list(whole.columns) == ["set", "mean_absolute", "mean", "samples", "present"]
    assert (whole["samples"] <= whole["present"]).all() and (
        whole["mean"].abs() <= whole["mean_absolute"] + 1e-12
    ).all()


def test_registered_model_is_there(storage, first):
    there = tracker(storage)
    train = there.find(stage="train")
    assert train is not None and train.data.tags["registered_model"] == "models:/tiny/1"
    assert 0 <= train.data.metrics["auroc_low"] <= train.data.metrics["auroc"] <= train.data.metrics["auroc_high"] <= 1


def test_a_second_run_reuses_everything_but_timing(storage, first):
    before = {run.info.run_id: len(history(storage, run, "inc_auc")) for run in rows(storage)}
    second = study_flow(tiny_study(storage))
    assert second != first
    after = {run.info.run_id: len(history(storage, run, "inc_auc")) for run in rows(storage)}
    assert after == before
    assert all(len(history(storage, run, "seconds")) == 2 for run in rows(storage))
    assert tracker(storage).get(second).data.tags["run.ordshap"] in before


def history(storage, run, name):
    return tracker(storage).client.get_metric_history(run.info.run_id, name)


def test_other_metrics_make_new_rows_and_the_old_ones_stop_being_latest(storage, first):
    old = {run.info.run_id for run in rows(storage)}
    changed = tiny_study(storage, evaluate={**TINY["evaluate"], "grid_step": 50})
    runs = stages.evaluate(changed, methods=("random",))
    assert set(runs).isdisjoint(old)
    there = tracker(storage)
    new = there.get(runs[0])
    assert new.data.params["evaluate.grid_step"] == "50"
    assert [point.step for point in there.client.get_metric_history(runs[0], "curve/inc_auc")] == [0, 50, 100]
    assert len(rows(storage)) == 4
    back = stages.evaluate(tiny_study(storage), methods=("random",))
    assert back[0] in old and len(rows(storage)) == 4


def test_one_method_forced_makes_the_same_numbers_in_a_new_run(storage, first):
    before = next(run for run in rows(storage) if run.data.tags["method"] == "kernelshap")
    forced = stages.explain(tiny_study(storage), methods=("kernelshap",), force=True)
    assert forced != [before.info.run_id]
    there = tracker(storage)
    assert there.get(before.info.run_id).data.tags["latest"] == "true", "a row without scores is not the latest yet"
    assert stages.evaluate(tiny_study(storage), methods=("kernelshap",)) == forced
    assert [there.get(run).data.tags["latest"] for run in (before.info.run_id, forced[0])] == ["false", "true"]
    assert there.get(forced[0]).data.metrics["inc_auc"] == before.data.metrics["inc_auc"]
    old, new = (table_of(there, run_id) for run_id in (before.info.run_id, forced[0]))
    pd.testing.assert_frame_equal(old, new)


def table_of(there, run_id):
    return pd.read_csv(there.client.download_artifacts(run_id, "attributions.csv"))


def test_a_stage_goes_on_from_a_run_picked_by_id(storage, first):
    there = tracker(storage)
    train = there.find(stage="train")
    assert train is not None
    other = tiny_study(storage, explainers=[{"method": "loco"}])
    runs = stages.explain(other, run=train.info.run_id)
    assert there.get(runs[0]).data.tags["train"] == train.data.tags["output"]
    scored = stages.evaluate(other, run=runs[0])
    assert scored == runs and "inc_auc" in there.get(runs[0]).data.metrics


def test_a_run_is_picked_by_name_and_one_of_the_wrong_stage_refused(storage, first):
    other = tiny_study(storage, explainers=[{"method": "loco"}])
    runs = stages.explain(other, run="tiny / train / seed 0")
    there = tracker(storage)
    assert there.get(runs[0]).info.run_name == "tiny / loco / seed 0"
    assert stages.evaluate(other, run="tiny / loco / seed 0") == runs
    with pytest.raises(UpstreamError, match="is of stage 'preprocess'; pick a train run"):
        stages.explain(other, run="tiny / preprocess / seed 0")
    with pytest.raises(UpstreamError, match="no run of the study 'tiny' is called 'tiny / trane'"):
        stages.explain(other, run="tiny / trane")


def test_one_method_is_rerun_and_reported_with_the_others(storage, first):
    before = {run.data.tags["method"]: run.info.run_id for run in rows(storage) if run.data.tags["method"] != "loco"}
    summary = tracker(storage).get(rerun(tiny_study(storage), method="random", force=True))
    after = {label: summary.data.tags[f"run.{label}"] for label in before}
    assert {label for label in before if after[label] != before[label]} == {"random"}
    assert {name for name in summary.data.metrics if name.startswith("mean_rank/")} == {
        f"mean_rank/{m}" for m in before
    }


def said(prefect_run: str, last: str) -> list[str]:
    """Return the lines that Prefect keeps with a flow run, once there is one that begins with ``last``."""
    wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[prefect_run]))
    deadline = time.monotonic() + 60
    with get_client(sync_client=True) as client:
        while True:
            lines = [line.message for line in client.read_logs(wanted, sort=LogSort.TIMESTAMP_ASC)]
            if any(line.startswith(last) for line in lines):
                return lines
            assert time.monotonic() < deadline, lines
            time.sleep(0.5)


def test_what_the_stages_say_is_kept_with_the_prefect_run(storage, first):
    lines = said(tracker(storage).get(first).data.tags["prefect_run"], "report: /")
    methods = "ordshap, kernelshap, integrated_gradients, random"
    assert lines[0] == f"study tiny: planted on synthetic, seed 0; {methods}"
    assert any(line.startswith("train, epochs: 2 of 2, ") for line in lines)
    assert any(line.startswith("explain ordshap, samples: 6 of 6, ") for line in lines)
    for work in ("preprocess", "train", *(f"{stage} random" for stage in ("explain", "evaluate", "time"))):
        ends = re.compile(rf"{work}: done after [\d.]+ s \(MLflow run [0-9a-f]{{32}}\)")
        assert any(ends.fullmatch(line) for line in lines[lines.index(f"{work}: begins") :]), work


def test_a_fault_and_a_reused_output_are_kept_with_the_prefect_run(storage, first, monkeypatch):
    def fault(*_):
        raise ValueError("something is 3; make it 4")

    monkeypatch.setattr(steps, "evaluate", fault)
    state = study_flow(tiny_study(storage), return_state=True)
    lines = said(str(state.state_details.flow_run_id), "evaluate ordshap: failed")
    assert any(
        re.fullmatch(r"evaluate ordshap: failed after [\d.]+ s: something is 3; make it 4", line) for line in lines
    )
    assert any(line.startswith("explain ordshap: an intact earlier output is taken (MLflow run ") for line in lines)


def test_one_sample_has_a_page_of_its_own(storage, first, tmp_path):
    page = sample_page(tiny_study(storage), 2, tmp_path)
    assert page.parent == tmp_path and "kernelshap" in page.read_text()
    with pytest.raises(ValueError, match="sample is 7, and the study explains 6"):
        sample_page(tiny_study(storage), 7, tmp_path)


def test_experiment_and_runs_say_what_they_are(storage, first):
    there = tracker(storage)
    assert "planted on synthetic" in there.client.get_experiment(there.experiment_id).tags["mlflow.note.content"]
    for run in there.client.search_runs([there.experiment_id], "attributes.status = 'FINISHED'"):
        assert run.data.tags["mlflow.note.content"], run.info.run_name
    page = there.client.download_artifacts(first, "comparison.html")
    assert "<small>rank 1" in Path(page).read_text() or "<small>rank 2.5" in Path(page).read_text()


def test_a_run_of_the_wrong_stage_is_refused(storage, first):
    data = tracker(storage).find(stage="preprocess")
    assert data is not None
    with pytest.raises(UpstreamError, match="is of stage 'preprocess'; pick a train run"):
        stages.explain(tiny_study(storage), run=data.info.run_id)
    with pytest.raises(UpstreamError, match="no run of the study 'tiny' is called 'nonsense'"):
        stages.train(tiny_study(storage), run="nonsense")


def test_a_stage_without_its_input_says_what_to_run_first(tmp_path):
    with pytest.raises(UpstreamError, match="no intact preprocess output .* run `ordeval preprocess`"):
        stages.train(tiny_study(tmp_path))


def test_an_unknown_label_is_refused(storage, first):
    with pytest.raises(ValueError, match="no method 'shap'; there are: ordshap, kernelshap"):
        stages.explain(tiny_study(storage), methods=("shap",))


def test_a_method_that_cannot_serve_is_refused_before_training(tmp_path):
    study = tiny_study(tmp_path, explainers=[{"method": "ordshap", "budget": 20}])
    with pytest.raises(ValueError, match="budget is 20 evaluations, and a sample of 1[0-2] players needs at least"):
        study_flow(study)
    assert not (tmp_path / "train").exists()
    long = tiny_study(tmp_path, explainers=[{"method": "ordshap", "estimator": "exact"}])
    with pytest.raises(ValueError, match="max_players"):
        study_flow(long)


def test_more_samples_than_there_are_is_refused(tmp_path):
    with pytest.raises(ValueError, match="explain.samples is 500 and the test part has"):
        study_flow(tiny_study(tmp_path, explain={"samples": 500}))


def test_cuda_where_there_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="device is 'cuda' and this machine has no CUDA device"):
        open_context(check_study({**TINY, "device": "cuda", "storage": str(tmp_path)}, "tiny"))
