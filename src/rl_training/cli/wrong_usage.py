"""What to say of a command line that makes no sense: the mistake, and what was perhaps meant."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from rl_training.errors import closest
from rl_training.foreign_names import own_place, places_of
from rl_training.paths import in_shell
from rl_training.validation import with_a_point

_ONE_SEED = "takes the policy of one seed, --seed 0"
# What `--seeds` is meant as where it is no option.
_SEEDS_ELSEWHERE = {
    "finetune": "a fine-tuned run has the seeds of the run that it starts from",
    "resume": "a resumed run keeps its seeds",
    "export": f"export {_ONE_SEED}; --member all writes a file for each",
    "push": f"push {_ONE_SEED}",
    "predict": f"predict {_ONE_SEED}",
    "bench": "how many are trained in one process is --members 2",
}
# What other programs call `--force`, and what is said where there is nothing to replace.
_REPLACING = ("--force", "--overwrite", "--replace", "--exist-ok", "--clobber", "--yes")
_KEPT = {
    "train": "; a run is never replaced: another --name starts a new one",
    "finetune": "; a run is never replaced: another --name starts a new one",
}
_FORMATS = ("onnx", "torch")
_OF_OBSERVATIONS = (".npy", ".npz", ".csv", ".json")


def told(error: Any, words: Sequence[str]) -> str:
    """The line for an error of click's; words: the command line without the program's name."""
    place = error.ctx.command_path if error.ctx else _place(words)
    message = error.format_message().replace("Value error, ", "").replace("Input should be", "must be")
    option, command = getattr(error, "option_name", None), place.rpartition(" ")[2]
    meant = _meant(command, message, option, words) or _with_a_point(message, error, words)
    if meant is None and message.startswith("No such option") and isinstance(option, str) and error.ctx:
        meant = f"No such option: {option}{_near(command, option, _options(error.ctx.command))}"
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
        return "-o: takes two files, one to train on and one held out: -o train.npz held_out.npz"
    if message.startswith("Got unexpected extra argument"):
        return _too_many(command, message)
    if command == "predict" and option in ("--data", "--file", "--input"):
        return f"No such option: {option}; did you mean --obs-file?"
    if (seeds := _of_seeds(command, message, option, words)) is not None:
        return seeds
    if not message.startswith("No such option") or not isinstance(option, str):
        return None
    if command == "resume" and option == "--set":
        return "No such option: --set; a resumed run keeps its settings, only --total-timesteps gives it another budget"
    if command in ("train", "finetune") and (setting := _setting(option, words)):
        if command == "train" and not {"-c", "--config"} & {word.partition("=")[0] for word in words}:
            data = shlex.split(setting)[0].partition("dataset=")[2]
            begin = f"`rl-training init {in_shell(data) if data else 'DATA'}` writes a configuration to train -c with"
            return f"No such option: {option}; {begin}, and --set {setting} changes it"
        return f"No such option: {option}; did you mean --set {setting}?"
    return None


def _with_a_point(message: str, error: Any, words: Sequence[str]) -> str | None:
    """Of a number that was written with a comma."""
    names = getattr(getattr(error, "param", None), "opts", ())
    given = _given(names, words) if message.startswith("Invalid value") and "number" in message else None
    return f"{message}, got {given}{advice}" if (advice := with_a_point(given)) else None


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
    near = closest(option.lstrip("-"), [name.lstrip("-") for name in known])
    return "" if near is None else f"; did you mean --{near}?"


def _of_seeds(command: str, message: str, option: Any, words: Sequence[str]) -> str | None:
    """Several seeds are repeated for training and listed for evaluating: what the other way is here."""
    if message.startswith("Invalid value for '--seed'") and command in ("train", "evaluate"):
        seeds = _numbers_after("--seed", words)
        if command == "train" and len(seeds) > 1:
            return f"--seed {','.join(seeds)}: takes one number, and is repeated for more: {_repeated(seeds)}"
        if len(seeds) > 1:
            way = f"the policies of these seeds are --seeds {','.join(seeds)}"
            return f"--seed {','.join(seeds)}: is the seed of the first episode, one number; {way}"
    if not (message.startswith("No such option") and option in ("--seeds", "--seed")):
        return None
    if command == "train":
        return f"No such option: {option}; did you mean {_repeated(_numbers_after(option, words) or ['0', '1'])}?"
    return f"No such option: {option}; {_SEEDS_ELSEWHERE[command]}" if command in _SEEDS_ELSEWHERE else None


def _numbers_after(option: str, words: Sequence[str]) -> list[str]:
    """`0` and `1` of `--seeds 0,1`, of `--seeds=[0,1]` and of `--seeds 0 1`; nothing where they are no numbers."""
    place = next((place for place, word in enumerate(words) if word.partition("=")[0] == option), len(words))
    given = [word.removeprefix(f"{option}=") for word in words[place:] if word != option]
    near = [part for word in takewhile(_is_list, given) for part in word.strip("[]").split(",")]
    return [part for part in near if part]


def _is_list(word: str) -> bool:
    return word.strip("[]").replace(",", "").isdecimal()


def _repeated(seeds: Sequence[str]) -> str:
    return " ".join(f"--seed {seed}" for seed in seeds)


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
    value = _given([option], words)
    if key is None or value is None:
        return None
    return shlex.quote(f"{key}={value}") if value and not value.startswith("--") else f"{key}=VALUE"
