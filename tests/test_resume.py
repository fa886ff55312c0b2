"""kill -9 in `explain`: nothing computed is lost, and the result is bit for bit the uninterrupted one."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from flows import steps
from flows.context import open_context
from tasks.explain import read_explanation
from tests.conftest import ROOT
from tests.studies import TINY, tiny_study


def explain_in_a_process(storage, shards: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.killed_explain", str(storage), str(shards)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the storage of an uninterrupted run and its explanations' folder."""
    storage = tmp_path_factory.mktemp("whole")
    context = open_context(tiny_study(storage))
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    return storage, steps.explain(context, context.study.explainers[0], data, model).explain.folder


def shards(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_killed_and_resumed_is_bit_for_bit_the_uninterrupted_result(whole, tmp_path):
    storage, folder = whole
    copy = tmp_path / "store"
    shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("explain", "mlflow.db", "mlflow-artifacts"))
    killed = explain_in_a_process(copy, 2)
    assert killed.returncode == -9, killed.stderr
    unfinished = copy / "explain" / folder.name
    left = shards(unfinished)
    assert sorted(left) == ["00000.safetensors", "00001.safetensors"]
    assert not (unfinished / "manifest.json").exists()
    stamps = {name: (unfinished / "shards" / name).stat().st_mtime_ns for name in left}

    study = tiny_study(copy)
    dead = open_context(study).tracker.find(stage="method", method="ordshap")
    assert dead is not None and dead.info.status == "KILLED"

    resumed = explain_in_a_process(copy, 0)
    assert resumed.returncode == 0, resumed.stderr
    assert shards(unfinished) == shards(folder)
    assert stamps == {name: (unfinished / "shards" / name).stat().st_mtime_ns for name in left}


@pytest.mark.parametrize("change", [{"batch_tokens": 40}, {"shard_size": 5}, {"workers": 3}])
def test_batches_shards_and_workers_change_nothing_beyond_rounding(whole, change):
    storage, folder = whole
    study = tiny_study(storage, explain={**TINY["explain"], **change})
    context = open_context(study)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    other = steps.explain(context, study.explainers[0], data, model).explain
    assert (other.folder == folder) == ("workers" in change)
    for index in range(study.explain.samples):
        one = read_explanation(folder, TINY["explain"]["shard_size"], index)
        two = read_explanation(other.folder, study.explain.shard_size, index)
        assert one.evaluations.tolist() == two.evaluations.tolist()
        for name in ("value", "position", "matrix"):
            assert (getattr(one, name) - getattr(two, name)).abs().max() < 1e-5


def test_more_workers_from_scratch_write_the_same_bytes(whole, tmp_path):
    storage, folder = whole
    copy = tmp_path / "store"
    shutil.copytree(storage, copy, ignore=shutil.ignore_patterns("explain", "mlflow.db", "mlflow-artifacts"))
    study = tiny_study(copy, explain={**TINY["explain"], "workers": 3})
    context = open_context(study)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    for method in study.explainers:
        steps.explain(context, method, data, model)
    assert shards(copy / "explain" / folder.name) == shards(folder)
