"""What an explanation costs: seconds, evaluations and memory, measured alone, warmed up, synchronised."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
import psutil
import torch

from conf.schema import Method
from explainers import get_explainer
from tasks.explain import synchronise, with_budget
from tasks.subject import Subject

SAMPLING_SECONDS = 0.002
MEBIBYTE = 2**20


def time_method(subject: Subject, method: Method, samples: int, seed: int) -> pd.DataFrame:
    """Time one method on the first samples, one at a time, after explaining the first one untimed.

    The caller holds the device (``Store.lock("device")``): nothing else of this project runs on it meanwhile.

    Args:
        subject: model and samples.
        method: the method and its options.
        samples: how many samples are timed (at most those there are).
        seed: of the draws.

    Returns:
        one row a sample: ``sample`` (keyed hash), ``seconds``, ``evaluations``, ``peak_memory_mb``: on CUDA the peak
        of allocated memory above what was allocated before, else the peak of resident memory above the start's, after
        freed memory was given back to the system (MiB; sampled every 2 ms, so a shorter peak can be missed).
    """
    explainer = get_explainer(method.method, **method.options)
    first = subject.game(0)
    with_budget(explainer, first.n, subject.explain).explain(first, seed)
    rows = []
    for index in range(min(samples, len(subject.rows))):
        game = subject.game(index)
        synchronise(subject.model)
        with peak_memory(game.device) as peak:
            start = time.perf_counter()
            explanation = with_budget(explainer, game.n, subject.explain).explain(game, seed)
            synchronise(subject.model)
            seconds = time.perf_counter() - start
        rows.append((subject.rows[index]["sample"], seconds, int(explanation.evaluations[0]), peak[0] / MEBIBYTE))
    return pd.DataFrame(rows, columns=["sample", "seconds", "evaluations", "peak_memory_mb"])


def give_back_freed_memory() -> None:
    """Make resident memory tell what is in use: glibc keeps freed blocks, and a second run would seem to need none."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def peak_memory(device: torch.device) -> Iterator[list[float]]:
    """Yield a list whose only entry is, after the block, the peak of memory above the start's, in bytes."""
    peak = [0.0]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak[0] = float(torch.cuda.max_memory_allocated(device) - before)
        return
    give_back_freed_memory()
    process = psutil.Process()
    before = process.memory_info().rss
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(SAMPLING_SECONDS):
            peak[0] = max(peak[0], float(process.memory_info().rss - before))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        finished.set()
        watcher.join()
