"""What every test file shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def one_thread_per_worker() -> None:
    """The workers of pytest-xdist share the cores, so none may use them all."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of real datasets beside the repository; a test that needs it is skipped where it is missing."""
    directory = REPOSITORY.parent / "shared" / "data"
    if not directory.is_dir():
        pytest.skip("needs the directory ../shared/data beside the repository, which is not here")
    return directory
