"""A file is closed as soon as no more is wanted of it, whoever still holds on to what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rl_training.data.formats import csv_text, plain_csv, whole_columns
from rl_training.data.formats.peek import peek
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError

HEADER = "episode,s,action,reward,done\n"
ROWS = [f"{row // 50},{row}.5,0.5,{row},{int(row % 50 == 49)}\n" for row in range(20_000)]
COLUMNS = {"obs": ["s"], "actions": ["action"], "rewards": "reward", "terminations": "done"}


@pytest.fixture(autouse=True)
def held_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Generators that nobody lets go of, as a debugger or another Python would have it; then whether files are open."""
    opened: list[Any] = []
    rows, blocks = csv_text.rows, plain_csv._blocks_of_rows

    def kept(make: Callable[..., Any]) -> Callable[..., Any]:
        def keeping(*args: Any, **options: Any) -> Any:
            opened.append(make(*args, **options))
            return opened[-1]

        return keeping

    monkeypatch.setattr(csv_text, "rows", kept(rows))
    monkeypatch.setattr(plain_csv, "_blocks_of_rows", kept(blocks))
    yield opened
    assert opened
    assert all(table.gi_frame is None for table in opened)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_cell_that_is_no_number(tmp_path: Path) -> None:
    rows = [*ROWS]
    rows[7] = '0,"x",0.5,1,0\n'
    with pytest.raises(DataError, match="line 9"):
        TransitionDataset.load(write(tmp_path / "log.csv", HEADER + "".join(rows)), columns=COLUMNS)


def test_columns_of_one_name_that_differ(tmp_path: Path) -> None:
    text = "s,s,action,reward,done\n" + "1,2,0,0,0\n" * 50
    with pytest.raises(DataError, match="line 2 has"):
        TransitionDataset.load(write(tmp_path / "log.csv", text), columns=COLUMNS)


def test_a_row_that_is_too_short(tmp_path: Path) -> None:
    text = HEADER + '0,"1",0.5,0,0\n' * 9 + "0,1\n" + '0,"1",0.5,0,0\n' * 9
    with pytest.raises(DataError, match="line 11 has 2 values"):
        TransitionDataset.load(write(tmp_path / "log.csv", text), columns=COLUMNS)


def test_the_first_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", HEADER + "".join(ROWS))
    assert len(peek(path, 10).columns["s"]) == 10


def test_steps_that_are_no_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "step,s\n" + "x,1\n" * 20_000)
    assert whole_columns.rows_before_restarts(path, "csv", "step") == set()


def test_texts_of_too_many_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_columns, "_MOST_CELLS", 100)
    path = write(tmp_path / "log.csv", HEADER + "".join(ROWS))
    assert whole_columns.texts_of(path, "csv", ["s"])["s"]
