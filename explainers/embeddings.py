"""What the gradient methods share: a module of their own to hook, the mean over embeddings, the completeness gap."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from explainers.game import EmbeddingView, Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


def private_view(game: Game, sample: int) -> EmbeddingView:
    """Return the sample's embedding view over a module that nobody else calls, with leaf inputs.

    Captum hooks the module's parts, and threads share the game's model: so the module tree is copied and its
    weights are shared. Every row that goes through the copy is counted in ``game.spent``.

    Raises:
        ValueError: the game wraps a plain function.
    """
    view = game.embedding_view(sample)
    module = own_tree(view.module)

    def count(_module: Any, _args: Any, output: torch.Tensor) -> None:
        game.spent[sample] += len(output)

    module.register_forward_hook(count)
    return replace(
        view,
        module=module,
        inputs=view.inputs.detach().clone().requires_grad_(),
        baselines=view.baselines.detach().clone(),
    )


def own_tree(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of the module tree that shares parameters and buffers with the original."""
    shared = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    return copy.deepcopy(module, shared)


def players_mean(view: EmbeddingView, attribution: torch.Tensor) -> torch.Tensor:
    """Return (n,): the mean over the embedding dimensions of (1, length, width), and over a player's tokens.

    Source: OrdShap paper, App. D.2, "we average the attributions over each token embedding".
    """
    of_tokens = attribution[0, view.players].detach().double().mean(-1)
    if view.members is None:
        return of_tokens
    sizes = torch.bincount(view.members)
    return torch.zeros_like(sizes, dtype=torch.float64).index_add_(0, view.members, of_tokens) / sizes


def completeness_gap(view: EmbeddingView, attribution: torch.Tensor) -> float:
    """Return sum(attribution) - (f(inputs) - f(baselines)), over all positions and dimensions; 0 is complete.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", Proposition 1. Costs two evaluations.
    """
    with torch.no_grad():
        ends = view.module(torch.cat([view.inputs, view.baselines])).double()
    return float(attribution.detach().double().sum() - (ends[0] - ends[1]))
