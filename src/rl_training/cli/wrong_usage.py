"""What to say of a command line that makes no sense: the mistake, and what was perhaps meant."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from rl_training.foreign_names import own_place, places_of

_OF_OBSERVATIONS = (".npy", ".npz", ".csv", ".json")


def told(error: Any, words: Sequence[str]) -> str:
    """The line for an error of click's; words: the command line without the program's name."""
    place = error.ctx.command_path if error.ctx else _place(words)
    message = error.format_message().replace("Value error, ", "").replace("Input should be", "must be")
    meant = _meant(place.rpartition(" ")[2], message, getattr(error, "option_name", None), words)
    return f"{meant or message} (see {place} --help)"


def _place(words: Sequence[str]) -> str:
    """The command that the words name, where the parser did not come as far as to say so itself."""
    named = list(takewhile(lambda word: word.isalpha(), words[: 2 if words[:1] in (["data"], ["config"]) else 1]))
    return " ".join(["rl-training", *named])


def _meant(command: str, message: str, option: Any, words: Sequence[str]) -> str | None:
    if command == "train" and message.startswith("Missing option '--config'"):
        data = next((word for word in words[1:] if Path(word).suffix and not word.startswith("-")), None)
        if data is not None and Path(data).suffix in (".yaml", ".yml"):
            return f"Missing option '--config' / '-c': rl-training train -c {shlex.quote(data)}"
        written = f"rl-training init {'FILE' if data is None else shlex.quote(data)}"
        return f"Missing option '--config' / '-c': a configuration; for data of your own `{written}` writes one"
    if message.startswith("Option '--compare' requires 2"):
        return "--compare: takes two names, --compare RUN RUN"
    if command == "split" and message.startswith(("Option '-o' requires 2", "Option '--output' requires 2")):
        return "-o: takes two files, one to train on and one held out: -o train.parquet held_out.parquet"
    if message.startswith("Got unexpected extra argument"):
        return _too_many(command, message)
    if command == "predict" and option in ("--data", "--file", "--input"):
        return f"No such option: {option}; did you mean --obs-file?"
    if not message.startswith("No such option") or not isinstance(option, str):
        return None
    if command == "resume" and option == "--set":
        return "No such option: --set; a resumed run keeps its settings, only --total-timesteps gives it another budget"
    if command in ("train", "finetune") and (setting := _setting(option, words)):
        return f"No such option: {option}; did you mean --set {setting}?"
    return None


def _too_many(command: str, message: str) -> str | None:
    """What one word more than there is a place for may have been meant as."""
    extra = message.partition("(s) (")[2].rstrip(".)").split()
    if command == "predict" and extra and Path(extra[0]).suffix in _OF_OBSERVATIONS:
        return f"{extra[0]}: is one word too many; observations in a file: --obs-file {shlex.quote(extra[0])}"
    if command == "predict":
        return f"{' '.join(extra)}: one observation is one word, its numbers separated by commas: --obs 0.1,0.2"
    if command in ("check", "info", "split"):
        return f"{message}: one dataset at a time"
    return None


def _setting(option: str, words: Sequence[str]) -> str | None:
    """`total_timesteps=10` for `--total-timesteps 10`, and for `--n-steps 10`, as other programs call it."""
    from rl_training.runtime.config import TrainConfig

    name = option.lstrip("-").replace("-", "_")
    key = name if name in TrainConfig.model_fields else next(iter(places_of(name)), None) or own_place(name)
    if key is None:
        return None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.partition("=")[0] == option:
            value = word.partition("=")[2] or following
            return shlex.quote(f"{key}={value}") if value and not value.startswith("--") else f"{key}=VALUE"
    return None
