"""The command line. Heavy imports wait until a command needs them: help and conf errors answer at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.environment import prepare

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Which explanation of a sequence model can be believed, and what it costs.",
)

EXIT_FAULT = 2

Conf = Annotated[Path, typer.Argument(help="The study's YAML, for example conf/synthetic.yaml.", show_default=False)]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="key=value overrides, for example explain.samples=10.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Make outputs again even where intact ones are there.")]
From = Annotated[str, typer.Option("--from", help="MLflow run id of the stage before; default: this study's own.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", "-m", help="Label of a method of the study; repeat for more.")
]


@app.command()
def run(conf: Conf, overrides: Overrides = None, force: Force = False) -> None:
    """Run a whole study; intact earlier outputs are reused."""
    start("flows.study", "study", conf, overrides, force=force)


@app.command()
def preprocess(conf: Conf, overrides: Overrides = None, force: Force = False) -> None:
    """Run the preprocess stage alone: raw tables to tokens, vocabulary and audit."""
    start("flows.stages", "preprocess", conf, overrides, force=force)


@app.command()
def train(conf: Conf, overrides: Overrides = None, source: From = "", force: Force = False) -> None:
    """Run the train stage alone, on a preprocess run's output."""
    start("flows.stages", "train", conf, overrides, run=source, force=force)


@app.command()
def explain(
    conf: Conf, overrides: Overrides = None, source: From = "", method: Methods = None, force: Force = False
) -> None:
    """Run the explain stage alone, on a train run's model."""
    start("flows.stages", "explain", conf, overrides, run=source, methods=tuple(method or ()), force=force)


@app.command()
def evaluate(
    conf: Conf, overrides: Overrides = None, source: From = "", method: Methods = None, force: Force = False
) -> None:
    """Run the evaluate stage alone, on a method run's explanations."""
    start("flows.stages", "evaluate", conf, overrides, run=source, methods=tuple(method or ()), force=force)


@app.command()
def timing(conf: Conf, overrides: Overrides = None, source: From = "", method: Methods = None) -> None:
    """Run the timing stage alone: seconds, evaluations and memory, measured anew."""
    start("flows.stages", "timing", conf, overrides, run=source, methods=tuple(method or ()))


@app.command()
def report(conf: Conf, overrides: Overrides = None, method: Methods = None) -> None:
    """Run the report stage alone, on what has been evaluated."""
    start("flows.stages", "report", conf, overrides, methods=tuple(method or ()))


@app.command("list")
def list_(kind: Annotated[str, typer.Argument(help="explainers, metrics or datasets")]) -> None:
    """Print what there is, one line each."""
    lines = guarded(lambda: catalogue(kind))
    width = max(len(name) for name in lines)
    for name, line in lines.items():
        typer.echo(f"{name:<{width}}  {line}")


@app.command()
def ui(
    storage: Annotated[Path, typer.Option(help="The studies' storage folder.")] = Path("ordeval-store"),
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect UI on loopback.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI on loopback.")] = 5000,
) -> None:
    """Serve the Prefect UI with the deployments, and MLflow, on loopback; Ctrl-C stops all of them."""
    from flows.ui import serve_all

    raise SystemExit(guarded(lambda: serve_all(storage, prefect_port, mlflow_port)))


def catalogue(kind: str) -> dict[str, str]:
    """Return names and one-line descriptions of the ``kind`` of plug-in."""
    from explainers.registry import nearest

    if kind == "datasets":
        from tasks.preprocess import datasets

        return datasets()
    if kind == "explainers":
        from explainers import explainers

        return {name: first_line(found) for name, found in explainers().items()}
    if kind == "metrics":
        from metrics import metrics

        return {name: first_line(found) for name, found in metrics().items()}
    raise ValueError(f"unknown kind {kind!r}: {nearest(kind, ['datasets', 'explainers', 'metrics'])}")


def first_line(documented: type) -> str:
    """Return the first line of a docstring."""
    return (documented.__doc__ or "").strip().splitlines()[0]


def start(module: str, name: str, conf: Path, overrides: list[str] | None, **parameters: Any) -> None:
    """Check the study, then run the flow ``name`` of ``module`` on it in this process."""

    def checked() -> Any:
        from conf import load_study

        return load_study(conf, overrides)

    study = guarded(checked)
    guarded(lambda: check_ready(study, name))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

    def work() -> None:
        import importlib

        getattr(importlib.import_module(module), name)(study, **parameters)

    signal.signal(signal.SIGTERM, stop)
    guarded(work)


def check_ready(study: Any, name: str) -> None:
    """Say what keeps the flow ``name`` from starting, before Prefect takes its half minute.

    Raises:
        ValueError: CUDA, the storage, the tracking server or the raw tables are not as the study asks.
    """
    from flows.context import open_context
    from tasks.preprocess import check

    open_context(study)
    if name in ("study", "preprocess"):
        check(study.data)


def stop(*_: object) -> None:
    """Leave through the context managers, so that open runs are closed as KILLED."""
    raise SystemExit(128 + signal.SIGTERM)


def guarded(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns; a fault of the input is one clear message and exit status 2.

    With ``ORDEVAL_DEBUG`` set the whole traceback is shown.
    """
    try:
        return work()
    except (ValueError, OSError) as error:
        if os.environ.get("ORDEVAL_DEBUG"):
            raise
        fault: Exception = error
    typer.secho(f"error: {fault}", err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)
    raise SystemExit(EXIT_FAULT)


def main() -> None:
    """Run the command line."""
    prepare()
    app()


if __name__ == "__main__":
    main()
