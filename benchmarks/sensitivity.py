"""Sensitivity: the OrdShap paper's Table 7, with the estimator's own error beside the error across samples.

`python -m benchmarks.sensitivity`. The paper gives the standard error of `perm_auc` over samples for splits of the
budget into K coalitions and L arrangements. That error says how much samples differ, not how much the importances of a
sample would if they were estimated once more. Here every sample is explained with several seeds, which shows both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.results import command, write
from benchmarks.studies import trained
from benchmarks.tables import PAPER_SAMPLES
from benchmarks.threads import one_thread
from explainers import ClassifierGame, get_explainer
from metrics import get_metric

NAME = "sensitivity"
PAPER = [(arrangements, coalitions) for arrangements in (10, 50, 100) for coalitions in (10, 50, 100)]


@dataclass(frozen=True)
class Plan:
    """How much is measured on a study: stays of the test part, seeds, and splits (L, K)."""

    samples: int
    seeds: int
    splits: list[tuple[int, int]]


# Some six minutes on one core, as the whole of the synthetic study: an evaluation costs thirty times as much.
SMALL = [(10, 10), (10, 50), (50, 10)]
PLANS = {
    "synthetic": Plan(5, 3, PAPER),
    "eicu-demo-los": Plan(5, 3, SMALL),
    "eicu-demo-mortality": Plan(5, 3, SMALL),
}


@dataclass(frozen=True)
class Setting:
    """One estimator with its budget; ``split`` is (L, K) of Algorithm 2, None for ours."""

    budget: int
    split: tuple[int, int] | None = None


@dataclass(frozen=True)
class Draws:
    """What one setting gave.

    Attributes:
        scores: (seeds, samples) `perm_auc`.
        position: one (seeds, n) a sample, the importances that `perm_auc` ranks by.
        beta: the same of Eq. 11's beta.
        stderr: the same of the reported standard errors; None where the estimator reports none.
        evaluations: (seeds, samples) spent.
        raised: samples that cannot be explained within the budget, and were given the least that they can use.
    """

    scores: np.ndarray
    position: list[np.ndarray]
    beta: list[np.ndarray]
    stderr: list[np.ndarray] | None
    evaluations: np.ndarray
    raised: int


def settings(splits: Sequence[tuple[int, int]]) -> list[Setting]:
    """Return Algorithm 2 at every split, and ours at the least budget of each K L."""
    paper = [Setting(1 + split[0] * (1 + split[1]), split) for split in splits]
    least: dict[int, int] = {}
    for setting, (arrangements, coalitions) in zip(paper, splits, strict=True):
        product = arrangements * coalitions
        least[product] = min(setting.budget, least.get(product, setting.budget))
    return paper + [Setting(budget) for budget in sorted(least.values())]


def draw(games: Sequence[ClassifierGame], setting: Setting, seeds: int) -> Draws:
    """Explain every sample with every seed, and score it."""
    metric = get_metric("perm_auc")
    explained, scores = [], []
    for game in games:
        explainer = get_explainer("ordshap", **options(setting, game.n))
        explained.append([explainer.explain(game, seed) for seed in range(seeds)])
        scores.append([float(metric.compute(game, explanation).score[0]) for explanation in explained[-1]])

    def of(name: str) -> list[np.ndarray]:
        return [np.stack([getattr(one, name)[0].numpy() for one in by_seed]) for by_seed in explained]

    ours = setting.split is None
    return Draws(
        scores=np.array(scores).T,
        position=of("position" if ours else "position_ls"),
        beta=of("position_ls"),
        stderr=of("position_stderr") if ours else None,
        evaluations=np.array([[int(one.evaluations[0]) for one in by_seed] for by_seed in explained]).T,
        raised=sum(options(setting, game.n)["budget"] > setting.budget for game in games),
    )


def options(setting: Setting, n: int) -> dict[str, Any]:
    """Return the explainer's options for a sample of ``n`` players."""
    if setting.split is not None:
        return {"estimator": "algorithm2", "permutations": setting.split[0], "budget": setting.budget}
    return {"budget": max(setting.budget, get_explainer("ordshap").least_budget(n))}


def summary(setting: Setting, draws: Draws, scale: float) -> dict[str, Any]:
    """Return a row of the table; ``scale`` is the standard deviation over tokens that errors are compared with.

    Both standard errors are of the mean `perm_auc`. The estimator's own comes from the variance over the seeds of each
    sample: samples have streams of their own, so it adds up to that of the mean, and all samples tell it.
    """
    samples = draws.scores.shape[1]
    own = np.concatenate([by_seed.var(0, ddof=1) for by_seed in draws.position])
    reported = None if draws.stderr is None else np.concatenate([part.ravel() for part in draws.stderr])
    return {
        "estimator": "walks" if setting.split is None else "algorithm2",
        "permutations": None if setting.split is None else setting.split[0],
        "subsets": None if setting.split is None else setting.split[1],
        "budget": setting.budget,
        "samples": samples,
        "seeds": len(draws.scores),
        "evaluations": draws.evaluations.mean(),
        "raised": draws.raised,
        "perm_auc": draws.scores.mean(),
        "stderr_across_samples": draws.scores.std(1, ddof=1).mean() / samples**0.5,
        "stderr_of_estimator": (draws.scores.var(0, ddof=1).mean() / samples) ** 0.5,
        "importance_error": own.mean() ** 0.5 / scale,
        "importance_error_reported": None if reported is None else np.mean(reported**2) ** 0.5 / scale,
    }


def measure(study: str, plan: Plan, overrides: list[str]) -> tuple[pd.DataFrame, dict[str, object]]:
    """Return a study's rows, and what was measured on.

    Importances are compared with the spread over tokens of our estimate of the same estimand at the largest budget:
    PI for ours, beta for Algorithm 2. An estimate's own spread would grow with its own error.
    """
    subject = trained(study, [f"explain.samples={plan.samples}", *overrides])
    games = [subject.game(index) for index in range(plan.samples)]
    begin = time.process_time()
    found = {setting: draw(games, setting, plan.seeds) for setting in settings(plan.splits)}
    best = found[max((setting for setting in found if setting.split is None), key=lambda setting: setting.budget)]
    slope, beta = (float(np.concatenate([one.mean(0) for one in part]).std()) for part in (best.position, best.beta))
    rows = [summary(setting, draws, slope if setting.split is None else beta) for setting, draws in found.items()]
    facts = {
        "samples": plan.samples,
        "tokens": [game.n for game in games],
        "seeds": plan.seeds,
        "splits (L, K)": plan.splits,
        "scaled down": scaled_down(plan),
        "sd of PI over tokens": slope,
        "sd of beta over tokens": beta,
        "processor seconds without training": round(time.process_time() - begin),
    }
    return pd.DataFrame([{"study": study, **row} for row in rows]), facts


def scaled_down(plan: Plan) -> str:
    """Say in what a plan is smaller than the paper's Table 7."""
    samples = [f"{plan.samples} samples instead of {PAPER_SAMPLES}"] if plan.samples < PAPER_SAMPLES else []
    splits = [f"(L, K) of {plan.splits} instead of {PAPER}"] if plan.splits != PAPER else []
    return "; ".join([*samples, *splits]) or "nothing"


def picture(table: pd.DataFrame) -> Figure:
    """Return a row a study: both errors of the mean `perm_auc`, and the error of the importances."""
    studies = list(dict.fromkeys(table["study"]))
    figure = Figure(figsize=(9, 3.2 * len(studies)), layout="constrained")
    grid = figure.subplots(len(studies), 2, squeeze=False)
    colours = {"algorithm2": "#cc6677", "walks": "#4477aa"}
    for study, (left, right) in zip(studies, grid, strict=True):
        for kind, rows in table[table["study"] == study].groupby("estimator"):
            style = {"color": colours[str(kind)], "markerfacecolor": "none", "linestyle": "none"}
            spent = rows["evaluations"]
            left.plot(spent, rows["stderr_across_samples"], marker="^", label=f"{kind}, across samples", **style)
            left.plot(spent, rows["stderr_of_estimator"], marker="o", label=f"{kind}, estimator's own", **style)
            right.plot(spent, rows["importance_error"], marker="o", label=f"{kind}, over seeds", **style)
            if rows["importance_error_reported"].notna().any():
                right.plot(spent, rows["importance_error_reported"], marker="x", label=f"{kind}, reported", **style)
        left.set_title(f"{study}: standard error of the mean perm_auc", fontsize=9)
        right.set_title(f"{study}: error of the importances over their spread", fontsize=9)
    for axes in grid.flat:
        axes.set(xscale="log", yscale="log", xlabel="evaluations a sample")
        axes.legend(fontsize=7)
    return figure


def split(text: str) -> tuple[int, int]:
    """Return (L, K) from text such as ``10x50``."""
    arrangements, _, coalitions = text.partition("x")
    if not (arrangements.isdigit() and coalitions.isdigit() and int(arrangements) > 0 and int(coalitions) > 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not LxK with L of 1 or more and K of 2 or more, such as 10x50")
    return int(arrangements), int(coalitions)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command(NAME, __doc__)
    made.add_argument("--studies", nargs="+", choices=list(PLANS), default=list(PLANS))
    made.add_argument("--eicu", type=Path, default=Path("../shared/data/eicu_demo"), help="folder of the eICU demo")
    made.add_argument("--samples", type=int, help="stays explained, at least 2; each study has a default")
    made.add_argument("--seeds", type=int, help="at least 2; each study has a default")
    made.add_argument("--grid", nargs="+", type=split, metavar="LxK", help="splits; each study has a default")
    made.add_argument("--name", default=NAME, help="of the files written")
    return made


@one_thread()
def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every study, and write table and figure."""
    command = parser()
    asked = command.parse_args(arguments)
    for name in ("samples", "seeds"):
        if getattr(asked, name) is not None and getattr(asked, name) < 2:
            command.error(f"--{name} is {getattr(asked, name)}, and an error needs at least 2")
    if any(study.startswith("eicu") for study in asked.studies) and not asked.eicu.is_dir():
        command.error(
            f"no folder {asked.eicu}; give the folder of the eICU demo's tables with --eicu, or --studies synthetic"
        )
    chosen = {"samples": asked.samples, "seeds": asked.seeds, "splits": asked.grid}
    tables, facts = [], {}
    for study in asked.studies:
        plan = replace(PLANS[study], **{name: value for name, value in chosen.items() if value is not None})
        overrides = [f"data.path={asked.eicu.resolve()}"] if study.startswith("eicu") else []
        table, facts[study] = measure(study, plan, overrides)
        print(table.to_string(index=False, float_format="%.4g"), flush=True)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True).astype({"permutations": "Int64", "subsets": "Int64"})
    write(asked.name, table, picture(table), {"threads": 1, "studies": facts}, asked.folder)


if __name__ == "__main__":
    main()
