"""`ordeval ui` for tests: both servers on free ports, with a small synthetic study that its forms show first."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.known import remember
from flows.serve import FLOWS
from tasks.store import Store
from tests.conftest import ROOT
from tests.studies import tiny_study

START_SECONDS = 600
RUN_SECONDS = 600
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
FIRST = {"name": "synthetic", "explainers": [{"method": "kernelshap", "budget": 120}, "random"]}


@dataclass(frozen=True)
class Servers:
    """The addresses of both UIs, and the storage folder of the runs started there."""

    prefect: str
    mlflow: str
    storage: Path
    process: subprocess.Popen[bytes]

    def api(self, path: str, content: dict | None = None) -> Any:
        """Call the Prefect API."""
        return call(f"{self.prefect}/api/{path}", content)

    def deployments(self) -> dict[str, dict]:
        """Return the deployments by flow, once all are ready and have their forms."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            found = {item["entrypoint"].rpartition(":")[2]: item for item in self.api("deployments/filter", {})}
            if len(found) == len(FLOWS) and all(ready(item) for item in found.values()):
                return found
            assert self.process.poll() is None and time.monotonic() < deadline, f"only {sorted(found)} are ready"
            time.sleep(1)

    def ended(self, run_id: str, seconds: float = RUN_SECONDS) -> dict:
        """Return the state in which a flow run ends."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.api(f"flow_runs/{run_id}")["state"]
            if state["type"] in ENDED:
                return state
            assert time.monotonic() < deadline, state
            time.sleep(1)

    def runs(self, experiment: str, wanted: str) -> list[dict]:
        """Return the runs of an MLflow experiment, its tags as a mapping."""
        found = call(f"{self.mlflow}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}")
        ask = {"experiment_ids": [found["experiment"]["experiment_id"]], "filter": wanted}
        runs = call(f"{self.mlflow}/api/2.0/mlflow/runs/search", ask).get("runs", [])
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["data"]["tags"]}} for run in runs]


def ready(deployment: dict) -> bool:
    """Return whether a deployment is served, and has its form."""
    fields = deployment["parameter_openapi_schema"]["properties"]
    return deployment["status"] == "READY" and fields["study"]["title"] == "Study"


@contextmanager
def serving(folder: Path) -> Iterator[Servers]:
    """Start `ordeval ui` in ``folder``, and stop it as Ctrl-C does: it must end well, and soon."""
    storage = folder / "store"
    remember(tiny_study(storage, **FIRST), Store(storage))
    prefect, mlflow = free_port(), free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "flows.cli", "ui", "--storage", str(storage)]
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
        yield Servers(f"http://127.0.0.1:{prefect}", f"http://127.0.0.1:{mlflow}", storage, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert process.returncode == 0
    assert not listens(prefect) and not listens(mlflow)
    assert "killed" not in (folder / "log").read_text(), "a server did not stop when it was told to"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    """Return whether something listens on ``port``."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def call(url: str, content: dict | None = None) -> Any:
    """Return the JSON that ``url`` answers."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())
