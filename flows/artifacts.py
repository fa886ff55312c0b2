"""What a flow run shows in the Prefect UI: progress while it works, then the comparison table and where to look."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, create_table_artifact
from prefect.artifacts import update_progress_artifact as update_progress

from flows.context import Context
from flows.links import METHOD_ROWS, charts_page, experiment_page, run_page
from flows.logs import log
from flows.progress import Pace, reporter
from flows.steps import MethodRun
from tasks.report import StudyResults
from tasks.report.table import compare
from tasks.tracking import shown

UPDATE_SECONDS = 1.0


class ArtifactProgress:
    """Shows progress on the terminal and as Prefect progress artifacts, one for each piece of work."""

    def __init__(self, study: str) -> None:
        self.study = study
        self.artifacts: dict[str, Any] = {}
        self.paces: dict[str, Pace] = {}
        self.told: dict[str, float] = {}

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        """Report that ``done`` of ``of`` are finished, with a ``note`` on how it goes."""
        reporter()(what, done, of, note)
        now = time.monotonic()
        pace = self.paces.setdefault(what, Pace(now, done))
        percent = 100.0 * done / max(of, 1)
        said = f"{what}: {pace.line(done, of, now)}{f', {note}' if note else ''}"
        if done >= of:
            log.info(said)
        if what not in self.artifacts:
            self.artifacts[what] = create_progress_artifact(percent, key=key(self.study, what), description=said)
        elif done >= of or now - self.told[what] >= UPDATE_SECONDS:
            update_progress(self.artifacts[what], progress=percent, description=said)
        else:
            return
        self.told[what] = now


def key(*parts: str) -> str:
    """Return an artifact key: lower-case letters, digits and single dashes.

    >>> key("eICU los", "explain ordshap.2, samples")
    'eicu-los-explain-ordshap-2-samples'
    """
    return re.sub("[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


def show_results(context: Context, runs: list[MethodRun], results: StudyResults, page: Path, summary: str) -> None:
    """Show the comparison table and the links in Prefect, and both on the terminal."""
    create_table_artifact(table_rows(results), key=key(results.name, "comparison"), description="Methods x metrics")
    log.info("report: %s", page)
    links = markdown_links(context, runs, page, summary)
    create_markdown_artifact(links, key=key(results.name, "links"), description="MLflow runs and the report")
    reporter().table(results, page, shown(context.tracker.uri), experiment_page(context.tracker))


def table_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return the comparison table as one mapping a method."""
    comparison = compare(results)
    headers, cells = comparison.headers(), comparison.cells()
    return [
        {"Method": method, **{header: cell.line() for header, cell in zip(headers, row, strict=True)}}
        for method, row in zip(comparison.methods, cells, strict=True)
    ]


def markdown_links(context: Context, runs: list[MethodRun], page: Path, summary: str) -> str:
    """Return the addresses of the experiment, the report and each method's run as Markdown."""
    tracker = context.tracker
    lines = [
        f"- [The report in MLflow]({run_page(tracker, summary, 'report/report.html')}); on this machine: `{page}`",
        f"- [All methods as rows]({experiment_page(tracker, METHOD_ROWS)})",
        f"- [All methods as charts]({charts_page(tracker)})",
        f"- [The summary run]({run_page(tracker, summary)})",
    ]
    return "\n".join([*lines, *(f"- [{run.method.label}]({run_page(tracker, run.run_id)})" for run in runs)]) + "\n"
