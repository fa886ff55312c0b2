"""Debian's chromium, headless, on the pages of both UIs: what the browser tests and the screenshots share."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator, Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1500, "height": 1000}
WAIT_MS = 120_000
FIELD = ".schema-form-property"
NO_ASSISTANT = """
if (window === top && location.protocol.startsWith("http")) {
  localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true");
  localStorage.setItem("mlflow.assistant.panelOpen_v1", "false");
}
"""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield started
        started.close()


@contextmanager
def blank_page(there: Browser) -> Iterator[Page]:
    """Open a page in a session of its own, with MLflow's chat panel closed."""
    context = there.new_context(viewport=WIDE)
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(NO_ASSISTANT)
    yield context.new_page()
    context.close()


def open_form(page: Page, prefect: str, deployment: dict) -> None:
    """Open the form of a deployment."""
    page.goto(f"{prefect}/deployments/deployment/{deployment['id']}/run", wait_until="domcontentloaded")
    page.locator(FIELD).first.wait_for()


def field(page: Page, title: str) -> Locator:
    """Return the innermost field of a form with this title, the first of several."""
    label = page.locator(".schema-form-property__label", has_text=re.compile(rf"^{re.escape(title)}( \(Optional\))?$"))
    return label.first.locator("xpath=ancestor::div[contains(concat(@class, ' '), ' schema-form-property ')][1]")


def fill(page: Page, title: str, text: str) -> None:
    """Type into a field of text or number."""
    field(page, title).locator("textarea, input").first.fill(text)


def choose(page: Page, title: str, option: str) -> None:
    """Choose one option of a select."""
    button = field(page, title).locator(".p-select-button__control")
    button.focus()
    button.press("Space")
    page.locator(".p-select-option").get_by_text(option, exact=True).click()


def switch_on(page: Page, title: str) -> None:
    """Switch a field on."""
    field(page, title).get_by_role("switch").click()


def submit(page: Page) -> str:
    """Start the run of the form, and return the flow run's id."""
    with page.expect_response("**/create_flow_run") as answer:
        page.get_by_role("button", name="Submit").click()
    assert answer.value.ok, answer.value.text()
    return str(answer.value.json()["id"])
