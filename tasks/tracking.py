"""All of MLflow: experiments, flat runs tied by tags, metrics in batches, and runs that died.

Everything goes through one client with explicit run ids; the implicit active run is never used.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import mlflow
import pandas as pd
import psutil
from mlflow.entities import Dataset, DatasetInput, Experiment, InputTag, Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException

from tasks.store import DATABASE, Store

log = logging.getLogger(__name__)

MOST_METRICS = 1000
MOST_PARAMS = 100
LONGEST_PARAM = 6000
PACKAGES = ("ordeval", "torch", "transformers", "datasets", "captum", "scikit-learn", "mlflow", "prefect", "numpy")
REACH_SECONDS = 10


class TrackingError(ValueError):
    """The tracking server cannot be used; the message says which and what to do."""


@dataclass(frozen=True)
class Tracker:
    """One study's experiment on one tracking server."""

    client: mlflow.MlflowClient
    uri: str
    experiment_id: str
    tags: Mapping[str, str]

    @classmethod
    def connect(cls, uri: str, storage: Path, study: str, tags: Mapping[str, str], make: bool = True) -> Tracker:
        """Return the tracker of ``study``; makes database and experiment once, and closes runs whose process died.

        Args:
            uri: MLflow tracking URI; empty is a sqlite database in ``storage``.
            storage: folder for that database and its artifacts.
            study: name of the experiment.
            tags: set on every run that this tracker starts.
            make: make the experiment where there is none.

        Raises:
            TrackingError: the server cannot be reached or refuses, or there is no experiment and none is to be made.
        """
        own, uri = not uri, uri or f"sqlite:///{storage.resolve()}/mlflow.db"
        reach(uri)
        try:
            # two processes that make one database at the same time break it
            with Store(storage).lock(DATABASE) if own else nullcontext():
                client = mlflow.MlflowClient(uri, registry_uri=uri)
                if not make and client.get_experiment_by_name(study) is None:
                    told = f"study {study!r} has not run at {shown(uri)}"
                    raise TrackingError(f"{told}; run it, or give its storage folder")
                tracker = cls(client, uri, experiment_id(client, uri, storage, study), dict(tags))
        except (MlflowException, ImportError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise TrackingError(f"MLflow at {shown(uri)} refused: {reason}; check tracking_uri") from error
        tracker.sweep()
        return tracker

    @contextmanager
    def run(self, name: str, tags: Mapping[str, str], run_id: str = "") -> Iterator[str]:
        """Start a run, or go on with ``run_id``; close it as FINISHED, FAILED (an error) or KILLED (a signal)."""
        if run_id:
            self.client.update_run(run_id, status="RUNNING")
            if "error" in self.client.get_run(run_id).data.tags:
                self.client.delete_tag(run_id, "error")
            self.set_tags(run_id, {**process_tags(), **tags})
        else:
            merged = {**environment_tags(), **process_tags(), **self.tags, **tags}
            run_id = self.client.create_run(self.experiment_id, run_name=name, tags=merged).info.run_id
        status = "KILLED"
        try:
            yield run_id
            status = "FINISHED"
        except Exception as error:
            status = "FAILED"
            self.set_tags(run_id, {"error": f"{type(error).__name__}: {error}"[:1000]})
            raise
        finally:
            self.client.set_terminated(run_id, status)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on a run."""
        self.client.log_batch(run_id, tags=[RunTag(key, str(value)) for key, value in tags.items()])

    def params(self, run_id: str, params: Mapping[str, object]) -> None:
        """Log params; values over the server's limit are cut with an ellipsis (the conf artifact has them whole)."""
        entries = [Param(key, cut(str(value))) for key, value in params.items()]
        for start in range(0, len(entries), MOST_PARAMS):
            self.client.log_batch(run_id, params=entries[start : start + MOST_PARAMS])

    def metrics(self, run_id: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics in batches; what is not finite is left out and named in the tag ``not_finite``."""
        self.metric_rows(run_id, [(name, value, step) for name, value in metrics.items()])

    def metric_rows(self, run_id: str, rows: list[tuple[str, float, int]]) -> None:
        """Log (name, value, step) rows in batches; what is not finite is left out and named in ``not_finite``."""
        now = int(time.time() * 1000)
        finite = [Metric(name, float(value), now, step) for name, value, step in rows if math.isfinite(value)]
        skipped = {f"{name}@{step}" if step else name for name, value, step in rows if not math.isfinite(value)}
        for start in range(0, len(finite), MOST_METRICS):
            self.client.log_batch(run_id, metrics=finite[start : start + MOST_METRICS])
        if skipped:
            before = self.client.get_run(run_id).data.tags.get("not_finite", "")
            named = skipped | set(filter(None, before.split(", ")))
            self.set_tags(run_id, {"not_finite": cut(", ".join(sorted(named)))})

    def artifact(self, run_id: str, path: Path, folder: str | None = None) -> None:
        """Log a file, or everything in a folder."""
        if path.is_dir():
            self.client.log_artifacts(run_id, str(path), folder)
        else:
            self.client.log_artifact(run_id, str(path), folder)

    def table(self, run_id: str, frame: pd.DataFrame, name: str) -> None:
        """Log a data frame as a CSV artifact called ``name``."""
        self.client.log_text(run_id, frame.to_csv(index=False), name)

    def json(self, run_id: str, content: dict[str, Any], name: str) -> None:
        """Log JSON as an artifact called ``name``."""
        self.client.log_dict(run_id, content, name)

    def dataset(self, run_id: str, name: str, digest: str, context: str) -> None:
        """Log an input data set by name and digest; its place on this machine is not told."""
        described = Dataset(name=name, digest=digest, source_type="local", source="{}")
        self.client.log_inputs(run_id, [DatasetInput(described, [InputTag("mlflow.data.context", context)])])

    def describe(self, note: str) -> None:
        """Set the description (Markdown) of this study's experiment."""
        self.client.set_experiment_tag(self.experiment_id, "mlflow.note.content", note)

    def find(self, **tags: str) -> Run | None:
        """Return the newest run of this experiment that has all ``tags``."""
        wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        runs = self.client.search_runs([self.experiment_id], wanted, max_results=1, order_by=["start_time DESC"])
        return runs[0] if runs else None

    def newest_report(self) -> Run | None:
        """Return the newest finished summary run that has a report."""
        wanted = "attributes.status = 'FINISHED' and tags.stage = 'summary' and tags.report != ''"
        runs = self.client.search_runs([self.experiment_id], wanted, max_results=1, order_by=["start_time DESC"])
        return runs[0] if runs else None

    def called(self, name: str) -> list[Run]:
        """Return the runs of this experiment with this name, newest first."""
        runs = self.client.search_runs([self.experiment_id], order_by=["start_time DESC"])
        return [run for run in runs if run.info.run_name == name]

    def get(self, run_id: str) -> Run:
        """Return a run.

        Raises:
            TrackingError: there is none with this id.
        """
        try:
            return self.client.get_run(run_id)
        except MlflowException as error:
            raise TrackingError(f"no run {run_id!r} at {shown(self.uri)}; copy the id from the MLflow UI") from error

    def make_latest(self, run_id: str, label: str, seed: int) -> None:
        """Tag ``run_id`` as its method's latest row, and take the tag from the rows that it replaces."""
        wanted = f"tags.stage = 'method' and tags.method = '{label}' and tags.seed = '{seed}' and tags.latest = 'true'"
        for run in self.client.search_runs([self.experiment_id], wanted):
            if run.info.run_id != run_id:
                self.set_tags(run.info.run_id, {"latest": "false"})
        self.set_tags(run_id, {"latest": "true"})

    def sweep(self) -> None:
        """Close this machine's runs that are RUNNING in no living process."""
        here = f"attributes.status = 'RUNNING' and tags.host = '{socket.gethostname()}'"
        for run in self.client.search_runs([self.experiment_id], here, run_view_type=ViewType.ACTIVE_ONLY):
            tags = run.data.tags
            if not alive(tags.get("pid", ""), tags.get("pid_started", "")):
                self.set_tags(run.info.run_id, {"error": "its process ended without closing it"})
                self.client.set_terminated(run.info.run_id, "KILLED")
                log.warning("run %s was left RUNNING by a process that is gone; marked KILLED", run.info.run_name)


def reach(uri: str) -> None:
    """Raise TrackingError, before any long work, where nothing can be tracked at a URI: MLflow itself retries for long.

    A server must answer something over HTTP, whatever it is, and a sqlite file must be one that can be written.
    """
    remedy = "or leave tracking_uri empty for a local sqlite"
    try:
        if uri.startswith(("http://", "https://")):
            answer(uri)
        elif uri.startswith("sqlite:///"):
            place = Path(uri.removeprefix("sqlite:///").partition("?")[0])
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("ab"):
                pass
    except (OSError, HTTPException, ValueError) as error:
        what = "the database cannot be written" if uri.startswith("sqlite") else "no MLflow server answers"
        advice = "give a place that can" if uri.startswith("sqlite") else "start it"
        raise TrackingError(f"{what} at {shown(uri)} ({error}); {advice}, {remedy}") from error


def answer(uri: str) -> None:
    """Raise OSError, HTTPException or ValueError where no HTTP server answers at ``uri`` within ``REACH_SECONDS``."""
    parsed = urlparse(uri)
    host = parsed.hostname or ""
    if parsed.scheme == "https":
        unchecked = ssl.create_default_context()  # nothing is told here; MLflow's own client checks certificates
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        connection: HTTPConnection = HTTPSConnection(host, parsed.port, timeout=REACH_SECONDS, context=unchecked)
    else:
        connection = HTTPConnection(host, parsed.port, timeout=REACH_SECONDS)
    try:
        connection.request("GET", f"{parsed.path.rstrip('/')}/health")
        connection.getresponse()
    finally:
        connection.close()


def shown(uri: str) -> str:
    """Return a URI without the user and password in it."""
    parsed = urlparse(uri)
    return parsed._replace(netloc=parsed.netloc.rpartition("@")[2]).geturl() if parsed.netloc else uri


def experiment_id(client: mlflow.MlflowClient, uri: str, storage: Path, study: str) -> str:
    """Return the experiment's id; made if there is none. Artifacts lie beside a local database."""
    found: Experiment | None = client.get_experiment_by_name(study)
    if found is not None and found.lifecycle_stage != "active":
        raise TrackingError(
            f"experiment {study!r} is deleted in MLflow; restore it there, or give the study another name"
        )
    if found is not None:
        return str(found.experiment_id)
    place = (storage.resolve() / "mlflow-artifacts").as_uri() if uri.startswith("sqlite") else None
    try:
        return str(client.create_experiment(study, artifact_location=place))
    except MlflowException:
        made = client.get_experiment_by_name(study)
        if made is None:
            raise
        return str(made.experiment_id)


def alive(pid: str, started: str) -> bool:
    """Return whether the process that started a run still lives (a reused process id does not count)."""
    try:
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < 2
    except (psutil.Error, ValueError):
        return False


def process_tags() -> dict[str, str]:
    """Return tags that tell which process writes to a run."""
    process = psutil.Process()
    return {"host": socket.gethostname(), "pid": str(process.pid), "pid_started": f"{process.create_time():.2f}"}


@cache
def environment_tags() -> dict[str, str]:
    """Return tags that tell the code and the software behind a run."""
    tags = {f"version.{name}": version(name) for name in PACKAGES}
    tags |= {"version.python": platform.python_version(), "git_commit": git_commit(), "mlflow.user": "ordeval"}
    return tags


def git_commit() -> str:
    """Return the commit of the code, with ``+changes`` where it has been edited; "none" outside a checkout."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty=+changes", "--abbrev=40", "--exclude=*"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    return answer.stdout.strip() or "none"


def cut(text: str) -> str:
    """Return ``text`` within the server's limit."""
    return text if len(text) <= LONGEST_PARAM else text[: LONGEST_PARAM - 1] + "…"
