"""Fitted Q evaluation of real policies: closed forms, resamples, what is shared and what is not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training import streams
from rl_training.algorithms.evaluation.fitted_q import FittedQ
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, Transforms, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError
from rl_training.experiment.manager import LoadedPolicy
from rl_training.runtime import fitted_checks
from rl_training.runtime.acting import Actor
from rl_training.runtime.action_support import rows_like_those_after_cuts, share_of_lone_cuts, share_outside
from rl_training.runtime.fitted_evaluation import EpisodeBootstrap, FittedValues, OfflineEvaluationConfig, fit_values
from rl_training.runtime.trainer import train
from small_runs import small_config

GAMMA = 0.8
WORTH = np.array([1.0, -2.0, 3.0])  # of each state, before what the action costs
DONE = 0.5  # what the policy always does


def rounds(episodes: int, *, terminate: bool) -> TransitionDataset:
    """States 0, 1, 2 in turn, one episode after another; the reward is the state's worth less the square of the action.

    The behaviour acts at random. An episode is cut or ends after state 2.
    """
    states = np.tile(np.arange(3), episodes)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, len(states)).astype(np.float32)
    last = states == 2
    return TransitionDataset.from_dict(
        {
            "obs": np.eye(3)[states],
            "actions": actions,
            "rewards": WORTH[states] - actions**2,
            "next_obs": np.eye(3)[(states + 1) % 3],
            "terminations": last & terminate,
            "truncations": last & (not terminate),
        }
    )


def exact(cost: float, *, terminate: bool, gamma: float = GAMMA) -> float:
    """The value in state 0 of acting at this cost: a sum of three, or the geometric series of such sums."""
    once = sum(gamma**t * (WORTH[t] - cost) for t in range(3))
    return float(once if terminate else once / (1.0 - gamma**3))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    """Two members: the first always does 0.5, the second 0."""
    runs = tmp_path_factory.mktemp("runs")
    result = train(small_config(None, runs, "bc", seed=[3, 8], total_timesteps=1), dataset=rounds(20, terminate=False))
    actor: Any = result.actor.learner.policy
    bounds = result.actor.transforms
    unit = bounds.to_unit_actions(np.array([[DONE], [0.0]], dtype=np.float32))
    actor.flat.data.zero_()
    actor.tensors()["bias_2"].data.copy_(torch.tensor(np.arctanh(unit)))
    return LoadedPolicy(result.checkpoint, result.actor, result.run.path)


@pytest.mark.parametrize("terminate", [False, True])
def test_closed_forms(policy: LoadedPolicy, terminate: bool) -> None:
    """Only a termination stops the bootstrap; the behaviour is random, and its actions cost a third on average."""
    data = rounds(400, terminate=terminate)
    settings = OfflineEvaluationConfig(updates=600, repeats=2)
    found = fit_values(policy.actor, [0, 1], data, settings, gamma=GAMMA, deterministic=True)
    costs = (DONE**2, 0.0, float((data.actions**2).mean()))
    expected = [exact(cost, terminate=terminate) for cost in costs]
    assert found.values == pytest.approx(expected, abs=0.06)
    assert found.repeats.mean(0) == pytest.approx(expected, abs=0.1)
    assert found.observed.mean() + found.tails[-1] == pytest.approx(expected[2], abs=0.1)
    assert found.behind == pytest.approx(np.full(400, 0.0 if terminate else GAMMA**3))
    once = exact(costs[2], terminate=True)
    assert found.observed.mean() == pytest.approx(once, abs=0.1)  # what was recorded, whatever is fitted behind it
    assert found.values[2] - found.tails[2] == pytest.approx(once, abs=0.1)
    low, high = found.allowed
    assert (low, high) == (
        pytest.approx(data.rewards.min() / (1 - GAMMA)),
        pytest.approx(data.rewards.max() / (1 - GAMMA)),
    )


def test_undiscounted_sums_of_episodes_that_end(policy: LoadedPolicy) -> None:
    data = rounds(400, terminate=True)
    settings = OfflineEvaluationConfig(updates=600, repeats=2)
    found = fit_values(policy.actor, [0, 1], data, settings, gamma=1.0, deterministic=True)
    costs = (DONE**2, 0.0, float((data.actions**2).mean()))
    assert found.values == pytest.approx([exact(cost, terminate=True, gamma=1.0) for cost in costs], abs=0.06)
    assert found.observed.mean() == pytest.approx(float(data.episode_returns().mean()))
    assert found.allowed == (pytest.approx(3 * data.rewards.min()), pytest.approx(3 * data.rewards.max()))


@pytest.mark.parametrize("bound", [60, 20, 5])
def test_nothing_is_fitted_after_a_part_in_which_all_ran_away(policy: LoadedPolicy, bound: int) -> None:
    """What is found is the part before it, of a later round the round before, or the first itself."""
    data, settings, told = rounds(30, terminate=False), OfflineEvaluationConfig(updates=50, repeats=2), []
    one = fit_values(
        policy.actor,
        [0],
        data,
        settings,
        gamma=GAMMA,
        deterministic=True,
        on_part=lambda done, planned: told.append((done, planned)),
        go_on=lambda values: True,
        ran_away=lambda values: {0} if values.updates >= bound else set(),
    )
    assert told[-1] == (bound, 50 * math.ceil(bound / 50))
    if bound == 5:
        assert (one.updates, one.left) == (5, None)
        return
    assert one.left is not None
    assert (one.updates, one.left.updates) == ({60: 50, 20: 15}[bound], bound)
    assert 5 * len(one.course) == one.updates


def test_a_policy_is_valued_alike_among_others(policy: LoadedPolicy) -> None:
    data, settings = rounds(30, terminate=False), OfflineEvaluationConfig(updates=20, repeats=2)
    alone, among = (
        fit_values(policy.actor, members, data, settings, gamma=GAMMA, deterministic=True) for members in ([1], [0, 1])
    )
    assert alone.repeats == pytest.approx(among.repeats[:, 1:], abs=1e-4)
    assert alone.td_errors == pytest.approx(among.td_errors[..., 1:], abs=1e-4)


def test_the_raw_reward_whatever_the_run_made_of_it(policy: LoadedPolicy) -> None:
    """Scale, shift and clip are the training's business; the estimate does not see them."""
    data, settings = rounds(30, terminate=False), OfflineEvaluationConfig(updates=20, repeats=2)
    told = policy.actor.transforms.to_json() | {"reward_scale": 7.0, "reward_shift": -3.0, "reward_clip": [-1.0, 1.0]}
    other = Actor(policy.actor.learner, Transforms.from_json(told))
    one, two = (
        fit_values(actor, [0], data, settings, gamma=GAMMA, deterministic=True) for actor in (policy.actor, other)
    )
    assert one.repeats.tolist() == two.repeats.tolist()


def test_sampled_actions_are_the_policys(policy: LoadedPolicy) -> None:
    """A deterministic head has one action: sampling it is no other estimate."""
    data, settings = rounds(30, terminate=False), OfflineEvaluationConfig(updates=20, repeats=2)
    one, two = (
        fit_values(policy.actor, [0], data, settings, gamma=GAMMA, deterministic=mode) for mode in (True, False)
    )
    assert one.repeats == pytest.approx(two.repeats, abs=1e-4)


def test_batches_hold_the_episodes_of_their_resample() -> None:
    data = rounds(4, terminate=False).with_next_actions()
    marked = TransitionDataset.from_dict(data.to_dict() | {"rewards": data.episode_ids.astype(np.float32)})
    transforms = fit_transforms(marked, Spaces(3, (-1.0,), (1.0,)), TransformConfig())
    packed = PackedTransitions.from_dataset(marked, transforms)
    resamples = torch.tensor([[1, 1, 3, 1], [0, 2, 2, 0]])
    next_actions = torch.full((1, 1, 12, 1), 0.25)
    source = EpisodeBootstrap(packed, torch.tensor(data.episode_ends), resamples, next_actions, 2)
    keys = streams.member_keys([0, 0, 1, 1])
    batch = source.batch(keys, torch.tensor(5), 4_000)
    for repeat, shares in enumerate(({1: 0.75, 3: 0.25}, {0: 0.5, 2: 0.5})):
        drawn = batch.rewards[2 * repeat]
        assert torch.equal(drawn, batch.rewards[2 * repeat + 1])  # policy and behaviour see the same rows
        assert {*drawn.int().tolist()} == {*shares}
        for episode, share in shares.items():
            assert float((drawn == episode).double().mean()) == pytest.approx(share, abs=0.03)
    assert batch.next_actions is not None
    assert {*batch.next_actions[0].flatten().tolist()} == {0.25}
    assert len({*batch.next_actions[1].flatten().tolist()}) > 3
    state, row = batch.obs[0].argmax(-1), int(torch.nonzero(batch.rewards[0] == 3.0)[0])
    expected = transforms.to_unit_actions(data.actions)[9 + int(state[row])]
    assert float(batch.actions[0, row, 0]) == pytest.approx(float(expected[0]))


def test_what_it_refuses(policy: LoadedPolicy) -> None:
    settings = OfflineEvaluationConfig(updates=10, repeats=2)
    data = rounds(4, terminate=False)
    for wrong, said in (
        (data.sample(8, np.random.default_rng(0)), "whole episodes"),
        (data.select(np.arange(3)), "several episodes"),
    ):
        with pytest.raises(DataError, match=said):
            fit_values(policy.actor, [0], wrong, settings, gamma=GAMMA, deterministic=True)


def test_actions_outside_the_data(policy: LoadedPolicy) -> None:
    """The data hold torques about 0.5 only: the member that does 0.5 is inside, the one that does nothing is not."""
    data = rounds(200, terminate=False)
    narrow = TransitionDataset.from_dict(data.to_dict() | {"actions": DONE + 0.05 * data.actions})
    low, high = policy.checkpoint.spaces.action_low, policy.checkpoint.spaces.action_high
    standard = fit_transforms(narrow, Spaces(3, low, high), TransformConfig(normalise_observations=True))
    inside, outside = share_outside(policy.actor, [0, 1], narrow, standard)
    assert inside == 0.0
    assert outside == 1.0
    sampled = share_outside(policy.actor, [1], narrow, standard, deterministic=False)
    assert sampled.tolist() == [1.0]
    wide = share_outside(policy.actor, [0, 1], data, standard)
    assert wide.max() < 0.02


def test_an_episode_is_not_held_to_itself(policy: LoadedPolicy) -> None:
    """Two short episodes: the 50 most similar states of others are fewer than 50, and its own do not take their place.

    One does about 0.5, the other about -0.5; neither has done what the other does, so all of it is usual.
    """
    data = rounds(8, terminate=False)
    actions = np.where(np.arange(24) < 12, DONE, -DONE).astype(np.float32)[:, None]
    last = np.isin(np.arange(24), (11, 23))
    two = TransitionDataset.from_dict(data.to_dict() | {"actions": actions, "truncations": last})
    low, high = policy.checkpoint.spaces.action_low, policy.checkpoint.spaces.action_high
    standard = fit_transforms(two, Spaces(3, low, high), TransformConfig(normalise_observations=True))
    assert two.n_episodes == 2
    assert share_outside(policy.actor, [0, 1], two, standard).tolist() == [0.0, 0.0]
    alone = two.select(np.arange(12))
    assert share_outside(policy.actor, [0, 1], alone, standard).tolist() == [1.0, 1.0]  # nothing to hold it to


def test_many_episodes_are_valued_a_few_at_a_time(policy: LoadedPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    data, settings = rounds(30, terminate=False), OfflineEvaluationConfig(updates=10, repeats=2)
    largest: list[int] = []

    def values(learner: FittedQ, obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        largest.append(obs.shape[1])
        return plain(learner, obs, actions)

    plain = FittedQ.values
    at_once = fit_values(policy.actor, [0], data, settings, gamma=GAMMA, deterministic=True)
    monkeypatch.setattr(fitted_checks, "_CHUNK", 7)
    monkeypatch.setattr(FittedQ, "values", values)
    in_parts = fit_values(policy.actor, [0], data, settings, gamma=GAMMA, deterministic=True)
    assert max(largest) == 7
    assert in_parts.starts == pytest.approx(at_once.starts, abs=1e-5)
    assert in_parts.after == pytest.approx(at_once.after, abs=1e-5)
    assert in_parts.left_out == pytest.approx(at_once.left_out, abs=1e-4)


def test_equal_returns_are_no_division_by_zero(policy: LoadedPolicy, tmp_path: Path) -> None:
    data = rounds(10, terminate=True)
    flat = TransitionDataset.from_dict(data.to_dict() | {"rewards": np.zeros(len(data))})
    settings = OfflineEvaluationConfig(updates=10, repeats=2)
    found = fit_values(policy.actor, [0], flat, settings, gamma=GAMMA, deterministic=True)
    assert np.isfinite(found.repeats).all()
    assert found.allowed == (0.0, 0.0)
    assert math.isclose(found.observed.std(), 0.0)


def test_a_cut_episode_goes_on_in_a_state_like_the_one_it_was_cut_in(policy: LoadedPolicy) -> None:
    """The state after a cut is 0 again: rows like it are rows of state 0, of other episodes, with all their actions."""
    data = rounds(60, terminate=False)
    low, high = policy.checkpoint.spaces.action_low, policy.checkpoint.spaces.action_high
    standard = fit_transforms(data, Spaces(3, low, high), TransformConfig(normalise_observations=True))
    like = rows_like_those_after_cuts(data, standard, 0)
    assert {*data.obs[like].argmax(-1).tolist()} == {0}
    assert (data.episode_ids[like] != np.arange(60)).all()
    assert len({*like.tolist()}) > 20


def test_a_clock_among_the_observations_does_not_run_away_behind_the_cuts(policy: LoadedPolicy) -> None:
    """The last rows are the dearest and nothing follows them: Q behind the cut must not be their reward for ever."""
    steps, episodes = 20, 60
    clock = np.tile(np.arange(steps) / steps, episodes)
    rng = np.random.default_rng(0)
    rewards = np.where(clock < 0.9, -1.0, -3.0)
    obs = np.stack((clock, rng.normal(size=len(clock)), rng.normal(size=len(clock))), axis=-1)
    data = TransitionDataset.from_dict(
        {
            "obs": obs,
            "actions": rng.uniform(-1.0, 1.0, len(clock)),
            "rewards": rewards,
            "terminations": np.zeros(len(clock), dtype=bool),
            "truncations": np.arange(len(clock)) % steps == steps - 1,
        }
    )
    settings = OfflineEvaluationConfig(updates=600, repeats=2)
    found = fit_values(policy.actor, [0], data, settings, gamma=0.9, deterministic=True)
    assert found.after[:, -1].mean() == pytest.approx(-11.0, abs=2.0)  # -3 for ever would be -30


def test_it_goes_on_from_where_it_was(policy: LoadedPolicy) -> None:
    data, settings = rounds(30, terminate=False), OfflineEvaluationConfig(updates=20, repeats=2)
    asked: list[int] = []
    told: list[tuple[int, int]] = []

    def go_on(found: FittedValues) -> bool:
        asked.append(found.updates)
        return found.updates < 60

    found = fit_values(
        policy.actor,
        [0],
        data,
        settings,
        gamma=GAMMA,
        deterministic=True,
        on_part=lambda done, planned: told.append((done, planned)),
        go_on=go_on,
    )
    once = fit_values(policy.actor, [0], data, settings, gamma=GAMMA, deterministic=True)
    assert (asked, told[-1], len(told), found.updates) == ([20, 40, 60], (60, 60), 30, 60)
    assert told[10] == (22, 40)
    assert found.course[:10] == pytest.approx(once.course)


def climbs(drift: float) -> TransitionDataset:
    """Forty walks of fifty steps around a level that rises by `drift` deviations until they are cut."""
    rng = np.random.default_rng(1)
    level = drift * np.linspace(0.0, 1.0, 51)[:, None] + rng.normal(size=(40, 51, 2))
    ends = np.arange(50) == 49
    return TransitionDataset.from_dict(
        {
            "obs": level[:, :-1].reshape(-1, 2),
            "actions": rng.uniform(-1.0, 1.0, (2_000, 1)),
            "rewards": np.ones(2_000),
            "next_obs": level[:, 1:].reshape(-1, 2),
            "terminations": np.zeros(2_000, bool),
            "truncations": np.tile(ends, 40),
        }
    )


@pytest.mark.parametrize(("drift", "least", "most"), [(0.0, 0.0, 0.05), (20.0, 0.95, 1.0)])
def test_cuts_that_nothing_is_like(drift: float, least: float, most: float) -> None:
    data = climbs(drift)
    standard = fit_transforms(data, Spaces(2, (-1.0,), (1.0,)), TransformConfig(normalise_observations=True))
    assert least <= share_of_lone_cuts(data, standard) <= most
    ended = replace(data, terminations=data.truncations, truncations=np.zeros(2_000, bool))
    assert share_of_lone_cuts(ended, standard) == 0.0
