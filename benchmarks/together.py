"""Together: seconds a sample where eight samples are explained side by side, and where each is alone.

`python -m benchmarks.together`. One thread, processor seconds, medians of interleaved repeats; untrained BERTs: the
paper's (6 heads, 3 layers, width 384), and a tiny one whose forward pass costs little more than being called.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import pandas as pd
import torch
from matplotlib.figure import Figure

from benchmarks.bare import CLS, MASK, now, paper_bert, sequences
from benchmarks.results import command, write
from benchmarks.threads import one_thread
from conf.schema import Model
from explainers import ClassifierGame, Explainer, get_explainer
from explainers.together import explain_together

NAME = "together"
TINY = Model(heads=2, layers=1, width=16, feed_forward=32)
SAMPLES = 8


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every model, method and length, and write table and figure."""
    options = parser().parse_args(arguments)
    rows = []
    longest = max(options.players)
    for name, model in (("tiny", paper_bert(longest, model=TINY)), ("bert", paper_bert(longest))):
        for players in options.players:
            for method in (get_explainer("loco"), ordshap(players, options.budget)):
                apart, together = compare(model, method, players, options.repeats)
                row = {"model": name, "method": method.name, "players": players}
                row |= {"evaluations": getattr(method, "budget", players + 1)}
                rows.append(row | {"ms_alone": apart, "ms_together": together, "gain": apart / together})
                print(", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()))
    table = pd.DataFrame(rows)
    facts = {"threads": 1, "samples side by side": SAMPLES, "repeats": options.repeats}
    write(NAME, table, figure(table), facts, options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("together", __doc__)
    made.add_argument("--players", nargs="+", type=int, default=[10, 50])
    made.add_argument("--budget", type=int, default=500, help="of ordshap; raised to the least that it can use")
    made.add_argument("--repeats", type=int, default=5)
    return made


def ordshap(players: int, budget: int) -> Explainer:
    """Return the default estimator with a budget that it can use."""
    least = get_explainer("ordshap", budget=1).least_budget(players)
    return get_explainer("ordshap", budget=max(budget, least))


def compare(model: torch.nn.Module, explainer: Explainer, players: int, repeats: int) -> tuple[float, float]:
    """Return milliseconds a sample alone and side by side, after an untimed round."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(repeats + 1):
        for side_by_side in (False, True):
            games = [ClassifierGame(model, row[None], MASK, (CLS,)) for row in sequences(SAMPLES, players)]
            begin = now("cpu")
            if side_by_side:
                explain_together(explainer, games)
            else:
                for game in games:
                    explainer.explain(game)
            if repeat:
                times[side_by_side].append(1000 * (now("cpu") - begin) / SAMPLES)
    return statistics.median(times[False]), statistics.median(times[True])


def figure(table: pd.DataFrame) -> Figure:
    """Return how many times faster each configuration is side by side."""
    made = Figure(figsize=(6, 0.8 + 0.3 * len(table)), layout="constrained")
    axes = made.subplots()
    names = [f"{row.model}, {row.method}, {row.players} players" for row in table.itertuples()]
    axes.barh(range(len(table)), table["gain"], color="#4477aa")
    axes.axvline(1, color="#333333", linewidth=0.8)
    axes.set_yticks(range(len(table)), names)
    axes.invert_yaxis()
    axes.set_xlabel(f"times as fast, {SAMPLES} samples side by side")
    return made


if __name__ == "__main__":
    main()
