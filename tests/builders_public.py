"""Small text and image data sets, written as their public homes lay them out."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from pyarrow import parquet
from transformers import BertConfig, BertModel, BertTokenizerFast

GOOD, BAD = ("good", "fine", "lovely"), ("bad", "poor", "awful")
PLAIN = ("the", "film", "was", "a", "and", "it", "story", "of", "in", "this")


def reviews(folder: Path, train: int = 240, test: int = 80, seed: int = 0, classes: int = 2) -> Path:
    """Write films' reviews of 4 to 12 words whose label, even or odd, is that of its words of blame or praise."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, size in (("train", train), ("test", test)):
        texts, labels = [], []
        for row in range(size):
            label = row % classes
            words = [str(rng.choice(PLAIN)) for _ in range(rng.integers(3, 10))]
            for _ in range(2):
                words.insert(int(rng.integers(len(words) + 1)), str(rng.choice(GOOD if label % 2 else BAD)))
            half = len(words) // 2
            texts.append(f"{' '.join(words[:half]).capitalize()}. <br />{' '.join(words[half:])}!")
            labels.append(label)
        table = pa.table({"text": texts, "label": pa.array(labels, pa.int64())})
        parquet.write_table(table, folder / f"{part}.parquet")
    return folder


def digits(folder: Path, train: int = 160, test: int = 60, side: int = 16, seed: int = 0) -> Path:
    """Write images that are bright on the left (published label 3) or on the right (8), and some of label 5."""
    return images_of_halves(folder, "image", (3, 8, 5), (train, test), (side, side), seed)


def animals(folder: Path, train: int = 60, test: int = 30) -> Path:
    """Write coloured images that are bright on the left (published label 4) or right (7), and some of label 5."""
    return images_of_halves(folder, "img", (4, 7, 5), (train, test), (16, 16, 3))


def images_of_halves(
    folder: Path, column: str, classes: tuple[int, ...], sizes: tuple[int, int], shape: tuple[int, ...], seed: int = 0
) -> Path:
    """Write both parts: the first class is bright on the left, the others on the right; ``shape`` is an image's."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, size in zip(("train", "test"), sizes, strict=True):
        images, labels = [], []
        for row in range(size):
            label = classes[row % 3]
            pixels = rng.integers(0, 60, size=shape)
            half = slice(0, shape[1] // 2) if label == classes[0] else slice(shape[1] // 2, shape[1])
            pixels[:, half] += 150
            images.append({"bytes": png(pixels.astype(np.uint8)), "path": None})
            labels.append(label)
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.table({column: pa.array(images, kind), "label": pa.array(labels, pa.int64())})
        parquet.write_table(table, folder / f"{part}-00000-of-00001.parquet")
    return folder


def png(pixels: np.ndarray) -> bytes:
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, format="PNG")
    return held.getvalue()


def encoder(folder: Path) -> Path:
    """Write a tiny pretrained encoder with its tokenizer: words of the reviews, some of them in two pieces."""
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PLAIN, *GOOD, "ba", "##d", "poor", "aw", "##ful"]
    vocabulary += [".", "!"]
    BertTokenizerFast(vocab={token: place for place, token in enumerate(vocabulary)}).save_pretrained(folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=40, **size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder
