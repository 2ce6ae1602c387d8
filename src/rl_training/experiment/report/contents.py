"""What a run directory tells, as far as it can be read: nothing that may lie in one raises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.provenance import KEY, Provenance
from rl_training.data.reference_returns import Reference, reference_of
from rl_training.errors import RLTrainingError
from rl_training.experiment import statistics
from rl_training.experiment.costs import Shown, added_up, shown_as
from rl_training.experiment.metric_doubts import metric_doubts, metric_notes
from rl_training.experiment.report.readings import End, added_at_termination, added_to_ends, kept_ends
from rl_training.experiment.run_listing import RunSummary, summarise
from rl_training.experiment.statistics import LastAndBest, Scores
from rl_training.experiment.stored_estimates import leading, opposed, to_show
from rl_training.experiment.stored_numbers import as_number
from rl_training.paths import bare_name, from_here, in_shell, is_there, resolved, without_folder
from rl_training.run_places import DAMAGED, RUNS_DIR, STOPPED
from rl_training.runtime.records import LONGEST_LINE, entries, fault
from rl_training.runtime.run_description import read_description, read_plain_config
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.standing import LAST
from rl_training.validation import printable
from rl_training.wording import WARNING, amount

_COUNTERS = ("step", "updates", "epoch", "seeds", "episodes")  # in a record, beside the values of each seed
_LARGEST_STEP = 10**15
_MOST_POINTS, _FEWEST_POINTS = 150, 30  # of a curve: more than a figure can show, and what a shape needs
_POINTS_OF_A_FIGURE = 3_000  # of all its curves together, as long as none has too few
_RESAMPLES = 500  # of a band, which is looked at and not cited


@dataclass(frozen=True)
class Curve:
    """Values `[T, M]` of each seed at `steps`; NaN where a seed had stopped."""

    steps: tuple[int, ...]
    seeds: tuple[int, ...]
    values: Scores
    most: int = _MOST_POINTS  # that its figure has room for

    @property
    def sound(self) -> list[int]:
        """The columns of the seeds that went on to the last record."""
        return np.flatnonzero(np.isfinite(self.values[-1])).tolist()

    @cached_property
    def bands(self) -> tuple[Scores, Scores, Scores]:
        """Interquartile mean over the seeds there are at each step, and its interval, `[T]` each."""
        parts = np.full((3, len(self.steps)), np.nan)
        there = np.isfinite(self.values)
        for seeds in np.unique(there, axis=0):
            rows = np.flatnonzero((there == seeds).all(1))
            if seeds.any():
                parts[:, rows] = statistics.bands(self.values[rows][:, seeds], resamples=_RESAMPLES)
        return parts[0], parts[1], parts[2]

    @cached_property
    def thinned(self) -> Curve:
        """At most so many points as can be seen; the last is among them."""
        rows = _thin(len(self.steps), self.most)
        return Curve(self.steps[rows], self.seeds, self.values[rows])


@dataclass(frozen=True)
class RunContents:
    """One run. `faults`: what could not be read, in lines; `notes`: what the run itself says beside its scores, some
    of it `remarks`, which are no reason to doubt anything."""

    number: int
    path: Path
    label: str  # no other run on the page has it
    summary: RunSummary
    facts: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    evaluations: Curve | None = None
    episodes: int | None = None  # of each evaluation and seed
    terminations: Curve | None = None  # episodes of each evaluation that terminated, where the records have them
    metrics: Mapping[str, Curve] = field(default_factory=dict)
    reference: Reference | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    machine_notes: tuple[str, ...] = ()  # of those, what says nothing of what was learned
    doubts: tuple[str, ...] = ()  # about its diagnostics
    by_heart: tuple[str, ...] = ()  # of those, what says that episodes were learned by heart
    offline: tuple[Mapping[str, Any], ...] = ()  # estimates without a simulator: the newest trusted of each data
    refused: tuple[Mapping[str, Any], ...] = ()  # others of the same weights, none of whose seeds was trusted
    opposed: tuple[Mapping[str, Any], ...] = ()  # trusted ones that contradict the one which leads
    earlier: tuple[Mapping[str, Any], ...] = ()  # estimates of other weights
    asked: int | None = None  # the update of whose weights the page was asked for; none: of the newest
    counted_ends: tuple[End, ...] = ()  # of the episodes of its data, where these are open

    @property
    def scores(self) -> LastAndBest | None:
        """Of the seeds that did not diverge."""
        curve = self.evaluations
        if curve is None or not curve.sound:
            return None
        values = curve.values[:, curve.sound]
        whole = np.isfinite(values).all(1)
        return statistics.last_against_best(np.asarray(curve.steps)[whole].tolist(), values[whole])

    @property
    def sound_seeds(self) -> tuple[int, ...]:
        curve = self.evaluations
        return () if curve is None else tuple(curve.seeds[column] for column in curve.sound)

    @cached_property
    def training_doubts(self) -> tuple[str, ...]:
        """What its metrics give reason to doubt."""
        return metric_doubts(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What stands at the top of the page."""
        return (*self.training_doubts, *self.by_heart)

    @cached_property
    def training_notes(self) -> tuple[str, ...]:
        """What else its metrics say that a reader should know."""
        return metric_notes(self)

    @property
    def terminated(self) -> tuple[int, int] | None:
        """How many episodes of the last evaluation terminated, and how many there were, over all sound seeds."""
        ends, curve = self.terminations, self.evaluations
        if ends is None or curve is None or not self.episodes or ends.steps[-1] != curve.steps[-1]:
            return None
        last = ends.values[-1][curve.sound]
        return (int(last.sum()), self.episodes * len(last)) if len(last) and np.isfinite(last).all() else None

    @property
    def unit(self) -> str:
        return self.summary.unit

    @property
    def as_asked(self) -> str:
        """` --which 50` behind a command, where the page is not of the newest weights."""
        return "" if self.asked is None or self.asked == self.summary.steps else f" --which {self.asked}"

    @property
    def in_command(self) -> str:
        """As a command names it where the page is made: of those in `runs/` the name is enough."""
        name = resolved(self.path).name
        is_known = not is_there(Path(name)) and resolved(Path(RUNS_DIR, name)) == resolved(self.path)
        return in_shell(name if is_known else from_here(self.path))

    @cached_property
    def shown(self) -> Shown:
        """How returns are shown: of data that are costs, as costs."""
        return shown_as(self.config.get("dataset"), self.data_facts)

    @property
    def origin(self) -> str | None:
        """The log that its data were made from, as far as their file tells."""
        made = Provenance.read(self.data_facts.get(KEY))
        return None if made is None or made.origin is None else bare_name(printable(made.origin))

    @property
    def added_up(self) -> str | None:
        """The column whose sums are shown, where no unit says what they are."""
        return added_up(self.config.get("dataset"), self.data_facts)

    @property
    def ends(self) -> tuple[End, ...]:
        """Why the episodes of its data ended, as far as these are open or their file tells; nothing otherwise."""
        return self.counted_ends or kept_ends(self.config.get("dataset"), self.data_facts)

    @property
    def added_at_ends(self) -> str | None:
        """What `at_termination` added to them, in words."""
        return added_at_termination(self.config.get("dataset"), self.data_facts, self.ends)

    @property
    def costly_ends(self) -> tuple[tuple[str, ...], int | None]:
        """The reasons of ends that cost something by `at_termination`, of those that occurred where that is known, and
        how many episodes ended so."""
        added = added_to_ends(self.config.get("dataset"), self.data_facts)
        if not isinstance(added, Mapping):
            return (), None
        counts = {end.reason: end.episodes for end in self.ends}
        costly = [reason for reason, value in added.items() if self.shown.number(-value) > 0]
        found = tuple(reason for reason in costly if not counts or reason in counts)
        return found, sum(counts[reason] for reason in found) if counts else None

    @property
    def data_facts(self) -> Mapping[str, Any]:
        """What run.json says of the data."""
        facts = self.facts.get("dataset")
        return facts if isinstance(facts, Mapping) else {}

    @property
    def data_return(self) -> float | None:
        return as_number(self.data_facts.get("return_mean"), None)


def read_runs(paths: Sequence[Path], which: str | int = LAST[0]) -> list[RunContents]:
    """Every run, numbered in the order given; a run given twice is shown once. which: of whose weights estimates are
    shown."""
    distinct = list({resolved(path): path for path in paths}.values())
    labels = [_label(resolved(path), [resolved(other) for other in distinct]) for path in distinct]
    points = min(_MOST_POINTS, max(_FEWEST_POINTS, _POINTS_OF_A_FIGURE // max(len(distinct), 1)))
    named = enumerate(zip(distinct, labels, strict=True))
    return [_read(number, path, label, points, which) for number, (path, label) in named]


def training_doubts(path: Path) -> list[str]:
    """What the metrics of one run give reason to doubt."""
    (run,) = read_runs([path])
    return list(run.training_doubts)


def _label(path: Path, paths: Sequence[Path]) -> str:
    """Its name, after as many folders as it takes to tell it from the others."""
    for parts in range(1, len(path.parts)):
        ending = path.parts[-parts:]
        if sum(other.parts[-parts:] == ending for other in paths) == 1:
            return "/".join(ending)
    return str(path)


def _read(number: int, path: Path, label: str, points: int, which: str | int) -> RunContents:
    summary = summarise(path)
    if max(summary.steps or 0, summary.total_steps or 0) > _LARGEST_STEP:
        summary = RunSummary(summary.name, path, DAMAGED, fault=f"{path}: makes no sense (so many steps)")
    faults = [] if summary.fault is None else [summary.fault]
    facts, config = _attempt(read_description, path, faults), _attempt(read_plain_config, path, faults)
    if summary.fault is not None and config:
        summary = _as_configured(summary, config)
    seeds = summary.seeds
    evaluations = _records(path, "evaluations", faults)
    curve = _curve(evaluations, "return_mean", seeds)
    curve = None if curve is None else replace(curve, most=points)
    if curve is None and evaluations:
        faults.append(f"{path / 'evaluations.jsonl'}: holds no returns that make sense")
    metrics = _records(path, "metrics", faults)
    metrics = metrics[_thin(len(metrics), points)]
    names = sorted({name for record in metrics for name in record if name not in _COUNTERS})
    curves = {name: _curve(metrics, name, seeds) for name in names}
    judged = _records(path, "offline_evaluations", faults)
    asked = None if which in LAST else _step_of(path, which, facts)
    of_step = [record for record in judged if record["step"] == asked] if which not in LAST else judged
    estimates, refused = to_show(of_step)
    of_machine = _texts(facts, "machine_notices")
    return RunContents(
        number=number,
        path=path,
        label=label,
        summary=summary,
        facts=facts,
        config=config,
        evaluations=curve,
        episodes=next((int(r["episodes"]) for r in evaluations if isinstance(r.get("episodes"), int)), None),
        terminations=_curve(evaluations, "terminations", seeds),
        metrics={name: found for name, found in curves.items() if found is not None},
        reference=_reference(config, summary.env_id),
        faults=tuple(dict.fromkeys(without_folder(fault, path) for fault in faults)),
        notes=tuple(note for note in _notes(summary, facts) if note not in of_machine),
        remarks=tuple(note for note in _texts(facts, "notices") if not note.startswith(WARNING)),
        machine_notes=tuple(of_machine),
        offline=estimates,
        refused=refused,
        opposed=opposed(leading(estimates), of_step),
        earlier=tuple(record for record in judged if not of_step or record["step"] != of_step[-1]["step"]),
        asked=asked,
    )


def _step_of(path: Path, which: str | int, facts: Mapping[str, Any]) -> int | None:
    """Where a checkpoint is, if it is there; that it is not is said where it would be opened."""
    try:
        return RunDirectory.open(path).step_of(which, facts)
    except (RLTrainingError, OSError, ValueError, TypeError, AttributeError):
        return None


def _as_configured(summary: RunSummary, config: Mapping[str, Any]) -> RunSummary:
    """A damaged run as far as its configuration tells of it."""
    seed = config.get("seed")
    seeds = [one for one in (seed if isinstance(seed, list) else [seed]) if type(one) is int]
    algo, env_id = (text if isinstance(text := config.get(name), str) else None for name in ("algo", "env_id"))
    return replace(summary, seeds=tuple(dict.fromkeys(seeds)), algo=algo, env_id=env_id)


def _attempt(reader: Any, path: Path, faults: list[str]) -> dict[str, Any]:
    try:
        return dict(reader(path))
    except RLTrainingError as error:
        faults.append(" ".join(str(error).split()))
        return {}


def _reference(config: Mapping[str, Any], env_id: str | None) -> Reference | None:
    return reference_of(config.get("dataset"), env_id)


def _records(path: Path, kind: str, faults: list[str]) -> list[dict[str, Any]]:
    """The sound records of `kind`.jsonl; a last line without an end is one that is being written."""
    file = path / f"{kind}.jsonl"
    found, damaged = [], []
    try:
        for number, line, record in entries(file):
            if len(line) > LONGEST_LINE:
                faults.append(f"{file}: line {number} {fault(line)}; it and what follows it are left out")
            elif record is None or not 0 <= record["step"] < _LARGEST_STEP:
                damaged.append(number)
            else:
                found.append(record)
    except OSError as error:
        faults.append(f"{file}: cannot be read ({error.strerror or error})")
        return []
    if damaged:
        which = ", ".join(map(str, damaged[:5])) + (", …" if len(damaged) > 5 else "")
        faults.append(f"{file}: {amount(len(damaged), 'line')} damaged and left out ({which})")
    return sorted(found, key=lambda record: int(record["step"]))


def _curve(records: Sequence[Mapping[str, Any]], name: str, seeds: Sequence[int]) -> Curve | None:
    """The values of one name by step and seed; records that do not have one for each of their seeds are left out."""
    places = {seed: place for place, seed in enumerate(seeds)}
    steps: list[int] = []
    rows: list[npt.NDArray[np.float64]] = []
    for record in records:
        own, values = record.get("seeds", list(seeds)), record.get(name)
        if not (isinstance(values, list) and isinstance(own, list) and len(values) == len(own)):
            continue
        if not all(type(seed) is int and seed in places for seed in own):
            continue
        if not all(isinstance(value, int | float) for value in values):
            continue
        row = np.full(len(seeds), np.nan)
        row[[places[seed] for seed in own]] = [as_number(value, math.nan) for value in values]
        if np.isfinite(row).any():
            steps.append(int(record["step"]))
            rows.append(row)
    return Curve(tuple(steps), tuple(seeds), np.array(rows)) if rows else None


def _thin(count: int, most: int) -> slice:
    every = max(1, -(-count // most))
    return slice((count - 1) % every, None, every)


def _notes(summary: RunSummary, facts: Mapping[str, Any]) -> list[str]:
    """How the run stands where it is not finished, its divergences, and what it was told at its start."""
    notes = []
    if summary.status == "running":
        notes.append("Still running when this page was written: the figures show how far it came.")
    elif summary.status == STOPPED:
        notes.append("This run was killed: the figures show how far it came.")
    elif summary.status not in ("finished", DAMAGED):
        why = f": {summary.reason}" if summary.reason else "."
        notes.append(f"This run ended {summary.status}{why}")
    notes = [" ".join(note.split()) for note in notes]
    return [*notes, *_texts(facts, "divergences"), *_texts(facts, "notices")]


def _texts(facts: Mapping[str, Any], kind: str) -> list[str]:
    """What run.json lists of a kind."""
    entries = facts.get(kind)
    told = [
        _divergence(entry) if isinstance(entry, Mapping) else str(entry)
        for entry in (entries if isinstance(entries, list) else [])
    ]
    return [" ".join(text.split()) for text in told]


def _divergence(entry: Mapping[str, Any]) -> str:
    stopped = "diverged and was stopped" if entry.get("now_at") is not None else "was warned of"
    where = f"between step {entry.get('since')} and {entry.get('step')}"
    return f"Seed {entry.get('seed')} {stopped} {where}: {entry.get('what')}. Likely causes: {entry.get('causes')}"
