"""`998;999;1.000;1.001`: whole numbers whose thousands stand apart by a point, and decimals that are none of these."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

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


@pytest.mark.parametrize("sign", [1, -1])
def test_are_refused(sign: int, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [in_german(sign * level) for level in LEVELS])
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    minus = "-" if sign < 0 else ""
    assert str(caught.value) == (
        f"{path}: column 'obs': '{minus}1.000' at row 15 may be a thousand, as every number with a point has three"
        f" digits behind it, and none without one is above 999; write {minus}1000, or, if these are decimals,"
        f" {minus}985.000 in place of {minus}985 as well"
    )


def test_the_ways_out(tmp_path: Path) -> None:
    whole = TransitionDataset.load(write(tmp_path / "whole.csv", list(map(str, LEVELS))))
    assert whole.obs[:, 0].tolist() == LEVELS
    alike = [f"{level}.000" if level < 1000 else in_german(level) for level in LEVELS]
    assert TransitionDataset.load(write(tmp_path / "alike.csv", alike)).obs[15, 0] == 1.0


@pytest.mark.parametrize(
    "obs",
    [
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
