"""Data written where there is no room: one line, nothing left behind, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRITING = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from rl_training.data import TransitionDataset
from rl_training.errors import DataError

noise = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
dataset = TransitionDataset.from_dict(
    {"obs": noise, "actions": np.tanh(noise), "rewards": noise[:, 0], "terminations": np.arange(3000) % 100 == 99}
)
target = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    dataset.save(sys.argv[1])
except DataError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(error, file=sys.stderr)
    print("File too large" in str(error), sorted(path.name for path in target.parent.iterdir()))
"""


@pytest.mark.parametrize("name", ["log.h5", "log.npz", "log.parquet", "log.csv", "log/"])
def test_a_full_disk_is_told(name: str, tmp_path: Path) -> None:
    target = f"{tmp_path}/{name}"
    done = subprocess.run([sys.executable, "-c", WRITING, target], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True []\n"), done.stderr
