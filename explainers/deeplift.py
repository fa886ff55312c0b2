"""DeepLIFT: differences from the mask token's embedding, passed back through the network."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.embeddings import completeness_gap, players_mean, private_view
from explainers.game import EmbeddingView, Game

if TYPE_CHECKING:
    import torch


class DeepLift(Explainer):
    """DeepLIFT, rescale rule, from the mask token's embedding, by captum; four evaluations.

    Source: Shrikumar et al. 2017, "Learning Important Features Through Propagating Activation Differences", section
    3.5.1. Activation modules follow the rescale rule, transformers' own (GELU and its kin) included, which captum
    alone would pass over; what is not an activation module (softmax inside attention, layer normalisation, products)
    passes the gradient at the input. So on a transformer the audit's ``completeness_gap`` is not 0; its two
    evaluations are counted.
    """

    name = "deeplift"
    needs_gradient: ClassVar[bool] = True

    epsilon: float = Field(
        1e-5,
        gt=0,
        title="Smallest difference",
        description="Below it an activation passes its gradient: in float32 a smaller difference is mostly rounding.",
    )

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) attributions averaged over embedding dimensions; nothing is drawn."""
        view = private_view(game, sample)
        attribution = attribute(view, self.epsilon)
        gap = completeness_gap(view, attribution)
        return SampleExplanation(players_mean(view, attribution), audit={"completeness_gap": gap})


def attribute(view: EmbeddingView, epsilon: float) -> torch.Tensor:
    """Return captum's attribution (1, length, width)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Setting forward, backward hooks", category=UserWarning)
        return rescale_rule()(view.module, eps=epsilon).attribute(view.inputs, baselines=view.baselines)


@cache
def rescale_rule() -> type[Any]:
    """Return captum's DeepLift, taught the activation modules of transformers (made late: captum loads slowly)."""
    from captum.attr import DeepLift as CaptumDeepLift
    from captum.attr._core.deep_lift import nonlinear

    elementwise = activation_kinds()

    class RescaleRule(CaptumDeepLift):
        def _is_non_linear(self, module: torch.nn.Module) -> bool:
            return type(module) in elementwise or super()._is_non_linear(module)

        def _backward_hook(self, module: Any, grad_input: torch.Tensor, grad_output: torch.Tensor) -> torch.Tensor:
            if type(module) not in elementwise or not self.satisfies_attribute_criteria(module):
                return super()._backward_hook(module, grad_input, grad_output)
            multipliers = nonlinear(module, module.input, module.output, grad_input, grad_output, eps=self.eps)
            del module.input, module.output
            return multipliers

    return RescaleRule


def activation_kinds() -> frozenset[type]:
    """Return the elementwise activation modules that captum does not know: torch's and transformers'."""
    from torch import nn
    from transformers import activations

    theirs = {
        kind
        for kind in vars(activations).values()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and kind.__module__ == activations.__name__
    }
    return frozenset({nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.ReLU6} | theirs)
