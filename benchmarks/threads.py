"""One thread for what is measured, the process's own number of threads back afterwards; and several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from explainers.lazy import Lazy

torch = Lazy("torch")


def mapped(work: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], workers: int) -> list[Any]:
    """Return what ``work`` makes of each job's arguments, in their order; one worker is this process."""
    columns = [*zip(*jobs, strict=True)]
    if workers == 1:
        return [*map(work, *columns)]
    with ProcessPoolExecutor(workers) as pool:
        return [*pool.map(work, *columns)]


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Let torch compute on one thread within the block, where ``wanted``.

    The number of threads belongs to the process: left at one, it would change the rounding of all that runs later.
    """
    before = torch.get_num_threads()
    try:
        if wanted:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)
