"""`998;999;1.000;1.001`: whole numbers whose thousands stand apart by a point, and decimals that are none of these."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset

LEVELS = [*range(985, 1015), *range(1014, 984, -1)]


@pytest.fixture(params=[True, False], autouse=True)
def with_pyarrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def write(path: Path, obs: Sequence[str]) -> Path:
    rows = [f"{value};{i % 3};1;{int(i == len(obs) - 1)}" for i, value in enumerate(obs)]
    path.write_text("\n".join(["obs;action;reward;done", *rows, ""]), encoding="utf-8")
    return path


def in_german(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def asked(dataset: TransitionDataset) -> list[str]:
    return [note for note in dataset.notes if "thousands" in note]


@pytest.mark.parametrize("sign", [1, -1])
def test_are_asked_about(sign: int, tmp_path: Path) -> None:
    dataset = TransitionDataset.load(write(tmp_path / "log.csv", [in_german(sign * level) for level in LEVELS]))
    minus = "-" if sign < 0 else ""
    assert asked(dataset) == [
        f"warning: column 'obs': '{minus}1.000' and all others with a point have three digits behind it, beside whole"
        " numbers from 985 to 999: read as decimals; if they are thousands, write them without a point"
    ]
    assert dataset.obs[15, 0] == sign


@pytest.mark.parametrize(
    ("other", "reading"),
    [
        ("", {}),
        ("0", {}),
        ("0.0", {}),
        ("0.000", {}),
        ("inf", {"missing": "drop"}),
        ("-9999", {"missing": "drop", "missing_words": ["-9999"]}),
        ("ERR", {"missing": "drop", "missing_words": ["ERR"]}),
        ("low", {"words": {"obs": {"low": 5000}}}),
    ],
)
def test_other_cells_hide_none(other: str, reading: dict[str, Any], tmp_path: Path) -> None:
    obs = [in_german(level) for level in LEVELS]
    reading = {"missing": "drop"} | reading if not other else reading
    path = write(tmp_path / "log.csv", [*obs[:30], other, *obs[30:]])
    assert len(asked(TransitionDataset.load(path, columns={"obs": "obs"}, **reading))) == 1


def test_nor_do_signs(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [f"{in_german(level)} €" for level in LEVELS])
    assert len(asked(TransitionDataset.load(path))) == 1


def test_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("".join(["t;obs;action;reward;done\n", *(f"{in_german(t)};1;1;1;0\n" for t in range(985, 1015))]))
    dataset = TransitionDataset.load(path, columns={"step": "t"})
    assert ["column 't'" in note for note in asked(dataset)] == [True]


@pytest.mark.parametrize("column", ["obs", "t"])
def test_in_texts_of_other_tables(column: str, tmp_path: Path) -> None:
    texts = np.array([in_german(level) for level in LEVELS[:30]], dtype=object)
    table = {"obs": np.arange(30.0), "action": np.zeros(30), "reward": np.ones(30), "done": np.zeros(30)}
    table |= {"t": np.arange(30), column: texts}
    assert len(asked(TransitionDataset.from_table(table, {"step": "t"}))) == 1
    if sys.modules.get("pyarrow", True) is None:
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    assert len(asked(TransitionDataset.load(tmp_path / "log.parquet", columns={"step": "t"}))) == 1


def test_the_ways_out(tmp_path: Path) -> None:
    whole = TransitionDataset.load(write(tmp_path / "whole.csv", list(map(str, LEVELS))))
    assert whole.obs[:, 0].tolist() == LEVELS
    assert not asked(whole)
    alike = [f"{level}.000" if level < 1000 else in_german(level) for level in LEVELS]
    assert TransitionDataset.load(write(tmp_path / "alike.csv", alike)).obs[15, 0] == 1.0


@pytest.mark.parametrize(
    "obs",
    [
        [*map(str, range(330, 341)), "333.993", "335.125"],
        [*map(str, range(100, 210, 10)), *(f"{value:.3f}" for value in np.linspace(99, 211, 50))],
        [f"{value:g}" for value in np.arange(20, 900, 0.125) if value * 4 % 1 or value % 1 == 0],
        ["0.998", "0.999", "1.000", "1.001"] * 9,
        [f"{1 + i / 1000:.3f}" for i in range(40)],
        [f"{1 + i / 1000:.3f}" for i in range(40)] + ["999"] * 5,
        [*map(str, range(100, 140)), "1.5", "1.25", "1.125"],
        [*map(str, range(100, 140)), "0.125"],
        [*map(str, range(100, 140)), "1.125", "1000"],
        [*map(str, range(100, 140)), "1.1250"],
        [f"{value:.4g}" for value in np.random.default_rng(0).uniform(1, 999, 200)],
        [str(round(float(value), 3)) for value in np.linspace(90, 990, 120)],
        [f"{value:g}" for value in np.arange(100, 200, 0.125)],
    ],
    ids=[
        "between",
        "set points",
        "odd eighths",
        "below one",
        "all pointed",
        "a mark",
        "fewer digits",
        "zero",
        "above 999",
        "more digits",
        "4g",
        "rounded",
        "g",
    ],
)
def test_decimals_are_read(obs: list[str], tmp_path: Path) -> None:
    dataset = TransitionDataset.load(write(tmp_path / "log.csv", obs))
    assert dataset.obs[:, 0].tolist() == np.array(obs, dtype=np.float32).tolist()
    assert not asked(dataset)
