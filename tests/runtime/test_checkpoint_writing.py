"""Writing checkpoints: the order of the calls, a full disk, a killed writer, and what is kept."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl_training import BC
from rl_training.errors import CheckpointError
from rl_training.experiment import manager
from rl_training.runtime import checkpoint_folder, records, standing
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import train
from small_runs import digest, files_under, script_scores, small_config

pytestmark = pytest.mark.usefixtures("saved_at_once")


@pytest.fixture(scope="module")
def checkpoint(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return train(small_config(data_file, tmp_path_factory.mktemp("runs"), total_timesteps=5)).checkpoint


def test_never_overwritten(checkpoint: Checkpoint, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "saved", checkpoint)
    before = files_under(tmp_path)
    with pytest.raises(CheckpointError, match="saved: already exists; a checkpoint is never overwritten"):
        save_checkpoint(tmp_path / "saved", checkpoint)
    assert files_under(tmp_path) == before


class TestSavedTwiceAtOneStep:
    """As in pretraining, or before and after an evaluation."""

    @pytest.fixture
    def folder(self, checkpoint: Checkpoint, tmp_path: Path) -> Path:
        checkpoint_folder.save(tmp_path, 5, checkpoint)
        return tmp_path

    @pytest.fixture
    def newer(self, checkpoint: Checkpoint) -> Checkpoint:
        return replace(checkpoint, progress={**checkpoint.progress, "updates": 77})

    def test_one_that_says_the_same_is_left_alone(self, folder: Path, checkpoint: Checkpoint) -> None:
        before = files_under(folder), (folder / "step-5").stat().st_ino
        assert checkpoint_folder.save(folder, 5, checkpoint) == folder / "step-5"
        assert (files_under(folder), (folder / "step-5").stat().st_ino) == before

    def test_the_newer_takes_its_place(self, folder: Path, newer: Checkpoint) -> None:
        path = checkpoint_folder.save(folder, 5, newer)
        checkpoint_folder.prune(folder, 1, None, None)
        assert [place.name for place in folder.iterdir()] == ["step-5"]
        assert load_checkpoint(path).progress["updates"] == 77

    def test_what_others_put_there_stays(self, folder: Path) -> None:
        for name in ("step-foo", "step-foo.next", "step-5.next"):
            (folder / name).mkdir()
        checkpoint_folder.prune(folder, 1, None, None)
        assert sorted(place.name for place in folder.iterdir()) == ["step-5", "step-foo", "step-foo.next"]

    def test_a_damaged_one_is_replaced(self, folder: Path, checkpoint: Checkpoint) -> None:
        (folder / "step-5" / "state.json").write_text("{")
        assert load_checkpoint(checkpoint_folder.save(folder, 5, checkpoint)).progress == checkpoint.progress

    def test_where_names_cannot_be_exchanged(
        self, folder: Path, newer: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint_folder, "exchange", lambda one, other: False)
        self.test_the_newer_takes_its_place(folder, newer)

    @pytest.mark.parametrize("cut", [0, 1, 2])
    def test_one_of_the_two_is_there_at_every_moment(
        self, cut: int, folder: Path, newer: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rename, left = Path.rename, iter(range(cut, -1, -1))

        def dies(self: Path, target: Path) -> Path:
            if next(left) == 0:
                raise KeyboardInterrupt
            return rename(self, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", dies)
            patched.setattr(checkpoint_folder, "exchange", lambda one, other: False)
            with pytest.raises(KeyboardInterrupt):
                checkpoint_folder.save(folder, 5, newer)
        assert standing.steps_in(folder) == [5]
        held = load_checkpoint(standing.path_of(folder, 5)).progress["updates"]
        assert held == (77 if cut == 2 else 5)
        newest = replace(newer, progress={**newer.progress, "updates": 99})
        assert load_checkpoint(checkpoint_folder.save(folder, 5, newest)).progress["updates"] == 99
        checkpoint_folder.prune(folder, 1, None, None)
        assert [place.name for place in folder.iterdir()] == ["step-5"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is synced and renamed from now on, in order.

    `kill -9` cannot show what a power failure would do, so the order of the calls is held instead.
    """
    calls: list[tuple[str, str]] = []
    sync, rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        sync(descriptor)

    def record_rename(self: Path, target: Path) -> Path:
        calls.append(("rename", f"{self.name} to {Path(target).name}"))
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", record_rename)
    return calls


def test_files_then_directory_then_rename_then_parent(
    checkpoint: Checkpoint, tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    save_checkpoint(tmp_path / "parent" / "step-5", checkpoint)
    temporary = calls[4][1]
    assert temporary.startswith("step-5.tmp-")
    assert sorted(calls[:3]) == [
        ("fsync", "state.json"),
        ("fsync", "training.safetensors"),
        ("fsync", "weights.safetensors"),
    ]
    assert calls[3:] == [
        ("fsync", "manifest.json"),
        ("fsync", temporary),
        ("rename", f"{temporary} to step-5"),
        ("fsync", "parent"),
    ]


def test_records_are_on_disk_before_the_checkpoint_that_follows_them(
    data_file: Path, tmp_path: Path, calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run does not write them again."""
    script_scores(monkeypatch, {20: 1.0})
    train(small_config(data_file, tmp_path, eval_interval=20))
    (named,) = (place for place, (_, what) in enumerate(calls) if what.endswith(" to step-20"))
    for kind in ("metrics", "evaluations", "timing"):
        assert ("fsync", f"{kind}.jsonl") in calls[:named]
        written = max(place for place in range(named) if calls[place] == ("fsync", f"{kind}.jsonl"))
        assert ("fsync", "run") in calls[written:named]  # the folder, which has their names


def test_checkpoints_are_set_aside_on_disk_before_it_is_noted(
    data_file: Path, tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    """Else a power failure could bring them back, without the records that were forgotten by then."""
    run = train(small_config(data_file, tmp_path, checkpoint_interval=5, keep_checkpoints=4)).run
    calls.clear()
    manager.resume(run.path, which=5, total_timesteps=20)
    for step in (10, 15, 20):
        place = calls.index(("rename", f"step-{step} to step-{step}.aside"))
        assert calls[place + 1] == ("fsync", "checkpoints")


def test_records_that_were_shared_are_copied_to_the_disk_before_they_take_the_name(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    own = records.Records(tmp_path / "metrics.jsonl")
    own.append({"step": 1})
    (tmp_path / "copy.jsonl").hardlink_to(tmp_path / "metrics.jsonl")
    own.append({"step": 2})
    assert calls == [("fsync", f".metrics.jsonl.tmp-{os.getpid()}")]
    assert len((tmp_path / "copy.jsonl").read_bytes().splitlines()) == 1


@pytest.mark.parametrize(("owner", "function", "after"), [(os, "fsync", 0), (os, "fsync", 3), (Path, "rename", 0)])
def test_a_full_disk_leaves_the_last_good_checkpoint(
    owner: Any, function: str, after: int, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(small_config(data_file, tmp_path, total_timesteps=5)).run
    good = run.load("last")
    plain, calls = getattr(owner, function), 0

    def full(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(*arguments)

    monkeypatch.setattr(owner, function, full)
    with pytest.raises(
        CheckpointError, match=r"(step-6|records): cannot be written \(No space left on device; free space"
    ):
        run.save(good, 6)
    monkeypatch.undo()
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == ["step-5"]
    assert digest(run.load("last").tensors) == digest(good.tensors)


def disk_full_from(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Every write to a file whose name contains `wanted` fails, as on a full disk."""
    plain = Path.open

    def full(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if wanted in self.name and mode[0] in "wa":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return plain(self, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    monkeypatch.setattr(records, "open", lambda path, *more, **options: full(path, *more), raising=False)


def test_a_full_disk_while_training_is_one_line(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fills(Callback):
        def on_checkpoint(self, loop: Loop, path: Path) -> None:
            disk_full_from(monkeypatch, "")

    with pytest.raises(CheckpointError, match="No space left on device"):
        train(small_config(data_file, tmp_path, checkpoint_interval=4, log_interval=20), callbacks=[Fills()])
    monkeypatch.undo()
    assert manager.load_policy(tmp_path / "run").checkpoint.progress["updates"] == 4


def test_a_record_that_cannot_be_written_is_one_line(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_full_from(monkeypatch, "metrics.jsonl")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl.*No space left on device"):
        train(small_config(data_file, tmp_path))


def test_a_parent_that_cannot_be_made_is_one_line(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        save_checkpoint(tmp_path / "file" / "inside" / "saved", checkpoint)


def test_what_a_killed_writer_left_is_no_obstacle(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """In a container every process may have the number of the one that was killed while it wrote this checkpoint."""
    left = tmp_path / f"step-5.tmp-{os.getpid()}"
    left.mkdir()
    (left / "weights.safetensors").write_bytes(b"half")
    save_checkpoint(tmp_path / "step-5", checkpoint)
    assert digest(load_checkpoint(tmp_path / "step-5").tensors) == digest(checkpoint.tensors)


def test_what_a_killed_save_left_goes_with_the_next(
    data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing half-written has a name that could be taken for a checkpoint's."""
    model = BC(config=small_config(data_file, tmp_path / "runs", total_timesteps=5)).learn()
    place = tmp_path / "saves" / "policy"
    with monkeypatch.context() as killed:
        killed.setattr("rl_training.runtime.checkpoint.sync", lambda path: os._exit(9))
        if (child := os.fork()) == 0:
            model.save(place)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [path.name[0] for path in place.parent.iterdir()] == ["."]
    model.save(place)
    assert list(place.parent.iterdir()) == [place]
    assert digest(load_checkpoint(place).tensors) == digest(model.policy.checkpoint.tensors)


def test_a_resume_clears_what_killed_writers_left(data_file: Path, tmp_path: Path) -> None:
    run = train(small_config(data_file, tmp_path, total_timesteps=5)).run
    (run.path / "checkpoints" / "step-9.tmp-1").mkdir()
    manager.resume(run.path, total_timesteps=10)
    assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == ["step-10", "step-5"]


class TestRetention:
    def test_the_newest_and_the_best_are_kept(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {4: 1.0, 8: 5.0, 12: 2.0, 16: 3.0, 20: 4.0})
        run = train(small_config(data_file, tmp_path, eval_interval=4, keep_checkpoints=2)).run
        assert run.steps() == [8, 16, 20]
        assert sorted(path.name for path in (run.path / "checkpoints").iterdir()) == ["step-16", "step-20", "step-8"]

    def test_multiples_are_kept_for_good(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {20: 1.0})
        changes = {"checkpoint_interval": 2, "keep_checkpoints": 2, "keep_every": 6}
        assert train(small_config(data_file, tmp_path, **changes)).run.steps() == [6, 12, 18, 20]

    def test_a_best_among_the_newest_counts_once(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {5: 1.0, 10: 2.0, 15: 3.0, 20: 4.0})
        assert train(small_config(data_file, tmp_path, eval_interval=5, keep_checkpoints=3)).run.steps() == [10, 15, 20]

    def test_steps_are_numbers_not_words(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path, total_timesteps=12, checkpoint_interval=3)).run
        assert run.steps() == [9, 12]  # "step-12" sorts before "step-9"

    def test_what_is_being_written_is_not_listed(self, data_file: Path, tmp_path: Path) -> None:
        run = train(small_config(data_file, tmp_path)).run
        (run.path / "checkpoints" / "step-98.tmp-7").mkdir()
        (run.path / "checkpoints" / "step-98.tmp-7" / "manifest.json").write_text("{}")
        assert run.steps() == [20]
        assert run.load("last").progress["updates"] == 20

    def test_a_removal_cut_short_leaves_nothing_that_looks_complete(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = train(small_config(data_file, tmp_path, total_timesteps=5)).run
        checkpoint = run.load("last")

        def killed(path: Path, *arguments: Any, **options: Any) -> None:
            (Path(path) / "weights.safetensors").unlink(missing_ok=True)
            raise KeyboardInterrupt

        monkeypatch.setattr("shutil.rmtree", killed)
        run.save(checkpoint, 6)
        with pytest.raises(KeyboardInterrupt):
            run.prune(keep=1, best=None)
        assert run.steps() == [6]

    def test_run_json_never_names_a_best_that_is_gone(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import shutil

        script_scores(monkeypatch, {5: 1.0, 10: 2.0, 15: 3.0, 20: 4.0})
        plain = shutil.rmtree
        named: list[bool] = []

        def watch(path: Path, *arguments: Any, **options: Any) -> None:
            if Path(path).name.startswith("step-"):
                best = manager.describe(tmp_path / "run")["best"]
                named.append(not Path(path).name.startswith(f"step-{best['step']}.tmp-"))
            plain(path, *arguments, **options)

        monkeypatch.setattr(shutil, "rmtree", watch)
        train(small_config(data_file, tmp_path, eval_interval=5, keep_checkpoints=1))
        assert named == [True, True, True]
