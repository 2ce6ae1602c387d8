"""Faults found after reading are named by the file's own row and column, whatever was sorted or left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset, mix_datasets, offline_dataset
from rl_training.data.batch import PackedTransitions
from rl_training.data.dataset_loaders import FileDatasetConfig, load_dataset
from rl_training.data.transforms import Transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError

FAULT = (2, 5)  # episode and step


@pytest.fixture
def shuffled(tmp_path: Path) -> tuple[Path, int]:
    """Four episodes of ten rows, last step first, and the row of the file that has an action and a reward far out."""
    rows = [(episode, step) for episode in range(4) for step in reversed(range(10))]
    lines = ["obs_0,force,reward,terminated,episode,step"]
    for episode, step in rows:
        force, reward = (99, 1e38) if (episode, step) == FAULT else (0.1, 1)
        lines.append(f"{step},{force},{reward},{int(step == 9)},{episode},{step}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, rows.index(FAULT)


def refusal(function: Any, *arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        function(*arguments)
    return str(caught.value)


def test_actions_outside_the_bounds(shuffled: tuple[Path, int]) -> None:
    path, row = shuffled
    config = FileDatasetConfig(path=path, columns={"actions": "force"})
    told = refusal(load_dataset, config, None, Spaces(1, (-2.0,), (2.0,)))
    place = f"row {row} of the file, column 'force' (episode named 2, step 5)"
    assert told == f"{path}: actions: 99 at {place} is outside the bounds [-2, 2] of the expected space"


def test_what_overflows_in_packing(shuffled: tuple[Path, int]) -> None:
    path, row = shuffled
    dataset = TransitionDataset.load(path, columns={"actions": "force"})
    steep = Transforms(None, None, 1e3, 0.0, (-99.0,), (99.0,))
    told = refusal(PackedTransitions.from_dataset, dataset, steep)
    place = f"row {row} of the file, column 'reward' (episode named 2, step 5)"
    assert told.startswith(f"rewards: inf at {place} once transforms are applied")
    mixed = mix_datasets({"a": dataset, "b": dataset})
    assert refusal(PackedTransitions.from_dataset, mixed, steep).startswith("rewards: inf at row 25 of the mixture (")


def test_selected_rows(shuffled: tuple[Path, int]) -> None:
    path, row = shuffled
    dataset = TransitionDataset.load(path, columns={"actions": "force"})
    selected = dataset.select(np.arange(20, 40)).select(np.arange(3, 20))
    assert f"at row {row} of the file, column 'force'" in refusal(selected.check_bounds, -2.0, 2.0)
    assert f"at row {row} of the file, column 'force'" in refusal(dataset.usable().check_bounds, -2.0, 2.0)


def test_arrays_in_memory_have_rows_of_their_own() -> None:
    rows = {"obs": np.zeros((3, 1)), "actions": np.array([[0.0], [5.0], [0.0]]), "rewards": np.zeros(3)}
    dataset = TransitionDataset.from_dict({**rows, "terminations": np.zeros(3)})
    told = "actions: 5 at row 1, column 0 (episode 0, step 1) is outside the bounds [-1, 1]"
    assert refusal(dataset.check_bounds, -1.0, 1.0) == told


@pytest.mark.parametrize("stored", [True, False])
def test_values_are_looked_at_once(stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"obs": np.zeros((9, 1)), "actions": np.zeros((9, 1)), "rewards": np.zeros(9), "terminations": np.zeros(9)}
    np.savez(tmp_path / "log.npz", **rows, **({"next_obs": np.zeros((9, 1))} if stored else {}))
    seen = []
    monkeypatch.setattr(offline_dataset, "check_transitions", seen.append)
    TransitionDataset.load(tmp_path / "log.npz")
    assert len(seen) == 1


def test_samples_have_no_stand_ins() -> None:
    rows = {"obs": np.arange(20.0)[:, None], "actions": np.zeros((20, 1)), "rewards": np.zeros(20)}
    ends = np.arange(20) % 5 == 4
    dataset = TransitionDataset.from_dict({**rows, "terminations": np.zeros(20), "truncations": ends})
    sampled = dataset.sample(200, np.random.default_rng(0))
    assert set(sampled.obs[:, 0]) == set(range(20)) - {4, 9, 14, 19}
    assert sampled.n_usable == 200
    nothing = dataset.select(np.array([4]))
    assert refusal(nothing.sample, 3, np.random.default_rng(0)).startswith("next_obs: no row has a recorded successor")
