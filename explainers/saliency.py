"""Saliency: the gradient at the input."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.embeddings import players_mean, private_view
from explainers.game import Game


class Saliency(Explainer):
    """Saliency: gradient magnitude, averaged over each token embedding, by captum; one evaluation.

    Source: Simonyan et al. 2014, "Deep Inside Convolutional Networks", section 3; the L/C-Shapley paper takes the
    magnitude too.
    """

    name = "saliency"
    needs_gradient: ClassVar[bool] = True

    absolute: bool = Field(True, title="Magnitude", description="Off: the signed gradient.")

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) mean absolute gradients; nothing is drawn."""
        from captum.attr import Saliency as CaptumSaliency

        view = private_view(game, sample)
        attribution = CaptumSaliency(view.module).attribute(view.inputs, abs=self.absolute)
        return SampleExplanation(value=players_mean(view, attribution))
