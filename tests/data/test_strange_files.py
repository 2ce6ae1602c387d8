"""Files from strangers: each is read right or refused in one line, by the reader and by the doctor alike."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats import read
from rl_training.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 12
Write = Callable[[Path], object]


def arrays(**changes: Any) -> dict[str, Any]:
    """An episode of 5 rows that terminated and one of 7 that was cut."""
    given = {
        "obs": np.arange(2.0 * ROWS, dtype=np.float32).reshape(ROWS, 2),
        "actions": np.linspace(-1, 1, ROWS),
        "rewards": np.arange(ROWS) * 1.0,
        "terminations": np.arange(ROWS) == 4,
        "truncations": np.arange(ROWS) == 11,
    }
    return {name: values for name, values in (given | changes).items() if values is not None}


def npz(**changes: Any) -> Write:
    return lambda path: np.savez(path.open("wb"), **arrays(**changes))


def hdf5(**changes: Any) -> Write:
    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            for name, values in arrays(**changes).items():
                file[name] = values

    return write


def parquet(**changes: Any) -> Write:
    columns = arrays(**{"obs": [[float(i), 1.0] for i in range(ROWS)], **changes})
    return lambda path: pq.write_table(pa.table(columns), path)


HEADER = "obs_0,obs_1,action,reward,terminal,episode,t"
LINES = [f"{i}.5,{-i},0.25,{i},{int(i == 4)},{int(i > 4)},{i if i < 5 else i - 5}" for i in range(ROWS)]


def text(*lines: str, end: str = "\n", encoding: str = "utf-8") -> Write:
    return lambda path: path.write_bytes((end.join(lines) + end).encode(encoding))


def archive(*members: tuple[str, bytes]) -> Write:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name, contents in members:
                file.writestr(name, contents)

    return write


def bytes_of(contents: bytes) -> Write:
    return lambda path: path.write_bytes(contents)


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, values)
    return file.getvalue()


SOUND: dict[str, Write] = {
    "float16": npz(obs=arrays()["obs"].astype(np.float16)),
    "big-endian": npz(obs=arrays()["obs"].astype(">f8"), rewards=np.arange(ROWS).astype(">i2")),
    "long double": npz(obs=arrays()["obs"].astype(np.longdouble)),
    "columns first": npz(obs=np.asfortranarray(arrays()["obs"])),
    "integer rewards": npz(rewards=np.arange(ROWS)),
    "flags of uint8": npz(terminations=arrays()["terminations"].astype(np.uint8)),
    "names of episodes": npz(truncations=None, episode_ids=np.array(["a"] * 5 + ["b"] * 7)),
    "HDF5 of float16": hdf5(obs=arrays()["obs"].astype(np.float16)),
    "HDF5 of other names besides": hdf5(длина=np.zeros(3)),
    "decimals": parquet(rewards=pa.array(range(ROWS)).cast(pa.decimal128(25, 2))),
    "numbers as text": parquet(rewards=pa.array([str(i) for i in range(ROWS)])),
    "numbers from a dictionary": parquet(rewards=pa.array(np.arange(ROWS) * 1.0).dictionary_encode()),
    "flags as text": parquet(terminations=pa.array([str(i == 4) for i in range(ROWS)])),
    "semicolons": text(*(line.replace(",", ";") for line in [HEADER, *LINES])),
    "byte-order mark, CRLF": text(HEADER, *LINES, end="\r\n", encoding="utf-8-sig"),
    "quoted numbers": text(*(",".join(f'"{cell}"' for cell in line.split(",")) for line in [HEADER, *LINES])),
    "blanks": text(*(line.replace(",", ", ") for line in [HEADER, "", *LINES, ""])),
    "an index without a name": text(f",{HEADER}", *(f"{i},{line}" for i, line in enumerate(LINES))),
    "capitals": text(HEADER.replace("episode", "Episode_ID").replace(",t,", ",T,"), *LINES),
    "last step first": text(HEADER, *LINES[4::-1], *LINES[:4:-1]),
}


@pytest.mark.parametrize("write", SOUND.values(), ids=SOUND)
def test_is_read_right(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "log")
    dataset = TransitionDataset.load(tmp_path / "log")
    assert (dataset.episode_lengths().tolist(), dataset.terminations.nonzero()[0].tolist()) == ([5, 7], [4])
    assert dataset.rewards.tolist() == list(range(ROWS))
    assert examine(read(tmp_path / "log")).ok


DONES = {"dones": np.isin(np.arange(ROWS), [4, 11]), "truncations": None}
WITH_DONES: dict[str, Write] = {
    "npz": npz(**DONES),
    "HDF5": hdf5(**DONES),
    "Parquet": parquet(**DONES),
    "CSV": text(
        HEADER.replace(",episode,t", ",done"),
        *(f"{line.rsplit(',', 2)[0]},{int(row in (4, 11))}" for row, line in enumerate(LINES)),
    ),
}


@pytest.mark.parametrize("write", WITH_DONES.values(), ids=WITH_DONES)
def test_dones_beside_terminations_are_the_ends_in_every_format(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "log")
    for options in ({}, {"dones_are": "ends"}):
        dataset = TransitionDataset.load(tmp_path / "log", **options)  # type: ignore[arg-type]
        assert dataset.episode_lengths().tolist() == [5, 7]
        assert (dataset.terminations.nonzero()[0].tolist(), dataset.truncations.nonzero()[0].tolist()) == ([4], [11])
    assert examine(read(tmp_path / "log")).ok


IDS = {"terminations": None, "truncations": None, "episode_ids": np.repeat([3, 8], [5, 7])}


@pytest.mark.parametrize("write", [npz(**IDS), hdf5(**IDS), parquet(**IDS)], ids=["npz", "HDF5", "Parquet"])
def test_ids_tell_the_ends_in_every_format(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "log")
    dataset = TransitionDataset.load(tmp_path / "log")
    assert (dataset.episode_lengths().tolist(), dataset.terminations.any()) == ([5, 7], False)
    assert examine(read(tmp_path / "log")).ok


MORE = {"goals": np.zeros(ROWS), "traj": np.arange(ROWS), "next_observatons": np.zeros(ROWS)}


@pytest.mark.parametrize("write", [npz(**MORE), hdf5(**MORE), parquet(**MORE)], ids=["npz", "HDF5", "Parquet"])
def test_what_is_no_field_is_left_aside_with_a_note_in_every_format(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "log")
    h5 = h5py.is_hdf5(tmp_path / "log")  # which sorts names
    looks = (
        "column 'traj' looks like an episode id: columns: {episode_ids: traj}",
        "column 'next_observatons' looks like next_obs: columns: {next_obs: next_observatons}",
    )
    dataset = TransitionDataset.load(tmp_path / "log")
    assert dataset.notes == (
        f"columns not used: goals, {'next_observatons, traj' if h5 else 'traj, next_observatons'}",
        *(reversed(looks) if h5 else looks),
    )


LACKING = {"rewards": None, "terminations": None, "truncations": None}


@pytest.mark.parametrize("write", [npz(**LACKING), hdf5(**LACKING), parquet(**LACKING)], ids=["npz", "HDF5", "Parquet"])
def test_what_is_missing_is_told_alike_in_every_format(write: Write, tmp_path: Path) -> None:
    write(tmp_path / "log")
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(tmp_path / "log")
    assert set(str(caught.value).removeprefix(f"{tmp_path / 'log'}: ").split("; ")) == {
        "lacks rewards, terminations (or episode_ids)",
        f"the data have {'actions, obs' if h5py.is_hdf5(tmp_path / 'log') else 'obs, actions'}",
        "say which columns hold them with columns: {rewards: …}",
    }


UNSOUND: dict[str, tuple[Write, str]] = {
    "objects": (archive(("obs.npy", npy(np.array([None, 1])))), "obs.npy: holds Python objects; give plain numbers"),
    "complex": (npz(obs=np.zeros((ROWS, 2), complex)), "obs: dtype complex128 is not supported"),
    "dates": (npz(rewards=np.arange(ROWS).astype("M8[s]")), "rewards: dtype datetime64[s] is not supported"),
    "records": (npz(obs=np.zeros(ROWS, [("a", "f4")])), "obs: dtype [('a', '<f4')] is not supported"),
    "no rows": (npz(**{name: values[:0] for name, values in arrays().items()}), "obs: 0 rows; a dataset needs"),
    "no columns": (npz(obs=np.zeros((ROWS, 0))), "obs: 0 columns; at least one is needed"),
    "flags of 2": (npz(terminations=np.full(ROWS, 2, np.uint8)), "terminations: 2 at row 0 (episode 0, step 0); flags"),
    "flags of NaN": (npz(terminations=np.full(ROWS, np.nan)), "terminations: nan at row 0 (episode 0, step 0); flags"),
    "two flags a row": (
        npz(terminations=np.zeros((ROWS, 2)), episode_terminals=np.zeros(ROWS)),
        "terminations: shape (12, 2); expected [rows] or [rows, 1]",
    ),
    "two ids a row": (npz(episode_ids=np.zeros((ROWS, 2))), "episode_ids: shape (12, 2); expected [rows]"),
    "half a part": (npz(part_ids=np.full(ROWS, 0.5)), "part_ids: must be whole numbers"),
    "no part": (npz(part_ids=np.full(ROWS, np.nan)), "part_ids: must be whole numbers"),
    "beyond float32": (npz(rewards=np.full(ROWS, 1e300)), "rewards: Inf at row 0 (episode 0, step 0); all values"),
    "a name with a line feed": (
        npz(obs=None, **{"a\nb": np.zeros(3)}),
        r"lacks obs; the data have actions, rewards, terminations, truncations, 'a\nb'; say which columns hold them",
    ),
    "one name twice": (archive(("obs.npy", b""), ("obs", b"")), "two columns are named 'obs'"),
    "a spreadsheet": (archive(("xl/book.xml", b"")), "a ZIP archive without arrays (.npy): it holds xl/book.xml"),
    "a group": (hdf5(obs=None, **{"obs/x": np.zeros(3)}), "obs: is a group of x; one array is expected"),
    "a type": (hdf5(rewards=np.dtype("f4")), "rewards: is not an array"),
    "text in HDF5": (hdf5(rewards=np.array([b"a"] * ROWS)), "rewards: dtype |S1 is not supported"),
    "in a group": (hdf5(obs=None, **{"data/obs": np.zeros(3)}), "lacks obs; the data have actions, rewards,"),
    "two observations": (hdf5(observations=np.zeros((ROWS, 2))), "obs: given twice, as 'obs' and 'observations'"),
    "nothing in HDF5": (lambda path: h5py.File(path, "w").close(), "lacks obs, actions, rewards, terminations (or"),
    "nothing in a row": (parquet(rewards=[1.0] * 3 + [None] * 9), "rewards: NaN at row 3, column 'rewards' (episode"),
    "nothing in a list": (parquet(obs=[[1.0, None]] * ROWS), "obs: NaN at row 0, column 'obs[1]' (episode 0, step 0)"),
    "no name of an episode": (
        parquet(episode_ids=pa.array(["a", None] * 6).dictionary_encode()),
        "column 'episode_ids': row 1 has no episode",
    ),
    "times": (parquet(rewards=np.arange(ROWS).astype("M8[s]")), "column 'rewards': '1970-01-01 00:00:00.000' at row 0"),
    "no columns at all": (lambda path: pq.write_table(pa.table({}), path), "lacks obs, actions, rewards, terminations"),
    "decimal commas": (
        text(*(line.replace(",", ";").replace("0.25", "0,25") for line in [HEADER, *LINES])),
        "column 'action': '0,25' at row 0 is not a number; write decimals with a point",
    ),
    "carriage returns": (text(HEADER, *LINES, end="\r"), "its lines end with carriage returns alone; save it with"),
    "a header alone": (text(HEADER), "has a header, but no rows"),
    "no header": (text(*LINES), "the first line holds values, not names, so columns go by position"),
    "half a line": (text(HEADER, *LINES, "1.5,"), "line 14 has 2 values, but the header names 7 columns"),
    "an open quote": (text(HEADER, '"' + LINES[0], *LINES[1:]), 'line 2: a quote (") is opened and never closed'),
    "an empty cell, out of order": (
        text(HEADER, *LINES[:4:-1], *LINES[3::-1], LINES[4].replace("4.5", "")),
        "obs: NaN at row 11 of the file, column 'obs_0' (episode named 0, step 4)",
    ),
    "ids alone, by another name": (
        text("obs,action,reward,traj", "1,2,3,4"),
        "lacks terminations (or episode_ids); the data have obs, action, reward, traj; say which columns hold them with"
        " columns: {terminations: …}; column 'traj' looks like an episode id: columns: {episode_ids: traj}",
    ),
    "gzip": (bytes_of(gzip.compress(HEADER.encode())), "has a header, but no rows"),
    "a single array": (bytes_of(npy(np.zeros(3))), "it is a single NumPy array; np.savez puts all of them into"),
    "a pickle": (bytes_of(b"\x80\x04\x95"), "it looks like a Python pickle, which could run code and is never opened"),
    "Feather": (bytes_of(b"ARROW1\0\0"), "it is an Arrow (Feather) file; write it as Parquet"),
    "MATLAB": (
        bytes_of(b"MATLAB 7.3 MAT-file, Platform: GLNXA64\0\1"),
        "it is a file of MATLAB; write its table as CSV",
    ),
    "netCDF": (bytes_of(b"CDF\1\0\0"), "it is netCDF of the classic kind; write it as netCDF-4, or as CSV"),
    "a power cut": (bytes_of(b"obs,action,reward\n1,2,3\n\0\0"), "line 3 holds zero bytes, as of a recorder that lost"),
    "JSON": (bytes_of(b'{"obs": [1, 2]}'), "it is JSON; write it as CSV or Parquet"),
    "nothing": (bytes_of(b""), "not a dataset in a format this version reads"),
    "a pipe": (os.mkfifo, "is not a file that can be read from its beginning"),
}


@pytest.mark.parametrize(("write", "complaint"), UNSOUND.values(), ids=UNSOUND)
def test_is_refused_in_one_line(write: Write, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path)
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    try:
        report = examine(read(path))
    except DataError as error:  # nothing to examine
        report = None
        assert f"{path}: {error}" == str(caught.value)  # noqa: PT017
    assert report is None or not report.ok


def test_an_environment_s_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    hdf5()(tmp_path / "log")
    with h5py.File(tmp_path / "log", "a") as file:
        file.attrs["env_id"] = "\x1b[2J\n"
    assert TransitionDataset.load(tmp_path / "log").env_id is None
