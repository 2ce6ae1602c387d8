"""Running a behaviour in an environment: whole episodes in order, the same ones however many run at once.

Episode e of seed s resets with a seed, and draws from generators, that are functions of (s, e) alone; a behaviour that
draws equally often at every step therefore sees the same numbers at step t of episode e, whatever ran before it or runs
beside it. Environments finish out of order: finished episodes wait for their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rl_training.data.behaviours import Behaviour
from rl_training.data.checks import FloatArray
from rl_training.data.episodes import Episode, Trajectory, join
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.space_bounds import SpaceBounds, of_environment
from rl_training.environments import Spaces, env_spaces, make_env
from rl_training.errors import ConfigError
from rl_training.wording import amount

_MAX_WAITING_ROWS = 100_000  # of finished episodes that wait for an earlier one, before no more are started


@dataclass(frozen=True)
class Budget:
    """When a collection ends: after so many transitions or so many episodes, whichever comes first."""

    steps: int | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.episodes is None:
            raise ConfigError("steps: is required, or a number of episodes")
        for name, what in (("steps", "transitions"), ("episodes", "episodes")):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}: {value} {what}; at least 1 is needed")

    def is_spent(self, done: Done) -> bool:
        """Whether nothing is left to do after so much."""
        steps = self.steps is not None and done.rows >= self.steps
        return steps or (self.episodes is not None and done.episodes >= self.episodes)


@dataclass(frozen=True)
class Done:
    """So many episodes from the first on, and the transitions in them."""

    episodes: int = 0
    rows: int = 0


@dataclass(eq=False)
class _Slot:
    """An environment, the episode it plays and the action it takes next."""

    env: Any
    episode: Episode
    action: FloatArray


class Runner:
    """Up to `n_envs` environments stepped in turn, with one question to the behaviour for all of them."""

    def __init__(
        self,
        env_id: str,
        behaviour: Behaviour,
        budget: Budget,
        *,
        seed: int,
        n_envs: int = 1,
        after: Done | None = None,
        watch: Callable[[Done], None] | None = None,
    ) -> None:
        """after: what there is already, to go on from. watch: told after every step; what it raises ends the run."""
        if seed < 0:
            raise ConfigError(f"seed: {seed} is negative; use 0 or more")
        if n_envs < 1:
            raise ConfigError(f"n_envs: {amount(n_envs, 'environment')}; at least 1 is needed")
        self.env_id, self.behaviour, self.budget, self.seed, self.n_envs = env_id, behaviour, budget, seed, n_envs
        self.watch = watch
        self.delivered = after or Done()
        self.started = self.delivered.episodes
        self.rows = self.delivered.rows  # of everything delivered, waiting or running
        self.running: list[_Slot] = []  # by the number of their episodes, as they were started
        self.waiting: dict[int, Trajectory] = {}
        self.idle: list[Any] = []  # environments without an episode
        self.spaces: Spaces | None = None
        self.bounds: SpaceBounds | None = None  # the environment's, once one is open

    def run(self) -> Generator[Trajectory, None, None]:
        """Every episode in order, the last cut where the steps run out. Environments are closed however this ends."""
        with ExitStack() as open_environments:
            while not self.budget.is_spent(self.delivered):
                self._start_episodes(open_environments)
                self._step()
                self._drop_what_is_not_needed()
                while self.delivered.episodes in self.waiting and not self.budget.is_spent(self.delivered):
                    yield self._deliver(self.waiting.pop(self.delivered.episodes))
                if self.watch is not None:
                    self.watch(Done(self.delivered.episodes, self.rows))

    # Episodes ---------------------------------------------------------------------------------------------------

    def _start_episodes(self, open_environments: ExitStack) -> None:
        """An episode in every environment that has none, while one more may be needed."""
        first = len(self.running)
        while len(self.running) < self.n_envs and self._is_wanted(self.started):
            env = self.idle.pop() if self.idle else self._open(open_environments)
            assert self.spaces is not None
            episode = Episode(self.started, self.seed, self.spaces)
            episode.begin(env.reset(seed=episode.reset_seed)[0])
            self.running.append(_Slot(env, episode, self.low))
            self.started += 1
        if first < len(self.running):
            self._decide(self.running[first:])

    def _open(self, open_environments: ExitStack) -> Any:
        env = make_env(self.env_id, disable_env_checker=True)
        open_environments.callback(env.close)
        if self.spaces is None:
            self.spaces, self.bounds = env_spaces(env), of_environment(env)
            self.low = np.asarray(self.spaces.action_low, dtype=np.float32)
            self.high = np.asarray(self.spaces.action_high, dtype=np.float32)
        return env

    def _is_wanted(self, number: int) -> bool:
        """Whether an episode may be needed, and need not wait for the slowest of those before it."""
        if self.budget.is_spent(Done(number, self.rows)):
            return False
        waiting = self.rows - self.delivered.rows - sum(slot.episode.step for slot in self.running)
        return not self.running or waiting < _MAX_WAITING_ROWS

    def _end(self, slot: _Slot, *, terminated: bool, truncated: bool) -> None:
        self.waiting[slot.episode.number] = slot.episode.finish(terminated=terminated, truncated=truncated)
        self.running.remove(slot)
        self.idle.append(slot.env)

    def _drop_what_is_not_needed(self) -> None:
        """End episodes that have all the rows they can contribute: those before them are at least as long as now."""
        steps = self.budget.steps
        if steps is None or self.rows < steps:
            return
        slots = {slot.episode.number: slot for slot in self.running}
        before = self.delivered.rows
        for number in range(self.delivered.episodes, self.started):
            slot = slots.get(number)
            length = len(self.waiting[number]) if slot is None else slot.episode.step
            if slot is not None and length >= steps - before:
                self._end(slot, terminated=False, truncated=True)
            before += length

    def _deliver(self, trajectory: Trajectory) -> Trajectory:
        if self.budget.steps is not None:
            trajectory = trajectory.first(self.budget.steps - self.delivered.rows)
        trajectory.require_finite()
        self.delivered = Done(trajectory.number + 1, self.delivered.rows + len(trajectory))
        return trajectory

    # Steps ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """One step of every environment, then the behaviour's answer to what each shows, an episode's end included."""
        ended = []
        for slot in self.running:
            obs, reward, terminated, truncated, _ = slot.env.step(slot.action)
            slot.episode.advance(reward, obs)
            if terminated or truncated:
                ended.append((slot, bool(terminated), bool(truncated)))
        self.rows += len(self.running)
        self._decide(self.running)
        for slot, terminated, truncated in ended:
            self._end(slot, terminated=terminated, truncated=truncated)

    def _decide(self, slots: Sequence[_Slot]) -> None:
        """Ask the behaviour once for all of these."""
        episodes = [slot.episode for slot in slots]
        obs = np.array([episode.last_obs for episode in episodes])
        actions = np.asarray(self.behaviour.act(obs, episodes), dtype=np.float32)
        # np.clip costs several times more than these two on arrays this small.
        actions = np.minimum(np.maximum(actions, self.low), self.high)
        for slot, action in zip(slots, actions, strict=True):
            slot.episode.decide(action)  # recorded before the environment gets hold of it
            slot.action = action


def run_behaviour(
    env_id: str, behaviour: Behaviour, budget: Budget, *, seed: int, n_envs: int = 1
) -> TransitionDataset:
    """What a behaviour does, in memory.

    `next_actions` hold the action the behaviour takes at `next_obs`; at an episode's last row, where none is taken, the
    one it would take. Actions are those the environment was given, clipped into its bounds.
    """
    runner = Runner(env_id, behaviour, budget, seed=seed, n_envs=n_envs)
    with closing(runner.run()) as episodes:
        dataset = join(list(episodes))
    return replace(dataset, env_id=env_id, bounds=runner.bounds)
