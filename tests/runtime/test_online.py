"""Experience from environments: what is stored, whose step is whose, and what a resumed run remembers of it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rl_training import streams
from rl_training.algorithms.base import Learner, OnlineParams
from rl_training.algorithms.sac import SAC
from rl_training.algorithms.td3 import TD3
from rl_training.data.action_gaps import ActionGap
from rl_training.data.transforms import Transforms
from rl_training.errors import CheckpointError
from rl_training.runtime.engine import Engine
from rl_training.runtime.online import Collector, OnlineSource
from rl_training.runtime.sources import Turn
from small_runs import digest
from tiny_environments import CLIFF, LIMIT, SLIPPERY, THRIFTY, Cliff, Slippery

SEEDS = (5, 2)
SIZES = {"actor_hidden": (8,), "critic_hidden": (8,), "batch_size": 8}


def learner(env_id: str = CLIFF, kind: type[Learner] = SAC, seeds: tuple[int, ...] = SEEDS, **knobs: Any) -> Learner:
    obs_dim = 3 if env_id == "Pendulum-v1" else 2
    return kind(obs_dim, 1, seeds=seeds, **SIZES, **{"buffer_capacity": 2_000, **knobs})


def transforms(width: int) -> Transforms:
    return Transforms((0.3,) * width, (1.5,) * width, 0.1, -0.25, (-2.0,), (2.0,))


def source_of(owner: Learner, env_id: str = CLIFF) -> OnlineSource:
    """The learner's own online settings."""
    assert isinstance(owner.params, OnlineParams)
    return OnlineSource(owner, transforms(owner.obs_dim), env_id, owner.params)


def drive(source: OnlineSource, steps: int, limits: tuple[int, ...] = (1_000,), *, train: bool = True) -> list[Turn]:
    """Turns and their updates until `steps` are taken, as the loop does it."""
    engine, turns, updates = Engine(source.learner, source), [], int(source.learner.clock)
    taken = 0
    while taken < steps:
        turn = source.advance(min(limits[len(turns) % len(limits)], steps - taken))
        if train:
            engine.run(updates, turn.updates)
        taken, updates = taken + turn.steps, updates + turn.updates
        turns.append(turn)
    return turns


def reset_seed(member: int, number: int) -> int:
    keys = streams.member_keys(SEEDS)[member : member + 1]
    return int(streams.integers(keys, streams.stream_id("explore/reset"), number, 1, 2**31))


def assert_hand_run(source: OnlineSource, env_id: str, width: int, steps: int) -> dict[str, int]:
    """Repeat every stored action in environments of our own; returns how often episodes ended, and how."""
    ends = {"terminated": 0, "truncated": 0}
    names = {"obs": source.learner.obs_dim, "action": 1, "reward": 1, "next_obs": source.learner.obs_dim, "end": 1}
    for member in range(len(SEEDS)):
        rows = source.buffer.rows[member, :steps].split(list(names.values()), dim=-1)
        stored = {name: values.numpy().astype(np.float64) for name, values in zip(names, rows, strict=True)}
        for index in range(width):
            env, episode = gymnasium.make(env_id), 0
            obs, _ = env.reset(seed=reset_seed(member, index))
            for step in range(index, steps, width):
                np.testing.assert_allclose(stored["obs"][step], (obs - 0.3) / 1.5, rtol=1e-5, atol=1e-6)
                obs, reward, terminated, truncated, _ = env.step((2.0 * stored["action"][step]).astype(np.float32))
                np.testing.assert_allclose(stored["next_obs"][step], (obs - 0.3) / 1.5, rtol=1e-5, atol=1e-6)
                assert stored["reward"][step, 0] == pytest.approx(0.1 * reward - 0.25, rel=1e-5, abs=1e-6)
                assert stored["end"][step, 0] == float(terminated)
                ends["terminated"] += terminated
                ends["truncated"] += truncated and not terminated
                if terminated or truncated:
                    episode += 1
                    obs, _ = env.reset(seed=reset_seed(member, episode * width + index))
            env.close()
    return ends


# What is stored -------------------------------------------------------------------------------------------------------


def test_pendulum_by_hand() -> None:
    """Step s belongs to environment s mod n_envs; time limits at 200 steps of each are never terminations."""
    source = source_of(learner("Pendulum-v1", n_envs=2, learning_starts=300, train_frequency=64), "Pendulum-v1")
    drive(source, 410)
    assert assert_hand_run(source, "Pendulum-v1", 2, 410) == {"terminated": 0, "truncated": 2 * 2}
    source.close()


def test_what_is_stored_is_what_was_carried_out() -> None:
    """Moved out of a gap, an action is stored where it was moved to: played by hand, it gives the stored successors."""
    source = source_of(learner("Pendulum-v1", learning_starts=100, train_frequency=64), "Pendulum-v1")
    source.transforms = replace(source.transforms, action_gaps=(ActionGap(0, -1.5, 1.5),))
    drive(source, 120)
    stored = source.buffer.rows[:, :120, 3]
    assert (stored.abs() >= 0.75 - 1e-6).all()
    assert_hand_run(source, "Pendulum-v1", 1, 120)
    source.close()


@pytest.mark.parametrize("width", [1, 3])
def test_an_environment_may_reuse_the_array_it_shows(width: int) -> None:
    """With no transform that copies it, a reset would turn the last successor into the next episode's start."""
    rows = []
    for env_id in (CLIFF, THRIFTY):
        owner = learner(n_envs=width, learning_starts=1_000)
        assert isinstance(owner.params, OnlineParams)
        plain = Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))
        source = OnlineSource(owner, plain, env_id, owner.params)
        drive(source, 60)
        rows.append(source.buffer.rows[:, :60])
        source.close()
    assert torch.equal(*rows)


@pytest.mark.parametrize("width", [1, 3])
def test_an_environment_that_terminates_by_hand(width: int) -> None:
    source = source_of(learner(n_envs=width, learning_starts=60))
    drive(source, 150)
    ends = assert_hand_run(source, CLIFF, width, 150)
    assert ends["terminated"] > 10
    assert ends["truncated"] > 5
    source.close()


def test_the_successor_at_a_time_limit_is_the_true_one() -> None:
    """The clock in the observation goes on to the limit; a reset would have put it back to zero."""
    source = source_of(learner(learning_starts=1_000))
    drive(source, 200)
    rows = source.buffer.rows[0, :200].numpy()
    before, after = (rows[:, column] * 1.5 + 0.3 for column in (1, 5))
    np.testing.assert_allclose(after, before + 0.1, atol=1e-6)
    limit = np.isclose(after, LIMIT / 10)
    assert limit.any()
    assert (rows[limit, 6] == 0.0).any()
    starts = np.flatnonzero(np.isclose(before, 0.0, atol=1e-6))
    previous = starts[1:] - 1
    assert ((rows[previous, 6] == 1.0) | limit[previous]).all()


def test_every_episode_has_a_seed_of_its_own() -> None:
    seeds = {reset_seed(member, number) for member in range(2) for number in range(100)}
    assert len(seeds) == 200


def test_uniform_actions_until_learning_starts_then_the_algorithm_s_own() -> None:
    """Given the stored observations, the stored actions are known: those of two streams, by the number of the step."""
    for kind in (SAC, TD3):
        owner = learner(kind=kind, learning_starts=9)
        source = source_of(owner)
        drive(source, 30, train=False)
        noise = streams.NoiseStreams(owner.acting_noise(1), "explore/")
        for step in range(30):
            rows = source.buffer.rows[:, step]
            if step < 9:
                stream = streams.stream_id("explore/uniform")
                expected = 2.0 * streams.uniform(owner.keys, stream, step, (1, 1))[:, 0] - 1.0
            else:
                expected = owner.explore(rows[:, None, :2], noise.draw(owner.keys, step))[:, 0]
            np.testing.assert_allclose(rows[:, 2:3].numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
        source.close()


def test_actions_of_all_environments_are_chosen_together() -> None:
    """With three at once, steps 3 to 5 are three columns of one draw, made when the first of them was due."""
    owner = learner(n_envs=3, learning_starts=0)
    source = source_of(owner)
    drive(source, 12, train=False)
    noise = streams.NoiseStreams(owner.acting_noise(3), "explore/")
    for first in range(0, 12, 3):
        rows = source.buffer.rows[:, first : first + 3]
        expected = owner.explore(rows[:, :, :2], noise.draw(owner.keys, first))
        np.testing.assert_allclose(rows[:, :, 2:3].numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_uniform_actions_cover_the_box() -> None:
    source = source_of(learner(learning_starts=2_000))
    drive(source, 1_000)
    actions = source.buffer.rows[0, :1_000, 2].numpy()
    assert -1.0 <= actions.min() < -0.98
    assert 0.98 < actions.max() <= 1.0
    assert abs(actions.mean()) < 4 / np.sqrt(3 * 1_000)
    assert not np.isclose(actions, source.buffer.rows[1, :1_000, 2].numpy()).any()


# When updates are due -------------------------------------------------------------------------------------------------

SCHEDULES = [(0, 1, 1), (1, 1, 1), (7, 1, 2), (10, 4, 3), (8, 4, 1), (9, 4, 1), (0, 5, 1), (100, 1, 1)]


@pytest.mark.parametrize(("starts", "frequency", "per_step"), SCHEDULES)
@pytest.mark.parametrize("limits", [(1_000,), (1,), (3, 1, 2)])
def test_updates(starts: int, frequency: int, per_step: int, limits: tuple[int, ...]) -> None:
    """`per_step` of them after every `frequency`th step, from the `starts`th step on."""
    knobs = {"learning_starts": starts, "train_frequency": frequency, "gradient_updates_per_step": per_step}
    turns = drive(source_of(learner(**knobs)), 30, limits)
    at, due = 0, {}
    for turn in turns:
        assert turn.steps >= 1
        at += turn.steps
        if turn.updates:
            due[at] = turn.updates
    assert due == {s: per_step for s in range(1, 31) if s % frequency == 0 and s >= starts}


@pytest.mark.parametrize("limits", [(1,), (2, 7), (5, 1, 3)])
@pytest.mark.parametrize("knobs", [{}, {"n_envs": 3, "train_frequency": 2}, {"n_envs": 2, "train_frequency": 5}])
def test_what_happens_does_not_depend_on_how_it_is_cut(knobs: dict[str, Any], limits: tuple[int, ...]) -> None:
    states = []
    for cuts in ((1_000,), limits):
        source = source_of(learner(learning_starts=8, buffer_capacity=25, **knobs))
        drive(source, 61, cuts)
        states.append((digest(source.state()), digest(source.learner.state())))
    assert states[0] == states[1]


def test_a_batch_is_drawn_from_what_is_filled() -> None:
    source = source_of(learner(learning_starts=1_000, buffer_capacity=50))
    keys = source.learner.keys
    for total in (1, 7, 60):
        drive(source, total - source.steps, train=False)
        batch = source.batch(keys, torch.tensor(total), 200)
        for member in range(2):
            held = {tuple(row) for row in source.buffer.rows[member, : min(total, 50), :2].tolist()}
            drawn = {tuple(row) for row in batch.obs[member].tolist()}
            assert drawn <= held
            assert len(drawn) >= min(total, 50) * 0.8


# Reporting ------------------------------------------------------------------------------------------------------------


def test_metrics_wait_for_an_episode_of_every_member() -> None:
    source = source_of(learner(learning_starts=1_000))
    assert source.take_metrics() == {"data/buffer_size": [0.0, 0.0]}
    drive(source, 40)
    returns: list[list[float]] = []
    for member in range(2):  # raw rewards, recovered from the stored ones
        rows = source.buffer.rows[member, :40].numpy().astype(np.float64)
        starts = np.flatnonzero(np.isclose(rows[:, 1] * 1.5 + 0.3, 0.0, atol=1e-6))
        raw = (rows[:, 3] + 0.25) / 0.1
        returns.append([raw[a:b].sum() for a, b in pairwise(starts)])
    metrics = source.take_metrics()
    assert metrics["data/buffer_size"] == [40.0, 40.0]
    assert metrics["data/episode_return"] == pytest.approx([np.mean(r) for r in returns], rel=1e-3)
    assert "data/offline_share" not in metrics
    assert source.take_metrics() == {"data/buffer_size": [40.0, 40.0]}  # told once
    source.collector.finished = [(1, 3.0)]
    assert "data/episode_return" not in source.take_metrics()
    source.collector.finished += [(0, 4.0), (1, 5.0)]
    assert source.take_metrics()["data/episode_return"] == [4.0, 4.0]


# Resuming -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", [CLIFF, "Pendulum-v1"])
@pytest.mark.parametrize("at", [0, 1, 17, 40])
def test_unfinished_episodes_are_repeated(at: int, env_id: str) -> None:
    """Steps 17 and 40 lie inside a round of three environments; the ring has gone round by 40."""
    knobs = {"n_envs": 3, "learning_starts": 12, "train_frequency": 2, "buffer_capacity": 30}
    whole = source_of(learner(env_id, **knobs), env_id)
    drive(whole, at)
    stored = {name: value.clone() for name, value in whole.state().items()}
    weights = {name: value.detach().clone() for name, value in whole.learner.state().items()}
    again = source_of(learner(env_id, **knobs), env_id)
    for name, value in again.learner.state().items():
        value.data.copy_(weights[name])
    again.restore(stored)
    assert again.collector.returns == whole.collector.returns
    assert digest(again.state()) == digest(whole.state())
    for source in (whole, again):
        drive(source, 50)
    assert digest(again.state()) == digest(whole.state())
    assert digest(again.learner.state()) == digest(whole.learner.state())
    assert again.take_metrics() == whole.take_metrics()


def test_an_episode_that_never_ends_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the actions' own bytes are kept of each step, as an environment may run for millions without a limit."""
    plain = Cliff.step

    def endless(self: Any, action: Any) -> Any:
        obs, reward, *_ = plain(self, 0.0 * action)
        return obs, reward, False, False, {}

    monkeypatch.setattr(Cliff, "step", endless)
    monkeypatch.setattr("rl_training.runtime.online.make_env", lambda env_id: Cliff())
    collector = Collector(CLIFF, 1, streams.member_keys((5,)), 1)
    tracemalloc.start()
    try:
        for step in range(4_000):
            collector.step(0, np.array([step], dtype=np.float32))
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < 4_000 * 16  # of each action 4 bytes, and what a list grows ahead
    assert collector.state()["actions.0"][:, 0].tolist() == list(range(4_000))


def test_an_environment_that_cannot_be_repeated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slippery, "taken", 0)
    source = source_of(learner(), SLIPPERY)
    drive(source, 3, train=False)
    while not any(len(actions) for actions in source.collector.actions):  # an episode must be under way
        drive(source, 1, train=False)
    state = {name: value.clone() for name, value in source.state().items()}
    with pytest.raises(CheckpointError) as refusal:
        source_of(learner(), SLIPPERY).restore(state)
    assert str(refusal.value) == "the environment is not deterministic: repeating its actions led elsewhere"


def test_an_environment_that_changes_its_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided is stored and repeated, not what the environment made of it."""
    plain = Cliff.step

    def changing(self: Any, action: Any) -> Any:
        result = plain(self, action)
        action *= 0.5
        return result

    monkeypatch.setattr(Cliff, "step", changing)
    one = source_of(learner())
    drive(one, 7)
    again = source_of(learner())
    again.restore(one.state())
    assert digest(again.state()) == digest(one.state())
