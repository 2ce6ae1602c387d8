"""The directory of one run: what was asked, what happened, and what came out of it.

config.yaml          the complete resolved configuration
run.json             versions, machine, dataset, status, last and best score
metrics.jsonl        one record per log interval
evaluations.jsonl    one record per evaluation
timing.jsonl         wall-clock per log interval (kept apart: the other files are the same in every repetition)
checkpoints/step-N/  see checkpoint.py
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rl_training import __version__
from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.checkpoint import MANIFEST, Checkpoint, load_checkpoint, save_checkpoint
from rl_training.runtime.config import TrainConfig

_RECORDS = ("metrics", "evaluations", "timing")


class RunDirectory:
    """Reads and writes one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Making and opening -----------------------------------------------------------------------------------------

    @classmethod
    def create(cls, config: TrainConfig, dataset: Mapping[str, Any]) -> RunDirectory:
        """A new directory `runs_dir/name` with its configuration and `run.json`."""
        path = Path(config.runs_dir) / (config.name or _made_up_name(config))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(
                f"name: run {path} exists already; choose another, or continue it with `rl-training resume {path}`"
            ) from None
        except OSError as error:
            raise ConfigError(f"runs_dir: {path} cannot be made ({error.strerror})") from None
        run = cls(path)
        run._write_config(config)
        run._write_json("run.json", {"status": "running", **_circumstances(), "dataset": dict(dataset)})
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run."""
        if not (path / "run.json").is_file():
            what = "holds no run (no run.json)" if path.is_dir() else "no such run"
            raise CheckpointError(f"{path}: {what}{_other_runs(path)}")
        return cls(path)

    # What happens -----------------------------------------------------------------------------------------------

    def append(self, kind: str, record: Mapping[str, Any]) -> None:
        """Add one record to `kind`.jsonl."""
        with (self.path / f"{kind}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Every complete record of `kind`.jsonl (a line cut short by a crash is not one)."""
        file = self.path / f"{kind}.jsonl"
        lines = file.read_text("utf-8").splitlines(keepends=True) if file.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def rewind(self, step: int) -> None:
        """Forget records after `step`, where a resumed run will write them again."""
        for kind in _RECORDS:
            kept = [json.dumps(record) + "\n" for record in self.records(kind) if record["step"] <= step]
            self._replace(f"{kind}.jsonl", "".join(kept))

    def describe(self) -> dict[str, Any]:
        """The contents of run.json."""
        try:
            return dict(json.loads((self.path / "run.json").read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path / 'run.json'}: cannot be read ({error})") from error

    def note(self, **changes: Any) -> None:
        """Change entries of run.json."""
        self._write_json("run.json", {**self.describe(), **changes})

    # Checkpoints ------------------------------------------------------------------------------------------------

    def checkpoint_path(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def steps(self) -> list[int]:
        """The updates at which complete checkpoints exist, oldest first."""
        found = (self.path / "checkpoints").glob(f"step-*/{MANIFEST}")
        return sorted(int(m.parent.name[5:]) for m in found if m.parent.name[5:].isdigit())

    def save(self, checkpoint: Checkpoint, step: int, keep: int, best: int | None) -> Path:
        """Write the checkpoint of `step`, then remove what is neither among the newest `keep` nor the best."""
        path = self.checkpoint_path(step)
        if not path.exists():
            save_checkpoint(path, checkpoint)
        for old in self.steps()[:-keep]:
            if old != best:
                shutil.rmtree(self.checkpoint_path(old))
        return path

    def load(self, which: str | int = "last") -> Checkpoint:
        """The last, the best, or the checkpoint of a given update."""
        steps = self.steps()
        if not steps:
            raise CheckpointError(f"{self.path}: has no checkpoint yet")
        step: int | str | None = steps[-1] if which == "last" else which
        if which == "best":
            step = (self.describe().get("best") or {}).get("step")
        if step not in steps:
            known = ", ".join(map(str, steps))
            raise CheckpointError(f"{self.path}: no checkpoint {which!r}; choose from last, best, {known}")
        return load_checkpoint(self.checkpoint_path(int(step)))

    # Files ------------------------------------------------------------------------------------------------------

    def _write_config(self, config: TrainConfig) -> None:
        self._replace("config.yaml", yaml.safe_dump(config.to_plain(), sort_keys=False))

    def extend(self, config: TrainConfig) -> None:
        """Record that the run goes on under a changed budget."""
        self._write_config(config)

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self._replace(name, json.dumps(value, indent=1) + "\n")

    def _replace(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}.tmp-{os.getpid()}"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)


def _made_up_name(config: TrainConfig) -> str:
    task = (config.env_id or "data").replace("/", "-").lower()
    return f"{config.algo}-{task}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _other_runs(path: Path) -> str:
    """Names of runs beside a path that is none, as help for the message."""
    parent = path.parent if path.parent.is_dir() else Path("runs")
    names = sorted(file.parent.name for file in parent.glob("*/run.json"))
    return f"; runs in {parent}: {', '.join(names[-5:])}" if names else ""


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
