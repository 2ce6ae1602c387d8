"""What to say of a command line that makes no sense: the mistake, and what was perhaps meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from rl_training.cli.other_words import command_meant, option_elsewhere, option_meant, program_meant, with_option
from rl_training.cli.whole_lines import config_here, data_here, whole_line
from rl_training.cli.wrong_seeds import of_seeds
from rl_training.errors import closest
from rl_training.foreign_names import own_place, places_of
from rl_training.paths import in_shell
from rl_training.validation import in_digits, with_a_point

# What other programs call `--force`, and what is said where there is nothing to replace.
_REPLACING = ("--force", "--overwrite", "--replace", "--exist-ok", "--clobber", "--yes")
_KEPT = {
    "train": "; a run is never replaced: another --name starts a new one",
    "finetune": "; a run is never replaced: another --name starts a new one",
}
_SET = ("train", "finetune", "show", "validate")  # the commands that have it
_FORMATS = ("onnx", "torch")
_WRITES = {"export": (".onnx", ".pt2", ".pt"), "init": (".yaml", ".yml")}
# What is said of one word too many.
_SPARE = {
    "export": "one run at a time",
    "init": "one file at a time; a folder that holds several alike is read as one",
    "train": "is more than this command takes; one configuration at a time",
    "runs": "this lists all runs; of one, `rl-training report RUN` writes a page, and --compare RUN RUN shows two",
    "bench": "algorithms are named by --algo, as in --algo iql",
    "configs": "this lists all; `rl-training config show NAME` prints one",
    "list": "this lists all; `rl-training config show NAME` prints one",
}
_OF_OBSERVATIONS = (".npy", ".npz", ".csv", ".json")


def told(error: Any, words: Sequence[str]) -> str:
    """The line for an error of click's; words: the command line without the program's name."""
    place = error.ctx.command_path if error.ctx else _place(words)
    message = error.format_message().replace("Value error, ", "").replace("Input should be", "must be")
    option, command = getattr(error, "option_name", None), place.rpartition(" ")[2]
    known = _options(error.ctx.command) if error.ctx else []
    meant = _dashes(words, known) or _of_command(message, option, words, error.ctx)
    meant = meant or _meant(command, message, option, words) or _number(message, error, words)
    if meant is None and message.startswith("No such option") and isinstance(option, str) and error.ctx:
        near = _near(command, option, known)
        if not near and option not in _REPLACING:
            near = option_elsewhere(option, error.ctx.find_root().command)
        meant = f"No such option: {option}{near}"
    if meant is None and message.startswith("Missing"):
        _, *named = place.split()
        meant = f"{message.rstrip('.')}{whole_line(' '.join(named), words[len(named) :]) or ''}"
    return f"{meant or message} (see {place} --help)"


def _dashes(words: Sequence[str], known: Sequence[str]) -> str | None:
    """Of a long name behind one dash, which reads as letters of their own."""
    wrong = next((word for word in words if f"-{word.partition('=')[0]}" in (*known, "--help")), None)
    return None if wrong is None else f"No such option: {wrong}; did you mean -{wrong}, with two dashes?"


def _of_command(message: str, option: Any, words: Sequence[str], context: Any) -> str | None:
    """Of a word that is no command, and of `--train`."""
    group: Any = None if context is None else context.command
    if not hasattr(group, "commands"):
        return None
    root = context.find_root().command
    if message.startswith("No such option") and option in ("-v", "-V"):
        return f"No such option: {option}; did you mean --version?"
    if message.startswith("No such option") and isinstance(option, str):
        line = command_meant(option, words, group, root)
        return None if line is None else f"No such option: {option}; did you mean `{line}`?"
    if not message.startswith("No such command"):
        return None
    word = message.partition("'")[2].partition("'")[0]
    if (line := command_meant(word, words, group, root)) is not None:
        return f"No such command '{word}'; did you mean `{line}`?"
    if program := program_meant(word):
        return f"No such command '{word}'{program}"
    if "Did you mean" in message or group is root:
        return None
    return f"No such command '{word}'; choose from {', '.join(group.commands)}"


def _place(words: Sequence[str]) -> str:
    """The command that the words name, where the parser did not come as far as to say so itself."""
    named = list(takewhile(lambda word: word.isalpha(), words[: 2 if words[:1] in (["data"], ["config"]) else 1]))
    return " ".join(["rl-training", *named])


def _meant(command: str, message: str, option: Any, words: Sequence[str]) -> str | None:
    if command == "train" and message.startswith(("Missing option '--config'", "Option '-c' requires")):
        return f"Missing option '--config' / '-c': {_to_train(words)}"
    if command == "train" and message.startswith("Option '--resume' requires"):
        return "--resume: takes auto; a given run is continued by `rl-training resume RUN`"
    if message.startswith("Option '--compare' requires 2"):
        return "--compare: takes two names, --compare RUN RUN"
    if command == "split" and message.startswith(("Option '-o' requires 2", "Option '--output' requires 2")):
        return "-o: takes two files, one to train on and one held out: -o train.npz held_out.npz"
    if message.startswith("Got unexpected extra argument"):
        return of_seeds(command, message, option, words) or _too_many(command, message, words)
    if command == "predict" and isinstance(option, str) and re.fullmatch(r"-[\d.]", option):
        return f"No such option: {option}; one observation is one word, its numbers separated by commas: --obs 1,-2,3"
    if command == "predict" and option in ("--data", "--file", "--input"):
        return f"No such option: {option}; did you mean --obs-file?"
    if (seeds := of_seeds(command, message, option, words)) is not None:
        return seeds
    if not message.startswith("No such option") or not isinstance(option, str):
        return None
    if option == "--run" and _given([option], words):
        rest = shlex.join(word.removeprefix("--run=") for word in words if word != "--run")
        return f"No such option: --run; a run is named without: `rl-training {rest}`"
    if command == "resume" and option == "--set":
        return "No such option: --set; a resumed run keeps its settings, only --total-timesteps gives it another budget"
    if command in ("train", "finetune") and option in ("--wandb", "--tensorboard", "--mlflow"):
        return f"No such option: {option}; did you mean --track {option.lstrip('-')}?"
    if command == "finetune" and option == "--total-timesteps":
        return f"No such option: {option}; did you mean --steps?"
    if command in ("train", "finetune") and (setting := _setting(option, words)):
        if command == "train" and not {"-c", "--config"} & {word.partition("=")[0] for word in words}:
            data = shlex.split(setting)[0].partition("dataset=")[2]
            begin = f"`rl-training init {in_shell(data) if data else 'DATA'}` writes a configuration to train -c with"
            return f"No such option: {option}; {begin}, and --set {setting} changes it"
        return f"No such option: {option}; did you mean --set {setting}?"
    return None


def _to_train(words: Sequence[str]) -> str:
    """What to type, by the file that was named, else by what lies here."""
    bare = [word for word in words if word not in ("-c", "--config")]
    if (line := with_option(bare)) != bare:
        return shlex.join(["rl-training", *line])
    config = config_here()
    data = next((word for word in words[1:] if Path(word).suffix and not word.startswith("-")), None)
    if data is None and config is not None:
        return f"rl-training train -c {shlex.quote(config)}"
    written = f"rl-training init {shlex.quote(data or data_here() or 'FILE')}"
    return f"a configuration; for data of your own `{written}` writes one"


def _number(message: str, error: Any, words: Sequence[str]) -> str | None:
    """Of a number that was written with a comma, and of a whole one that was written in another way."""
    names: Sequence[str] = getattr(getattr(error, "param", None), "opts", ())
    given = _given(names, words) if message.startswith("Invalid value") else None
    if given is not None and "valid integer" in message:
        return f"{names[0]}: must be a whole number, got {given}{in_digits(given)}"
    if given is None or "number" not in message:
        return None
    return f"{message}, got {given}{advice}" if (advice := with_a_point(given) or _of_percent(given)) else None


def _of_percent(given: str) -> str:
    """`; write 0.25`, of `25%`; nothing of anything else."""
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?) ?%", given.strip())
    return f"; write {float(found[1]) / 100:g}" if found else ""


def _given(names: Sequence[str], words: Sequence[str]) -> str | None:
    """What an option of these names was given last."""
    values = [
        value if is_joined else following
        for (name, is_joined, value), following in zip(
            (word.partition("=") for word in words), [*words[1:], ""], strict=True
        )
        if name in names
    ]
    return values[-1] if values else None


def _options(command: Any) -> list[str]:
    """All that a command has, by their long names; `--help` is none of them, and is told anyway."""
    return [name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("--")]


def _near(command: str, option: str, known: Sequence[str]) -> str:
    """What an option was perhaps meant as: by another word for the same, else by its letters."""
    if option in _REPLACING:
        if "--force" in known:
            return "; did you mean --force?"
        return _KEPT.get(command, "")
    if command == "export" and option.lstrip("-") in _FORMATS:
        return f"; did you mean --format {option.lstrip('-')}?"
    if (meant := option_meant(command, option, known)) is not None:
        return meant
    if sorted(option) == sorted("--help"):  # `--hlep`; `--held` is something else
        return "; did you mean --help?"
    near = closest(option.lstrip("-"), [name.lstrip("-") for name in known])
    return "" if near is None else f"; did you mean --{near}?"


def _too_many(command: str, message: str, words: Sequence[str]) -> str | None:
    """What one word more than there is a place for may have been meant as."""
    extra = message.partition("(s) (")[2].rstrip(".)").split()
    if command == "predict" and extra and Path(extra[0]).suffix in _OF_OBSERVATIONS:
        return f"{extra[0]}: is one word too many; observations in a file: --obs-file {shlex.quote(extra[0])}"
    if command == "predict":
        return f"{' '.join(extra)}: one observation is one word, its numbers separated by commas: --obs 0.1,0.2"
    if command in ("check", "info", "split"):
        return f"{message}: one dataset at a time"
    if command in _SET and extra and all("=" in word for word in extra):
        settings = " ".join(f"--set {shlex.quote(word)}" for word in extra)
        return f"{' '.join(extra)}: a setting is changed by --set: {settings}"
    unsaid = _given(["--set"], words) if command in _SET and len(extra) == 1 else None
    if unsaid is not None and "=" not in unsaid:
        meant = f"{unsaid.rstrip(':')}={extra[0]}"
        return f"--set {unsaid}: must have the form key=value: --set {shlex.quote(meant)}"
    if command in _WRITES and extra and Path(extra[0]).suffix in _WRITES[command]:
        return f"{extra[0]}: the file to write is named by -o: -o {shlex.quote(extra[0])}"
    return f"{' '.join(extra)}: {_SPARE.get(command, 'is more than this command takes; leave it out')}"


def _setting(option: str, words: Sequence[str]) -> str | None:
    """`total_timesteps=10` for `--total-timesteps 10`, and for `--n-steps 10`, as other programs call it."""
    from rl_training.runtime.config import TrainConfig

    name = option.lstrip("-").replace("-", "_")
    key = name if name in TrainConfig.model_fields else next(iter(places_of(name)), None) or own_place(name)
    value = _given([option], words)
    if key is None or value is None:
        return None
    if key == "device" and name != "device":
        return f"device=cuda:{value}" if value.isdecimal() else "device=cuda"
    return shlex.quote(f"{key}={value}") if value and not value.startswith("--") else f"{key}=VALUE"
