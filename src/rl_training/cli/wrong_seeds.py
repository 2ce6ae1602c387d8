"""Several seeds are repeated for training and listed for evaluating: what the other way is here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

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
_COUNTS = ("--n-seeds", "--num-seeds", "--n-members", "--num-members", "--members", "--seeds")
_RANGE = re.compile(r"(\d{1,6})(-|\.\.|:)(\d{1,6})")
_MOST_REPEATED, _MOST = 8, 64
_MOST_DIGITS = 19  # of a seed; Python refuses to read numbers of thousands


def of_seeds(command: str, message: str, option: object, words: Sequence[str]) -> str | None:
    """The answer to a mistake with seeds; none to any other."""
    if message.startswith("Invalid value for '--seed'") and command in ("train", "evaluate"):
        return _several_after_seed(command, words)
    if command == "train" and message.startswith("Got unexpected extra argument") and "--seed" in words:
        seeds = numbers_after("--seed", words)
        return f"{' '.join(seeds)}: --seed is repeated for more: {repeated(seeds)}" if len(seeds) > 1 else None
    if not message.startswith("No such option") or not isinstance(option, str):
        return None
    if command == "train" and option == "-n":
        count = (numbers_after("-n", words) or ["3"])[0]
        others = f"{count} updates --total-timesteps {count}, and a run's name is --name"
        return f"No such option: -n; {_counted([count])}, {others}"
    name = option.replace("_", "-")
    if command == "train" and name in (*_COUNTS, "--seed"):
        seeds = numbers_after(option, words)
        if len(seeds) == 1 and 1 < int(seeds[0]) <= _MOST:
            return f"No such option: {option}; {_counted(seeds)}, and seed {seeds[0]} alone is --seed {seeds[0]}"
        return f"No such option: {option}; did you mean {repeated(seeds or ['0', '1'])}?"
    is_of_seeds = name in ("--seeds", "--seed") and command in _SEEDS_ELSEWHERE
    return f"No such option: {option}; {_SEEDS_ELSEWHERE[command]}" if is_of_seeds else None


def _several_after_seed(command: str, words: Sequence[str]) -> str | None:
    seeds = numbers_after("--seed", words)
    if len(seeds) < 2:
        return None
    if command == "train":
        return f"--seed {','.join(seeds)}: takes one number, and is repeated for more: {repeated(seeds)}"
    way = f"the policies of these seeds are --seeds {','.join(seeds)}"
    return f"--seed {','.join(seeds)}: is the seed of the first episode, one number; {way}"


def _counted(count: Sequence[str]) -> str:
    """`3 seeds are --seed 0 --seed 1 --seed 2`."""
    number = min(int(count[0]), _MOST)
    return f"{number} seeds are {repeated(list(map(str, range(number))))}"


def numbers_after(option: str, words: Sequence[str]) -> list[str]:
    """`0` and `1` of `--seeds 0,1`, `--seeds=[0,1]`, `--seeds 0 1` and `--seeds 0-1`; nothing where they are no
    numbers."""
    place = next((place for place, word in enumerate(words) if word.partition("=")[0] == option), len(words))
    given = [word.removeprefix(f"{option}=") for word in words[place:] if word != option]
    if given and (spread := _RANGE.fullmatch(given[0])):
        first, sign, last = spread.groups()
        return list(map(str, range(int(first), int(last) + (sign != ":"))))[:_MOST]
    near = [part for word in takewhile(_is_list, given) for part in word.strip("[]").split(",")]
    return [part for part in near if part]


def _is_list(word: str) -> bool:
    parts = word.strip("[]").split(",")
    return "".join(parts).isdecimal() and max(map(len, parts)) <= _MOST_DIGITS


def repeated(seeds: Sequence[str]) -> str:
    """As they are typed: each by itself, or where they are many as one value."""
    if len(seeds) > _MOST_REPEATED:
        return f"--set 'seed=[{','.join(seeds)}]'"
    return " ".join(f"--seed {seed}" for seed in seeds)
