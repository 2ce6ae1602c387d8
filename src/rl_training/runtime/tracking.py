"""Telling other programs how a run goes: one small interface, and the callback that serves it.

Trackers live in threads of their own, so that a slow network never holds training up, and a tracker that fails is left
alone after one warning. What a run has recorded is in its JSON lines; on resuming, a tracker is given from there what
it has not received, and nothing twice.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from rl_training.errors import CheckpointError
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.records import EVALUATION_METRICS
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_ending import how_it_ended
from rl_training.validation import shortened, shown

if TYPE_CHECKING:
    from rl_training.runtime.loop import Loop

_NOTES = "tracking"  # the entry of run.json: by tracker its run id, where it is to be seen, and what went wrong
FINISH_SECONDS = 30.0  # what the end of a run waits for a tracker
_INTERRUPTED_SECONDS = 5.0  # the same where a machine may want its processor back
_CUT_OFF_SECONDS = 1.0
_SHOWN = 160  # characters of what a tracker complains of
_LONGEST = 2_000  # characters of an id or an address
_WAITING = 10_000  # records a tracker may be behind

_log = logging.getLogger("rl_training")


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run when it starts."""

    name: str
    folder: Path  # absolute
    config: dict[str, Any]  # complete, as in config.yaml
    step: int = 0  # where training goes on; 0 in a new run
    run_id: str | None = None  # what `start` returned when the run began; none where it has not been tracked yet


class Tracker:
    """Override what you need. Whatever it raises ends tracking, never training."""

    name = ""  # in messages and in run.json; the class's name where it is empty

    def start(self, run: TrackedRun) -> str | None:
        """A run begins or goes on; what is returned comes back as `run_id` when it is resumed."""
        return None

    def last_step(self) -> int | None:
        """After `start`: the last step received before, or -1. None: not known, and nothing is given again."""
        return None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """The metrics and the evaluation of one step; steps only grow."""
        raise NotImplementedError

    def log_at(self, step: int, values: Mapping[str, float], seconds: float) -> None:
        """The same with the time it happened at, in seconds since 1970."""
        self.log(step, values)

    def finish(self, status: str) -> None:
        """The process ends: `finished`, `interrupted` (to be resumed), `diverged` or `failed`."""

    def let_go(self) -> None:
        """It was given up on, as after an error or where it hangs: undo at once what it changed in this process. It may
        come from another thread, and twice."""

    def address(self) -> str | None:
        """Where a person finds the run."""
        return None


@dataclass
class Record:
    """What is known of one step."""

    step: int
    seconds: float = field(default_factory=time.time)
    values: dict[str, float] = field(default_factory=dict)


class Tracking(Callback):
    """Gives every tracker one record for each step at which something was logged or evaluated."""

    looks_at_learner = False

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self.trackers = list(trackers)
        self._couriers: list[_Courier] = []
        self._pending: Record | None = None
        self._before: BaseException | None = None

    def on_start(self, loop: Loop) -> None:
        self._before = sys.exception()
        run = loop.run_directory
        place = run.path.absolute()  # the working folder may be another one when a tracker writes
        history = read_history(run, loop.config.seeds) if loop.progress.steps else []
        at_hand = history.pop() if history and history[-1].step == loop.progress.steps else None
        self._pending = at_hand  # its evaluation may be still to come
        for name, tracker in named(self.trackers):
            notes = Notes(run, name)
            noted = notes.get("id")
            run_id = noted if isinstance(noted, str) else None
            told = TrackedRun(place.name, place, loop.config.to_plain(), loop.progress.steps, run_id)
            courier = _Courier(tracker, name, told, history, notes)
            try:
                courier.start()
                self._couriers.append(courier)
            except RuntimeError as error:  # the system has no room for another thread
                courier.fail(str(error))

    def on_progress(self, loop: Loop) -> None:
        if self._pending is not None and loop.progress.steps > self._pending.step:
            self._send()

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        progress = loop.progress
        values = by_seed(metrics, loop.sound_seeds, several=len(loop.config.seeds) > 1)
        self._add(progress.steps, {**values, **_counters(progress.updates, progress.epoch, loop.steps_per_second)})

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        self._add(evaluation.step, evaluation_values(evaluation.to_json(), several=len(loop.config.seeds) > 1))

    def on_end(self, loop: Loop) -> None:
        error = sys.exception()
        is_broken = error is not None and error is not self._before
        status = how_it_ended(error)["status"] if error is not None and is_broken else loop.stop_status
        pending = self._pending
        if pending is not None and (status != "interrupted" or pending.step < loop.progress.steps):
            self._send()  # else a resumed run has it, and perhaps more to say of that step
        patience = _CUT_OFF_SECONDS if isinstance(error, KeyboardInterrupt) else FINISH_SECONDS
        end = time.monotonic() + (min(patience, _INTERRUPTED_SECONDS) if status == "interrupted" else patience)
        for courier in self._couriers:
            courier.put(status)
        for courier in self._couriers:
            courier.await_end(end)
        self._couriers = []

    def _add(self, step: int, values: Mapping[str, float]) -> None:
        if self._pending is not None and self._pending.step != step:
            self._send()
        if self._pending is None:
            self._pending = Record(step)
        self._pending.values.update(values)

    def _send(self) -> None:
        for courier in self._couriers:
            courier.put(self._pending)
        self._pending = None


def read_notes(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """What run.json says of trackers, by name."""
    noted = run.describe().get(_NOTES)
    return {k: v for k, v in noted.items() if isinstance(v, dict)} if isinstance(noted, dict) else {}


class Notes:
    """A tracker's part of run.json."""

    _lock = threading.Lock()

    def __init__(self, run: RunDirectory, tracker: str) -> None:
        self.run = run
        self.tracker = tracker

    def get(self, key: str) -> Any:
        return read_notes(self.run).get(self.tracker, {}).get(key)

    def change(self, **changes: Any) -> None:
        """Set entries; none removes one. A disk that is full is for others to complain of."""
        with self._lock, suppress(CheckpointError):
            noted = read_notes(self.run)
            own = {**noted.get(self.tracker, {}), **changes}
            noted[self.tracker] = {key: value for key, value in own.items() if value is not None}
            self.run.note(**{_NOTES: noted})


class _Courier(threading.Thread):
    """Carries records to one tracker, in order, and bears with what happens there."""

    def __init__(self, tracker: Tracker, name: str, run: TrackedRun, history: Sequence[Record], notes: Notes) -> None:
        super().__init__(name=f"tracking {name}", daemon=True)
        self.tracker, self.tracker_name, self.tracked, self.history, self.notes = tracker, name, run, history, notes
        self.last = -1
        self.has_failed = False
        self._queue: queue.Queue[Record | str | None] = queue.Queue(_WAITING)
        self._failing = threading.Lock()

    def put(self, item: Record | str | None) -> None:
        """A record, or the status that ends it all."""
        if not self.has_failed:
            try:
                self._queue.put_nowait(item)
            except queue.Full:
                self.fail("does not keep up")

    def await_end(self, end: float) -> None:
        self.join(max(end - time.monotonic(), 0.0))
        if self.is_alive():
            self.fail("did not take the end of the run in time")

    def run(self) -> None:
        try:
            self._begin()
            while not self.has_failed:
                item = self._queue.get()
                if isinstance(item, str):
                    self.tracker.finish(item)
                    self.notes.change(step=self.last)
                    return
                if item is not None:
                    self._carry(item)
        except BaseException as error:
            self.fail(_in_words(error))
        finally:
            if self.has_failed:  # by what hung in here, too
                self._let_go()

    def _begin(self) -> None:
        noted = self.notes.get("step")
        run_id = _text(self.tracker.start(self.tracked), "start")
        where = _text(self.tracker.address(), "address")
        self.notes.change(id=run_id, address=where, step=None, failed=None)  # no step: as long as records are coming
        known = self.tracker.last_step()
        if known is not None:
            self.last = known
        elif self.tracked.step:  # after a kill nobody knows: what was recorded before the checkpoint was sent, too
            self.last = int(noted) if isinstance(noted, int) else self.tracked.step
        for record in self.history if known is not None else ():
            self._carry(record)

    def _carry(self, record: Record) -> None:
        if record.step > self.last:
            self.tracker.log_at(record.step, dict(record.values), record.seconds)  # others are given the same
            self.last = record.step

    def fail(self, why: str) -> None:
        """Be done with it, after one warning."""
        with self._failing:
            if self.has_failed:
                return
            self.has_failed = True
        _log.warning("warning: tracking with %s ended (%s); training goes on without it", self.tracker_name, why)
        self.notes.change(failed=why)
        self._let_go()

    def _let_go(self) -> None:
        with suppress(BaseException):
            self.tracker.let_go()


def _text(answer: Any, method: str) -> str | None:
    """What a tracker has answered, for run.json."""
    if answer is not None and not (isinstance(answer, str) and len(answer) <= _LONGEST):
        raise TypeError(f"{method}() must return a short text or None, got {shown(answer)}")
    return answer


def _in_words(error: BaseException) -> str:
    """An error of a stranger's in one short line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # that cannot even say what it is
        words = ""
    return shortened(f"{type(error).__name__}{f': {words}' if words else ''}", _SHOWN)


# What is told ---------------------------------------------------------------------------------------------------------


def by_seed(metrics: Mapping[str, Sequence[float]], seeds: Sequence[int], *, several: bool) -> dict[str, float]:
    """`critic/loss`: the mean over seeds; of several also `critic/loss_std` between them and `seed-3/critic/loss`."""
    values = {name: fmean(each) for name, each in metrics.items()}
    if several:
        values |= {f"{name}_std": pstdev(each) for name, each in metrics.items() if len(each) > 1}
        for name, each in metrics.items():
            values |= {f"seed-{seed}/{name}": float(one) for seed, one in zip(seeds, each, strict=True)}
    return values


def evaluation_values(record: Mapping[str, Any], *, several: bool) -> dict[str, float]:
    """The fields of one evaluation, as `evaluation/return_mean`."""
    each = {f"evaluation/{name}": record[name] for name in EVALUATION_METRICS}
    return by_seed(each, record["seeds"], several=several)


def _counters(updates: int, epoch: float | None, pace: float | None) -> dict[str, float]:
    values = {"progress/updates": updates, "progress/epoch": epoch, "progress/steps_per_second": pace}
    return {name: float(value) for name, value in values.items() if value is not None}


def read_history(run: RunDirectory, all_seeds: Sequence[int]) -> list[Record]:
    """What a run has recorded so far, one record for each step."""
    several = len(all_seeds) > 1
    timing = {record["step"]: record for record in run.records("timing")}
    found: dict[int, Record] = {}
    for record in run.records("metrics"):
        step, then = record["step"], timing.get(record["step"], {})
        metrics = {name: each for name, each in record.items() if isinstance(each, list) and name != "seeds"}
        try:
            values = by_seed(metrics, record.get("seeds", all_seeds), several=several)
            counters = _counters(record["updates"], record["epoch"], then.get("steps_per_second"))
            found[step] = Record(step, float(then.get("time", time.time())), {**values, **counters})
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CheckpointError(f"{run.path / 'metrics.jsonl'}: what it says of step {step} makes no sense") from None
    for record in run.records("evaluations"):
        own = found.setdefault(record["step"], Record(record["step"]))
        own.values.update(evaluation_values(record, several=several))
    return [found[step] for step in sorted(found)]


def named(trackers: Sequence[Tracker]) -> list[tuple[str, Tracker]]:
    """Trackers under the names that messages and run.json have for them, numbered where several share one."""
    seen: dict[str, int] = {}
    pairs = []
    for tracker in trackers:
        name = tracker.name or type(tracker).__name__
        seen[name] = seen.get(name, 0) + 1
        pairs.append((name if seen[name] == 1 else f"{name}-{seen[name]}", tracker))
    return pairs
