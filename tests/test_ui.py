"""`ordeval ui` without a browser: what its forms hold and send, and a port that is taken."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conf.load import ConfError
from flows import ui
from flows.forms import form, from_form, read_options, to_form
from flows.known import known_studies, known_study, remember
from flows.serve import FLOWS, first_values
from flows.stages import explain, picked
from flows.study import rerun, study
from tasks.store import Store
from tests.conftest import ROOT
from tests.servers import free_port
from tests.studies import tiny_study


def test_a_form_sends_the_study_that_it_shows(tmp_path):
    shown = tiny_study(tmp_path, explainers=[{"method": "ordshap", "budget": 120, "estimator": "algorithm2"}])
    sent = to_form(shown)
    assert sent["explainers"][0]["options"] == "budget=120, estimator=algorithm2"
    assert from_form(sent) == shown


def test_fields_left_empty_take_their_defaults(tmp_path):
    sent = to_form(tiny_study(tmp_path))
    empty = {**sent, "tracking_uri": "", "data": {**sent["data"], "path": "", "labels_path": None}, "timing": None}
    filled = from_form(empty)
    assert filled.data.path is None and filled.timing.samples == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"explainers": [{"method": "ordshap", "options": "budget"}]}, "'budget' is not of the form key=value"),
        ({"explainers": [{"method": "shap"}]}, "unknown explainer 'shap'"),
        ({"data": {"dataset": "eicu", "task": "los"}}, "data.path is missing"),
    ],
)
def test_what_a_form_cannot_mean_is_told_as_on_the_command_line(tmp_path, change, said):
    with pytest.raises(ConfError, match=said):
        from_form({**to_form(tiny_study(tmp_path)), **change})


def test_options_may_hold_commas_and_stand_on_lines():
    assert read_options("graph=grid, shape=[2, 3]\norder=2") == {"graph": "grid", "shape": [2, 3], "order": 2}


def test_a_study_that_ran_is_known_as_it_ran(tmp_path):
    remember(tiny_study(tmp_path, seed=3), Store(tmp_path))
    remember(tiny_study(tmp_path, name="synthetic", seed=4), Store(tmp_path))
    assert {"tiny", "synthetic", "eicu-los"} <= set(known_studies(tmp_path))
    assert known_study("tiny", tmp_path) == tiny_study(tmp_path, seed=3)
    assert known_study("synthetic", tmp_path, ["explain.samples=2"]).seed == 4
    with pytest.raises(ConfError, match="no study is called 'tinny': did you mean 'tiny'"):
        known_study("tinny", tmp_path)
    assert (tmp_path / "studies" / "tiny.yaml").stat().st_mode & 0o077 == 0


def test_a_form_offers_what_is_known(tmp_path):
    remember(tiny_study(tmp_path, explainers=[{"method": "loco", "label": "mine"}]), Store(tmp_path))
    fields = form(rerun, tmp_path)["properties"]
    assert "tiny" in fields["study"]["enum"] and "mine" in fields["method"]["enum"]
    assert "mine" in form(explain, tmp_path)["properties"]["methods"]["items"]["enum"]
    whole = form(study, tmp_path)["definitions"]
    assert {"ordshap", "lime"} <= set(whole["Method"]["properties"]["method"]["enum"])
    assert "perm_auc" in whole["Evaluate"]["properties"]["metrics"]["items"]["enum"]


def test_what_a_form_shows_first_is_a_study_that_runs():
    shown = first_values("study")["study"]
    assert from_form(shown).name == "synthetic"
    assert all(first_values(flow.name) for flow in FLOWS)


def test_changes_are_for_a_study_that_is_named(tmp_path):
    with pytest.raises(ValueError, match="the study is given whole"):
        picked(tiny_study(tmp_path), "seed=1")


DEAF = """
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1) if not asked else sys.exit(0))
print("there", flush=True)
time.sleep(60)
"""


@pytest.fixture
def deaf() -> Iterator[subprocess.Popen[bytes]]:
    """Give a server that stops only when it is asked a second time, once it listens."""
    started = subprocess.Popen([sys.executable, "-S", "-c", DEAF], start_new_session=True, stdout=subprocess.PIPE)
    assert started.stdout is not None and started.stdout.readline() == b"there\n"
    yield started
    started.stdout.close()


def test_deployments_that_wait_for_a_run_they_just_started_are_asked_again(deaf, monkeypatch, capsys):
    monkeypatch.setattr(ui, "AGAIN_SECONDS", 0.5)
    ui.stop_all({"deployments": deaf})
    assert deaf.returncode == 0 and capsys.readouterr().err == ""


def test_a_server_that_does_not_stop_is_killed_and_named(deaf, monkeypatch, capsys):
    monkeypatch.setattr(ui, "STOP_SECONDS", 0.5)
    ui.stop_all({"mlflow": deaf})
    assert deaf.returncode == -signal.SIGKILL and "mlflow did not stop within 0.5 s; killed" in capsys.readouterr().err


def test_a_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "flows.cli", "ui", "--mlflow-port", port, "--prefect-port", str(free_port())]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} is taken; choose another with --mlflow-port" in done.stderr
