"""`missing: drop`: rows with a missing value go, and no episode is stitched over the hole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError


def table(**holes: list[int]) -> dict[str, Any]:
    """Three episodes of ten rows, the second of which is truncated, with NaN in the given rows."""
    rows = np.arange(30)
    made: dict[str, Any] = {"obs_0": rows * 1.0, "action": rows % 7 / 7, "reward": np.ones(30), "episode": rows // 10}
    made |= {"terminated": np.isin(rows, (9, 29)), "truncated": rows == 19}
    for name, places in holes.items():
        made[name][places] = np.nan
    return made


def test_each_hole_cuts_its_episode() -> None:
    holes = table(obs_0=[3, 4, 19], action=[12], reward=[20])
    with pytest.raises(DataError, match="obs: NaN at row 3"):
        TransitionDataset.from_table(holes)
    data = TransitionDataset.from_table(holes, missing="drop")
    assert data.obs[:, 0].tolist() == [row for row in range(30) if row not in (3, 4, 12, 19, 20)]
    last = data.obs[data.episode_ends, 0].tolist()
    assert last == [2, 9, 11, 18, 29]
    assert data.terminations[data.episode_ends].tolist() == [False, True, False, False, True]
    assert data.has_next_obs is not None
    unknown = data.obs[~data.has_next_obs, 0].tolist()
    assert unknown == [2, 11, 18]
    inside = np.flatnonzero(data.has_next_obs & ~data.terminations)
    assert (data.next_obs[inside, 0] == data.obs[inside, 0] + 1).all()
    told = "5 of 30 rows left out: a value is missing there (missing: drop); 3 recorded episodes became"
    told += " 5 pieces, and returns are those of pieces"
    assert told in data.notes


def test_nothing_missing_changes_nothing() -> None:
    plain, asked = TransitionDataset.from_table(table()), TransitionDataset.from_table(table(), missing="drop")
    assert plain.fingerprint() == asked.fingerprint()
    assert plain.notes == asked.notes


def test_faults_are_told_by_the_files_rows() -> None:
    holes = table(obs_0=[3])
    holes["reward"][15] = 1e300  # infinite in float32
    with pytest.raises(DataError, match="row 15"):
        TransitionDataset.from_table(holes, missing="drop")


def test_all_missing_is_refused() -> None:
    with pytest.raises(DataError, match="every row lacks a value"):
        TransitionDataset.from_table(table(obs_0=list(range(30))), missing="drop")


def test_of_stored_successors(tmp_path: Path) -> None:
    rows = np.arange(8.0)
    arrays = {"obs": rows[:, None], "next_obs": rows[:, None] + 1, "actions": np.zeros((8, 1)), "rewards": rows}
    arrays |= {"terminations": rows == 7}
    arrays["obs"] = np.where(arrays["obs"] == 4, np.nan, arrays["obs"])
    np.savez(tmp_path / "log.npz", **arrays)  # type: ignore[arg-type]
    data = TransitionDataset.load(tmp_path / "log.npz", missing="drop")
    assert data.n_episodes == 2
    assert data.has_next_obs is None  # row 3 knows where it led to
    assert data.next_obs[3, 0] == 4
