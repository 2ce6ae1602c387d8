"""What has one value per row may stand in a column, `[N, 1]`, in whatever way it is read: nothing else comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from real_data import REAL, needs_real_data
from rl_training.data.formats import whole_columns
from rl_training.data.formats.clocks import DATED
from rl_training.data.formats.peek import peek
from rl_training.data.formats.raw import RawData
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError

LENGTHS = (12, 12, 7, 12, 1, 9)
EPISODES = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
LAST = np.r_[EPISODES[1:] != EPISODES[:-1], True]
TERMINATIONS = LAST & np.isin(EPISODES, (1, 2, 4))
ROWS = len(EPISODES)
Table = dict[str, npt.NDArray[Any]]


def by_flags() -> Table:
    rng = np.random.default_rng(0)
    obs, actions = rng.normal(size=(ROWS, 3)), rng.uniform(-1, 1, (ROWS, 2))
    flags = {"terminations": TERMINATIONS, "truncations": LAST & ~TERMINATIONS}
    return {"obs": obs, "actions": actions, "rewards": rng.normal(size=ROWS), **flags}


def by_ids() -> Table:
    given = by_flags() | {"episode_ids": EPISODES}
    del given["truncations"]
    return given


def paid_at_ends() -> Table:
    given = by_flags()
    return given | {"rewards": np.where(LAST, given["rewards"], np.nan)}


def in_columns(given: Table) -> Table:
    return {name: values[:, None] if values.ndim == 1 else values for name, values in given.items()}


def read(given: Table, way: str, folder: Path, said: dict[str, Any]) -> TransitionDataset:
    folder.mkdir(exist_ok=True)
    match way:
        case "table":
            return TransitionDataset.from_table(given, **said)
        case "hdf5":
            with h5py.File(folder / "log.h5", "w") as file:
                for name, values in given.items():
                    file[name] = values
            return TransitionDataset.load(folder / "log.h5", **said)
        case _:
            np.savez(folder / "log.npz", allow_pickle=False, **given)
            columns = {"obs": "obs"} if way == "npz, mapped" else None
            return TransitionDataset.load(folder / "log.npz", columns=columns, **said)


def same(one: TransitionDataset, other: TransitionDataset) -> bool:
    ours, theirs = one.to_dict(), other.to_dict()
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[name], theirs[name]) for name in ours)


SAID: list[dict[str, Any]] = [{}, {"rewards_at": "next"}, {"at_termination": -100.0}, {"rewards_are": "costs"}]
SAID += [{"missing": "drop"}, {"missing": "hold"}, {"time_limits": "d4rl"}]


@pytest.mark.parametrize("way", ["table", "npz", "npz, mapped", "hdf5"])
@pytest.mark.parametrize("made", [by_flags, by_ids, paid_at_ends])
def test_nothing_else_comes_of_it(made: Any, way: str, tmp_path: Path) -> None:
    ids = [{"last_rows_are": "termination"}] if made is by_ids else []
    options: list[dict[str, Any]] = [*SAID, *ids] if made is not paid_at_ends else [{}, {"at_termination": -100.0}]
    for said in options:
        plain = read(made(), way, tmp_path / "plain", said)
        columns = read(in_columns(made()), way, tmp_path / "columns", said)
        assert same(plain, columns), said
        assert plain.notes == columns.notes
    one, other = (read(in_columns(made()), way, tmp_path / "columns", said) for said in options[:2])
    assert not same(one, other)


def test_a_dump_of_d3rlpy_has_them(tmp_path: Path) -> None:
    given = by_flags()
    for name, rewards in (("plain", given["rewards"]), ("columns", given["rewards"][:, None])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            for episode in range(len(LENGTHS)):
                rows = episode == EPISODES
                file[f"observations_{episode}"] = given["obs"][rows]
                file[f"actions_{episode}"] = given["actions"][rows]
                file[f"rewards_{episode}"] = rewards[rows]
                file[f"terminated_{episode}"] = bool(TERMINATIONS[rows].any())
    for said in SAID:
        plain, columns = (TransitionDataset.load(tmp_path / f"{name}.h5", **said) for name in ("plain", "columns"))
        assert same(plain, columns), said


@needs_real_data
def test_a_real_file_has_them() -> None:
    """Each reward of a step stands one row later, as was said, and not where it was."""
    path = REAL / "d4rl_excerpts" / "halfcheetah_medium_replay-v1.hdf5"
    plain, late = (TransitionDataset.load(path, rewards_at=at) for at in ("same", "next"))
    assert len(late) == len(plain) - plain.n_episodes
    assert late.rewards[:5].tolist() == plain.rewards[1:6].tolist()


def test_no_reader_hands_them_over() -> None:
    raw = RawData(in_columns(by_ids()) | {"returns_to_go": np.zeros((ROWS, 1))}, "test")
    assert {values.shape for name, values in raw.arrays.items() if name not in ("obs", "actions")} == {(ROWS,)}
    assert RawData({"obs": np.zeros((ROWS, 1)), "other": np.zeros((ROWS, 1))}, "test").arrays["obs"].shape == (ROWS, 1)


@pytest.mark.parametrize("way", ["npz", "table"])
def test_steps_sums_and_texts_are_read_from_them(way: str, tmp_path: Path) -> None:
    given = by_flags()
    texts = np.where(LAST, np.where(TERMINATIONS, "crash", "time"), "").astype("S5")
    steps = np.arange(ROWS) - np.flatnonzero(np.r_[True, LAST[:-1]])[EPISODES]
    table = {"obs": given["obs"], "actions": given["actions"], "gain": given["rewards"], "cost": given["rewards"] / 4}
    table |= {"run": EPISODES, "t": steps, "why": texts}
    columns = {"rewards": ["gain", "-cost"], "episode_ids": "run", "step": "t", "end_reasons": "why"}
    said = {"columns": columns, "end_reasons": {"crash": "termination", "time": "truncation"}}
    plain, found = (
        TransitionDataset.from_table(one, **said) if way == "table" else _saved(one, tmp_path, said)  # type: ignore[arg-type]
        for one in (table, in_columns(table))
    )
    assert same(plain, found)
    assert found.terminations.tolist() == TERMINATIONS.tolist()


@pytest.mark.parametrize("way", ["parquet", "arrow", "mapping", "pandas"])
@pytest.mark.parametrize("kind", [int, str])
def test_lists_of_one_are_read_as_what_they_hold(kind: type, way: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    given = by_flags()
    steps = np.arange(ROWS) - np.flatnonzero(np.r_[True, LAST[:-1]])[EPISODES]
    table = {"x": given["obs"][:, 0], "u": given["actions"][:, 0], "r": given["rewards"], "t": steps}
    table |= {"end": TERMINATIONS.astype(float)}
    texts = [kind(number) for number in EPISODES]
    why = np.where(LAST, "crash", "none").tolist()
    columns = {"obs": ["x"], "actions": "u", "rewards": "r", "episode_ids": "run", "step": "t", "terminations": "end"}
    datasets = []
    for in_lists in (False, True):
        cells: dict[str, Any] = {name: values.tolist() for name, values in table.items()} | {"run": texts, "why": why}
        if in_lists:
            cells = {name: [[value] for value in values] for name, values in cells.items()}
        if way in ("parquet", "arrow"):
            made: Any = pa.table(cells)
            pq.write_table(made, tmp_path / "log.parquet", row_group_size=20)
        elif way == "pandas":
            made = pytest.importorskip("pandas").DataFrame(cells)
        else:
            made = {name: np.array([*values, None], dtype=object)[:-1] for name, values in cells.items()}
        if way == "parquet":
            peek(tmp_path / "log.parquet", 10)
            datasets.append(TransitionDataset.load(tmp_path / "log.parquet", columns=columns))
        else:
            datasets.append(TransitionDataset.from_table(made, columns))
    assert same(*datasets)
    assert datasets[1].n_episodes == len(LENGTHS)


def test_lists_of_several_texts_are_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = {"obs": [1.0, 2.0], "action": [0.0, 1.0], "reward": [1.0, 1.0], "done": [0, 1], "episode": [["a", "b"]] * 2}
    pq.write_table(pa.table(cells), tmp_path / "log.parquet")
    with pytest.raises(DataError, match="column 'episode': holds lists of texts; give lists of numbers, or one text"):
        TransitionDataset.load(tmp_path / "log.parquet")


def _saved(table: Table, folder: Path, said: dict[str, Any]) -> TransitionDataset:
    np.savez(folder / "log.npz", allow_pickle=False, **table)
    return TransitionDataset.load(folder / "log.npz", **said)


@pytest.mark.parametrize("kind", ["fixed", "any length", "any length, in chunks"])
def test_texts_of_hdf5(kind: str, tmp_path: Path) -> None:
    texts = np.where(LAST, np.where(TERMINATIONS, "crash", "time"), "")
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name in ("obs", "actions", "rewards"):
            file[name] = by_flags()[name]
        dtype = "S5" if kind == "fixed" else h5py.string_dtype()
        chunks = (5, 1) if "chunks" in kind else None
        file.create_dataset(
            "why", data=texts[:, None].astype("S5" if kind == "fixed" else object), dtype=dtype, chunks=chunks
        )
        file.create_dataset("two", data=np.stack([texts] * 2, 1).astype("S5"))
    said: dict[str, Any] = {"end_reasons": {"crash": "termination", "time": "truncation"}}
    found = TransitionDataset.load(tmp_path / "log.h5", columns={"end_reasons": "why"}, **said)
    assert found.terminations.tolist() == TERMINATIONS.tolist()
    told = rf"two: holds texts of shape \({ROWS}, 2\); where texts are read, it is one for each row"
    with pytest.raises(DataError, match=told):
        TransitionDataset.load(tmp_path / "log.h5", columns={"end_reasons": "two"}, **said)


@pytest.mark.parametrize("name", ["log.npz", "log.h5"])
def test_a_first_look_takes_them_for_plain(name: str, tmp_path: Path) -> None:
    """What is guessed of a file goes by columns with one value each."""
    seen = []
    texts = np.where(LAST, "end", "").astype("S3")
    for place, made in enumerate((by_flags() | {"why": texts}, in_columns(by_flags() | {"why": texts}))):
        path = tmp_path / str(place) / name
        path.parent.mkdir()
        if name == "log.npz":
            np.savez(path, allow_pickle=False, **made)
        else:
            with h5py.File(path, "w") as file:
                for key, values in made.items():
                    file[key] = values
        seen.append(peek(path, 20))
        assert whole_columns.texts_of(path, path.suffix.replace(".h5", ".hdf5")[1:], ["why"])["why"].keys() == {
            "",
            "end",
        }
    plain, columns = seen
    assert plain.episodes == columns.episodes == len(LENGTHS)
    assert {key: a.shape for key, a in plain.columns.items()} == {key: a.shape for key, a in columns.columns.items()}


class TestRecords:
    """Arrays whose values are several: no step, text or number."""

    RECORDS = np.zeros(ROWS, dtype=[("day", "i8"), ("hour", "i8")])

    @pytest.mark.parametrize("way", ["npz", "table"])
    @pytest.mark.parametrize("field", ["step", "episode_ids", "rewards", "end_reasons"])
    def test_are_refused(self, field: str, way: str, tmp_path: Path) -> None:
        given = by_flags() | {"when": self.RECORDS}
        if field == "end_reasons":
            del given["terminations"], given["truncations"]
        said: dict[str, Any] = {"columns": {field: "when"}}
        said |= {"end_reasons": {"a": "termination"}} if field == "end_reasons" else {}
        with pytest.raises(DataError) as caught:
            _saved(given, tmp_path, said) if way == "npz" else TransitionDataset.from_table(given, **said)
        told = "column 'when': holds records of day, hour, not one number or text per row; give each as its own array"
        assert str(caught.value).endswith(told)
        assert "not a readable" not in str(caught.value)

    def test_raw_bytes(self) -> None:
        with pytest.raises(DataError, match=r"column 'when': holds '\|V8' values, not one number or text per row"):
            TransitionDataset.from_table(by_flags() | {"when": np.zeros(ROWS, "V8")}, {"step": "when"})

    def test_as_times_that_were_read_before(self) -> None:
        """What a step becomes inside the package is no way into it."""
        with pytest.raises(DataError, match="column 'when': holds records of second, nano, wall, dated"):
            TransitionDataset.from_table(by_flags() | {"when": np.zeros(ROWS, DATED)}, {"step": "when"})
