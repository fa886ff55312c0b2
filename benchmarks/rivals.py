"""Ours and other libraries' estimators of Shapley values, all as functions of a counted set function."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import captum.attr
import numpy as np
import shap
import shapiq
import torch
from shapiq.approximator.regression import kADDSHAP

from benchmarks.boxes import BATCH_TOKENS, MASK, Box
from explainers import Game, get_explainer


@dataclass
class Counted:
    """A box that counts the rows it gets, and the seconds of processor time it takes for them."""

    box: Box
    rows: int = 0
    seconds: float = 0.0

    def tokens(self, tokens: torch.Tensor) -> torch.Tensor:
        started = time.process_time()
        output = self.box.output(tokens)
        self.seconds += time.process_time() - started
        self.rows += len(tokens)
        return output

    def kept(self, kept: torch.Tensor) -> torch.Tensor:
        """Return the values (rows,) of coalitions (rows, n) boolean."""
        return self.tokens(torch.where(kept, self.box.tokens, MASK))

    def array(self, kept: Any) -> np.ndarray:
        """Return the same for numpy arrays of one coalition or of many, boolean or 0 and 1."""
        return self.kept(torch.from_numpy(np.atleast_2d(np.asarray(kept) > 0.5))).numpy()

    def vectors(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the same for captum's vectors of 0 and 1."""
        return self.kept(vectors > 0.5)


Estimate = Callable[[Counted, int, int], np.ndarray]


@dataclass(frozen=True)
class Rival:
    """An estimator: ``estimate(box, evaluations, seed)`` returns (n,) values.

    Attributes:
        name: for tables.
        family: "regression" over coalitions, "marginals" along orders or by strata, or "leave one out".
        estimate: where it cannot spend exactly these evaluations, another library's spends more, and ours fewer.
        serves: whether it can be asked for this n and these evaluations.
    """

    name: str
    family: str
    estimate: Estimate = field(repr=False)
    serves: Callable[[int, int], bool] = field(default=lambda n, evaluations: True, repr=False)


def seconds_of(rival: Rival, box: Box, evaluations: int, seed: int) -> tuple[float, float, int]:
    """Return the seconds of processor time of one estimate, those outside the box, and the rows the box got."""
    counted = Counted(box)
    started = time.process_time()
    rival.estimate(counted, evaluations, seed)
    seconds = time.process_time() - started
    return seconds, seconds - counted.seconds, counted.rows


def ours(method: str) -> Estimate:
    def estimate(box: Counted, evaluations: int, seed: int) -> np.ndarray:
        n = box.box.n
        batch = n * (BATCH_TOKENS // (n + 1))  # as many rows as the box takes at once: [CLS] is none of the players
        game = Game.from_function(box.tokens, box.box.tokens[None], MASK, batch_tokens=batch)
        options = {} if method == "loco" else {"budget": evaluations}
        return get_explainer(method, **options).explain(game, seed).value[0].numpy()

    return estimate


def shap_kernel(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    np.random.seed(seed)
    explainer = shap.KernelExplainer(box.array, np.zeros((1, n)))
    return explainer.shap_values(np.ones((1, n)), nsamples=evaluations - 2, l1_reg=False, silent=True)[0]


def shap_permutation(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    explainer = shap.PermutationExplainer(box.array, np.zeros((1, n)), seed=seed)
    orders = math.ceil(evaluations / (2 * n + 1))
    found = explainer(np.ones((1, n)), max_evals=orders * (2 * n + 1), silent=True, batch_size=BATCH_TOKENS // (n + 1))
    return found.values[0]


def captum_sampling(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    torch.manual_seed(seed)
    explainer = captum.attr.ShapleyValueSampling(box.vectors)
    orders = math.ceil((evaluations - 1) / n)
    return explainer.attribute(torch.ones(1, n), n_samples=orders, perturbations_per_eval=n)[0].double().numpy()


def captum_kernel(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    torch.manual_seed(seed)
    np.random.seed(seed)
    at_once = min(evaluations, BATCH_TOKENS // (n + 1))
    explainer = captum.attr.KernelShap(box.vectors)
    found = explainer.attribute(torch.ones(1, n), n_samples=evaluations, perturbations_per_eval=at_once)
    return found[0].double().numpy()


def captum_ablation(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    at_once = min(n, BATCH_TOKENS // (n + 1))
    explainer = captum.attr.FeatureAblation(box.vectors)
    return explainer.attribute(torch.ones(1, n), perturbations_per_eval=at_once)[0].double().numpy()


def of_shapiq(kind: Callable[..., Any], **options: Any) -> Estimate:
    def estimate(box: Counted, evaluations: int, seed: int) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its sampler warns where sizes are enumerated
            found = kind(n=box.box.n, random_state=seed, **options).approximate(evaluations, box.array)
        return np.array([found[(player,)] for player in range(box.box.n)])

    return estimate


def shapiq_permutation(box: Counted, evaluations: int, seed: int) -> np.ndarray:
    n = box.box.n
    orders = math.ceil((evaluations - 2) / (n - 1))
    at_once = max(1, BATCH_TOKENS // (n * (n + 1)))
    explainer = shapiq.PermutationSamplingSV(n, random_state=seed)
    found = explainer.approximate(2 + orders * (n - 1), box.array, batch_size=at_once)
    return np.array([found[(player,)] for player in range(n)])


def fits(order: int) -> Callable[[int, int], bool]:
    """Return whether all interactions of up to ``order`` players are at most twice the evaluations."""
    return lambda n, evaluations: sum(math.comb(n, size) for size in range(1, order + 1)) <= 2 * evaluations


def short(n: int, evaluations: int) -> bool:
    """Return whether n is small enough for what asks the model row by row, or takes a second a thousand rows."""
    return n <= 20


approximator = shapiq.approximator
paired = {"pairing_trick": True}
OURS = (
    Rival("ours: KernelSHAP", "regression", ours("kernelshap")),
    Rival("ours: SampleShapley", "marginals", ours("sample_shapley")),
)
PEERS = (
    Rival("shap: KernelExplainer", "regression", shap_kernel),
    Rival("captum: KernelShap", "regression", captum_kernel),
    Rival("shapiq: KernelSHAP", "regression", of_shapiq(approximator.KernelSHAP)),
    Rival("shapiq: KernelSHAP, paired", "regression", of_shapiq(approximator.KernelSHAP, **paired)),
    Rival("shapiq: kADDSHAP 2, paired", "regression", of_shapiq(kADDSHAP, max_order=2, **paired), fits(2)),
    Rival("shapiq: kADDSHAP 3, paired", "regression", of_shapiq(kADDSHAP, max_order=3, **paired), fits(3)),
    Rival("shapiq: UnbiasedKernelSHAP, paired", "regression", of_shapiq(approximator.UnbiasedKernelSHAP, **paired)),
    Rival("shap: PermutationExplainer", "marginals", shap_permutation),
    Rival("captum: ShapleyValueSampling", "marginals", captum_sampling),
    Rival("shapiq: PermutationSamplingSV", "marginals", shapiq_permutation),
    Rival("shapiq: StratifiedSamplingSV", "marginals", of_shapiq(approximator.StratifiedSamplingSV), short),
    Rival("shapiq: SVARM, paired", "marginals", of_shapiq(approximator.SVARM, **paired), short),
)
LEAVE_ONE_OUT = (
    Rival("ours: LOCO", "leave one out", ours("loco")),
    Rival("captum: FeatureAblation", "leave one out", captum_ablation),
)
