"""Bad input: exit status 2, one message that says what, which value and what to do, and no traceback."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from typer.testing import CliRunner

from conf.load import ConfError, check_study, load_study
from conf.schema import Study
from explainers import ClassifierGame
from flows import stages, steps
from flows.cli import app, guarded
from flows.context import open_context
from flows.study import study as whole_study
from tasks.explain import check_methods
from tasks.store import digest_of
from tasks.subject import Subject
from tests.builders_ehr import DAY, drug, eicu_stay, eicu_tables, mimic_tables, write_tables
from tests.conftest import ROOT
from tests.studies import TINY, tiny_study

Refuse = Callable[[Callable[[], Any]], str]


@pytest.fixture
def refused(capsys) -> Refuse:
    """Return the function that runs work as the command line does, and returns what a person is told."""

    def run(work: Callable[[], Any]) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            guarded(work)
        shown = capsys.readouterr()
        assert end.value.code == 2 and shown.out == ""
        assert shown.err.startswith("error: ") and shown.err.count("error: ") == 1
        assert "Traceback" not in shown.err
        return shown.err

    return run


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Path:
    """Return a storage folder that the tests of this file share: making MLflow's database takes seconds."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def trained(storage) -> tuple[Path, steps.StageRun, steps.StageRun]:
    """Return the storage with the tiny study's preprocess and train outputs."""
    context = open_context(tiny_study(storage))
    data = steps.preprocess(context)
    return storage, data, steps.train(context, data.output)


def ordeval(*arguments: str) -> str:
    """Run the command line where a fault is expected, and return what it says."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit) and result.stdout == ""
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr
    return result.stderr


def written(folder: Path, **changes: Any) -> str:
    """Write the tiny study with ``changes`` as YAML and return its path."""
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**TINY, "storage": str(folder / "store"), **changes}))
    return str(path)


# --- the study's YAML: through the command line itself ------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "preprocess", "train", "explain", "evaluate", "timing", "report"])
def test_every_command_refuses_an_unknown_key_with_the_nearest_and_starts_nothing(command, tmp_path):
    told = ordeval(command, written(tmp_path, expalin={"samples": 3}))
    assert "expalin: unknown key; did you mean 'explain'?" in told
    assert not (tmp_path / "store").exists()


def test_a_missing_yaml_names_the_ones_beside_it(tmp_path):
    written(tmp_path)
    told = ordeval("run", str(tmp_path / "stduy.yaml"))
    assert f"no study at {tmp_path / 'stduy.yaml'}: did you mean 'study.yaml'?" in told
    assert "no study at /nowhere/x.yaml: give the path of a YAML file" in ordeval("run", "/nowhere/x.yaml")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"explainers": ["ordshop"]}, r"unknown explainer 'ordshop': did you mean 'ordshap'\? there are: .*random"),
    ({"explainers": [{"method": "lime", "bugdet": 9}]}, r"lime has no option 'bugdet': did you mean 'budget'\?"),
    ({"explainers": [{"method": "loco", "budget": 9}]}, r"loco has no option 'budget': there is none to choose from"),
    (
        {"explainers": [{"method": "lime", "budget": 0}]},
        r"explainers.0.budget: .* greater than or equal to 1 \(it is 0",
    ),
    ({"explainers": [{"method": "lime", "budget": "many"}]}, r"explainers.0.budget: .*integer.* \(it is 'many'\)"),
    ({"explainers": "lime"}, r"explainers: give a list, for example \[a, b\] \(it is 'lime'\)"),
    ({"explainers": []}, r"explainers is empty; name at least one"),
    ({"evaluate": {"metrics": ["inc_uac"]}}, r"unknown metric 'inc_uac': did you mean 'inc_auc'\?"),
    ({"data": {"dataset": "eicuu"}}, r"data.dataset: Input should be .*'eicu'.* \(it is 'eicuu'\)"),
    ({"data": {"dataset": "eicu", "task": "los"}}, r"data.path is missing; give the folder of the eicu tables"),
    ({"data": {"dataset": "meds", "task": "label", "path": "/x"}}, r"data.labels_path is missing; give a parquet file"),
    ({"model": {"width": 10, "heads": 3}}, r"model.width 10 is not a multiple of model.heads 3"),
    ({"explain": 3}, r"explain: give a mapping of its keys \(it is 3\)"),
    ({"name": 2024}, r"name: give text, in quotes .* \(it is 2024\)"),
    ({"name": "a/b"}, r"name: .* pattern .* \(it is 'a/b'\)"),
    ({"device": "gpu"}, r"device: Input should be 'auto', 'cpu' or 'cuda' \(it is 'gpu'\)"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_a_wrong_value_is_told_with_its_place_its_value_and_the_remedy(changes, message, tmp_path):
    assert re.search(message, ordeval("run", written(tmp_path, **changes)))


LATER: list[tuple[dict[str, Any], str]] = [
    ({"explainers": [{"method": "lime", "options": [1]}]}, "explainers.0: options is [1]; give a mapping"),
    ({"explainers": [{"method": "lime", "label": "patient's"}]}, "explainers.0.label: "),
    ({"evaluate": {"metrics": []}}, "evaluate.metrics: "),
    ({"evaluate": {"metrics": ["inc_auc", "inc_auc"]}}, "evaluate: metrics names 'inc_auc' twice"),
    ({"model": {"learning_rate": float("inf")}}, "model.learning_rate: Input should be a finite number (it is inf)"),
    ({"data": {"dataset": "synthetic", "los_days": float("inf")}}, "data.los_days: "),
    ({"data": {"dataset": "synthetic", "cohort": {"window_hours": 1e300}}}, "data.cohort.window_hours: "),
    ({"data": {"dataset": "synthetic", "threads": 100_000}}, "data.threads: "),
    ({"explain": {"workers": 100_000}}, "explain.workers: "),
]


@pytest.mark.parametrize(("changes", "message"), LATER, ids=[message for _, message in LATER])
def test_what_would_break_only_later_is_refused_at_once(changes, message):
    with pytest.raises(ConfError, match=re.escape(message)):
        check_study({**TINY, **changes}, "tiny")


def test_overrides_are_checked_as_the_file_is(tmp_path):
    path = written(tmp_path)
    assert "explain.samples: Input should be a valid integer" in ordeval("run", path, "explain.samples=few")
    assert "'explain.samples' is not of the form key=value" in ordeval("run", path, "explain.samples")
    assert "'explainers' is not a section; override all of it" in ordeval("run", path, "explainers.0.budget=5")


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("name: s\nseed: 1\nexplain: {samples: 3}\nseed: 2\n")
    assert "the key 'seed' is there twice; keep one" in ordeval("run", str(path))


def test_a_section_without_keys_is_as_if_it_were_left_out(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("name: s\nexplain:\n  # samples: 3\ndata:\n  cohort:\n")
    assert load_study(path) == check_study({"name": "s"}, "s")
    assert load_study(path, ["explain.samples=4"]).explain.samples == 4


def test_list_says_what_there_is_to_list():
    told = ordeval("list", "nonsense")
    assert "there are: datasets, explainers, metrics, studies" in told and "unknown kind 'nonsense'" in told
    assert "did you mean 'metrics'?" in ordeval("list", "metric")


# --- the raw tables -----------------------------------------------------------------------------------------------


def eicu(storage: Path, folder: Path, task: str = "mortality", **data: Any) -> Study:
    tokens = {"min_count": 1}
    return tiny_study(storage, data={"dataset": "eicu", "task": task, "path": str(folder), "tokens": tokens, **data})


def preprocess(study: Study) -> Callable[[], Any]:
    return lambda: steps.preprocess(open_context(study))


def outputs(storage: Path) -> set[Path]:
    return set(storage.glob("preprocess/*"))


@pytest.fixture
def tables(tmp_path) -> Path:
    return write_tables(tmp_path / "raw", eicu_tables([], []), ".csv.gz")


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


FILES: list[tuple[str, Callable[[Path], Any], str]] = [
    (
        "missing table",
        lambda raw: (raw / "lab.csv.gz").unlink(),
        r"missing table: lab in .*raw; add lab.csv or lab.csv.gz",
    ),
    (
        "missing column",
        lambda raw: rewrite(raw / "lab.csv.gz", lambda text: text.replace(b"labname", b"lab_nam", 1)),
        r"missing column in lab.csv.gz: labname; add it or rename one; did you mean 'lab_nam'\?",
    ),
    (
        "truncated gz",
        lambda raw: (raw / "lab.csv.gz").write_bytes((raw / "lab.csv.gz").read_bytes()[:-40]),
        r"unreadable file: .*lab.csv.gz \(truncated\); download or copy it again",
    ),
    (
        "no gz",
        lambda raw: (raw / "lab.csv.gz").write_bytes(b"a,b"),
        r"unreadable file: .*lab.csv.gz \(not a whole gzip",
    ),
    (
        "no text",
        lambda raw: rewrite(raw / "lab.csv.gz", lambda text: text.replace(b"sodium", b"s\xf6dium")),
        r"unreadable file: .*lab.csv.gz \(its beginning is no UTF-8 text\)",
    ),
    ("a folder", lambda raw: ((raw / "lab.csv.gz").unlink(), (raw / "lab.csv").mkdir()), "missing table: lab in"),
    (
        "twice",
        lambda raw: (raw / "LAB.csv").write_text("a"),
        "table lab is there more than once: LAB.csv, lab.csv.gz; keep",
    ),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in FILES], ids=[case[0] for case in FILES])
def test_a_file_that_cannot_be_used_is_told_before_anything_is_made(change, message, tables, storage, refused):
    change(tables)
    before = outputs(storage)
    assert re.search(message, refused(preprocess(eicu(storage, tables))))
    assert outputs(storage) == before


def test_a_row_that_does_not_fit_is_told_without_the_row(tables, storage, refused):
    rewrite(tables / "lab.csv.gz", lambda text: text + b"1,987654321987,60\r\n")
    told = refused(preprocess(eicu(storage, tables)))
    assert "unreadable table: table lab" in told and "987654321987" not in told


def test_no_folder_is_told(storage, tmp_path, refused):
    told = refused(preprocess(eicu(storage, tmp_path / "none")))
    assert f"no such folder: {tmp_path / 'none'}; give the folder of the tables (data.path=FOLDER)" in told


def test_no_stay_left_gives_the_counts_by_reason(storage, tmp_path, refused):
    extra = [eicu_stay(1, unitdischargeoffset=100), eicu_stay(2, uniquepid="")]
    raw = write_tables(tmp_path / "raw", eicu_tables(extra, []))
    told = refused(preprocess(eicu(storage, raw, cohort={"min_age": 61})))
    reasons = "22 stays read (no stay or patient id: 1, younger than 61 years: 21)"
    assert f"no stay is left: {reasons}; relax data.cohort" in told


def test_one_class_only_gives_the_counts(storage, tables, refused):
    told = refused(preprocess(eicu(storage, tables, task="los", los_days=900)))
    assert re.search(r"one class only: train: 14 stays of class 0, 0 of class 1; .*; take another task", told)


def test_out_of_memory_says_what_to_raise(storage, tables, refused):
    assert "raise data.memory_limit" in refused(preprocess(eicu(storage, tables, memory_limit="1MB")))
    told = refused(preprocess(eicu(storage, tables, memory_limit="99999999999999GB")))
    assert "data.memory_limit 99999999999999GB" in told


def test_meds_labels_that_are_not_there_or_not_labels(storage, tmp_path, refused):
    events = pa.table({"subject_id": [1], "time": pa.array([DAY], pa.timestamp("us")), "code": ["A"]})
    (tmp_path / "data").mkdir()
    pq.write_table(events, tmp_path / "data" / "0.parquet")
    labels = tmp_path / "labels.parquet"
    data = {"dataset": "meds", "task": "label", "path": str(tmp_path), "labels_path": str(labels)}
    study = tiny_study(storage, data=data)
    told = refused(preprocess(study))
    assert f"no parquet file: {labels}; data.labels_path must be a parquet file or a folder of them" in told
    pq.write_table(events, labels)
    assert "Missing required columns: prediction_time" in refused(preprocess(study))
    times = {"subject_id": [1], "prediction_time": pa.array([DAY], pa.timestamp("us"))}
    pq.write_table(pa.table({**times, "boolean_value": ["yes"]}), labels)
    assert "labels.parquet: boolean_value is string; write it as bool" in refused(preprocess(study))


ODD: dict[str, tuple[str, Any]] = {
    "a truth value": ("drugordercancelled", lambda rows: pa.array([False] * rows)),
    "no value, a number's type": ("drugordercancelled", lambda rows: pa.nulls(rows, pa.float64())),
    "no value, no type": ("drughiclseqno", pa.nulls),
}


@pytest.mark.parametrize("odd", ODD)
def test_parquet_columns_may_have_any_type(odd, storage, tmp_path):
    raw = write_tables(tmp_path / "raw", eicu_tables([], []), ".parquet")
    column, make = ODD[odd]
    table = pq.read_table(raw / "medication.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, make(len(table))), raw / "medication.parquet")
    made = preprocess(eicu(storage, raw))().output
    assert json.loads((made.folder / "audit.json").read_text())["tables"]["medication"]["rows_out"] == 40


def test_a_cancelled_order_written_as_a_truth_value_is_cancelled(storage, tmp_path):
    tables = eicu_tables([eicu_stay(1)], [(1, 60, "sodium")], [drug(1, 90, "Warfarin")])
    tables["medication"] = [row | {"drugordercancelled": row["drugname"] == "Warfarin"} for row in tables["medication"]]
    raw = write_tables(tmp_path / "raw", tables, ".parquet")
    made = preprocess(eicu(storage, raw))().output
    dropped = json.loads((made.folder / "audit.json").read_text())["tables"]["medication"]["dropped"]
    assert dropped["cancelled order"] == 1


def test_an_empty_mimic_flag_column_of_any_type_is_no_flag(storage, tmp_path):
    raw = write_tables(tmp_path / "raw", mimic_tables([], []), ".parquet")
    for name, column in (("labevents", "flag"), ("inputevents_mv", "statusdescription")):
        table = pq.read_table(raw / f"{name}.parquet")
        empty = pa.nulls(len(table), pa.float64())
        pq.write_table(table.set_column(table.column_names.index(column), column, empty), raw / f"{name}.parquet")
    tokens = {"min_count": 1, "abnormal_flag": True}
    data = {"dataset": "mimic3", "task": "mortality", "path": str(raw), "tokens": tokens}
    made = preprocess(tiny_study(storage, data=data))().output
    assert "abnormal" not in (made.folder / "vocabulary.json").read_text()


def test_an_offset_that_is_no_time_is_counted_and_not_fatal(storage, tables):
    rewrite(tables / "lab.csv.gz", lambda text: text.replace(b",60,", b",1e300,", 1).replace(b",60,", b",inf,", 1))
    made = preprocess(eicu(storage, tables))().output
    dropped = json.loads((made.folder / "audit.json").read_text())["tables"]["lab"]["dropped"]
    assert dropped["no time"] == 2


# --- what the later stages need -----------------------------------------------------------------------------------


def test_a_budget_that_a_method_cannot_use_is_told_before_training(trained, refused):
    storage, data, _ = trained
    study = tiny_study(storage, explainers=[{"method": "ordshap", "budget": 20}])
    told = refused(lambda: stages.do_train(open_context(study), data.output))
    assert re.search(r"budget is 20 evaluations, and a sample of \d+ players needs at least \d+; raise budget to", told)
    exact = tiny_study(storage, explainers=[{"method": "ordshap", "estimator": "exact"}])
    assert "max_players is 8; take another estimator" in refused(
        lambda: stages.do_train(open_context(exact), data.output)
    )


def test_more_samples_than_the_test_part_has_is_told_before_training(trained, refused):
    storage, data, _ = trained
    study = tiny_study(storage, explain={"samples": 5000})
    told = refused(lambda: stages.do_train(open_context(study), data.output))
    assert re.search(
        r"explain.samples is 5000 and the test part has (\d+) samples; set explain.samples=\1 or less", told
    )


def test_a_sequence_longer_than_the_model(trained, refused):
    _, data, model = trained
    study = tiny_study(trained[0])
    subject = Subject.load(data.output.folder, model.output.folder, study.explain, "cpu")
    longest = subject.model.config.max_position_embeddings
    tokens = torch.full((1, longest), 5)
    told = refused(lambda: ClassifierGame(subject.model, tokens, subject.vocabulary.mask, (subject.vocabulary.cls,)))
    assert f"the sequence has {longest} tokens and 1 special ones, and the model takes {longest}; lower" in told


def test_cuda_that_is_not_there(storage, refused, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    told = refused(lambda: open_context(tiny_study(storage, device="cuda")))
    assert "device is 'cuda' and this machine has no CUDA device; set device=auto or device=cpu" in told


@pytest.mark.parametrize("name", ["preprocess", "train", "explain", "evaluate", "timing", "report"])
def test_an_unreachable_tracking_server_is_told_before_any_stage(name, tmp_path, refused):
    study = tiny_study(tmp_path, tracking_uri="http://me:secret@127.0.0.1:9")
    told = refused(lambda: getattr(stages, name).fn(study))
    assert re.search(
        r"no MLflow server answers at http://127.0.0.1:9/? .*; start it, or leave tracking_uri empty", told
    )
    assert "secret" not in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_unreachable_tracking_server_stops_a_whole_study_before_preprocess(tmp_path, refused):
    study = tiny_study(tmp_path, tracking_uri="http://127.0.0.1:9")
    assert "no MLflow server answers" in refused(lambda: whole_study.fn(study))
    assert not (tmp_path / "preprocess").exists()


@pytest.mark.parametrize(
    "uri", ["http://127.0.0.1:port", "ftp://127.0.0.1/x", "127.0.0.1:5000", "postgresql://u:secret@127.0.0.1:9/x"]
)
def test_a_tracking_uri_that_cannot_be_one(uri, tmp_path, refused):
    told = refused(lambda: open_context(tiny_study(tmp_path, tracking_uri=uri)))
    assert "tracking_uri" in told and "127.0.0.1" in told and "secret" not in told


def test_a_server_that_never_answers_is_not_waited_for(tmp_path, refused, monkeypatch):
    monkeypatch.setattr("tasks.tracking.REACH_SECONDS", 0.5)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "no MLflow server answers" in refused(lambda: open_context(tiny_study(tmp_path, tracking_uri=uri)))


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_a_storage_that_cannot_be_written(place, tmp_path, refused):
    (tmp_path / "taken").write_text("x")
    storage = tmp_path / "taken" if place == "a file" else tmp_path / "taken" / "store"
    told = refused(lambda: open_context(tiny_study(storage)))
    assert str(storage) in told and re.search("storage .*; .*storage=FOLDER", told)


def test_a_run_of_the_wrong_stage_or_of_none(trained, refused):
    storage, data, _ = trained
    study = tiny_study(storage)
    told = refused(lambda: stages.explain.fn(study, run=data.run_id))
    assert f"run {data.run_id} is of stage 'preprocess'; pick a train run" in told
    told = refused(lambda: stages.train.fn(study, run="nonsense"))
    assert "no run of the study 'tiny' is called 'nonsense'; copy a name, or an id, from the MLflow UI" in told
    told = refused(lambda: stages.evaluate.fn(study, methods=("shap",)))
    assert "the study has no method 'shap'; there are: ordshap, kernelshap, integrated_gradients, random" in told


def test_a_stage_whose_input_was_never_made(storage, refused):
    study = tiny_study(storage, seed=99)
    told = refused(lambda: stages.train.fn(study))
    assert re.search(r"no intact preprocess output \w+ in .*; run `ordeval preprocess` on this study first", told)


# --- nothing already computed is lost -----------------------------------------------------------------------------


def stamps(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_training_that_fails_leaves_the_tokens_for_the_next(trained, refused):
    storage, data, model = trained
    before = stamps(data.output.folder), stamps(model.output.folder)
    study = tiny_study(storage, model={**TINY["model"], "learning_rate": 1e30})
    context = open_context(study)
    told = refused(lambda: steps.train(context, data.output))
    assert "training diverged; lower model.learning_rate" in told
    failed = next(iter(context.tracker.client.search_runs([context.tracker.experiment_id], "tags.stage = 'train'")))
    assert failed.info.status == "FAILED" and "diverged" in failed.data.tags["error"]
    context = open_context(tiny_study(storage))
    again = steps.preprocess(context)
    assert (again.reused, again.run_id) == (True, data.run_id)
    assert steps.train(context, again.output).run_id == model.run_id
    assert before == (stamps(data.output.folder), stamps(model.output.folder))


class Stop(RuntimeError):
    """What a later stage fails with."""


def stopping(stage: str, shards: int) -> Callable[[str, int, int], None]:
    """Return a progress that fails once ``stage`` has written ``shards`` shards."""

    def progress(what: str, done: int, of: int) -> None:
        if what.startswith(stage) and done >= shards * TINY["explain"]["shard_size"]:
            raise Stop(f"{stage} is stopped")

    return progress


def test_explanations_that_fail_keep_their_shards_and_other_methods_theirs(trained):
    storage, data, model = trained
    study = tiny_study(storage, seed=0)
    context = open_context(study)
    done = steps.explain(context, study.explainers[3], data.output, model.output)
    before = stamps(done.explain.folder)
    with pytest.raises(Stop):
        steps.explain(
            open_context(study, progress=stopping("explain", 2)), study.explainers[1], data.output, model.output
        )
    made = steps.explain_made(context, study.explainers[1], data.output, model.output)
    folder = context.store.folder("explain", digest_of(made))
    kept = stamps(folder)
    assert [name for name in kept if name.endswith(".safetensors")] and "manifest.json" not in kept
    finished = steps.explain(context, study.explainers[1], data.output, model.output).explain
    after = stamps(finished.folder)
    assert finished.folder == folder and all(after[name] == when for name, when in kept.items())
    assert stamps(done.explain.folder) == before


def test_scores_that_fail_lose_no_explanation_and_are_made_up_for(trained):
    storage, data, model = trained
    study = tiny_study(storage)
    context = open_context(study)
    run = steps.explain(context, study.explainers[3], data.output, model.output)
    before = stamps(run.explain.folder)
    with pytest.raises(Stop):
        steps.evaluate(open_context(study, progress=stopping("evaluate", 2)), run, data.output, model.output)
    row = context.tracker.get(run.run_id)
    assert row.info.status == "FAILED" and row.data.tags["error"] == "Stop: evaluate is stopped"
    again = steps.explain(context, study.explainers[3], data.output, model.output)
    assert again.reused and again.run_id == run.run_id and stamps(run.explain.folder) == before
    scored = steps.evaluate(context, again, data.output, model.output)
    row = context.tracker.get(scored.run_id)
    assert row.info.run_id == run.run_id and row.info.status == "FINISHED" and "inc_auc" in row.data.metrics
    assert "error" not in row.data.tags, "a row that came to a good end must not show an old error"


def test_a_forced_stage_that_fails_leaves_the_earlier_output(trained):
    storage, data, model = trained
    study = tiny_study(storage)
    run = steps.explain(open_context(study), study.explainers[3], data.output, model.output)
    before = stamps(run.explain.folder)
    forced = open_context(study, force=True, progress=stopping("explain", 1))
    with pytest.raises(Stop):
        steps.explain(forced, study.explainers[3], data.output, model.output)
    assert stamps(run.explain.folder) == before
    assert steps.explain(open_context(study), study.explainers[3], data.output, model.output).reused


# --- an answer at once --------------------------------------------------------------------------------------------

HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "mlflow",
    "prefect",
    "pandas",
    "duckdb",
    "captum",
    "sklearn",
    "matplotlib",
)


def loaded_by(*arguments: str) -> tuple[int, set[str], str]:
    """Run the command line in a process of its own; return its status, the heavy modules it loaded, its messages."""
    code = (
        "import sys\nfrom flows.cli import main\nstatus = 0\ntry:\n    main()\nexcept SystemExit as end:\n"
        f"    status = end.code or 0\nprint('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, set(done.stdout.rpartition("LOADED")[2].split()), done.stderr


def test_help_loads_nothing_heavy():
    for arguments in (["--help"], ["explain", "--help"]):
        status, loaded, _ = loaded_by(*arguments)
        assert (status, loaded) == (0, set())


def test_a_conf_error_loads_nothing_heavy(tmp_path):
    status, loaded, told = loaded_by("run", written(tmp_path, expalin={}))
    assert (status, loaded) == (2, set())
    assert "did you mean 'explain'?" in told and "Traceback" not in told
    status, loaded, told = loaded_by("run", written(tmp_path, explainers=["ordshop"], evaluate={"metrics": ["auc"]}))
    assert (status, loaded) == (2, set())
    assert "unknown explainer 'ordshop'" in told and "unknown metric 'auc'" in told


def test_listing_methods_and_metrics_loads_nothing_heavy():
    for kind, name in (("explainers", "ordshap"), ("metrics", "perm_auc")):
        status, loaded, _ = loaded_by("list", kind)
        assert (status, loaded) == (0, set()), name


def test_what_is_missing_on_this_machine_is_told_before_prefect_starts(tmp_path):
    data = {"dataset": "eicu", "task": "los", "path": str(tmp_path)}
    status, loaded, told = loaded_by("run", written(tmp_path, data=data))
    assert (status, "prefect" in loaded) == (2, False)
    assert told.splitlines()[-1].startswith(f"error: missing table: patient in {tmp_path}; add patient.csv")


def test_every_method_of_a_study_is_checked_not_only_the_first(trained):
    storage, data, _ = trained
    study = tiny_study(storage, explainers=["random", {"method": "lime", "budget": 2}])
    with pytest.raises(ValueError, match="lime: budget is 2 evaluations"):
        check_methods(data.output.folder, study.explain, list(study.explainers))
