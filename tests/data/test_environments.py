"""Opening environments and reading their spaces, and what each unsupported one is told."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl_training.environments import Spaces, env_spaces, make_env, read_spaces
from rl_training.errors import CheckpointError, EnvironmentUnsupportedError


class Stub(gymnasium.Env[Any, Any]):
    """An environment that is nothing but its spaces."""

    def __init__(self, observation_space: Any = None, action_space: Any = None) -> None:
        self.observation_space = observation_space or spaces.Box(-1, 1, (3,))
        self.action_space = action_space or spaces.Box(-1, 1, (2,))


def refusal(**given: Any) -> str:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        env_spaces(Stub(**given))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_spaces_of_pendulum() -> None:
    found = read_spaces("Pendulum-v1")
    assert found == Spaces(obs_dim=3, action_low=(-2.0,), action_high=(2.0,))
    assert found.act_dim == 1


def test_bounds_per_dimension() -> None:
    box = spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([0.5, 4], dtype=np.float32))
    assert env_spaces(Stub(action_space=box)) == Spaces(3, (-1.0, 0.0), (0.5, 4.0))


def test_json_round_trip() -> None:
    found = Spaces(3, (-0.1, -2.0), (1 / 3, 2.0))
    assert Spaces.from_json(json.loads(json.dumps(found.to_json()))) == found
    with pytest.raises(CheckpointError, match="spaces: stored value is malformed: KeyError: 'obs_dim'"):
        Spaces.from_json({"action_low": [0], "action_high": [1]})
    with pytest.raises(CheckpointError, match="spaces: action_low has 1 entries, action_high has 2"):
        Spaces.from_json({"obs_dim": 1, "action_low": [0], "action_high": [1, 2]})


@pytest.mark.parametrize(("wrong", "right"), [("Pendulm-v1", "Pendulum-v1"), ("Pendulum-v9", "Pendulum-v1")])
def test_unknown_ids_are_told_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        make_env(wrong)
    assert str(caught.value) == f"unknown environment {wrong!r}; did you mean {right!r}?"


@pytest.mark.parametrize("env_id", ["Reactor-v0", "zzz/qqq-v0"])
def test_who_may_mean_an_environment_of_their_own_is_told_the_way(env_id: str) -> None:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        make_env(env_id)
    way = "call gymnasium.register(…) in a program and load_policy(RUN).evaluate(env_id=…) there"
    assert str(caught.value).endswith(f"; without a simulator, leave env_id out; to use one of your own, {way}")
    assert ".;" not in str(caught.value)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("zzz/qqq-v0", "unknown environment 'zzz/qqq-v0': Namespace zzz not found. Have you installed"),
        ("", "environment '' cannot be opened: Malformed environment ID"),
        ("this:Foo-v0", "environment 'this:Foo-v0': no module is imported because a configuration names it"),
    ],
)
def test_ids_that_resemble_nothing(env_id: str, message: str) -> None:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        make_env(env_id)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_wrong_arguments() -> None:
    with pytest.raises(
        EnvironmentUnsupportedError, match=r"'Pendulum-v1' cannot be opened: .*unexpected keyword argument"
    ):
        make_env("Pendulum-v1", gravitas=10)


@pytest.mark.skipif(importlib.util.find_spec("mujoco") is not None, reason="needs MuJoCo to be missing")
def test_a_missing_package_is_named() -> None:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        make_env("HalfCheetah-v5")
    assert str(caught.value).startswith("environment 'HalfCheetah-v5' needs a missing package: MuJoCo is not installed")
    assert 'pip install "gymnasium[mujoco]"' in str(caught.value)


def test_discrete_actions_of_a_real_environment() -> None:
    with pytest.raises(EnvironmentUnsupportedError) as caught:
        read_spaces("CartPole-v1")
    assert str(caught.value) == (
        "environment 'CartPole-v1': action space is Discrete(2); "
        "supported: a one-dimensional Box with finite bounds (continuous actions only)"
    )


@pytest.mark.parametrize(
    ("space", "found"),
    [
        (spaces.MultiDiscrete([2, 3]), "MultiDiscrete([2 3])"),
        (spaces.MultiBinary(4), "MultiBinary(4)"),
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple(Discrete(2))"),
        (spaces.Box(-1, 1, (2, 2)), "Box of shape (2, 2)"),
        (spaces.Box(0, 5, (2,), dtype=np.int64), "Box of dtype int64"),
        (spaces.Box(-np.inf, np.inf, (2,)), "a Box with bounds [-inf, inf] in dimension 0"),
        (spaces.Box(np.float32([-1, -1]), np.float32([1, np.inf])), "a Box with bounds [-1, inf] in dimension 1"),
        (spaces.Box(np.float32([-1, 3]), np.float32([1, 3])), "a Box with low 3 >= high 3 in dimension 1"),
    ],
)
def test_unsupported_actions(space: Any, found: str) -> None:
    message = refusal(action_space=space)
    assert message.startswith(f"environment 'Stub': action space is {found}; supported: a one-dimensional Box with")


@pytest.mark.parametrize(
    ("space", "found", "flatten"),
    [
        (spaces.Discrete(5), "Discrete(5)", False),
        (spaces.Dict(a=spaces.Box(-1, 1, (2,))), "Dict('a': Box(-1.0, 1.0, (2,), float32))", True),
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple(Discrete(2))", True),
        (spaces.Box(-1, 1, (4, 3)), "Box of shape (4, 3)", True),
        (spaces.Box(0, 255, (64, 64, 3), dtype=np.uint8), "Box of shape (64, 64, 3)", False),
        (spaces.Dict({f"sensor_{i}": spaces.Box(-1, 1, (2,)) for i in range(9)}), "a Dict space", True),
    ],
)
def test_unsupported_observations(space: Any, found: str, flatten: bool) -> None:
    message = refusal(observation_space=space)
    expected = f"environment 'Stub': observation space is {found}; supported: a one-dimensional Box (flat vectors only)"
    assert message == expected + ("; wrap it in gymnasium.wrappers.FlattenObservation" if flatten else "")


def test_data_from_arrays_import_neither_gymnasium_nor_torch() -> None:
    code = "import sys, rl_training.data; print([m for m in ('gymnasium', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
