"""Error against evaluations: OrdShap's estimators on games whose gamma is known.

Every estimator is given the budget it needs to spend as many evaluations (distinct inputs) as the others. Algorithm 2
runs at its best split into K coalitions and L arrangements, chosen apart for VI and for PI by its own error.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks import games
from benchmarks.results import command, write
from benchmarks.threads import mapped, one_thread
from explainers import get_explainer

GAMES: dict[str, Callable[[], games.KnownGame]] = {
    "pair-order-150": lambda: games.pair_order(150),
    "bert": games.trained_bert,
    "toy": games.toy,
    "attention": games.attention_like,
    "attention-2": lambda: games.attention_like(seed=1),
    "gru": games.gru_like,
    "pair-order-30": lambda: games.pair_order(30),
}
BUDGETS = (1000, 3000, 10_000, 30_000)
SPLITS = (1, 3, 10, 30, 100)
PILOT_SEEDS = 4
LONG, MOST_IF_LONG = 100, 10_000  # 30,000 evaluations of 150 players take too long here
TOP_UPS = 4
EXACT = 1e-12  # an error below is rounding
ERRORS = ("value", "position", "matrix")


def run(known: games.KnownGame, options: dict[str, Any], seed: int) -> dict[str, float]:
    """Return one run's errors, the coverage of its 95 % intervals, and what it spent."""
    result = get_explainer("ordshap", **options).explain(known.game(), seed)
    position = result.position_ls if result.position is None else result.position
    found = {"value": result.value, "position": position, "matrix": result.matrix}
    truth = {"value": known.value(), "position": known.position(), "matrix": known.gamma}
    row: dict[str, float] = {"evaluations": float(result.evaluations[0])}
    for name, estimate in found.items():
        if estimate is None:
            continue
        gap = estimate[0].numpy() - truth[name]
        row[f"{name}_squares"] = float(np.mean(gap**2))
        error = getattr(result, f"{name}_stderr")
        if error is not None:
            row[f"{name}_covered"] = float(np.mean(np.abs(gap) <= 1.96 * error[0].numpy() + EXACT))
    return row


def summary(known: games.KnownGame, options: dict[str, Any], seeds: range) -> dict[str, float]:
    """Return root mean square errors over the seeds, and means of the rest."""
    frame = pd.DataFrame([run(known, options, seed) for seed in seeds])
    means = frame.mean()
    row = {"evaluations": means["evaluations"], "seeds": float(len(seeds))}
    for name in ERRORS:
        row[f"rmse_{name}"] = means.get(f"{name}_squares", np.nan) ** 0.5
        row[f"covered_{name}"] = means.get(f"{name}_covered", np.nan)
    return row


def topped_up(known: games.KnownGame, options: dict[str, Any], budget: int) -> dict[str, Any] | None:
    """Return the options with the budget at which about ``budget`` evaluations are spent; None where none serves."""
    asked = budget
    for _ in range(TOP_UPS):
        explainer = get_explainer("ordshap", **options, budget=asked)
        try:
            explainer.check(known.n)
        except ValueError:
            return None
        spent = int(explainer.explain(known.game(), 0).evaluations[0])
        if options["estimator"] == "walks" or spent >= 0.98 * budget or asked > 8 * budget:
            break
        asked = round(asked * min(budget / spent, 2.0))
    return {**options, "budget": asked}


@one_thread()
def measure(name: str, budgets: list[int], seeds: int) -> list[dict[str, Any]]:
    """Return the rows of one game."""
    known = GAMES[name]()
    most = max(budgets) if known.n <= LONG else MOST_IF_LONG
    rows = []
    for budget in budgets:
        if budget <= most:
            rows.extend(at_budget(known, budget, seeds))
            print(f"{known.name}: {budget} evaluations done", flush=True)
    return rows


def at_budget(known: games.KnownGame, budget: int, seeds: int) -> list[dict[str, Any]]:
    """Return the rows of one game at one budget."""
    rows = []
    plain = [{"estimator": kind} for kind in ("walks", "algorithm1", "least_squares")]
    for options in plain:
        full = topped_up(known, options, budget)
        if full is None and options["estimator"] == "walks":
            return []
        if full is not None:
            rows.append({"split": "", "asked": full["budget"], **options, **summary(known, full, range(seeds))})
    tried = []
    for split in SPLITS:
        full = topped_up(known, {"estimator": "algorithm2", "permutations": split}, budget)
        if full is not None:
            tried.append((full, summary(known, full, range(PILOT_SEEDS))))
    for part in ("value", "position"):
        best = min(tried, key=lambda one: one[1][f"rmse_{part}"])[0]
        row = summary(known, best, range(seeds))
        split = f"L={best['permutations']} (best for {part})"
        rows.append({"estimator": f"algorithm2 ({part})", "split": split, "asked": best["budget"], **row})
    return [{"game": known.name, "n": known.n, "budget": budget, **row} for row in rows]


def ratios(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return ours over the reference: for each quantity, per game (geometric mean over budgets) and over the games.

    Errors that are rounding (below 1e-12) count as 1e-3 of the reference in ``all games``, and are left out of
    ``games with an error``.
    """
    pairs = {"value": "algorithm2 (value)", "position": "algorithm2 (position)", "matrix": "algorithm1"}
    found: dict[str, dict[str, float]] = {}
    for part, reference in pairs.items():
        for against in (reference, *(["least_squares"] if part != "matrix" else [])):
            wide = table.pivot_table(index=["game", "budget"], columns="estimator", values=f"rmse_{part}")
            ratio = (wide["walks"] / wide[against]).dropna()
            floored = np.log(ratio.clip(lower=1e-3)).groupby("game").mean()
            with_error = np.log(ratio[wide["walks"].reindex(ratio.index) > EXACT])
            found[f"{part} against {against}"] = {
                **np.exp(floored).round(4).to_dict(),
                "all games": round(float(np.exp(floored.mean())), 4),
                "games with an error": round(float(np.exp(with_error.groupby("game").mean().mean())), 4),
                "worst game and budget": round(float(ratio.max()), 4),
            }
    return found


def picture(table: pd.DataFrame) -> Figure:
    """Return error against evaluations: a row a quantity, a column a game."""
    names = list(dict.fromkeys(table["game"]))
    figure = Figure(figsize=(2.6 * len(names), 7), layout="constrained")
    grid = figure.subplots(len(ERRORS), len(names), squeeze=False)
    for row, part in enumerate(ERRORS):
        for column, name in enumerate(names):
            axes = grid[row][column]
            for kind, rows in table[table["game"] == name].groupby("estimator"):
                shown = rows[rows[f"rmse_{part}"] > EXACT]
                if len(shown) and not (str(kind).startswith("algorithm2") and part not in str(kind)):
                    axes.plot(shown["evaluations"], shown[f"rmse_{part}"], marker="o", label=str(kind))
            axes.set(xscale="log", yscale="log")
            axes.set_title(f"{name}: {part}", fontsize=8)
            axes.tick_params(labelsize=7)
    grid[0][0].legend(fontsize=6)
    figure.supxlabel("evaluations")
    figure.supylabel("root mean square error")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    if "bert" in asked.games:
        games.trained_bert()
    jobs = [(name, asked.budgets, asked.seeds) for name in asked.games]
    rows = [row for part in mapped(measure, jobs, asked.workers) for row in part]
    table = pd.DataFrame(rows).sort_values(["n", "game", "budget", "estimator"], ignore_index=True)
    found = ratios(table)
    write(asked.name, table, picture(table), {"seeds": asked.seeds, "ratios": found}, asked.folder)
    print(pd.DataFrame(found).T.to_string())


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("accuracy", __doc__)
    made.add_argument("--games", nargs="+", default=list(GAMES), choices=list(GAMES))
    made.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    made.add_argument("--seeds", type=int, default=20)
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--name", default="accuracy", help="of the files written")
    return made


if __name__ == "__main__":
    main()
