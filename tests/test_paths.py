"""Places in the words of a user that no file could ever have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import ConfigError, DataError
from rl_training.paths import user_path
from rl_training.runtime.config import TrainConfig

IMPOSSIBLE = {
    "~nobody-of-this-name/x": "there is no home folder for ~nobody-of-this-name",
    "a\0b": "must not contain a null character",
    "x" * 300: "has a name of more than 255 bytes in it",
}


@pytest.mark.parametrize(("place", "reason"), IMPOSSIBLE.items(), ids=["home", "null", "long"])
class TestImpossiblePlaces:
    def test_by_itself(self, place: str, reason: str) -> None:
        with pytest.raises(ValueError, match=f"^{reason}$"):
            user_path(place)

    def test_for_runs(self, place: str, reason: str) -> None:
        values: dict[str, Any] = {"algo": "bc", "total_timesteps": 1, "runs_dir": place}
        with pytest.raises(ConfigError, match=f"runs_dir: {reason}"):
            TrainConfig.parse(values)

    def test_of_data(self, place: str, reason: str) -> None:
        with pytest.raises(DataError, match=reason):
            TransitionDataset.load(place)


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/log.csv") == tmp_path / "log.csv"
