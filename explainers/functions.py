"""Games of plain functions: on token sequences, and on sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from explainers.game import FUNCTION_BATCH_TOKENS, Game, content_key
from explainers.lazy import Lazy
from explainers.players import players_of, slot_times

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

NARROW = 1 << 30


class FunctionGame(Game):
    """The game of ``Game.from_function``."""

    def __init__(
        self,
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        ablated: int,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
        groups: torch.Tensor | None = None,
        times: torch.Tensor | None = None,
    ) -> None:
        if x.dim() != 2 or x.is_floating_point() or x.is_complex():
            raise ValueError(f"x has shape {tuple(x.shape)} and type {x.dtype}; give (b, n) integer tokens")
        self.players = players_of(x, groups)
        n = self.players.n
        super().__init__(n, [content_key(row) for row in x], x.device, batch_tokens, slot_times(times, len(x), n))
        self.f = f
        self.x = narrow(x, ablated)
        self.ablated = ablated

    def box(self) -> Hashable:
        """Return the function."""
        return id(self.f)

    def alike(self, sample: int) -> bool:
        """Return whether all players have equally many tokens."""
        return self.players.alike(sample)

    def input_width(self) -> int:
        """Return the number of tokens."""
        return self.x.shape[1]

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the tokens (rows, length), rearranged and masked."""
        return self.players.rows(sample, self.x[sample], kept, arrangement, self.ablated)

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return ``f`` of the tokens (rows, 1)."""
        with torch.no_grad():
            return one_column(self.f(inputs.long()), len(inputs), "f")


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
            return one_column(self.v(inputs), len(inputs), "v")


def narrow(tokens: torch.Tensor, ablated: int) -> torch.Tensor:
    """Return ``tokens`` as int32 where they and the mask token fit (rows of half the size), else as int64."""
    fits = abs(ablated) < NARROW and (tokens.numel() == 0 or int(tokens.abs().max()) < NARROW)
    return tokens.to(torch.int32 if fits else torch.long)


def one_column(outputs: torch.Tensor, rows: int, name: str) -> torch.Tensor:
    """Return ``outputs`` as (rows, 1), or say that the function broke its contract."""
    if tuple(outputs.shape) != (rows,):
        raise ValueError(f"{name} returned shape {tuple(outputs.shape)} for {rows} rows; it must return ({rows},)")
    return outputs.detach()[:, None]
