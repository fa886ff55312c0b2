"""The report in a browser: opened from a file with the network off, read by pointer and keyboard, printed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tasks.report import MethodView, SampleView, write_report, write_sample
from tests.test_report import sample_views, study
from tests.test_report_embed import EVIL, image_sample, large_page, text_sample

__all__ = ["large_page"]

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
MOVED = {1: np.array([0.2, 0.75, 0.5, np.nan]), 3: np.array([0.7, 0.7, 0.7, 0.75])}

CONTRAST = """() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, place) => sum + c * [.2126, .7152, .0722][place], 0);
  const back = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = channels(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0.5) return found;
    }
    return [255, 255, 255];
  };
  const unread = ["SCRIPT", "NOSCRIPT", "OPTION"];
  const said = [...document.querySelectorAll("body *")].filter((node) => !unread.includes(node.tagName)
    && node.getClientRects().length && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return said.map((node) => {
    const style = getComputedStyle(node);
    const [one, two] = [light(channels(node instanceof SVGElement ? style.fill : style.color)), light(back(node))];
    return [(Math.max(one, two) + .05) / (Math.min(one, two) + .05), node.tagName, node.textContent.slice(0, 40)];
  }).filter(([ratio]) => ratio < 4.5);
}"""
CONTROLS = """(wanted) => [...document.querySelectorAll("button, select, input, [tabindex], a[href], summary")]
  .filter((node) => !node.disabled && node.checkVisibility() && (wanted === "unreached" ? !node.dataset.reached
    : !(node.getAttribute("aria-label") || node.textContent.trim()))).map((node) => node.outerHTML)"""
SHOWN = """(method) => [...document.querySelectorAll(`[data-method="${method}"]`)]
  .filter((node) => node.getClientRects().length).length"""
FOCUSED = """() => {
  const at = document.activeElement;
  at.dataset.reached = 1;
  return [at.tagName, getComputedStyle(at).outlineStyle];
}"""
MOVING = """() => [...document.querySelectorAll("*")].map((node) => getComputedStyle(node))
  .filter((style) => style.transitionDuration !== "0s" || style.animationName !== "none").length"""


def samples() -> list[SampleView]:
    """Events with tokens that move and sets, events of hostile names, a text, an image, nothing."""
    first, second = sample_views()
    sets = pd.DataFrame({"set": [(0, 1), (1, 2)], "value": [-0.25, 0.5], "stderr": [0.01, np.nan]})
    view = replace(first.attributions["OrdShap"], sets=sets)
    first = replace(first, moved=MOVED, attributions={**first.attributions, "OrdShap": view})
    nothing = SampleView("ee", [], np.zeros(0), 0, 0.5, 0, {"OrdShap": MethodView(np.zeros(0))})
    return [first, replace(second, names=[EVIL, "VAL", "NIL"]), text_sample(), image_sample(), nothing]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = pd.DataFrame({"epoch": [1, 2], "train_loss": [0.7, 0.5], "validation_loss": [0.7, 0.6]})
    calibration = pd.DataFrame(
        {
            "samples": [9, 1],
            "predicted": [0.2, 0.9],
            "observed": [0.1, 1.0],
            "observed_low": [0.0, np.nan],
            "observed_high": [0.4, np.nan],
        }
    )
    results = study(samples=samples(), truth=None, history=history, calibration=calibration)
    return write_report(results, tmp_path_factory.mktemp("report"))["report.html"]


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Open a page from its file, the network off; afterwards nothing has been complained about or asked for."""
    said: list[str] = []
    contexts = []

    def opened(path: Path, viewport: dict[str, int] = DESK, **options: Any) -> Any:
        context = browser.new_context(viewport=viewport, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url == path.as_uri() or request.url.startswith("data:") else said.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


FRAMED = """(text) => {
  const frame = document.createElement("iframe");
  Object.assign(frame, { width: 900, height: 600, src: URL.createObjectURL(new Blob([text], { type: "text/html" })) });
  frame.sandbox = "allow-scripts";
  document.body.append(frame);
}"""


def choose_sample(page: Any, number: int) -> None:
    page.get_by_label("Sample", exact=True).select_option(str(number - 1))


def test_every_chart_is_drawn_with_a_name(visit, report):
    page = visit(report)
    assert page.title() == "Report: demo_1"
    assert page.locator("svg.plot").count() == 3 + 3 + 2 + 2 + 2, "differences, curves, cost, moving, model"
    for plot in page.locator("svg.plot, .field").all():
        assert len(plot.get_attribute("aria-label")) > 20
    assert page.locator("svg.plot text", has_text="NaN").count() == 0
    assert page.evaluate(CONTROLS, "nameless") == []


def test_a_legend_button_toggles_a_method_in_all_charts(visit, report):
    page = visit(report)
    buttons = page.locator('[data-toggle="0"]')
    assert buttons.count() == 4 and page.evaluate(SHOWN, 0) > 10
    buttons.nth(1).focus()
    page.keyboard.press("Space")
    assert page.evaluate(SHOWN, 0) == 0 and page.evaluate(SHOWN, 2) > 5
    assert {button.get_attribute("aria-pressed") for button in buttons.all()} == {"false"}
    page.get_by_label("Quality").select_option("1")
    choose_sample(page, 2)
    assert page.evaluate(SHOWN, 0) == 0, "what is drawn later stays without the method"
    page.keyboard.press("Tab")
    buttons.nth(3).focus()
    page.keyboard.press("Enter")
    assert page.evaluate(SHOWN, 0) > 10
    page.get_by_role("button", name="None", exact=True).first.click()
    assert [page.evaluate(SHOWN, method) for method in range(3)] == [0, 0, 0]


def test_values_by_pointer_and_by_arrow_keys(visit, report):
    page = visit(report)
    tip = page.locator("#tip")
    assert not tip.is_visible()
    curve = page.get_by_role("img", name="Line chart of Inclusion AUC")
    curve.hover()
    assert "OrdShap" in tip.inner_text() and "50 %" in tip.inner_text() and "0.5 (0.01)" in tip.inner_text()
    curve.focus()
    page.keyboard.press("End")
    assert "100 %" in tip.inner_text() and "1 (0.01)" in tip.inner_text()
    page.keyboard.press("ArrowLeft")
    assert "50 %" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.get_by_role("img", name="OrdShap, Seconds: 1230").focus()
    assert "Inclusion AUC: 0.8 (0.0577)" in tip.inner_text()


def test_any_metric_against_cost(visit, report):
    page = visit(report)
    page.get_by_label("Quality").select_option(label="Exclusion AUC")
    assert page.get_by_role("img", name="OrdShap, Seconds: 1230 (34.5), Exclusion AUC: 0.3 (0.1)").count() == 1
    assert page.get_by_role("img", name="random, Evaluations: 0 (–), Exclusion AUC: 0.8").count() == 1


def test_the_slider_moves_a_token(visit, report):
    page = visit(report)
    slider, output = page.get_by_label("Slot of the moving token"), page.locator(".moving output")
    assert page.get_by_label("Move").input_value() == "1", "the token whose moving changes most"
    assert output.inner_text() == "Slot 2 of 4: probability 0.75; where it was (slot 2): 0.75; change 0"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert "Slot 1 of 4: probability 0.2;" in output.inner_text() and "change −0.55" in output.inner_text()
    assert page.locator(".strip").inner_text().split()[:2] == ["VAL", "POS"], "the strip shows the new order"
    page.keyboard.press("End")
    assert "Slot 4 of 4: probability –" in output.inner_text(), "a missing output is a dash"
    page.locator(".tokens").get_by_role("button", name="A very long").click()
    assert page.get_by_label("Move").input_value() == "3" and "Slot 4 of 4: probability 0.75" in output.inner_text()
    assert page.locator("tr.chosen").get_attribute("data-token") == "3"


def test_one_sample_s_numbers(visit, report):
    page = visit(report)
    row = page.locator('tr[data-token="1"]')
    assert row.locator("td").all_inner_texts()[:5] == ["2", "4.0", "VAL", "−0.5", "+0.1"]
    assert row.get_by_role("img", name="random: +0.2").count() == 1
    field = page.locator(".field")
    field.focus()
    page.keyboard.press("ArrowRight")
    assert "in slot 2: –" in page.locator("#tip").inner_text(), "a cell without a draw"
    page.keyboard.press("ArrowRight")
    assert "in slot 3: +0.3" in page.locator("#tip").inner_text()
    pairs = page.locator("table", has_text="Standard error").locator("tbody tr").all_inner_texts()
    assert [pair.split("\t") for pair in pairs] == [
        ["VAL (2) + NIL (3)", "+0.5", "–"],
        ["POS (1) + VAL (2)", "−0.25", "0.01"],
    ]
    page.get_by_label("Bars, gamma and sets by").select_option(label="random")
    assert page.locator(".field").count() == 0 and page.get_by_text("Sets of events").count() == 0
    assert page.locator('tr[data-token="1"] td.bar').all_inner_texts() == ["+0.2"]


def test_events_text_images_and_nothing(visit, report):
    page = visit(report)
    page.get_by_role("button", name="Next →").click()
    assert page.locator(".moving").count() == 0 and page.locator("td.name").first.text_content() == EVIL
    assert page.title() == "Report: demo_1"
    choose_sample(page, 3)
    words = page.locator(".text").first.locator("mark")
    assert words.all_inner_texts() == ["not", "a", "bad", "film", "."]
    assert words.nth(2).evaluate("(word) => getComputedStyle(word).textDecorationLine") == "underline"
    assert words.nth(2).evaluate("(word) => getComputedStyle(word).backgroundColor") == "rgb(45, 0, 75)"
    choose_sample(page, 4)
    assert page.locator(".overlays canvas").count() == 3 and page.locator(".tokens").count() == 0
    first = "(canvas) => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]"
    assert page.locator("canvas").nth(1).evaluate(first) == [45, 0, 75, 255]
    choose_sample(page, 5)
    assert page.get_by_text("Nothing to explain").is_visible()
    assert page.get_by_role("button", name="Next →").is_disabled()


def test_text_can_be_read_on_its_background(visit, report):
    page = visit(report)
    for number in range(1, 6):
        choose_sample(page, number)
        assert page.evaluate(CONTRAST) == []
    page.get_by_role("button", name="None", exact=True).first.click()
    assert page.evaluate(CONTRAST) == []


def test_every_control_is_reached_by_tab_and_shows_it(visit, report):
    page = visit(report)
    reached = set()
    for _ in range(300):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(FOCUSED)
        if name == "BODY":
            break
        reached.add(name.lower())
        assert outline != "none", name
    assert reached >= {"a", "button", "select", "input", "svg", "div", "g", "summary"}
    assert page.evaluate(CONTROLS, "unreached") == []


def test_works_in_a_sandboxed_frame_as_mlflow_shows_it(browser, report):
    context = browser.new_context(viewport=DESK, offline=True, reduced_motion="reduce")
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.evaluate(FRAMED, report.read_text(encoding="utf-8"))
    shown = page.frame_locator("iframe")
    assert shown.get_by_role("heading", name="Report: demo_1").is_visible() and shown.locator("svg.plot").count() == 12
    section = shown.locator("section", has=shown.get_by_role("heading", name="Single samples"))
    assert section.evaluate("(node) => node.getBoundingClientRect().top") > 600
    shown.get_by_role("link", name="Single samples").click()
    assert abs(section.evaluate("(node) => node.getBoundingClientRect().top")) < 50
    shown.get_by_label("Slot of the moving token").press("ArrowLeft")
    assert "Slot 1 of 4: probability 0.2;" in shown.locator(".moving output").inner_text()
    context.close()
    assert said == []


def test_narrow_and_still(visit, report):
    page = visit(report, PHONE, reduced_motion="reduce")
    for number in range(1, 5):
        choose_sample(page, number)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    assert page.evaluate(MOVING) == 0


def test_prints(visit, report):
    page = visit(report)
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and page.locator("svg.plot").first.is_visible()
    assert page.locator(".tokens").first.evaluate("(box) => box.scrollHeight <= box.clientHeight"), "nothing is cut off"


def test_one_sample_alone(visit, tmp_path):
    page = visit(write_sample(study(samples=samples(), truth=None), "text", tmp_path))
    assert page.locator(".text").count() == 2 and page.get_by_label("Sample", exact=True).count() == 0
    assert page.get_by_role("navigation").count() == 0


def test_two_hundred_samples_are_usable_within_two_seconds(visit, large_page):
    """Parsed, drawn, another sample chosen and drawn: the page's processor time, as other programs run meanwhile."""
    page = visit(large_page)
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    choose_sample(page, 200)
    assert page.locator('tr[data-token="149"]').count() == 1
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 0)))")
    spent = {part["name"]: part["value"] for part in meter.send("Performance.getMetrics")["metrics"]}
    assert 0 < spent["TaskDuration"] < 2, spent
