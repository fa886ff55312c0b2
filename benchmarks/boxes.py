"""Black boxes over token sequences whose Shapley values are known: closed forms, and a small BERT trained here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from explainers import ClassifierGame, Game, get_explainer
from explainers.sample_shapley import over_all_orders

CLS, MASK, FIRST, WORDS = 1, 2, 4, 40
BATCH_TOKENS = 4096
WAVES = (1, 3, 5, 7)


@dataclass(frozen=True)
class Box:
    """A black box on one sequence.

    Attributes:
        name: for tables.
        tokens: (n,) the explained sequence.
        output: maps tokens (rows, n) to (rows,) float64.
        exact: (n,) the Shapley values.
        stderr: the standard error of ``exact``, root mean square; 0 where it is no estimate.
    """

    name: str
    tokens: torch.Tensor
    output: Callable[[torch.Tensor], torch.Tensor] = field(repr=False)
    exact: np.ndarray = field(repr=False)
    stderr: float = 0.0

    @property
    def n(self) -> int:
        return len(self.tokens)


def interactions(n: int, seed: int) -> Box:
    """Return random interactions of 1 to 4 players, and a smooth part on top: :func:`saturating`, twice as large."""
    rng = np.random.default_rng([n, seed])
    parts, exact = [], np.zeros(n)
    for order, count, scale in ((1, n, 0.5), (2, 2 * n, 0.35), (3, 2 * n, 0.35), (4, n, 0.35)):
        members = np.array([rng.choice(n, order, replace=False) for _ in range(count)])
        weights = scale * rng.normal(size=count)
        np.add.at(exact, members, weights[:, None] / order)
        parts.append((torch.from_numpy(members), torch.from_numpy(weights)))
    smooth = saturating(n, seed)

    def output(tokens: torch.Tensor) -> torch.Tensor:
        kept = (tokens != MASK).double()
        terms = [kept[:, members].prod(2) @ weights for members, weights in parts]
        return torch.stack(terms).sum(0) + 2 * smooth.output(tokens)

    return Box(f"interactions {seed}", smooth.tokens, output, exact + 2 * smooth.exact)


def saturating(n: int, seed: int) -> Box:
    """Return a function that saturates in a weighted sum of the kept players: four waves of a square wave's series.

    Of one wave, sin(w (a + sum_i b_i)), the multilinear extension is the imaginary part of a product over players, and
    the Shapley value the integral of its derivative along the diagonal (Owen 1972): a polynomial, integrated exactly.
    """
    rng = np.random.default_rng([n, seed, 7])
    slopes = 2 * rng.normal(size=n) / math.sqrt(n)
    start = rng.normal() / 2 - slopes.sum() / 2
    nodes, weights = np.polynomial.legendre.leggauss(n)
    present, exact = (nodes[:, None] + 1) / 2, np.zeros(n)
    for wave in WAVES:
        turns = np.exp(1j * wave * math.pi / 12 * slopes)
        factors = 1 - present + present * turns
        integral = (weights[:, None] / 2 * (turns - 1) * factors.prod(1, keepdims=True) / factors).sum(0)
        exact += np.imag(np.exp(1j * wave * math.pi / 12 * start) * integral) * height(wave)
    frequencies = torch.tensor([wave * math.pi / 12 for wave in WAVES], dtype=torch.float64)
    heights = torch.tensor([height(wave) for wave in WAVES], dtype=torch.float64)

    def output(tokens: torch.Tensor) -> torch.Tensor:
        sums = (tokens != MASK).double() @ torch.from_numpy(slopes) + start
        return (sums[:, None] * frequencies).sin() @ heights

    return Box(f"saturating {seed}", torch.arange(FIRST, FIRST + n), output, exact)


def height(wave: int) -> float:
    """Return the height of one wave: a square wave's, falling faster, so that the sum does not overshoot."""
    return 4 / math.pi / wave * math.exp(-(wave - 1) / 8)


@cache
def small_bert(steps: int = 200) -> BertForSequenceClassification:
    """Return a BERT (2 layers, width 64) trained to tell a class from tokens and neighbours; the same always."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=160,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    draws = torch.Generator().manual_seed(1)
    weights, pairs = torch.randn(WORDS, generator=draws), 0.6 * torch.randn(WORDS, WORDS, generator=draws)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        length = (10, 16, 20, 50)[step % 4]
        tokens = torch.randint(FIRST, WORDS, (64, length), generator=draws)
        masked = torch.rand(64, length, generator=draws) < 0.8 * torch.rand(64, 1, generator=draws)
        tokens = tokens.masked_fill(masked, MASK)
        beside = pairs[tokens[:, :-1], tokens[:, 1:]] * ~(masked[:, 1:] | masked[:, :-1])
        logit = 2 / length**0.5 * ((weights[tokens] * ~masked).sum(1) + beside.sum(1))
        classes = torch.bernoulli(torch.sigmoid(logit), generator=draws).long()
        loss = torch.nn.functional.cross_entropy(model(input_ids=started(tokens)).logits, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def started(tokens: torch.Tensor) -> torch.Tensor:
    """Return the rows with [CLS] in front."""
    return torch.nn.functional.pad(tokens, (1, 0), value=CLS)


def bert(n: int, seed: int) -> Box:
    """Return the BERT's probability of its class on a random sequence; the Shapley values are NaN."""
    tokens = torch.randint(FIRST, WORDS, (n,), generator=torch.Generator().manual_seed(seed))
    model = small_bert()
    with torch.inference_mode():
        target = int(model(input_ids=started(tokens[None])).logits.argmax())

    def output(rows: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            parts = [model(input_ids=started(part)).logits for part in rows.split(BATCH_TOKENS // (n + 1))]
        return torch.cat(parts).double().softmax(1)[:, target].clone()

    return Box(f"BERT {seed}", tokens, output, np.full(n, np.nan))


def enumerated_bert(n: int, seed: int) -> Box:
    """Return the same as a table of all 2^n coalitions, with the exact Shapley values."""
    box, powers = bert(n, seed), 2 ** torch.arange(n)
    kept = (torch.arange(2**n)[:, None] & powers) != 0
    values = box.output(torch.where(kept, box.tokens, MASK))

    def output(tokens: torch.Tensor) -> torch.Tensor:
        return values[(tokens != MASK).long() @ powers]

    exact = over_all_orders(Game.from_function(output, box.tokens[None], MASK), 0).value.numpy()
    return Box(box.name, box.tokens, output, exact)


def estimated_bert(n: int, seed: int, evaluations: int) -> Box:
    """Return the same with Shapley values from a long run of the unbiased estimator, and their standard error."""
    box = bert(n, seed)
    game = ClassifierGame(small_bert(), box.tokens[None], MASK, prefix=(CLS,))
    found = get_explainer("sample_shapley", budget=evaluations).explain(game, seed=10**6)
    assert found.value_stderr is not None
    error = float(found.value_stderr.square().mean().sqrt())
    return Box(box.name, box.tokens, box.output, found.value[0].numpy(), error)
