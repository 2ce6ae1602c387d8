"""The directory of one run: what was asked, what happened, and what came out of it.

config.yaml          the complete resolved configuration, for people
run.json             status, the configuration in force, versions, machine, dataset, last and best score
metrics.jsonl        one record per log interval
evaluations.jsonl    one record per evaluation
offline_evaluations.jsonl  one record per evaluation without an environment, if there was any
timing.jsonl         wall-clock per log interval (kept apart: the other files are the same in every repetition)
checkpoints/step-N/  see checkpoint.py
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.data.formats.atomic import remove, sync
from rl_training.errors import CheckpointError
from rl_training.paths import leading_to
from rl_training.run_places import CHECKPOINTS, DESCRIPTION, TEMPORARY, other_runs, run_folder_of, what_it_is
from rl_training.runtime import checkpoint_folder, new_runs, run_lock
from rl_training.runtime.checkpoint import Checkpoint, is_checkpoint, load_checkpoint, reason
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.progress import Progress
from rl_training.runtime.records import OFFLINE_EVALUATIONS, Records, entries, is_evaluation
from rl_training.runtime.run_description import lack_of_checkpoints, read_description, read_plain_config
from rl_training.runtime.run_identity import circumstances, data_of, differing, require_own
from rl_training.runtime.standing import LAST, TOLD, path_of, standing, steps_in

_NO_BEST = "none was scored, as that takes evaluations in an environment (env_id)"
_NO_BEST_YET = "none was scored yet, as its first evaluation is still to come"
_GLANCES = 10


class RunDirectory:
    """Reads and writes one run."""

    def __init__(self, path: Path) -> None:
        self._given, self._place = path, path.absolute()
        self._lock: run_lock.Held | None = None
        self._noting = threading.Lock()
        self._records = {kind: Records(self._place / f"{kind}.jsonl") for kind in ("metrics", "timing")}
        self._records["evaluations"] = Records(self._place / "evaluations.jsonl", is_sound=is_evaluation)
        self._records[OFFLINE_EVALUATIONS] = Records(self._place / f"{OFFLINE_EVALUATIONS}.jsonl", once=False)

    @property
    def path(self) -> Path:
        """As it was given, as long as that leads there: an environment or a callback may change the working folder, and
        while another thread is about to write."""
        is_main = threading.current_thread() is threading.main_thread()
        return leading_to(self._place, self._given) if is_main else self._place

    # Making and opening -----------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, config: TrainConfig, dataset: Mapping[str, Any] | None, start: Checkpoint | None = None, **facts: Any
    ) -> RunDirectory:
        """A new directory `runs_dir/name` with its configuration and `run.json`; start: the checkpoint that it begins
        with; facts: further entries of run.json."""

        def fill(folder: Path) -> None:
            run = cls(folder)
            run.write_config(config)
            told = {"status": "running", **circumstances(config), "dataset": dataset, **facts}
            run._write_json(DESCRIPTION, told)
            if start is not None:
                run.keep(replace(start, data=data_of(told), progress={**start.progress, "records": run.tallies()}))

        return cls(new_runs.make(config, fill))

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run."""
        if not (path / "run.json").is_file():
            raise CheckpointError(f"{path}: {what_it_is(path)}{other_runs(path)}")
        return cls(path)

    def lock(self, *, is_new: bool = False) -> AbstractContextManager[Any]:
        """Keep other processes from training this run until the context ends; the lock dies with the process that holds
        it. is_new: nobody has trained it yet, or it is refused."""
        if self._lock is not None and self._lock.is_in_session:
            return nullcontext()
        lock = run_lock.held(self.path)
        try:
            if is_new:
                self._require_untrained()
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        return lock

    def _require_untrained(self) -> None:
        """Another process may have trained a run since this one made it, before it held the lock."""
        if self.describe().get("status") != "running" or self._records["timing"].read():
            raise CheckpointError(f"{self.path}: another process has trained it meanwhile; resume it, or choose a name")

    # What happens -----------------------------------------------------------------------------------------------

    def append(self, kind: str, record: Mapping[str, Any]) -> None:
        """Add one record to `kind`.jsonl."""
        with self._writing(f"{kind}.jsonl"):
            self._records[kind].append(record)

    def append_late(self, kind: str, record: Mapping[str, Any]) -> None:
        """The same for what is added when nobody trains: no resuming will drop the half of a line that a crash left."""
        with self._writing(f"{kind}.jsonl"):
            self._records[kind].append_late(record)

    def forget(self, kind: str, is_meant: Callable[[Mapping[str, Any]], bool]) -> tuple[int, Path | None]:
        """Leave out records that people added; how many these were, and where the file is kept as it was."""
        if not (self.path / f"{kind}.jsonl").is_file():
            return 0, None
        records = self._records[kind]
        with self._writing(f"{kind}.jsonl"), records.alone():
            count, whole = records.without(is_meant)
            if not count:
                return 0, None
            aside = records.set_aside()
            self._replace(f"{kind}.jsonl", whole)
        return count, aside

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Every complete record of `kind`.jsonl."""
        return self._records[kind].read()

    def sound_records(self, kind: str) -> list[dict[str, Any]]:
        """The same where lines that are damaged do not matter: they are left out."""
        return [record for _, _, record in entries(self._place / f"{kind}.jsonl") if record is not None]

    def tallies(self) -> dict[str, Any]:
        """What a checkpoint says of the records that training wrote before it, but for those of time."""
        return {kind: self._records[kind].tally() for kind in ("metrics", "evaluations")}

    def names_aside(self, step: int) -> dict[str, str]:
        """The names of later checkpoints, and those that they are to be kept under."""
        return checkpoint_folder.names_aside(self._checkpoints, step)

    def set_aside_after(self, step: int) -> None:
        """Keep later checkpoints under other names, the oldest first: until the last has gone, the run stands where it
        stood."""
        for name, aside in self.names_aside(step).items():
            with self._writing("checkpoints"):
                checkpoint_folder.move(self._checkpoints / name, self._checkpoints / aside)
                sync(self._checkpoints)  # before anything is noted or forgotten that takes it for granted

    def put_back(self, aside: Any) -> None:
        """Undo that; aside: what `names_aside` had told."""
        with self._writing("checkpoints"):
            checkpoint_folder.put_back(self._checkpoints, aside)

    def rewind(self, step: int, evaluated: int | None = None, told: Mapping[str, Any] | None = None) -> list[str]:
        """Forget records after `step` (evaluations: after `evaluated`), which a resumed run will write again.

        told: the `tallies` of that moment; records that are not what they were are said, and kept aside. What killed
        processes left half-written is removed.
        """
        checkpoint_folder.drop_superseded(self._checkpoints)
        warnings = []
        for kind, records in self._records.items():
            last = evaluated if kind == "evaluations" and evaluated is not None else step
            with self._writing(f"{kind}.jsonl"):
                whole, warning = records.up_to(last, (told or {}).get(kind))
            if warning is not None:
                with self._writing(f"{kind}.jsonl"):
                    aside = f"; kept as it was in {records.set_aside().name}" if records.file.is_file() else ""
                warnings.append(f"{warning}{aside}. The policy does not depend on it, and the run goes on")
            if records.differ_from(whole, shared=warning is not None):
                self._replace(f"{kind}.jsonl", whole)
        for name in ("config.yaml", DESCRIPTION, *(f"{kind}.jsonl" for kind in self._records)):
            for leftover in self.path.glob(f".{name}{TEMPORARY}*"):
                with self._writing(leftover.name):
                    remove(leftover)
        return warnings

    def describe(self) -> dict[str, Any]:
        """The contents of run.json."""
        return read_description(self.path)

    def best_step(self) -> int | None:
        """The step of the best evaluation, if there was any."""
        return (standing(self.path, self.describe()).get("best") or {}).get("step")

    def note(self, **changes: Any) -> None:
        """Change entries of run.json."""
        with run_lock.shared(self._lock), self._noting:
            self._write_json("run.json", {**self.describe(), **changes})

    @property
    def is_noting(self) -> bool:
        """Whether a thread is about to change run.json."""
        return self._noting.locked()

    def budgets(self, progress: Progress, checkpoint: Checkpoint | None) -> dict[str, Any]:
        """An entry for run.json: where the budget was changed on the way to `progress`, from what and to what."""
        before = progress.total_steps if checkpoint is None else int(checkpoint.progress["total_steps"])
        told = self.describe().get("budgets")
        entries = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
        changes = [e for e in entries if isinstance(e.get("step"), int) and e["step"] < progress.steps]
        here = [e for e in entries if e.get("step") == progress.steps]
        saved_with = [place for place, e in enumerate(here, 1) if e.get("after") == before]  # saved anew at this step
        changes += here[: max(saved_with, default=0)]
        if before != progress.total_steps:
            changes.append({"step": progress.steps, "before": before, "after": progress.total_steps})
        return {"budgets": changes} if told or changes else {}

    def config(self) -> TrainConfig:
        """What config.yaml says."""
        return TrainConfig.parse(read_plain_config(self.path))

    def edits(self, config: TrainConfig) -> list[str]:
        """The keys in which config.yaml is no longer `config`; who watches a run is no part of it."""
        return differing(read_plain_config(self.path), config)

    # Checkpoints ------------------------------------------------------------------------------------------------

    @property
    def _checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def checkpoint_path(self, step: int) -> Path:
        return path_of(self._checkpoints, step)

    def steps(self) -> list[int]:
        """The steps of the checkpoints, oldest first."""
        return steps_in(self._checkpoints)

    def steps_after(self, step: int) -> list[int]:
        return [later for later in self.steps() if later > step]

    def save(self, checkpoint: Checkpoint, step: int) -> Path:
        """Write the checkpoint of `step`, after making durable the records it takes for granted."""
        with self._writing("records"):
            for records in self._records.values():
                if records.file.is_file():
                    sync(records.file)
            sync(self.path)  # which has their names
        with self._writing("checkpoints"):
            path = checkpoint_folder.save(self._checkpoints, step, checkpoint)
            sync(self.path)
        return path

    def keep(self, checkpoint: Checkpoint) -> Path:
        """Save it, say so in run.json, and only then let go of those that are no longer to be kept."""
        progress, config = checkpoint.progress, checkpoint.config
        with run_lock.shared(self._lock):
            path = self.save(checkpoint, progress["steps"])
            self.note(step=progress["steps"], **{name: progress[name] for name in TOLD})
            best = progress["best"]["step"] if progress["best"] else None
            self.prune(config.keep_checkpoints, best, config.keep_every)
        return path

    def prune(self, keep: int, best: int | None, every: int | None = None) -> None:
        """Let go of checkpoints that are no longer to be kept."""
        with self._writing("checkpoints"):
            checkpoint_folder.prune(self._checkpoints, keep, best, every, self._judged())

    def _judged(self) -> set[int]:
        """Steps whose weights somebody has evaluated without an environment, as far as that can be read."""
        with suppress(OSError):
            return {record["step"] for _, _, record in entries(self._records[OFFLINE_EVALUATIONS].file) if record}
        return set()

    def load(self, which: str | int = "last", *, to_go_on: bool = False) -> Checkpoint:
        """The last (or `latest`), the best, or the checkpoint of a given step (30, `30` or `step-30`).

        to_go_on: one that is to be trained on from; its experience has to be sound, too.
        """
        while True:
            facts = self.describe()
            step = self.step_of(which, facts)
            read = _number_of(self.checkpoint_path(step))
            try:
                return self._load_own(step, facts, to_go_on)
            except CheckpointError as error:
                if _number_of(self.checkpoint_path(step)) != read:  # a process that trains has put another there
                    continue
                sound = self.newest_sound(self.steps(), step, to_go_on=to_go_on)
                hint = f"; the newest sound one is step-{sound} (--which {sound})" if sound is not None else ""
                raise CheckpointError(f"{error}{hint or '; no other is sound'}") from error

    def step_of(self, which: str | int, facts: Mapping[str, Any]) -> int:
        """The step of the checkpoint that `load` would take; facts: what run.json says."""
        # A folder that changes while it is listed may show neither the checkpoint that goes nor the one that comes.
        steps = next(filter(None, (self.steps() for _ in range(_GLANCES))), None)
        if steps is None:
            raise CheckpointError(f"{self.path}: {lack_of_checkpoints(facts)}")
        wanted = LAST[0] if which in LAST else str(which).removeprefix("step-")
        best = (facts.get("best") or {}).get("step") if wanted != "best" else self._best(steps[-1], facts)
        named = {LAST[0]: steps[-1], **({"best": best} if best in steps else {}), **{str(step): step for step in steps}}
        if wanted not in named:
            has_env = isinstance(config := facts.get("config"), Mapping) and config.get("env_id") is not None
            none = f"; {_NO_BEST_YET if has_env else _NO_BEST}" if wanted == "best" and best is None else ""
            raise CheckpointError(f"{self.path}: no checkpoint {which!r}{none}; choose from {', '.join(named)}")
        return int(named[wanted])

    def _best(self, newest: int, facts: Mapping[str, Any]) -> int | None:
        """The step of the best evaluation; run.json may be behind of it, otherwise both say the same."""
        told, step = ((one.get("best") or {}).get("step") for one in (facts, standing(self.path, facts)))
        is_behind = facts.get("step") != newest or step == newest
        if step != told and not is_behind:
            raise CheckpointError(
                f"{self.path / DESCRIPTION}: best.step: is {told}, and {step} as step-{newest}, the newest checkpoint,"
                f" has it; put it right, or choose a step: {', '.join(map(str, self.steps()))}"
            )
        return step

    def newest_sound(
        self, steps: list[int] | None = None, damaged: int | None = None, *, to_go_on: bool = False
    ) -> int | None:
        """The step of the newest checkpoint that can be loaded; `damaged` is known not to."""
        facts = self.describe()
        for step in reversed(self.steps() if steps is None else steps):
            with suppress(CheckpointError):
                if step != damaged and self._load_own(step, facts, to_go_on):
                    return step
        return None

    def _load_own(self, step: int, facts: Mapping[str, Any], to_go_on: bool) -> Checkpoint:
        checkpoint = load_checkpoint(self.checkpoint_path(step))
        try:
            require_own(checkpoint, step, facts)
            if to_go_on:
                checkpoint.require_experience()
        except CheckpointError as error:
            raise CheckpointError(f"{self.checkpoint_path(step)}: {error}") from error
        return checkpoint

    # Files ------------------------------------------------------------------------------------------------------

    def write_config(self, config: TrainConfig) -> None:
        """Write config.yaml: at the start, and when a run goes on under a changed budget."""
        self._replace("config.yaml", yaml_dialect.write(config.to_plain()).encode())

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self._replace(name, (json.dumps(value, indent=1) + "\n").encode())

    def _replace(self, name: str, contents: bytes) -> None:
        temporary = self._place / f".{name}{TEMPORARY}{os.getpid()}-{threading.get_ident()}"
        with self._writing(name):
            try:
                temporary.write_bytes(contents)
                sync(temporary)
                temporary.replace(self._place / name)
                sync(self._place)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            if self._lock is not None:
                run_lock.require_held(self._lock, self._place)
            yield
        except OSError as error:
            raise CheckpointError(f"{self.path / name}: cannot be written ({reason(error, self.path)})") from error


def _number_of(path: Path) -> int | None:
    """The disk's own number of a folder: another one under the same name has another."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def load_any(path: Path, which: str | int = "last") -> Checkpoint:
    """The checkpoint at a path: a checkpoint directory, or one of a run's."""
    return load_checkpoint(path) if is_checkpoint(path) else RunDirectory.open(path).load(which)


def run_of(place: Path | None) -> RunDirectory | None:
    """The run that a policy was loaded from, be it by one of its checkpoints."""
    folder = None if place is None else run_folder_of(place)
    return None if folder is None else RunDirectory.open(folder)
