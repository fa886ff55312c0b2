"""Integrated Gradients: the gradient averaged on the line from the mask token's embedding to the input."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.embeddings import completeness_gap, players_mean, private_view
from explainers.game import Game


class IntegratedGradients(Explainer):
    """Integrated Gradients from the mask token's embedding, by captum; steps + 2 evaluations.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", Eq. 1 and 3; Gauss-Legendre nodes.
    The audit's ``completeness_gap`` is 0 up to the error of the quadrature; its two evaluations are counted.
    """

    name = "integrated_gradients"
    needs_gradient: ClassVar[bool] = True

    steps: int = Field(50, ge=1, title="Steps", description="Gradients on the line; captum's default is 50.")

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) attributions averaged over embedding dimensions; nothing is drawn."""
        from captum.attr import IntegratedGradients as CaptumIntegratedGradients

        view = private_view(game, sample)
        attribution = CaptumIntegratedGradients(view.module).attribute(
            view.inputs,
            baselines=view.baselines,
            n_steps=self.steps,
            internal_batch_size=max(1, game.batch_tokens // view.inputs.shape[1]),
        )
        gap = completeness_gap(view, attribution)
        return SampleExplanation(players_mean(view, attribution), audit={"completeness_gap": gap})
