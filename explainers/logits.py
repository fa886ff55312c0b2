"""What the games of classifiers share: the explained class, and one number out of the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from explainers.game import Game
from explainers.lazy import Lazy

if TYPE_CHECKING:
    import torch
else:
    torch = Lazy("torch")

OutputScale = Literal["probability", "log_probability", "logit"]
CPU_BATCH_TOKENS = 4096
CUDA_BATCH_TOKENS = 1 << 18


class LogitGame(Game):
    """A game whose raw outputs are logits.

    Attributes:
        scale: what the game's value is: the probability, log-probability or logit of the target.
        targets: the explained class of each sample.
    """

    scale: OutputScale
    targets: list[int]

    def value(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the target's output on the game's scale."""
        return on_scale(outputs, self.targets[sample], self.scale)

    def probability(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return the target's probability, whatever the game's scale."""
        return on_scale(outputs, self.targets[sample], "probability")

    def agrees(self, sample: int, outputs: torch.Tensor) -> torch.Tensor:
        """Return whether the target is the predicted class."""
        return outputs.argmax(1) == self.targets[sample]


def on_scale(logits: torch.Tensor, target: int, scale: OutputScale) -> torch.Tensor:
    """Return the target's probability, log-probability or logit (rows,) from logits (rows, classes)."""
    if scale == "logit":
        return logits[:, target]
    log_probability = torch.log_softmax(logits, dim=1)[:, target]
    return log_probability if scale == "log_probability" else log_probability.exp()


def check_choice(name: str, choice: str, choices: object) -> None:
    """Raise ValueError where ``choice`` is none of the Literal ``choices``."""
    if choice not in get_args(choices):
        raise ValueError(f"{name} is {choice!r}; it is one of: {', '.join(get_args(choices))}")


def check_serves(model: torch.nn.Module, target: int | None) -> None:
    """Raise ValueError where the model is training or has no such class."""
    if model.training:
        raise ValueError("the model is in training mode: its dropout would be part of the game; call model.eval()")
    classes = getattr(getattr(model, "config", None), "num_labels", None)
    if target is not None and classes is not None and not 0 <= target < classes:
        raise ValueError(f"target is {target}, and the model has the classes 0 to {classes - 1}")


def batch_size(
    asked: int | None, device: torch.device, cpu: int = CPU_BATCH_TOKENS, cuda: int = CUDA_BATCH_TOKENS
) -> int:
    """Return how many tokens (or pixels, or features) go at once: what is asked, else what suits the device."""
    if asked is not None:
        return asked
    return cuda if device.type == "cuda" else cpu
