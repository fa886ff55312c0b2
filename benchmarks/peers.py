"""Our KernelSHAP, SampleShapley and LOCO beside shap, captum and shapiq: error at equal evaluations, and time."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.boxes import Box, bert, enumerated_bert, estimated_bert, interactions, saturating
from benchmarks.results import command, write
from benchmarks.rivals import LEAVE_ONE_OUT, OURS, PEERS, Counted, Rival, seconds_of
from benchmarks.threads import one_thread

REFERENCE = 40_000
EXACT = 1e-12
ERRORS: tuple[tuple[int, Callable[[], list[Box]], tuple[int, ...]], ...] = (  # players, boxes, evaluations
    (10, lambda: [make(10, 0) for make in (interactions, saturating, enumerated_bert)], (100, 300)),
    (16, lambda: [enumerated_bert(16, 0)], (160, 480)),
    (20, lambda: [make(20, 0) for make in (interactions, saturating)], (200, 600, 2000)),
    (50, lambda: [interactions(50, 0), saturating(50, 0), estimated_bert(50, 0, REFERENCE)], (500,)),
    (50, lambda: [interactions(50, 0), saturating(50, 0)], (2000,)),
    (150, lambda: [make(150, 0) for make in (interactions, saturating)], (1500,)),
)
TIMES = (  # players, evaluations, repetitions
    (10, 100, 15),
    (10, 300, 15),
    (20, 200, 9),
    (20, 600, 9),
    (20, 2000, 5),
    (50, 500, 5),
    (50, 2000, 3),
    (150, 1500, 3),
)


def errors(boxes: Sequence[Box], budgets: Sequence[int], seeds: int) -> list[dict[str, Any]]:
    """Return a row for each box, budget and estimator: the root mean square error over players and seeds.

    Errors are relative to the root mean square of the exact values.
    """
    rows = []
    for box in boxes:
        size = np.sqrt((box.exact**2).mean())
        for budget in budgets:
            for rival in [rival for rival in (*OURS, *PEERS) if rival.serves(box.n, budget)]:
                counted = Counted(box)
                squares = [((rival.estimate(counted, budget, s) - box.exact) ** 2).mean() for s in range(seeds)]
                rmse = float(np.sqrt(np.mean(squares)))
                rows.append(
                    row("error", box, budget, rival)
                    | {
                        "evaluations": counted.rows / seeds,
                        "rmse": rmse / size,
                        "rmse_stderr": float(np.std(squares, ddof=1)) / seeds**0.5 / (2 * rmse) / size,
                        "reference_stderr": box.stderr / size,
                    }
                )
    return rows


def times(n: int, budget: int, repetitions: int) -> list[dict[str, Any]]:
    """Return a row an estimator: median seconds of processor time on the BERT, and those outside of it, interleaved."""
    box = bert(n, 0)
    rivals = [rival for rival in (*OURS, *PEERS) if rival.serves(n, budget)] + list(LEAVE_ONE_OUT)
    found: dict[str, list[tuple[float, float, int]]] = {rival.name: [] for rival in rivals}
    for repetition in range(repetitions):
        for rival in rivals:
            found[rival.name].append(seconds_of(rival, box, budget, repetition))
    rows = []
    for rival in rivals:
        seconds, outside, evaluations = np.median(found[rival.name], axis=0)
        measured = {"evaluations": evaluations, "seconds": seconds, "outside": outside}
        rows.append(row("time", box, budget, rival) | measured)
    return rows


def row(measured: str, box: Box, budget: int, rival: Rival) -> dict[str, Any]:
    return {
        "measured": measured,
        "n": box.n,
        "box": box.name,
        "budget": budget,
        "family": rival.family,
        "method": rival.name,
    }


def error_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each n and budget our errors and the best peers', as geometric means over the boxes."""
    rows = []
    for (n, budget), part in table[table.measured == "error"].groupby(["n", "budget"]):
        means = part.groupby(["family", "method"])["rmse"].apply(lambda rmse: np.exp(np.log(rmse.clip(EXACT)).mean()))
        peers = means[~means.index.get_level_values("method").str.startswith("ours")]
        line = {"n": n, "evaluations": budget, "boxes": part["box"].nunique()}
        for name, family in (("KernelSHAP", "regression"), ("SampleShapley", "marginals")):
            line |= {name: means[family, f"ours: {name}"], f"best {family}": peers[family].min()}
            line |= {f"{family} peer": peers[family].idxmin()}
        rows.append(line | {"best of any kind": peers.min()})
    return pd.DataFrame(rows)


def time_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each n and budget the seconds of 1,000 evaluations, model and all, ours and the fastest peers'."""
    rows = []
    for (n, budget), part in table[table.measured == "time"].groupby(["n", "budget"]):
        cost = 1000 * part["seconds"] / part["evaluations"]
        cost.index = pd.MultiIndex.from_frame(part[["family", "method"]])
        line = {"n": n, "evaluations": budget}
        for name, family in (("KernelSHAP", "regression"), ("SampleShapley", "marginals"), ("LOCO", "leave one out")):
            peers = cost[family].drop(f"ours: {name}")
            line |= {name: cost[family, f"ours: {name}"], f"fastest {family}": peers.min()}
            line |= {f"{family} peer": peers.idxmin()}
        rows.append(line)
    return pd.DataFrame(rows)


def error_lines(table: pd.DataFrame) -> list[str]:
    """Return the error summary as rows of a Markdown table."""
    return [
        f"| {line.n} | {line.evaluations} | {line.boxes} | {line.KernelSHAP:.4f} | {line['best regression']:.4f} | "
        f"{line['regression peer']} | {line.SampleShapley:.4f} | {line['best marginals']:.4f} | "
        f"{line['marginals peer']} | {line['best of any kind']:.4f} |"
        for _, line in error_summary(table).iterrows()
    ]


def time_lines(table: pd.DataFrame) -> list[str]:
    """Return the time summary as rows of a Markdown table."""
    return [
        f"| {line.n} | {line.evaluations} | {line.KernelSHAP:.3f} | {line['fastest regression']:.3f} | "
        f"{line['regression peer']} | {line.SampleShapley:.3f} | {line['fastest marginals']:.3f} | "
        f"{line['marginals peer']} | {line.LOCO:.3f} | {line['fastest leave one out']:.3f} |"
        for _, line in time_summary(table).iterrows()
    ]


def picture(table: pd.DataFrame) -> Figure:
    """Return the error at the fewest evaluations of each n, and the time outside the model, against n."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    errors = table[table.measured == "error"]
    fewest = errors[errors.budget == errors.groupby("n")["budget"].transform("min")]
    error = np.exp(np.log(fewest.set_index(["method", "n"])["rmse"].clip(EXACT, 1)).groupby(level=[0, 1]).mean())
    spent = table[table.measured == "time"].groupby(["method", "n"])[["outside", "evaluations"]].sum()
    for axes, values in ((left, error), (right, 1e6 * spent["outside"] / spent["evaluations"])):
        for place, method in enumerate(dict.fromkeys(table["method"])):
            if method in values.index:
                style = {"linewidth": 2.5} if method.startswith("ours") else {"linewidth": 0.8, "linestyle": "--"}
                own = values[method]
                axes.plot(own.index, own, marker="o", markersize=3, color=f"C{place}", label=method, **style)
        axes.set(xlabel="players", xscale="log", yscale="log")
    left.set(ylabel="error over the size of the values (1 at most)")
    right.set(ylabel="microseconds an evaluation, outside the model")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right upper", fontsize=7)
    return figure


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    rows = []
    for n, budget, repetitions in TIMES:
        if n <= asked.largest:
            seconds_of(OURS[0], bert(n, 0), budget, 0)
            rows += times(n, budget, repetitions)
            print(f"times, {n} players, {budget} evaluations", flush=True)
    for n, make, budgets in ERRORS:
        if n <= asked.largest:
            rows += errors(make(), budgets, asked.seeds)
            print(f"errors, {n} players, {budgets} evaluations", flush=True)
    table = pd.DataFrame(rows)
    print(*error_lines(table), "", *time_lines(table), sep="\n")
    facts = {"seeds": asked.seeds, "shap": version("shap"), "shapiq": version("shapiq"), "captum": version("captum")}
    write("peers", table, picture(table), facts, asked.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("peers", __doc__)
    made.add_argument("--seeds", type=int, default=20)
    made.add_argument("--largest", type=int, default=150, help="leave out more players than this")
    return made


if __name__ == "__main__":
    main()
