"""Interaction indices and their kin: four other answers to "what is this set of players worth?"."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from explainers.interactions.weights import added_value, generalised_shapley, shapley_interaction, shapley_taylor
from explainers.set_values.explainer import SetExplainer
from explainers.set_values.targets import SetIndex
from explainers.set_values.terms import Terms

WEIGHTS: dict[str, Callable[[int, int], tuple[Terms, ...]]] = {
    "SI": shapley_interaction,
    "ST": shapley_taylor,
    "GS": generalised_shapley,
    "AV": added_value,
}


class Interactions(SetExplainer):
    """Shapley interaction (SI), Shapley-Taylor (ST), generalised Shapley (GS) or added value (AV) of sets of players.

    Source: joint Shapley paper, section 4.1; Grabisch and Roubens 1999, Dhamdhere et al. 2020, Marichal et al. 2007,
    Alshebli et al. 2019.
    """

    name: ClassVar[str] = "interactions"

    index: Literal["SI", "ST", "GS", "AV"] = Field("SI", title="Index")

    def label(self) -> str:
        """Return ``interactions``, with index and estimator where they are not the defaults."""
        parts = [self.name]
        if self.index != "SI":
            parts.append(self.index)
        if self.estimator != "auto":
            parts.append(self.estimator)
        return "_".join(parts)

    def weights(self, n: int, order: int) -> SetIndex:
        """Return the weights of the chosen index; only Shapley-Taylor values of all sets sum to ``v(N) - v(empty)``."""
        return SetIndex(n, WEIGHTS[self.index](n, order), efficient=self.index == "ST")
