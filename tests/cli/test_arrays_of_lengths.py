"""`rl-training init` on files whose arrays are not looked at, or stored, as far as each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mutations import is_answered
from rl_training.cli.starting import init


def arrays(rows: int) -> dict[str, Any]:
    draw, row = np.random.default_rng(0), np.arange(rows)
    return {
        "obs": draw.normal(size=(rows, 3)).astype(np.float32),
        "actions": np.tanh(draw.normal(size=(rows, 2))).astype(np.float32),
        "rewards": draw.normal(size=rows).astype(np.float32),
        "terminations": row % 20 == 19,
        "score": np.where(row % 20 == 19, 1.5, np.nan).astype(np.float32),
    }


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_a_score_beside_more_flags_than_are_looked_at(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays(6_000))
    else:
        with h5py.File(path, "w") as file:
            file.update(arrays(6_000))
    init(str(path), tmp_path / "log.yaml", None, None, force=False)
    assert "terminations" in (tmp_path / "log.yaml").read_text()


@pytest.mark.parametrize("of", ["time", "reason", "speed", "episode_ids", "score", "terminations"])
@pytest.mark.parametrize("rows", [0, 1, 3, 39, 41])
def test_one_array_of_another_length(of: str, rows: int, tmp_path: Path) -> None:
    row = np.arange(80)
    lengths = dict.fromkeys(("time", "reason", "speed", "episode_ids", "score", "terminations"), 40) | {of: rows}
    held = {
        "time": row + 1.7e9,
        "reason": np.where(row % 10 == 9, "goal", ""),
        "speed": np.sin(row),
        "episode_ids": row // 10,
        "score": np.where(row % 10 == 9, 1.5, np.nan),
        "terminations": row % 10 == 9,
    }
    np.savez(tmp_path / "log.npz", **{name: values[: lengths[name]] for name, values in held.items()})
    is_answered(lambda: init(str(tmp_path / "log.npz"), tmp_path / "log.yaml", None, None, force=False), of)
