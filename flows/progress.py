"""What a person sees on the terminal: one line a piece of work, then the comparison table and where to look."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from rich.console import Console

from tasks.report import StudyResults, console_table

LINE_SECONDS = 10.0


class Reporter:
    """Prints progress lines, at most one in ten seconds for each piece of work, and its end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started: dict[str, float] = {}
        self.printed: dict[str, float] = {}

    def __call__(self, what: str, done: int, of: int) -> None:
        """Report that ``done`` of ``of`` are finished."""
        now = time.monotonic()
        begun = self.started.setdefault(what, now)
        last = self.printed.get(what, 0.0)
        if done >= of or now - last >= LINE_SECONDS:
            self.printed[what] = now
            self.console.print(f"  {what}: {done} of {of} ({now - begun:.0f} s)", highlight=False)

    def table(self, results: StudyResults, page: Path, uri: str, link: str) -> None:
        """Print the comparison table, and where the report and the UIs are."""
        self.console.print(console_table(results))
        self.console.print(f"\nReport: {page}", soft_wrap=True, highlight=False)
        self.console.print(f"MLflow: {uri} {link}", soft_wrap=True, highlight=False)
        self.console.print("Both UIs: `make ui` (or `ordeval ui`), then open the addresses it prints.", highlight=False)


@cache
def reporter() -> Reporter:
    """Return the process's reporter."""
    return Reporter(Console())
