"""Policies played in models of the dynamics: closed forms, what a model is held to, and what does not matter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from real_data import REAL, needs_real_data
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import DataError
from rl_training.experiment.manager import LoadedPolicy
from rl_training.runtime.acting import Actor
from rl_training.runtime.fitted_evaluation import OfflineEvaluationConfig
from rl_training.runtime.model_rollouts import ModelledValues, roll_out
from rl_training.runtime.trainer import train
from small_runs import small_config

GAMMA, KEPT = 0.9, 0.8
DONE = (0.5, 0.0)  # what the two policies always do


def linear(episodes: int, steps: int = 20, *, noise: float = 0.0) -> TransitionDataset:
    """s' = 0.8 s + 0.2 a and r = s, from starts about 1 on; the behaviour acts at random, and a time limit cuts."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (episodes, steps))
    states = np.empty((episodes, steps + 1))
    states[:, 0] = rng.uniform(0.5, 1.5, episodes)
    for step in range(steps):
        states[:, step + 1] = KEPT * states[:, step] + (1.0 - KEPT) * actions[:, step]
    last = np.broadcast_to(np.arange(steps) == steps - 1, actions.shape)
    return TransitionDataset.from_dict(
        {
            "obs": states[:, :-1].reshape(-1, 1),
            "actions": actions.reshape(-1, 1),
            "rewards": (states[:, :-1] + noise * rng.standard_normal(actions.shape)).ravel(),
            "next_obs": states[:, 1:].reshape(-1, 1),
            "terminations": np.zeros(last.size, dtype=bool),
            "truncations": last.ravel(),
        },
        action_low=-1.0,
        action_high=1.0,
    )


def exact(data: TransitionDataset, action: float, gamma: float = GAMMA) -> float:
    """Σ γ^t s_t, where s_t nears the action by a fifth at every step, mean over the starts."""
    starts = data.obs[data.episode_ends - data.episode_lengths() + 1, 0].astype(np.float64)
    return float(np.mean(action / (1.0 - gamma) + (starts - action) / (1.0 - gamma * KEPT)))


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    return always(DONE, linear(10), tmp_path_factory.mktemp("runs"))


def always(actions: tuple[float, float], data: TransitionDataset, runs: Path) -> LoadedPolicy:
    """Two members, each of which always does the same."""
    result = train(small_config(None, runs, "bc", seed=[3, 8], total_timesteps=1), dataset=data)
    actor: Any = result.actor.learner.policy
    unit = result.actor.transforms.to_unit_actions(np.array(actions, dtype=np.float32)[:, None])
    actor.flat.data.zero_()
    actor.tensors()["bias_2"].data.copy_(torch.tensor(np.arctanh(unit)))
    return LoadedPolicy(result.checkpoint, result.actor, result.run.path)


def played(
    policy: LoadedPolicy, data: TransitionDataset, members: tuple[int, ...] = (0, 1), **changes: Any
) -> ModelledValues:
    gamma = changes.pop("gamma", GAMMA)
    settings = OfflineEvaluationConfig(updates=changes.pop("updates", 1_500), repeats=2, device="cpu", **changes)
    return roll_out(policy.actor, members, data, settings, gamma=gamma, deterministic=True)


def test_closed_form(policy: LoadedPolicy) -> None:
    """Time limits end nothing: the value goes on."""
    data = linear(15)
    found = played(policy, data)
    assert found.values.shape == (2, 2)
    for repeat in found.values:
        assert repeat == pytest.approx([exact(data, action) for action in DONE], abs=0.05)
    assert found.foretold > 0.99
    assert found.window == 3  # a quarter of 1/(1 - 0.9) steps


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.999])
def test_near_and_far_horizons(policy: LoadedPolicy, gamma: float) -> None:
    """Nothing but the first reward; and beyond a thousand steps, the mean of the late rewards for ever."""
    data, settings = linear(15), OfflineEvaluationConfig(updates=1_500, repeats=2, device="cpu")
    found = roll_out(policy.actor, [0], data, settings, gamma=gamma, deterministic=True)
    assert found.values.mean() == pytest.approx(exact(data, DONE[0], gamma), rel=0.02)
    assert found.window == min(20, max(1, round(0.25 / (1.0 - gamma))))


def test_a_termination_ends_an_episode(policy: LoadedPolicy) -> None:
    """A step back from 3, 2, 1 to 0, where it ends, whatever is done: three rewards of one."""
    steps = np.tile(np.arange(3), 20)
    data = TransitionDataset.from_dict(
        {
            "obs": 3.0 - steps,
            "actions": np.random.default_rng(0).uniform(-1.0, 1.0, 60),
            "rewards": np.ones(60),
            "next_obs": 2.0 - steps,
            "terminations": steps == 2,
        }
    )
    found = played(policy, data)
    assert found.values == pytest.approx(np.full((2, 2), 1.0 + GAMMA + GAMMA**2), abs=0.05)
    assert found.foretold > 0.95  # windows that reach over the end return less
    assert played(policy, data, gamma=1.0).values == pytest.approx(np.full((2, 2), 3.0), abs=0.05)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_clock_begins_anew_where_episodes_were_cut(policy: LoadedPolicy, sign: float) -> None:
    """The reward is the time: the last one does not stand for all that follow."""
    times, steps = np.tile(np.arange(10), 15), 10
    data = TransitionDataset.from_dict(
        {
            "obs": sign * times,
            "actions": np.random.default_rng(0).uniform(-1.0, 1.0, 150),
            "rewards": times,
            "next_obs": sign * (times + 1),
            "terminations": np.zeros(150, dtype=bool),
            "truncations": times == steps - 1,
        }
    )
    once = float(np.sum(GAMMA ** np.arange(steps) * np.arange(steps)))
    assert played(policy, data).values == pytest.approx(np.full((2, 2), once / (1.0 - GAMMA**steps)), rel=0.02)


def test_a_model_that_cannot_follow_is_seen_to(policy: LoadedPolicy) -> None:
    """Rewards that no observation tells of."""
    assert played(policy, linear(15, noise=3.0)).foretold < 0.3
    constant = replace(linear(15), rewards=np.ones(300, dtype=np.float32))
    found = played(policy, constant, updates=50)
    assert np.isnan(found.foretold)  # nothing to foretell
    assert found.values == pytest.approx(np.full((2, 2), 1.0 / (1.0 - GAMMA)))


def test_windows_do_not_reach_over_what_is_missing(policy: LoadedPolicy) -> None:
    """Rows without a successor, and a state that is not the one the row before led to."""
    data = linear(15)
    holes = replace(data, has_next_obs=np.arange(len(data)) % 7 != 3)
    assert played(policy, holes).foretold > 0.99
    rows = np.arange(len(data)).reshape(15, 20)
    swapped = np.concatenate((rows[:, 10:19], rows[:, :10], rows[:, 19:]), axis=1).ravel()
    moved = {name: values[swapped] for name, values in data.to_dict().items()}
    assert played(policy, TransitionDataset.from_dict(moved)).foretold > 0.99
    thinned = TransitionDataset.from_dict({name: values[1::2] for name, values in data.to_dict().items()})
    assert np.isnan(played(policy, thinned, updates=50).foretold)  # no row follows another


def test_the_same_every_time_and_nothing_else_is_drawn(policy: LoadedPolicy) -> None:
    data = linear(12)
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two, other = (played(policy, data, updates=100, seed=seed) for seed in (4, 4, 5))
    assert one.values.tolist() == two.values.tolist()
    assert one.foretold == two.foretold
    assert one.values.tolist() != other.values.tolist()
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numbers)


def test_a_policy_is_valued_alike_among_others(policy: LoadedPolicy) -> None:
    data = linear(12)
    alone, among = (played(policy, data, members, updates=100) for members in ((1,), (0, 1)))
    assert alone.values == pytest.approx(among.values[:, 1:], abs=1e-4)
    assert played(policy, data, (), updates=100).values.shape == (2, 0)


def test_the_raw_reward_whatever_the_run_made_of_it(policy: LoadedPolicy) -> None:
    data = linear(12)
    told = policy.actor.transforms.to_json() | {"reward_scale": 7.0, "reward_shift": -3.0, "reward_clip": [-1.0, 1.0]}
    other = replace(policy, actor=Actor(policy.actor.learner, Transforms.from_json(told)))
    one, two = (played(each, data, updates=100) for each in (policy, other))
    assert one.values.tolist() == two.values.tolist()


def test_sampled_actions_are_the_policys(policy: LoadedPolicy) -> None:
    """A deterministic head has one action: sampling it is no other value."""
    data, settings = linear(12), OfflineEvaluationConfig(updates=100, repeats=2, device="cpu")
    one, two = (roll_out(policy.actor, [0], data, settings, gamma=GAMMA, deterministic=mode) for mode in (True, False))
    assert one.values == pytest.approx(two.values, abs=1e-4)


def test_rollouts_stay_near_what_the_data_have_seen(policy: LoadedPolicy) -> None:
    """Hardly fitted, a model may lead anywhere; rewards stay those of the data, and values what they add up to."""
    data = linear(12)
    found = played(policy, data, updates=10)
    low, high = data.rewards.min() / (1.0 - GAMMA), data.rewards.max() / (1.0 - GAMMA)
    assert np.isfinite(found.values).all()
    assert low <= found.values.min() <= found.values.max() <= high


def test_what_it_refuses(policy: LoadedPolicy) -> None:
    with pytest.raises(DataError, match="whole episodes"):
        played(policy, linear(4).sample(8, np.random.default_rng(0)))


class TestEnds:
    """A tram moves on at 0.5 + 0.5a of a step and ends beyond the stop at 0; drivers never stand still. Its bell swings
    out half-way and is back when they arrive."""

    def rides(self, episodes: int = 60, *, cut: bool = False, noise: float = 0.02) -> TransitionDataset:
        rng, rows = np.random.default_rng(0), []
        for _ in range(episodes):
            left, bell, steps = rng.uniform(5.0, 6.0), 0.0, 0
            while left > 0.0:
                action = rng.uniform(0.2, 1.0)
                after = left - 0.5 * (1.0 + action)
                swung = max(0.0, min(after, 6.0 - after)) + noise * rng.standard_normal()
                rows.append((left, bell, action, after, swung, after <= 0.0))
                left, bell, steps = after, swung, steps + 1
        left, bell, action, after, swung, ended = np.array(rows).T
        ends = ended.astype(np.bool_)
        cuts = ends & cut & (np.cumsum(ends) % 2 == 0)
        return TransitionDataset.from_dict(
            {
                "obs": np.stack((left, bell), 1),
                "actions": action,
                "rewards": -np.ones(len(left)),
                "next_obs": np.stack((after, swung), 1),
                "terminations": ends & ~cuts,
                "truncations": cuts,
            },
            action_low=-1.0,
            action_high=1.0,
        )

    def test_as_those_of_the_data(self, tmp_path: Path) -> None:
        data = self.rides()
        found = played(always((0.6, 0.5), data, tmp_path), data).ends
        assert found is not None
        assert found.foretold > 0.9
        assert found.elsewhere.max() < 0.05
        assert found.endless.max() < 0.05

    def test_one_that_never_ends(self, tmp_path: Path) -> None:
        """It stands still; the other is on its way."""
        data = self.rides()
        standing = always((-0.999, 0.6), data, tmp_path)
        found = played(standing, data, gamma=0.99).ends
        assert found is not None
        assert found.endless == pytest.approx([1.0, 0.0], abs=0.05)
        near = played(standing, data, gamma=0.5).ends  # so near a horizon does not tell
        assert near is not None
        assert np.isnan(near.endless).all()
        assert found.cut == 0.0
        half_cut = self.rides(cut=True)  # a cut episode may have gone on
        cut = played(standing, half_cut, gamma=0.99).ends
        assert cut is not None
        assert cut.cut == 0.5
        assert cut.endless == pytest.approx([1.0, 0.0], abs=0.05)

    def test_ends_in_one_and_the_same_state(self, tmp_path: Path) -> None:
        """Nothing tells recorded ends apart, and a model that rounds is no other place."""
        rng, rows = np.random.default_rng(0), []
        for level in rng.integers(0, 5, 60):
            while level < 9:
                action = rng.uniform(-1.0, 1.0)
                after = level + (action > 0.0)
                rows.append((level, action, after, after == 9))
                level = after
        obs, action, after, ended = np.array(rows, dtype=np.float64).T
        data = TransitionDataset.from_dict(
            {
                "obs": obs[:, None],
                "actions": action,
                "rewards": -np.ones(len(rows)),
                "next_obs": after[:, None],
                "terminations": ended,
                "truncations": np.zeros(len(rows)),
            },
            action_low=-1.0,
            action_high=1.0,
        )
        found = played(always((0.7, 0.8), data, tmp_path), data).ends
        assert found is not None
        assert found.foretold > 0.9
        assert found.elsewhere.max() < 0.1

    def test_one_that_ends_elsewhere(self, tmp_path: Path) -> None:
        """The bell follows the action: drivers bring it back, this policy does not."""
        data = self.rides()
        values = data.to_dict()
        first = np.r_[True, data.episode_ids[1:] != data.episode_ids[:-1]]
        way = np.where(values["obs"][:, 0] > 3.0, 1.0, -1.0) * np.random.default_rng(0).uniform(0.5, 1.0, len(data))
        bell, after = np.zeros(len(data)), np.zeros(len(data))
        for row in range(len(data)):
            bell[row] = 0.0 if first[row] else after[row - 1]
            after[row] = max(0.0, bell[row] + way[row])
        steady = np.stack((values["obs"][:, 0], values["next_obs"][:, 0]))
        values |= {
            "obs": np.stack((steady[0], bell), 1),
            "next_obs": np.stack((steady[1], after), 1),
            "actions": way[:, None],
        }
        swinging = TransitionDataset.from_dict(values, action_low=-1.0, action_high=1.0)
        found = played(always((0.8, -0.6), swinging, tmp_path), swinging).ends
        assert found is not None
        assert found.elsewhere[0] > 0.9
        assert found.elsewhere[1] < 0.3

    def test_nothing_is_said_of_few(self, tmp_path: Path) -> None:
        data = self.rides(19)
        assert played(always((0.6, 0.5), data, tmp_path), data, updates=50).ends is None

    def test_a_model_that_cannot_tell_them_is_seen_to(self, tmp_path: Path) -> None:
        """Ends that nothing foretells."""
        data = self.rides()
        values, rng = data.to_dict(), np.random.default_rng(0)
        values["obs"], values["next_obs"] = rng.standard_normal((2, *data.obs.shape))
        noise = TransitionDataset.from_dict(values, action_low=-1.0, action_high=1.0)
        found = played(always((0.6, 0.5), noise, tmp_path), noise, updates=200).ends
        assert found is not None
        assert not found.foretold > 0.5  # nan, as no row leads to the next


@needs_real_data
@pytest.mark.slow
def test_narrow_data_tell_a_harmful_policy(tmp_path: Path) -> None:
    """Fifteen episodes of a good controller: a policy that was taught the opposite is worth -470, and fits say -110."""
    data = TransitionDataset.load(REAL / "d3rlpy" / "pendulum_replay.h5")
    chosen = np.random.default_rng(2).permutation(data.n_episodes)[:15]
    few = data.select(np.flatnonzero(np.isin(data.episode_ids, chosen)))
    values = {}
    for name, algo, taught, updates in (
        ("good", "bc", data, 2_000),
        ("harmful", "td3_bc", replace(data, rewards=-data.rewards), 1_000),
    ):
        hidden = {f"{part}_hidden": [64, 64] for part in (("actor",) if algo == "bc" else ("actor", "critic"))}
        options = {"total_timesteps": updates, "name": name, "transforms": {"normalise_observations": True}}
        config = small_config(None, tmp_path, algo, algo_kwargs={"batch_size": 256, **hidden}, **options)
        actor = train(config, dataset=taught).actor
        settings = OfflineEvaluationConfig(device="cpu")
        found = roll_out(actor, [0], few, settings, gamma=0.99, deterministic=True)
        assert found.foretold > 0.95
        values[name] = found.values.mean()
    assert -200.0 < values["good"] < -100.0
    assert values["harmful"] < -250.0
