"""The game: a batched black box seen through coalitions and arrangements (`docs/methods.md`, section 1).

`w(S, sigma)` first rearranges all players by sigma, then ablates those outside S; `w(S, id) = v(S)`.
Convention, used everywhere: `arrangement[l] = sigma(l)` is the player in slot l, `pos_i(sigma) = sigma^{-1}(i)`
is the slot of player i. Both are 0-based in code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explainers.lazy import Lazy
from explainers.removal import masked_rows

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

FUNCTION_BATCH_TOKENS = 1 << 20


@dataclass(frozen=True)
class EmbeddingView:
    """What gradient methods see of one sample: a module from embeddings to the game's output.

    Attributes:
        module: maps embeddings (rows, length, width) to the game's output (rows,).
        inputs: (1, length, width) embeddings of the untouched input.
        baselines: (1, length, width) the same with every player's token replaced by the mask token.
        players: the positions of the players among ``length``.
    """

    module: torch.nn.Module
    inputs: torch.Tensor
    baselines: torch.Tensor
    players: slice


class Game:
    """A black box over ``n`` players for ``size`` samples; build one with a ``from_...`` constructor.

    Attributes:
        n: number of players, the same for all samples of this game.
        size: number of samples.
        keys: one name a sample; a sample's random stream is drawn from it.
        device: where coalitions are built and outputs are returned.
        spent: black-box evaluations made so far for each sample.
    """

    def __init__(self, n: int, keys: Sequence[str], device: torch.device, batch_tokens: int) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; give at least 1")
        self.n = n
        self.keys = tuple(keys)
        self.size = len(self.keys)
        self.device = device
        self.batch_tokens = batch_tokens
        self.spent = [0] * self.size

    @staticmethod
    def from_function(
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        ablated: int,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
    ) -> Game:
        """Return the game of a function on token sequences.

        Args:
            f: maps a LongTensor (rows, n) to a Tensor (rows,). Metrics read it as the explained class's probability.
            x: (b, n) integer tokens, one player each.
            ablated: the mask token that stands for an absent player.
            batch_tokens: at most this many tokens go to ``f`` at once (at least one row).

        Raises:
            ValueError: ``x`` is not (b, n), or ``f`` returns another shape than (rows,).

        >>> import torch
        >>> game = Game.from_function(lambda t: (t == 7).sum(1).double(), torch.tensor([[7, 1, 7]]), ablated=0)
        >>> game.evaluate(0, torch.tensor([[True, True, False]]))
        tensor([1.], dtype=torch.float64)
        """
        return FunctionGame(f, x, ablated, batch_tokens)

    @staticmethod
    def from_set_function(
        v: Callable[[torch.Tensor], torch.Tensor], n: int, batch_tokens: int = FUNCTION_BATCH_TOKENS
    ) -> Game:
        """Return the game of a set function without a model; arrangements do not matter to it.

        Args:
            v: maps a BoolTensor (rows, n), the coalitions, to a Tensor (rows,).
            n: number of players.
            batch_tokens: at most this many entries go to ``v`` at once (at least one row).

        Raises:
            ValueError: ``n`` is negative, or ``v`` returns another shape than (rows,).
        """
        return SetFunctionGame(v, n, batch_tokens)

    @staticmethod
    def from_background(
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        background: torch.Tensor,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
    ) -> Game:
        """Return the game that averages absent features over a background; see ``explainers.background``."""
        from explainers.background import BackgroundGame

        return BackgroundGame(f, x, background, batch_tokens)

    def evaluate(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``w(S, sigma)`` of one sample for each row.

        Args:
            sample: index of the sample, 0-based.
            kept: (rows, n) boolean by player.
            arrangement: (rows, n) long, the player in each slot; None is the original order.

        Returns:
            (rows,) float64 on ``device``. Equal inputs are evaluated once, in batches of ``batch_tokens``.
        """
        return self.value(sample, self.outputs(sample, kept, arrangement))

    def outputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None = None) -> torch.Tensor:
        """Return the black box's raw outputs (rows, outputs) in float64, arguments as in :meth:`evaluate`."""
        kept = kept.to(self.device)
        if arrangement is not None:
            arrangement = arrangement.to(self.device)
        inputs = self.inputs(sample, kept, arrangement)
        first, inverse = distinct_rows(inputs)
        self.spent[sample] += len(first)
        return self._in_batches(sample, inputs[first])[inverse]

    def _in_batches(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        rows = max(1, self.batch_tokens // max(1, self.input_length()))
        done: list[torch.Tensor] = []
        start = 0
        while start < len(inputs):
            try:
                done.append(self.forward(sample, inputs[start : start + rows]).to(torch.float64))
            except torch.OutOfMemoryError:
                if rows == 1:
                    raise
                rows = max(1, rows // 2)
                torch.cuda.empty_cache()
                continue
            start += rows
        return torch.cat(done) if done else torch.zeros((0, 1), dtype=torch.float64, device=self.device)

    def input_length(self) -> int:
        """Return how many tokens one evaluation costs."""
        return self.n

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the (rows, length) integer inputs of the black box; rows that are equal are evaluated once."""
        raise NotImplementedError

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return raw outputs (rows, outputs) of one batch of inputs."""
        raise NotImplementedError

    def value(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the explained number (rows,) from raw outputs."""
        return outputs[:, 0]

    def probability(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the probability (rows,) of the explained class from raw outputs."""
        return outputs[:, 0]

    def agrees(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return whether the predicted class is the explained one: a function's output above one half."""
        return self.probability(sample, outputs) > 0.5

    def embedding_view(self, sample: int) -> EmbeddingView:
        """Return the view that gradient methods need.

        Raises:
            ValueError: the game wraps a plain function, which has no embeddings to differentiate by.
        """
        raise ValueError(
            "a gradient method needs a model with embeddings, and this game wraps a function; "
            "use ClassifierGame, or a method that only evaluates (kernelshap, lime, loco, ...)"
        )


class FunctionGame(Game):
    """The game of ``Game.from_function``."""

    def __init__(
        self,
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        ablated: int,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
    ) -> None:
        if x.dim() != 2 or x.is_floating_point() or x.is_complex():
            raise ValueError(f"x has shape {tuple(x.shape)} and type {x.dtype}; give (b, n) integer tokens")
        super().__init__(x.shape[1], [content_key(row) for row in x], x.device, batch_tokens)
        self.f = f
        self.x = x.long()
        self.ablated = ablated

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the tokens (rows, n), rearranged and masked."""
        return masked_rows(self.x[sample], kept, arrangement, self.ablated)

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return ``f`` of the tokens (rows, 1)."""
        with torch.no_grad():
            return one_column(self.f(inputs), len(inputs), "f")


class SetFunctionGame(Game):
    """The game of ``Game.from_set_function``."""

    def __init__(
        self,
        v: Callable[[torch.Tensor], torch.Tensor],
        n: int,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
    ) -> None:
        if n < 0:
            raise ValueError(f"n is {n}; a game has at least 0 players")
        super().__init__(n, [f"set function of {n}"], torch.device("cpu"), batch_tokens)
        self.v = v

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the coalitions themselves: arrangements do not matter."""
        return kept

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return ``v`` of the coalitions (rows, 1)."""
        with torch.no_grad():
            return one_column(self.v(inputs.bool()), len(inputs), "v")


def one_column(outputs: torch.Tensor, rows: int, name: str) -> torch.Tensor:
    """Return ``outputs`` as (rows, 1), or say that the function broke its contract."""
    if tuple(outputs.shape) != (rows,):
        raise ValueError(f"{name} returned shape {tuple(outputs.shape)} for {rows} rows; it must return ({rows},)")
    return outputs.detach()[:, None]


def content_key(tokens: torch.Tensor) -> str:
    """Name a sample by its content, so that its draws do not depend on its place in a batch."""
    return hashlib.sha256(tokens.detach().cpu().long().numpy().tobytes()).hexdigest()


def distinct_rows(inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of one representative of each distinct row, and for each row its representative's rank.

    Rows are compared by a 64-bit hash and then checked; the (never seen) collision falls back to a full sort.
    """
    rows, width = inputs.shape
    if rows == 0 or width == 0:
        first = torch.zeros(min(rows, 1), dtype=torch.long, device=inputs.device)
        return first, torch.zeros(rows, dtype=torch.long, device=inputs.device)
    factors = hash_factors(width).to(inputs.device)
    hashes = torch.zeros(rows, dtype=torch.long, device=inputs.device)
    for start in range(0, rows, max(1, FUNCTION_BATCH_TOKENS // width)):
        block = slice(start, start + max(1, FUNCTION_BATCH_TOKENS // width))
        hashes[block] = ((inputs[block].long() + 1) * factors).sum(1)
    first, inverse = first_of_each(hashes)
    if not torch.equal(inputs, inputs[first][inverse]):
        _, exact = torch.unique(inputs, dim=0, return_inverse=True)
        first, inverse = first_of_each(exact)
    return first, inverse


def first_of_each(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first index of each distinct label in order of appearance, and each entry's rank among them."""
    _, inverse = torch.unique(labels, return_inverse=True)
    groups = int(inverse.max()) + 1
    places = torch.arange(len(labels), device=labels.device)
    first = torch.full((groups,), len(labels), device=labels.device).scatter_reduce(0, inverse, places, reduce="amin")
    order = torch.argsort(first)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(groups, device=labels.device)
    return first[order], rank[inverse]


def hash_factors(width: int) -> torch.Tensor:
    """Return fixed odd 64-bit factors (width,), one a slot."""
    from explainers.streams import stream

    draws = stream(0, "row hash", str(width)).integers(-(2**62), 2**62, size=width) * 2 + 1
    return torch.from_numpy(draws)
