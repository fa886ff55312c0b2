"""Both UIs on loopback: the Prefect server with the deployments, and MLflow; all stop together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flows.environment import MLFLOW_UI, STORAGE
from tasks.store import DATABASE, Store

HOST = "127.0.0.1"
START_SECONDS = 300
STOP_SECONDS = 20
AGAIN_SECONDS = 12  # enough for a run in work to be stopped in order
LINGER_SECONDS = 3


def serve_all(storage: Path, prefect_port: int, mlflow_port: int) -> int:
    """Start the servers and the deployments, print where they are, wait; return 0 on Ctrl-C, 1 where one died.

    Raises:
        ValueError: a port is taken.
        OSError: a server did not come up in time.
    """
    for name, port in (("prefect", prefect_port), ("mlflow", mlflow_port)):
        check_free(name, port)
    storage.mkdir(parents=True, exist_ok=True)
    environment = server_environment(storage, prefect_port, mlflow_port)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        processes["prefect"] = launch(prefect_command(prefect_port), environment)
        with Store(storage).lock(DATABASE):  # a run that starts now must not make the database at the same time
            processes["mlflow"] = launch(mlflow_command(storage, mlflow_port), environment)
            await_http(f"http://{HOST}:{mlflow_port}/health", processes["mlflow"])
        await_http(f"http://{HOST}:{prefect_port}/api/health", processes["prefect"])
        processes["deployments"] = launch([sys.executable, "-m", "flows.serve"], environment)
        print(f"Prefect: http://{HOST}:{prefect_port}/deployments", flush=True)
        print(f"MLflow:  http://{HOST}:{mlflow_port}/#/experiments", flush=True)
        print("Ctrl-C stops both.", flush=True)
        return wait_for_any(processes)
    except KeyboardInterrupt:
        return 0
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        stop_all(processes)


def interrupt(*_: object) -> None:
    """Treat SIGTERM as Ctrl-C; SIGINT too where this was started in the background, which ignores it."""
    raise KeyboardInterrupt


def check_free(name: str, port: int) -> None:
    """Raise ValueError where something listens on ``port`` already."""
    import socket

    with socket.socket() as probe:
        if probe.connect_ex((HOST, port)) == 0:
            raise ValueError(f"port {port} is taken; choose another with --{name}-port")


def server_environment(storage: Path, prefect_port: int, mlflow_port: int) -> dict[str, str]:
    """Return the environment of the servers: the UI must call the API at the port it is served from.

    The deployments' runs take the storage folder from it, and the address for their links to MLflow.
    """
    return {
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",  # what runs say is on their pages
        **os.environ,
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_API_PORT": str(prefect_port),
        "PREFECT_API_URL": f"http://{HOST}:{prefect_port}/api",
        "PYTHONUNBUFFERED": "1",
        STORAGE: str(storage.resolve()),
        MLFLOW_UI: f"http://{HOST}:{mlflow_port}",
    }


def prefect_command(port: int) -> list[str]:
    """Return the command of the Prefect server."""
    return [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)]


def mlflow_command(storage: Path, port: int) -> list[str]:
    """Return the command of the MLflow server on the storage folder's database."""
    place = storage.resolve()
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{place}/mlflow.db"]
    artifacts = ["--artifacts-destination", (place / "mlflow-artifacts").as_uri()]
    # a page that is open in a browser keeps its connection: a stop would wait for it
    return [*command, *store, *artifacts, "--uvicorn-opts", f"--timeout-graceful-shutdown {LINGER_SECONDS}"]


def launch(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a server in a process group of its own, so that Ctrl-C reaches it once, from here."""
    return subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)


def await_http(url: str, process: subprocess.Popen[bytes], clock: Callable[[], float] = time.monotonic) -> None:
    """Wait until ``url`` answers.

    Raises:
        OSError: the process ended, or it took longer than ``START_SECONDS``.
    """
    deadline = clock() + START_SECONDS
    while clock() < deadline:
        if process.poll() is not None:
            raise OSError(f"the server for {url} ended with status {process.returncode}; see its messages above")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise OSError(f"{url} did not answer within {START_SECONDS} s")


def wait_for_any(processes: dict[str, subprocess.Popen[bytes]]) -> int:
    """Wait until a server ends by itself, say which, and return 1."""
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                print(f"{name} ended with status {process.returncode}; stopping the others", file=sys.stderr)
                return 1
        time.sleep(0.5)


def stop_all(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Stop every server and what it started: first kindly, then for good.

    The deployments go first, alone: they tell the Prefect server which runs they stop, and would wait for one that is
    gone. They are asked twice: Prefect starts a run all the same that it was about to start when it was asked, and
    waits for its end.
    """
    deployments = processes.get("deployments")
    if deployments is not None:
        signal_group(deployments, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            deployments.wait(AGAIN_SECONDS)
        stop({"deployments": deployments})
    stop({name: process for name, process in processes.items() if process is not deployments})


def stop(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Stop these servers together; what does not end within ``STOP_SECONDS`` is killed, and named."""
    for process in processes.values():
        signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for name, process in processes.items():
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"{name} did not stop within {STOP_SECONDS} s; killed", file=sys.stderr)
            signal_group(process, signal.SIGKILL)
            process.wait()


def signal_group(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
    """Send a signal to a server's process group; one that is gone already is fine."""
    try:
        os.killpg(process.pid, what)
    except ProcessLookupError:
        return
