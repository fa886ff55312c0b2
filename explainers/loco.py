"""LOCO: the change when one player is left out."""

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


class Loco(Explainer):
    """Leave one covariate out: f(x) - f(x without player i); n + 1 evaluations in one request.

    Source: Lei et al. 2018, "Distribution-Free Predictive Inference for Regression", section 6; the OrdShap paper
    (App. D.2) takes captum's FeatureAblation, whose numbers these are. A left-out player becomes the mask token in
    its own slot.
    """

    name = "loco"

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) differences; nothing is drawn."""
        kept = torch.ones((game.n + 1, game.n), dtype=torch.bool, device=game.device)
        kept[1:].fill_diagonal_(False)
        outputs = game.evaluate(sample, kept)
        return SampleExplanation(value=outputs[0] - outputs[1:])
