"""What other programs, and other commands of this one, call a command or an option."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rl_training.cli.whole_lines import whole_line
from rl_training.foreign_names import places_of
from rl_training.paths import OF_DATA
from rl_training.wording import A_REPORT_IS_HTML

# Programs that are called by themselves, not through this one.
_PROGRAMS = {
    "tensorboard": "a program of its own: `tensorboard --logdir runs` shows what `train --track tensorboard` wrote",
    "wandb": "a program of its own; `rl-training train -c CONFIG --track wandb` sends a run there",
    "mlflow": "a program of its own; `rl-training train -c CONFIG --track mlflow` records a run there",
    "install": "pip's: pip install 'rl-training[tensorboard]'; `rl-training doctor` says what is missing",
}
_COMMANDS = {
    "fit": "train",
    "learn": "train",
    "run": "train",
    "eval": "evaluate",
    "test": "evaluate",
    "score": "evaluate",
    "start": "init",
    "new": "init",
    "create": "init",
    "list": "runs",
    "ls": "runs",
    "plot": "report",
    "act": "predict",
    "infer": "predict",
    "save": "export",
    "onnx": "export",
    "deploy": "export",
    "continue": "resume",
    "benchmark": "bench",
    "version": "--version",
    "initialise": "init",
    "initialize": "init",
    "?": "--help",
}
_BESIDE_ANOTHER = ("compare", "diff", "vs")
# Where a command has the second, the first is meant as that.
_OPTIONS = {
    "--checkpoint": "--which best",
    "--best": "--which best",
    "--member": "--seed 0",
    "--all": "--member all",
    "--ratio": "--held-out",
    "--test-size": "--held-out",
    "--observation": "--obs",
    "--state": "--obs",
    "--to": "--format onnx",
    "--steps": "--total-timesteps",
    "--data": "--held-out",
    "--out": "--output",
    "--dest": "--output",
}
_NAMED = "a run lies in runs/NAME: --name NAME calls it so, --runs-dir FOLDER puts it elsewhere"
_IN_CONFIG = "write it into the configuration; how data are read stands below dataset there"
_A_RUN = "it takes a run, not a configuration; `rl-training runs` lists them"
_OF_COMMANDS = {
    "train": dict.fromkeys(("-o", "--output", "--out"), _NAMED),
    "init": {
        **dict.fromkeys(("-c", "--config"), "the configuration to write is -o FILE.yaml"),
        **dict.fromkeys(("--input", "--data", "--file", "-i"), "data are named without: `rl-training init FILE`"),
        "--columns": "which column holds what is said in the configuration that it writes, dataset.columns",
    },
    **{name: {"--set": _IN_CONFIG} for name in ("check", "split")},
    "convert": {
        **dict.fromkeys(("-o", "--output"), "what to write is named without: SOURCE TARGET"),
        "--set": _IN_CONFIG,
    },
    "info": dict.fromkeys(("-c", "--config"), "did you mean `rl-training data check -c CONFIG`?"),
    "evaluate": {"--held-out": "did you mean --offline --data?", "-c": _A_RUN, "--config": _A_RUN},
    "report": {
        "-c": _A_RUN,
        "--config": _A_RUN,
        "--all": "name the runs: `rl-training report runs/*`",
        "--format": A_REPORT_IS_HTML,
        **dict.fromkeys(("--seed", "--seeds"), "a report shows all seeds of a run"),
    },
    **{name: {"-c": _A_RUN, "--config": _A_RUN} for name in ("resume", "push", "finetune")},
    "export": {
        "-c": _A_RUN,
        "--config": _A_RUN,
        **dict.fromkeys(("-f", "--type"), "did you mean --format?"),
    },
    "predict": {
        "-c": _A_RUN,
        "--config": _A_RUN,
        "--time": "the time is given by its name in the data: --obs NAME=VALUE,TIME=2024-06-01T12:00",
        "--deterministic": "leave it out: that is what is done unless there is --stochastic",
        "--json": "leave it out: what is printed is JSON",
        **dict.fromkeys(("-o", "--output", "--out"), "it prints the actions, a list in each line: add > FILE"),
    },
}


def command_meant(word: str, words: Sequence[str], group: Any, root: Any) -> str | None:
    """The whole line that a word which is no command was perhaps meant for."""
    place = words.index(word) if word in words else 0
    before, after = list(words[:place]), list(words[place + 1 :])
    inside = next((name for name, one in _groups(root) if word in one.commands), None)
    if (plain := word.lower().lstrip("-")) in group.commands:
        line = [*before, plain, *after]
    elif group is root and inside is not None:
        line = [inside, word, *after]
    elif group is root and plain in _COMMANDS:
        line = [_COMMANDS[plain], *after]
        if not after and (example := whole_line(_COMMANDS[plain])):
            return example.rpartition("`")[0].partition("`")[2] or None
    elif group is root and plain in _BESIDE_ANOTHER:
        line = ["runs", "--compare", *(after if len(after) == 2 else ("RUN", "RUN"))]
    elif word.endswith((".yaml", ".yml")):
        line = ["config", "show", word] if before == ["config"] else ["train", "-c", word, *after]
    elif word.endswith(OF_DATA):
        line = ["data", "check", word, *after] if before == ["data"] else ["init", word, *after]
    else:
        return None
    if line[0] == "train" and len(line) > 1 and line[1].endswith(OF_DATA):
        line = ["init", line[1]]
    return shlex.join(["rl-training", *with_option(line)])


def program_meant(word: str) -> str:
    """What to append to `no such command` of a program's name."""
    return f"; it is {told}" if (told := _PROGRAMS.get(word.lower())) else ""


def with_option(words: list[str]) -> list[str]:
    """`train config.yaml` as `train -c config.yaml`."""
    is_bare = len(words) > 1 and words[0] == "train" and Path(words[1]).suffix in (".yaml", ".yml")
    return [words[0], "-c", *words[1:]] if is_bare else words


def option_meant(command: str, option: str, known: Sequence[str]) -> str | None:
    """Another word for an option that there is, or why there is none."""
    if (told := _OF_COMMANDS.get(command, {}).get(option)) is not None:
        return f"; {told}"
    other = _OPTIONS.get(option)
    if other is not None and other.partition(" ")[0] in known:
        return f"; did you mean {other}?"
    places = (f"--{place.rpartition('.')[2].replace('_', '-')}" for place in places_of(option.lstrip("-")))
    near = next((name for name in places if name in known), None)
    return None if near is None else f"; did you mean {near}?"


def option_elsewhere(option: str, root: Any) -> str:
    """Which other commands have an option."""
    names = [name for name, one in _commands(root) if any(option in parameter.opts for parameter in one.params)]
    if not option.startswith("--") or not names:
        return ""
    return f"; it is an option of {', '.join(f'`rl-training {name}`' for name in names[:3])}"


def _groups(root: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, one) for name, one in root.commands.items() if hasattr(one, "commands"))


def _commands(root: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, one) for name, one in root.commands.items() if not hasattr(one, "commands"))
    yield from ((f"{group} {name}", one) for group, found in _groups(root) for name, one in found.commands.items())
