"""The pictures of both UIs in the docs: a study started from its form, then looked at. Run by ``make screenshots``."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from conf.load import load_study
from flows.known import remember
from tasks.store import Store
from tests.browsing import blank_page, browser, choose, open_form, submit, switch_on
from tests.conftest import ROOT
from tests.servers import Servers, serving

OUT = ROOT / "docs" / "images"
SMALL = ["explain.samples=6", "data.synthetic.stays=800", "model.epochs=6"]
METHOD_ROWS = "tags.stage = 'method' and tags.latest = 'true'"
SETTLED_MS = 4000


def main() -> None:
    """Write the pictures into docs/images."""
    with TemporaryDirectory(prefix="ordeval-screenshots-") as folder:
        study = load_study(ROOT / "conf" / "synthetic.yaml", [*SMALL, f"storage={folder}/store"])
        with serving(Path(folder)) as servers, browser() as started, blank_page(started) as page:
            remember(study, Store(Path(folder) / "store"))
            forms = servers.deployments()
            open_form(page, servers.prefect, forms["rerun"])
            run_id = submit(page)
            state = servers.ended(run_id)
            if state["type"] != "COMPLETED":
                raise SystemExit(f"the study did not complete: {state}")
            prefect_pictures(page, servers, forms, run_id)
            mlflow_pictures(page, servers)


def prefect_pictures(page: Page, servers: Servers, forms: dict[str, dict], run_id: str) -> None:
    """Take the filled form of a rerun, and the table that a flow run leaves."""
    open_form(page, servers.prefect, forms["rerun"])
    choose(page, "Method", "kernelshap")
    switch_on(page, "Force")
    take(page, "prefect-rerun.png")
    found = servers.api("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run_id]}}})
    table = next(item for item in found if item["key"] == "synthetic-comparison")
    page.goto(f"{servers.prefect}/artifacts/artifact/{table['id']}", wait_until="domcontentloaded")
    page.get_by_text("Inclusion AUC").first.wait_for()
    take(page, "prefect-table.png")


def mlflow_pictures(page: Page, servers: Servers) -> None:
    """Take the charts of the curves, and the comparison of the summary run."""
    summary = servers.runs("synthetic", "tags.stage = 'summary'")[0]["info"]
    base = f"{servers.mlflow}/#/experiments/{summary['experiment_id']}/runs"
    rows = f"{base}?workflowType=machine_learning&searchFilter={METHOD_ROWS}&compareRunsMode=CHART"
    page.goto(rows, wait_until="domcontentloaded")
    page.locator(".js-plotly-plot").nth(3).wait_for()
    take(page, "mlflow-charts.png")
    page.goto(f"{base}/{summary['run_id']}/artifacts/comparison.html", wait_until="domcontentloaded")
    page.frame_locator("iframe").locator("tbody tr").first.wait_for()
    take(page, "mlflow-comparison.png")


def take(page: Page, name: str) -> None:
    """Write what is seen of the page, once it has settled."""
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=OUT / name)


if __name__ == "__main__":
    main()
