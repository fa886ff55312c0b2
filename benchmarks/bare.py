"""The paper's BERT, and how fast it is by itself: what an explainer's evaluations are held against."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from conf.schema import Model
from tasks.train.bert import build

CLS, MASK, FIRST, WORDS = 1, 2, 4, 1000
SIZES = {"cpu": tuple(2**power for power in range(10)), "cuda": tuple(2**power for power in range(15))}


def paper_bert(tokens: int, device: str = "cpu", model: Model | None = None) -> torch.nn.Module:
    """Return an untrained BERT for ``tokens`` players and [CLS]: 6 heads, 3 layers, width 384 (OrdShap, App. D.1).

    ``model`` takes another architecture.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(model or Model(), WORDS, pad=0, longest=tokens, classes=2).eval().to(device)


def sequences(samples: int, tokens: int) -> torch.Tensor:
    """Return (samples, tokens) random tokens, the same ones each time."""
    return torch.randint(FIRST, WORDS, (samples, tokens), generator=torch.Generator().manual_seed(samples))


def now(device: str) -> float:
    """Return seconds: processor time on the CPU, which other programs do not lengthen; wall time on CUDA, all done."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def bare_rate(model: torch.nn.Module, tokens: int, device: str, seconds: float) -> tuple[float, int]:
    """Return the rows a second of the model's forward pass at its best batch size, and that size.

    Rows are as long as an evaluation's: ``tokens`` players and [CLS]. Batch sizes are doubled, each timed for
    ``seconds``, until two in a row bring nothing, or one does not fit.
    """
    best, size, in_vain = 0.0, 0, 0
    for rows in SIZES[device]:
        try:
            rate = rate_at(model, sequences(rows, tokens + 1).to(device), device, seconds)
        except torch.OutOfMemoryError:
            break
        in_vain = 0 if rate > 1.02 * best else in_vain + 1
        best, size = max((best, size), (rate, rows))
        if in_vain == 2:
            break
    return best, size


def rate_at(model: torch.nn.Module, batch: torch.Tensor, device: str, seconds: float) -> float:
    """Return the rows a second of one batch size, after one untimed pass."""
    with torch.inference_mode():
        model(input_ids=batch)
        start, passes = now(device), 0
        while now(device) - start < seconds:
            model(input_ids=batch)
            passes += 1
        return passes * len(batch) / (now(device) - start)


@contextmanager
def model_time(model: torch.nn.Module, device: str) -> Iterator[list[float]]:
    """Yield a list whose only entry is the time spent in the model's forward passes within the block."""
    spent, begun = [0.0], [0.0]

    def start(*_: object) -> None:
        begun[0] = now(device)

    def stop(*_: object) -> None:
        spent[0] += now(device) - begun[0]

    handles = [
        model.register_forward_pre_hook(start, with_kwargs=True),
        model.register_forward_hook(stop, with_kwargs=True),
    ]
    try:
        yield spent
    finally:
        for handle in handles:
            handle.remove()
