"""Two datasets that belong together, as the parts of a split do: at no moment is one of them new and the other old."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import atomic, writers
from rl_training.errors import DataError
from small_runs import files_under

FORMATS = (("one.npz", "two.npz"), ("one.csv", "two.hdf5"), ("one/", "two.csv"), ("one.npz", "two/"))


@pytest.fixture(params=FORMATS, ids=" ".join)
def targets(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[writers.Target]:
    monkeypatch.chdir(tmp_path)
    return [writers.target_of(name) for name in request.param]


def write(dataset: TransitionDataset, targets: list[writers.Target], rows: int, *, force: bool = True) -> None:
    parts = [dataset.select(range(rows)), dataset.select(range(rows))]
    writers.write_together([(part, target, None) for part, target in zip(parts, targets, strict=True)], force=force)


def lengths(targets: list[writers.Target]) -> list[int | None]:
    return [len(TransitionDataset.load(target.path)) if target.path.exists() else None for target in targets]


def watched(monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
    """Have `look` called around every renaming."""
    for place, name in ((Path, "replace"), (Path, "rename"), (writers, "take_free_name"), (atomic, "exchange")):
        plain = getattr(place, name)

        def looking(*arguments: Any, plain: Callable[..., Any] = plain) -> Any:
            look()
            done = plain(*arguments)
            look()
            return done

        monkeypatch.setattr(place, name, looking)


def test_no_new_one_beside_an_old_one(
    dataset: TransitionDataset, targets: list[writers.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(dataset, targets, 10)
    seen = []
    watched(monkeypatch, lambda: seen.append(tuple(lengths(targets))))
    write(dataset, targets, 20)
    assert seen[0] == (10, 10)
    assert seen[-1] == (20, 20)
    assert not {(10, 20), (20, 10)} & {*seen}
    assert not [path.name for path in Path().iterdir() if path.name.startswith(".")]


def test_where_one_cannot_be_written_what_was_there_stays(
    dataset: TransitionDataset, targets: list[writers.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(dataset, targets, 10)
    before = sorted(str(path) for path in Path().rglob("*"))
    plain = writers._WRITERS[targets[1].format]

    def full(part: TransitionDataset, target: writers.Target) -> Any:
        if part is not None and target.path.parent.name.startswith(".two"):
            raise OSError(28, "No space left on device")
        return plain(part, target)

    monkeypatch.setitem(writers._WRITERS, targets[1].format, full)
    with pytest.raises(DataError, match=r"two.*: cannot be written: No space left on device"):
        write(dataset, targets, 20)
    assert lengths(targets) == [10, 10]
    assert sorted(str(path) for path in Path().rglob("*")) == before


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("fails", range(8))
def test_where_one_cannot_be_renamed_all_is_as_it_was(
    fails: int, force: bool, dataset: TransitionDataset, targets: list[writers.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    if force:
        write(dataset, targets, 10)
    before = files_under(Path())
    left = iter(range(fails, -1, -1))
    for name in ("take_free_name", "set_aside"):
        own = getattr(writers, name)

        def full(path: Path, target: Path, plain: Callable[..., None] = own) -> None:
            if next(left, None) == 0:
                raise OSError(28, "No space left on device")
            plain(path, target)

        monkeypatch.setattr(writers, name, full)
    try:
        write(dataset, targets, 20, force=force)
    except DataError:
        assert files_under(Path()) == before
    else:
        assert fails >= 2
        assert lengths(targets) == [20, 20]
    assert not [path.name for path in Path().iterdir() if path.name.startswith(".")]


def test_a_signal_at_any_line_leaves_two_that_belong_together(
    dataset: TransitionDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes at the n-th line of what is run while files are put in place, for every third n."""
    monkeypatch.chdir(tmp_path)
    targets = [writers.target_of("one.csv"), writers.target_of("two.npz")]
    write(dataset, targets, 10)
    watched_files, lines = {atomic.__file__, writers.__file__}, 0

    def at(number: int) -> Any:
        def trace(frame: Any, event: str, value: Any) -> Any:
            nonlocal lines
            if frame.f_code.co_filename not in watched_files:
                return None
            # A trace can raise where `with`, or the end of an object, would give the lock back; a signal does not.
            if frame.f_code.co_name in ("alone_in", "__del__", "close"):
                return trace
            if event == "line":
                lines += 1
                if lines == number:
                    os.kill(os.getpid(), signal.SIGINT)
            return trace

        return trace

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    number, ended, seen = 0, False, set()
    while not ended:
        number, lines = number + 3, 0
        sys.settrace(at(number))
        try:
            write(dataset, targets, 20)
            ended = lines < number
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        found = tuple(lengths(targets))
        seen.add(found)
        left = [path.name for path in Path().iterdir() if path.name.startswith(".")]
        assert len(left) <= 2, number  # a lock that is never given back would keep its folder for the whole process
        if found == (20, 20):
            write(dataset, targets, 10)
    signal.signal(signal.SIGINT, before)
    assert seen == {(10, 10), (20, 20)}


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot be asked for room")
def test_minari_asks_for_room_before_hdf5_would_end_the_process(
    dataset: TransitionDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minari", reason="Minari is not installed (extra `minari`)")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    asked: list[int] = []

    def full(descriptor: int, start: int, size: int) -> None:
        asked.append(size)
        raise OSError(28, "No space left on device")

    target = writers.target_of("minari:mine/log-v0")
    writers.write(dataset, target)
    size = sum(path.stat().st_size for path in target.path.rglob("*") if path.is_file())
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        writers.write(dataset, target, force=True)
    assert asked[0] >= size
    assert sorted(tmp_path.rglob("*")) == before
