"""What a person sees on the terminal: bars (lines where it is piped), then the comparison table and where to look."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from tasks.report import StudyResults, console_table

LINE_SECONDS = 10.0


@dataclass(frozen=True)
class Pace:
    """When a piece of work began, and how much of it was there already.

    Attributes:
        begun: seconds on the monotonic clock.
        there: what an earlier run had finished.
    """

    begun: float
    there: int

    def line(self, done: int, of: int, now: float) -> str:
        """Return what is done, how fast, and how long the rest takes at that rate.

        >>> Pace(100.0, 0).line(6, 24, 103.0)
        '6 of 24, 2 a second, 9 s left'
        >>> Pace(100.0, 4).line(24, 24, 300.0)
        '24 of 24, 6 a minute, 200 s in all'
        >>> Pace(100.0, 4).line(4, 24, 100.0)
        '4 of 24'
        """
        seconds, fresh = now - self.begun, done - self.there
        said = f"{done} of {of}"
        if fresh <= 0 or seconds <= 0:
            return said
        rate = fresh / seconds
        pace = f"{rate:.3g} a second" if rate >= 1 else f"{60 * rate:.3g} a minute"
        rest = f"{seconds:.0f} s in all" if done >= of else f"{(of - done) / rate:.0f} s left"
        return f"{said}, {pace}, {rest}"


class Reporter:
    """Shows each piece of work: a bar on a terminal, elsewhere a line at most every ten seconds and at its end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.paces: dict[str, Pace] = {}
        self.printed: dict[str, float] = {}
        self.bars: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        """Report that ``done`` of ``of`` are finished, with a ``note`` on how it goes."""
        now = time.monotonic()
        pace = self.paces.setdefault(what, Pace(now, done))
        if done >= of:
            del self.paces[what]
        said = pace.line(done, of, now).partition(", ")[2] + (f"; {note}" if note else "")
        if self.console.is_terminal:
            self.bar(what, done, of, said)
        elif done >= of or now - max(pace.begun, self.printed.get(what, pace.begun)) >= LINE_SECONDS:
            self.printed[what] = now
            self.console.print(f"  {what}: {done} of {of}{f', {said}' if said else ''}", highlight=False)

    def bar(self, what: str, done: int, of: int, said: str) -> None:
        """Move the bar of a piece of work; bars are shown while some work is unfinished."""
        if self.bars is None:
            texts = (TextColumn("  {task.description}"), TextColumn("{task.fields[said]}"))
            self.bars = Progress(texts[0], BarColumn(), MofNCompleteColumn(), texts[1], console=self.console)
            self.bars.start()
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=of, said=said)
        self.bars.update(self.tasks[what], completed=done, said=said)
        if all(task.finished for task in self.bars.tasks):
            self.close()

    def close(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        if self.bars is not None:
            self.bars.stop()
        self.bars, self.tasks = None, {}

    def warn(self, message: str) -> None:
        """Print a warning, above the bars where there are some."""
        self.console.print(f"  warning: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)

    def table(self, results: StudyResults, page: Path, uri: str, link: str) -> None:
        """Print the comparison table, and where the report and the UIs are."""
        self.close()
        self.console.print(console_table(results))
        self.console.print(f"\nReport: {page}", soft_wrap=True, highlight=False)
        self.console.print(f"MLflow: {link} (of {uri})", soft_wrap=True, highlight=False)
        self.console.print("Both UIs: `make ui` (or `ordeval ui`), then open the addresses it prints.", highlight=False)


@cache
def terminal() -> Reporter:
    """Return the process's reporter."""
    return Reporter(Console())


def reporter(beside: bool = False) -> Reporter:
    """Return the process's reporter; ``beside`` moves it to stderr, where stdout is for machines."""
    if beside:
        terminal().console = Console(stderr=True)
    return terminal()
