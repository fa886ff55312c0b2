"""How absent players look to the black box: the removal operator of the paper's game (Eq. 7), and two others."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, get_args

from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

Removal = Literal["mask_token", "attention_mask", "drop_tokens"]
ABSENT = -1  # in a row of tokens: nothing stands here, or nothing that the model may see


def masked_rows(
    tokens: torch.Tensor, kept: torch.Tensor, arrangement: torch.Tensor | None, ablated: int
) -> torch.Tensor:
    """Rearrange the players, then put the mask token in the slot of every player outside the coalition.

    Args:
        tokens: (n,) the sample, one token a player, in its original order.
        kept: (rows, n) boolean, ``kept[r, i]`` tells whether *player* ``i`` is in the coalition of row ``r``.
        arrangement: (rows, n) long, ``arrangement[r, l]`` is the player that sits in *slot* ``l`` (the one-line
            notation of sigma, 0-based); None keeps the original order.
        ablated: the mask token, or ``ABSENT``.

    Returns:
        (rows, n) of the tokens' type, ``w(S, sigma)``'s input: an ablated player keeps its rearranged slot.

    >>> import torch
    >>> masked_rows(torch.tensor([5, 6, 7]), torch.tensor([[True, False, True]]), torch.tensor([[1, 2, 0]]), 0)
    tensor([[0, 7, 5]])
    """
    present = (kept * (tokens - ablated)).add_(ablated)  # five times faster than torch.where, and as exact
    return present if arrangement is None else present.gather(1, arrangement)


def grouped_rows(
    tokens: torch.Tensor, players: torch.Tensor, kept: torch.Tensor, arrangement: torch.Tensor | None, ablated: int
) -> torch.Tensor:
    """Do as :func:`masked_rows` where a player is a group of tokens: whole players move, and all their tokens go.

    Args:
        tokens: (length,) the sample in its original order.
        players: (length,) long, the player of each token; with an arrangement in ascending order.
        kept: (rows, n) boolean by player.
        arrangement: (rows, n) long, the player in each slot; None keeps the original order.
        ablated: the mask token, or ``ABSENT``.

    Returns:
        (rows, length): the players' tokens one block after the other, in the order of the arrangement.

    >>> import torch
    >>> kept, arrangement = torch.tensor([[True, False, True]]), torch.tensor([[1, 2, 0]])
    >>> grouped_rows(torch.tensor([5, 6, 7, 8]), torch.tensor([0, 0, 1, 2]), kept, arrangement, 0)
    tensor([[0, 8, 5, 6]])
    """
    present = (kept.index_select(1, players) * (tokens - ablated)).add_(ablated)
    if arrangement is None:
        return present
    sizes = torch.bincount(players, minlength=kept.shape[1])
    by_slot = sizes[arrangement]
    begins = torch.empty_like(by_slot).scatter_(1, arrangement, by_slot.cumsum(1) - by_slot)
    within = torch.arange(len(tokens), device=tokens.device) - (sizes.cumsum(0) - sizes)[players]
    place = begins.index_select(1, players).add_(within)
    return torch.empty_like(present).scatter_(1, place, present)


def model_inputs(rows: torch.Tensor, prefix: torch.Tensor, ablated: int, removal: Removal) -> dict[str, torch.Tensor]:
    """Return the keyword arguments of a transformers model for rows (r, length) of tokens, ``ABSENT`` where none is.

    The special tokens ``prefix`` stand in front of each row. With ``drop_tokens`` the absent ones leave the row, and
    each token that stays has the position id that it had; else they stay, hidden by the attention mask. Where nothing
    is absent there is no mask.
    """
    present = rows >= 0
    if removal == "drop_tokens":
        return dropped(rows, present, prefix, ablated)
    tokens = with_prefix(prefix, rows.long())
    if bool(present.all()):
        return {"input_ids": tokens}
    seen = with_prefix(torch.ones_like(prefix), present.long())
    return {"input_ids": torch.where(seen.bool(), tokens, ablated), "attention_mask": seen}


def dropped(rows: torch.Tensor, present: torch.Tensor, prefix: torch.Tensor, ablated: int) -> dict[str, torch.Tensor]:
    """Return the inputs without the absent tokens: shorter rows, padded to the longest, and their position ids."""
    counts = present.sum(1)
    longest = int(counts.max()) if len(rows) else 0
    order = (~present).to(torch.int8).argsort(dim=1, stable=True)[:, :longest]
    stays = torch.arange(longest, device=rows.device) < counts[:, None]
    tokens = torch.where(stays, rows.gather(1, order).long(), ablated)
    first = torch.arange(len(prefix), device=rows.device)
    inputs = {"input_ids": with_prefix(prefix, tokens), "position_ids": with_prefix(first, order + len(prefix))}
    if not bool(stays.all()):
        inputs["attention_mask"] = with_prefix(torch.ones_like(prefix), stays.long())
    return inputs


def with_prefix(prefix: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Put ``prefix`` (p,) in front of each of ``rows`` (r, length)."""
    return torch.cat([prefix.expand(len(rows), -1), rows], dim=1)


def check_removal(
    model: torch.nn.Module, tokens: torch.Tensor, prefix: torch.Tensor, ablated: int, removal: Removal
) -> None:
    """Raise ValueError where ``model`` cannot serve ``removal``: told from its signature, then tried on one sample.

    Args:
        model: a transformers sequence classifier in ``eval()``.
        tokens: (b, length) the samples; the first token of the first one is hidden, and may not show.
        prefix: (p,) the special tokens in front.
        ablated: the mask token.
        removal: what stands for an absent token.
    """
    if removal not in get_args(Removal):
        raise ValueError(f"removal is {removal!r}; it is one of: {', '.join(get_args(Removal))}")
    if removal == "mask_token":
        return
    instead = "take removal mask_token"
    for name in ("attention_mask", "position_ids")[: 1 if removal == "attention_mask" else 2]:
        if not takes(model, name):
            raise ValueError(f"removal is {removal!r} and {type(model).__name__} takes no {name}; {instead}")
    if not len(prefix):
        raise ValueError(
            f"removal is {removal!r} and there is no special token in front of the players: a row without any player "
            f"could not be evaluated; give a prefix, or {instead}"
        )
    if not tokens.numel():
        return
    row = tokens[:1].clone()
    row[0, 0] = ABSENT
    fillers = (int(prefix[0]), ablated if ablated != int(prefix[0]) else int(tokens[0, 0]))
    inputs = [model_inputs(row, prefix, filler, "attention_mask") for filler in fillers]
    if not same_logits(model, inputs[0], inputs[1]):
        raise ValueError(f"removal is {removal!r} and {type(model).__name__} sees tokens behind the mask; {instead}")
    if removal == "drop_tokens" and not same_logits(model, inputs[0], model_inputs(row, prefix, ablated, removal)):
        raise ValueError(
            f"removal is 'drop_tokens' and {type(model).__name__} does not number its positions 0, 1, 2, ...; take "
            "removal attention_mask, or mask_token"
        )


def takes_padding(model: torch.nn.Module, tokens: torch.Tensor, prefix: torch.Tensor, ablated: int) -> bool:
    """Return whether a hidden token at the end of a row of ``tokens`` (1, length) changes nothing to ``model``."""
    if not takes(model, "attention_mask") or tokens.shape[1] + len(prefix) < 2 or not tokens.numel():
        return False
    row = tokens.clone()
    row[0, -1] = ABSENT
    padded, shorter = (model_inputs(rows, prefix, ablated, "attention_mask") for rows in (row, row[:, :-1]))
    return same_logits(model, padded, shorter)


def takes(model: torch.nn.Module, name: str) -> bool:
    """Return whether the model's forward pass names the argument ``name``."""
    return name in inspect.signature(model.forward).parameters


def same_logits(model: Any, one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Return whether the model says the same of two inputs, but for rounding."""
    with torch.inference_mode():
        left, right = model(**one).logits, model(**two).logits
    rounding = torch.finfo(left.dtype).eps ** 0.5 * (1 + float(left.abs().max()))
    return float((left - right).abs().max()) <= rounding
