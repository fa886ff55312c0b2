"""The game of a trained sequence classifier: the model, one sample's tokens, the class and the output's scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from explainers.game import EmbeddingView, Game, content_key
from explainers.lazy import Lazy
from explainers.removal import masked_rows

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

OutputScale = Literal["probability", "log_probability", "logit"]
CPU_BATCH_TOKENS = 4096
CUDA_BATCH_TOKENS = 1 << 18


class ClassifierGame(Game):
    """One number out of a classifier: the probability, log-probability or logit of one class.

    Special tokens (``prefix``, for example [CLS]) are not players: they never move and are never ablated.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        tokens: torch.Tensor,
        ablated: int,
        prefix: tuple[int, ...] = (),
        target: int | None = None,
        scale: OutputScale = "probability",
        batch_tokens: int | None = None,
    ) -> None:
        """Build the game.

        Args:
            model: a transformers sequence classifier in ``eval()``: ``input_ids`` in, ``logits`` (rows, classes) out.
            tokens: (b, n) integer tokens, one player each.
            ablated: the mask token.
            prefix: tokens in front of the players.
            target: the explained class; None takes the class predicted on the untouched input.
            scale: what the game's value is: the probability, log-probability or logit of ``target``.
            batch_tokens: at most this many tokens a forward pass (at least one row); None suits the device.

        Raises:
            ValueError: ``tokens`` is not (b, n), the model is training, the sequence is longer than the model, or there
                is no such scale or target.
        """
        if tokens.dim() != 2 or tokens.is_floating_point():
            raise ValueError(f"tokens has shape {tuple(tokens.shape)} and type {tokens.dtype}; give (b, n) integers")
        if model.training:
            raise ValueError("the model is in training mode: its dropout would be part of the game; call model.eval()")
        if scale not in get_args(OutputScale):
            raise ValueError(f"scale is {scale!r}; it is one of: {', '.join(get_args(OutputScale))}")
        classes = getattr(getattr(model, "config", None), "num_labels", None)
        if target is not None and classes is not None and not 0 <= target < classes:
            raise ValueError(f"target is {target}, and the model has the classes 0 to {classes - 1}")
        device = next(model.parameters()).device
        if batch_tokens is None:
            batch_tokens = CUDA_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS
        super().__init__(tokens.shape[1], [content_key(row) for row in tokens], device, batch_tokens)
        longest = getattr(getattr(model, "config", None), "max_position_embeddings", None)
        if longest is not None and len(prefix) + self.n > longest:
            raise ValueError(
                f"the sequence has {self.n} tokens and {len(prefix)} special ones, and the model takes {longest}; "
                "lower data.tokens.max_tokens or train a longer model"
            )
        self.model = model
        self.tokens = tokens.long().to(device)
        self.ablated = ablated
        self.prefix = torch.tensor(prefix, dtype=torch.long, device=device)
        self.scale = scale
        self.targets = [self._predicted(sample) if target is None else target for sample in range(self.size)]

    def _predicted(self, sample: int) -> int:
        return int(self.forward(sample, self.tokens[sample][None]).argmax(1))

    def with_prefix(self, rows: torch.Tensor) -> torch.Tensor:
        """Put the special tokens in front of each row of players' tokens."""
        return torch.cat([self.prefix.expand(len(rows), -1), rows], dim=1)

    def input_length(self) -> int:
        """Return players and special tokens together."""
        return self.n + len(self.prefix)

    def inputs(self, sample: int, kept: torch.Tensor, arrangement: torch.Tensor | None) -> torch.Tensor:
        """Return the players' tokens (rows, n), rearranged and masked."""
        return masked_rows(self.tokens[sample], kept, arrangement, self.ablated)

    def forward(self, sample: int, inputs: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, classes)."""
        with torch.inference_mode():
            return self.model(input_ids=self.with_prefix(inputs)).logits.double()

    def value(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the target's output on the game's scale."""
        return on_scale(outputs, self.targets[sample], self.scale)

    def probability(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the target's probability, whatever the game's scale."""
        return on_scale(outputs, self.targets[sample], "probability")

    def agrees(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return whether the target is the predicted class."""
        return outputs.argmax(1) == self.targets[sample]

    def embedding_view(self, sample: int) -> EmbeddingView:
        """Return the model from its token embeddings on."""
        tokens = self.with_prefix(self.tokens[sample][None])
        masked = self.with_prefix(torch.full_like(self.tokens[sample][None], self.ablated))
        model: Any = self.model
        embed = model.get_input_embeddings()
        with torch.no_grad():
            inputs, baselines = embed(tokens), embed(masked)
        module = embedded_output()(self.model, self.targets[sample], self.scale)
        return EmbeddingView(module, inputs, baselines, slice(len(self.prefix), None))


def on_scale(logits: torch.Tensor, target: int, scale: OutputScale) -> torch.Tensor:
    """Return the target's probability, log-probability or logit (rows,) from logits (rows, classes)."""
    if scale == "logit":
        return logits[:, target]
    log_probability = torch.log_softmax(logits, dim=1)[:, target]
    return log_probability if scale == "log_probability" else log_probability.exp()


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
