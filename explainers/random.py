"""The random baseline: what an explanation without knowledge scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import Explainer, SampleExplanation
from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class Random(Explainer):
    """Attributions drawn from U(0, 1); evaluates nothing.

    Source: OrdShap paper, section 6, "Explainers".
    """

    name = "random"

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return n uniform draws of the sample's own stream."""
        return SampleExplanation(value=torch.from_numpy(rng.random(game.n)))
