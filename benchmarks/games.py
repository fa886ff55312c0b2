"""Games whose gamma is known: by enumeration (short sequences), or in closed form (any length)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from explainers import Game
from explainers.ordshap.exact import placements
from tests.games import BAG, GLOVE, HAT, PairOrderGame, toy_payoff

Payoff = Callable[[torch.Tensor], torch.Tensor]
WIDTH = 4
BLOCK = 1 << 16
PAIRS = 1 << 17


@dataclass(frozen=True)
class KnownGame:
    """A game with its exact answers.

    Attributes:
        name: for tables.
        n: number of players.
        payoff: maps tokens (rows, n), 0 for absent and player + 1 else, to (rows,).
        gamma: (n, n) exact, players x slots.
    """

    name: str
    n: int
    payoff: Payoff = field(repr=False)
    gamma: np.ndarray = field(repr=False)

    def game(self) -> Game:
        """Return a fresh game that has spent nothing."""
        return Game.from_function(self.payoff, torch.arange(1, self.n + 1)[None], 0)

    def value(self) -> np.ndarray:
        """Return the exact VI (n,)."""
        return self.gamma.mean(1)

    def position(self) -> np.ndarray:
        """Return the exact PI (n,), the slope of gamma."""
        away = np.arange(self.n) - (self.n - 1) / 2
        return self.gamma @ away / (away**2).sum()


def enumerated(name: str, n: int, payoff: Payoff) -> KnownGame:
    """Return the game of ``payoff`` as a table of all its placements, and its exact gamma."""
    from explainers.ordshap.exact import gamma_matrix

    rows = placements(n)
    codes = torch.from_numpy(rows.astype(np.int64) + 1)
    outputs = torch.cat([payoff(codes[start : start + BLOCK]).double() for start in range(0, len(codes), BLOCK)])
    powers = (n + 1) ** torch.arange(n - 1, -1, -1)
    keys = codes @ powers

    def look_up(tokens: torch.Tensor) -> torch.Tensor:
        return outputs[torch.searchsorted(keys, tokens @ powers)]

    return KnownGame(name, n, look_up, gamma_matrix(rows, (rows >= 0).sum(1), outputs.numpy()))


def pair_order(n: int, seed: int = 3) -> KnownGame:
    """Return the closed form of docs/methods.md with ``n`` players."""
    known = PairOrderGame(n, seed)
    a, b, c = (torch.zeros((n + 1,) * part.ndim, dtype=torch.float64) for part in (known.a, known.b, known.c))
    a[1:], b[1:], c[1:, 1:] = torch.tensor(known.a), torch.tensor(known.b), torch.tensor(known.c)
    away = torch.arange(n, dtype=torch.float64) - (n - 1) / 2

    def payoff(tokens: torch.Tensor) -> torch.Tensor:
        single = (a[tokens] + b[tokens] * away).sum(1)
        return single + torch.cat([with_earlier(c, part) for part in tokens.split(max(1, PAIRS // n**2))])

    return KnownGame(f"pair-order n={n}", n, payoff, known.gamma())


def with_earlier(c: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the sum (rows,) of ``c[x, y]`` over all tokens x before y."""
    earlier = torch.nn.functional.embedding(tokens, c).cumsum(1)[:, :-1]
    return earlier.gather(2, tokens[:, 1:, None]).sum((1, 2))


def toy() -> KnownGame:
    """Return the toy of the OrdShap paper's section 4.3, n = 6."""
    items = torch.tensor([0, HAT, HAT, HAT, BAG, GLOVE, GLOVE])
    return enumerated("toy n=6", 6, lambda tokens: toy_payoff(items[tokens]))


def attention_like(n: int = 7, seed: int = 0) -> KnownGame:
    """Return one head of softmax attention over random embeddings and positions, read out by a sigmoid."""
    rng = np.random.default_rng([11, seed])
    embeddings, positions = normal(rng, n + 1, WIDTH), normal(rng, n, WIDTH)
    query, key, value = (normal(rng, WIDTH, WIDTH) / WIDTH**0.5 for _ in range(3))
    readout = normal(rng, WIDTH)

    def payoff(tokens: torch.Tensor) -> torch.Tensor:
        states = embeddings[tokens] + positions
        scores = (states @ query) @ (states @ key).transpose(1, 2) / WIDTH**0.5
        mixed = torch.softmax(scores, dim=2) @ (states @ value)
        return torch.sigmoid(torch.tanh(mixed + states).mean(1) @ readout)

    return enumerated(f"attention-like {seed} n={n}", n, payoff)


def gru_like(n: int = 7, seed: int = 0) -> KnownGame:
    """Return a random gated recurrent unit that reads the sequence from left to right, read out by a sigmoid."""
    rng = np.random.default_rng([12, seed])
    embeddings = normal(rng, n + 1, WIDTH)
    into, back = normal(rng, 3, WIDTH, WIDTH), normal(rng, 3, WIDTH, WIDTH)
    readout = normal(rng, WIDTH)

    def payoff(tokens: torch.Tensor) -> torch.Tensor:
        state = torch.zeros((len(tokens), WIDTH), dtype=torch.float64)
        for slot in range(n):
            x = embeddings[tokens[:, slot]]
            update = torch.sigmoid(x @ into[0] + state @ back[0])
            reset = torch.sigmoid(x @ into[1] + state @ back[1])
            state = (1 - update) * state + update * torch.tanh(x @ into[2] + (reset * state) @ back[2])
        return torch.sigmoid(2 * state @ readout)

    return enumerated(f"gru-like n={n}", n, payoff)


def normal(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return standard normal numbers, float64."""
    return torch.from_numpy(rng.normal(size=shape))


def trained_bert(n: int = 8) -> KnownGame:
    """Return the synthetic study's BERT on the first test stay with ``n`` events: the probability of its class."""
    from benchmarks.studies import trained

    subject = trained("synthetic", ["explain.samples=300"])
    index = next(i for i, tokens in enumerate(subject.rows["tokens"]) if len(tokens) == n)
    game = subject.game(index)
    own = torch.cat([torch.tensor([subject.vocabulary.mask]), torch.tensor(subject.rows[index]["tokens"])])

    def payoff(tokens: torch.Tensor) -> torch.Tensor:
        rows = own[tokens].split(max(1, game.batch_tokens // (n + 1)))
        return torch.cat([game.value(0, game.forward(0, part)) for part in rows])

    return enumerated(f"trained BERT n={n}", n, payoff)
