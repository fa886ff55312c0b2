"""The game that removes a feature by averaging over a background sample (joint Shapley paper, Eq. 7)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from explainers.game import FUNCTION_BATCH_TOKENS, Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class BackgroundGame(Game):
    """``v(S)`` is the mean output over the background rows, with the features in S taken from the sample.

    One evaluation is one coalition: a mean over all background rows. Arrangements do not matter to it.
    """

    def __init__(
        self,
        f: Callable[[torch.Tensor], torch.Tensor],
        x: torch.Tensor,
        background: torch.Tensor,
        batch_tokens: int = FUNCTION_BATCH_TOKENS,
    ) -> None:
        """Build the game.

        Args:
            f: maps features (rows, n) to a Tensor (rows,).
            x: (b, n) the samples, real-valued features, one player each.
            background: (m, n) the rows whose values stand for absent features; one row is a baseline.
            batch_tokens: at most this many features go to ``f`` at once (at least one row).

        Raises:
            ValueError: ``x`` is not (b, n), or ``background`` has no rows or another number of features.
        """
        if x.dim() != 2:
            raise ValueError(f"x has shape {tuple(x.shape)}; give (samples, features)")
        if background.dim() != 2 or background.shape[1] != x.shape[1]:
            raise ValueError(
                f"background has shape {tuple(background.shape)} and x {tuple(x.shape)}; give (rows, {x.shape[1]})"
            )
        if not len(background):
            raise ValueError("background has no rows, so absent features have no values; give at least one row")
        keys = [hashlib.sha256(row.detach().cpu().double().numpy().tobytes()).hexdigest() for row in x]
        super().__init__(x.shape[1], keys, x.device, batch_tokens)
        self.f = f
        self.x = x
        self.background = background.to(x.device)

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the coalitions themselves."""
        return kept

    def lengths(self, inputs: torch.Tensor) -> np.ndarray:
        """Return the features of all the rows that ``f`` is given for each coalition: what ``spent_tokens`` counts."""
        return np.full(len(inputs), self.n * len(self.background))

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return the mean output of each coalition (rows, 1)."""
        rows = max(1, self.batch_tokens // max(1, self.n))
        blocks = inputs.bool().split(max(1, rows // len(self.background)))
        return torch.cat([self.averaged(sample, kept, max(1, rows // max(1, len(kept)))) for kept in blocks])

    def averaged(self, sample: int, kept: torch.Tensor, at_once: int) -> torch.Tensor:
        """Return the mean output (rows, 1) over the background, ``at_once`` of its rows at a time."""
        outputs = [self.mixed(sample, kept, background) for background in self.background.split(at_once)]
        # one mean at the end: a sum of the blocks' sums would depend on the blocks
        return torch.cat(outputs, dim=1).mean(1, keepdim=True)

    def mixed(self, sample: int, kept: torch.Tensor, background: torch.Tensor) -> torch.Tensor:
        """Return ``f`` (rows, m) of each coalition's features with each background row's others."""
        rows = torch.where(kept[:, None], self.x[sample], background[None])
        count = len(kept) * len(background)
        with torch.no_grad():
            outputs = self.output(sample, rows.reshape(count, self.n))
        if tuple(outputs.shape) != (count,):
            raise ValueError(f"f returned shape {tuple(outputs.shape)} for {count} rows; it must return ({count},)")
        return outputs.detach().to(torch.float64).reshape(len(kept), len(background))

    def output(self, sample: int, rows: torch.Tensor) -> torch.Tensor:
        """Return what is averaged (rows,) from features (rows, n)."""
        return self.f(rows)
