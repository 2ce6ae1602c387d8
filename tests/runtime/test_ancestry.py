"""A run that cannot start from another says which, why, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training.errors import ConfigError
from rl_training.runtime.trainer import train
from small_runs import small_config


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"algo": "iql"}, "they are of td3_bc, and it trains iql; choose algo: td3_bc, or train anew"),
        ({"seed": [0, 1]}, r"they are of 1 seed, and it has 2; give as many, as seed: \[0\]"),
        (
            {"algo_kwargs": {"actor_hidden": [9, 9], "gamma": 0.5}},
            r"they were trained with algo_kwargs.actor_hidden=\[8, 8\], algo_kwargs.gamma=0.99; give the same",
        ),
    ],
)
def test_networks_that_do_not_fit(changes: dict[str, Any], why: str, data_file: Path, tmp_path: Path) -> None:
    first = train(small_config(data_file, tmp_path, "td3_bc", total_timesteps=2)).run.path
    changes = {"algo": "td3_bc", "name": "next", "init_from": str(first), **changes}
    with pytest.raises(ConfigError, match=f"^init_from: the networks of {first} do not fit this run: {why}$"):
        train(small_config(data_file, tmp_path, **changes, total_timesteps=2))
    assert not (tmp_path / "next").exists()


def test_another_algorithm_with_the_same_networks_starts_from_them(data_file: Path, tmp_path: Path) -> None:
    first = train(small_config(data_file, tmp_path, "td3_bc", total_timesteps=2)).run.path
    config = small_config(data_file, tmp_path, "td3", name="next", init_from=str(first), total_timesteps=2)
    assert train(config).progress.steps == 2
