"""Work on many samples in shards: each is written whole or not at all, and a rerun does only what is missing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tasks.store import replacing

log = logging.getLogger(__name__)

Arrays = Mapping[str, torch.Tensor]


def run_shards(
    folder: Path,
    samples: int,
    shard_size: int,
    compute: Callable[[int], Arrays],
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Compute every sample that no intact shard in ``folder`` holds.

    Where a sample fails, the shards in work are finished first; Ctrl-C and SIGTERM wait for the samples in work only.

    Args:
        folder: where the shards are.
        samples: number of samples.
        shard_size: samples a shard.
        compute: maps a sample's index to named arrays; depends on nothing but the index.
        workers: shards computed at a time, in threads.
        progress: called with (samples done, samples) after each shard.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = [range(start, min(start + shard_size, samples)) for start in range(0, samples, shard_size)]
    missing = [number for number in range(len(parts)) if not intact(shard_path(folder, number))]
    done = samples - sum(len(parts[number]) for number in missing)
    if progress is not None:
        progress(done, samples)

    stopping = threading.Event()

    def one(number: int) -> int:
        arrays: dict[str, torch.Tensor] = {}
        for index in parts[number]:
            if stopping.is_set():
                raise CancelledError
            arrays |= {f"{index}.{name}": value for name, value in compute(index).items()}
        write_shard(shard_path(folder, number), arrays)
        return len(parts[number])

    with ThreadPoolExecutor(max_workers=workers) as pool:
        waiting = [pool.submit(one, number) for number in missing]
        try:
            for future in as_completed(waiting):
                done += future.result()
                if progress is not None:
                    progress(done, samples)
        except BaseException as error:
            if not isinstance(error, Exception):
                stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def shard_path(folder: Path, number: int) -> Path:
    """Return the file of shard ``number``."""
    return folder / f"{number:05d}.safetensors"


def write_shard(path: Path, arrays: Arrays) -> None:
    """Write a shard atomically; equal arrays give equal bytes."""
    with replacing(path) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in arrays.items()}, temporary)


def intact(path: Path) -> bool:
    """Return whether a shard is there and readable to its end; a damaged one is reported."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="pt") as shard:
            for name in shard.keys():  # noqa: SIM118 - safe_open is no mapping
                shard.get_tensor(name)
    except (SafetensorError, OSError) as error:
        log.warning("shard %s is damaged (%s); it will be computed again", path.name, error)
        return False
    return True


def read_sample(folder: Path, shard_size: int, index: int) -> dict[str, torch.Tensor]:
    """Return one sample's named arrays."""
    with safe_open(shard_path(folder, index // shard_size), framework="pt") as shard:
        prefix = f"{index}."
        names = [name for name in shard.keys() if name.startswith(prefix)]  # noqa: SIM118
        return {name.removeprefix(prefix): shard.get_tensor(name) for name in names}
