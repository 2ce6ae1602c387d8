"""Text that says why episodes ended, in arrays of HDF5 and .npz files; folders with a file for every episode."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats.hdf5_files import opened
from rl_training.data.formats.hdf5_texts import texts_in
from rl_training.data.formats.mapping_checks import check_columns
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS

ROWS = 60
COLUMNS = {"obs": "log/x", "actions": "log/u", "rewards": "log/r", "end_reasons": "log/why"}
MEANINGS: Any = {"goal": "termination", "time up": "truncation"}


def arrays() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    why = ["goal" if row % 20 == 19 else "time up" if row % 10 == 9 else "" for row in range(ROWS)]
    numbers = {
        "log/x": draw.normal(size=(ROWS, 2)),
        "log/u": draw.uniform(-1, 1, ROWS),
        "log/r": draw.normal(size=ROWS),
    }
    return {**{name: values.astype(np.float32) for name, values in numbers.items()}, "log/why": why}


def saved(path: Path, kind: str) -> Path:
    found = arrays()
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(values) for name, values in found.items()})
        return path
    with h5py.File(path, "w") as file:
        for name, values in found.items():
            if name != "log/why":
                file[name] = values
            elif kind == "fixed":
                file[name] = np.array(values, dtype="S12")
            else:
                file.create_dataset(name, data=values, dtype=h5py.string_dtype(), chunks=(16,), compression="gzip")
    return path


@pytest.mark.parametrize(("name", "kind"), [("log.h5", "fixed"), ("log.h5", "free"), ("log.npz", "")])
def test_reasons_are_read(name: str, kind: str, tmp_path: Path) -> None:
    path = saved(tmp_path / name, kind)
    dataset = TransitionDataset.load(path, columns=COLUMNS, end_reasons=MEANINGS)
    assert np.flatnonzero(dataset.terminations).tolist() == [19, 39, 59]
    assert np.flatnonzero(dataset.truncations).tolist() == [9, 29, 49]
    check_columns(path, COLUMNS, AS_IT_STANDS)
    assert peek(path, 30).columns["log/why"][:20].tolist() == arrays()["log/why"][:20]
    with pytest.raises(DataError, match="'time up' at row 9 is not among end_reasons"):
        TransitionDataset.load(path, columns=COLUMNS, end_reasons={"goal": "termination"})


@pytest.mark.parametrize("name", ["log.h5", "log.npz"])
def test_reasons_need_a_mapping(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"end_reasons: is for the text of a column that columns names"):
        TransitionDataset.load(saved(tmp_path / name, "free"), end_reasons=MEANINGS)


def test_long_texts_are_no_reasons(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.h5", "free")
    with h5py.File(path, "a") as file:
        del file["log/why"]
        file["log/why"] = ["x" * 1_000] * ROWS
    assert "log/why" not in peek(path, 30).columns
    with pytest.raises(DataError, match="log/why: holds a text of 1,000 characters"):
        TransitionDataset.load(path, columns=COLUMNS, end_reasons=MEANINGS)


class TestLengths:
    """libhdf5 makes room for the length that is declared of each text before it looks at it."""

    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"chunks": (7,)},
            {"chunks": (16,), "compression": "gzip", "shuffle": True},
            {"chunks": (64,), "maxshape": (None,), "compression": "gzip"},
            {"chunks": (16,), "compression": "lzf"},
            {"chunks": (40,), "compression": "lzf", "shuffle": True},
        ],
    )
    @pytest.mark.parametrize("libver", [None, "latest"])
    @pytest.mark.parametrize("block", [0, 512])
    def test_are_found_however_they_are_stored(
        self, how: dict[str, Any], libver: str | None, block: int, tmp_path: Path
    ) -> None:
        texts = [*arrays()["log/why"][:-2], "x" * 256, "y" * 1_030]
        with h5py.File(tmp_path / "a.h5", "w", libver=libver, userblock_size=block) as file:
            file.create_dataset("why", data=texts, dtype=h5py.string_dtype(), **how)
        with opened(tmp_path / "a.h5") as file:
            assert texts_in(file["why"], "why", ROWS - 1).tolist() == texts[:-1]
            with pytest.raises(DataError, match="why: holds a text of 1,030 bytes; at most 1,024 are read"):
                texts_in(file["why"], "why")

    @pytest.mark.parametrize("how", [{}, {"chunks": (16,)}])
    def test_of_gigabytes_that_are_not_there(self, how: dict[str, Any], tmp_path: Path) -> None:
        path = saved(tmp_path / "log.h5", "fixed")
        with h5py.File(path, "a") as file:
            del file["log/why"]
            why = file.create_dataset("log/why", data=["a", *["up"] * (ROWS - 1)], dtype=h5py.string_dtype(), **how)
            place = why.id.get_chunk_info(0).byte_offset if how else why.id.get_offset()
        contents = bytearray(path.read_bytes())
        contents[place : place + 4] = (2**32 - 1).to_bytes(4, "little")
        path.write_bytes(contents)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(DataError, match="log/why: holds a text of 4,294,967,295 bytes; at most 1,024 are read"):
            TransitionDataset.load(path, columns=COLUMNS, end_reasons=MEANINGS)
        assert "log/why" not in peek(path, 30).columns
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 2**10

    def test_that_cannot_be_looked_at_are_not_read(self, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_chunk((2,))
            plan.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())  # zstd
            kind = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
            packed = h5py.h5d.create(file.id, b"packed", kind, h5py.h5s.create_simple((2,)), plan)
            packed.write_direct_chunk((0,), bytes(32))
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_layout(h5py.h5d.COMPACT)
            h5py.h5d.create(file.id, b"compact", kind, h5py.h5s.create_simple((2,)), plan)
            file["compact"][:] = ["a", "b"]
        with opened(tmp_path / "a.h5") as file:
            for name, told in (
                ("packed", "packed otherwise than with gzip or lzf"),
                ("compact", "in the head of the array"),
            ):
                with pytest.raises(DataError, match=told):
                    texts_in(file[name], name)

    def test_those_that_are_not_read_are_told_of_at_first_sight(self, tmp_path: Path) -> None:
        """init had proposed a file without them, and said nothing."""
        path = saved(tmp_path / "log.h5", "free")
        assert peek(path, 30).notes == ()
        with h5py.File(path, "a") as file:
            del file["log/why"]
            file["log/why"] = ["x" * 1_000] * ROWS
        told = "log/why: holds a text of 1,000 characters; at most 256 are read; it is passed over"
        assert peek(path, 30).notes == (told,)

    def test_of_gigabytes_packed_with_lzf(self, tmp_path: Path) -> None:
        entry = (2**32 - 1).to_bytes(4, "little") + bytes(12)
        path = with_lzf(tmp_path / "a.h5", bytes([15, *entry, 0xE0, 247, 15]), rows=17)
        with opened(path) as file, pytest.raises(DataError, match="why: holds a text of 4,294,967,295 bytes"):
            texts_in(file["why"], "why")

    @pytest.mark.parametrize(
        "stream",
        [b"\x00\x00", b"\x20", b"\xe0\x01", b"\x20\x05", b"\x1f" + bytes(32)],
        ids=["one byte", "no place", "no place of a long copy", "before the beginning", "ends too early"],
    )
    def test_a_damaged_stream_is_not_read(self, stream: bytes, tmp_path: Path) -> None:
        """libhdf5 takes what lies in memory behind it."""
        path = with_lzf(tmp_path / "a.h5", stream)
        with opened(path) as file, pytest.raises(DataError, match="why: damaged"):
            texts_in(file["why"], "why")

    def test_a_stream_without_end_is_not_unpacked(self, tmp_path: Path) -> None:
        """One of 16 KiB that would be 1.4 MB, of a piece of 16 KB."""
        path = with_lzf(tmp_path / "a.h5", bytes([0, 0]) + bytes([0xE0, 255, 0]) * 5_400, rows=1_024)
        with opened(path) as file:
            assert texts_in(file["why"], "why").tolist() == [""] * 1_024


def with_lzf(path: Path, stream: bytes, rows: int = 18) -> Path:
    """A file whose texts are one piece that holds what the stream unpacks to."""
    with h5py.File(path, "w") as file:
        why = file.create_dataset("why", (rows,), h5py.string_dtype(), chunks=(rows,), compression="lzf")
        why.id.write_direct_chunk((0,), stream)
    return path


class TestFilePerEpisode:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "logs").mkdir()
        found = arrays()
        for episode in range(6):
            own = slice(10 * episode, 10 * episode + 10)
            cells = {"state": list(found["log/x"][own]), "cmd": found["log/u"][own], "score": np.arange(10) % 2}
            pq.write_table(pa.table(cells), tmp_path / "logs" / f"e{episode}.parquet")
        return tmp_path / "logs"

    def test_is_read_by_the_names_of_files(self, folder: Path) -> None:
        columns = {"obs": "state", "actions": "cmd", "rewards": "score", "episode_ids": "file_name"}
        dataset = TransitionDataset.load(folder, columns=columns)
        assert np.flatnonzero(dataset.truncations).tolist() == list(range(9, 60, 10))
        check_columns(folder, columns, AS_IT_STANDS)

    def test_one_file_has_no_such_column(self, folder: Path) -> None:
        columns = {"obs": "state", "actions": "cmd", "rewards": "score", "episode_ids": "file_name"}
        with pytest.raises(DataError, match=r"columns\.episode_ids: no column 'file_name'"):
            TransitionDataset.load(folder / "e0.parquet", columns=columns)
