"""LIME: a linear model of the game around the untouched input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from explainers.base import Explainer, SampleExplanation
from explainers.coalition_vector import forward_of, untouched
from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class Lime(Explainer):
    """LIME: coefficients of a weighted ridge regression on random coalitions, by captum's LimeBase.

    Source: Ribeiro et al. 2016, "Why Should I Trust You?", Eq. 1; the OrdShap paper (App. D.2) takes captum with
    its default parameters, the mask token as baseline and feature selection off. So here: each player kept with
    probability 1/2 (captum's default), captum's default kernel exp(-d^2 / (2 width^2)) with the cosine distance d
    between the binary vector and the vector of ones, and no feature selection: captum's default Lasso, which
    drops players, gives way to the ridge regression of LIME's authors. The first two rows are the untouched and the
    fully ablated input, so that every player is seen both kept and ablated.
    """

    name = "lime"

    budget: int = Field(1000, ge=1, title="Budget", description="Model evaluations a sample: rows of the regression.")
    kernel_width: float = Field(
        1.0, gt=0, title="Kernel width", description="Of the exponential kernel, cosine distance."
    )
    ridge: float = Field(
        1.0,
        ge=0,
        title="Ridge penalty",
        description="1 as LIME's authors have it; 0 is least squares (of least norm where rows are too few).",
    )

    def least_budget(self, n: int) -> int:
        """Return n + 1: as many rows as the linear model has coefficients."""
        return n + 1

    def explain_sample(self, game: Game, sample: int, rng: np.random.Generator) -> SampleExplanation:
        """Return the (n,) coefficients; captum hands the game's outputs over in float32."""
        from captum.attr import LimeBase
        from captum.attr._core.lime import get_exp_kernel_similarity_function

        lime = LimeBase(
            forward_of(game, sample),
            interpretable_model=RidgeModel(self.ridge),
            similarity_func=get_exp_kernel_similarity_function("cosine", self.kernel_width),
            perturb_func=one_by_one(coalitions(rng, self.budget, game.n)),
            perturb_interpretable_space=True,
            from_interp_rep_transform=lambda row, original, **_: row.to(original),
            to_interp_rep_transform=None,
        )
        coefficients = lime.attribute(untouched(game), n_samples=self.budget, perturbations_per_eval=self.budget)
        return SampleExplanation(value=coefficients)


def coalitions(rng: np.random.Generator, rows: int, n: int) -> np.ndarray:
    """Return (rows, n) of 0 and 1: all players, no player, then each player kept with probability 1/2."""
    drawn = rng.integers(0, 2, size=(rows, n))
    drawn[0], drawn[1] = 1, 0
    return drawn


def one_by_one(rows: np.ndarray) -> Callable[..., Iterator[torch.Tensor]]:
    """Return captum's perturbation generator over ``rows``: one (1, n) tensor after the other."""

    def perturb(original: torch.Tensor, **_: Any) -> Iterator[torch.Tensor]:
        yield from torch.from_numpy(rows)[:, None].to(original.device)

    return perturb


class RidgeModel:
    """The surrogate as captum calls it: ``fit`` on (rows, outputs, weights), then ``representation``."""

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        self.coefficients = np.zeros(0)

    def fit(self, train_data: Any) -> None:
        """Fit coefficients and an unpenalised intercept in float64.

        The loader's tensors are read as they lie: iterating it would draw from torch's global generator.
        """
        from sklearn.linear_model import LinearRegression, Ridge

        rows, outputs, weights = (tensor.cpu().double().numpy() for tensor in train_data.dataset.tensors)
        model = Ridge(alpha=self.ridge) if self.ridge > 0 else LinearRegression()
        self.coefficients = model.fit(rows, outputs, sample_weight=weights).coef_

    def representation(self) -> torch.Tensor:
        """Return the (n,) coefficients."""
        return torch.from_numpy(self.coefficients)
