"""A first look at files that unpack to far more than they store: bounded in all, and unused columns in nobody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import parquet_look
from rl_training.data.formats.peek import peek
from rl_training.data.formats.whole_columns import rare_texts, texts_of
from rl_training.errors import DataError

ROWS = 300
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
MOST = 400 * 2**20  # bytes that a look may take: what it unpacks, and what unpacking needs
LOOK = """
import json, sys
from pathlib import Path
import h5py, pyarrow.parquet, zipfile
import rl_training.data.formats.parquet, rl_training.data.formats.npz, rl_training.data.formats.hdf5
from rl_training.data.formats.mapping_checks import check_columns
from rl_training.data.formats.peek import peek
from rl_training.reading_choices import AS_IT_STANDS

def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

Path("/proc/self/clear_refs").write_text("5")
before, path = status("VmRSS"), Path(sys.argv[1])
try:
    if sys.argv[2] == "names":
        check_columns(path, {"terminations": "terminations"}, AS_IT_STANDS)
        said = "fine"
    else:
        said = {name: len(values) for name, values in peek(path, 5_000).columns.items()}
except Exception as error:
    said = str(error)
print(json.dumps([said, status("VmHWM") - before]))
"""
needs_proc = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no /proc")


def fields() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    ends = np.arange(ROWS) % 50 == 49
    obs, actions = draw.standard_normal((ROWS, 4), np.float32), draw.uniform(-1, 1, (ROWS, 1)).astype(np.float32)
    return dict(zip(FIELDS, (obs, actions, draw.standard_normal(ROWS, np.float32), ends & False, ends), strict=True))


@cache
def zeros() -> bytes:
    """512 MiB of them, packed."""
    return zlib.compress(bytes(2**29))


def hdf5(path: Path, packed: str | None = None, shape: tuple[int, ...] = (ROWS, 4)) -> Path:
    """packed: a member that is one chunk of 512 MiB."""
    with h5py.File(path, "w") as file:
        for name, values in fields().items():
            if name != packed:
                file[name] = values
        if packed is not None:
            chunk, dtype = ((2**25, 4), "f4") if len(shape) == 2 else ((2**29,), "u1")
            most = (None, *shape[1:])
            member = file.create_dataset(packed, shape, dtype, maxshape=most, chunks=chunk, compression="gzip")
            member.id.write_direct_chunk((0,) * len(shape), zeros())
    return path


def links(path: Path) -> Path:
    with h5py.File(hdf5(path), "a") as file:
        file.create_dataset("x0", (ROWS, 2**24), "f4")  # never written
        for i in range(1, 12):
            file[f"x{i}"] = file["x0"]
    return path


def many(path: Path) -> Path:
    np.savez(path, **fields())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for i in range(10):
            with archive.open(f"y{i}.npy", "w") as file:
                np.lib.format.write_array(file, np.zeros((1, 2**24), np.float32))
    return path


def table(path: Path, *, store_schema: bool = True, **more: Any) -> Path:
    own = fields()
    cells = {**own, "observations": list(own["observations"]), "actions": own["actions"][:, 0], **more}
    pq.write_table(pa.table(cells), path, store_schema=store_schema)
    return path


def lists(path: Path) -> Path:
    """Empty ones first, so that none is large on average in the beginning."""
    offsets = np.r_[np.zeros(ROWS - 50), np.arange(51) * 3_000_000].astype(np.int32)
    return table(path, junk=pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.zeros(offsets[-1], np.float32))))


def words(path: Path) -> Path:
    """One long word in every row, which is stored once; plain text by the schema."""
    word = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), ["x" * 2**21])
    return table(path, store_schema=False, junk=word)


def one_list(path: Path) -> Path:
    """320 MiB in the first row, which do not pack into next to nothing, and a number in every other."""
    offsets = pa.array(np.r_[0, 80 * 2**20 + np.arange(ROWS)].astype(np.int32))
    values = np.tile(np.random.default_rng(0).integers(2, size=2**20).astype(np.float32), 81)
    return table(path, junk=pa.ListArray.from_arrays(offsets, pa.array(values[: 80 * 2**20 + ROWS - 1])))


def one_text(path: Path) -> Path:
    """The same as text; an end of a few words in each other row."""
    blocks = np.random.default_rng(0).integers(2, size=2**17)
    long = "".join(("goal" if block else "time") * 8 for block in blocks) * 80
    return table(path, junk=[long, *["goal"] * (ROWS - 1)])


def look(path: Path, how: str = "rows") -> Any:
    """What a look in a process of its own says; that it takes little memory is seen to."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(path), how],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said, taken = json.loads(done.stdout)
    assert taken < MOST
    return said


@needs_proc
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (links, "links.h5"),
        (lambda path: hdf5(path, "junk"), "junk.h5"),
        (many, "many.npz"),
        (lists, "lists.parquet"),
        (words, "words.parquet"),
        (one_list, "one_list.parquet"),
        (one_text, "one_text.parquet"),
    ],
)
def test_what_is_not_used_is_not_unpacked(make: Callable[[Path], Path], name: str, tmp_path: Path) -> None:
    path = make(tmp_path / name)
    said = look(path)
    assert {field: said[field] for field in FIELDS} == dict.fromkeys(FIELDS, ROWS)
    assert len(TransitionDataset.load(path)) == ROWS


@needs_proc
@pytest.mark.parametrize(("packed", "shape"), [("observations", (ROWS, 4)), ("terminations", (ROWS,))])
def test_a_field_is_refused_as_its_reader_would(packed: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = hdf5(tmp_path / "log.h5", packed, shape)
    with pytest.raises(DataError) as refused:
        TransitionDataset.load(path)
    assert look(path) == str(refused.value).removeprefix(f"{path}: ")
    assert "packed to mislead" in str(refused.value)


@needs_proc
def test_where_names_are_asked_for_nothing_is_unpacked(tmp_path: Path) -> None:
    assert look(hdf5(tmp_path / "log.h5", "terminations", (ROWS,)), "names") == "fine"


@pytest.mark.parametrize(
    "odd",
    [
        pa.array([{"a": 1.0}] * ROWS),
        pa.array(range(ROWS), pa.timestamp("us", tz="Mars/Olympus")),
        pa.array([["x"]] * ROWS),
        pa.array([b"\xff"] * ROWS),
        pa.array([[1.0], [1.0, 2.0]] * (ROWS // 2)),
    ],
    ids=["structs", "time zone", "lists of text", "bytes", "ragged"],
)
def test_an_odd_column_that_is_not_used(odd: Any, command: Any, tmp_path: Path) -> None:
    table(tmp_path / "log.parquet", side=odd)
    code, out, err = command("init", "log.parquet", "-o", "c.yaml")
    assert (code, err) == (0, "")
    assert "  not used      side\n" in out
    assert command("data", "check", "-c", "c.yaml").code == 0


def test_arrays_stored_by_columns(command: Any, tmp_path: Path) -> None:
    """None of their rows is looked at."""
    np.savez(tmp_path / "log.npz", **{name: np.asfortranarray(values) for name, values in fields().items()})
    code, out, err = command("init", "log.npz", "-o", "c.yaml")
    assert (code, err) == (0, "")
    assert "  obs           observations (so named)\n" in out


def test_large_rows_are_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lists that are stored as they are; all columns have as many."""
    monkeypatch.setattr("rl_training.data.formats.looks._LARGEST_LOOK", 2**20)
    wide = np.random.default_rng(0).standard_normal((ROWS, 2_000), np.float32)
    found = peek(table(tmp_path / "log.parquet", wide=list(wide)), 5_000).columns
    (rows,) = {len(values) for values in found.values()}
    assert 20 < rows <= 2**20 // (4 * 2_000)
    assert np.array_equal(found["wide"], wide[:rows])


def test_a_text_without_end_is_not_searched(tmp_path: Path) -> None:
    """Where a column is read to its end, one text of it may lie beyond the rows that were looked at."""
    long = table(tmp_path / "log.parquet", note=[None] * (ROWS - 1) + ["x" * 2**21])
    with pytest.raises(DataError, match=r"^column 'note': holds a text of more than 256 bytes, and is not read to its"):
        texts_of(long, "parquet", ["note"])
    assert rare_texts(long, "parquet", {"note": np.full(ROWS, None)}) == {}
    short = table(tmp_path / "short.parquet", note=[None] * (ROWS - 1) + ["x" * 250])
    texts = texts_of(short, "parquet", ["note"])["note"]
    assert {text: found.rows for text, found in texts.items()} == {"": ROWS - 1, "x" * 250: 1}


def test_several_groups_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_look, "_BATCH", 7)
    own = fields()
    cells = {name: own[name] for name in FIELDS[2:]}
    pq.write_table(
        pa.table({**cells, "word": [f"w{i % 3}" for i in range(ROWS)]}), tmp_path / "log.parquet", row_group_size=30
    )
    found = peek(tmp_path / "log.parquet", 100)
    assert (found.rows, found.episodes) == (ROWS, ROWS // 50)
    assert found.columns["rewards"].tolist() == own["rewards"][:100].tolist()
    assert found.columns["word"].tolist() == [f"w{i % 3}" for i in range(100)]
