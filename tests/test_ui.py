"""`ordeval ui`: both servers on loopback, every stage a deployment with a form, a run triggered there, one stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.conftest import ROOT
from tests.studies import tiny_study

START_SECONDS = 240
RUN_SECONDS = 240


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def call(url: str, content: dict | None = None):
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Start `ordeval ui`; yield its process, the Prefect API, the MLflow address and the storage."""
    folder = tmp_path_factory.mktemp("ui")
    prefect, mlflow = free_port(), free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "flows.cli", "ui", "--storage", str(folder / "store")]
    with (folder / "log").open("w") as output:
        process = subprocess.Popen(
            [*command, "--prefect-port", str(prefect), "--mlflow-port", str(mlflow)],
            cwd=ROOT,
            env={**clean, "PREFECT_HOME": str(folder / "prefect")},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Ctrl-C stops both" not in (folder / "log").read_text():
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.5)
        yield process, f"http://127.0.0.1:{prefect}/api", f"http://127.0.0.1:{mlflow}", folder / "store"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode == 0
    assert not listens(prefect) and not listens(mlflow)


def deployments(api: str) -> dict[str, dict]:
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = {item["entrypoint"].rpartition(":")[2]: item for item in call(f"{api}/deployments/filter", {})}
        if len(found) == 7 and all(item["status"] == "READY" for item in found.values()):
            return found
        assert time.monotonic() < deadline, f"only {sorted(found)} are ready"
        time.sleep(1)


def test_every_stage_has_a_form_and_a_run_from_it_completes(servers):
    _, api, mlflow, storage = servers
    found = deployments(api)
    assert set(found) == {"study", "preprocess", "train", "explain", "evaluate", "timing", "report"}
    for item in found.values():
        fields = item["parameter_openapi_schema"]["definitions"]["Data"]["properties"]
        assert all(field.get("title") or "$ref" in str(field) for field in fields.values()), fields
    study = tiny_study(storage).model_dump(mode="json")
    begun = call(f"{api}/deployments/{found['preprocess']['id']}/create_flow_run", {"parameters": {"study": study}})
    deadline = time.monotonic() + RUN_SECONDS
    while True:
        state = call(f"{api}/flow_runs/{begun['id']}")["state"]
        if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
            break
        assert time.monotonic() < deadline, state
        time.sleep(1)
    assert state["type"] == "COMPLETED", state
    ask = {"experiment_ids": ["1"], "filter": "tags.stage = 'preprocess'"}
    runs = call(f"{mlflow}/api/2.0/mlflow/runs/search", ask)["runs"]
    tags = {tag["key"]: tag["value"] for tag in runs[0]["data"]["tags"]}
    assert runs[0]["info"]["status"] == "FINISHED" and tags["prefect_run"] == begun["id"]


def test_a_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "flows.cli", "ui", "--mlflow-port", port, "--prefect-port", str(free_port())]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"port {port} is taken; choose another with --mlflow-port" in done.stderr
