"""In a browser: every form, a study and a rerun started from them, and what both UIs then show."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.servers import FIRST, Servers, serving
from tests.studies import TINY

pytest.importorskip("playwright", reason="no playwright here: pip install playwright")
browsing = pytest.importorskip("tests.browsing")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here: apt-get install chromium"),
]
METHODS = {"kernelshap", "random"}
STAGES = {"preprocess", "train", "explain", "evaluate", "timing", "report"}
METHOD_ROWS = "tags.stage = 'method' and tags.latest = 'true'"


@pytest.fixture(scope="module")
def servers(tmp_path_factory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("ui")) as started:
        yield started


@pytest.fixture(scope="module")
def forms(servers) -> dict[str, dict]:
    return servers.deployments()


@pytest.fixture(scope="module")
def page(servers) -> Iterator[Any]:
    with browsing.browser() as started, browsing.blank_page(started) as blank:
        yield blank


@pytest.fixture(scope="module")
def made(page, servers, forms) -> str:
    """Start the synthetic study from its form, another seed typed into it; return the flow run's id."""
    browsing.open_form(page, servers.prefect, forms["study"])
    browsing.fill(page, "Name", "from-form")
    browsing.fill(page, "Seed", "7")
    run_id = browsing.submit(page)
    state = servers.ended(run_id)
    assert state["type"] == "COMPLETED", state
    return run_id


def leaves(schema: dict, definitions: dict) -> Iterator[tuple[str, dict]]:
    """Yield every field of a form, those of its sections and lists too."""
    for name, field in schema["properties"].items():
        yield name, field
        for section in sections_of(field):
            yield from leaves(definitions[section], definitions)


def sections_of(field: dict) -> list[str]:
    """Return the names of the sections that a field holds: one, or a list's."""
    parts = (field, *field.get("allOf", []), field.get("items", {}))
    return [part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part]


def test_every_field_has_title_and_description_and_a_typed_control(forms):
    assert set(forms) == {"study", "rerun"} | STAGES
    for deployment, item in forms.items():
        schema = item["parameter_openapi_schema"]
        for name, field in leaves(schema, schema["definitions"]):
            told = [field, *(schema["definitions"][place] for place in sections_of(field))]
            assert any(part.get("title") for part in told), (deployment, name)
            assert any(part.get("description") for part in told), (deployment, name)
            typed = field.get("type") in ("string", "integer", "number", "boolean", "array")
            assert typed or "$ref" in str(field), (deployment, name, field)
            assert "anyOf" not in field and "additionalProperties" not in field, (deployment, name)
    assert len(item["parameter_openapi_schema"]["properties"]["study"]["enum"]) > 1


@pytest.mark.parametrize("name", sorted({"study", "rerun"} | STAGES))
def test_each_form_opens_with_its_titles(page, servers, forms, name):
    browsing.open_form(page, servers.prefect, forms[name])
    for told in forms[name]["parameter_openapi_schema"]["properties"].values():
        browsing.field(page, told["title"]).wait_for()
        page.get_by_text(told["description"]).last.wait_for()
    assert "JSON" not in page.locator("form").inner_text() and page.locator(".cm-editor, .p-code-input").count() == 0
    if name == "study":
        assert page.locator(".p-select-button__control", has_text="kernelshap").count() == 1
        assert browsing.field(page, "Options").locator("textarea").input_value() == "budget=120"


def test_a_study_started_from_its_form_shows_progress_table_and_links(page, servers, made):
    name = servers.api(f"flow_runs/{made}")["name"]
    assert name == "from-form"
    found = servers.api("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [made]}}})
    artifacts = {item["key"]: item for item in found}
    assert "from-form-train-epochs" in artifacts
    for method in METHODS:
        told = artifacts[f"from-form-explain-{method}-samples"]
        assert told["type"] == "progress" and float(told["data"]) == 100
        assert re.search(r": 6 of 6, [\d.e+]+ a (second|minute), \d+ s in all", told["description"]), told
    page.goto(f"{servers.prefect}/runs/flow-run/{made}", wait_until="domcontentloaded")
    page.get_by_text("explain kernelshap: done after").first.wait_for()
    page.get_by_text("Artifacts", exact=True).first.click()
    page.get_by_text("Methods x metrics").first.wait_for()
    page.goto(f"{servers.prefect}/artifacts/artifact/{artifacts['from-form-comparison']['id']}")
    page.get_by_text("Inclusion AUC").first.wait_for()
    page.goto(f"{servers.prefect}/artifacts/artifact/{artifacts['from-form-links']['id']}")
    link = page.get_by_role("link", name="The report in MLflow")
    assert link.get_attribute("href").startswith(f"{servers.mlflow}/#/experiments/")


def test_mlflow_shows_the_methods_as_rows_charts_and_a_ranked_table(page, servers, made):
    summary = servers.runs("from-form", "tags.stage = 'summary'")[0]
    experiment, run_id = summary["info"]["experiment_id"], summary["info"]["run_id"]
    assert summary["tags"]["prefect_run"] == made and "| Method | Mean rank |" in summary["tags"]["mlflow.note.content"]
    base = f"{servers.mlflow}/#/experiments/{experiment}/runs"
    rows = f"{base}?workflowType=machine_learning&searchFilter={METHOD_ROWS}"
    page.goto(rows, wait_until="domcontentloaded")
    for method in METHODS:
        page.get_by_text(f"from-form / {method} / seed 7").first.wait_for()
    page.goto(f"{rows}&compareRunsMode=CHART", wait_until="domcontentloaded")
    page.get_by_text("curve/inc_auc", exact=True).first.wait_for()
    page.locator(".js-plotly-plot").first.wait_for()
    page.goto(f"{base}/{run_id}/artifacts/comparison.html", wait_until="domcontentloaded")
    frames = page.frame_locator("iframe")
    assert frames.locator("tbody tr").first.locator("small").last.inner_text().startswith("rank ")
    page.goto("about:blank")  # MLflow reads the address once: on its open page a new one would change nothing
    page.goto(f"{base}/{run_id}/artifacts/report/report.html", wait_until="domcontentloaded")
    frames.get_by_role("heading", name="Report: from-form").wait_for()
    frames.get_by_role("link", name="Single samples").click()
    slider, moved = frames.get_by_label("Slot of the moving token"), frames.locator(".moving output")
    slider.press("Home")
    assert moved.inner_text().startswith("Slot 1 of ")
    slider.press("ArrowRight")
    assert moved.inner_text().startswith("Slot 2 of ")
    button = frames.locator("[data-toggle]").first
    button.click()
    assert button.get_attribute("aria-pressed") == "false"


def test_a_study_runs_with_servers_of_ones_own(servers, tmp_path):
    """The tracking server by an option, the Prefect server by a variable, as in docs/mlflow-prefect.md."""
    parts = [f"{part}={json.dumps(TINY[part])}" for part in ("data", "model", "explain", "evaluate", "timing")]
    options = [f"tracking_uri={servers.mlflow}", "name=own-servers", "explainers=[random]", f"storage={tmp_path}"]
    command = [sys.executable, "-m", "flows.cli", "run", "conf/synthetic.yaml", *options, "device=cpu", *parts]
    here = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    here |= {"PREFECT_API_URL": f"{servers.prefect}/api", "PREFECT_HOME": str(tmp_path / "prefect")}
    done = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{servers.mlflow}/#/experiments/" in done.stdout
    assert [run["tags"]["method"] for run in servers.runs("own-servers", METHOD_ROWS)] == ["random"]
    assert not (tmp_path / "mlflow.db").exists()
    kept = servers.api("flow_runs/filter", {"flow_runs": {"name": {"any_": ["own-servers"]}}})
    assert [run["state"]["type"] for run in kept] == ["COMPLETED"]


def test_one_method_is_made_again_with_three_fields(page, servers, forms, made):
    before = {run["tags"]["method"]: run["info"]["run_id"] for run in servers.runs("from-form", METHOD_ROWS)}
    browsing.open_form(page, servers.prefect, forms["rerun"])
    browsing.choose(page, "Study", "from-form")
    browsing.choose(page, "Method", "kernelshap")
    browsing.switch_on(page, "Force")
    state = servers.ended(browsing.submit(page))
    assert state["type"] == "COMPLETED", state
    after = {run["tags"]["method"]: run["info"]["run_id"] for run in servers.runs("from-form", METHOD_ROWS)}
    assert set(after) == set(before) == METHODS == {"kernelshap", FIRST["explainers"][1]}
    assert after["kernelshap"] != before["kernelshap"] and after["random"] == before["random"]
    newest = servers.runs("from-form", "tags.stage = 'summary'")[0]["tags"]
    assert {newest[f"run.{method}"] for method in METHODS} == set(after.values())
    assert TINY["explain"]["samples"] == 6
