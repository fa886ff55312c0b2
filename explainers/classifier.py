"""The game of a trained sequence classifier: the model, one sample's tokens, the class and the output's scale."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from explainers.game import EmbeddingView, content_key
from explainers.lazy import Lazy
from explainers.logits import LogitGame, OutputScale, batch_size, check_choice, check_serves, on_scale
from explainers.players import players_of, slot_times
from explainers.precision import Controls, Precision, autocast
from explainers.removal import ABSENT, Removal, check_removal, model_inputs, takes_padding, with_prefix

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")


class ClassifierGame(LogitGame):
    """One number out of a classifier: the probability, log-probability or logit of one class.

    Special tokens (``prefix``, for example [CLS]) are not players: they never move and are never ablated.
    """

    def __init__(  # noqa: PLR0913 - one game, with every choice that the conf offers
        self,
        model: torch.nn.Module,
        tokens: torch.Tensor,
        ablated: int,
        prefix: tuple[int, ...] = (),
        target: int | None = None,
        scale: OutputScale = "probability",
        batch_tokens: int | None = None,
        *,
        removal: Removal = "mask_token",
        precision: Precision = "full",
        groups: torch.Tensor | None = None,
        times: torch.Tensor | None = None,
    ) -> None:
        """Build the game.

        Args:
            model: a transformers sequence classifier in ``eval()``: ``input_ids`` in, ``logits`` (rows, classes) out.
            tokens: (b, length) integer tokens.
            ablated: the mask token.
            prefix: tokens in front of the players.
            target: the explained class; None takes the class predicted on the untouched input.
            scale: what the game's value is: the probability, log-probability or logit of ``target``.
            batch_tokens: at most this many tokens a forward pass (at least one row); None suits the device.
            removal: what stands for an absent token: the mask token (the paper's game); the mask token, hidden by the
                attention mask; or nothing, the others keeping their position ids (the same numbers, less work).
            precision: of the evaluations; what is not full is autocast, and :meth:`precision_error` tells the error.
            groups: (b, length) the player of each token, 0..n-1; None makes each token a player.
            times: (b, n) the time of each slot, finite and never falling; None where slots have no times.

        Raises:
            ValueError: ``tokens``, ``groups`` or ``times`` has another shape or type, the model is training, the
                sequence is longer than the model, there is no such scale, target, removal or precision, or the model
                cannot serve the removal.
        """
        device = next(model.parameters()).device
        check_model(model, tokens, len(prefix), target)
        check_choice("scale", scale, OutputScale)
        check_choice("precision", precision, Precision)
        self.players = players_of(tokens.to(device), groups)
        keys = [content_key(row) for row in tokens]
        super().__init__(
            self.players.n, keys, device, batch_size(batch_tokens, device), slot_times(times, len(keys), self.players.n)
        )
        self.model = model
        self.tokens = tokens.to(device, torch.int32)
        self.ablated = ablated
        self.prefix = torch.tensor(prefix, dtype=torch.long, device=device)
        self.scale = scale
        self.removal = removal
        self.precision = precision
        check_removal(model, self.tokens, self.prefix, ablated, removal)
        self.columns = getattr(getattr(model, "config", None), "num_labels", 1)
        self.targets = [self._predicted(sample) if target is None else target for sample in range(self.size)]
        self._padding: bool | None = None
        self._controls = [Controls() for _ in keys]

    def _predicted(self, sample: int) -> int:
        return int(self._logits(self.tokens[sample][None], "full").argmax(1))

    def box(self) -> Hashable:
        """Return model, special tokens, removal and precision."""
        return id(self.model), tuple(self.prefix.tolist()), self.ablated, self.removal, self.precision

    def takes_padding(self) -> bool:
        """Return whether a hidden token at a row's end changes nothing, tried once on the first sample."""
        if self._padding is None:
            self._padding = takes_padding(self.model, self.tokens[:1], self.prefix, self.ablated)
        return self._padding

    def alike(self, sample: int) -> bool:
        """Return whether all players have equally many tokens."""
        return self.players.alike(sample)

    def input_width(self) -> int:
        """Return the number of the players' tokens."""
        return self.tokens.shape[1]

    def lengths(self, inputs: torch.Tensor) -> np.ndarray:
        """Return the special tokens and the players', those that were dropped left out."""
        if self.removal == "drop_tokens":
            return len(self.prefix) + (inputs >= 0).sum(1).cpu().numpy()
        return np.full(len(inputs), len(self.prefix) + self.input_width())

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the players' tokens (rows, length), rearranged and ablated."""
        ablated = self.ablated if self.removal == "mask_token" else ABSENT
        return self.players.rows(sample, self.tokens[sample], kept, arrangement, ablated)

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, classes)."""
        return self._logits(inputs, self.precision)

    def _logits(self, inputs: torch.Tensor, precision: Precision) -> torch.Tensor:
        arguments = model_inputs(inputs, self.prefix, self.ablated, self.removal)
        with torch.inference_mode(), autocast(precision, self.device):
            return self.model(**arguments).logits.double()

    def note(self, sample: int, inputs: torch.Tensor, hashes: torch.Tensor, outputs: torch.Tensor) -> None:
        """Keep some inputs to measure the precision on, where it is not full."""
        if self.precision != "full":
            self._controls[sample].note(inputs, hashes, outputs)

    def precision_error(self, sample: int) -> float | None:
        """Return the largest error of the value that mixed precision made, of up to 32 inputs that it evaluated.

        They are evaluated again in full precision, which ``spent`` does not count. None where precision is full, or
        nothing was evaluated.
        """
        controls = self._controls[sample]
        if controls.hashes is None:
            return None
        rows = max(1, self.batch_tokens // max(1, len(self.prefix) + self.input_width()))
        full = torch.cat([self._logits(part, "full") for part in controls.inputs.split(rows)])
        return float((self.value(sample, full) - self.value(sample, controls.outputs)).abs().max())

    def embedding_view(self, sample: int) -> EmbeddingView:
        """Return the model from its token embeddings on, in full precision; absent is the mask token's embedding."""
        tokens = self.tokens[sample][None].long()
        rows = with_prefix(self.prefix, tokens), with_prefix(self.prefix, torch.full_like(tokens, self.ablated))
        model: Any = self.model
        embed = model.get_input_embeddings()
        with torch.no_grad():
            inputs, baselines = embed(rows[0]), embed(rows[1])
        module = embedded_output()(self.model, self.targets[sample], self.scale)
        members = self.players.members(sample)
        return EmbeddingView(module, inputs, baselines, slice(len(self.prefix), None), members)


def check_model(model: torch.nn.Module, tokens: torch.Tensor, special: int, target: int | None) -> None:
    """Raise ValueError where the model is training, too short, or has no such class, or the tokens are no tokens."""
    if tokens.dim() != 2 or tokens.is_floating_point():
        raise ValueError(f"tokens has shape {tuple(tokens.shape)} and type {tokens.dtype}; give (b, length) integers")
    if tokens.numel() and int(tokens.min()) < 0:
        raise ValueError(f"tokens holds {int(tokens.min())}; a token is 0 or more")
    check_serves(model, target)
    longest = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if longest is not None and special + tokens.shape[1] > longest:
        raise ValueError(
            f"the sequence has {tokens.shape[1]} tokens and {special} special ones, and the model takes {longest}; "
            "lower data.tokens.max_tokens or train a longer model"
        )


def embedded_output() -> type[torch.nn.Module]:
    """Return the module class that runs a classifier from embeddings (made late: torch loads on first use)."""

    class EmbeddedOutput(torch.nn.Module):
        def __init__(self, model: torch.nn.Module, target: int, scale: OutputScale) -> None:
            super().__init__()
            self.model = model
            self.target = target
            self.scale: OutputScale = scale

        def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
            return on_scale(self.model(inputs_embeds=embeddings).logits, self.target, self.scale)

    return EmbeddedOutput
