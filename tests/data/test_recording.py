"""Recording into a file: killed anywhere it goes on to the same bytes, and refuses what would not."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset, collect
from rl_training.data import partial as partial_module
from rl_training.data import recording as recording_module
from rl_training.data.behaviours import Behaviour, Exploring, Following, Uniform
from rl_training.data.collection import Done
from rl_training.data.formats.writers import target_of
from rl_training.data.partial import PartialFolder
from rl_training.data.recording import Recording
from rl_training.environments import read_spaces
from rl_training.errors import DataError
from tiny_environments import CLIFF

RECORDING = Recording(CLIFF, "random", 100, None, seed=3)


def record(recording: Recording, behaviour: Behaviour, output: Path | str, **options: Any) -> TransitionDataset:
    dataset, _ = recording_module.record(recording, behaviour, target_of(str(output)), **options)
    return dataset


def check_output(output: Path | str, **options: bool) -> None:
    recording_module.check_output(target_of(str(output)), **options)


def partial_path(output: Path | str) -> Path:
    return recording_module.partial_path(target_of(str(output)))


class Killed(BaseException):
    """Nothing runs after it: what was not on disk is gone."""


@pytest.fixture
def behaviour() -> Behaviour:
    return Uniform(read_spaces(CLIFF))


@pytest.fixture
def whole(behaviour: Behaviour, tmp_path: Path) -> bytes:
    """The file of a recording that nothing interrupted."""
    record(RECORDING, behaviour, tmp_path / "whole.npz")
    return (tmp_path / "whole.npz").read_bytes()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_module, "_BLOCK_ROWS", 20)


def kill(monkeypatch: pytest.MonkeyPatch, cause: Callable[[pytest.MonkeyPatch], Any], run: Callable[..., Any]) -> None:
    """Run with something that raises `Killed`, after which nothing is written any more."""
    flush = PartialFolder.flush
    dead = False

    def die(*_: Any, **__: Any) -> None:
        nonlocal dead
        dead = True
        raise Killed

    def flush_alive(self: PartialFolder) -> None:
        if not dead:
            flush(self)

    with monkeypatch.context() as patch:
        patch.setattr(PartialFolder, "flush", flush_alive)
        options = cause(patch, die) or {}
        with pytest.raises(Killed):
            run(**options)


def after_steps(count: int) -> Callable[..., Any]:
    def cause(patch: pytest.MonkeyPatch, die: Callable[..., None]) -> dict[str, Any]:
        ticks = 0

        def watch(_: Done) -> None:
            nonlocal ticks
            ticks += 1
            if ticks == count:
                die()

        return {"watch": watch}

    return cause


def in_the_save_of(what: str | int, *, before: bool) -> Callable[..., Any]:
    """In writing the n-th block, or the file of that name, before or after it is there."""

    def cause(patch: pytest.MonkeyPatch, die: Callable[..., None]) -> None:
        saves = 0

        def dying(path: Path, write: Callable[[], Any]) -> Any:
            nonlocal saves
            saves += 1
            if what in (saves, path.name) and before:
                path.with_name(f".{path.name}.0.tmp").write_bytes(b"half")
                die()
            written = write()
            if what in (saves, path.name):
                die()
            return written

        save, write = TransitionDataset.save, recording_module.write
        patch.setattr(TransitionDataset, "save", lambda data, path: dying(path, lambda: save(data, path)))
        patch.setattr(recording_module, "write", lambda data, to, **o: dying(to.path, lambda: write(data, to, **o)))

    return cause


def before_the_folder_goes(patch: pytest.MonkeyPatch, die: Callable[..., None]) -> None:
    patch.setattr(PartialFolder, "remove", die)


CAUSES: dict[str, Callable[..., Any]] = {
    **{f"after {count} steps": after_steps(count) for count in (1, 7, 20, 33)},
    **{f"before block {n}": in_the_save_of(n, before=True) for n in (1, 3)},
    **{f"after block {n}": in_the_save_of(n, before=False) for n in (1, 3)},
    "before the file": in_the_save_of("log.npz", before=True),
    "after the file": in_the_save_of("log.npz", before=False),
    "before the folder goes": before_the_folder_goes,
}


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("cause", CAUSES)
def test_killed_anywhere_it_ends_alike(
    cause: str, n_envs: int, behaviour: Behaviour, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "log.npz"

    def run(**options: Any) -> None:
        record(RECORDING, behaviour, output, n_envs=n_envs, **options)

    kill(monkeypatch, CAUSES[cause], run)
    assert partial_path(output).is_dir()
    run(resume=True, force=output.exists())
    assert output.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".tmp")) == [
        "log.npz",
        "whole.npz",
    ]


def test_killed_again_and_again(
    behaviour: Behaviour, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "log.npz"
    kill(monkeypatch, after_steps(30), lambda **o: record(RECORDING, behaviour, output, **o))
    for n_envs in (4, 1, 2):
        again = {"n_envs": n_envs, "resume": True}
        kill(monkeypatch, after_steps(11), lambda again=again, **o: record(RECORDING, behaviour, output, **again, **o))
    record(RECORDING, behaviour, output, resume=True)
    assert output.read_bytes() == whole


def test_what_is_finished_is_kept_when_it_is_stopped(behaviour: Behaviour, whole: bytes, tmp_path: Path) -> None:
    """An exception is no kill: every finished episode goes to disk."""
    output = tmp_path / "log.npz"

    def stop(done: Done) -> None:
        if done.rows >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(RECORDING, behaviour, output, watch=stop)
    (block,) = partial_path(output).glob("*.npz")
    kept = TransitionDataset.load(block)
    assert 15 - 6 < len(kept) <= 15
    seen: list[Done] = []
    record(RECORDING, behaviour, output, resume=True, watch=seen.append)
    assert seen[0].rows == len(kept) + 1
    assert output.read_bytes() == whole


def test_the_file_is_what_memory_would_hold(tmp_path: Path) -> None:
    recording = Recording("Pendulum-v1", "random", 450, None, seed=1, noise=0.1)
    spaces = read_spaces("Pendulum-v1")
    made = record(recording, Exploring(Uniform(spaces), spaces, noise=0.1), tmp_path / "log.npz", n_envs=3)
    loaded = TransitionDataset.load(tmp_path / "log.npz")
    assert made.fingerprint() == loaded.fingerprint()
    assert len(loaded) == 450
    record(Recording(CLIFF, "random", 100, None, seed=3), Uniform(read_spaces(CLIFF)), tmp_path / "cliff.npz")
    in_memory = collect(CLIFF, "random", 100, seed=3)
    assert TransitionDataset.load(tmp_path / "cliff.npz").fingerprint() == in_memory.fingerprint()


# Refused ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording that was killed."""
    output = tmp_path / "log.npz"

    def run(**options: Any) -> None:
        record(RECORDING, behaviour, output, command="rl-training data collect … --resume", **options)

    kill(monkeypatch, after_steps(60), run)
    return output


def test_other_settings_are_refused_by_name(begun: Path, behaviour: Behaviour) -> None:
    before = sorted(path.name for path in partial_path(begun).iterdir())
    other = Recording(CLIFF, "random", 200, None, seed=4)
    with pytest.raises(DataError) as caught:
        record(other, behaviour, begun, resume=True)
    folder = partial_path(begun)
    assert str(caught.value) == (
        f"{folder}: was begun with steps 100, seed 3, not steps 200, seed 4; use the same,"
        f" or discard it with `rm -r {folder}`"
    )
    assert sorted(path.name for path in partial_path(begun).iterdir()) == before


def test_an_unfinished_recording_is_not_overwritten(begun: Path, behaviour: Behaviour) -> None:
    with pytest.raises(DataError) as caught:
        check_output(begun, force=True, resume=False)
    folder = partial_path(begun)
    assert str(caught.value) == (
        f"{folder}: holds an unfinished recording; continue it with `rl-training data collect … --resume`,"
        f" or discard it with `rm -r {folder}`"
    )
    with pytest.raises(DataError, match="cannot be written"):
        record(RECORDING, behaviour, begun)


@pytest.mark.parametrize(("good_rows", "left"), [(0, []), (30, ["log.npz.partial"])])
def test_a_mistake_at_the_start_leaves_nothing_behind(good_rows: int, left: list[str], tmp_path: Path) -> None:
    asked = 0

    def policy(obs: Any) -> Any:
        nonlocal asked
        asked += len(obs)
        return np.full((len(obs), 1), 0.0 if asked <= good_rows else np.nan)

    with pytest.raises(DataError, match="the policy gave an action that is not finite"):
        record(RECORDING, Following(policy, 1), tmp_path / "log.npz")
    assert [path.name for path in tmp_path.iterdir()] == left


def test_damage_is_named(begun: Path, behaviour: Behaviour) -> None:
    first, second, *_ = sorted(partial_path(begun).glob("*.npz"))
    second.write_bytes(second.read_bytes()[:50])
    with pytest.raises(DataError, match=f"{second.name}: not a readable"):
        record(RECORDING, behaviour, begun, resume=True)
    first.unlink()
    with pytest.raises(DataError, match=f"{first.name} is missing; discard it with `rm -r "):
        record(RECORDING, behaviour, begun, resume=True)
    (partial_path(begun) / "settings.json").write_text("{")
    for check in (
        lambda: record(RECORDING, behaviour, begun, resume=True),
        lambda: check_output(begun, force=False, resume=False),
    ):
        with pytest.raises(DataError, match=r"settings\.json cannot be read; discard it with `rm -r "):
            check()
    (partial_path(begun) / "settings.json").unlink()
    with pytest.raises(DataError, match="cannot be opened"):
        record(RECORDING, behaviour, begun, resume=True)


def test_a_link_in_the_place_of_a_block_is_not_followed(begun: Path, behaviour: Behaviour) -> None:
    _, second, *_ = sorted(partial_path(begun).glob("*.npz"))
    second.symlink_to(second.rename(begun.parent / "elsewhere.npz"))
    with pytest.raises(DataError, match=f"{second.name} is a link, and none is followed; discard it with `rm -r "):
        record(RECORDING, behaviour, begun, resume=True)


def test_a_pipe_in_the_place_of_the_settings_is_not_waited_for(begun: Path, behaviour: Behaviour) -> None:
    (partial_path(begun) / "settings.json").unlink()
    os.mkfifo(partial_path(begun) / "settings.json")
    with pytest.raises(DataError, match=r"cannot be opened \(not a plain file\)"):
        record(RECORDING, behaviour, begun, resume=True)


def test_blocks_that_disagree_are_not_merged(begun: Path, behaviour: Behaviour) -> None:
    """They would be a traceback, or lose the fields that the first block lacks."""
    _, second, *_ = sorted(partial_path(begun).glob("*.npz"))
    block = TransitionDataset.load(second)
    wide = np.zeros((len(block), 3))
    for other, holds in (
        (replace(block, next_actions=None), "obs 2, actions 1, rewards, next_obs 2, terminations, truncations"),
        (replace(block, obs=wide, next_obs=wide), "obs 3, actions 1, rewards, next_obs 3, "),
        (replace(block, actions=wide, next_actions=wide), "obs 2, actions 3, rewards, next_obs 2, "),
    ):
        other.save(second)
        with pytest.raises(DataError) as caught:
            record(RECORDING, behaviour, begun, resume=True)
        assert str(caught.value).startswith(f"{partial_path(begun)}: {second.name} holds {holds}")
        assert ", the blocks before it obs 2, actions 1, rewards, next_obs 2," in str(caught.value)
    replace(block, truncations=block.truncations & False, terminations=block.terminations & False).save(second)
    with pytest.raises(DataError, match=f"{second.name} ends inside an episode; discard it with `rm -r "):
        record(RECORDING, behaviour, begun, resume=True)


def test_one_process_at_a_time(begun: Path, behaviour: Behaviour) -> None:
    with (
        PartialFolder.opened(partial_path(begun), {}, command="", resume=True),
        pytest.raises(DataError, match="is being written by another process"),
    ):
        record(RECORDING, behaviour, begun, resume=True)


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    def refusal(output: Path | str, *, force: bool = False, resume: bool = False) -> str:
        with pytest.raises(DataError) as caught:
            check_output(output, force=force, resume=resume)
        return str(caught.value).replace(str(tmp_path), "…")

    (tmp_path / "old.npz").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    assert refusal(tmp_path / "old.npz").startswith("…/old.npz: exists already; replace it with --force")
    assert refusal(tmp_path / "old.npz" / "log.npz").startswith("…/old.npz/log.npz: …/old.npz is no folder, so nothing")
    (tmp_path / "folder.npz").mkdir()
    assert refusal(tmp_path / "folder.npz", force=True) == "…/folder.npz: is a folder; give the name of a file in it"
    assert (
        refusal(f"{tmp_path}/folder/", force=True) == "…/folder: is a folder, but no dataset, and will not be replaced"
    )
    assert refusal(tmp_path / "folder").startswith("…/folder: must end in .npz, .hdf5,")
    assert refusal(tmp_path / "log.txt").startswith("…/log.txt: ")
    assert refusal(tmp_path / "log.npz", resume=True).startswith(
        "…/log.npz.partial: no such folder, so there is nothing"
    )
    check_output(tmp_path / "old.npz", force=True, resume=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "folder.npz", "old.npz"]


def test_settings_are_readable(begun: Path) -> None:
    contents = json.loads((partial_path(begun) / "settings.json").read_text())
    assert contents["settings"]["env_id"] == CLIFF
    assert contents["settings"]["seed"] == 3
    assert "n_envs" not in contents["settings"]


@pytest.mark.parametrize("name", ["log.hdf5", "log.parquet", "log.csv", "log/", "minari:own/log-v0"])
def test_every_format_is_resumed_to_the_same_files(
    name: str, behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And holds what an archive of the same recording holds, the environment's name and bounds included."""
    pytest.importorskip("minari" if name.startswith("minari:") else "pyarrow")
    found = {}
    for folder in ("whole", "resumed"):
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / folder))
        output = name if name.startswith("minari:") else f"{tmp_path}/{folder}/{name}"
        (tmp_path / folder).mkdir()
        if folder == "resumed":
            kill(monkeypatch, after_steps(30), lambda output=output, **o: record(RECORDING, behaviour, output, **o))
            assert not target_of(output).path.exists()
        check_output(output, force=False, resume=folder == "resumed")
        record(RECORDING, behaviour, output, resume=folder == "resumed")
        path = target_of(output).path
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        found[folder] = {file.relative_to(path): file.read_bytes() for file in files}
        assert not partial_path(output).exists()
    assert found["whole"] == found["resumed"]
    record(RECORDING, behaviour, tmp_path / "log.npz")
    expected, made = TransitionDataset.load(tmp_path / "log.npz"), TransitionDataset.load(path)
    np.testing.assert_array_equal(made.obs, expected.obs)
    np.testing.assert_array_equal(made.truncations, expected.truncations)
    assert expected.bounds is not None
    assert expected.bounds.action_low == read_spaces(CLIFF).action_low
    if name != "log.csv":
        assert (made.env_id, made.bounds) == (CLIFF, expected.bounds)


def test_what_appears_meanwhile_is_not_overwritten(behaviour: Behaviour, whole: bytes, tmp_path: Path) -> None:
    output = tmp_path / "log.npz"

    def appear(_: Done) -> None:
        output.write_bytes(b"precious")

    with pytest.raises(DataError) as caught:
        record(RECORDING, behaviour, output, watch=appear)
    kept = f"what was recorded is kept in {partial_path(output)}: --resume"
    assert str(caught.value) == f"{output}: exists already; --force replaces it ({kept})"
    assert output.read_bytes() == b"precious"
    record(RECORDING, behaviour, output, resume=True, force=True)
    assert output.read_bytes() == whole


def test_the_lock_is_on_the_folder_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process finishes and another begins while a third is about to lock what the first has removed."""
    path, lock = tmp_path / "log.npz.partial", fcntl.flock
    with ExitStack() as finished, ExitStack() as processes:
        first = finished.enter_context(PartialFolder.opened(path, {}, command="", resume=False))

        def flock(*arguments: Any) -> None:
            monkeypatch.setattr(fcntl, "flock", lock)
            first.remove()
            finished.close()
            processes.enter_context(PartialFolder.opened(path, {}, command="", resume=False))
            lock(*arguments)

        monkeypatch.setattr(fcntl, "flock", flock)
        with (
            pytest.raises(DataError, match="is being written by another process"),
            PartialFolder.opened(path, {}, command="", resume=True),
        ):
            pass
