"""Texts of several columns of a table, counted to their end together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_training.data.formats import csv_text, whole_columns
from rl_training.data.formats.whole_columns import texts_of

ROWS = 1_200  # of more than two blocks
WORDS = {"door": ("shut", "open"), "mode": ("heat", "cool", "dry")}


@pytest.fixture
def columns() -> dict[str, list[str]]:
    return {name: [words[row % len(words)] for row in range(ROWS)] for name, words in WORDS.items()}


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = [",".join(row) for row in zip(*columns.values(), strict=True)]
        path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return path


def counts(path: Path) -> dict[str, dict[str, int]]:
    found = texts_of(path, path.suffix[1:], list(WORDS))
    return {name: {text: own.rows for text, own in texts.items()} for name, texts in found.items()}


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
class TestTextsOf:
    def test_every_text_with_its_first_row(self, name: str, columns: dict[str, list[str]], tmp_path: Path) -> None:
        columns["door"][-1] = "wide"
        path = write(tmp_path / name, columns)
        door = {"shut": ROWS // 2, "open": ROWS // 2 - 1, "wide": 1}
        assert counts(path) == {"door": door, "mode": dict.fromkeys(WORDS["mode"], ROWS // 3)}
        wide = texts_of(path, path.suffix[1:], ["door"])["door"]["wide"]
        assert (wide.cell, wide.file, wide.row) == ("wide", path, ROWS - 1)

    def test_no_more_is_read_than_a_bound(
        self, name: str, columns: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(whole_columns, "_MOST_CELLS", 1_000)
        assert counts(write(tmp_path / name, columns))["door"] == {"shut": 250, "open": 250}


def test_the_file_is_read_once(columns: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = write(tmp_path / "log.csv", columns), []
    rows = csv_text.rows
    monkeypatch.setattr(csv_text, "rows", lambda *given, **said: opened.append(given) or rows(*given, **said))
    counts(path)
    assert len(opened) == 1
