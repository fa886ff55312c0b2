"""Shared fixtures."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.environment import prepare

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A Prefect database for each process that runs tests: two on one lock each other out, and ~/.prefect is the user's.
prefect_home = tempfile.TemporaryDirectory(prefix="ordeval-prefect-", ignore_cleanup_errors=True)
os.environ["PREFECT_HOME"] = prefect_home.name
prepare()  # before a test file imports Prefect

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data, or skip: ORDEVAL_SHARED_DATA, else ../shared/data beside the checkout."""
    folder = Path(os.environ.get("ORDEVAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set ORDEVAL_SHARED_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Give the flows of this session one Prefect server of their own, and an empty database."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


def pytest_collection_finish() -> None:
    """Leave all that was imported out of every later garbage collection: looking through it takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def threads_stay_as_they_were():
    """Fail a test that leaves the process another number of torch threads: it would change the rounding of the next."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    yield
    if torch is not None:
        assert torch.get_num_threads() == before, "the test changed the number of torch threads and left it so"
