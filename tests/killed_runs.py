"""Trains one run in children that are killed at random moments, and looks at what each leaves behind.

A process that has never computed a gradient can be forked in milliseconds, so this is a program of its own:
python killed_runs.py DATA FOLDER KILLS. It prints one JSON object.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from rl_training.experiment import manager
from rl_training.runtime import checkpoint_writer
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.loop import Loop
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import Trainer
from small_runs import digest, one_update_at_a_time, small_config

INTERVAL, TOTAL = 3, 3_000
REACHED, SAVED = 0, 8  # places in the shared memory: the last step, the last checkpoint that was told of


class Reports(Callback):
    def __init__(self, shared: mmap.mmap) -> None:
        self.shared = shared

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        struct.pack_into("q", self.shared, REACHED, loop.progress.steps)

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        struct.pack_into("q", self.shared, SAVED, int(path.name[5:]))


def child(data: Path, folder: Path, shared: mmap.mmap, total: int = TOTAL) -> None:
    """Start the run or go on with it, as `train --resume auto` does."""
    torch.set_num_threads(1)
    config = small_config(data, folder, log_interval=2, checkpoint_interval=INTERVAL, total_timesteps=total)
    manager.start_or_resume(config, callbacks=[Reports(shared)])


def fork(work: Callable[[], object]) -> int:
    number = os.fork()
    if number == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f"child: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return number


def look(run: RunDirectory, reached: int, saved: int) -> list[str]:
    """What is wrong with a run whose process has just been killed."""
    wrong = []
    steps = run.steps()
    for step in steps:  # every one that has a name must load, not the last alone
        if run.load(step).progress["steps"] != step:
            wrong.append(f"step-{step} holds another step")
    newest = steps[-1] if steps else 0
    due = (reached - 1) // INTERVAL * INTERVAL  # the one before it must be on disk before the next begins
    if newest < saved or newest < due - INTERVAL:
        wrong.append(f"at {reached}, told of {saved}, the newest is {newest}")
    recorded = [record["step"] for record in run.records("metrics")]
    if recorded != list(range(2, 2 * len(recorded) + 1, 2)):
        wrong.append(f"records {recorded[-5:]} have gaps")
    with run.lock():
        pass  # a dead process does not hold it
    return wrong


def save_on(run: RunDirectory, checkpoint: Checkpoint, shared: mmap.mmap) -> None:
    """Nothing but checkpoints, one after another."""
    step = max(run.steps(), default=0)
    while True:
        step += 1
        struct.pack_into("q", shared, REACHED, step)
        run.keep(replace(checkpoint, progress={**checkpoint.progress, "steps": step}))
        struct.pack_into("q", shared, SAVED, step)


def kill(process: int, shared: mmap.mmap, steps: int) -> tuple[int, int]:
    """End a child some steps and up to a few milliseconds from now; what it had reached and saved."""
    (first,), deadline = struct.unpack_from("q", shared), time.monotonic() + 5.0
    while time.monotonic() < deadline:
        (reached,) = struct.unpack_from("q", shared)
        first = first or reached
        if steps == 0 or (reached and reached >= first + steps):
            break
        time.sleep(0.0002)
    time.sleep(random.uniform(0.0, 0.008))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    reached, saved = struct.unpack_from("qq", shared)
    return reached, saved


def kill_training(data: Path, folder: Path, times: int, shared: mmap.mmap, facts: Counter[str]) -> list[str]:
    wrong = []
    for number in range(times):
        checkpoint_writer.INSTANT_SECONDS = 0.0 if number % 2 else 0.05  # beside training, or waited for
        shared[:] = bytes(len(shared))
        process = fork(lambda: child(data, folder, shared))
        reached, saved = kill(process, shared, random.randint(1, 9) if number % 8 else 0)  # 0: also while it starts
        if (folder / "run").exists():
            run = RunDirectory.open(folder / "run")
            facts["while writing"] += any(".tmp-" in path.name for path in run.path.rglob("*"))
            wrong += look(run, reached, saved)
            facts["trained"] = max(run.steps(), default=0)
            facts["lost"] = max(facts["lost"], reached - facts["trained"])
    return wrong


def kill_saving(data: Path, folder: Path, times: int, shared: mmap.mmap, facts: Counter[str]) -> list[str]:
    wrong = []
    loop = Trainer(small_config(data, folder, total_timesteps=10**9)).prepare()
    run, checkpoint = loop.run_directory, loop.snapshot()
    for _ in range(times):
        before = len(run.steps())
        shared[:] = bytes(len(shared))
        process = fork(lambda: save_on(run, checkpoint, shared))
        reached, saved = kill(process, shared, random.randint(0, 3))
        facts["while writing"] += any(".tmp-" in path.name for path in run.path.rglob("*"))
        steps = run.steps()
        newest = max((step for step in steps if run.load(step).progress["steps"] == step), default=0)
        # Two are kept; one killed between saving and letting go leaves one more, as the one before it may have.
        if newest < max(saved, reached - 1) or len(steps) > max(3, before + 1):
            wrong.append(f"saving {reached}, told of {saved}, there are {steps}")
    facts["saves"] = newest
    return wrong


def is_exact(data: Path, folder: Path, total: int, shared: mmap.mmap) -> bool:
    """The killed run to its end, beside one that was never killed."""
    unbroken = folder / "unbroken"
    unbroken.mkdir()
    results = []
    for place, work in (
        (folder, lambda: manager.resume(folder / "run", total_timesteps=total)),
        (unbroken, lambda: child(data, unbroken, shared, total)),
    ):
        assert os.waitpid(fork(work), 0)[1] == 0
        run = RunDirectory.open(place / "run")
        results.append([run.load().progress["steps"], digest(run.load().tensors), run.records("metrics")])
    return results[0] == results[1]


def main(data: Path, folder: Path, kills: int) -> None:
    random.seed(kills)
    shared, facts = mmap.mmap(-1, 16), Counter[str]()
    wrong = kill_saving(data, folder / "saves", kills - kills // 4, shared, facts)
    wrong += kill_training(data, folder, kills // 4, shared, facts)
    exact = is_exact(data, folder, facts["trained"] + 20, shared)
    print(json.dumps({"wrong": wrong, "exact": exact, **facts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
