"""How fast exact joint Shapley values of all sets are, and how much faster than adding them up set by set.

Three ways from the same 2^n worths to the same values: sums over all supersets at once (what `joint_shapley` does), one
numpy sum a set, and the double loop of Theorem 1 in Python. Beside them, the whole explanation with its 2^n
evaluations. One thread; seconds of processor time, which other programs do not share; median of the repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from benchmarks.results import command, write
from benchmarks.threads import one_thread
from explainers import Game, get_explainer
from explainers.joint_shapley.weights import joint_terms, log_weights
from explainers.set_values.exact import all_worths, exact_values
from explainers.set_values.targets import SetIndex, all_sets

ORDER = 3
COMPARED = 14
LARGEST_LOOP = 14


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    table = pd.DataFrame([row for n in options.players for row in measured(n, options.repeats)])
    seconds = table.set_index(["players", "way"])["seconds"]
    facts: dict[str, object] = {"order": ORDER, "repeats": options.repeats, "threads": torch.get_num_threads()}
    if 16 in options.players:
        facts["16 players, whole explanation, seconds"] = round(seconds[16, "whole explanation"], 4)
    if COMPARED in options.players:
        for slow, fast in (
            ("double loop", "whole explanation"),
            ("double loop", "all at once"),
            ("one sum a set", "all at once"),
        ):
            facts[f"{COMPARED} players, {slow} / {fast}"] = round(seconds[COMPARED, slow] / seconds[COMPARED, fast], 1)
    print(table.to_string(index=False))
    write("joint_shapley", table, picture(table), facts, options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("joint_shapley", __doc__)
    made.add_argument("--repeats", type=int, default=5)
    made.add_argument("--players", type=int, nargs="+", default=[8, 10, 12, 14, 16, 18, 20])
    return made


def measured(n: int, repeats: int) -> list[dict[str, object]]:
    """Return one row a way of computing all sets' values on ``n`` players."""
    game = saturating_game(n)
    index = SetIndex(n, joint_terms(n, ORDER), efficient=True)
    targets = all_sets(n, ORDER)
    worth = all_worths(game, 0)
    worth -= worth[0]
    method = get_explainer("joint_shapley", order=ORDER, estimator="exact")
    ways: dict[str, Callable[[], np.ndarray]] = {
        "whole explanation": lambda: np.asarray(method.explain(game).sets["value"]),
        "all at once": lambda: np.concatenate(list(exact_values(worth, index, targets).values())),
        "one sum a set": lambda: set_by_set(worth, n),
    }
    if n <= LARGEST_LOOP:
        ways["double loop"] = lambda: double_loop(worth, n)
    values = {way: compute() for way, compute in ways.items()}
    for way, found in values.items():
        assert np.allclose(found, values["all at once"], atol=1e-12), way
    sets = len(values["all at once"])
    return [
        {"players": n, "sets": sets, "way": way, "seconds": timed(compute, repeats if way != "double loop" else 1)}
        for way, compute in ways.items()
    ]


def timed(compute: Callable[[], object], repeats: int) -> float:
    """Return the median processor seconds of a call."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        compute()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def saturating_game(n: int) -> Game:
    weights = torch.from_numpy(np.random.default_rng(n).normal(size=n))
    return Game.from_set_function(lambda kept: torch.tanh(kept.double() @ weights) + 0.25, n)


def set_by_set(worth: np.ndarray, n: int) -> np.ndarray:
    """Return the values by Theorem 1, one vectorised sum over the S that avoid T for each T."""
    codes = np.arange(len(worth))
    weight = np.append(np.exp(log_weights(n, ORDER)), 0.0)[np.bitwise_count(codes)]
    values = []
    for size in range(1, ORDER + 1):
        for members in combinations(range(n), size):
            mask = sum(1 << i for i in members)
            avoiding = codes[codes & mask == 0]
            values.append(weight[avoiding] @ (worth[avoiding | mask] - worth[avoiding]))
    return np.array(values)


def double_loop(worth: np.ndarray, n: int) -> np.ndarray:
    """Return the values by Theorem 1 read literally: for each T, for each S that avoids it."""
    q = np.exp(log_weights(n, ORDER)).tolist()
    v = worth.tolist()
    values = []
    for size in range(1, ORDER + 1):
        for members in combinations(range(n), size):
            mask = sum(1 << i for i in members)
            value = 0.0
            for code in range(len(v)):
                if not code & mask:
                    value += q[code.bit_count()] * (v[code | mask] - v[code])
            values.append(value)
    return np.array(values)


def picture(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for way, rows in table.groupby("way", sort=False):
        axes.plot(rows["players"], rows["seconds"], marker="o", label=way)
    axes.set_yscale("log")
    axes.set_xlabel("players")
    axes.set_ylabel("processor seconds, one thread")
    axes.set_title(f"Exact joint Shapley values of all sets of up to {ORDER} players")
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    main()
