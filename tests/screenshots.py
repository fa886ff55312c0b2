"""The pictures in the docs: a study started from its form, then looked at. Run by ``make screenshots``."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page

from conf.load import load_study
from flows.known import remember
from tasks.store import Store
from tests.browsing import blank_page, browser, choose, open_form, submit, switch_on
from tests.conftest import ROOT
from tests.servers import Servers, serving

OUT = ROOT / "docs" / "images"
BUDGET = 500
METHODS = [
    *({"method": method, "budget": BUDGET} for method in ("ordshap", "kernelshap", "sample_shapley", "lime")),
    *("loco", "integrated_gradients", "saliency", "random"),
]  # at most ten: MLflow draws no more at first
SMALL = ["explain.samples=10", "data.synthetic.stays=1500", f"explainers={json.dumps(METHODS)}"]
METHOD_ROWS = "tags.stage = 'method' and tags.latest = 'true'"
SETTLED_MS = 5000
STUDY_SECONDS = 3600  # on a machine that does other things as well
LARGE = 200_000  # bytes
WHOLE = {"x": 0, "y": 0, "width": 1500, "height": 1000}


def main() -> None:
    """Write the pictures into docs/images."""
    with TemporaryDirectory(prefix="ordeval-screenshots-") as folder:
        storage = Path(folder) / "store"
        study = load_study(ROOT / "conf" / "synthetic.yaml", [*SMALL, f"storage={storage}"])
        with serving(Path(folder)) as servers, browser() as started, blank_page(started) as page:
            remember(study, Store(storage))
            forms = servers.deployments()
            open_form(page, servers.prefect, forms["rerun"])
            run_id = submit(page)
            state = servers.ended(run_id, STUDY_SECONDS)
            if state["type"] != "COMPLETED":
                raise SystemExit(f"the study did not complete: {state}")
            prefect_pictures(page, servers, forms, run_id)
            mlflow_pictures(page, servers)
            report_picture(page, next((storage / "report").glob("*/report.html")))


def prefect_pictures(page: Page, servers: Servers, forms: dict[str, dict], run_id: str) -> None:
    """Take the filled form of a rerun, the page of a flow run, and the table that it leaves."""
    open_form(page, servers.prefect, forms["rerun"])
    choose(page, "Method", "kernelshap")
    switch_on(page, "Force")
    take(page, "prefect-rerun.png")
    page.goto(f"{servers.prefect}/runs/flow-run/{run_id}", wait_until="domcontentloaded")
    page.get_by_text("explain kernelshap: done").first.wait_for()
    take(page, "prefect-run.png")
    found = servers.api("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run_id]}}})
    table = next(item for item in found if item["key"] == "synthetic-comparison")
    page.goto(f"{servers.prefect}/artifacts/artifact/{table['id']}", wait_until="domcontentloaded")
    page.get_by_text("Inclusion AUC").first.wait_for()
    take(page, "prefect-table.png", {**WHOLE, "height": 640})


def mlflow_pictures(page: Page, servers: Servers) -> None:
    """Take the charts of the curves, and the comparison of the summary run."""
    summary = servers.runs("synthetic", "tags.stage = 'summary'")[0]["info"]
    base = f"{servers.mlflow}/#/experiments/{summary['experiment_id']}/runs"
    rows = f"{base}?workflowType=machine_learning&searchFilter={METHOD_ROWS}&compareRunsMode=CHART"
    page.goto(rows, wait_until="domcontentloaded")
    page.locator(".js-plotly-plot").nth(3).wait_for()
    take(page, "mlflow-charts.png")
    page.goto("about:blank")
    page.goto(f"{base}/{summary['run_id']}/artifacts/comparison.html", wait_until="domcontentloaded")
    page.frame_locator("iframe").locator("tbody tr").first.wait_for()
    take(page, "mlflow-comparison.png")


def report_picture(page: Page, report: Path) -> None:
    """Take one sample of the report, its chosen token moved to the first slot."""
    page.set_viewport_size({"width": 1000, "height": 1000})
    page.goto(report.as_uri())
    page.get_by_label("Slot of the moving token").press("Home")
    page.get_by_role("heading", name="Single samples").evaluate("(heading) => heading.scrollIntoView()")
    take(page, "report-sample.png")


def take(page: Page, name: str, clip: dict | None = None) -> None:
    """Write what is seen of the page, once it has settled; with 256 colours where it is large."""
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=OUT / name, clip=clip)
    if (OUT / name).stat().st_size > LARGE:
        with Image.open(OUT / name) as seen:
            few = seen.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(OUT / name, optimize=True)


if __name__ == "__main__":
    main()
