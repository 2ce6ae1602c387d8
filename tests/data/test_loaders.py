"""The `dataset:` section: what it accepts, what it loads, what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from rl_training.data.dataset_loaders import (
    DatasetConfig,
    FileDatasetConfig,
    MinariDatasetConfig,
    RandomDatasetConfig,
    ScriptedDatasetConfig,
    data_notices,
    infer_spaces,
    load_dataset,
)
from rl_training.data.generation import generate_pendulum_dataset, generate_random_dataset
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces
from rl_training.errors import ConfigError, DataError

PENDULUM_SPACES = Spaces(3, (-2.0,), (2.0,))
SECTION: TypeAdapter[DatasetConfig] = TypeAdapter(DatasetConfig)


def dataset(actions: Any, obs_dim: int = 3) -> TransitionDataset:
    rows = len(actions)
    return TransitionDataset.from_dict(
        {
            "obs": np.zeros((rows, obs_dim)),
            "actions": actions,
            "rewards": np.zeros(rows),
            "next_obs": np.zeros((rows, obs_dim)),
            "terminations": np.zeros(rows),
        }
    )


def refusal(config: DatasetConfig, env_id: str | None = "Pendulum-v1", spaces: Spaces | None = None) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        load_dataset(config, env_id, spaces)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_source_chooses_the_section() -> None:
    assert SECTION.validate_python({"source": "scripted"}) == ScriptedDatasetConfig(size=40_000, seed=0)
    assert SECTION.validate_python({"source": "random", "size": 5}) == RandomDatasetConfig(size=5, seed=0)
    assert SECTION.validate_python({"source": "file", "path": "a.npz"}) == FileDatasetConfig(path=Path("a.npz"))


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({"source": "d4rl"}, "'scripted', 'random', 'file', 'minari'"),
        ({"source": "minari"}, "Field required"),
        ({"source": "minari", "id": ""}, "at least 1 character"),
        ({"source": "file", "path": "a.csv", "dones_are": "limits"}, "'terminations', 'truncations' or 'ends'"),
        ({"source": "random", "size": 0}, "greater than or equal to 1"),
        ({"source": "scripted", "seed": -1}, "greater than or equal to 0"),
        ({"source": "scripted", "path": "a.npz"}, "Extra inputs are not permitted"),
        ({"source": "file"}, "Field required"),
    ],
)
def test_sections_are_validated(section: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SECTION.validate_python(section)


SECTIONS = [ScriptedDatasetConfig, RandomDatasetConfig, FileDatasetConfig, MinariDatasetConfig]


@pytest.mark.parametrize("config", SECTIONS)
def test_every_option_is_described(config: Any) -> None:
    assert all(field.description for field in config.model_fields.values())


def test_generated_sources() -> None:
    scripted = load_dataset(ScriptedDatasetConfig(size=300, seed=3), "Pendulum-v1", PENDULUM_SPACES)
    assert scripted.fingerprint() == generate_pendulum_dataset(300, 3).fingerprint()
    random = load_dataset(RandomDatasetConfig(size=300, seed=3), "Pendulum-v1", None)
    assert random.fingerprint() == generate_random_dataset("Pendulum-v1", 300, 3).fingerprint()


def test_sources_that_do_not_fit_the_environment() -> None:
    assert refusal(ScriptedDatasetConfig(), "Hopper-v5") == (
        "dataset.source: 'scripted' has no policy for 'Hopper-v5', only for 'Pendulum-v1'; use source: random"
    )
    assert refusal(RandomDatasetConfig(), None) == (
        "dataset.source: 'random' runs an environment; set env_id, or use source: file or minari"
    )


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = dataset([[-2.0], [1.0]])
    saved.save(tmp_path / "data.npz")
    config = FileDatasetConfig(path=tmp_path / "data.npz")
    assert load_dataset(config, "Pendulum-v1", PENDULUM_SPACES).fingerprint() == saved.fingerprint()
    monkeypatch.setenv("HOME", str(tmp_path))
    at_home = FileDatasetConfig(path=Path("~/data.npz"))
    assert load_dataset(at_home, None, None).fingerprint() == saved.fingerprint()


@pytest.mark.parametrize(
    ("wanted", "suggested"),
    [
        ("hoper.hdf5", "; did you mean 'hopper.hdf5' or 'Hopper-2.parquet'?"),
        ("hopper.npz", "; did you mean 'hopper.hdf5' or 'Hopper-2.parquet'?"),
        ("walker_log", "; did you mean 'walker_logs'?"),
        ("b.csv", ""),  # only the ending is like those of others
        ("x.hdf5", ""),
        ("notes.npz", ""),  # notes.txt is no dataset
    ],
)
def test_names_that_are_suggested(wanted: str, suggested: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hopper.hdf5", "Hopper-2.parquet", "a.csv", "notes.txt", ".hoper.hdf5"):
        (tmp_path / name).touch()
    for name in ("walker_logs", "hopper.npz.partial"):
        (tmp_path / name).mkdir()
    assert refusal(FileDatasetConfig(path=tmp_path / wanted)) == f"{tmp_path / wanted}: no such file{suggested}"
    monkeypatch.chdir(tmp_path)
    place = suggested or f" (relative paths start at {tmp_path})"
    assert refusal(FileDatasetConfig(path=Path(wanted))) == f"{wanted}: no such file{place}"


def test_files_that_are_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "dta.npz"
    assert refusal(FileDatasetConfig(path=missing)) == f"{missing}: no such file"
    dataset([[0.0]]).save(tmp_path / "data.npz")
    dataset([[0.0]]).save(tmp_path / "other.npz")
    assert refusal(FileDatasetConfig(path=missing)) == f"{missing}: no such file; did you mean 'data.npz'?"
    lost = tmp_path / "none" / "data.npz"
    assert refusal(FileDatasetConfig(path=lost)) == (
        f"{lost}: no such file (folder {str(lost.parent)!r} does not exist)"
    )


@pytest.mark.parametrize("name", ["n" * 5000, "d/" * 3000 + "log.npz", "nul\0.npz"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    reasons = "(cannot be read: File name too long|has a name of more than 255 bytes in it|a null character)$"
    assert re.search(reasons, refusal(FileDatasetConfig(path=path)))
    with pytest.raises(DataError, match=reasons):
        TransitionDataset.load(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "it is empty; write it anew"),
        (b'{"obs": [1, 2]}', "it is JSON; write it as CSV or Parquet"),
        (b"one word\n", r"it begins with b'one word'"),
        (b"a,b\0\n", r"it begins with b'a,b\x00\n'"),
    ],
)
def test_other_formats(content: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    path.write_bytes(content)
    assert refusal(FileDatasetConfig(path=path)) == (
        f"{path}: not a dataset in a format this version reads (NumPy archive (.npz), HDF5, Parquet, CSV): {found}"
    )


def test_folders_of_something_else(tmp_path: Path) -> None:
    known = "not a folder this version reads (a column directory, a Minari dataset, Parquet files, CSV files)"
    assert refusal(FileDatasetConfig(path=tmp_path)) == f"{tmp_path}: {known}: it holds nothing"
    (tmp_path / "notes.txt").write_text("x")
    assert refusal(FileDatasetConfig(path=tmp_path)) == f"{tmp_path}: {known}: it holds notes.txt"


def test_widths_and_bounds_are_held_to_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    config = FileDatasetConfig(path=path)
    dataset([[0.0], [2.5]]).save(path)
    assert refusal(config, spaces=PENDULUM_SPACES) == (
        f"{path}: actions: 2.5 at row 1, column 0 (episode 0, step 1) is outside the bounds [-2, 2]"
        " of environment 'Pendulum-v1'"
    )
    assert len(load_dataset(config, "Pendulum-v1", None)) == 2
    dataset([[0.0, 1.0]]).save(path)
    assert refusal(config, spaces=PENDULUM_SPACES) == (
        f"{path}: actions have 2 columns, but environment 'Pendulum-v1' has 1"
    )
    dataset([[0.0]], obs_dim=4).save(path)
    assert (
        refusal(config, None, PENDULUM_SPACES) == f"{path}: observations have 4 columns, but the expected space has 3"
    )


def test_inferred_spaces() -> None:
    assert infer_spaces(dataset([[0.25, -1.0], [0.5, 0.0]])) == Spaces(3, (-1.0, -1.0), (1.0, 1.0))
    assert infer_spaces(dataset([[1.0 + 1e-5]])) == Spaces(3, (-1.0,), (1.0,))
    assert infer_spaces(dataset([[0.25, -1.0], [3.0, 0.0]])) == Spaces(3, (0.25, -1.0), (3.0, 0.0))
    told = r"^actions: column 1 is always 7, so its bounds cannot be inferred; leave it out, give action_low and"
    with pytest.raises(DataError, match=told):
        infer_spaces(dataset([[0.0, 7.0], [3.0, 7.0]]))


def test_another_environment_than_the_data_name_is_told() -> None:
    recorded = generate_pendulum_dataset(400, 0)
    assert data_notices(recorded, "Pendulum-v1") == []
    said = "the data were recorded in Pendulum-v1, as they say themselves, not in Hopper-v4"
    assert data_notices(recorded, "Hopper-v4") == [said]


def test_time_limits_of_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    recorded = replace(generate_pendulum_dataset(600, 0), next_actions=None)
    recorded.save("minari:own/log-v0")
    as_d4rl = MinariDatasetConfig(id="own/log-v0", time_limits="d4rl")
    assert len(load_dataset(MinariDatasetConfig(id="own/log-v0"), None, None)) == 600
    assert len(load_dataset(as_d4rl, None, None)) == 600 - recorded.n_episodes
