"""Explaining: the test samples of a study, one method at a time, in shards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from conf.schema import Explain, Method
from explainers import ClassifierGame, Explainer, Explanation, get_explainer
from explainers.features import FeatureGame
from explainers.logits import LogitGame
from explainers.together import explain_together
from tasks.sets import read_sets, set_arrays
from tasks.shards import read_sample, run_shards
from tasks.store import write_json
from tasks.subject import Subject, player_counts

SHARDS = "shards"
CLOCK = "clock.json"
STDERRS = ("value_stderr", "position_stderr", "matrix_stderr")
PARTS = ("position", "position_ls", "matrix", *STDERRS)


def check_methods(data: Path, explain: Explain, methods: list[Method]) -> None:
    """Raise ValueError, before any long work, where a method cannot serve every sample of a preprocess output."""
    players = player_counts(data, explain)
    for method in methods:
        explainer = get_explainer(method.method, **method.options)
        for n in sorted(set(players), reverse=True):
            with_budget(explainer, n, explain).check(n)


def with_budget(explainer: Explainer, n: int, explain: Explain) -> Explainer:
    """Return ``explainer`` with the budget that the study gives each sample of ``n`` players, if it gives one."""
    if explain.budget_per_player is None or "budget" not in type(explainer).model_fields or n == 0:
        return explainer
    return explainer.model_copy(update={"budget": explain.budget_per_player * n})


def explain_method(
    subject: Subject,
    method: Method,
    seed: int,
    out: Path,
    workers: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the explanations of all samples by one method to ``out``, going on from the shards that are there.

    Args:
        subject: model and samples.
        method: the method and its options.
        seed: of the draws; each (seed, method, sample) has a stream of its own.
        out: gets ``shards/`` and ``clock.json`` (seconds in all and inside the model, of what this call computed).
        workers: shards at a time.
        progress: called with (samples done, samples).
    """
    explainer = get_explainer(method.method, **method.options)
    clock = ModelClock(subject.model)
    start = time.perf_counter()
    compute = SideBySide(subject, explainer, seed)
    with clock:
        run_shards(out / SHARDS, len(subject.rows), subject.explain.shard_size, compute, workers, progress)
    write_json(out / CLOCK, {"seconds": time.perf_counter() - start, "model_seconds": clock.seconds})


class SideBySide:
    """Explains one sample after the other as :func:`run_shards` asks, ``explain.together`` of a shard at a time.

    Which samples share batches depends on their places in the shard alone, so that a resumed run gives the same bytes.
    """

    def __init__(self, subject: Subject, explainer: Explainer, seed: int) -> None:
        self.subject = subject
        self.explainer = explainer
        self.seed = seed
        self.ready: dict[int, dict[str, torch.Tensor]] = {}

    def __call__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one sample's arrays; the first sample of each lot explains them all."""
        if index not in self.ready:
            lot = self.lot(index)
            games = [self.subject.game(place) for place in lot]
            explainer = with_budget(self.explainer, games[0].n, self.subject.explain)
            for place, game, explanation in zip(lot, games, explain_together(explainer, games, self.seed), strict=True):
                self.ready[place] = as_arrays(audited(explanation, game), game.targets[0])
        return self.ready.pop(index)

    def lot(self, index: int) -> range:
        """Return the samples explained with ``index``: at most ``together``, counted from the shard's start."""
        explain = self.subject.explain
        shard = index - index % explain.shard_size
        first = index - (index - shard) % explain.together
        return range(first, min(first + explain.together, shard + explain.shard_size, len(self.subject.rows)))


def audited(explanation: Explanation, game: LogitGame | FeatureGame) -> Explanation:
    """Return one sample's explanation with what its game knows in the audit.

    ``inert_value`` is the largest magnitude of value given to a player whose ablation changes nothing: it should get 0
    (0 where there is no such player). ``tokens_saved`` is the share of the tokens of whole rows that dropping absent
    ones left out. ``precision_error`` is mixed precision's.
    """
    inert = explanation.value[0][game.inert(0)].abs()
    extra = {"inert_value": float(inert.max()) if len(inert) else 0.0}
    if isinstance(game, ClassifierGame):
        if game.removal == "drop_tokens" and game.spent_tokens[0]:
            whole = game.spent[0] * (game.input_width() + len(game.prefix))
            extra["tokens_saved"] = 1 - game.spent_tokens[0] / whole
        error = game.precision_error(0)
        if error is not None:
            extra["precision_error"] = error
    return replace(explanation, audit=({**explanation.audit[0], **extra},))


class ModelClock:
    """Adds up the wall time inside a model's forward pass, over all threads (a backward pass is not counted)."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.seconds = 0.0
        self.lock = threading.Lock()
        self.here = threading.local()

    def __deepcopy__(self, memo: dict) -> ModelClock:
        """Stay one clock when a gradient method copies the model: its copies report here too."""
        return self

    def __enter__(self) -> ModelClock:
        self.handles = [
            self.model.register_forward_pre_hook(self._start, with_kwargs=True),
            self.model.register_forward_hook(self._stop, with_kwargs=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _start(self, *_: object) -> None:
        synchronise(self.model)
        self.here.begun = time.perf_counter()

    def _stop(self, *_: object) -> None:
        synchronise(self.model)
        passed = time.perf_counter() - self.here.begun
        with self.lock:
            self.seconds += passed


def synchronise(model: torch.nn.Module) -> None:
    """Wait for the model's device to finish what it was given."""
    if next(model.parameters()).device.type == "cuda":
        torch.cuda.synchronize()


def as_arrays(explanation: Explanation, target: int) -> dict[str, torch.Tensor]:
    """Return one sample's explanation as named arrays; the audit's names are kept in the arrays' names."""
    arrays = {"value": explanation.value[0], "evaluations": explanation.evaluations, "target": torch.tensor([target])}
    for name in PARTS:
        column = getattr(explanation, name)
        if column is not None:
            arrays[name] = column[0]
    if explanation.sets is not None:
        arrays |= set_arrays(explanation.sets)
    for name, number in explanation.audit[0].items():
        arrays[f"audit.{name}"] = torch.tensor([number], dtype=torch.float64)
    return arrays


def read_explanation(out: Path, shard_size: int, index: int) -> Explanation:
    """Return the explanation (one sample) that :func:`explain_method` wrote."""
    arrays = read_sample(out / SHARDS, shard_size, index)
    audit = {name.removeprefix("audit."): float(value) for name, value in arrays.items() if name.startswith("audit.")}

    def part(name: str) -> torch.Tensor | None:
        return arrays[name][None] if name in arrays else None

    return Explanation(
        value=arrays["value"][None],
        position=part("position"),
        position_ls=part("position_ls"),
        matrix=part("matrix"),
        evaluations=arrays["evaluations"],
        audit=(audit,),
        value_stderr=part("value_stderr"),
        position_stderr=part("position_stderr"),
        matrix_stderr=part("matrix_stderr"),
        sets=read_sets(arrays),
    )


def read_target(out: Path, shard_size: int, index: int) -> int:
    """Return the class that was explained."""
    return int(read_sample(out / SHARDS, shard_size, index)["target"])


def audit_means(out: Path, shard_size: int, samples: int) -> dict[str, float]:
    """Return the mean and the largest absolute value of each audit number.

    Evaluations spent and, where a method estimates them, each sample's mean standard error count among the numbers.
    """
    columns: dict[str, list[float]] = {}
    for index in range(samples):
        explanation = read_explanation(out, shard_size, index)
        for name, number in explanation.audit[0].items():
            columns.setdefault(name, []).append(number)
        columns.setdefault("evaluations", []).append(float(explanation.evaluations[0]))
        for name in STDERRS:
            errors = getattr(explanation, name)
            if errors is not None and errors.numel() and errors.isfinite().all():
                columns.setdefault(name, []).append(float(errors.mean()))
    means = {f"audit.{name}.mean": float(np.mean(column)) for name, column in columns.items()}
    return means | {f"audit.{name}.largest": float(np.max(np.abs(column))) for name, column in columns.items()}
