"""The command line. Heavy imports wait until a command needs them: help and conf errors answer at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.environment import prepare

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Which explanation of a sequence model can be believed, and what it costs.",
    epilog="Exit codes: 0 done; 2 a fault of the input, told in one message; 1 a crash; 130 or 143 stopped.",
)

EXIT_FAULT = 2
EXIT_STOPPED = 128
KINDS = ("datasets", "explainers", "metrics", "studies")


def labels(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a method's label: of the study on the line."""
    from conf import load_study

    path = ctx.params.get("conf")
    try:
        known = [method.label for method in load_study(Path(path), ["data={}"]).explainers] if path else []
    except ValueError:
        return []
    return [label for label in known if label.startswith(incomplete)]


def names(incomplete: str) -> list[str]:
    """Complete a study's name."""
    from flows.known import known_studies

    return [name for name in known_studies(HERE) if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Complete what can be listed."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


Conf = Annotated[Path, typer.Argument(help="The study's YAML, for example conf/synthetic.yaml.", show_default=False)]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="key=value overrides, for example explain.samples=10.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Make outputs again even where intact ones are there.")]
From = Annotated[
    str, typer.Option("--from", help="Name or MLflow id of the run to go on from; default: this study's own.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", "-m", help="Label of a method of the study; repeat for more.", autocompletion=labels),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts; progress goes to stderr.")]
Name = Annotated[
    str, typer.Argument(help="A study's YAML, or the name of one that ran in the storage.", autocompletion=names)
]
Storage = Annotated[Path, typer.Option(help="The studies' storage folder.")]
HERE = Path("ordeval-store")


@app.command()
def run(conf: Conf, overrides: Overrides = None, force: Force = False, json: Json = False) -> None:
    """Run a whole study; intact earlier outputs are reused."""
    start(("flows.study", "study"), conf, overrides, json, force=force)


@app.command()
def rerun(
    conf: Conf,
    method: Annotated[str, typer.Option("--method", "-m", help="Label of the method.", autocompletion=labels)],
    overrides: Overrides = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run one method of a study again: explanations, scores, cost, and the report of all methods."""
    start(("flows.study", "rerun"), conf, overrides, json, method=method, force=force)


@app.command()
def preprocess(conf: Conf, overrides: Overrides = None, force: Force = False, json: Json = False) -> None:
    """Run the preprocess stage alone: raw tables to tokens, vocabulary and audit."""
    start(("flows.stages", "preprocess"), conf, overrides, json, force=force)


@app.command()
def train(conf: Conf, overrides: Overrides = None, source: From = "", force: Force = False, json: Json = False) -> None:
    """Run the train stage alone, on a preprocess run's output."""
    start(("flows.stages", "train"), conf, overrides, json, run=source, force=force)


@app.command()
def explain(
    conf: Conf,
    overrides: Overrides = None,
    source: From = "",
    method: Methods = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run the explain stage alone, on a train run's model."""
    start(("flows.stages", "explain"), conf, overrides, json, run=source, methods=tuple(method or ()), force=force)


@app.command()
def evaluate(
    conf: Conf,
    overrides: Overrides = None,
    source: From = "",
    method: Methods = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run the evaluate stage alone, on a method run's explanations."""
    start(("flows.stages", "evaluate"), conf, overrides, json, run=source, methods=tuple(method or ()), force=force)


@app.command()
def timing(
    conf: Conf, overrides: Overrides = None, source: From = "", method: Methods = None, json: Json = False
) -> None:
    """Run the timing stage alone: seconds, evaluations and memory, measured anew."""
    start(("flows.stages", "timing"), conf, overrides, json, run=source, methods=tuple(method or ()))


@app.command()
def report(conf: Conf, overrides: Overrides = None, method: Methods = None, json: Json = False) -> None:
    """Run the report stage alone, on what has been evaluated."""
    start(("flows.stages", "report"), conf, overrides, json, methods=tuple(method or ()))


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="explainers, metrics, datasets or studies", autocompletion=kinds)],
    storage: Storage = HERE,
    json: Json = False,
) -> None:
    """Print what there is, one line each; studies are those of conf/ and of the storage folder."""
    show(guarded(lambda: catalogue(kind, storage)), json)


@app.command("open")
def open_(study: Name, overrides: Overrides = None, storage: Storage = HERE, json: Json = False) -> None:
    """Print where a study is in MLflow, Prefect and on disk; `ordeval ui` serves both."""

    def found() -> dict[str, str]:
        from flows.known import study_at
        from flows.links import addresses

        return addresses(study_at(study, storage.expanduser().resolve(), overrides))

    show(guarded(found), json)


@app.command("show")
def show_sample(
    study: Name,
    sample: Annotated[int, typer.Option(help="Which of the explained samples, from 1.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder that gets the page.")] = Path(),
    overrides: Overrides = None,
    storage: Storage = HERE,
    json: Json = False,
) -> None:
    """Write the page of one explained sample, all methods side by side, and print where it is."""

    def written() -> Path:
        from flows.known import study_at
        from flows.sample import sample_page

        return sample_page(study_at(study, storage.expanduser().resolve(), overrides), sample, out)

    show({"sample page": str(guarded(written).resolve())}, json)


@app.command()
def ui(
    storage: Storage = HERE,
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect UI on loopback.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI on loopback.")] = 5000,
) -> None:
    """Serve the Prefect UI with the deployments, and MLflow, on loopback; Ctrl-C stops all of them."""
    from flows.ui import serve_all

    raise SystemExit(guarded(lambda: serve_all(storage, prefect_port, mlflow_port)))


def catalogue(kind: str, storage: Path = HERE) -> dict[str, str]:
    """Return names and one-line descriptions of the ``kind`` of plug-in, or of the known studies."""
    from explainers.registry import nearest

    if kind == "studies":
        from flows.known import known_studies

        return {name: str(path) for name, path in known_studies(storage).items()}
    if kind == "datasets":
        from tasks.preprocess import datasets

        return datasets()
    if kind == "explainers":
        from explainers import explainers

        return {name: first_line(found) for name, found in explainers().items()}
    if kind == "metrics":
        from metrics import metrics

        return {name: first_line(found) for name, found in metrics().items()}
    raise ValueError(f"unknown kind {kind!r}: {nearest(kind, list(KINDS))}")


def show(lines: dict[str, str], json: bool) -> None:
    """Print names and what they stand for as a table, one line each where it is piped, or as JSON."""
    if json:
        typer.echo(dumps(lines, indent=1))
        return
    if not sys.stdout.isatty():
        width = max(len(name) for name in lines)
        typer.echo("\n".join(f"{name:<{width}}  {line}" for name, line in lines.items()))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, line in lines.items():
        table.add_row(Text(name, "bold"), Text(line))
    Console().print(table)


def first_line(documented: type) -> str:
    """Return the first line of a docstring."""
    return (documented.__doc__ or "").strip().splitlines()[0]


def start(flow: tuple[str, str], conf: Path, overrides: list[str] | None, json: bool, **parameters: Any) -> None:
    """Check the study, then run a ``flow``, by its module and name, on it in this process."""

    def checked() -> Any:
        from conf import load_study

        return load_study(conf, overrides)

    study = guarded(checked)
    guarded(lambda: check_ready(study, flow[1]))
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    signal.signal(signal.SIGTERM, stop)
    guarded(lambda: work(flow, study, json, parameters))


def work(flow: tuple[str, str], study: Any, json: bool, parameters: dict[str, Any]) -> None:
    """Run the flow; with ``json`` print what it returned, the MLflow run ids, and where the study is."""
    import importlib

    from flows.logs import warnings_to
    from flows.progress import reporter

    shown = reporter(json)
    try:
        with warnings_to(shown.warn):
            made = getattr(importlib.import_module(flow[0]), flow[1])(study, **parameters)
    except KeyboardInterrupt:
        raise SystemExit(EXIT_STOPPED + signal.SIGINT) from None
    finally:
        shown.close()
    if json:
        from flows.links import addresses

        runs = [made] if isinstance(made, str) else list(made)
        typer.echo(dumps({"study": study.name, "flow": flow[1], "runs": runs, "places": addresses(study)}, indent=1))


def check_ready(study: Any, name: str) -> None:
    """Say what keeps the flow ``name`` from starting, before Prefect takes its half minute.

    Raises:
        ValueError: CUDA, the storage, the tracking server or the raw tables are not as the study asks.
    """
    from flows.context import open_context
    from tasks.preprocess import check

    open_context(study)
    if name in ("study", "rerun", "preprocess"):
        check(study.data)


def stop(*_: object) -> None:
    """Leave through the context managers, so that open runs are closed as KILLED."""
    raise SystemExit(EXIT_STOPPED + signal.SIGTERM)


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
