"""A game as captum sees it: a forward function of the binary vector that says which players are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


def forward_of(game: Game, sample: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function from (rows, n) vectors of 0 and 1 to the game's (rows,) float64 values.

    The game cuts the rows into its own batches and evaluates equal rows of one call once.
    """

    def forward(vectors: torch.Tensor) -> torch.Tensor:
        # cloned: outputs made in inference mode refuse captum's in-place arithmetic
        return game.evaluate(sample, vectors > 0.5).clone()

    return forward


def untouched(game: Game) -> torch.Tensor:
    """Return the (1, n) float64 vector of ones: every player kept."""
    return torch.ones((1, game.n), dtype=torch.float64, device=game.device)
