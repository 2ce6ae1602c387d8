"""The directory of one run: what was asked, what happened, and what came out of it.

config.yaml          the complete resolved configuration
run.json             versions, machine, dataset, status, last and best score
metrics.jsonl        one record per log interval
evaluations.jsonl    one record per evaluation
timing.jsonl         wall-clock per log interval (kept apart: the other files are the same in every repetition)
checkpoints/step-N/  see checkpoint.py
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rl_training import __version__, yaml_dialect
from rl_training.data.formats.atomic import sync
from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.checkpoint import (
    MANIFEST,
    TEMPORARY,
    Checkpoint,
    load_checkpoint,
    reason,
    save_checkpoint,
)
from rl_training.runtime.config import TrainConfig

_RECORDS = ("metrics", "evaluations", "timing")


class RunDirectory:
    """Reads and writes one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Making and opening -----------------------------------------------------------------------------------------

    @classmethod
    def create(cls, config: TrainConfig, dataset: Mapping[str, Any] | None) -> RunDirectory:
        """A new directory `runs_dir/name` with its configuration and `run.json`."""
        path = new_path(config)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(_taken(path)) from None
        except OSError as error:
            raise ConfigError(f"runs_dir: {path} cannot be made ({reason(error)})") from None
        run = cls(path)
        run.write_config(config)
        run._write_json("run.json", {"status": "running", **_circumstances(), "dataset": dataset})
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run."""
        if not (path / "run.json").is_file():
            what = "holds no run (no run.json)" if path.is_dir() else "no such run"
            raise CheckpointError(f"{path}: {what}{_other_runs(path)}")
        return cls(path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from training this run; the lock dies with the process that holds it."""
        with self._writing(".lock"), (self.path / ".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CheckpointError(f"{self.path}: is being trained by another process") from None
            yield

    # What happens -----------------------------------------------------------------------------------------------

    def append(self, kind: str, record: Mapping[str, Any]) -> None:
        """Add one record to `kind`.jsonl."""
        name = f"{kind}.jsonl"
        with self._writing(name), (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Every complete record of `kind`.jsonl (a line cut short by a crash is not one)."""
        file = self.path / f"{kind}.jsonl"
        lines = file.read_bytes().split(b"\n")[:-1] if file.is_file() else []
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(dict(json.loads(line)))
            except (ValueError, TypeError, RecursionError):
                raise CheckpointError(f"{file}: line {number} is damaged") from None
        return found

    def rewind(self, step: int, evaluated: int | None = None) -> None:
        """Forget records after `step` (evaluations: after `evaluated`), which a resumed run will write again."""
        for kind in _RECORDS:
            last = evaluated if kind == "evaluations" and evaluated is not None else step
            if (self.path / f"{kind}.jsonl").is_file():
                kept = [json.dumps(record) + "\n" for record in self.records(kind) if record["step"] <= last]
                self._replace(f"{kind}.jsonl", "".join(kept))

    def describe(self) -> dict[str, Any]:
        """The contents of run.json."""
        file = self.path / "run.json"
        try:
            contents = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{file}: cannot be read ({error})") from error
        mappings = ("dataset", "best")  # or nothing
        if not isinstance(contents, dict) or not all(isinstance(contents.get(name), dict | None) for name in mappings):
            raise CheckpointError(f"{file}: is not a description of a run")
        if not isinstance(contents.get("status"), str) or "dataset" not in contents:
            raise CheckpointError(f"{file}: is not a description of a run (status and dataset are missing)")
        return contents

    def note(self, **changes: Any) -> None:
        """Change entries of run.json."""
        self._write_json("run.json", {**self.describe(), **changes})

    # Checkpoints ------------------------------------------------------------------------------------------------

    def checkpoint_path(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def steps(self) -> list[int]:
        """The steps at which complete checkpoints exist, oldest first."""
        found = (self.path / "checkpoints").glob(f"step-*/{MANIFEST}")
        return sorted(int(m.parent.name[5:]) for m in found if m.parent.name[5:].isdecimal())

    def save(self, checkpoint: Checkpoint, step: int) -> Path:
        """Write the checkpoint of `step`, after making durable the records it takes for granted."""
        with self._writing("records"):
            for kind in _RECORDS:
                if (file := self.path / f"{kind}.jsonl").is_file():
                    sync(file)
        path = self.checkpoint_path(step)
        if (path / MANIFEST).is_file():  # stopped again before another step: the one that is there leads to the same
            return path
        save_checkpoint(path, checkpoint)
        with self._writing("checkpoints"):
            sync(self.path)
        return path

    def prune(self, keep: int, best: int | None) -> None:
        """Remove what is neither among the newest `keep` checkpoints nor the best, and what killed writers left."""
        for old in self.steps()[:-keep]:
            if old != best:  # renamed first: a removal cut short must not look like a checkpoint
                path = self.checkpoint_path(old)
                path.rename(path.with_name(f"{path.name}{TEMPORARY}removed"))
        for leftover in (self.path / "checkpoints").glob(f"*{TEMPORARY}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def load(self, which: str | int = "last") -> Checkpoint:
        """The last, the best, or the checkpoint of a given step."""
        steps = self.steps()
        if not steps:
            raise CheckpointError(f"{self.path}: has no checkpoint yet")
        best = (self.describe().get("best") or {}).get("step")
        named = {"last": steps[-1], **({"best": best} if best in steps else {}), **{str(step): step for step in steps}}
        if str(which) not in named:
            raise CheckpointError(f"{self.path}: no checkpoint {which!r}; choose from {', '.join(named)}")
        step = named[str(which)]
        try:
            return load_checkpoint(self.checkpoint_path(step))
        except CheckpointError as error:
            earlier = [str(other) for other in steps if other < step]
            hint = f"; the one before it is step-{earlier[-1]}" if earlier else ""
            raise CheckpointError(f"{error}{hint}") from error

    # Files ------------------------------------------------------------------------------------------------------

    def write_config(self, config: TrainConfig) -> None:
        """Write config.yaml: at the start, and when a run goes on under a changed budget."""
        self._replace("config.yaml", yaml_dialect.write(config.to_plain()))

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self._replace(name, json.dumps(value, indent=1) + "\n")

    def _replace(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}{TEMPORARY}{os.getpid()}"
        with self._writing(name):
            temporary.write_text(text, encoding="utf-8")
            sync(temporary)
            temporary.replace(self.path / name)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(f"{self.path / name}: cannot be written ({reason(error)})") from error


def load_any(path: Path, which: str | int = "last") -> Checkpoint:
    """The checkpoint at a path: a checkpoint directory, or one of a run's."""
    return load_checkpoint(path) if (path / MANIFEST).is_file() else RunDirectory.open(path).load(which)


def new_path(config: TrainConfig) -> Path:
    """Where a new run of this configuration would be; a name that is taken is refused."""
    parent = Path(config.runs_dir).expanduser()
    if config.name is not None:
        if (parent / config.name).exists():
            raise ConfigError(_taken(parent / config.name))
        return parent / config.name
    task = (config.env_id or "data").replace("/", "-").replace(":", "-").lower()
    name = f"{config.algo}-{task}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (name, *(f"{name}-{i}" for i in range(2, 10_000)))
    return next(parent / candidate for candidate in names if not (parent / candidate).exists())


def _taken(path: Path) -> str:
    return f"name: run {path} exists already; choose another, or continue it with `rl-training resume {path}`"


def _other_runs(path: Path) -> str:
    """Names of runs beside a path that is none, as help for the message."""
    for parent in (path.parent, Path("runs")):
        names = sorted(file.parent.name for file in parent.glob("*/run.json"))
        if names:
            return f"; runs in {parent}: {', '.join(names[-5:])}"
    return ""


def _circumstances() -> dict[str, Any]:
    import numpy
    import torch

    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {
            "rl_training": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "machine": {"system": platform.platform(), "cpu_count": os.cpu_count(), "threads": torch.get_num_threads()},
    }
