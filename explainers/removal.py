"""How absent players look to the black box: the removal operator of the paper's game (Eq. 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


def masked_rows(
    tokens: torch.Tensor, kept: torch.Tensor, arrangement: torch.Tensor | None, ablated: int
) -> torch.Tensor:
    """Rearrange the players, then put the mask token in the slot of every player outside the coalition.

    Args:
        tokens: (n,) the sample, one token a player, in its original order.
        kept: (rows, n) boolean, ``kept[r, i]`` tells whether *player* ``i`` is in the coalition of row ``r``.
        arrangement: (rows, n) long, ``arrangement[r, l]`` is the player that sits in *slot* ``l`` (the one-line
            notation of sigma, 0-based); None keeps the original order.
        ablated: the mask token.

    Returns:
        (rows, n) long, ``w(S, sigma)``'s input: an ablated player keeps its rearranged slot.

    >>> import torch
    >>> masked_rows(torch.tensor([5, 6, 7]), torch.tensor([[True, False, True]]), torch.tensor([[1, 2, 0]]), 0)
    tensor([[0, 7, 5]])
    """
    if arrangement is None:
        return torch.where(kept, tokens, ablated)
    return torch.where(kept.gather(1, arrangement), tokens[arrangement], ablated)
