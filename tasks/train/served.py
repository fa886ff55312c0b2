"""A trained classifier at work: load it, pad ragged sequences, predict.

The logged MLflow model carries a copy of this file: it needs numpy, torch and transformers, and nothing of ordeval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging as transformers_logging


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
    with no_progress_bars():
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder), use_safetensors=True, local_files_only=True, attn_implementation="sdpa"
        )
    return model.to(device).eval()


def predict(
    model: PreTrainedModel, sequences: Sequence[Sequence[int]], cls: int, pad: int, batch: int = 4096
) -> np.ndarray:
    """Return the probability of class 1 for each sequence.

    Args:
        model: a transformers sequence classifier in ``eval()``.
        sequences: (rows,) ragged token ids without special tokens; an empty one is [CLS] alone.
        cls: the token put in front of each sequence.
        pad: the token that fills shorter rows; the attention mask hides it.
        batch: at most this many tokens a forward pass, padding counted (at least one row).

    Returns:
        (rows,) float64 in the order of ``sequences``; it does not depend on ``batch`` beyond rounding.

    Raises:
        ValueError: the model is in training mode, or a sequence is longer than it takes.
    """
    if model.training:
        raise ValueError("the model is in training mode: dropout would change its predictions; call model.eval()")
    check_lengths(sequences, model.config.max_position_embeddings - 1)
    device = next(model.parameters()).device
    probabilities = np.empty(len(sequences))
    with torch.inference_mode():
        for rows in batches([len(sequence) + 1 for sequence in sequences], batch):
            tokens, mask = pad_rows([sequences[row] for row in rows], cls, pad)
            logits = model(input_ids=tokens.to(device), attention_mask=mask.to(device)).logits
            probabilities[rows] = torch.softmax(logits.double(), dim=1)[:, 1].cpu().numpy()
    return probabilities


def check_lengths(sequences: Sequence[Sequence[int]], limit: int) -> None:
    """Raise ValueError where a sequence has more than ``limit`` tokens ([CLS] not counted)."""
    longest = max((len(sequence) for sequence in sequences), default=0)
    if longest > limit:
        raise ValueError(
            f"the longest sequence has {longest} tokens and the model takes {limit}; "
            f"shorten the sequences to {limit} tokens, or train a model with a larger data.tokens.max_tokens"
        )


def pad_rows(sequences: Sequence[Sequence[int]], cls: int, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and attention mask, both (rows, 1 + longest) int64, with ``cls`` in front of each row."""
    lengths = np.array([len(sequence) + 1 for sequence in sequences])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(mask.shape, pad, dtype=np.int64)
    tokens[:, 0] = cls
    tokens[:, 1:][mask[:, 1:]] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
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
