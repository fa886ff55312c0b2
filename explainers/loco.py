"""LOCO: the change when one player is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explainers.base import Explainer, SampleExplanation
from explainers.coalition_vector import forward_of, untouched
from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class Loco(Explainer):
    """Leave one covariate out: f(x) - f(x without player i), by captum's FeatureAblation; n + 1 evaluations.

    Source: Lei et al. 2018, "Distribution-Free Predictive Inference for Regression", section 6; the OrdShap paper
    (App. D.2) takes captum's implementation. A left-out player becomes the mask token in its own slot.
    """

    name = "loco"

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) differences; nothing is drawn."""
        from captum.attr import FeatureAblation

        ablation = FeatureAblation(forward_of(game, sample))
        attribution = ablation.attribute(untouched(game), baselines=0.0, perturbations_per_eval=game.n)
        return SampleExplanation(value=attribution[0])
