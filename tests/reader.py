"""A reader who follows a page: types its commands, runs its Python, writes down its configurations, in order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt

from rl_training import yaml_dialect
from rl_training.cli.main import main
from rl_training.data.dataset_loaders import ScriptedDatasetConfig
from rl_training.data.generation import generate_pendulum_dataset
from rl_training.experiment import continuing, manager
from rl_training.runtime.config import TrainConfig
from small_runs import StopAt, small_config

# What is not this package's, and may still be typed.
SHELL = ("sed",)
# The budgets of pages are for readers; these take their place.
FEWER = {
    "doctor": ("--quick",),
    "evaluate": ("--episodes", "1"),
    "--offline": ("--updates", "10", "--repeats", "2"),
    "bench": ("--seconds", "0.1", "--rows", "1000", "--width", "8", "--engine", "eager"),
}
MOST_STEPS = 4_000


@dataclass(frozen=True)
class Block:
    """A code block of a page: its language, what stands after that, and the line of the page it begins on."""

    language: str
    remark: str
    code: str
    line: int

    @property
    def runs(self) -> bool:
        return self.language in ("bash", "console", "python", "yaml") and not self.remark.startswith("not run: ")


def blocks(text: str) -> list[Block]:
    """Every code block, in order."""
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block"):
            language, _, remark = token.info.strip().partition(" ")
            found.append(Block(language, remark, token.content, (token.map or [0])[0] + 1))
    return found


def commands(block: Block) -> list[str]:
    """The lines of a block that are typed, without prompts and comments."""
    lines = [line.removeprefix("$ ") for line in block.code.splitlines()]
    return [line for line in lines if shlex.split(line, comments=True)]


class Reader:
    """Runs the blocks of one page in the present folder, with small budgets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.names: dict[str, Any] = {"__name__": "page"}
        self.printed = ""
        train_briefly(monkeypatch)

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if block.language == "python":
            with redirect_stdout(StringIO()) as out:
                exec(compile(block.code, f"block on line {block.line}", "exec"), self.names)
            self.printed += out.getvalue()
        elif block.language == "yaml":
            read_configuration(block.code)
        else:
            for line in commands(block):
                self.type(line)

    def type(self, line: str) -> None:
        """One command; anything but success is an error."""
        program, *words = map(os.path.expanduser, shlex.split(line, comments=True))
        if program in SHELL:
            subprocess.run([program, *words], check=True)
            return
        assert program == "rl-training", f"{line}: only rl-training and {', '.join(SHELL)} are typed here"
        words = [str(MOST_STEPS // 10) if word.isdigit() and int(word) > MOST_STEPS else word for word in words]
        kind = "--offline" if "--offline" in words else words[0] if words else ""
        fewer = FEWER.get(kind, ())
        theirs = [
            word for word, before in zip(words, [program, *words], strict=False) if not {word, before} & set(fewer[::2])
        ]
        self.monkeypatch.setattr(sys, "argv", [program, *theirs, *fewer])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (line, ended.value.code or 0) == (line, 0)


def train_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four updates, eight where a run goes on; 400 rows of the embedded data."""
    train = manager.train

    def briefly(config: TrainConfig, **options: Any) -> Any:
        steps = 4 if options.get("checkpoint") is None else 8
        scoring = config.evaluation.model_copy(update={"episodes": 1})
        fewer: dict[str, Any] = {"total_timesteps": steps, "eval_interval": None, "evaluation": scoring}
        if isinstance(config.dataset, ScriptedDatasetConfig):
            fewer["dataset"] = config.dataset.model_copy(update={"size": 400})
        return train(config.model_copy(update=fewer), **options)

    for module in (manager, continuing):
        monkeypatch.setattr(module, "train", briefly)


def read_configuration(text: str) -> list[TrainConfig]:
    """A block that is one configuration, or a line for each of several ways to write one."""
    try:
        sections = [yaml_dialect.read(text)]
    except ValueError:  # the same key on every line
        sections = [yaml_dialect.read(line) for line in text.splitlines()]
    return [TrainConfig.parse({"algo": "iql", "total_timesteps": 1, **section}) for section in sections]


# What readers have of their own ---------------------------------------------------------------------------------------


def bring(name: str) -> None:
    """Put a reader's own file, run or dataset where a page expects it."""
    folder, _, bare = name.rpartition("/")
    if name.startswith("minari:"):
        generate_pendulum_dataset(400, seed=0).save(Path("to_minari.npz"))
        give_command("data", "convert", "to_minari.npz", name, "--env-id", "Pendulum-v1")
    elif folder == "runs":
        unfinished_run(bare)
    else:
        _FILES.get(bare, _log)(Path(name))


def give_command(*words: str) -> None:
    """The command line, called by the test itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["rl-training", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code


def unfinished_run(name: str) -> None:
    """A run of a Pendulum policy that was interrupted: it can be scored, asked and resumed."""
    Path("own").mkdir(exist_ok=True)
    if not Path("own/data.npz").exists():
        _log(Path("own/data.npz"))
    config = small_config("own/data.npz", Path("runs"), "iql", name=name, env_id="Pendulum-v1")
    manager.train(config, callbacks=[StopAt(2)])


def _log(path: Path) -> None:
    generate_pendulum_dataset(400, seed=0).save(path)


def _robot_table(path: Path) -> None:
    """A CSV whose columns are called x, y, z and u."""
    _log(path)
    header, rest = path.read_text().split("\n", 1)
    names = {"obs_0": "x", "obs_1": "y", "obs_2": "z", "actions_0": "u", "actions": "u"}
    names |= {f"next_obs_{place}": f"{name}2" for place, name in enumerate("xyz")}
    kept = [names.get(column, column) for column in header.strip().split(",")]
    assert {"x", "y", "z", "u"} <= {*kept}, header
    path.write_text(",".join(kept) + "\n" + rest)


def _configuration(path: Path) -> None:
    _log(Path("own.npz"))
    path.write_text("algo: bc\ndataset: own.npz\nenv_id: Pendulum-v1\ntotal_timesteps: 4\n")


def _observations(path: Path) -> None:
    np.save(path, np.zeros((2, 3), dtype=np.float32))


_FILES: dict[str, Callable[[Path], None]] = {
    "robot.csv": _robot_table,
    "my.yaml": _configuration,
    "obs.npy": _observations,
    "logs": lambda path: path.mkdir(),
}


def not_run(text: str) -> list[str]:
    """The reasons that a page gives for what nobody runs."""
    return [match[1] for block in blocks(text) if (match := re.fullmatch(r"not run: (.+)", block.remark))]
