"""Explaining: the test samples of a study, one method at a time, in shards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset, load_from_disk

from conf.schema import Explain, Method
from explainers import ClassifierGame, Explanation, get_explainer
from tasks.shards import read_sample, run_shards
from tasks.store import write_json
from tasks.train.served import load_model
from tasks.vocabulary import Vocabulary, read_vocabulary

SHARDS = "shards"
CLOCK = "clock.json"


@dataclass(frozen=True)
class Subject:
    """What is explained: a model, and the first samples of the test part.

    Attributes:
        model: the classifier in ``eval()``.
        vocabulary: names and special tokens.
        rows: the samples: ``stay`` (keyed hash), ``tokens``, ``hours``, ``label``.
        explain: output scale and batch size.
    """

    model: torch.nn.Module
    vocabulary: Vocabulary
    rows: Dataset
    explain: Explain

    @classmethod
    def load(cls, data: Path, model: Path, explain: Explain, device: str) -> Subject:
        """Load the model of a train output and the test samples of a preprocess output.

        Raises:
            ValueError: the test part has fewer samples than the study wants explained.
        """
        rows = test_rows(data, explain.samples)
        return cls(load_model(model / "model", device), read_vocabulary(data), rows, explain)

    def game(self, index: int) -> ClassifierGame:
        """Return the game of one sample."""
        tokens = torch.tensor([self.rows[index]["tokens"]], dtype=torch.long)
        return ClassifierGame(
            self.model,
            tokens,
            ablated=self.vocabulary.mask,
            prefix=(self.vocabulary.cls,),
            scale=self.explain.output,
            batch_tokens=self.explain.batch_tokens,
        )


def check_methods(data: Path, explain: Explain, methods: list[Method]) -> None:
    """Raise ValueError, before any long work, where a method cannot serve every sample of a preprocess output."""
    lengths = [len(tokens) for tokens in test_rows(data, explain.samples)["tokens"]]
    for method in methods:
        get_explainer(method.method, **method.options).check(max(lengths))


def test_rows(data: Path, samples: int) -> Dataset:
    """Return the first ``samples`` rows of the test part.

    Raises:
        ValueError: the test part has fewer.
    """
    test = load_from_disk(str(data / "dataset"))["test"]
    if samples > len(test):
        raise ValueError(
            f"explain.samples is {samples} and the test part has {len(test)} stays; "
            f"set explain.samples={len(test)} or less"
        )
    return test.select(range(samples))


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

    def compute(index: int) -> dict[str, torch.Tensor]:
        game = subject.game(index)
        return as_arrays(explainer.explain(game, seed), game.targets[0])

    size = subject.explain.shard_size
    with clock:
        run_shards(out / SHARDS, len(subject.rows), size, compute, workers, progress)
    write_json(out / CLOCK, {"seconds": time.perf_counter() - start, "model_seconds": clock.seconds})


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
    for name in ("position", "position_ls", "matrix"):
        column = getattr(explanation, name)
        if column is not None:
            arrays[name] = column[0]
    for name, number in explanation.audit[0].items():
        arrays[f"audit.{name}"] = torch.tensor([number], dtype=torch.float64)
    return arrays


def read_explanation(out: Path, shard_size: int, index: int) -> Explanation:
    """Return the explanation (one sample) that :func:`explain_method` wrote."""
    arrays = read_sample(out / SHARDS, shard_size, index)
    audit = {name.removeprefix("audit."): float(value) for name, value in arrays.items() if name.startswith("audit.")}

    def row(name: str) -> torch.Tensor | None:
        return arrays[name][None] if name in arrays else None

    return Explanation(
        value=arrays["value"][None],
        position=row("position"),
        position_ls=row("position_ls"),
        matrix=row("matrix"),
        evaluations=arrays["evaluations"],
        audit=(audit,),
    )


def read_target(out: Path, shard_size: int, index: int) -> int:
    """Return the class that was explained."""
    return int(read_sample(out / SHARDS, shard_size, index)["target"])


def audit_means(out: Path, shard_size: int, samples: int) -> dict[str, float]:
    """Return the mean and the largest absolute value of each audit number, and the evaluations spent."""
    columns: dict[str, list[float]] = {}
    for index in range(samples):
        explanation = read_explanation(out, shard_size, index)
        for name, number in explanation.audit[0].items():
            columns.setdefault(name, []).append(number)
        columns.setdefault("evaluations", []).append(float(explanation.evaluations[0]))
    means = {f"audit.{name}.mean": float(np.mean(column)) for name, column in columns.items()}
    return means | {f"audit.{name}.largest": float(np.max(np.abs(column))) for name, column in columns.items()}
