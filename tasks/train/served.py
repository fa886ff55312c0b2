"""A trained classifier at work: load it, pad ragged sequences or stack pixels, predict.

The logged MLflow model carries a copy of this file: it needs numpy, torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

OWN = "ordeval-"  # how the model types of this project's networks begin; they read no [CLS]


def load_model(folder: Path | str, device: str) -> PreTrainedModel:
    """Return the classifier saved in ``folder``, in ``eval()`` on ``device``.

    Args:
        folder: holds config.json and model.safetensors; the train stage writes it as ``model/``.
        device: "cpu" or "cuda".

    Raises:
        FileNotFoundError: one of the two files is missing.
    """
    for name in ("config.json", "model.safetensors"):
        if not (Path(folder) / name).is_file():
            raise FileNotFoundError(f"there is no {name} in {folder}; give the model folder that the train stage wrote")
    config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
    attention = {} if config.model_type.startswith(OWN) else {"attn_implementation": "sdpa"}
    with no_progress_bars():
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder), use_safetensors=True, local_files_only=True, **attention
        )
    return model.to(device).eval()


def register(network: ModuleType) -> None:
    """Let :func:`load_model` know the network that a module of this project's networks defines."""
    for kind in vars(network).values():
        if isinstance(kind, type) and issubclass(kind, PreTrainedModel) and kind is not PreTrainedModel:
            assert kind.config_class is not None, "each network names the class of its configuration"
            AutoConfig.register(kind.config_class.model_type, kind.config_class, exist_ok=True)
            AutoModelForSequenceClassification.register(kind.config_class, kind, exist_ok=True)


def front(config: PretrainedConfig, cls: int) -> tuple[int, ...]:
    """Return the special tokens that a model reads in front of a sequence: [CLS], or none."""
    return () if config.model_type.startswith(OWN) else (cls,)


def predict(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]], cls: int, pad: int, batch: int = 4096
) -> np.ndarray:
    """Return the probability of each class for each sequence.

    Args:
        model: a transformers sequence classifier in ``eval()``.
        sequences: (rows,) ragged token ids without special tokens; an empty one is [CLS] alone.
        cls: the token put in front of each sequence, where the model reads one.
        pad: the token that fills shorter rows; the attention mask hides it.
        batch: at most this many tokens a forward pass, padding counted (at least one row).

    Returns:
        (rows, classes) float64 in the order of ``sequences``; it does not depend on ``batch`` beyond rounding.

    Raises:
        ValueError: the model is in training mode, or a sequence is longer than it takes.
    """
    check_evaluating(model)
    special = front(model.config, cls)
    check_lengths(sequences, model.config.max_position_embeddings - len(special))
    device = next(model.parameters()).device
    probabilities = np.empty((len(sequences), int(model.config.num_labels or 0)))
    with torch.inference_mode():
        for rows in batches([len(sequence) + len(special) for sequence in sequences], batch):
            tokens, mask = pad_rows([sequences[row] for row in rows], special, pad)
            logits = model(input_ids=tokens.to(device), attention_mask=mask.to(device)).logits
            probabilities[rows] = torch.softmax(logits.double(), dim=1).cpu().numpy()
    return probabilities


def predict_pixels(model: PreTrainedModel, pixels: np.ndarray, batch: int = 256) -> np.ndarray:
    """Return the probability of each class (rows, classes) float64 for images.

    Args:
        model: an image classifier in ``eval()``: ``pixel_values`` in, ``logits`` out.
        pixels: (rows, channels, height, width) uint8; 255 is 1.
        batch: images a forward pass.

    Raises:
        ValueError: the model is in training mode.
    """
    check_evaluating(model)
    device = next(model.parameters()).device
    probabilities = np.empty((len(pixels), int(model.config.num_labels or 0)))
    with torch.inference_mode():
        for start in range(0, len(pixels), batch):
            values = torch.from_numpy(pixels[start : start + batch]).to(device).float() / 255
            logits = model(pixel_values=values).logits
            probabilities[start : start + batch] = torch.softmax(logits.double(), dim=1).cpu().numpy()
    return probabilities


def predict_features(model: PreTrainedModel, features: np.ndarray, batch: int = 4096) -> np.ndarray:
    """Return the probability of each class (rows, classes), or the number (rows, 1) that is predicted; float64.

    Args:
        model: in ``eval()``: ``features`` in, ``logits`` out; one output is a number.
        features: (rows, n) float64.
        batch: rows a forward pass.

    Raises:
        ValueError: the model is in training mode.
    """
    check_evaluating(model)
    parameter = next(model.parameters())
    found = []
    with torch.inference_mode():
        for start in range(0, len(features), batch):
            values = torch.from_numpy(features[start : start + batch]).to(parameter.device, parameter.dtype)
            logits = model(features=values).logits.double()
            found.append((logits if logits.shape[1] == 1 else torch.softmax(logits, dim=1)).cpu().numpy())
    return np.concatenate(found)


def check_evaluating(model: PreTrainedModel) -> None:
    """Raise ValueError where the model is in training mode."""
    if model.training:
        raise ValueError("the model is in training mode: dropout would change its predictions; call model.eval()")


def probability_columns(probabilities: np.ndarray) -> dict[str, np.ndarray]:
    """Return probabilities (rows, classes) as named columns: of two classes that of class 1, of more each class's.

    One column is a number that is predicted.
    """
    if probabilities.shape[1] == 1:
        return {"prediction": probabilities[:, 0]}
    if probabilities.shape[1] == 2:
        return {"probability": probabilities[:, 1]}
    return {f"probability_{place}": column for place, column in enumerate(probabilities.T)}


def check_lengths(sequences: Sequence[Sequence[int]], limit: int) -> None:
    """Raise ValueError where a sequence has more than ``limit`` tokens (special ones not counted)."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    if longest > limit:
        raise ValueError(
            f"the longest sequence has {longest} tokens and the model takes {limit}; "
            f"shorten the sequences to {limit} tokens, or train a model with a larger data.tokens.max_tokens"
        )


def pad_rows(
    sequences: Sequence[Sequence[int]], special: tuple[int, ...], pad: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and attention mask, both (rows, special + longest) int64, ``special`` in front of each row."""
    first = len(special)
    lengths = np.array([len(sequence) + first for sequence in sequences])
    mask = np.arange(max(1, lengths.max())) < lengths[:, None]
    tokens = np.full(mask.shape, pad, dtype=np.int64)
    tokens[:, :first] = special
    tokens[:, first:][mask[:, first:]] = np.concatenate([np.asarray(row, dtype=np.int64) for row in sequences])
    return torch.from_numpy(tokens), torch.from_numpy(mask.astype(np.int64))


def batches(lengths: Sequence[int], batch: int) -> Iterator[np.ndarray]:
    """Yield row numbers, alike in length, whose padded rows hold at most ``batch`` tokens (at least one row)."""
    order = np.argsort(np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > batch:
            yield order[start:end]
            start = end


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Silence transformers' progress bars, and put them back as they were."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()
