"""Does the planted pair stand out? The rank of PAIR_BEFORE with PAIR_AFTER among all pairs of a synthetic stay.

In stays where PAIR_BEFORE comes before PAIR_AFTER, so that the truth has an effect of the two together: joint Shapley
values and the Shapley interaction index of all pairs, with the true logit as the game and with the trained model's.
Beside them what the model knows of the pair: the double difference of its logit in either order, all others kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from benchmarks.results import command, write
from benchmarks.studies import trained
from benchmarks.threads import one_thread
from explainers import Game, get_explainer
from tasks.preprocess.synthetic import PAIR, code_effects, logit

BEFORE, AFTER, EFFECT = PAIR
METHODS = {"joint_shapley": {}, "interactions": {"index": "SI"}}
CODES = ["absent", *sorted(code_effects())]


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    subject = trained("synthetic", [f"explain.samples={options.samples}", "explain.output=logit"])
    stays = [[subject.vocabulary.names[token] for token in row["tokens"]] for row in subject.rows]
    known = []
    for place, codes in enumerate(stays):
        if has_pair(codes):
            game = subject.game(place)
            sign = 1 if game.targets[0] == 1 else -1
            known.append([sign * difference for difference in double_difference(game, codes)])
    ordered = [place for place, codes in enumerate(stays) if has_pair(codes) and in_order(codes)][: options.stays]
    rows = []
    for place in ordered:
        for of, game in (("truth", truth(stays[place])), ("model", subject.game(place))):
            rows += [{"stay": len(rows) // 4, "game": of, **row} for row in ranks(game, stays[place], options.budget)]
    table = pd.DataFrame(rows)
    print(table.groupby(["game", "method"])[["rank", "pairs", "value", "stderr"]].median())
    facts: dict[str, object] = {"budget": options.budget, "planted effect, logit": EFFECT}
    for order, differences in zip(("in order", "in the other order"), np.transpose(known), strict=True):
        error = differences.std(ddof=1) / len(differences) ** 0.5
        facts[f"model, double difference {order}"] = (
            f"{differences.mean():.4f} +- {error:.4f} ({len(differences)} stays)"
        )
    write("planted_pairs", table, picture(table), facts, options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("planted_pairs", __doc__)
    made.add_argument("--samples", type=int, default=200, help="test stays that are looked through")
    made.add_argument("--stays", type=int, default=20, help="stays with the pair in order that are explained")
    made.add_argument("--budget", type=int, default=1000)
    return made


def has_pair(codes: list[str]) -> bool:
    return BEFORE in codes and AFTER in codes


def in_order(codes: list[str]) -> bool:
    return codes.index(BEFORE) < codes.index(AFTER)


def truth(codes: list[str]) -> Game:
    """Return the game of the true logit; an absent event leaves its slot empty."""

    def true_logit(rows: torch.Tensor) -> torch.Tensor:
        return torch.tensor([logit([CODES[code] for code in row]) for row in rows.tolist()], dtype=torch.float64)

    return Game.from_function(true_logit, torch.tensor([[CODES.index(code) for code in codes]]), ablated=0)


def double_difference(game: Game, codes: list[str]) -> tuple[float, float]:
    """Return ``v(N) - v(without one) - v(without the other) + v(without both)``, in order and not.

    The other order swaps the two events' slots.
    """
    first, second = sorted((codes.index(BEFORE), codes.index(AFTER)))
    kept = torch.ones((4, game.n), dtype=torch.bool)
    kept[[1, 3], first] = False
    kept[[2, 3], second] = False
    swapped = torch.arange(game.n)
    swapped[[first, second]] = swapped[[second, first]]
    found = []
    for arrangement in (None, swapped.expand(4, -1)):
        worth = game.evaluate(0, kept, arrangement)
        found.append(float(worth[0] - worth[1] - worth[2] + worth[3]))
    as_it_is, other = found
    return (as_it_is, other) if in_order(codes) else (other, as_it_is)


def ranks(game: Game, codes: list[str], budget: int) -> list[dict[str, object]]:
    """Return the place of the planted pair among all pairs by magnitude, one row a method."""
    pair = tuple(sorted((codes.index(BEFORE), codes.index(AFTER))))
    rows = []
    for method, options in METHODS.items():
        sets = get_explainer(method, budget=budget, **options).explain(game).sets
        pairs = sets[sets["set"].map(len) == 2]
        own = pairs[pairs["set"] == pair].iloc[0]
        rank = int((pairs["value"].abs() > abs(own["value"])).sum()) + 1
        row = {"method": method, "players": game.n, "pairs": len(pairs), "rank": rank}
        rows.append(row | {"value": own["value"], "stderr": own["stderr"]})
    return rows


def picture(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    groups = list(table.groupby(["game", "method"], sort=False))
    axes.boxplot(
        [rows["rank"] / rows["pairs"] for _, rows in groups], tick_labels=[f"{game}\n{m}" for (game, m), _ in groups]
    )
    axes.set_yscale("log")
    axes.set_ylabel("rank of the planted pair, share of all pairs")
    axes.set_title("Where the planted pair stands")
    axes.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    main()
