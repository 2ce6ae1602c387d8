"""Places in the words of a user that no file could ever have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rl_training
from rl_training.data import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.experiment.config import read_config
from rl_training.paths import in_shell, resolved, user_path
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_description import read_description, read_plain_config
from rl_training.runtime.trainer import train

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


def test_a_file_larger_than_any_that_people_write_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "c.yaml").open("wb") as file:
        file.truncate(10**12)  # a hole: nothing is stored
    with pytest.raises(ConfigError, match=r"c\.yaml: cannot be read \(1,000,000,000,000 bytes; at most 4,194,304 are"):
        read_config(str(tmp_path / "c.yaml"))
    for name in ("run.json", "config.yaml"):
        (tmp_path / "c.yaml").rename(tmp_path / name)
        with pytest.raises(CheckpointError, match=rf"{name}: cannot be read \(1,000,000,000,000 bytes"):
            {"run.json": read_description, "config.yaml": read_plain_config}[name](tmp_path)
        (tmp_path / name).rename(tmp_path / "c.yaml")


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/log.csv") == tmp_path / "log.csv"


@pytest.mark.parametrize(
    ("path", "word"), [("runs/a", "runs/a"), ("-r/a b", "'./-r/a b'"), (Path("-r"), "./-r"), ("a'b", "'a'\"'\"'b'")]
)
def test_words_of_a_command_can_be_pasted(path: Path | str, word: str) -> None:
    assert in_shell(path) == word


def test_links_in_a_circle_are_told_when_they_are_opened(tmp_path: Path) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert resolved(loop) == loop
    config = TrainConfig.parse({"algo": "bc", "total_timesteps": 1, "runs_dir": tmp_path, "dataset": str(loop)})
    with pytest.raises(DataError, match=r"loop\.csv: cannot be read: Too many levels of symbolic links$"):
        train(config)


def test_links_are_followed_in_one_place() -> None:
    """`Path.resolve` fails on links in a circle. Where a folder has been opened already, it cannot."""
    package = Path(rl_training.__file__).parent
    using = {
        str(file.relative_to(package)) for file in package.rglob("*.py") if ".resolve()" in file.read_text("utf-8")
    }
    assert using == {"paths.py", "data/offline_dataset.py"}
