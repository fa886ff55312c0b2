"""The game: a batched black box seen through coalitions and arrangements (`docs/methods.md`, section 1).

`w(S, sigma)` first rearranges all players by sigma, then ablates those outside S; `w(S, id) = v(S)`.
Convention, used everywhere: `arrangement[l] = sigma(l)` is the player in slot l, `pos_i(sigma) = sigma^{-1}(i)`
is the slot of player i. Both are 0-based in code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from explainers.batches import Request, answer
from explainers.lazy import Lazy
from explainers.memo import WIDEST, Memo
from explainers.players import check_rows
from explainers.rows import distinct_rows, row_hashes

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
        players: the positions of the players' tokens among ``length``.
        members: the player of each of these tokens; None where each token is a player.
    """

    module: torch.nn.Module
    inputs: torch.Tensor
    baselines: torch.Tensor
    players: slice
    members: torch.Tensor | None = None


class Game:
    """A black box over ``n`` players for ``size`` samples; build one with a ``from_...`` constructor.

    Attributes:
        n: number of players, the same for all samples of this game.
        size: number of samples.
        keys: one name a sample; a sample's random stream is drawn from it.
        device: where coalitions are built and outputs are returned.
        times: (size, n) float64 on the CPU, the time of each slot, never falling; None where slots have no times.
        spent: black-box evaluations made so far for each sample.
        spent_tokens: tokens that the black box was given so far for each sample, special ones and padding included.
        columns: raw outputs an evaluation has.
        answerer: what answers a request for distinct inputs; games that are explained together share one.
    """

    def __init__(
        self,
        n: int,
        keys: Sequence[str],
        device: torch.device,
        batch_tokens: int,
        times: torch.Tensor | None = None,
    ) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; give at least 1")
        self.n = n
        self.keys = tuple(keys)
        self.size = len(self.keys)
        self.device = device
        self.batch_tokens = batch_tokens
        self.times = times
        self.spent = [0] * self.size
        self.spent_tokens = [0] * self.size
        self.columns = 1
        self.answerer: Callable[[Request], torch.Tensor] = alone
        self._memos: dict[int, Memo] = {}

    @staticmethod
    def from_function(
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        ablated: int,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
        groups: torch.Tensor | None = None,
        times: torch.Tensor | None = None,
    ) -> Game:
        """Return the game of a function on token sequences.

        Args:
            f: maps a LongTensor (rows, length) to a Tensor (rows,). Metrics read it as the explained class's
                probability.
            x: (b, length) integer tokens.
            ablated: the mask token that stands for an absent player's token.
            batch_tokens: at most this many tokens go to ``f`` at once (at least one row).
            groups: (b, length) the player of each token, 0..n-1; None makes each token a player.
            times: (b, n) the time of each slot, finite and never falling; None where slots have no times.

        Raises:
            ValueError: ``x``, ``groups`` or ``times`` has another shape or type, ``groups`` skips a number or differs
                in players from sample to sample, or ``f`` returns another shape than (rows,).

        >>> import torch
        >>> game = Game.from_function(lambda t: (t == 7).sum(1).double(), torch.tensor([[7, 1, 7]]), ablated=0)
        >>> game.evaluate(0, torch.tensor([[True, True, False]]))
        tensor([1.], dtype=torch.float64)
        """
        from explainers.functions import FunctionGame

        return FunctionGame(f, x, ablated, batch_tokens, groups, times)

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
        from explainers.functions import SetFunctionGame

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

        Raises:
            ValueError: ``kept`` or ``arrangement`` has another shape or type.
        """
        return self.value(sample, self.outputs(sample, kept, arrangement))

    def outputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None = None) -> torch.Tensor:
        """Return the black box's raw outputs (rows, outputs) in float64, arguments as in :meth:`evaluate`."""
        check_rows(self.n, kept, arrangement)
        kept = kept.to(self.device)
        if arrangement is not None:
            arrangement = arrangement.to(self.device, torch.long)
        inputs = self.inputs(sample, kept, arrangement)
        hashes = row_hashes(inputs)
        first, inverse = distinct_rows(inputs, hashes)
        if len(first) == len(inputs):
            return self._distinct_outputs(sample, inputs, hashes)
        return self._distinct_outputs(sample, inputs[first], hashes[first])[inverse]

    def _distinct_outputs(self, sample: int, inputs: torch.Tensor, hashes: torch.Tensor) -> torch.Tensor:
        memo = self._memos.get(sample)
        if memo is None:
            return self._asked(sample, inputs, hashes)
        return memo.complete(inputs, hashes, lambda *fresh: self._asked(sample, *fresh))

    def _asked(self, sample: int, inputs: torch.Tensor, hashes: torch.Tensor) -> torch.Tensor:
        outputs = self.answerer(Request(self, sample, inputs))
        self.note(sample, inputs, hashes, outputs)
        return outputs

    @contextmanager
    def remembering(self, sample: int) -> Iterator[None]:
        """Evaluate no input of one sample twice within the block, where inputs are short enough to repeat.

        Inputs of at most 12 tokens are remembered, 65,536 of them; on longer ones hardly any request meets an earlier
        one. What is found again is not counted in ``spent``.
        """
        if sample in self._memos or self.input_width() > WIDEST:
            yield
            return
        self._memos[sample] = Memo()
        try:
            yield
        finally:
            del self._memos[sample]

    def box(self) -> Hashable:
        """Return what games must have in common to share a forward pass; by default no other game has it."""
        return id(self)

    def takes_padding(self) -> bool:
        """Return whether inputs that end in ``ABSENT`` mean the same as shorter ones; asked where unequal ones meet."""
        return False

    def alike(self, sample: int) -> bool:
        """Return whether absent players cannot be told apart: which of them sits in which slot does not matter.

        It does where players are groups of unequally many tokens.
        """
        return True

    def inert(self, sample: int) -> torch.Tensor:
        """Return (n,) boolean: players whose ablation leaves the input as it is; no method should give them a value."""
        everyone = torch.ones((1, self.n), dtype=torch.bool, device=self.device)
        without = ~torch.eye(self.n, dtype=torch.bool, device=self.device)
        return (self.inputs(sample, without, None) == self.inputs(sample, everyone, None)).all(1)

    def input_width(self) -> int:
        """Return how many tokens a row of inputs has, special tokens left out."""
        return self.n

    def lengths(self, inputs: torch.Tensor) -> np.ndarray:
        """Return how many tokens the model is given for each of the ``inputs`` (rows,)."""
        return np.full(len(inputs), self.input_width())

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the (rows, width) integer inputs of the black box; rows that are equal are evaluated once."""
        raise NotImplementedError

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return raw outputs (rows, outputs) of one batch of inputs; rows of shorter games end in ``ABSENT``."""
        raise NotImplementedError

    def note(self, sample: int, inputs: torch.Tensor, hashes: torch.Tensor, outputs: torch.Tensor) -> None:
        """Take note of inputs that the black box has just seen; a game that checks its own precision does."""

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


def alone(request: Request) -> torch.Tensor:
    """Answer a request by itself."""
    return answer([request])[0]


def content_key(tokens: torch.Tensor) -> str:
    """Name a sample by its content, so that its draws do not depend on its place in a batch."""
    return hashlib.sha256(tokens.detach().cpu().long().numpy().tobytes()).hexdigest()
