"""`rl-training data split`: whole episodes set aside, to judge a policy by what it was not trained on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rl_training.cli.data_check import told_as_json
from rl_training.cli.data_convert import mean_return, provenance_of, read_and_describe, shown_by, written_lines
from rl_training.cli.reading_options import Reading
from rl_training.cli.telling import tell
from rl_training.data.checks import BoolArray, IndexArray, column_extremes
from rl_training.data.few_episodes import to_judge_by
from rl_training.data.formats import writers
from rl_training.data.kept_reasons import reasons_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import Provenance
from rl_training.data.space_bounds import for_parts
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.costs import Shown
from rl_training.paths import in_shell, resolved
from rl_training.wording import amount, notice_line

_NAMES = ("train", "held_out")
_KINDS = ("all but", "set aside:")


@dataclass(frozen=True)
class Choice:
    """Which episodes are set aside: a share of them, drawn with a seed."""

    held_out: float
    seed: int


def split(
    source: str,
    output: tuple[str, str],
    env_id: str | None,
    reading: Reading,
    choice: Choice,
    *,
    config: str | None = None,
    force: bool,
    as_json: bool,
) -> None:
    """Read, check, divide and write both parts, or neither. config: that named the data."""
    with told_as_json(Path(source), as_json):
        if not 0 < choice.held_out < 1:
            raise ConfigError(f"--held-out {choice.held_out:g}: must be a share between 0 and 1, such as 0.25")
        if source.endswith((".yaml", ".yml")):
            raise ConfigError(f"{source}: is a configuration, not data; -c {source} splits the data it names")
        goals = [writers.target_of(text) for text in output]
        _require_apart(*(goal.path for goal in goals))
        for goal in goals:
            writers.check_free(goal, force=force, source=source)
        dataset, told = read_and_describe(source, env_id, reading, config)
        aside = _aside(dataset, choice, source)
        dataset = replace(dataset, bounds=for_parts(dataset.bounds, *column_extremes(dataset.actions)))
        parts = [dataset.select(np.flatnonzero(rows)) for rows in (~aside, aside)]
        made = provenance_of(source, reading, dataset)
        shown = shown_by(source, reading, dataset)
        drawn = f"{choice.held_out:.4g} of the episodes, drawn with seed {choice.seed}"
        told += _write(
            parts,
            goals,
            [
                replace(
                    made, part=f"{kind} {drawn}", others=_seen_from(goal.path, other.path), reasons=reasons_of(part)
                )
                for kind, part, goal, other in zip(_KINDS, parts, goals, reversed(goals), strict=True)
            ],
            shown,
            force=force,
        )
    if as_json:
        about = {name: _facts(part, goal) for name, part, goal in zip(_NAMES, parts, goals, strict=True)}
        notes = [line.strip().removeprefix("note: ") for line in told if line.startswith(("  note:", "  warning:"))]
        tell(json.dumps({"path": source, "seed": choice.seed, **about, "notes": list(dict.fromkeys(notes))}))
    else:
        tell("\n".join([*dict.fromkeys(told), *_next_steps(output, config)]))


def _seen_from(place: Path, other: Path) -> str:
    """The way from a file's folder to another file."""
    return os.path.relpath(resolved(other), resolved(place).parent)


def _next_steps(output: tuple[str, str], config: str | None) -> list[str]:
    """The commands that go on with both parts."""
    train, aside = map(in_shell, output)
    if config is None:  # a name of its own: config.yaml may be there, and train on the whole log
        own = in_shell(f"{Path(output[0]).name.partition('.')[0] or 'train'}.yaml")
        ways = [f"rl-training init {train} -o {own}", f"rl-training train -c {own}"]
    else:
        ways = [f"rl-training train -c {in_shell(config)} --set dataset={train}"]
    ways.append(f"rl-training evaluate RUN --offline --data {aside}")
    return [f"then: {ways[0]}", *(f"      {way}" for way in ways[1:])]


def _aside(dataset: TransitionDataset, choice: Choice, source: str) -> BoolArray:
    """The rows of the episodes that are set aside; at least one episode stays on either side."""
    if not dataset.whole_episodes:
        raise DataError(f"{source}: the rows were sampled or reordered, so there are no whole episodes to set aside")
    of_row = _recorded(dataset)
    episodes = int(of_row.max()) + 1
    if episodes < 2:
        raise DataError(f"{source}: holds one episode, of which none can be set aside; split needs two at least")
    terminated = np.zeros(episodes, dtype=bool)
    terminated[of_row[dataset.terminations]] = True
    return np.isin(of_row, _drawn(terminated, choice))


def _drawn(terminated: BoolArray, choice: Choice) -> IndexArray:
    """The episodes that are set aside: of those that terminated about as many in a hundred as of the others."""
    order = np.random.default_rng(choice.seed).permutation(len(terminated))
    count = min(max(1, round(choice.held_out * len(order))), len(order) - 1)
    ended, others = order[terminated[order]], order[~terminated[order]]
    if len(ended) < 2 or not len(others):
        return order[:count]
    of_ended = _of_ended(len(ended), len(others), count, choice.held_out)
    return np.concatenate([ended[:of_ended], others[: count - of_ended]])


def _of_ended(ended: int, others: int, count: int, held_out: float) -> int:
    """How many of two and more that terminated are set aside, where `count` episodes are: with two of the others as
    well, and two episodes on either side, some of either kind are on either side."""
    if others == 1:  # trained on, unless more is set aside than trained on
        return count - 1 if held_out > 0.5 else min(count, ended - 1)
    both_aside, both_kept = count > 1, ended + others - count > 1
    least = max(int(both_aside), count - (others - 1 if both_kept else others))
    most = min(ended - 1, count - 1 if both_aside else count)
    return min(max(round(held_out * ended), least), most)


def _recorded(dataset: TransitionDataset) -> IndexArray:
    """The number of each row's episode as it was recorded, `[N]`: pieces that reading made of one stay together."""
    recorded = None if dataset.in_file is None else dataset.in_file.recorded
    if recorded is None:
        return dataset.episode_ids
    return np.unique(recorded.episodes, return_inverse=True)[1].reshape(-1)


def _write(
    parts: list[TransitionDataset],
    goals: list[writers.Target],
    made: list[Provenance],
    shown: Shown,
    *,
    force: bool,
) -> list[str]:
    """Both or neither: an old part beside a new one would hold episodes of it."""
    lone = _lone_terminations(parts)
    notes = writers.write_together(list(zip(parts, goals, made, strict=True)), force=force)
    titles = ("to train on", "set aside")
    told = zip(titles, parts, goals, notes, strict=True)
    lines = [line for title, part, goal, own in told for line in (_line(title, part, shown), *written_lines(goal, own))]
    kept, aside = (len(np.unique(_recorded(part))) for part in parts)
    few = to_judge_by(aside, kept + aside)
    return [*lines, *([] if few is None else [f"  {notice_line(few)}"]), *lone]


def _lone_terminations(parts: list[TransitionDataset]) -> list[str]:
    """A warning where all episodes that ended by themselves are on one side."""
    ended = [int(part.terminations.sum()) for part in parts]
    if not any(ended) or all(ended):
        return []
    episodes = sum(len(np.unique(_recorded(part)[part.terminations])) for part in parts)
    where, meaning = (
        ("to train on", "what is judged by the other part does not count them")
        if ended[0]
        else ("set aside", "a policy trained on the other part never sees one")
    )
    which = "the only termination is" if max(ended) == 1 else f"all {max(ended)} terminations are"
    way = "another --seed draws others" if episodes == 1 else "a larger --held-out sets some of them aside"
    return [f"  warning: {which} in the part {where}: {meaning}; {way}"]


def _require_apart(first: Path, second: Path) -> None:
    one, other = resolved(first), resolved(second)
    if one == other or one in other.parents or other in one.parents:
        raise ConfigError(f"--output {first} {second}: must be two places, neither inside the other")


def _line(what: str, part: TransitionDataset, shown: Shown) -> str:
    whole = len(np.unique(_recorded(part)))
    pieces = f" (pieces of {whole:,} recorded)" if whole < part.n_episodes else ""
    counts = f"{amount(len(part), 'row')}, {amount(int(part.terminations.sum()), 'termination')}"
    return f"{what}: {amount(part.n_episodes, 'episode')}{pieces}, {counts}, {mean_return(part, shown)}"


def _facts(part: TransitionDataset, goal: writers.Target) -> dict[str, str | int | float]:
    mean = float(part.episode_returns().mean())
    return {
        "path": goal.name,
        "episodes": part.n_episodes,
        "recorded_episodes": len(np.unique(_recorded(part))),
        "rows": len(part),
        "return_mean": mean,
    }
