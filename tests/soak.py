"""Trains many tiny updates with evaluations, checkpoints and logs, and watches what the process holds meanwhile.

A process of its own, as what others left in one would be counted too: python soak.py DATA FOLDER UPDATES RECORDS. It
prints one JSON object: a list for each of `Watch.COLUMNS`, a value per metric record.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from array import array
from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console

from rl_training.runtime.callbacks import Callback
from rl_training.runtime.console import ConsoleProgress
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import train
from small_runs import small_config

PROCESS = Path("/proc/self")


class Watch(Callback):
    """Samples resident memory in bytes, open files, threads, and what lies in the folder of checkpoints."""

    COLUMNS = ("memory", "files", "threads", "checkpoints")

    def __init__(self, records: int) -> None:
        self.samples = {name: array("q", bytes(8 * records)) for name in self.COLUMNS}  # grow no more
        self.taken = 0

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        pages = int((PROCESS / "statm").read_text().split()[1])
        checkpoints = loop.run_directory.path / "checkpoints"
        sample = (
            pages * os.sysconf("SC_PAGESIZE"),
            entries(PROCESS / "fd"),
            max(threading.active_count(), entries(PROCESS / "task")),
            entries(checkpoints) if checkpoints.is_dir() else 0,
        )
        for name, value in zip(self.COLUMNS, sample, strict=True):
            self.samples[name][self.taken] = value
        self.taken += 1


def entries(folder: Path) -> int:
    return len(list(folder.iterdir()))


def main(data: Path, folder: Path, updates: int, records: int) -> None:
    torch.set_num_threads(1)
    interval = updates // records
    config = small_config(
        data,
        folder,
        "td3_bc",
        total_timesteps=updates,
        log_interval=interval,
        checkpoint_interval=2 * interval,
        eval_interval=5 * interval,
        env_id="Pendulum-v1",
        evaluation={"episodes": 1},
    )
    watch = Watch(records)
    with Path(os.devnull).open("w") as nowhere:
        train(config, callbacks=[ConsoleProgress(Console(file=nowhere)), watch])
    print(json.dumps({name: list(values) for name, values in watch.samples.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
