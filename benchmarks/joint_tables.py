"""Tables 2 to 6 of the joint Shapley paper (Harris et al. 2022) beside what this project finds.

The models are those of the studies in `conf/`: uniform, bernoulli, boston, rotten-tomatoes. Values of Tables 2 to 4 are
exact; those of 5 and 6 are sampled, of the probability of a positive review.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from benchmarks.paper_tables import TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6, TABLE_6_PAIRS
from benchmarks.results import command, write
from benchmarks.studies import ROOT, trained
from benchmarks.threads import one_thread
from explainers import Explainer, get_explainer
from explainers.features import FeatureGame
from explainers.set_values.over_samples import mean_absolute, presence_adjusted
from tasks.preprocess.boston import FEATURES
from tasks.preprocess.rotten_tomatoes import NAMED
from tasks.subject import Subject

COLUMNS = ["table", "column", "set", "value", "stderr", "rank", "paper", "paper_rank"]
PRINTED_TOP = 6
LISTED = 12  # ranks of Table 4 that are listed beside the paper's


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    makers = {2: table_2, 3: table_3, 4: table_4, 5: table_5, 6: table_6}
    facts: dict[str, object] = {}
    rows = [row for number in options.tables for row in makers[number](options, facts)]
    table = pd.DataFrame(rows).reindex(columns=COLUMNS)
    print(table.to_string())
    write("joint_tables", table, picture(table), facts, options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("joint_tables", __doc__)
    made.add_argument("--tables", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    made.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="holds boston/ and so on")
    made.add_argument("--samples", type=int, default=101, help="Boston rows that are explained")
    made.add_argument("--reviews", type=int, default=100, help="reviews behind Table 6")
    made.add_argument("--background", type=int, default=50, help="reviews that absent words are averaged over")
    made.add_argument("--replicates", type=int, default=10, help="draws for each set and review of Table 6")
    made.add_argument("--replicates-each", type=int, default=200, help="draws for each set of Table 5")
    return made


def table_2(options: argparse.Namespace, facts: dict[str, object]) -> list[dict[str, Any]]:
    """Return mean magnitudes over 50 draws of uniform features; the paper's draws are not known."""
    found = []
    for (task, correlated), printed in TABLE_2.items():
        subject = trained("uniform", [f"data.task={task}", f"data.table.correlated={str(correlated).lower()}"])
        values = mean_absolute(local_sets(games_of(subject), exact(3)))
        column = f"{task}, {'x2 = 1 - x1' if correlated else 'independent'}"
        found += beside(2, column, named(values, subject), printed)
    return found


def table_3(options: argparse.Namespace, facts: dict[str, object]) -> list[dict[str, Any]]:
    """Return presence-adjusted values over all outcomes of three coins, which are rational numbers."""
    found = []
    for task, printed in TABLE_3.items():
        subject = trained("bernoulli", [f"data.task={task}"])
        features = np.array([row["features"] for row in subject.rows])
        values = presence_adjusted(local_sets(games_of(subject), exact(3)), features)
        found += beside(3, task, named(values, subject), {members: float(value) for members, value in printed.items()})
    return found


def table_4(options: argparse.Namespace, facts: dict[str, object]) -> list[dict[str, Any]]:
    """Return mean magnitudes over test rows of Boston housing, a forest's predictions in thousands of dollars.

    The second forest, whose splits choose among all features, shows how much hangs on what the paper does not tell.
    """
    found = []
    for share, named_so in ((None, ""), (1, ", all features a split")):
        other = [] if share is None else [f"model.features_a_split={share}"]
        data = [f"data.path={options.data / 'boston'}", f"explain.samples={options.samples}"]
        subject = trained("boston", [*data, *other])
        facts |= {"Boston, explained rows": len(subject.rows), "Boston, background rows": len(subject.background)}
        printed = TABLE_4 if share is None else {key: TABLE_4[key] for key in (("J", 1), ("J", 2))}
        found += forest_values(subject, printed, named_so)
    return found


def forest_values(subject: Subject, tables: dict[tuple[str, int], Any], named_so: str) -> list[dict[str, Any]]:
    """Return one forest's global values by each index and order, beside the printed ones."""
    games = games_of(subject)  # a forest's game keeps the worths that all methods read
    found = []
    for (index, order), printed in tables.items():
        method = exact(order) if index == "J" else get_explainer(
            "interactions", index=index, order=order, estimator="exact"
        )  # fmt: skip
        values = named(mean_absolute(local_sets(games, method)), subject)
        found += beside(4, f"{index}, k={order}{named_so}", values, printed, LISTED)
    return found


def table_5(options: argparse.Namespace, facts: dict[str, object]) -> list[dict[str, Any]]:
    """Return local values of sets of words in five reviews, k = 3."""
    subject = reviews(options, len(TABLE_5))
    found = []
    for place, (review, printed) in enumerate(TABLE_5.items()):
        sets = positions(printed, subject)
        game = positive_game(subject, place)
        table = sampled(sets, 3, options.replicates_each).explain(game).sets
        found += beside(5, review, named(table, subject), printed)
    return found


def table_6(options: argparse.Namespace, facts: dict[str, object]) -> list[dict[str, Any]]:
    """Return presence-adjusted values of the named words and pairs over the test reviews, k = 1 and 2."""
    subject = reviews(options, options.reviews)
    features = np.array([row["features"] for row in subject.rows])
    facts |= {"reviews": len(features), "reviews in the background": len(subject.background)}
    found = []
    for order, printed in TABLE_6.items():
        asked = [(word,) for word in NAMED] + (list(TABLE_6_PAIRS) if order == 2 else [])
        method = sampled(positions(asked, subject), order, options.replicates)
        local = pd.concat(
            [method.explain(positive_game(subject, place)).sets.assign(sample=place) for place in range(len(features))]
        )
        values = presence_adjusted(local, features)
        errors = local.groupby("set", sort=False)["stderr"].apply(lambda part: (part**2).sum() ** 0.5 / len(part))
        values["stderr"] = [errors[members] for members in values["set"]]
        ranks = {(word,): rank for rank, word in enumerate(printed, start=1)}
        values = named(values, subject)
        singles = values[values["set"].map(len) == 1].sort_values("value", ascending=False)
        for rank, row in enumerate(singles.to_dict("records"), start=1):
            found.append({"table": 6, "column": f"k={order}", **row, "rank": rank, "paper_rank": ranks[row["set"]]})
        pairs = values[values["set"].map(len) == 2].sort_values("value", ascending=False)
        found += [{"table": 6, "column": "pairs, k=2", **row, "rank": rank} for rank, row in
                  enumerate(pairs.to_dict("records"), start=1)]  # fmt: skip
        agreement = np.corrcoef(np.arange(len(singles)), [ranks[members] for members in singles["set"]])[0, 1]
        facts[f"rank correlation with the paper's order, k={order}"] = round(float(agreement), 3)
    return found


def exact(order: int) -> Explainer:
    """Return exact joint Shapley values of all sets up to ``order``."""
    return get_explainer("joint_shapley", order=order, estimator="exact")


def sampled(sets: Sequence[tuple[int, ...]], order: int, replicates: int) -> Explainer:
    """Return sampled joint Shapley values of some sets: four evaluations a set and replicate."""
    budget = 1 + 4 * replicates * len(sets)
    return get_explainer("joint_shapley", order=order, estimator="sampled", sets=sets, budget=budget)


def games_of(subject: Subject) -> list[FeatureGame]:
    """Return the game of each sample."""
    return [subject.game(place) for place in range(len(subject.rows))]


def local_sets(games: Sequence[FeatureGame], method: Explainer) -> pd.DataFrame:
    """Return the sets of all samples under each other."""
    tables = [method.explain(game).sets.assign(sample=place) for place, game in enumerate(games)]
    return pd.concat(tables, ignore_index=True)


def reviews(options: argparse.Namespace, samples: int) -> Subject:
    """Return the network of the movie reviews."""
    overrides = [f"explain.samples={samples}", f"explain.background={options.background}"]
    return trained("rotten-tomatoes", [f"data.path={options.data / 'rotten_tomatoes'}", *overrides])


def positive_game(subject: Subject, place: int) -> FeatureGame:
    """Return the game of the probability that a review is positive."""
    features = torch.tensor([subject.rows[place]["features"]], dtype=subject.background.dtype)
    return FeatureGame(subject.model, features, subject.background, target=1)


def positions(sets: Iterable[tuple[str, ...]], subject: Subject) -> list[tuple[int, ...]]:
    """Return sets of names as sets of players."""
    places = {name: place for place, name in enumerate(subject.content.features)}
    return [tuple(sorted(places[name] for name in members)) for members in sets]


def named(table: pd.DataFrame, subject: Subject) -> pd.DataFrame:
    """Return the table (set, value, and stderr where there is one) with names instead of players."""
    kept = table[[column for column in ("set", "value", "stderr") if column in table]]
    return kept.assign(set=[tuple(subject.content.features[player] for player in row) for row in table["set"]])


def beside(
    number: int, column: str, found: pd.DataFrame, printed: dict[tuple[str, ...], float], listed: int | None = None
) -> list[dict[str, Any]]:
    """Return the found values beside the printed ones, ranked by magnitude.

    Args:
        number: of the table.
        column: of the table.
        found: columns ``set`` (names), ``value``, ``stderr`` where there are some.
        printed: what the paper has, largest first, by set.
        listed: how many of the largest are told, besides those that are printed; None tells all.
    """
    wanted = {tuple(sorted(members)): (value, rank) for rank, (members, value) in enumerate(printed.items(), start=1)}
    ranked = found.assign(rank=found["value"].abs().rank(ascending=False, method="min").astype(int))
    rows = []
    for row in ranked.sort_values("rank", kind="stable").to_dict("records"):
        paper, paper_rank = wanted.get(tuple(sorted(row["set"])), (None, None))
        if number != 4 or (paper_rank is not None and paper_rank > PRINTED_TOP and len(printed) < len(FEATURES)):
            paper_rank = None  # the paper leaves the middle of its columns out
        if listed is None or row["rank"] <= listed or paper is not None:
            rows.append({"table": number, "column": column, **row, "paper": paper, "paper_rank": paper_rank})
    return rows


def picture(table: pd.DataFrame) -> Figure:
    """Return found magnitudes against the paper's."""
    figure = Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    for number, rows in table.dropna(subset="paper").groupby("table"):
        axes.scatter(rows["paper"].abs(), rows["value"].abs(), s=14, label=f"Table {number}")
    axes.set_xscale("symlog", linthresh=1e-9)
    axes.set_yscale("symlog", linthresh=1e-9)
    axes.axline((1e-9, 1e-9), (1, 1), color="0.6", linestyle="--")
    axes.set_xlabel("magnitude in the paper")
    axes.set_ylabel("magnitude found")
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    main()
