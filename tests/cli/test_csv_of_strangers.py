"""CSV files made to take time or memory, and names made to be more than names."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutations import is_answered
from rl_training import yaml_dialect
from rl_training.cli.observation_files import read_observations
from rl_training.cli.typed_observations import typed
from rl_training.data.formats import csv_text, limits
from rl_training.data.formats.peek import peek
from rl_training.data.formats.raw import RawData
from rl_training.data.guessing import guess_fields
from rl_training.environments import NamedColumn
from rl_training.errors import DataError

TABLE = b"obs_0,obs_1,action,reward,terminal\n" + b"0.5,1,0.25,1,0\n" * 30
NO_NAMES = "\u202e", "\x1b[2J", "a\n  path: /etc/passwd", "b\r\n\r\nalgo: bc", "\x85", "c\u2028d", "\ufeff", "#\n"


def bomb(path: Path, repeated: bytes, mebibytes: int) -> Path:
    """A small file that unpacks to a table and so many bytes after it."""
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(TABLE))
        for _ in range(mebibytes):
            file.write(packer.compress(repeated * (2**20 // len(repeated))))
        file.write(packer.flush())
    return path


@pytest.mark.parametrize(
    ("repeated", "told"),
    [
        (b"1", "line 32: is longer than 67,108,864 characters; no row of a table is"),
        (b"\n", "line 1,000,032: more than 1,000,000 empty lines in a row; leave them out"),
    ],
)
def test_a_first_look_at_a_bomb(repeated: bytes, told: str, tmp_path: Path) -> None:
    path = bomb(tmp_path / "log.csv.gz", repeated, 100)
    assert not is_answered(lambda: peek(path, 1_000), told)
    with pytest.raises(DataError) as refused:
        peek(path, 1_000)
    assert str(refused.value) == told


def test_more_is_never_unpacked_than_the_file_deserves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_ALWAYS_FINE", 2**20)
    path = bomb(tmp_path / "log.csv.gz", b"1,2,3,4,0\n", 20)
    read = []

    def unpack() -> None:
        with csv_text.open_bytes(path) as file:
            while block := file.read(2**16):
                read.append(len(block))

    with pytest.raises(DataError, match=r"of values but stores .*: they were never written, or packed to mislead"):
        unpack()
    assert sum(read) <= limits.most_unpacked(path.stat().st_size)
    with pytest.raises(DataError, match="packed to mislead"):
        peek(path, 10)


def test_observations_are_held_to_what_they_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "o.csv").write_bytes(gzip.compress(b"x,y\n" + b"0,0\n" * 2**18))
    assert len(read_observations(tmp_path / "o.csv")[0]) == 2**18
    monkeypatch.setattr(limits, "free_memory", lambda: 10 * 2**20)
    with pytest.raises(DataError, match=r"o\.csv: needs 15\.0 MiB of memory to be read, but only 10\.0 MiB are free"):
        read_observations(tmp_path / "o.csv")


def test_several_members_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(TABLE[:50]) + gzip.compress(TABLE[50:]) + bytes(100))
    assert peek(tmp_path / "log.csv.gz", 5).rows == 30


def test_a_whole_number_that_python_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(",title\n" + "1" * 5_000 + ",2,3\n1,2,3\n4,5,6\n")
    assert csv_text.layout_of(tmp_path / "log.csv").names == ["column_0", "column_1", "column_2"]


def test_thousands_of_columns() -> None:
    names = [f"obs_{i}" for i in range(12_000)]
    columns = {name: np.zeros(2) for name in names} | {"action": np.ones(2), "reward": np.ones(2)}
    raw = RawData({}, "", columns={"obs": [(name, 1) for name in names]})

    def guessed() -> None:
        assert guess_fields(columns).fields[0].columns == tuple(names)
        assert raw.names_of("obs", len(names)) == tuple(names)

    assert is_answered(guessed, "many columns")


def test_names_of_wide_columns() -> None:
    raw = RawData({}, "", columns={"obs": [("x", 1), ("y", 2)]})
    assert raw.names_of("obs", 3) == ("x", "y[0]", "y[1]")
    assert raw.names_of("obs", 2) == ("x", "y[0]")
    assert raw.names_of("obs", 4) is None


@pytest.mark.parametrize("value", [*NO_NAMES, [*NO_NAMES, "é", 1.5, None, True, "3e-4"], {"a\n": "b"}])
def test_a_value_stays_in_its_line(value: Any) -> None:
    assert yaml_dialect.inline(value).isprintable()
    assert yaml_dialect.read(yaml_dialect.inline(value)) == value


def test_a_configuration_says_nothing_that_a_column_is_named(command: Any, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = {name: np.linspace(0, 1, 40) + place for place, name in enumerate(NO_NAMES)}
    done = {"action": np.linspace(-1, 1, 40), "reward": np.linspace(0, 1, 40), "done": np.arange(40) % 10 == 9}
    pq.write_table(pa.table(numbers | done), tmp_path / "log.parquet")
    assert command("init", tmp_path / "log.parquet", "-o", tmp_path / "c.yaml").code == 0
    text = (tmp_path / "c.yaml").read_text("utf-8")
    assert all(line.isprintable() for line in text.split("\n"))
    assert yaml_dialect.read(text)["dataset"]["path"].endswith("log.parquet")
    assert yaml_dialect.read(text)["algo"] == "iql"


def test_a_reason_of_any_length_can_be_filled_in(command: Any, tmp_path: Path) -> None:
    reasons = ["z" * 3_000, "crash", "", "<<: x"]
    rows = [f"{i // 3},{i / 7},{i / 9},{(i % 5) / 5},1,{reasons[i // 3 % 4] if i % 3 == 2 else ''}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["episode,speed,angle,action,reward,end_reason", *rows]))
    assert command("init", tmp_path / "log.csv", "-o", tmp_path / "c.yaml").code == 0
    told = yaml_dialect.read((tmp_path / "c.yaml").read_text("utf-8"))["dataset"]["end_reasons"]
    assert set(told) == set(reasons) - {""}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x=[],y=1", "column 'x' must be one number, got '[]'"),
        ("x=1 2,y=1", "column 'x' must be one number, got '1 2'"),
        ("x=1,y=1,x=2", "column 'x' is given twice"),
        ("x=1\nz,y=1", "cannot be split at its commas"),
        ("x=" + "1" * 200_000, "cannot be split at its commas"),
        ("x=1,y", "'y' is not NAME=VALUE; a word with a comma"),
        ("x=1", "lacks y; expected x, y"),
    ],
)
def test_observations_by_name(text: str, told: str) -> None:
    with pytest.raises(DataError) as refused:
        typed(text, [NamedColumn("x", 0.0, 1.0), NamedColumn("y", 0.0, 1.0)])
    assert told in str(refused.value)
