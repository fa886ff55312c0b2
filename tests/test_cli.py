"""The terminal: JSON for scripts, no colours where piped, bars and lines, exit codes, completion."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys

import pytest
from rich.console import Console

from flows.cli import kinds, labels, names
from flows.context import open_context
from flows.known import remember
from flows.links import addresses
from flows.logs import warnings_to
from flows.progress import Pace, Reporter
from tasks.store import Store
from tests.conftest import ROOT
from tests.studies import tiny_study


def ordeval(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_lists_are_plain_lines_where_piped_and_json_on_demand():
    plain, machine = ordeval("list", "metrics"), ordeval("list", "metrics", "--json")
    assert plain.returncode == machine.returncode == 0
    listed = json.loads(machine.stdout)
    assert "inc_auc" in listed and "\x1b" not in plain.stdout
    assert [line.split()[0] for line in plain.stdout.splitlines()] == list(listed)


def test_help_tells_the_exit_codes():
    assert "2 a fault of the input" in " ".join(ordeval("--help").stdout.split())


def test_open_of_a_study_that_has_not_run_is_a_fault_of_the_input(tmp_path):
    done = ordeval("open", "synthetic", "--storage", tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert "study 'synthetic' has not run at sqlite:" in done.stderr


def test_addresses_of_a_study(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDEVAL_MLFLOW_UI", "http://127.0.0.1:5999")
    monkeypatch.setenv("PREFECT_API_URL", "http://me:secret@prefect.example/api")
    study = tiny_study(tmp_path)
    tracker = open_context(study).tracker
    with tracker.run("tiny / summary", {"stage": "summary", "report": "abc"}) as run_id:
        pass
    page = tmp_path / "report" / "abc" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html></html>")
    found = addresses(study)
    assert found["experiment"] == "http://127.0.0.1:5999/#/experiments/1/runs?workflowType=machine_learning"
    assert "tags.latest%20%3D%20%27true%27" in found["methods"] and found["charts"].endswith("compareRunsMode=CHART")
    assert found["report"].endswith(f"/{run_id}/artifacts/report/report.html") and found["report file"] == str(page)
    assert found["prefect"] == "http://prefect.example/deployments"


def test_completion(tmp_path, monkeypatch):
    monkeypatch.setattr("flows.cli.HERE", tmp_path)
    remember(tiny_study(tmp_path), Store(tmp_path))
    assert names("ti") == ["tiny"] and kinds("e") == ["explainers"]
    line = type("Line", (), {"params": {"conf": ROOT / "conf" / "eicu-los.yaml"}})()
    assert labels(line, "kern") == ["kernelshap"]
    assert labels(type("Line", (), {"params": {"conf": tmp_path / "none.yaml"}})(), "") == []


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_bars_on_a_terminal_and_lines_elsewhere(terminal):
    written = io.StringIO()
    shown = Reporter(Console(file=written, force_terminal=terminal, width=120))
    for done in range(5):
        shown("explain lime, samples", done, 4, "fine" if done == 4 else "")
    shown.close()
    text = written.getvalue()
    assert ("\x1b[" in text) is terminal
    assert ("4/4" if terminal else "explain lime, samples: 4 of 4, ") in text and "; fine" in text
    assert shown.paces == {}


def test_warnings_of_our_own_code_are_shown_and_no_others():
    shown: list[str] = []
    with warnings_to(shown.append):
        logging.getLogger("tasks.shards").warning("shard %s is damaged", "00000")
        logging.getLogger("flows.logs").error("told where the command ends")
        logging.getLogger("elsewhere").warning("not ours")
    logging.getLogger("tasks.shards").warning("nobody listens any more")
    assert shown == ["shard 00000 is damaged"]


def test_pace_counts_only_what_was_done_here():
    assert Pace(0.0, 8).line(10, 20, 4.0) == "10 of 20, 30 a minute, 20 s left"
