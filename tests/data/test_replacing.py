"""What is replaced is there at any time, and what came while one worked is not replaced."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import atomic, renames, writers
from rl_training.data.formats.atomic import new_file, new_folder
from rl_training.errors import DataError
from small_runs import files_under


def dataset(rows: int) -> TransitionDataset:
    noise = np.random.default_rng(0).normal(size=(rows, 2)).astype(np.float32)
    ends = np.arange(rows) % 10 == 9
    return TransitionDataset.from_dict({"obs": noise, "actions": noise, "rewards": noise[:, 0], "terminations": ends})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["in one step", "in two"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With what Linux offers, and as on a system without it."""
    if request.param == "in two":
        monkeypatch.setattr(renames, "_renameat2", lambda: None)
    elif renames._renameat2() is None:
        pytest.skip("this system exchanges no names")
    return request.param


# The process ends, as if killed, before the n-th change of a name or removal that the replacement makes.
KILLED = """
import os, shutil, sys
from pathlib import Path
import numpy as np
from rl_training.data import TransitionDataset
from rl_training.data.formats import atomic, renames, writers

target, left, two_steps = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "in two"
noise = np.ones((20, 2), np.float32)
given = TransitionDataset.from_dict(
    {"obs": noise, "actions": noise, "rewards": noise[:, 0], "terminations": np.arange(20) == 19}
)
def counted(function):
    def run(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return function(*arguments, **options)
    return run

if two_steps:
    renames._renameat2 = lambda: None
Path.replace, shutil.rmtree, atomic.exchange = counted(Path.replace), counted(shutil.rmtree), counted(atomic.exchange)
writers.write(given, writers.target_of(target), force=True)
"""


def killed(target: str, after: int, way: str) -> int:
    return subprocess.run([sys.executable, "-c", KILLED, target, str(after), way], check=False).returncode


class TestKilled:
    def test_a_folder_is_there_at_any_time(self, tmp_path: Path) -> None:
        if renames._renameat2() is None:
            pytest.skip("this system exchanges no names")
        for after in range(4):
            target = tmp_path / str(after) / "cols"
            writers.write(dataset(10), writers.target_of(f"{target}/"))
            code = killed(f"{target}/", after, "in one step")
            rows = len(TransitionDataset.load(target))
            assert rows == (10 if after == 0 else 20)
            if code == 0:
                break
        assert (code, after) == (0, 2)  # there were two places to be killed at
        assert names(target.parent) == ["cols"]

    def test_elsewhere_the_old_one_is_named(self, tmp_path: Path) -> None:
        target = tmp_path / "cols"
        writers.write(dataset(10), writers.target_of(f"{target}/"))
        assert killed(f"{target}/", 2, "in two") == 9
        (old,) = tmp_path.glob(".cols.*/old")
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(target)
        assert str(caught.value).endswith(
            f" (its replacement was cut short: write it again; what was there is '{old.parent.name}/old' beside it)"
        )
        old.rename(target)
        assert len(TransitionDataset.load(target)) == 10

    @pytest.mark.parametrize("after", [2, 3])
    def test_elsewhere_the_next_one_removes_the_old_one(self, after: int, tmp_path: Path) -> None:
        target = tmp_path / "cols"
        writers.write(dataset(10), writers.target_of(f"{target}/"))
        assert killed(f"{target}/", after, "in two") == 9
        assert target.exists() == (after == 3)
        (old,) = tmp_path.glob(".cols.*/old")
        if not target.exists():
            with pytest.raises(DataError, match="nothing came of it"), new_folder(target):
                raise DataError("nothing came of it")
            assert len(TransitionDataset.load(old)) == 10  # the only one there is
        writers.write(dataset(30), writers.target_of(f"{target}/"), force=True)
        assert len(TransitionDataset.load(target)) == 30
        assert names(tmp_path) == ["cols"]


def come(target: Path, kind: str) -> None:
    """Somebody else makes something there."""
    if kind == "file":
        target.write_text("theirs")
    elif kind == "link to nowhere":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        if kind == "folder":
            (target / "b").write_text("theirs")


@pytest.mark.usefixtures("way")
class TestNames:
    def test_a_folder_is_replaced_whole(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "old").write_text("old")
        with new_folder(tmp_path / "a") as temporary:
            temporary.mkdir()
            (temporary / "new").write_text("new")
        assert files_under(tmp_path) == {"a/new": b"new"}

    def test_a_folder_that_cannot_be_moved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As overlayfs has it of those in a lower layer, such as a container's image."""
        target = tmp_path / "a"
        target.mkdir()
        (target / "old").write_text("old")
        move = Path.replace

        def refuse(path: Path, other: Path) -> Path:
            if path == target:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            return move(path, other)

        def refuse_exchange(*_: object) -> int:
            ctypes.set_errno(errno.EXDEV)
            return -1

        monkeypatch.setattr(Path, "replace", refuse)
        monkeypatch.setattr(renames, "_renameat2", lambda: refuse_exchange)
        with new_folder(target) as temporary:
            temporary.mkdir()
            (temporary / "new").write_text("new")
        assert files_under(tmp_path) == {"a/new": b"new"}

    def test_a_link_to_a_folder_is_replaced_and_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "far").mkdir()
        (tmp_path / "far" / "old").write_text("old")
        (tmp_path / "a").symlink_to("far")
        with new_folder(tmp_path / "a") as temporary:
            temporary.mkdir()
        assert names(tmp_path) == ["a", "far"]
        assert (tmp_path / "far" / "old").is_file()

    @pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "link to nowhere"])
    @pytest.mark.parametrize("new", [new_file, new_folder])
    def test_what_has_come_stays(self, new: Any, kind: str, tmp_path: Path) -> None:
        target = tmp_path / "a"

        def work() -> None:
            with new(target, replace=False) as temporary:
                if new is new_file:
                    temporary.write_text("new")
                else:
                    temporary.mkdir()
                come(target, kind)

        with pytest.raises(FileExistsError) as caught:
            work()
        assert caught.value.filename == str(target)
        assert names(tmp_path) == ["a"]
        assert (target.is_symlink(), target.is_dir()) == (kind == "link to nowhere", "folder" in kind)

    def test_a_file_system_without_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(renames, "_renameat2", lambda: None)
        for content, expected in (("mine", "mine"), ("other", "mine")):
            try:
                with new_file(tmp_path / "a", replace=False) as temporary:
                    temporary.write_text(content)
            except FileExistsError:
                pass
            assert files_under(tmp_path) == {"a": expected.encode()}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.csv", "a/"])
def test_data_are_not_written_over_what_came_meanwhile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / name
    to_dict = TransitionDataset.to_dict

    def slow(self: TransitionDataset) -> Any:
        target.write_text("theirs")
        return to_dict(self)

    monkeypatch.setattr(TransitionDataset, "to_dict", slow)
    with pytest.raises(DataError) as caught:
        writers.write(dataset(20), writers.target_of(f"{tmp_path}/{name}"))
    assert str(caught.value) == f"{target}: exists already; --force replaces it"
    assert files_under(tmp_path) == {target.name: b"theirs"}


class TestForced:
    """--force replaces what was there, and a dataset that has come since, but nothing else."""

    def write(self, target: Path) -> str:
        with pytest.raises(DataError) as caught:
            writers.write(dataset(20), writers.target_of(f"{target}/"), force=True)
        return str(caught.value)

    def test_a_folder_of_something_else_has_come(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target = tmp_path / "a"
        to_dict = TransitionDataset.to_dict

        def slow(self: TransitionDataset) -> Any:
            come(target, "folder")
            return to_dict(self)

        monkeypatch.setattr(TransitionDataset, "to_dict", slow)
        assert self.write(target) == f"{target}: is a folder, but no dataset, and will not be replaced"
        assert files_under(tmp_path) == {"a/b": b"theirs"}

    def test_in_the_last_moment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target, take = tmp_path / "a", atomic.take_free_name

        def late(path: Path, name: Path) -> None:
            come(name, "folder")
            take(path, name)

        monkeypatch.setattr(atomic, "take_free_name", late)
        assert self.write(target) == f"{target}: exists already; it has just come there, try again"
        assert files_under(tmp_path) == {"a/b": b"theirs"}
