"""Shared fixtures."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
# A Prefect database for each process that runs tests: two on one lock each other out, and ~/.prefect is the user's.
prefect_home = tempfile.TemporaryDirectory(prefix="ordeval-prefect-", ignore_cleanup_errors=True)
os.environ["PREFECT_HOME"] = prefect_home.name

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data, or skip: ORDEVAL_SHARED_DATA, else ../shared/data beside the checkout."""
    folder = Path(os.environ.get("ORDEVAL_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set ORDEVAL_SHARED_DATA to its folder")
    return folder


@pytest.fixture(autouse=True)
def threads_stay_as_they_were():
    """Fail a test that leaves the process another number of torch threads: it would change the rounding of the next."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    yield
    if torch is not None:
        assert torch.get_num_threads() == before, "the test changed the number of torch threads and left it so"
