"""One thread for what is measured, and the process's own number of threads back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from explainers.lazy import Lazy

torch = Lazy("torch")


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
