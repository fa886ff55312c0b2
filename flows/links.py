"""Addresses of what a study left behind: pages of the MLflow and Prefect UIs."""

from __future__ import annotations

import os
from urllib.parse import quote

from conf.schema import Study
from flows.environment import MLFLOW_UI
from tasks.store import Store
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
    return (
        f"{mlflow_ui(tracker.uri)}/#/experiments/{tracker.experiment_id}/runs?workflowType=machine_learning{filtered}"
    )


def charts_page(tracker: Tracker) -> str:
    """Return the page of the charts that compare a study's latest method rows."""
    return f"{experiment_page(tracker, METHOD_ROWS)}&compareRunsMode=CHART"


def run_page(tracker: Tracker, run_id: str, artifact: str = "") -> str:
    """Return the page of one run, or of an artifact of it."""
    place = f"/artifacts/{quote(artifact)}" if artifact else ""
    return f"{mlflow_ui(tracker.uri)}/#/experiments/{tracker.experiment_id}/runs/{run_id}{place}"


def addresses(study: Study) -> dict[str, str]:
    """Return where a study that has run is: pages of both UIs, and of its newest report where there is one.

    Raises:
        ValueError: the study has not run in its storage, or the tracking server cannot be used.
    """
    store = Store(study.storage)
    tracker = Tracker.connect(study.tracking_uri, store.root, study.name, {}, make=False)
    found = {
        "experiment": experiment_page(tracker),
        "methods": experiment_page(tracker, METHOD_ROWS),
        "charts": charts_page(tracker),
    }
    summary = tracker.newest_report()
    if summary is not None:
        run_id = summary.info.run_id
        found |= {"summary": run_page(tracker, run_id)}
        found |= {"comparison": run_page(tracker, run_id, "comparison.html")}
        found |= {"report": run_page(tracker, run_id, "report/report.html")}
        page = store.folder("report", summary.data.tags["report"]) / "report.html"
        found |= {"report file": str(page)} if page.is_file() else {}
    return found | {"prefect": f"{prefect_ui()}/deployments"}
