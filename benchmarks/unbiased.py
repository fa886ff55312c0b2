"""Bias and coverage of OrdShap's own estimator over many seeds, on games that are known by enumeration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.accuracy import ERRORS, EXACT, GAMES
from benchmarks.games import KnownGame
from benchmarks.results import command, write
from benchmarks.threads import mapped, one_thread
from explainers import get_explainer

ENUMERATED = ("toy", "attention", "attention-2", "gru", "bert")


@one_thread()
def measure(name: str, budgets: list[int], seeds: int) -> list[dict[str, Any]]:
    """Return the rows of one game."""
    known = GAMES[name]()
    return [row for budget in budgets for row in at_budget(known, budget, seeds)]


def at_budget(known: KnownGame, budget: int, seeds: int) -> list[dict[str, Any]]:
    """Return one row a quantity: the bias in standard errors of the mean over seeds, and the intervals' coverage."""
    truth = {"value": known.value(), "position": known.position(), "matrix": known.gamma}
    explainer = get_explainer("ordshap", budget=budget)
    results = [explainer.explain(known.game(), seed) for seed in range(seeds)]
    rows = []
    for part in ERRORS:
        draws = np.stack([getattr(result, part)[0].numpy() for result in results])
        errors = np.stack([getattr(result, f"{part}_stderr")[0].numpy() for result in results])
        spread = draws.std(0, ddof=1)
        bias = (draws.mean(0) - truth[part]) / np.where(spread > EXACT, spread / seeds**0.5, 1.0)
        inexact = spread > EXACT
        widths = errors.mean(0)[inexact] / spread[inexact]
        covered = np.abs(draws - truth[part]) <= 1.96 * errors + EXACT
        rows.append(
            {
                "game": known.name,
                "budget": budget,
                "seeds": seeds,
                "quantity": part,
                "entries": truth[part].size,
                "largest_bias_in_stderr": np.abs(bias).max(),
                "beyond_3": int((np.abs(bias) > 3).sum()),
                "covered": covered.mean(),
                "covered_least": covered.reshape(seeds, -1).mean(0).min(),
                "stderr_over_spread": widths.mean() if len(widths) else np.nan,
            }
        )
    return rows


def picture(table: pd.DataFrame) -> Figure:
    """Return the coverage of nominal 95 % intervals."""
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axes = figure.subplots()
    for part, rows in table.groupby("quantity"):
        places = rows["game"] + ", " + rows["budget"].astype(str)
        axes.plot(places, rows["covered"], marker="o", linestyle="", label=str(part))
    axes.axhspan(0.9, 0.98, alpha=0.15)
    axes.axhline(0.95, linewidth=0.8)
    axes.set_ylabel("share of intervals that hold the truth")
    axes.tick_params(axis="x", rotation=60, labelsize=7)
    axes.legend(fontsize=7)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    jobs = [(name, asked.budgets, asked.seeds) for name in asked.games]
    rows = [row for part in mapped(measure, jobs, asked.workers) for row in part]
    table = pd.DataFrame(rows)
    table["beyond_3_expected"] = table["entries"] * 0.0027
    facts = {
        "largest_bias_in_stderr": round(float(table["largest_bias_in_stderr"].max()), 3),
        "beyond_3": int(table["beyond_3"].sum()),
        "beyond_3_expected": round(float(table["beyond_3_expected"].sum()), 2),
        "coverage": {
            part: [round(float(rows["covered"].min()), 3), round(float(rows["covered"].max()), 3)]
            for part, rows in table.groupby("quantity")
        },
    }
    write(asked.name, table, picture(table), facts, asked.folder)
    print(table.to_string())


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("unbiased", __doc__)
    made.add_argument("--games", nargs="+", default=list(ENUMERATED), choices=list(GAMES))
    made.add_argument("--budgets", nargs="+", type=int, default=[1000, 3000])
    made.add_argument("--seeds", type=int, default=200)
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--name", default="unbiased", help="of the files written")
    return made


if __name__ == "__main__":
    main()
