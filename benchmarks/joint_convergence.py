"""How sampled joint Shapley values converge, k = 2 (Harris et al. 2022, Figures 1 and 2).

Left: a row of Boston housing, all 91 sets of up to two features. The Euclidean distance of the sampled values from
the exact ones, root mean square over the seeds, for both estimators: all sets together, and set by set; dotted, the
distance that the standard errors tell. Right: the second review of Table 5, the words {both}, {and} and {and, both} out
of 1,004: how far the estimate moves from one run to one of twice the draws; dotted, the latter's standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.joint_tables import exact, positions, positive_game, reviews, sampled
from benchmarks.results import command, write
from benchmarks.studies import ROOT, trained
from benchmarks.threads import one_thread
from explainers import get_explainer
from explainers.features import FeatureGame

ORDER = 2
REVIEW, WORDS = 1, (("both",), ("and",), ("and", "both"))


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    subject = trained("boston", [f"data.path={options.data / 'boston'}", "explain.samples=1"])
    game = subject.game(0)
    rows = boston(game, options.budgets, options.seeds)
    words = reviews(options, REVIEW + 1)
    rows += movie(positive_game(words, REVIEW), positions(WORDS, words), options.replicates)
    table = pd.DataFrame(rows)
    print(table.to_string())
    norm = float(np.linalg.norm(exact(ORDER).explain(game).sets["value"]))
    facts: dict[str, object] = {"Boston, norm of the exact values": round(norm, 4), "seeds": options.seeds}
    write("joint_convergence", table, picture(table), facts, options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("joint_convergence", __doc__)
    made.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="holds boston/ and so on")
    made.add_argument("--budgets", type=int, nargs="+", default=[800, 1600, 3200, 6400])
    made.add_argument("--seeds", type=int, default=20)
    made.add_argument("--replicates", type=int, nargs="+", default=[10, 20, 40, 80, 160, 320])
    made.add_argument("--background", type=int, default=50, help="reviews that absent words are averaged over")
    return made


def boston(game: FeatureGame, budgets: list[int], seeds: int) -> list[dict[str, object]]:
    """Return the distances from the exact values, one row an estimator and budget."""
    truth = exact(ORDER).explain(game).sets
    sets = list(truth["set"])
    rows = []
    for budget in budgets:
        for estimator, options in (("all sets together", {}), ("set by set", {"sets": sets})):
            method = get_explainer("joint_shapley", order=ORDER, estimator="sampled", budget=budget, **options)
            runs = [method.explain(game, seed).sets for seed in range(seeds)]
            assert all(list(run["set"]) == sets for run in runs)
            away = [float(((run["value"] - truth["value"]) ** 2).sum()) for run in runs]
            told = [float((run["stderr"] ** 2).sum()) for run in runs]
            rows.append(
                {
                    "figure": "Boston",
                    "series": estimator,
                    "evaluations": budget,
                    "distance": np.mean(away) ** 0.5,
                    "from standard errors": np.mean(told) ** 0.5,
                }
            )
    return rows


def movie(game: FeatureGame, sets: list[tuple[int, ...]], replicates: list[int]) -> list[dict[str, object]]:
    """Return how far each set's estimate moves from one number of draws to the next."""
    found = [sampled(sets, ORDER, count).explain(game).sets.set_index("set") for count in replicates]
    rows = []
    for members, name in zip(sets, WORDS, strict=True):
        for count, before, after in zip(replicates[1:], found, found[1:], strict=False):
            rows.append(
                {
                    "figure": "review 2",
                    "series": "{" + ", ".join(name) + "}",
                    "evaluations": 4 * count,
                    "distance": abs(after["value"][members] - before["value"][members]),
                    "from standard errors": after["stderr"][members],
                }
            )
    return rows


def picture(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(10, 4), layout="constrained")
    titles = {
        "Boston": "Distance from the exact values (Boston, k = 2)",
        "review 2": "Change as draws double (review 2)",
    }
    for axes, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for place, (series, rows) in enumerate(table[table["figure"] == name].groupby("series", sort=False)):
            axes.plot(rows["evaluations"], rows["distance"], marker="o", color=f"C{place}", label=series)
            axes.plot(rows["evaluations"], rows["from standard errors"], linestyle=":", color=f"C{place}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("evaluations" if name == "Boston" else "evaluations of the set")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(title="dotted: standard errors")
    return figure


if __name__ == "__main__":
    main()
