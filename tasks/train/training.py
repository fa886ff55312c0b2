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
from tasks.train.augmentation import augmented, without_words
from tasks.train.building import build
from tasks.train.scores import mean_auroc
from tasks.train.served import front, no_progress_bars, pad_rows

if TYPE_CHECKING:
    from conf.schema import Model
    from tasks.content import Content
    from tasks.train.data import Part
    from tasks.vocabulary import Vocabulary

Progress = Callable[[dict[str, Any]], None]
INPUTS = {"events": "input_ids", "text": "input_ids", "image": "pixel_values", "table": "features"}


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
        content: what the samples are.
        vocabulary: of token sequences; None for images.
        seed: names the random stream of the weights, the order and the dropout.
        device: "cpu" or "cuda".
    """

    model: Model
    content: Content
    vocabulary: Vocabulary | None
    seed: int
    device: str


@dataclass(frozen=True)
class Trained:
    """The classifier with the best validation loss, in ``eval()``, and one record an epoch."""

    network: PreTrainedModel
    history: list[Epoch]


def train(parts: dict[str, Part], setting: Setting, progress: Progress | None) -> Trained:
    """Train a new classifier; the same arguments give the same weights on one machine's CPU.

    Args:
        parts: train and validation are used.
        setting: how to train.
        progress: is called with each epoch's record.

    Raises:
        ValueError: the validation loss is no number any more.
    """
    model, device = setting.model, setting.device
    number = int(stream(setting.seed, "train").integers(2**31))
    record = Record(model.epochs, progress)
    with TemporaryDirectory(prefix="ordeval-train-") as folder, own_randomness(number, device), no_progress_bars():
        network: Any = build(model, setting.content, setting.vocabulary)
        if model.first_filters == "word_beginnings":
            network.start_from_words(parts["train"].inputs, parts["train"].words)
        trainer = Trainer(
            model=network,
            args=arguments(setting, Path(folder), number),
            train_dataset=rows(parts["train"], setting.content),
            eval_dataset=rows(parts["validation"], setting.content),
            data_collator=collator(setting, network),
            compute_loss_func=WeightedLoss(
                class_weights(parts["train"].labels, model.class_weights, len(setting.content.classes))
            ),
            optimizer_cls_and_kwargs=optimizer(model),
            compute_metrics=validation_auroc,
            callbacks=[EarlyStoppingCallback(early_stopping_patience=model.patience), record],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Trained(network.eval(), record.epochs)


def optimizer(model: Model) -> tuple[type[torch.optim.Optimizer], dict[str, Any]] | None:
    """Return an optimizer and its options; None is the Trainer's own AdamW."""
    if model.optimizer == "adamw":
        return None
    options = {"lr": model.learning_rate, "weight_decay": model.weight_decay}
    if model.optimizer == "rmsprop":
        return torch.optim.RMSprop, options
    return torch.optim.SGD, options | {"momentum": 0.9}


def arguments(setting: Setting, folder: Path, seed: int) -> TrainingArguments:
    """Return the Trainer's settings: one device, evaluation every epoch, nothing reported to anyone."""
    model, device = setting.model, setting.device
    made = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=model.epochs,
        per_device_train_batch_size=model.batch_size,
        per_device_eval_batch_size=model.batch_size,
        learning_rate=model.learning_rate,
        weight_decay=model.weight_decay,
        warmup_steps=model.warmup_share,
        train_sampling_strategy="random" if setting.vocabulary is None else "group_by_length",
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
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
        log_level="error",
    )
    if device != "cpu":
        made._n_gpu = 1  # several visible GPUs would mean DataParallel, with larger batches than conf says
    return made


def rows(part: Part, content: Content) -> list[dict[str, Any]]:
    """Return the Trainer's data set: one mapping a sample; the sampler groups by the length of ``input_ids``."""
    columns: dict[str, Any] = {INPUTS[content.kind]: part.inputs, "labels": part.labels.tolist()}
    if part.words:
        columns["words"] = part.words
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def collator(setting: Setting, network: PreTrainedModel) -> Collator | PixelCollator | FeatureCollator:
    """Return what makes a batch of the training rows."""
    if setting.content.kind == "table":
        return FeatureCollator()
    if setting.vocabulary is None:
        return PixelCollator(network, setting.model.augment)
    special = front(network.config, setting.vocabulary.cls)
    return Collator(network, special, setting.vocabulary.pad, setting.model.augment)


@dataclass(frozen=True)
class Collator:
    """Put the special tokens in front and pad to the longest row; vary texts while the network is training."""

    network: PreTrainedModel
    special: tuple[int, ...]
    pad: int
    augment: str

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask (rows, special + longest), and labels (rows,)."""
        varied = self.augment == "leave_words_out" and self.network.training
        sequences = [without_words(row["input_ids"], row["words"]) if varied else row["input_ids"] for row in batch]
        tokens, mask = pad_rows(sequences, self.special, self.pad)
        labels = torch.tensor([row["labels"] for row in batch])
        return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


@dataclass(frozen=True)
class FeatureCollator:
    """Stack rows of a table."""

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return features (rows, n) float32, and labels (rows,)."""
        features = torch.from_numpy(np.stack([row["features"] for row in batch])).float()
        return {"features": features, "labels": torch.tensor([row["labels"] for row in batch])}


@dataclass(frozen=True)
class PixelCollator:
    """Stack images with values in [0, 1], and vary them while the network is training."""

    network: PreTrainedModel
    augment: str

    def __call__(self, batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """Return pixel_values (rows, channels, height, width) float32, and labels (rows,)."""
        pixels = torch.from_numpy(np.stack([row["pixel_values"] for row in batch])).float() / 255
        if self.network.training:
            pixels = augmented(pixels, self.augment)
        return {"pixel_values": pixels, "labels": torch.tensor([row["labels"] for row in batch])}


def class_weights(labels: np.ndarray, kind: str, classes: int = 2) -> np.ndarray:
    """Return the loss weight of each class: 1, or "balanced": r / (classes r_c) for r samples, r_c of class c.

    Balanced weights average to 1 over the samples.

    >>> class_weights(np.array([0, 0, 0, 1]), "balanced").tolist()
    [0.6666666666666666, 2.0]
    """
    if kind == "none":
        return np.ones(classes)
    return len(labels) / (classes * np.bincount(labels, minlength=classes))


class WeightedLoss:
    """Mean over the rows of weight x cross-entropy.

    Divided by the rows and not by the batch's summed weights (torch's ``weight=``), so that the mean over batches is
    the mean over all rows, whatever batches they came in.
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = torch.tensor(weights, dtype=torch.float32)

    def __call__(self, outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        """Return the scalar loss of ``outputs.logits`` (rows, classes) for ``labels`` (rows,)."""
        losses = torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="none")
        return (self.weights.to(losses.device)[labels] * losses).mean()


def validation_auroc(prediction: EvalPrediction) -> dict[str, float]:
    """Return the validation AUROC, of more than two classes the mean of each against the others.

    Nothing where a class is missing.
    """
    labels = np.asarray(prediction.label_ids)
    logits = np.asarray(prediction.predictions, dtype=np.float64)
    if len(np.unique(labels)) < logits.shape[1]:
        return {}
    if logits.shape[1] > 2:  # a class's probability ranks as its logit less what all logits of the row come to
        with np.errstate(invalid="ignore"):  # logits that are no numbers are told by the loss, right after this
            logits = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return {"auroc": mean_auroc(labels, logits)}


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
