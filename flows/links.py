"""Addresses of what a study left behind: pages of the MLflow and Prefect UIs."""

from __future__ import annotations

import os
from urllib.parse import quote

from flows.environment import MLFLOW_UI
from tasks.tracking import Tracker, shown

LOOPBACK_MLFLOW = "http://127.0.0.1:5000"
LOOPBACK_PREFECT = "http://127.0.0.1:4200"
METHOD_ROWS = "tags.stage = 'method' and tags.latest = 'true'"


def mlflow_ui(tracking_uri: str) -> str:
    """Return where the MLflow UI of a tracking URI is: the server itself, or for a local database `ordeval ui`'s."""
    if tracking_uri.startswith(("http://", "https://")):
        return shown(tracking_uri).rstrip("/")
    return os.environ.get(MLFLOW_UI, LOOPBACK_MLFLOW)


def prefect_ui() -> str:
    """Return where the Prefect UI is: the server that ``PREFECT_API_URL`` names, or `ordeval ui`'s."""
    api = os.environ.get("PREFECT_API_URL", "")
    return shown(api).removesuffix("/").removesuffix("/api") if api else LOOPBACK_PREFECT


def experiment_page(tracker: Tracker, rows: str = "") -> str:
    """Return the page of a study's runs; ``rows`` is a filter of them."""
    filtered = f"&searchFilter={quote(rows)}" if rows else ""
    return f"{mlflow_ui(tracker.uri)}/#/experiments/{tracker.experiment_id}/runs?workflowType=machine_learning{filtered}"


def charts_page(tracker: Tracker) -> str:
    """Return the page of the charts that compare a study's latest method rows."""
    return f"{experiment_page(tracker, METHOD_ROWS)}&compareRunsMode=CHART"


def run_page(tracker: Tracker, run_id: str, artifact: str = "") -> str:
    """Return the page of one run, or of an artifact of it."""
    place = f"/artifacts/{quote(artifact)}" if artifact else ""
    return f"{mlflow_ui(tracker.uri)}/#/experiments/{tracker.experiment_id}/runs/{run_id}{place}"
