"""What to say of a command line that makes no sense: the mistake, and what was perhaps meant."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LIKE_BUDGET = ("steps", "n_steps", "num_steps", "max_steps", "total_steps", "timesteps", "updates", "iterations")


def told(error: Any, words: Sequence[str]) -> str:
    """The line for an error of click's; words: the command line without the program's name."""
    place = error.ctx.command_path if error.ctx else "rl-training"
    message = error.format_message().replace("Value error, ", "").replace("Input should be", "must be")
    meant = _meant(place.rpartition(" ")[2], message, getattr(error, "option_name", None), words)
    return f"{meant or message} (see {place} --help)"


def _meant(command: str, message: str, option: Any, words: Sequence[str]) -> str | None:
    if command == "train" and message.startswith("Missing option '--config'"):
        data = next((word for word in words[1:] if Path(word).suffix and not word.startswith("-")), None)
        if data is not None and Path(data).suffix in (".yaml", ".yml"):
            return f"Missing option '--config' / '-c': rl-training train -c {shlex.quote(data)}"
        written = f"rl-training init {'FILE' if data is None else shlex.quote(data)}"
        return f"Missing option '--config' / '-c': a configuration; for data of your own `{written}` writes one"
    if message.startswith("Option '--compare' requires 2"):
        return "--compare: takes two names, --compare RUN RUN"
    if not message.startswith("No such option") or not isinstance(option, str):
        return None
    if command == "resume" and option == "--set":
        return "No such option: --set; a resumed run keeps its settings, only --total-timesteps gives it another budget"
    if command in ("train", "finetune") and option.lstrip("-").replace("-", "_") in _LIKE_BUDGET:
        return f"No such option: {option}; did you mean --set {_setting(option, words, 'total_timesteps')}?"
    if command in ("train", "finetune") and (setting := _setting(option, words)):
        return f"No such option: {option}; did you mean --set {setting}?"
    return None


def _setting(option: str, words: Sequence[str], meant: str | None = None) -> str | None:
    """`total_timesteps=10` for `--total-timesteps 10`."""
    from rl_training.runtime.config import TrainConfig

    key = meant or option.lstrip("-").replace("-", "_")
    if key not in TrainConfig.model_fields:
        return None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.partition("=")[0] == option:
            value = word.partition("=")[2] or following
            return shlex.quote(f"{key}={value}") if value and not value.startswith("--") else f"{key}=VALUE"
    return None
