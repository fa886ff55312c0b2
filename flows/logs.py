"""What a run says while it works: log lines, which Prefect keeps with the run and shows on its page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from flows.environment import OURS
from flows.steps import MethodRun, StageRun

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)


def told(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``step`` as a function that says when it begins and how it ends."""

    @wraps(step)
    def work(*arguments: Any) -> Any:
        log.info("%s: begins", name)
        began = time.monotonic()
        try:
            made = step(*arguments)
        except BaseException as error:
            how = "failed" if isinstance(error, Exception) else "was stopped"
            log.error("%s: %s after %.1f s: %s", name, how, time.monotonic() - began, error)
            raise
        log.info("%s: %s", name, outcome(made, time.monotonic() - began))
        return made

    return work


def outcome(made: Any, seconds: float) -> str:
    """Return how a step ended: its output made, or an earlier one found intact; with the MLflow run that has it."""
    if not isinstance(made, StageRun | MethodRun):
        return f"done after {seconds:.1f} s"
    how = "an intact earlier output is taken" if made.reused else f"done after {seconds:.1f} s"
    return f"{how} (MLflow run {made.run_id})"


class Shown(logging.Handler):
    """Hands the warnings of the project's own code to ``show``; errors are told where the command ends."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show a warning."""
        if record.levelno == logging.WARNING:
            self.show(record.getMessage())


@contextmanager
def warnings_to(show: Callable[[str], None]) -> Iterator[None]:
    """Let ``show`` have each warning of the project's own code meanwhile."""
    shown = Shown(show)
    for name in OURS:
        logging.getLogger(name).addHandler(shown)
    try:
        yield
    finally:
        for name in OURS:
            logging.getLogger(name).removeHandler(shown)
