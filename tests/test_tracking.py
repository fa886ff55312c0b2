"""MLflow: nothing that is not finite, runs that end as they ended, runs whose process died."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tasks.tracking import Tracker, TrackingError, shown


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    return tmp_path_factory.mktemp("tracking")


@pytest.fixture
def tracker(storage):
    return Tracker.connect("", storage, "study", {"study": "study", "seed": "0"})


def status(tracker, run_id):
    return tracker.get(run_id).info.status


def test_not_finite_numbers_are_left_out_and_named(tracker):
    with tracker.run("a", {}) as run_id:
        tracker.metrics(run_id, {"good": 1.5, "nan": float("nan"), "inf": float("-inf")})
        tracker.metric_rows(run_id, [("curve", 0.25, 0), ("curve", float("nan"), 4), ("curve", 0.75, 8)])
    run = tracker.get(run_id)
    assert run.data.metrics == {"good": 1.5, "curve": 0.75}
    assert run.data.tags["not_finite"] == "curve@4, inf, nan"
    history = tracker.client.get_metric_history(run_id, "curve")
    assert [(point.step, point.value) for point in history] == [(0, 0.25), (8, 0.75)]


def test_thousands_of_points_and_hundreds_of_params(tracker):
    with tracker.run("many", {}) as run_id:
        tracker.metric_rows(run_id, [("curve", float(step), step) for step in range(2500)])
        tracker.params(run_id, {f"p{number}": "x" * 7000 for number in range(150)})
    assert len(tracker.client.get_metric_history(run_id, "curve")) == 2500
    params = tracker.get(run_id).data.params
    assert len(params) == 150 and len(params["p3"]) == 6000 and params["p3"].endswith("…")


def test_runs_end_as_they_ended(tracker):
    with tracker.run("good", {}) as good:
        assert status(tracker, good) == "RUNNING"
    with pytest.raises(ValueError), tracker.run("bad", {}) as bad:
        raise ValueError("three legs")
    with pytest.raises(KeyboardInterrupt), tracker.run("stopped", {}) as stopped:
        raise KeyboardInterrupt
    assert [status(tracker, run) for run in (good, bad, stopped)] == ["FINISHED", "FAILED", "KILLED"]
    assert tracker.get(bad).data.tags["error"] == "ValueError: three legs"


def test_a_run_whose_process_was_killed_is_closed_by_the_next_start(tracker, storage):
    code = (
        "import sys, os, signal; from pathlib import Path; from tasks.tracking import Tracker\n"
        "t = Tracker.connect('', Path(sys.argv[1]), 'study', {})\n"
        "with t.run('dies', {}) as run:\n"
        "    print(run, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(storage)], capture_output=True, text=True, check=False)
    run_id = done.stdout.strip()
    assert done.returncode == -9 and status(tracker, run_id) == "RUNNING"
    with tracker.run("lives", {}) as living:
        Tracker.connect("", storage, "study", {})
        assert status(tracker, living) == "RUNNING"
    assert status(tracker, run_id) == "KILLED"
    assert "process ended" in tracker.get(run_id).data.tags["error"]


def test_latest_moves_to_the_newest_row_of_a_method(tracker):
    rows = []
    for _ in range(2):
        with tracker.run("row", {"stage": "method", "method": "lime"}) as run_id:
            tracker.make_latest(run_id, "lime", 0)
        rows.append(run_id)
        time.sleep(0.01)
    assert [tracker.get(run).data.tags["latest"] for run in rows] == ["false", "true"]
    found = tracker.find(stage="method", method="lime")
    assert found is not None and found.info.run_id == rows[1]


def test_environment_is_tagged(tracker):
    with tracker.run("a", {}) as run_id:
        pass
    tags = tracker.get(run_id).data.tags
    assert tags["version.torch"].startswith("2.") and tags["git_commit"] and tags["seed"] == "0"


def test_unreachable_server_is_an_error_before_any_work(tmp_path):
    with pytest.raises(TrackingError, match=r"no MLflow server answers at http://127.0.0.1:9/? .*tracking_uri"):
        Tracker.connect("http://user:secret@127.0.0.1:9", tmp_path, "study", {})


def test_credentials_are_not_shown():
    assert shown("https://me:secret@host:1/x") == "https://host:1/x"


def test_unknown_run(tracker):
    with pytest.raises(TrackingError, match="no run 'abc'"):
        tracker.get("abc")


def test_processes_that_start_together_make_one_database(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tasks.tracking import Tracker; "
        "Tracker.connect('', Path(sys.argv[1]), 'study', {'study': 'study', 'seed': '0'})"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert Tracker.connect("", tmp_path, "study", {}, make=False).experiment_id
