"""One member's action in NumPy: the same as PyTorch's, from the weights as they are now."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from rl_training import TD3BC, algorithms
from rl_training.algorithms.base import Learner
from rl_training.data.transforms import Transforms
from rl_training.experiment.registry import entries
from rl_training.models import DeterministicPolicy
from rl_training.runtime.acting import Actor
from small_runs import knobs

OBS_DIM, ACT_DIM = 5, 2
CENTRE = (1e4, 0.0, 1.0, 2.0, -3.0)  # a mean far larger than its deviation, too
OBS = (np.random.default_rng(0).standard_normal((300, OBS_DIM)) + CENTRE).astype(np.float32)
TRANSFORMS = Transforms(
    obs_mean=CENTRE,
    obs_std=(0.5, 1.0, 2.0, 1.0, 1.0),
    reward_scale=1.0,
    reward_shift=0.0,
    action_low=(-1.0, 0.0),
    action_high=(3.0, 0.1),
)


def make_actor(algo: str = "td3_bc", **changes: Any) -> Actor:
    seeds = changes.pop("seeds", (4, 7, 9))
    learner = algorithms.load(algo)(OBS_DIM, ACT_DIM, seeds=seeds, **{**knobs(algo), **changes})
    return Actor(learner, TRANSFORMS)


def by_torch(actor: Actor, obs: npt.NDArray[np.float32], member: int) -> npt.NDArray[np.float32]:
    """What all members' networks answer together, of which one is taken."""
    return actor(np.broadcast_to(obs, (actor.learner.members, *obs.shape)))[member]


def uses_arrays(actor: Actor, member: int = 0) -> bool:
    return actor._arrays_of(member) is not None


@pytest.mark.parametrize("algo", [e.name for e in entries()])
def test_every_algorithm_answers_as_in_torch(algo: str) -> None:
    actor = make_actor(algo, actor_hidden=[64, 48])
    assert uses_arrays(actor)
    for member in range(3):
        expected = by_torch(actor, OBS, member)
        for found in (actor.mode(OBS, member), np.stack([actor.mode(row, member) for row in OBS])):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)
    assert not np.allclose(actor.mode(OBS, 0), actor.mode(OBS, 1))


def test_an_action_stays_within_the_bounds() -> None:
    actor = make_actor()
    actor.learner.policy.flat.data.mul_(1e4)
    actions = actor.mode(OBS, 0)
    assert (actions >= TRANSFORMS.action_low).all()
    assert (actions <= np.float32(TRANSFORMS.action_high)).all()
    assert actions.min(0).tolist() == [-1.0, 0.0]


def add_in_place(learner: Learner) -> None:
    with torch.no_grad():
        learner.policy.flat.add_(0.1)


def write_past_autograd(learner: Learner) -> None:
    learner.policy.flat.data[0] += 0.1  # counted by no version


def write_through_numpy(learner: Learner) -> None:
    learner.policy.flat.detach().numpy()[:] += 0.1


def replace_the_data(learner: Learner) -> None:
    learner.policy.flat.data = learner.policy.flat.data + 0.1


def replace_the_parameter(learner: Learner) -> None:
    learner.policy.flat = nn.Parameter(learner.policy.flat.detach() + 0.1)


def replace_the_network(learner: Learner) -> None:
    learner.model.actor = DeterministicPolicy(OBS_DIM, ACT_DIM, (16, 16), (1, 2, 3))


def load_a_state(learner: Learner) -> None:
    learner.model.load_state_dict({name: value + 0.1 for name, value in learner.model.state_dict().items()})


def freeze(learner: Learner) -> None:
    learner.freeze(0, {name: value + 0.1 for name, value in learner.state().items()})


@pytest.mark.parametrize(
    "change",
    [
        add_in_place,
        write_past_autograd,
        write_through_numpy,
        replace_the_data,
        replace_the_parameter,
        replace_the_network,
        load_a_state,
        freeze,
    ],
)
def test_changed_weights_are_used_at_once(change: Callable[[Learner], None]) -> None:
    actor = make_actor()
    before = actor.mode(OBS, 0)
    change(actor.learner)
    after = actor.mode(OBS, 0)
    assert uses_arrays(actor)
    assert not np.allclose(before, after, atol=1e-4)
    np.testing.assert_allclose(after, by_torch(actor, OBS, 0), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("make_copy", [copy.deepcopy, copy.copy, lambda actor: pickle.loads(pickle.dumps(actor))])
def test_a_copy_looks_at_its_own_weights(make_copy: Callable[[Actor], Actor]) -> None:
    actor = make_actor()
    before = actor.mode(OBS, 0)
    twin = make_copy(actor)
    np.testing.assert_array_equal(twin.mode(OBS, 0), before)
    add_in_place(twin.learner)
    np.testing.assert_allclose(twin.mode(OBS, 0), by_torch(twin, OBS, 0), rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(actor.mode(OBS, 0), by_torch(actor, OBS, 0), rtol=0.0, atol=1e-6)


def test_learning_on_and_loading(data_file: Path, tmp_path: Path) -> None:
    settings = {"dataset": str(data_file), "total_timesteps": 4, "runs_dir": str(tmp_path / "runs"), **knobs("td3_bc")}
    model = TD3BC(**settings).learn()
    obs = OBS[:, 1:4]
    first, _ = model.predict(obs)
    model.save(tmp_path / "saved")
    model.learn(total_timesteps=40)
    second, _ = model.predict(obs)
    assert not np.allclose(first, second, atol=1e-4)
    np.testing.assert_allclose(second, by_torch(model.policy.actor, obs, 0), rtol=0.0, atol=1e-6)
    np.testing.assert_array_equal(TD3BC.load(tmp_path / "saved").predict(obs)[0], first)


class OwnHead(DeterministicPolicy):
    def mode(self, obs: Tensor, masks: Any = ()) -> Tensor:
        return 0.5 * super().mode(obs, masks)


class OwnWay(algorithms.load("td3_bc")):  # type: ignore[misc]
    def act(self, obs: Tensor, noise: Any = None) -> Tensor:
        return torch.zeros(self.members, obs.shape[1], self.act_dim)


def own_head() -> Actor:
    actor = make_actor()
    actor.learner.model.actor = OwnHead(OBS_DIM, ACT_DIM, (8, 8), (4, 7, 9))
    return actor


def own_way() -> Actor:
    return Actor(OwnWay(OBS_DIM, ACT_DIM, seeds=(4, 7, 9), **knobs("td3_bc")), TRANSFORMS)


def half_precision() -> Actor:
    actor = make_actor()
    actor.mode(OBS, 0)  # views of it exist by then
    actor.learner.policy.compute_with("bf16")
    return actor


@pytest.mark.parametrize("make", [own_head, own_way, half_precision])
def test_what_arrays_do_not_know_is_left_to_torch(make: Callable[[], Actor]) -> None:
    actor = make()
    assert not uses_arrays(actor)
    np.testing.assert_array_equal(actor.mode(OBS, 1), by_torch(actor, OBS, 1))
    assert actor.mode(OBS[0], 1).shape == (ACT_DIM,)
    np.testing.assert_array_equal(actor.mode(OBS[0], 1), by_torch(actor, OBS[:1], 1)[0])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_quiet_here(value: float) -> None:
    """`predict` says so; a warning of NumPy's besides would be noise."""
    actor = make_actor()
    actor.learner.policy.flat.data[0] = value
    assert np.isnan(actor.mode(OBS, 0)).any()
    assert np.isfinite(actor.mode(OBS, 1)).all()
