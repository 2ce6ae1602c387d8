"""The data of the runs on a page, opened where they still lie, and what the checkpoints say about them."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rl_training.data.column_names import names_of, require_order
from rl_training.data.dataset_loaders import (
    DatasetConfig,
    MinariDatasetConfig,
    MixtureDatasetConfig,
    RandomDatasetConfig,
    ScriptedDatasetConfig,
    check_spaces,
    data_notices,
    load_dataset,
)
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces
from rl_training.errors import DataError, RLTrainingError
from rl_training.experiment.costs import RETURNS, Shown
from rl_training.experiment.report.bounds import ActionBounds, action_bounds, common_bounds
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.diagnostics import (
    ActionCheck,
    ValueCheck,
    check_actions,
    check_values,
    learned_by_heart,
    some_episodes,
)
from rl_training.experiment.report.episode import EpisodeCheck, check_episode
from rl_training.experiment.report.held_out import clipped, read_alike, share_seen
from rl_training.experiment.report.readings import EndedSo, added_at_termination, count_reasons, how_episodes_end
from rl_training.experiment.report.spread import Spread
from rl_training.experiment.seed_choice import choose_seed
from rl_training.paths import bare_name, without_folder
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import RunDirectory
from rl_training.validation import printable
from rl_training.wording import amount

MOST_DIMENSIONS = 8
_FRESH_SEED = 7_919  # added to the seed of generated data, for episodes that were not trained on
_FRESH_ROWS = 4_000


@dataclass(frozen=True)
class DataContents:
    """One dataset: the runs trained on it, and its distributions, or why there are none."""

    title: str
    runs: tuple[int, ...]
    facts: Mapping[str, Any]
    fingerprint: str | None
    drawn: Mapping[str, Spread] = field(default_factory=dict)
    constant: Mapping[str, str] = field(default_factory=dict)  # what needs no figure, in words
    why_not: str | None = None
    more_dimensions: int = 0
    notes: tuple[str, ...] = ()  # what was done on reading
    shown: Shown = RETURNS  # how its returns and rewards are
    bounds: ActionBounds | None = None  # where its runs have the same
    ends: str | None = None  # how its episodes end, in words
    added: str | None = None  # to the rewards of those that terminate, in words
    reasons: tuple[EndedSo, ...] = ()  # why they ended, where the file tells


@dataclass(frozen=True)
class RunDiagnostics:
    """What the checkpoint at `step` says; `missing`: what could not be computed, and why."""

    run: int
    step: int | None = None
    values: ValueCheck | None = None
    held: ValueCheck | None = None
    held_from: str | None = None
    actions: ActionCheck | None = None
    episode: EpisodeCheck | None = None
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # what makes a figure mean less than it seems to
    by_heart: tuple[str, ...] = ()  # what says that the episodes were learned by heart


class _Opened(NamedTuple):
    """A run, its data or why they cannot be shown, and the bounds of its actions."""

    run: RunContents
    data: TransitionDataset | str
    bounds: ActionBounds | None


class _ToBeShown(NamedTuple):
    """Data of which an episode is shown, and the environment of the run that they were chosen for."""

    data: TransitionDataset
    source: str
    env_id: str | None

    def fits(self, other: _ToBeShown, spaces: Spaces, *, asked: bool) -> bool:
        """Whether a policy with these spaces can be shown on them, and acts in the same world. asked: for all runs."""
        mine, theirs = (names_of(one.data, "obs", one.data.obs_dim) for one in (self, other))
        same = mine == theirs if mine and theirs else self.env_id is not None and self.env_id == other.env_id
        if not (same or self.data is other.data or (asked and not (mine and theirs))):
            return False
        try:
            check_spaces(self.data, spaces, self.source, other.env_id)
            require_order(self.data, spaces, self.source)
        except DataError:
            return False
        return True


class Shelf:
    """Opens every dataset once; a fault is a sentence, not an exception."""

    def __init__(self, held_out: str | None = None) -> None:
        self.held_out = held_out
        self._opened: dict[str, TransitionDataset | str] = {}
        self._errors: dict[str, Exception] = {}  # by the sentence that was made of each
        self._shown: list[_ToBeShown] = []

    def of_run(self, run: RunContents, spaces: Spaces | None) -> TransitionDataset | str:
        """The data a run was trained on, or why they cannot be shown."""
        if not run.config:
            return "the configuration cannot be read"
        try:
            section = TrainConfig.parse(run.config).dataset
        except RLTrainingError as error:
            return f"the configuration makes no sense ({error})"
        if section is None:
            return "it was trained from arrays in memory, which no file holds" if run.data_facts else "it has no data"
        opened = self.open(section, run.summary.env_id, spaces)
        if isinstance(opened, str):
            return without_folder(opened, getattr(section, "path", None))
        told = run.data_facts.get("fingerprint")
        if told is not None and opened.fingerprint() != told:
            return "the data have changed since it was trained (their SHA-256 is another)"
        return opened

    def held_out_for(self, run: RunContents, spaces: Spaces) -> tuple[TransitionDataset | str, str, list[str]]:
        """Episodes that were not trained on, or why there are none; where they come from, and what to say of them."""
        env_id = run.summary.env_id
        if self.held_out is not None:
            held, said = self._held_out(run), list[str]()
            try:
                if not isinstance(held, str):
                    held, said = clipped(held, spaces)
                    check_spaces(held, spaces, self.held_out, env_id)
                    require_order(held, spaces, self.held_out)
            except DataError as error:
                held = str(error)
            name = bare_name(self.held_out)
            if isinstance(held, str):
                why = without_folder(held, self.held_out).removeprefix(f"{name}: ")
                return why, name, [f"{name} cannot be used as held-out episodes: {why}"]
            return held, name, [f"{name}: {note}" for note in said]
        section = TrainConfig.parse(run.config).dataset
        if isinstance(section, ScriptedDatasetConfig | RandomDatasetConfig):
            changes = {"seed": section.seed + _FRESH_SEED, "size": min(section.size, _FRESH_ROWS)}
            fresh = self.open(section.model_copy(update=changes), env_id, spaces)
            return fresh, f"new {section.source} episodes, of another seed", []
        return "every episode of the data was trained on; --held-out DATA gives others", "", []

    def to_be_shown(
        self, run: RunContents, spaces: Spaces, data: TransitionDataset, source: str
    ) -> tuple[TransitionDataset, str]:
        """The data of which an episode is shown, and their name: those of an earlier run, where this one acts in the
        same world, so that both are seen on the same episode; else its own."""
        own = _ToBeShown(data, source, run.summary.env_id)
        known = (one for one in self._shown if one.fits(own, spaces, asked=self.held_out is not None))
        if (found := next(known, None)) is None:
            self._shown.append(own)
            return data, source
        return found.data, found.source

    def require_held_out(self, runs: Sequence[RunContents]) -> None:
        """What was asked for must be there, read as one of the runs at least reads its own data."""
        found = [] if self.held_out is None else [self._held_out(run) for run in runs]
        faults = [fault for fault in found if isinstance(fault, str)]
        if faults and len(faults) == len(found):
            raise DataError(f"--held-out {faults[0]}") from self._errors.get(faults[0])

    def _held_out(self, run: RunContents) -> TransitionDataset | str:
        assert self.held_out is not None
        try:
            section = read_alike(run.config, self.held_out).section
        except RLTrainingError as error:
            return f"{self.held_out}: {error}"
        return self.open(section, run.summary.env_id, None)

    def open(self, section: DatasetConfig, env_id: str | None, spaces: Spaces | None) -> TransitionDataset | str:
        local = _local(section)
        key = json.dumps([local.model_dump(mode="json"), env_id, spaces and spaces.to_json()], default=str)
        if key not in self._opened:
            try:
                self._opened[key] = _load(local, env_id, spaces)
            except (RLTrainingError, OSError, MemoryError) as error:
                fault = " ".join(str(error).split()) or type(error).__name__
                self._opened[key], self._errors[fault] = fault, error
        return self._opened[key]


def _load(section: DatasetConfig, env_id: str | None, spaces: Spaces | None) -> TransitionDataset:
    if isinstance(section, RandomDatasetConfig) and ":" in (env_id or ""):
        raise DataError(f"environment {env_id!r} names code to import, which a report does not do")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_dataset(section, env_id, spaces)


def _local(section: DatasetConfig) -> DatasetConfig:
    """The same, fetching nothing: a report makes no requests."""
    match section:
        case MinariDatasetConfig():
            return section.model_copy(update={"download": False})
        case MixtureDatasetConfig():
            parts = [part.model_copy(update={"dataset": _local(part.dataset)}) for part in section.parts]
            return section.model_copy(update={"parts": parts})
        case _:
            return section


def examine(
    runs: Sequence[RunContents], shelf: Shelf | None, which: str | int
) -> tuple[list[DataContents], list[RunDiagnostics]]:
    """Datasets and diagnostics of all runs; without a shelf nothing is opened."""
    diagnostics: list[RunDiagnostics] = []
    found: list[_Opened] = []
    for run in runs:
        if shelf is None:
            found.append(_Opened(run, "left out (--no-data)", action_bounds(run, None)))
            continue
        checked, opened = _diagnose(run, shelf, which)
        diagnostics.append(checked)
        found.append(opened)
    return _group(found), diagnostics


def _diagnose(run: RunContents, shelf: Shelf, which: str | int) -> tuple[RunDiagnostics, _Opened]:
    """What the checkpoint and the data give together."""
    try:
        directory = RunDirectory.open(run.path)
        checkpoint = directory.load(which)
        learner = checkpoint.build_learner()
        transforms, spaces = checkpoint.transforms, checkpoint.spaces
        step = int(checkpoint.progress["steps"])
    except (RLTrainingError, OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        reason = without_folder(reason, run.path)
        opened = _Opened(run, shelf.of_run(run, None), action_bounds(run, None))
        return RunDiagnostics(run.number, missing=(f"no checkpoint to look into: {reason}",)), opened
    data = shelf.of_run(run, spaces)
    opened = _Opened(run, data, action_bounds(run, spaces))
    if isinstance(data, str):
        return RunDiagnostics(run.number, step, missing=(f"the data are not at hand: {data}",)), opened
    some = some_episodes(data)
    held, source, of_held = shelf.held_out_for(run, spaces)
    of = (data, data_title(run)) if isinstance(held, str) else (held, source)
    shown, named = shelf.to_be_shown(run, spaces, *of)
    names = [_action_title(shown, column) for column in range(shown.act_dim)]
    sound = checkpoint.sound_seeds
    taken = choose_seed(directory, step, learner.seeds, sound).seed if sound else None
    found = RunDiagnostics(
        run.number,
        step,
        check_values(learner, transforms, some),
        actions=check_actions(learner, transforms, some),
        episode=check_episode(learner, transforms, shown, names, named, run.shown.noun, taken),
        doubts=tuple(of_held),
    )
    if found.values is None:
        missing = f"{run.summary.algo} learns no values: there is nothing to hold to returns, and no TD error"
        return replace(found, missing=(missing,)), opened
    found = replace(found, doubts=(*found.values.doubts(), *found.doubts))
    if isinstance(held, str):
        return replace(found, missing=() if of_held else (f"no held-out episodes: {held}",)), opened
    doubts = [] if shelf.held_out is None else _doubts(share_seen(held, data), held, source)
    checked = check_values(learner, transforms, some_episodes(held))
    by_heart = () if checked is None or found.values is None else tuple(learned_by_heart(found.values, checked))
    found = replace(found, held=checked, held_from=source, by_heart=by_heart)
    return replace(found, doubts=(*found.doubts, *doubts)), opened


def _doubts(seen: float, held: TransitionDataset, source: str) -> list[str]:
    episodes = round(seen * held.n_episodes)  # a few rows may be alike without being the same
    if not episodes:
        return []
    some = f" (about {episodes:,} of {amount(held.n_episodes, 'episode')})" if episodes < held.n_episodes else ""
    rows = f"{math.floor(100 * seen)}% of its rows{some} were trained on"
    return [f"{source}: {rows}, so its TD error is not a held-out one"]


def _group(found: Sequence[_Opened]) -> list[DataContents]:
    """Runs of the same data together: by what they hold, where that is known."""
    groups: dict[str, list[_Opened]] = {}
    for one in found:
        run = one.run
        if run.summary.dataset is None and not run.data_facts:
            continue  # no data at all: it learned online
        key = str(run.data_facts.get("fingerprint") or f"run {run.number}")
        groups.setdefault(key, []).append(one)
    return [_contents(members) for members in groups.values()]


def _contents(members: Sequence[_Opened]) -> DataContents:
    first, opened, _ = next((one for one in members if not isinstance(one.data, str)), members[0])
    bounds = common_bounds([one.bounds for one in members])
    fingerprint = first.data_facts.get("fingerprint")
    read = (first.config.get("dataset"), first.data_facts)
    shown = first.shown
    about = DataContents(
        title=data_title(first),
        runs=tuple(one.run.number for one in members),
        facts=first.data_facts,
        fingerprint=None if fingerprint is None else str(fingerprint),
        shown=shown,
        bounds=bounds,
        ends=how_episodes_end(*read, first.ends),
        added=added_at_termination(*read, first.ends),
    )
    if isinstance(opened, str):
        return replace(about, why_not=opened)
    named: dict[str, Any] = {}
    if opened.whole_episodes:
        named |= {shown.title("an episode"): shown.values(opened.episode_returns())}
        named |= {"Length of an episode": opened.episode_lengths()}
    named[shown.title("a step")] = shown.values(opened.rewards)
    drawn = min(opened.act_dim, MOST_DIMENSIONS)
    actions = {_action_title(opened, column): column for column in range(drawn)}
    limits = {name: None if bounds is None else bounds.of(column) for name, column in actions.items()}
    named |= {name: opened.actions[:, column] for name, column in actions.items()}
    varying = {name for name, values in named.items() if values.min() < values.max()}
    reasons = count_reasons(opened)
    ends = tuple(one.end for one in reasons) or first.ends
    return replace(
        about,
        ends=how_episodes_end(*read, ends),
        added=added_at_termination(*read, ends),
        drawn={name: Spread.of(values, limits.get(name)) for name, values in named.items() if name in varying},
        constant={name: f"{float(values[0]):g}" for name, values in named.items() if name not in varying},
        more_dimensions=opened.act_dim - drawn,
        reasons=reasons,
        notes=tuple(" ".join(note.split()) for note in data_notices(opened, first.summary.env_id)),
    )


def _action_title(dataset: TransitionDataset, column: int) -> str:
    names = names_of(dataset, "actions", dataset.act_dim)
    if names and not names[column].startswith("actions["):  # what a table calls the columns of an array says no more
        return f"Action {printable(names[column])}"
    return "Action" if dataset.act_dim == 1 else f"Action, dimension {column}"


def data_title(run: RunContents) -> str:
    """The data in a few words: where they come from."""
    section = run.config.get("dataset")
    match section:
        case {"source": "file", "path": path}:
            return bare_name(path)
        case {"source": "minari", "id": name}:
            return f"Minari {name}"
        case {"source": "mixture"}:
            return run.summary.dataset or "mixture"
        case {"source": str(source)}:
            return f"{source} data" + (f" in {run.summary.env_id}" if run.summary.env_id else "")
        case _:
            return run.summary.dataset or (
                "unknown data" if run.data_facts or not run.config else "none: it learns online"
            )
