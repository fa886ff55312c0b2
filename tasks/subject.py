"""What is explained: a trained model, the first samples of the test part, and the players of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, load_from_disk

from conf.schema import Explain
from explainers import ClassifierGame, PixelGame
from explainers.features import MOST_TABLED, FeatureGame, ForestGame, ForestLeaves
from explainers.logits import LogitGame
from tasks.content import Content, Kind, read_content
from tasks.train.networks import NETWORKS
from tasks.train.networks.forest import Forest
from tasks.train.served import front, load_model
from tasks.vocabulary import Vocabulary, vocabulary_of

PLAYERS: dict[Kind, tuple[str, ...]] = {
    "events": ("tokens", "times"),
    "text": ("tokens", "words", "sentences"),
    "image": ("tokens",),
    "table": ("tokens",),
}


@dataclass(frozen=True)
class Players:
    """The n players of one sample.

    Attributes:
        of: (length,) the player of each token, from 0; None where each token (or pixel) is a player.
        names: n texts, for people.
        hours: (n,) float64, hours since the window's start; None where players have no times.
        noun: what a player is called.
    """

    of: np.ndarray | None
    names: list[str]
    hours: np.ndarray | None = None
    noun: str = "event"


@dataclass(frozen=True)
class Subject:
    """What is explained: a model, and the first samples of the test part.

    Attributes:
        model: the classifier in ``eval()``.
        content: what the samples are.
        vocabulary: names and special tokens; None for images and tables.
        rows: the samples: ``sample`` (its name), ``label``, and tokens, pixels or features.
        explain: output scale, players, removal, batches.
        background: (m, n) the training rows of a table that absent features are averaged over; None for others.
    """

    model: torch.nn.Module
    content: Content
    vocabulary: Vocabulary | None
    rows: Dataset
    explain: Explain
    background: torch.Tensor | None = None

    @classmethod
    def load(cls, data: Path, model: Path, explain: Explain, device: str) -> Subject:
        """Load the model of a train output and the test samples of a preprocess output.

        Raises:
            ValueError: the test part has fewer samples than the study wants explained, or has no such players.
        """
        rows = test_rows(data, explain.samples)
        content = read_content(data)
        check_samples(rows, content.kind, explain)
        network = load_model(model / "model", device)
        background = background_rows(data, explain, network) if content.kind == "table" else None
        return cls(network, content, vocabulary_of(data, content), rows, explain, background)

    def game(self, index: int) -> LogitGame | FeatureGame:
        """Return the game of one sample; the times of an event's slot are hours since the window's start."""
        row = self.rows[index]
        if self.content.kind == "image":
            return self.pixel_game(row)
        if self.content.kind == "table":
            return self.feature_game(row)
        assert self.vocabulary is not None, "token sequences have a vocabulary"
        players = players_of(row, self.content, self.vocabulary, self.explain.players)
        special = front(self.model.config, self.vocabulary.cls)  # type: ignore[arg-type]
        return ClassifierGame(
            self.model,
            torch.tensor([row["tokens"]], dtype=torch.long),
            ablated=absent_token(self.model, self.vocabulary),
            prefix=special,
            scale=self.explain.output,
            batch_tokens=self.explain.batch_tokens,
            removal=self.explain.removal,
            precision=self.explain.precision,
            groups=None if players.of is None else torch.from_numpy(players.of)[None],
            times=None if players.hours is None else torch.from_numpy(players.hours)[None],
        )

    def pixel_game(self, row: Mapping[str, Any]) -> PixelGame:
        """Return the game of one image."""
        pixels = torch.tensor(row["pixels"], dtype=torch.uint8).reshape(1, *self.content.shape).float() / 255
        explain = self.explain
        return PixelGame(
            self.model, pixels, self.content.reference, scale=explain.output, batch_tokens=explain.batch_tokens
        )

    def feature_game(self, row: Mapping[str, Any]) -> FeatureGame:
        """Return the game of one row of a table."""
        assert self.background is not None, "a table has a background"
        features = torch.tensor([row["features"]], dtype=self.background.dtype)
        explain = self.explain
        if self.leaves is not None:
            return ForestGame(self.model, features, self.background, self.leaves, explain.batch_tokens)
        return FeatureGame(
            self.model, features, self.background, scale=explain.output, batch_tokens=explain.batch_tokens
        )

    @cached_property
    def leaves(self) -> ForestLeaves | None:
        """Return what the games of a forest with few features share; None for other models."""
        few = isinstance(self.model, Forest) and len(self.content.features) <= MOST_TABLED
        return ForestLeaves.of(self.model, self.background) if few and self.background is not None else None


def background_rows(data: Path, explain: Explain, model: torch.nn.Module) -> torch.Tensor:
    """Return the first ``explain.background`` training rows (m, n) in the type of the model's weights.

    Raises:
        ValueError: the training part has fewer.
    """
    train = load_from_disk(str(data / "dataset"))["train"]
    wanted = explain.background or len(train)
    if wanted > len(train):
        raise ValueError(
            f"explain.background is {wanted} and the training part has {len(train)} rows; give {len(train)} or less"
        )
    weight = next(model.parameters())
    return torch.tensor(train.select(range(wanted))["features"][:], dtype=weight.dtype, device=weight.device)


def absent_token(model: torch.nn.Module, vocabulary: Vocabulary) -> int:
    """Return the token that stands for an absent one: [MASK], or for the papers' text networks the zero padding."""
    return vocabulary.pad if isinstance(model, tuple(NETWORKS.values())) else vocabulary.mask


def players_of(row: Mapping[str, Any], content: Content, vocabulary: Vocabulary | None, players: str) -> Players:
    """Return the players of one sample.

    Args:
        row: of the data set.
        content: what the sample is.
        vocabulary: of token sequences.
        players: ``tokens``: each token, or pixel; ``times``: the events of one hour, side by side; ``words`` or
            ``sentences`` of a text.
    """
    if content.kind == "table":
        return Players(None, list(content.features), noun="feature")
    if content.kind == "image":
        _, height, width = content.shape
        names_of_pixels = [f"row {line + 1}, column {column + 1}" for line in range(height) for column in range(width)]
        return Players(None, names_of_pixels, noun="pixel")
    if players in ("words", "sentences"):
        noun = players[:-1]
        return Players(np.asarray(row[players], dtype=np.int64), list(row[f"{noun}_texts"]), noun=noun)
    assert vocabulary is not None, "token sequences have a vocabulary"
    if content.kind == "text":
        whole = len(row["word_texts"]) == len(row["tokens"])  # tokens are words: as they are written, not [UNK]
        texts = list(row["word_texts"]) if whole else [vocabulary.names[token] for token in row["tokens"]]
        return Players(None, texts, noun="word" if whole else "token")
    of, hours = players_in(row["hours"], players)
    names: list[list[str]] = [[] for _ in hours]
    for player, token in zip(of, row["tokens"], strict=True):
        names[player].append(vocabulary.names[token])
    each = players == "tokens"
    return Players(None if each else of, [" + ".join(parts) for parts in names], hours, "event" if each else "visit")


def players_in(hours: list[float], players: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the player of each event (length,), 0-based, and the hour of each player's slot (n,), float64.

    Args:
        hours: (length,) the hour of each event.
        players: ``tokens``: each event; ``times``: the events of one hour, side by side.
    """
    each = np.asarray(hours, dtype=np.float64)
    starts = np.ones(len(each), dtype=bool)
    if players == "times":
        starts[1:] = each[1:] != each[:-1]
    return np.cumsum(starts) - 1, each[starts]


def player_counts(data: Path, explain: Explain) -> list[int]:
    """Return the number of players of each explained sample.

    Raises:
        ValueError: the test part has fewer samples, or has no such players.
    """
    rows, content = test_rows(data, explain.samples), read_content(data)
    check_samples(rows, content.kind, explain)
    if content.kind == "table":
        return [len(content.features)] * len(rows)
    if content.kind == "image":
        return [content.shape[1] * content.shape[2]] * len(rows)
    if explain.players in ("words", "sentences"):
        return [len(texts) for texts in rows[f"{explain.players[:-1]}_texts"]]
    if content.kind == "text":
        return [len(tokens) for tokens in rows["tokens"]]
    return [len(players_in(hours, explain.players)[1]) for hours in rows["hours"]]


def check_players(kind: Kind, explain: Explain) -> None:
    """Raise ValueError where samples of this kind have no such players, or cannot be taken away like that."""
    known = PLAYERS[kind]
    if explain.players not in known:
        raise ValueError(f"explain.players is {explain.players!r}; of {kind} data it is {' or '.join(known)}")
    if kind != "table" and explain.background is not None:
        raise ValueError(f"explain.background is {explain.background}, and {kind} data have none; leave it out")
    if kind in ("image", "table"):
        for name, only in (("removal", "mask_token"), ("precision", "full")):
            if getattr(explain, name) != only:
                raise ValueError(f"explain.{name} is {getattr(explain, name)!r}; of {kind} data it is {only!r}")


def check_samples(rows: Dataset, kind: Kind, explain: Explain) -> None:
    """Raise ValueError where the samples have no such players."""
    check_players(kind, explain)
    if explain.players == "sentences" and not rows[0]["sentences"]:
        raise ValueError(
            "explain.players is 'sentences' and none were found in the texts; set data.text.sentences=true"
        )


def test_rows(data: Path, samples: int) -> Dataset:
    """Return the first ``samples`` rows of the test part.

    Raises:
        ValueError: the test part has fewer.
    """
    test = load_from_disk(str(data / "dataset"))["test"]
    if samples > len(test):
        raise ValueError(
            f"explain.samples is {samples} and the test part has {len(test)} samples; "
            f"set explain.samples={len(test)} or less"
        )
    return test.select(range(samples))
