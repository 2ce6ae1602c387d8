"""The doctor on real datasets: healthy ones get no errors, and the known traps are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training.data.doctor import Report, examine
from rl_training.data.formats import RawData, read


def report(path: Path) -> Report:
    return examine(read(path))


def found(report: Report) -> set[tuple[str, str]]:
    return {(finding.level, finding.code) for finding in report.findings}


@pytest.mark.parametrize(
    "name",
    [
        "mujoco/hopper-medium.hdf5",
        "mujoco/hopper-medium-expert.hdf5",
        "mujoco/hopper-mixed.hdf5",
        "mujoco/halfcheetah-medium.hdf5",
        "mujoco/halfcheetah-medium-expert.hdf5",
        "d3rlpy/pendulum_replay.h5",
        "d3rlpy/pendulum_random.h5",
        "d4rl_excerpts/ant_medium-v2.hdf5",
        "d4rl_excerpts/door-cloned-v0.hdf5",
        "d4rl_excerpts/halfcheetah_medium_replay-v1.hdf5",
        "d4rl_excerpts/hopper_medium-v2.hdf5",
        "d4rl_excerpts/hopper_medium.hdf5",
        "d4rl_excerpts/walker2d_random-v1.hdf5",
    ],
)
def test_healthy_files_have_neither_errors_nor_warnings(shared_data: Path, name: str) -> None:
    examined = report(shared_data / name)
    assert examined.at("error") == []
    assert examined.at("warning") == []


@pytest.mark.parametrize(
    ("name", "warned"),
    [
        ("d4rl_excerpts/antmaze-umaze-v0.hdf5", "rewards.constant"),  # two episodes that never reach the goal
        ("d4rl_excerpts/pen-human-v1.hdf5", "actions.at-bound"),  # demonstrations clipped to the bounds
    ],
)
def test_files_to_look_at(shared_data: Path, name: str, warned: str) -> None:
    examined = report(shared_data / name)
    assert examined.at("error") == []
    assert [finding.code for finding in examined.at("warning")] == [warned]


def test_cartpole(shared_data: Path) -> None:
    examined = report(shared_data / "d3rlpy/cartpole_replay.h5")
    assert {("error", "actions.discrete"), ("warning", "flags.two-rows")} <= found(examined)
    assert len(examined.at("error")) == 1
    flags = next(finding for finding in examined.findings if finding.code == "flags.two-rows")
    assert flags.count == 1_448
    assert "3,030 episodes, not 1,582" in flags.what
    assert examined.facts.returns is not None
    assert examined.facts.returns.mean == pytest.approx(63.1, abs=0.1)


def test_actions_on_the_bounds(shared_data: Path) -> None:
    examined = report(shared_data / "mujoco/hopper-medium-expert.hdf5")
    assert found(examined) == set()  # 11% of all entries, about which there is nothing to do


def test_short_episodes_dominate(shared_data: Path) -> None:
    examined = report(shared_data / "mujoco/hopper-mixed.hdf5")
    assert ("note", "returns.by-row") in found(examined)
    assert examined.facts.score_by_episode == pytest.approx(8.4, abs=0.1)
    assert examined.facts.score_by_row == pytest.approx(42.1, abs=0.1)


@pytest.mark.parametrize("name", ["hopper-medium", "halfcheetah-medium"])
@pytest.mark.parametrize("shift", [-1, 1])
def test_shifted_rewards(shared_data: Path, name: str, shift: int) -> None:
    arrays = read(shared_data / f"mujoco/{name}.hdf5").arrays
    shifted = examine(RawData({**arrays, "rewards": np.roll(arrays["rewards"], shift)}, "test"))
    assert ("warning", "rewards.shifted") in found(shifted)


def test_unmarked_borders_without_successors(shared_data: Path) -> None:
    arrays = dict(read(shared_data / "mujoco/hopper-medium.hdf5").arrays)
    del arrays["next_observations"]
    assert examine(RawData(arrays, "test")).at("warning") == []
    unmarked = examine(RawData({**arrays, "terminals": np.zeros(100_000), "timeouts": np.zeros(100_000)}, "test"))
    jumps = next(finding for finding in unmarked.findings if finding.code == "successors.jump")
    assert (jumps.count, jumps.place.row) == (245, 398)
