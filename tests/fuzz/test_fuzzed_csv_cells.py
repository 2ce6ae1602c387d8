"""The two readers of CSV files agree, whatever stands in the cells."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.formats import csv
from rl_training.data.formats.csv_text import Layout, layout_of
from rl_training.errors import DataError
from rl_training.reading_choices import TableChoices

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra `parquet` has it)")

PIECES = [
    '"', '""', " ", "\t", "0x1f", "-0x1", "0X", "nan(1)", "nAn()", "nan", '5" pipe', "10x", "1", "-2.5", "007", "+1",
    "1_0", "inf", "-Infinity", "1e400", "1e5", "", "x", "é", "\ufeff", "(", ",", ";", '"a,b"', '"x""y"', '"7"', '" 8 "',
    "true", "FALSE", "2024-01-01", "08:15:00", "\r", "\n", "\0", ".5", "5.", "0x", "9" * 20, "\x0b", "\xa0", "#", "NA",
    "NULL", "-", "1.234,5", "0,5", "2024-01-01T00:00:00Z",
]  # fmt: skip
HEADER = ("id", "x", "u", "r", "why", "junk")
COLUMNS = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "id", "end_reasons": "why"}
CHOICES = TableChoices(end_reasons={"a": "termination"})
TEXTS = ("id", "why")
FILES = 1_500


def cell(draw: random.Random, column: str, calm: float) -> str:
    if column != "junk" and draw.random() < calm:
        return {"id": "1", "why": ""}.get(column, draw.choice(["1", "-2.5", "3", "0"]))
    text = "".join(draw.choices(PIECES, k=draw.choice([0, 1, 1, 1, 2, 3])))
    return '"' + text.replace('"', '""') + '"' if draw.random() < 0.3 else text


def write(path: Path, draw: random.Random) -> None:
    separator, calm = draw.choice(",,;\t|"), draw.choice([0.5, 0.8, 0.95, 1.0])
    rows = [[cell(draw, column, calm) for column in HEADER] for _ in range(draw.randint(1, 12))]
    lines = draw.choice([[], [], ['# 0x1f "said']]) + [separator.join(row) for row in [HEADER, *rows]]
    text = draw.choice(["\n", "\n", "\r\n"]).join(lines) + draw.choice(["", "\n"])
    path.write_text(text, encoding=draw.choice(["utf-8", "utf-8-sig"]), newline="")


def answer(reader: Any, path: Path, layout: Layout) -> Any:
    """The values of every column, None where the reader leaves the file to the other, a text where it is refused."""
    try:
        found = reader(path, layout, csv.planned_columns(layout, COLUMNS, CHOICES, [path]))
    except (DataError, UnicodeDecodeError) as error:
        return str(error)
    if found is None:
        return None
    return {
        name: [value or "" for value in values.tolist()] if name in TEXTS else values.astype(np.float64).tolist()
        for name, values in found.items()
    }


def test_readers_agree(tmp_path: Path) -> None:
    path, answers = tmp_path / "a.csv", Counter[str]()
    for seed in range(FILES):
        write(path, random.Random(seed))
        try:
            layout = layout_of(path)
        except DataError:
            continue
        fast = answer(csv._read_fast, path, layout)
        if fast is None:
            continue
        plain = answer(csv._read_plainly, path, layout)
        refused = isinstance(fast, str)
        assert refused == isinstance(plain, str), (seed, path.read_bytes())
        if not refused:
            np.testing.assert_equal(fast, plain, f"seed {seed}: {path.read_bytes()!r}")
        answers["refused" if refused else "read"] += 1
    assert min(answers["refused"], answers["read"]) > FILES / 20
