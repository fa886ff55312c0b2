"""Training with the HF Trainer: weighted loss, early stopping, the best weights, and no trace left behind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from explainers.streams import stream
from tasks.train.bert import build
from tasks.train.scores import auroc
from tasks.train.served import no_progress_bars, pad_rows

if TYPE_CHECKING:
    from conf.schema import Model
    from tasks.train.data import Part, Vocabulary

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Epoch:
    """What an epoch (counted from 1) came to; no AUROC where validation has one class only."""

    epoch: int
    train_loss: float
    validation_loss: float
    validation_auroc: float | None


@dataclass(frozen=True)
class Setting:
    """How to train.

    Attributes:
        model: architecture and training options.
        max_tokens: the longest sequence, [CLS] not counted.
        seed: names the random stream of the weights, the order and the dropout.
        device: "cpu" or "cuda".
    """

    model: Model
    max_tokens: int
    seed: int
    device: str


@dataclass(frozen=True)
class Trained:
    """The classifier with the best validation loss, in ``eval()``, and one record an epoch."""

    network: PreTrainedModel
    history: list[Epoch]


def train(parts: dict[str, Part], vocabulary: Vocabulary, setting: Setting, progress: Progress | None) -> Trained:
    """Train a new classifier; the same arguments give the same weights on one machine's CPU.

    Args:
        parts: train and validation are used.
        vocabulary: size, padding and [CLS].
        setting: how to train.
        progress: is called with each epoch's record.

    Raises:
        ValueError: the validation loss is no number any more.
    """
    model, device = setting.model, setting.device
    number = int(stream(setting.seed, "train").integers(2**31))
    record = Record(model.epochs, progress)
    with TemporaryDirectory(prefix="ordeval-train-") as folder, own_randomness(number, device), no_progress_bars():
        network = build(model, vocabulary, setting.max_tokens)
        trainer = Trainer(
            model=network,
            args=arguments(model, Path(folder), number, device),
            train_dataset=rows(parts["train"]),
            eval_dataset=rows(parts["validation"]),
            data_collator=Collator(vocabulary.cls, vocabulary.pad),
            compute_loss_func=WeightedLoss(class_weights(parts["train"].labels, model.class_weights)),
            compute_metrics=validation_auroc,
            callbacks=[EarlyStoppingCallback(early_stopping_patience=model.patience), record],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Trained(network.eval(), record.epochs)


def arguments(model: Model, folder: Path, seed: int, device: str) -> TrainingArguments:
    """Return the Trainer's settings: one device, evaluation every epoch, nothing reported to anyone."""
    made = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=model.epochs,
        per_device_train_batch_size=model.batch_size,
        per_device_eval_batch_size=model.batch_size,
        learning_rate=model.learning_rate,
        weight_decay=model.weight_decay,
        warmup_steps=model.warmup_share,
        train_sampling_strategy="group_by_length",
        eval_strategy="epoch",
        logging_strategy="epoch",
        save_strategy="best",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=False,
        seed=seed,
        use_cpu=device == "cpu",
        report_to="none",
        disable_tqdm=True,
        log_level="error",
    )
    if device != "cpu":
        made._n_gpu = 1  # several visible GPUs would mean DataParallel, with larger batches than conf says
    return made


def rows(part: Part) -> list[dict[str, Any]]:
    """Return the Trainer's data set: one mapping a stay; the sampler groups by the length of ``input_ids``."""
    return [
        {"input_ids": sequence, "labels": int(label)}
        for sequence, label in zip(part.sequences, part.labels, strict=True)
    ]


@dataclass(frozen=True)
class Collator:
    """Put [CLS] in front and pad to the longest row of the batch."""

    cls: int
    pad: int

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask (rows, 1 + longest), and labels (rows,)."""
        tokens, mask = pad_rows([row["input_ids"] for row in batch], self.cls, self.pad)
        labels = torch.tensor([row["labels"] for row in batch])
        return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def class_weights(labels: np.ndarray, kind: str) -> np.ndarray:
    """Return the loss weight of each class (2,): 1 and 1, or "balanced": r / (2 r_c) for r stays, r_c of class c.

    Balanced weights average to 1 over the stays.

    >>> class_weights(np.array([0, 0, 0, 1]), "balanced").tolist()
    [0.6666666666666666, 2.0]
    """
    if kind == "none":
        return np.ones(2)
    return len(labels) / (2 * np.bincount(labels, minlength=2))


class WeightedLoss:
    """Mean over the rows of weight x cross-entropy.

    Divided by the rows and not by the batch's summed weights (torch's ``weight=``), so that the mean over batches is
    the mean over all rows, whatever batches they came in.
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.tensor(weights, dtype=torch.float32)

    def __call__(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        """Return the scalar loss of ``outputs.logits`` (rows, 2) for ``labels`` (rows,)."""
        losses = torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="none")
        return (self.weights.to(losses.device)[labels] * losses).mean()


def validation_auroc(prediction: EvalPrediction) -> dict[str, float]:
    """Return the validation AUROC; nothing where there is one class only."""
    labels = np.asarray(prediction.label_ids)
    if len(np.unique(labels)) < 2:
        return {}
    logits = np.asarray(prediction.predictions, dtype=np.float64)
    return {"auroc": auroc(labels, logits[:, 1] - logits[:, 0])}


class Record(TrainerCallback):
    """Keep one record an epoch, hand it to ``progress``, and stop where the loss is no number any more."""

    def __init__(self, most: int, progress: Progress | None) -> None:
        self.most = most
        self.progress = progress
        self.epochs: list[Epoch] = []
        self.train_loss = math.nan

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Remember the epoch's mean training loss."""
        if logs and "loss" in logs:
            self.train_loss = float(logs["loss"])

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
        """Close the epoch's record."""
        epoch, loss = len(self.epochs) + 1, float(metrics["eval_loss"])
        if not math.isfinite(loss):
            raise ValueError(
                f"the validation loss became {loss} in epoch {epoch}: training diverged; "
                f"lower model.learning_rate (it is {args.learning_rate})"
            )
        self.epochs.append(Epoch(epoch, self.train_loss, loss, metrics.get("eval_auroc")))
        if self.progress:
            self.progress(asdict(self.epochs[-1]) | {"of": self.most})


@contextmanager
def own_randomness(seed: int, device: str) -> Iterator[None]:
    """Seed the global generators that the Trainer draws from, and put them back as they were."""
    kept = random.getstate(), np.random.get_state()
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            torch.manual_seed(seed)
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
