"""A run goes on as it was started and with what it was given since, in the place that it has locked."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.data.generation import generate_random_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.experiment import manager
from rl_training.runtime import checkpoint_folder, checkpoint_writer, new_runs
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from rl_training.runtime.records import Records
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import Trainer
from small_runs import digest, files_under, one_update_at_a_time, small_config


class KilledError(BaseException):
    """The process ends here, and nobody tidies up."""


@pytest.fixture
def killed_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have a function end the process: run.json is not told."""

    def kill(owner: Any, name: str) -> pytest.MonkeyPatch:
        def end(*_: Any, **__: Any) -> None:
            raise KilledError

        patch = pytest.MonkeyPatch()
        patch.setattr(owner, name, end)
        patch.setattr(RunDirectory, "note", _unless_killed(RunDirectory.note))
        return patch

    return kill


def _unless_killed(note: Any) -> Any:
    def told(self: RunDirectory, **changes: Any) -> None:
        if not isinstance(sys.exception(), KilledError):
            note(self, **changes)

    return told


class StopsAtOnce(Callback):
    """As a signal does before the first update."""

    def on_start(self, loop: Loop) -> None:
        loop.stop("SIGTERM received", status="interrupted")


class TestABudgetThatWasGiven:
    @pytest.mark.parametrize("auto", [False, True])
    def test_is_kept_by_a_process_that_is_killed_before_its_first_checkpoint(
        self, data_file: Path, tmp_path: Path, killed_in: Any, auto: bool
    ) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=6, checkpoint_interval=100)
        run = manager.start(config).run
        patch = killed_in(Loop, "run")
        with pytest.raises(KilledError):
            manager.resume(run.path, total_timesteps=12)
        patch.undo()
        assert run.describe()["status"] == "running"
        if auto:
            larger = small_config(data_file, tmp_path, total_timesteps=12, checkpoint_interval=100)
            result = manager.start_or_resume(larger)
        else:
            result = manager.resume(run.path)
        assert result.run.path == run.path
        assert result.progress.steps == 12
        assert run.config().total_timesteps == 12
        assert not any("was edited" in notice for notice in run.describe().get("notices", []))
        assert [entry["after"] for entry in run.describe()["budgets"]] == [12]

    def test_is_told_where_a_smaller_one_is_refused(self, data_file: Path, tmp_path: Path, killed_in: Any) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=6)).run
        patch = killed_in(Loop, "run")
        with pytest.raises(KilledError):
            manager.resume(run.path, total_timesteps=12)
        patch.undo()
        with pytest.raises(ConfigError, match=r"total_timesteps 3 lies behind update 6, .* alone goes on to 12"):
            manager.resume(run.path, total_timesteps=3)

    @pytest.mark.parametrize("given", [(12,), (12, 18)])
    def test_and_interrupted_before_its_first_update_leaves_earlier_checkpoints_usable(
        self, data_file: Path, tmp_path: Path, given: tuple[int, ...]
    ) -> None:
        """The newest is saved anew with the larger budget, at the same step."""
        config = small_config(data_file, tmp_path, total_timesteps=6, checkpoint_interval=3, keep_checkpoints=9)
        run = manager.start(config).run
        for total in given:
            manager.resume(run.path, total_timesteps=total, callbacks=[StopsAtOnce()])
        manager.resume(run.path)
        assert [run.load(step).progress["steps"] for step in run.steps()] == list(range(3, given[-1] + 1, 3))
        changes = run.describe()["budgets"]
        assert [(one["before"], one["after"]) for one in changes] == [*zip((6, *given), given, strict=False)]

    def test_of_an_earlier_checkpoint_is_its_own(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=6, checkpoint_interval=3, keep_checkpoints=9)
        run = manager.start(config).run
        manager.resume(run.path, total_timesteps=12)
        assert manager.resume(run.path, which=3).progress.steps == 6

    @pytest.mark.parametrize(
        "place",
        [(RunDirectory, "set_aside_after"), (RunDirectory, "write_config"), (RunDirectory, "rewind"), (Loop, "run")],
    )
    def test_is_not_lost_to_a_return_that_is_killed(
        self, data_file: Path, tmp_path: Path, killed_in: Any, place: tuple[Any, str]
    ) -> None:
        """Where the run still stands at its end, it has the budget of its end."""
        config = small_config(data_file, tmp_path, total_timesteps=6, checkpoint_interval=3, keep_checkpoints=9)
        run = manager.start(config).run
        with pytest.raises(RuntimeError):
            manager.resume(run.path, total_timesteps=12, callbacks=[FailsAt(10)])
        assert run.steps()[-1] == 9
        patch = killed_in(*place)
        with pytest.raises(KilledError):
            manager.resume(run.path, which=3)
        patch.undo()
        stands_at_its_end = run.steps()[-1] == 9
        assert manager.resume(run.path).progress.steps == (12 if stands_at_its_end else 6)

    @pytest.mark.parametrize("gone", [0, 1, 2, 3])
    def test_a_return_with_a_budget_is_whole_or_not_at_all(
        self, data_file: Path, tmp_path: Path, killed_in: Any, gone: int
    ) -> None:
        """Killed after so many of the three later checkpoints were set aside."""
        config = small_config(data_file, tmp_path, total_timesteps=12, checkpoint_interval=3, keep_checkpoints=9)
        run, left = manager.start(config).run, iter([True] * gone)
        patch, rename = killed_in(RunDirectory, "write_config"), Path.rename

        def or_killed(path: Path, target: Path) -> Path:
            if ".aside" in Path(target).name and not next(left, False):
                raise KilledError
            return rename(path, target)

        patch.setattr(Path, "rename", or_killed)
        if gone == 3:  # and before it was noted
            note = RunDirectory.note
            patch.setattr(RunDirectory, "note", lambda own, **told: _or_killed(own, note, told))
        with pytest.raises(KilledError):
            manager.resume(run.path, which=3, total_timesteps=24)
        patch.undo()
        assert (run.steps()[-1], run.describe()["config"]["total_timesteps"]) == (3 if gone == 3 else 12, 12)
        if gone == 3:
            resumed = manager.resume(run.path)
            assert resumed.progress.steps == 24
            assert resumed.run.describe()["budgets"] == [{"step": 3, "before": 12, "after": 24}]
        else:
            assert manager.resume(run.path).progress.steps == 12
        assert run.describe()["returning"] is None
        assert not list(run.path.glob("checkpoints/*.aside")) or gone == 3

    def test_auto_finds_the_run_by_what_run_json_keeps(self, data_file: Path, tmp_path: Path, killed_in: Any) -> None:
        """An edit of config.yaml, or a kill before it is written, begins no other run."""
        settings = {"name": None, "checkpoint_interval": 3}
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=6, **settings)).run
        patch = killed_in(RunDirectory, "write_config")
        with pytest.raises(KilledError):
            manager.resume(run.path, total_timesteps=12)
        patch.undo()
        assert run.config().total_timesteps == 6
        result = manager.start_or_resume(small_config(data_file, tmp_path, total_timesteps=12, **settings))
        assert result.run.path == run.path
        assert result.progress.steps == 12


def _or_killed(run: RunDirectory, note: Any, told: dict[str, Any]) -> None:
    """Notes that a run is going back; the process ends before it notes that it has."""
    if "config" in told or isinstance(sys.exception(), KilledError):
        raise KilledError
    note(run, **told)


class FailsAt(Callback):
    """An error at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.steps >= self.step:
            raise RuntimeError("at the step")


class TestAModelThatIsTrainedOn:
    def test_killed_before_its_first_checkpoint_it_still_begins_where_it_began(
        self, data_file: Path, tmp_path: Path
    ) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=6)
        first = manager.start(config)
        loaded = manager.load_policy(first.run.path).checkpoint
        with pytest.raises(RuntimeError):
            manager.branch(config, loaded, total_timesteps=12, callbacks=[FailsAt(8)])
        (cut,) = [path.parent for path in tmp_path.glob("*/run.json") if path.parent != first.run.path]
        whole = manager.branch(config, loaded, total_timesteps=12)
        resumed = manager.resume(cut)
        assert resumed.progress.steps == 12
        assert resumed.run.describe()["status"] == "finished"
        assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)

    @pytest.mark.parametrize("place", [(Trainer, "build_loop"), (RunDirectory, "lock"), (Loop, "run")])
    def test_killed_as_soon_as_it_has_a_name(
        self, data_file: Path, tmp_path: Path, killed_in: Any, place: tuple[Any, str]
    ) -> None:
        """Other data than the policy was trained on: whoever begins anew ends elsewhere."""
        other = tmp_path / "other.npz"
        generate_random_dataset("Pendulum-v1", 300, seed=7).save(other)
        first = manager.start(small_config(data_file, tmp_path, total_timesteps=6))
        loaded, config = manager.load_policy(first.run.path).checkpoint, small_config(other, tmp_path)
        patch = killed_in(*place)
        with pytest.raises(KilledError):
            manager.branch(config, loaded, total_timesteps=12)
        patch.undo()
        (cut,) = [path.parent for path in tmp_path.glob("*/run.json") if path.parent != first.run.path]
        assert RunDirectory(cut).steps() == [6]
        resumed, whole = manager.resume(cut), manager.branch(config, loaded, total_timesteps=12)
        assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)
        assert resumed.run.records("metrics") == whole.run.records("metrics")

    @pytest.mark.parametrize("place", [(Trainer, "build_loop"), (RunDirectory, "lock"), (Loop, "run")])
    @pytest.mark.parametrize("algo", ["bc", "awr"])
    def test_in_a_run_that_starts_from_another(
        self, data_file: Path, tmp_path: Path, killed_in: Any, algo: str, place: tuple[Any, str]
    ) -> None:
        """AWR's targets are kept by where its batches come from, which has done nothing at the start."""
        own = {"algo_kwargs": {"td_lambda": 0.9}} if algo == "awr" else {}
        first = manager.start(small_config(data_file, tmp_path, algo, name="first", **own)).run
        values = {"init_from": str(first.path), "total_timesteps": 12, **own}
        whole = manager.start(small_config(data_file, tmp_path, algo, name="whole", **values))
        patch = killed_in(*place)
        with pytest.raises(KilledError):
            manager.start(small_config(data_file, tmp_path, algo, name="cut", **values))
        patch.undo()
        shutil.rmtree(first.path)
        resumed = manager.resume(tmp_path / "cut")
        assert digest(resumed.run.load().tensors) == digest(whole.run.load().tensors)
        assert resumed.run.records("metrics") == whole.run.records("metrics")

    def test_callbacks_remember_what_they_did(self, data_file: Path, tmp_path: Path) -> None:
        class Counts(Callback):
            n = 0

            def on_metrics(self, loop: Loop, metrics: Any) -> None:
                self.n += 1

            def state(self) -> dict[str, Any]:
                return {"n": self.n}

            def restore(self, state: Any) -> None:
                self.n = state["n"]

        config = small_config(data_file, tmp_path, total_timesteps=6, log_interval=2)
        first = manager.start(config, callbacks=[Counts()])
        loaded = manager.load_policy(first.run.path).checkpoint
        counts = Counts()
        branched = manager.branch(config, loaded, total_timesteps=12, callbacks=[counts])
        assert counts.n == 6
        assert branched.run.load(6).progress["callbacks"] == {"Counts": {"n": 3}}


class TestSpacesOfARunThatStartsFromAnother:
    """Without an environment, bounds come from the data: from those that its networks were trained with."""

    @staticmethod
    def data(scale: float, width: int = 3) -> TransitionDataset:
        random = generate_random_dataset("Pendulum-v1", 60, seed=0)
        plain = {name: np.array(value) for name, value in random.to_dict().items()}
        plain["actions"] = np.linspace(-scale, scale, len(plain["actions"]), dtype=np.float32)[:, None]
        return TransitionDataset(**plain | {name: plain[name][:, :width] for name in ("obs", "next_obs")})

    def start(self, tmp_path: Path, data: TransitionDataset, **changes: Any) -> RunDirectory:
        return manager.start(small_config(None, tmp_path, **changes), dataset=data).run

    @pytest.mark.parametrize("scale", [0.5, 1.5, 0.0])
    def test_are_those_its_networks_were_trained_with(self, scale: float, tmp_path: Path) -> None:
        first = self.start(tmp_path, self.data(2.0), name="first")
        run = self.start(tmp_path, self.data(scale), name="next", init_from=str(first.path))
        assert run.load().spaces == first.load().spaces
        assert run.load().spaces.action_high == run.load().transforms.action_high == (2.0,)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (
                (3.0,),
                r"dataset: actions: -3 at row 0, .*outside the bounds \[-2, 2\] of the run that it starts from",
            ),
            ((2.0, 2), "dataset: observations have 2 columns, but the run that it starts from has 3"),
        ],
    )
    def test_data_that_leave_them_are_refused(self, data: Any, message: str, tmp_path: Path) -> None:
        first = self.start(tmp_path, self.data(2.0), name="first")
        with pytest.raises(DataError, match=message):
            self.start(tmp_path, self.data(*data), name="next", init_from=str(first.path))
        assert not (tmp_path / "next").exists()


class TestABudgetThatIsAnothers:
    def test_a_checkpoint_is_not_taken(self, data_file: Path, tmp_path: Path) -> None:
        """Schedules span the budget: the weights of a run that differs in nothing else are others."""
        ours, theirs = (
            manager.start(
                small_config(
                    data_file, tmp_path, total_timesteps=total, checkpoint_interval=4, keep_checkpoints=9, name=n
                )
            ).run
            for n, total in (("ours", 12), ("theirs", 8))
        )
        shutil.rmtree(ours.checkpoint_path(8))
        shutil.copytree(theirs.checkpoint_path(8), ours.checkpoint_path(8))
        with pytest.raises(CheckpointError, match=r"step-8: is of another run \(total_timesteps: 8, not 12\)"):
            ours.load(8)
        assert ours.load("last").progress["steps"] == 12


class TestAConfigurationThatIsEdited:
    @pytest.mark.parametrize(("key", "value"), [("seed", 1), ("total_timesteps", 9), ("log_interval", 3)])
    def test_in_run_json_it_is_noticed(
        self, data_file: Path, tmp_path: Path, killed_in: Any, key: str, value: int
    ) -> None:
        """Before the first checkpoint, when nothing else could tell."""
        patch = killed_in(Loop, "run")
        with pytest.raises(KilledError):
            manager.start(small_config(data_file, tmp_path))
        patch.undo()
        file = tmp_path / "run" / "run.json"
        facts = json.loads(file.read_text())
        facts["config"][key] = value
        file.write_text(json.dumps(facts))
        with pytest.raises(CheckpointError, match=r"run\.json: config: was changed since it was written"):
            manager.resume(tmp_path / "run")

    def test_one_that_cannot_be_read_stops_nothing(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        (run.path / "config.yaml").write_text("a: [" * 10)
        assert manager.resume(run.path, total_timesteps=8).progress.steps == 8
        assert any("run.json keeps it, too" in notice for notice in run.describe()["notices"])
        assert run.config().total_timesteps == 8

    def test_before_the_first_checkpoint_it_changes_nothing(
        self, data_file: Path, tmp_path: Path, killed_in: Any
    ) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=6)
        patch = killed_in(Loop, "run")
        with pytest.raises(KilledError):
            manager.start(config)
        patch.undo()
        (folder,) = (path.parent for path in tmp_path.glob("*/run.json"))
        values = yaml_dialect.read((folder / "config.yaml").read_text())
        (folder / "config.yaml").write_text(yaml_dialect.write({**values, "seed": 7, "total_timesteps": 4}))
        result = manager.resume(folder)
        assert result.progress.steps == 6
        assert manager.load_policy(folder).checkpoint.config.seeds == config.seeds
        notices = result.run.describe()["notices"]
        assert any("config.yaml was edited (seed, total_timesteps)" in notice for notice in notices)


class TestCheckpointsOfOthers:
    def test_of_other_networks_are_not_taken(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        changes = {"total_timesteps": 6, "name": "other", "algo_kwargs": {"actor_hidden": [5, 5]}}
        other = manager.start(small_config(data_file, tmp_path, **changes)).run
        other.checkpoint_path(6).rename(run.checkpoint_path(6))
        with pytest.raises(CheckpointError, match=r"is of another run \(algo_kwargs.actor_hidden: \[5, 5\], not"):
            run.load("last")
        assert run.newest_sound() == 4

    def test_earlier_versions_did_not_keep_their_configuration(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        facts = run.describe()
        del facts["config"]
        run._write_json("run.json", facts)
        assert manager.resume(run.path, total_timesteps=8).progress.steps == 8

    @pytest.mark.parametrize("told", [{}, {"algo": "none"}, [], "text", 3])
    def test_a_configuration_that_is_none(self, data_file: Path, tmp_path: Path, told: Any) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        run.note(config=told)
        with pytest.raises(CheckpointError, match=r"run\.json: config"):
            run.load("last")


class TestAPlaceThatIsAnothersByNow:
    def elsewhere(self, run: RunDirectory, data_file: Path, tmp_path: Path) -> RunDirectory:
        """The run's folder is moved away while it trains, and another run gets its name."""
        run.path.rename(tmp_path / "moved")
        return manager.start(small_config(data_file, tmp_path, total_timesteps=4, name="same")).run

    def test_is_left_alone(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(checkpoint_writer, "INSTANT_SECONDS", 60.0)  # nothing is being written while it is moved
        before: dict[str, Any] = {}

        class Moves(Callback):
            def on_metrics(self, loop: Loop, metrics: Any) -> None:
                if "other" not in before:
                    before["other"] = TestAPlaceThatIsAnothersByNow().elsewhere(loop.run_directory, data_file, tmp_path)
                    before["bytes"] = _contents(before["other"].path)

        config = small_config(data_file, tmp_path, total_timesteps=20, name="same", checkpoint_interval=2)
        with pytest.raises(CheckpointError, match="another run lies there by now"):
            manager.start(config, callbacks=[Moves()])
        assert _contents(before["other"].path) == before["bytes"]
        assert RunDirectory.open(tmp_path / "moved").load("last").progress["steps"] <= 20

    def test_a_folder_that_is_gone_is_not_made_anew(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        checkpoint = run.load("last")
        with run.lock():
            run.path.rename(tmp_path / "moved")
            with pytest.raises(CheckpointError, match="was moved or removed"):
                run.save(checkpoint, 9)
        assert not run.path.exists()

    def test_a_lock_that_somebody_removes_ends_nothing(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, total_timesteps=4)).run
        with run.lock():
            (run.path / ".lock").unlink()
            run.note(reason="still here")
            other = RunDirectory.open(run.path)
            with other.lock(), pytest.raises(CheckpointError, match="another process trains this run by now"):
                run.note(reason="too late")
        assert run.describe()["reason"] == "still here"


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestGoingBack:
    """`resume --which` that does not come to its end."""

    def run(self, data_file: Path, tmp_path: Path) -> RunDirectory:
        config = small_config(
            data_file, tmp_path, total_timesteps=12, checkpoint_interval=3, keep_checkpoints=9, log_interval=1
        )
        return manager.start(config).run

    @pytest.mark.parametrize(
        "place", [(checkpoint_folder, "drop_superseded"), (Records, "up_to"), (RunDirectory, "set_aside_after")]
    )
    def test_leaves_a_run_with_the_records_of_its_checkpoints(
        self, data_file: Path, tmp_path: Path, killed_in: Any, place: tuple[Any, str]
    ) -> None:
        run = self.run(data_file, tmp_path)
        patch = killed_in(*place)
        with pytest.raises(KilledError):
            manager.resume(run.path, which=3)
        patch.undo()
        assert len(run.records("metrics")) >= run.steps()[-1]
        result = manager.resume(run.path)
        assert result.progress.steps == 12
        assert [record["step"] for record in run.records("metrics")] == list(range(1, 13))

    def cut(self, run: RunDirectory, after: int, error: BaseException) -> None:
        """A return to step 3 that ends after so many names, earlier ones of which are taken by another return."""
        left, rename, patch = iter([True] * after), Path.rename, pytest.MonkeyPatch()

        def or_cut(path: Path, target: Path) -> Path:
            if ".aside" in Path(target).name and not next(left, False):
                raise error
            return rename(path, target)

        patch.setattr(Path, "rename", or_cut)
        if isinstance(error, KilledError):
            patch.setattr(RunDirectory, "note", _unless_killed(RunDirectory.note))
        with pytest.raises((KilledError, CheckpointError)):
            manager.resume(run.path, which=3)
        patch.undo()

    @pytest.mark.parametrize("after", [0, 1, 2])
    @pytest.mark.parametrize("way", ["resume", "auto", "return", "refused"])
    def test_that_is_killed_between_two_names_loses_no_checkpoint(
        self, data_file: Path, tmp_path: Path, after: int, way: str
    ) -> None:
        run = self.run(data_file, tmp_path)
        for step in (6, 9):  # of an earlier return, not of this one
            shutil.copytree(run.checkpoint_path(3), run.path / f"checkpoints/step-{step}.aside")
        kept = {step: digest(run.load(step).tensors) for step in run.steps()}
        self.cut(run, after, KilledError())
        assert len(run.steps()) == len(kept) - after
        if way == "return":
            manager.resume(run.path, which=9)
            kept.pop(12)
        elif way == "auto":
            manager.start_or_resume(run.config())
        elif way == "refused":
            with pytest.raises(ConfigError, match="is finished at step 12"):
                manager.resume(run.path, total_timesteps=2)
        else:
            manager.resume(run.path)
        assert {step: digest(run.load(step).tensors) for step in kept} == kept
        assert run.describe()["returning"] is None
        asides = {path.name for path in run.path.glob("checkpoints/*.aside*")}
        assert asides - {"step-12.aside"} == {"step-6.aside", "step-9.aside"}

    def test_undoes_itself_where_the_disk_is_full(self, data_file: Path, tmp_path: Path) -> None:
        run = self.run(data_file, tmp_path)
        self.cut(run, 1, OSError(28, "No space left on device"))
        assert run.steps() == [3, 6, 9, 12]
        assert run.describe()["returning"] is None
        assert run.describe()["status"] == "failed"

    def test_is_undone_again_where_the_undoing_is_killed(self, data_file: Path, tmp_path: Path) -> None:
        run = self.run(data_file, tmp_path)
        self.cut(run, 2, KilledError())
        names, rename, patch = iter([True]), Path.rename, pytest.MonkeyPatch()

        def or_killed(path: Path, target: Path) -> Path:
            if ".aside" in path.name and not next(names, False):
                raise KilledError
            return rename(path, target)

        patch.setattr(Path, "rename", or_killed)
        with pytest.raises(KilledError):
            manager.resume(run.path)
        patch.undo()
        assert run.steps() == [3, 6, 12]
        manager.resume(run.path)
        assert run.steps() == [3, 6, 9, 12]

    def test_takes_nothing_for_a_checkpoint_that_was_written_into_run_json(
        self, data_file: Path, tmp_path: Path
    ) -> None:
        run = self.run(data_file, tmp_path)
        (tmp_path / "mine.aside").mkdir()
        odd = {"../../mine": "../../mine.aside", "step-8": 7, "step-7": "step-6", "step-5": ["step-5.aside"]}
        for aside in (odd, [1], "step-6", None):
            run.note(status="running", returning={"step": 3, "aside": aside})
            manager.resume(run.path)
            assert run.steps() == [3, 6, 9, 12]
        assert (tmp_path / "mine.aside").is_dir()

    def test_leaves_nothing_that_did_not_come_to_take_the_place_of_a_checkpoint(
        self, data_file: Path, tmp_path: Path
    ) -> None:
        """It would be the last one of the run again."""
        run = self.run(data_file, tmp_path)
        shutil.copytree(run.checkpoint_path(12), run.path / "checkpoints/step-12.next")
        patch = pytest.MonkeyPatch()
        patch.setattr(Loop, "run", lambda self: None)
        manager.resume(run.path, which=3)
        patch.undo()
        assert run.steps() == [3]

    def test_sets_the_last_checkpoint_aside_last(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = self.run(data_file, tmp_path)
        renamed: list[str] = []
        rename = Path.rename

        def noted(path: Path, target: Path) -> Path:
            if ".aside" in str(target):
                renamed.append(path.name)
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", noted)
        manager.resume(run.path, which=3)
        assert renamed == ["step-6", "step-9", "step-12"]


HALF_MADE = """
import os, sys
from rl_training.runtime import new_runs
from rl_training.runtime.config import TrainConfig

def end(folder):
    (folder / "weights").write_text("half")
    os._exit(137)

name = sys.argv[2] if len(sys.argv) > 2 else None
new_runs.make(TrainConfig(algo="sac", env_id="Pendulum-v1", runs_dir=sys.argv[1], name=name, total_timesteps=6), end)
"""


class TestAFolderThatIsBeingMade:
    def killed_while_making(self, runs: Path, name: str | None) -> Path:
        """What a process left that was killed with half of its start written."""
        command = [sys.executable, "-c", HALF_MADE, str(runs), *([] if name is None else [name])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 137, done.stderr
        (left,) = [path for path in runs.iterdir() if path.name.startswith(".")]
        assert (left / "new/weights").read_text() == "half"
        return left

    @pytest.mark.parametrize("names", [("own", "own"), ("own", "other"), (None, "other"), ("own", None)])
    def test_goes_with_the_next_run_that_is_made_there(
        self, data_file: Path, tmp_path: Path, names: tuple[str | None, str | None]
    ) -> None:
        runs = tmp_path / "runs"
        left = self.killed_while_making(runs, names[0])
        run = manager.start(small_config(data_file, runs, name=names[1])).run
        assert not left.exists()
        assert list(runs.iterdir()) == [run.path]

    def test_is_left_alone_while_its_process_lives(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(None, tmp_path / "runs", "sac", env_id="Pendulum-v1", name="slow")

        def fill(folder: Path) -> None:
            manager.start(small_config(data_file, tmp_path / "runs", name="quick"))
            (folder / "config.yaml").write_text("slow")

        assert (new_runs.make(config, fill) / "config.yaml").read_text() == "slow"
        assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["quick", "slow"]

    def test_that_has_its_name_is_told_so_where_the_disk_fails_then(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(folder: Path) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(new_runs, "sync", fails)
        place = tmp_path / "run"
        what = rf"runs_dir: {place} is made, but its disk fails \(Input/output error\); .*`rl-training resume {place}`"
        with pytest.raises(ConfigError, match=what):
            manager.start(small_config(data_file, tmp_path))
        monkeypatch.undo()
        assert manager.resume(place).progress.steps == 20


class TestCheckpointsBehindALink:
    def copied(self, data_file: Path, runs: Path) -> tuple[RunDirectory, Path]:
        run = manager.start(small_config(data_file, runs, name="mine", total_timesteps=6, checkpoint_interval=3)).run
        copy = runs / "copy"
        copy.mkdir()
        for name in ("run.json", "config.yaml", "metrics.jsonl", "timing.jsonl"):
            shutil.copy(run.path / name, copy)
        return run, copy

    def test_of_another_run_are_not_trained_over(self, data_file: Path, tmp_path: Path) -> None:
        run, copy = self.copied(data_file, tmp_path)
        (copy / "checkpoints").symlink_to("../mine/checkpoints")
        before = files_under(run.path)
        with pytest.raises(CheckpointError, match=r"is a link to those of another run, .*mine, which would be lost"):
            manager.resume(copy, total_timesteps=12)
        assert files_under(run.path) == before

    def test_on_another_disk_are_its_own(self, data_file: Path, tmp_path: Path) -> None:
        run, copy = self.copied(data_file, tmp_path)
        (run.path / "checkpoints").rename(tmp_path / "scratch")
        (copy / "checkpoints").symlink_to("../scratch")
        assert manager.resume(copy, total_timesteps=12).progress.steps == 12
        (tmp_path / "latest").symlink_to("copy")
        assert manager.resume(tmp_path / "latest", total_timesteps=18).progress.steps == 18


def test_made_up_names_that_others_take_are_made_up_anew(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a name and its use."""
    monkeypatch.setattr(new_runs.time, "strftime", lambda *_: "now")
    config = small_config(data_file, tmp_path, name=None)
    runs: list[RunDirectory] = []
    threads = [threading.Thread(target=lambda: runs.append(RunDirectory.create(config, None))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run.path for run in runs}) == 8
    assert not list(tmp_path.glob(".*"))


def test_a_given_name_is_refused_where_another_takes_it(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(data_file, tmp_path, name="mine")
    written = RunDirectory.write_config

    def slower(self: RunDirectory, told: Any) -> None:
        written(self, told)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "run.json").write_text("{}")

    monkeypatch.setattr(RunDirectory, "write_config", slower)
    with pytest.raises(ConfigError, match="mine exists already"):
        RunDirectory.create(config, None)
    assert not list(tmp_path.glob(".*"))


def test_where_no_thread_can_be_started_training_waits_for_the_disk(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(checkpoint_writer.threading, "Thread", Refused)
    result = manager.start(small_config(data_file, tmp_path, total_timesteps=6, checkpoint_interval=3))
    assert result.run.steps() == [3, 6]


ADDS = """
import sys
from pathlib import Path
from rl_training.runtime.records import Records
records = Records(Path(sys.argv[1]), once=False)
for number in range(150):
    records.append_late({"step": number, "who": sys.argv[2], "pad": "x" * 2000})
"""


def test_records_that_several_processes_add_are_all_there(tmp_path: Path) -> None:
    file = tmp_path / "offline_evaluations.jsonl"
    file.write_text('{"step": 0, "who": "half')  # of a crash
    command = [sys.executable, "-c", ADDS, str(file)]
    processes = [subprocess.Popen([*command, who], env={**os.environ}) for who in ("a", "b")]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert Counter(record["who"] for record in Records(file, once=False).read()) == {"a": 150, "b": 150}


@pytest.mark.parametrize("state", [{"best": float("nan")}, {"seen": {1, 2}}, {"array": object()}])
def test_what_a_callback_has_kept_must_be_json(data_file: Path, tmp_path: Path, state: dict[str, Any]) -> None:
    class Remembers(Callback):
        def state(self) -> dict[str, Any]:
            return state

    with pytest.raises(ConfigError, match=r"callback .*Remembers.*: state\(\) must hold plain numbers"):
        manager.start(small_config(data_file, tmp_path, total_timesteps=4), callbacks=[Remembers()])


def test_a_run_that_another_process_has_ended_before_it_was_locked_is_not_trained_over(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(data_file, tmp_path, log_interval=5)
    lock = RunDirectory.lock

    def late(run: RunDirectory, **how: bool) -> Any:
        monkeypatch.setattr(RunDirectory, "lock", lock)
        manager.resume(run.path)
        return lock(run, **how)

    monkeypatch.setattr(RunDirectory, "lock", late)
    with pytest.raises(CheckpointError, match="another process has trained it meanwhile; resume it, or choose a name"):
        Trainer(config).train()
    run = RunDirectory.open(tmp_path / "run")
    assert run.describe()["status"] == "finished"
    steps = [record["step"] for record in run.records("metrics")]
    assert steps == sorted(set(steps))


def test_checkpoints_that_the_system_cannot_move_are_trained_on(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overlayfs refuses to rename a folder of a lower layer, as of a run that came with a container's image."""
    intervals = {"log_interval": 5, "checkpoint_interval": 5, "keep_checkpoints": 2}
    plain, layered = (
        manager.train(small_config(data_file, tmp_path, name=name, **intervals)).run.path
        for name in ("plain", "layered")
    )
    lower = set(layered.rglob("step-*"))
    rename = Path.rename

    def in_layers(self: Path, target: Any) -> Path:
        if self in lower:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(self))
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", in_layers)
        manager.resume(layered, which="15", total_timesteps=40)
    manager.resume(plain, which="15", total_timesteps=40)
    last = [digest(manager.load_policy(run).checkpoint.tensors) for run in (layered, plain)]
    assert last[0] == last[1]
    assert {path.name for path in (layered / "checkpoints").iterdir()} == {
        path.name for path in (plain / "checkpoints").iterdir()
    }
