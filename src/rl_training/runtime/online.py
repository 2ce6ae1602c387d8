"""Experience from environments: stepping them, keeping what happened, and mixing it with prior data."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rl_training import streams
from rl_training.algorithms.base import Learner, OnlineParams, PriorDataParams
from rl_training.data.batch import Batch, PackedTransitions, unpack
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.replay_buffer import ReplayBuffer
from rl_training.data.transforms import Transforms
from rl_training.environments import make_env
from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.config import OnlineConfig
from rl_training.runtime.sources import BATCH_STREAM, Turn
from rl_training.runtime.stored_experience import NO_SUSPECT, Experience

_PRIOR_STREAM = streams.stream_id("prior batch")
_UNIFORM_STREAM = streams.stream_id("explore/uniform")
_RESET_STREAM = streams.stream_id("explore/reset")


class Collector:
    """`members` × `width` environments, stepped together.

    Episode k of every environment resets with a seed of its own, so an environment can be brought back to any moment
    by resetting it and repeating the actions since: that is what a checkpoint keeps of it.
    """

    def __init__(self, env_id: str, act_dim: int, keys: Tensor, width: int) -> None:
        self.act_dim = act_dim
        self.keys = keys
        self.width = width
        count = len(keys) * width
        self.envs: list[Any] = []
        self.episodes = [0] * count
        self.actions = [array("f") for _ in range(count)]  # flat, as an episode may never end
        self.returns = [0.0] * count
        self.finished: list[tuple[int, float]] = []  # (member, return) of episodes that ended since last asked
        try:
            for _ in range(count):
                self.envs.append(make_env(env_id))
            self.obs = np.stack([self._reset(slot) for slot in range(count)])
        except BaseException:
            self.close()
            raise

    def _reset(self, slot: int) -> npt.NDArray[np.float32]:
        member, index = divmod(slot, self.width)
        number = self.episodes[slot] * self.width + index
        seed = int(streams.integers(self.keys[member : member + 1], _RESET_STREAM, number, 1, 2**31))
        self.actions[slot], self.returns[slot] = array("f"), 0.0
        return _copied(self.envs[slot].reset(seed=seed)[0])

    def step(self, slot: int, action: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float, bool]:
        """One step of one environment: the true successor, the raw reward and whether it terminated."""
        successor, reward, terminated, truncated, _ = self.envs[slot].step(action.copy())  # which it may change
        successor = _copied(successor)  # the reset below may reuse the environment's array
        self.actions[slot].frombytes(action.tobytes())
        self.returns[slot] += float(reward)
        self.obs[slot] = successor
        if terminated or truncated:
            self.finished.append((slot // self.width, self.returns[slot]))
            self.episodes[slot] += 1
            self.obs[slot] = self._reset(slot)
        return successor, float(reward), bool(terminated)

    def state(self) -> dict[str, Tensor]:
        state = {
            "episodes": torch.tensor(self.episodes),
            "obs": torch.from_numpy(self.obs.copy()),
            "finished": torch.tensor(self.finished, dtype=torch.float64).reshape(-1, 2),
        }
        for slot, actions in enumerate(self.actions):
            state[f"actions.{slot}"] = torch.from_numpy(np.array(actions, dtype=np.float32).reshape(-1, self.act_dim))
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Repeat every unfinished episode up to where it was."""
        self.episodes = [int(n) for n in state["episodes"]]
        self.finished = [(int(member), float(value)) for member, value in state["finished"].tolist()]
        for slot in range(len(self.envs)):
            self.obs[slot] = self._reset(slot)
            for action in state[f"actions.{slot}"].numpy():
                self.step(slot, action)
        if not np.array_equal(self.obs, state["obs"].numpy(), equal_nan=True):
            raise CheckpointError("the environment is not deterministic: repeating its actions led elsewhere")

    def close(self) -> None:
        for env in self.envs:
            env.close()


class OnlineSource:
    """Acts in environments, stores what happens and draws batches from it, with or without prior data."""

    is_capturable = False  # what a batch is made of depends on whether there is experience yet
    is_idle = False

    def __init__(
        self,
        learner: Learner,
        transforms: Transforms,
        env_id: str,
        settings: OnlineParams,
        prior: PackedTransitions | None = None,
        *,
        prior_in_buffer: bool = False,
    ) -> None:
        """`prior_in_buffer`: prior data are the buffer's first contents and age out of it (AWAC, IQL).

        A mixture is in the buffer by its shares (see `PackedTransitions.first_contents`).
        """
        self.learner = learner
        self.transforms = transforms
        self.settings = settings
        self.env_id = env_id
        self.prior = prior if not prior_in_buffer else None
        size = learner.params.batch_size
        mixing = settings if isinstance(settings, PriorDataParams) and self.prior is not None else None
        self.prior_rows = round(mixing.offline_batch_ratio * size) if mixing else 0
        self.pretraining = mixing.offline_pretrain_updates if mixing else 0
        dims = learner.obs_dim, learner.act_dim
        self._experience = Experience(learner.members, *dims, settings, prior_in_buffer)
        self.widths = self._experience.widths
        self.buffer = ReplayBuffer(learner.members, settings.buffer_capacity, self.widths, learner.device)
        if prior_in_buffer and prior is not None:
            first = prior.rows[prior.first_contents(settings.buffer_capacity), : sum(self.widths.values())]
            self.buffer.add(first.expand(learner.members, -1, -1))
        self.collector = Collector(env_id, learner.act_dim, learner.keys, settings.n_envs)
        self.steps = 0
        self.largest_reward = 0.0
        self._suspect: tuple[int, bool] | None = None  # the first step whose values were not finite; the reward's?
        self.drawn = [0, 0]  # rows of the batches paid for since last asked, and how many of them are prior data
        self.chosen = np.zeros((learner.members, settings.n_envs, learner.act_dim), dtype=np.float32)
        self._noise = streams.NoiseStreams(learner.acting_noise(settings.n_envs), "explore/")

    # Acting -----------------------------------------------------------------------------------------------------

    def advance(self, limit: int) -> Turn:
        """Pretrain first, if asked to; then step the environments and say how many updates are due.

        Step s belongs to environment s mod n_envs, and a turn never goes past a step that updates follow: what
        happens depends on the number of steps alone, not on how the loop cuts them into turns.
        """
        settings = self.settings
        if self.pretraining:
            count = min(self.pretraining, 64)
            self.pretraining -= count
            return self._pay(0, count, self.learner.params.batch_size)
        count = min(limit, settings.train_frequency - self.steps % settings.train_frequency)
        for _ in range(count):
            self._step()
        due = self.steps % settings.train_frequency == 0 and self.steps >= settings.learning_starts
        return self._pay(count, settings.gradient_updates_per_step if due else 0, self.prior_rows)

    def _pay(self, steps: int, updates: int, prior_rows: int) -> Turn:
        """A turn whose batches hold so many rows of prior data each."""
        self.drawn = [self.drawn[0] + updates * self.learner.params.batch_size, self.drawn[1] + updates * prior_rows]
        return Turn(steps, updates)

    def _step(self) -> None:
        """One step of one environment of every member; actions for all of them are chosen when the first is due."""
        index = self.steps % self.settings.n_envs
        if index == 0:
            self.chosen = self._choose()
        rows = np.empty((self.learner.members, 1, sum(self.widths.values())), dtype=np.float32)
        for member in range(self.learner.members):
            slot = member * self.settings.n_envs + index
            unit = self.chosen[member, index]
            obs = self.transforms.observations(self.collector.obs[slot]).copy()  # stepping overwrites it
            action, unit = self.transforms.from_unit_actions(unit), self.transforms.as_done(unit)
            successor, reward, terminated = self.collector.step(slot, action)
            scaled = np.atleast_1d(self.transforms.rewards(reward))
            self.largest_reward = max(self.largest_reward, abs(float(scaled[0])))
            rows[member, 0] = np.concatenate(
                (obs, unit, scaled, self.transforms.observations(successor), [float(terminated)])
            )
            is_sound = math.isfinite(reward) and bool(np.isfinite(scaled).all())
            if self._suspect is None and not (is_sound and np.isfinite(rows[member]).all()):
                self._suspect = (self.steps, not is_sound)
        self.buffer.add(torch.from_numpy(rows).to(self.learner.device))
        self.steps += 1

    def _choose(self) -> npt.NDArray[np.float32]:
        """An action in [-1, 1] for every environment, `[M, n_envs, act]`."""
        obs = np.array(self.transforms.observations(self.collector.obs), dtype=np.float32)
        shaped = torch.from_numpy(obs.reshape(self.learner.members, self.settings.n_envs, -1))
        # A policy that has diverged is found out at the next record; until then its environments must not fail on it.
        actions: npt.NDArray[np.float32] = self._explore(shaped.to(self.learner.device)).nan_to_num().cpu().numpy()
        return actions

    def _explore(self, obs: Tensor) -> Tensor:
        """Uniform actions until learning starts, then the algorithm's own way of exploring."""
        keys = self.learner.keys
        if self.steps < self.settings.learning_starts:
            return 2.0 * streams.uniform(keys, _UNIFORM_STREAM, self.steps, (obs.shape[1], self.learner.act_dim)) - 1.0
        return self.learner.explore(obs, self._noise.draw(keys, self.steps))

    # Batches ----------------------------------------------------------------------------------------------------

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        """`size` transitions, of them exactly the configured share from prior data."""
        shared = size if self.prior is not None and not len(self.buffer) else self.prior_rows
        parts = []
        if shared < size:
            parts.append(
                self.buffer.rows_at(streams.integers(keys, BATCH_STREAM, clock, size - shared, self.buffer.filled))
            )
        if shared and self.prior is not None:
            indices = self.prior.indices(keys, _PRIOR_STREAM, clock, shared)
            parts.append(self.prior.rows_at(indices)[..., : sum(self.widths.values())])
        return unpack(torch.cat(parts, dim=1), self.widths)

    # Reporting and resuming -------------------------------------------------------------------------------------

    @property
    def suspicion(self) -> str:
        """What is likely to be the cause where a member diverges, if there is something."""
        if self._suspect is None:
            return ""
        step, is_reward = self._suspect
        what = "a reward" if is_reward else "an observation"
        return f"environment {self.env_id!r}, which gave {what} that is not finite at step {step}"

    @property
    def spoilt_members(self) -> list[int]:
        if self._suspect is None:
            return []
        sound = self.buffer.rows[:, : len(self.buffer)].isfinite().all(-1).all(-1).tolist()
        return [member for member, is_sound in enumerate(sound) if not is_sound]

    def take_metrics(self) -> dict[str, list[float]]:
        """What was mixed and what was earned since last asked, one value per member."""
        members = range(self.learner.members)
        metrics = {"data/buffer_size": [float(len(self.buffer))] * len(members)}
        if self.prior is not None and self.drawn[0]:
            metrics["data/offline_share"] = [self.drawn[1] / self.drawn[0]] * len(members)
            self.drawn = [0, 0]
        earned = [[value for owner, value in self.collector.finished if owner == member] for member in members]
        if all(earned):
            metrics["data/episode_return"] = [sum(values) / len(values) for values in earned]
            self.collector.finished = []
        return metrics

    def state(self) -> dict[str, Tensor]:
        counters = {"steps": torch.tensor(self.steps), "pretraining": torch.tensor(self.pretraining)}
        counters["drawn"] = torch.tensor(self.drawn)
        counters["suspect"] = torch.tensor(NO_SUSPECT if self._suspect is None else self._suspect)
        counters["largest_reward"] = torch.tensor(self.largest_reward, dtype=torch.float64)
        counters["chosen"] = torch.from_numpy(self.chosen.copy())
        buffer = {f"buffer.{name}": value for name, value in self.buffer.state().items()}
        return {**counters, **buffer, **{f"envs.{k}": v for k, v in self.collector.state().items()}}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._experience.require_sound(state)
        state = self._experience.completed(state)
        self.steps, self.pretraining = int(state["steps"]), int(state["pretraining"])
        self.drawn = state["drawn"].tolist()
        self.chosen = state["chosen"].numpy().copy()
        self.buffer.restore(_below(state, "buffer."))
        step, is_reward = state["suspect"].tolist()
        self._suspect = None if step < 0 else (step, bool(is_reward))
        self.largest_reward = float(state["largest_reward"])
        self.collector.restore(_below(state, "envs."))

    def close(self) -> None:
        self.collector.close()


def check_prior(dataset: TransitionDataset | None, settings: OnlineParams, *, in_buffer: bool, memory: str) -> None:
    """Refuse prior data that cannot be used as asked for, and what is asked of data where there are none."""
    if memory == "mapped":
        raise ConfigError("data_memory: mapped is for training on a fixed dataset; online use auto or ram")
    if dataset is None and isinstance(settings, OnlineConfig):
        defaults = OnlineConfig()
        for name in ("prior", "offline_batch_ratio", "offline_pretrain_updates"):
            if getattr(settings, name) != getattr(defaults, name):
                raise ConfigError(f"online.{name}: says how prior data are used, but there is no dataset")
    mixture = dataset.mixture if dataset is not None and in_buffer else None
    if mixture is None:
        return
    if mixture.exact:
        raise ConfigError("dataset.exact: a buffer holds shares on average; use online.prior: mixed, or exact: false")
    if settings.buffer_capacity < len(mixture.names):
        raise ConfigError(f"online.buffer_capacity: must be at least {len(mixture.names)}, the parts of the mixture")


def goes_without_data(settings: OnlineParams | None) -> bool:
    """Whether its own experience is all that a run needs; prior data are RLPD's very point."""
    return isinstance(settings, OnlineConfig) or (settings is not None and not isinstance(settings, PriorDataParams))


def require_data(settings: OnlineParams | None, *, has_data: bool) -> None:
    """Refuse a run that would have nothing to learn from."""
    if not has_data and not goes_without_data(settings):
        raise ConfigError("dataset: is required; a path to a file, minari:ID, `source: scripted` or `random`")


def updates_in(steps: int, settings: OnlineParams) -> int:
    """Updates an online run of so many steps will take; schedules span them."""
    rounds = steps // settings.train_frequency - max(settings.learning_starts - 1, 0) // settings.train_frequency
    pretraining = settings.offline_pretrain_updates if isinstance(settings, PriorDataParams) else 0
    return max(1, pretraining + max(rounds, 0) * settings.gradient_updates_per_step)


def _copied(obs: npt.ArrayLike) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what float32 does not hold becomes infinite, and is noticed as such
        return np.array(obs, dtype=np.float32)


def _below(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
