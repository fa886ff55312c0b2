"""Scaling: evaluations a second, time outside the model and memory, as players and evaluations grow.

`python -m benchmarks.scaling`. Every configuration runs in a process of its own with one thread. With the null model,
a function that returns zeros, all time is the estimator's and the engine's own. The BERT (6 heads, 3 layers, width
384, untrained) stands beside its bare forward pass at its best batch size. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.results import command, write
from benchmarks.threads import one_thread
from explainers import get_explainer

NAME = "scaling"
PLAYERS = (10, 50, 150, 1000)
EVALUATIONS = (1_000, 10_000, 100_000, 1_000_000)
BERT_PLAYERS = (10, 50, 150)
BERT_EVALUATIONS = (1_000,)
WARM_UP = 2_000  # most evaluations of the untimed explanation before


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every configuration that the method can serve, and write table and figure."""
    options = parser().parse_args(arguments)
    if options.one:
        print(json.dumps(measure(**json.loads(options.one), bare_seconds=options.bare_seconds)))
        return
    rows = []
    for configuration in configurations(options):
        rows.append(in_a_process(configuration, options.bare_seconds))
        print(
            ", ".join(
                f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                for key, value in rows[-1].items()
            )
        )
    table = pd.DataFrame(rows)
    write(NAME, table, figure(table), facts(table), options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("scaling", __doc__)
    made.add_argument("--methods", nargs="+", default=["ordshap"], help="explainers that take a budget")
    made.add_argument("--players", nargs="*", type=int, default=PLAYERS, help="players, null model")
    made.add_argument("--evaluations", nargs="*", type=int, default=EVALUATIONS, help="budgets, null model")
    made.add_argument("--bert-players", nargs="*", type=int, default=BERT_PLAYERS, help="players, BERT")
    made.add_argument("--bert-evaluations", nargs="*", type=int, default=BERT_EVALUATIONS, help="budgets, BERT")
    made.add_argument("--bare-seconds", type=float, default=2.0, help="of timing the bare BERT, each batch size")
    made.add_argument("--one", help=argparse.SUPPRESS)
    return made


def configurations(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what is measured; a budget below the method's least for so many players is left out."""
    grids = {
        "zeros": [(n, budget) for n in options.players for budget in options.evaluations],
        "bert": [(n, budget) for n in options.bert_players for budget in options.bert_evaluations],
    }
    return [
        {"model": model, "method": method, "players": n, "budget": budget}
        for method in options.methods
        for model, grid in grids.items()
        for n, budget in grid
        if get_explainer(method, budget=budget).least_budget(n) <= budget
    ]


def in_a_process(configuration: dict[str, Any], bare_seconds: float) -> dict[str, Any]:
    """Return the measurements of one configuration, made by a fresh process with one thread."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--one", json.dumps(configuration)]
    command += ["--bare-seconds", str(bare_seconds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    return {**configuration, **json.loads(done.stdout.splitlines()[-1])}


@one_thread()
def measure(model: str, method: str, players: int, budget: int, bare_seconds: float) -> dict[str, float]:
    """Return one configuration's measurements, made in this process."""

    return null_model(method, players, budget) if model == "zeros" else bert(method, players, budget, bare_seconds)


def null_model(method: str, players: int, budget: int) -> dict[str, float]:
    """Explain a function that returns zeros: all time is the method's and the engine's."""
    import torch

    from explainers import Game

    def game() -> Game:
        return Game.from_function(lambda rows: torch.zeros(len(rows)), torch.arange(1, players + 1)[None], 0)

    warm = get_explainer(method, budget=budget)
    warm = warm.model_copy(update={"budget": min(budget, max(WARM_UP, warm.least_budget(players)))})
    warm.explain(game())
    begin = time.process_time()
    evaluations = int(get_explainer(method, budget=budget).explain(game()).evaluations[0])
    return measured(evaluations, time.process_time() - begin, 0.0)


def bert(method: str, players: int, budget: int, bare_seconds: float) -> dict[str, float]:
    """Explain the paper's BERT; its bare forward pass is timed after that, so that memory is the explanation's."""
    from benchmarks.bare import CLS, MASK, bare_rate, model_time, paper_bert, sequences
    from explainers import ClassifierGame

    model = paper_bert(players)
    explainer = get_explainer(method, budget=budget)
    game = ClassifierGame(model, sequences(1, players), MASK, (CLS,))
    begin = time.process_time()
    with model_time(model, "cpu") as inside:
        evaluations = int(explainer.explain(game).evaluations[0])
    row = measured(evaluations, time.process_time() - begin, inside[0])
    bare, size = bare_rate(model, players, "cpu", bare_seconds)
    return row | {"bare_a_second": bare, "bare_batch": size, "share_of_bare": row["evaluations_a_second"] / bare}


def measured(evaluations: int, seconds: float, inside: float) -> dict[str, float]:
    """Return a row: ``inside`` is the time in the model, of ``seconds`` in all; memory is the whole process's peak."""
    return {
        "evaluations": evaluations,
        "seconds": seconds,
        "evaluations_a_second": evaluations / seconds,
        "outside_us": 1e6 * (seconds - inside) / evaluations,
        "outside_share": (seconds - inside) / seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def figure(table: pd.DataFrame) -> Figure:
    """Return time outside the null model and memory against evaluations, and the BERT beside its bare forward pass."""
    made = Figure(figsize=(11, 3.4), layout="constrained")
    time_axes, memory_axes, rate_axes = made.subplots(1, 3)
    null, model = table[table["model"] == "zeros"], table[table["model"] == "bert"]
    for (method, players), rows in null.groupby(["method", "players"], sort=False):
        label = f"{players} players" if null["method"].nunique() == 1 else f"{method}, {players}"
        time_axes.plot(rows["evaluations"], rows["outside_us"], "o-", label=label)
        memory_axes.plot(rows["evaluations"], rows["peak_mib"], "o-", label=label)
    time_axes.set(
        xscale="log", yscale="log", xlabel="evaluations", ylabel="microseconds an evaluation", title="Null model: time"
    )
    memory_axes.set(
        xscale="log", xlabel="evaluations", ylabel="peak memory of the process, MiB", title="Null model: memory"
    )
    memory_axes.set_ylim(bottom=0)
    for method, rows in model.groupby("method", sort=False):
        rate_axes.plot(rows["players"], rows["evaluations_a_second"], "o-", label=str(method))
    if len(model):
        rate_axes.plot(model["players"], model["bare_a_second"], "k_", markersize=14, label="bare forward pass")
    rate_axes.set(xscale="log", yscale="log", xlabel="players", ylabel="evaluations a second", title="BERT 6x3x384")
    for axes in (time_axes, rate_axes):
        if axes.has_data():
            axes.legend(fontsize=8, frameon=False)
    return made


def facts(table: pd.DataFrame) -> dict[str, object]:
    """Return the results in one number each."""
    null, model = table[table["model"] == "zeros"], table[table["model"] == "bert"]
    said: dict[str, object] = {
        "threads": 1,
        "seconds are": "processor time",
        "outside_us is": "of the whole, less the model",
    }
    if len(null):
        said["largest outside_us of the null model, by players"] = null.groupby("players")["outside_us"].max().to_dict()
        said["largest peak_mib of the null model, by players"] = null.groupby("players")["peak_mib"].max().to_dict()
    if len(model):
        said["share of the bare BERT, by players"] = model.groupby("players")["share_of_bare"].min().to_dict()
        said["share of time outside the BERT, by players"] = model.groupby("players")["outside_share"].max().to_dict()
    return said


if __name__ == "__main__":
    main()
