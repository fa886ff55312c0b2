"""Varying training images (shifts, mirroring) and texts (words left out), drawn from torch's current random state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from tasks.content import Kind

MOST_SHIFT = 2
LEFT_OUT = 0.2
AUGMENTATIONS: dict[Kind, tuple[str, ...]] = {"image": ("shift", "shift_flip"), "text": ("leave_words_out",)}


def augmented(pixels: torch.Tensor, kind: str) -> torch.Tensor:
    """Return images (rows, channels, height, width), each shifted and perhaps mirrored.

    Args:
        pixels: the images.
        kind: ``none``; ``shift``: by up to two pixels in each direction, the border repeated; ``shift_flip``: mirrored
            left to right with chance one half, too.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in ("none", *AUGMENTATIONS["image"]):
        raise ValueError(f"augment is {kind!r}; it is none, shift or shift_flip")
    if kind == "none":
        return pixels
    rows, _, height, width = pixels.shape
    padded = functional.pad(pixels, (MOST_SHIFT,) * 4, mode="replicate")
    down, right = torch.randint(0, 2 * MOST_SHIFT + 1, (2, rows))
    lines = down[:, None] + torch.arange(height)
    columns = right[:, None] + torch.arange(width)
    if kind == "shift_flip":
        mirrored = torch.rand(rows) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    row = torch.arange(rows)[:, None, None]
    return padded[row, :, lines[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def without_words(tokens: Sequence[int], words: Sequence[int]) -> list[int]:
    """Return a text's tokens less those of some words, each left out with chance one fifth; never of all words.

    What follows a word that is left out moves up (random deletion: Wei and Zou 2019, "EDA: Easy Data Augmentation
    Techniques for Boosting Performance on Text Classification Tasks").

    Args:
        tokens: (n,) token ids.
        words: (n,) the word that each token is of, 0 to w - 1; not empty.
    """
    word = np.asarray(words)
    stays = torch.rand(int(word.max()) + 1).numpy() >= LEFT_OUT
    if not stays.any():
        stays[int(torch.randint(len(stays), ()))] = True
    return np.asarray(tokens)[stays[word]].tolist()
