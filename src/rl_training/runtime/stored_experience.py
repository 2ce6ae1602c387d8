"""What a checkpoint keeps of experience (replay buffer, environments, counters), judged without any environment.

So a checkpoint that no run can have written is refused where one to train on from is chosen, not where training would
begin; its policy needs none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rl_training.algorithms import load as load_algorithm
from rl_training.algorithms.base import OnlineParams, PriorDataParams
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError
from rl_training.runtime.config import OnlineConfig, TrainConfig
from rl_training.runtime.stored_tensors import require_alike

NO_SUSPECT = (-1, 0)
_ROWS, _POSITION = "buffer.rows", "buffer.position"
_ACTIONS, _FINISHED = "envs.actions.", "envs.finished"


def puts_prior_in_buffer(settings: OnlineParams | None) -> bool:
    return isinstance(settings, OnlineConfig) and settings.prior == "buffer"


def _floats(*shape: int) -> Tensor:
    """A tensor of this shape without values, of the type that is stored whatever torch's default is."""
    return torch.empty(shape, dtype=torch.float32, device="meta")


@dataclass(frozen=True)
class Experience:
    """What a run's experience is like, by its configuration."""

    members: int
    obs_dim: int
    act_dim: int
    settings: OnlineParams
    prior_in_buffer: bool = False  # prior data were its first contents

    @classmethod
    def of(cls, config: TrainConfig, spaces: Spaces, progress: Mapping[str, Any]) -> Experience | None:
        """None where a run collects none, or has not begun to."""
        params = load_algorithm(config.algo).parse(config.algo_kwargs)
        settings = config.online or (params if isinstance(params, OnlineParams) else None)
        collects = progress["unit"] == "steps"
        if settings is None if collects else isinstance(settings, PriorDataParams):
            raise CheckpointError(f"progress.unit: {progress['unit']!r} is not what a run of its configuration counts")
        if settings is None or not collects or not (progress["steps"] or progress["updates"]):
            return None
        return cls(len(config.seeds), spaces.obs_dim, spaces.act_dim, settings, puts_prior_in_buffer(settings))

    @property
    def widths(self) -> dict[str, int]:
        """The columns of a transition in the buffer."""
        dims = {"obs": self.obs_dim, "actions": self.act_dim, "rewards": 1}
        return {**dims, "next_obs": self.obs_dim, "terminations": 1}

    def completed(self, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """With what earlier versions did not write: no suspicion, and the largest reward that is still known."""
        if not state or "suspect" in state or _ROWS not in state:
            return state
        require_alike({_ROWS: self._rows()}, {_ROWS: state[_ROWS]}, {_ROWS: 1})
        rewards = state[_ROWS][..., self.obs_dim + self.act_dim :][..., :1]
        largest = rewards.nan_to_num().abs().max() if rewards.numel() else torch.tensor(0.0)
        return {**state, "suspect": torch.tensor(NO_SUSPECT), "largest_reward": largest.double()}

    def require_sound(self, state: Mapping[str, Tensor], steps: int | None = None) -> None:
        """Refuse what no run of this configuration can have written. steps: that the run has taken, where known."""
        if not state:
            raise CheckpointError("the checkpoint holds no experience and no environments to go on with")
        is_complete, state = "suspect" in state, self.completed(state)
        self._require_names(state)
        taken = int(state["steps"])
        if steps is not None and taken != steps:
            raise CheckpointError(f"steps: is {taken} in the experience, and the run was saved at step {steps}")
        wrong = [*self._wrong_counters(state, taken), *self._wrong_rows(state, taken)]
        wrong += self._wrong_environments(state, taken)
        wrong += self._not_finite(state, may_be_odd=not is_complete or int(state["suspect"][0]) >= 0)
        if wrong:
            raise CheckpointError(f"{wrong[0]}: holds what no run of this configuration can have written")

    def _require_names(self, state: Mapping[str, Tensor]) -> None:
        count = self.members * self.settings.n_envs
        if count > len(state):  # so many are not even listed
            missing = next(slot for slot in range(count) if f"{_ACTIONS}{slot}" not in state)
            raise CheckpointError(f"{_ACTIONS}{missing}: in the algorithm only")
        number, numbers = torch.zeros((), dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
        expected = {"steps": number, "pretraining": number, "drawn": numbers, "suspect": numbers}
        expected["largest_reward"] = torch.zeros((), dtype=torch.float64)
        expected["chosen"] = _floats(self.members, self.settings.n_envs, self.act_dim)
        expected |= {_ROWS: self._rows(), _POSITION: number}
        expected["envs.episodes"] = torch.empty(count, dtype=torch.int64, device="meta")
        expected["envs.obs"] = _floats(count, self.obs_dim)
        ragged = {_FINISHED: torch.empty(0, 2, dtype=torch.float64)}
        ragged |= {f"{_ACTIONS}{slot}": _floats(0, self.act_dim) for slot in range(count)}
        require_alike({**expected, **ragged}, state, {_ROWS: 1, **dict.fromkeys(ragged, 0)})

    def _rows(self) -> Tensor:
        return _floats(self.members, 0, sum(self.widths.values()))

    def _wrong_counters(self, state: Mapping[str, Tensor], taken: int) -> list[str]:
        wrong = ["steps"] if taken < 0 else []
        settings = self.settings
        most = settings.offline_pretrain_updates if isinstance(settings, PriorDataParams) else 0
        wrong += [] if 0 <= int(state["pretraining"]) <= most else ["pretraining"]
        drawn, of_prior = state["drawn"].tolist()
        wrong += [] if 0 <= of_prior <= drawn else ["drawn"]
        step, is_reward = state["suspect"].tolist()
        is_known = (step, is_reward) == NO_SUSPECT or (0 <= step < taken and is_reward in (0, 1))
        wrong += [] if is_known else ["suspect"]
        wrong += [] if float(state["largest_reward"]) >= 0.0 else ["largest_reward"]  # nor is it NaN
        return wrong

    def _wrong_rows(self, state: Mapping[str, Tensor], taken: int) -> list[str]:
        """A step is a row of the buffer; prior data may have been there before."""
        capacity, held, position = self.settings.buffer_capacity, state[_ROWS].shape[1], int(state[_POSITION])
        own = min(taken, capacity)
        if not (own <= held <= capacity if self.prior_in_buffer else held == own):
            return [_ROWS]
        if held < capacity:
            is_next = position == held
        else:
            is_next = 0 <= position < capacity and (self.prior_in_buffer or position == taken % capacity)
        return [] if is_next else [_POSITION]

    def _wrong_environments(self, state: Mapping[str, Tensor], taken: int) -> list[str]:
        """Environments step in turn, and an episode that has ended took a step at least."""
        wrong, width = [], self.settings.n_envs
        episodes = state["envs.episodes"].tolist()
        for slot, ended in enumerate(episodes):
            steps, now = -(-(taken - slot % width) // width), len(state[f"{_ACTIONS}{slot}"])
            wrong += [] if ended >= 0 else ["envs.episodes"]
            wrong += [] if (now == steps if not ended else now + ended <= steps) else [f"{_ACTIONS}{slot}"]
        owners = state[_FINISHED][:, 0]
        is_known = bool(torch.isin(owners, torch.arange(self.members, dtype=owners.dtype)).all())
        return wrong if is_known and len(owners) <= sum(episodes) else [*wrong, _FINISHED]

    def _not_finite(self, state: Mapping[str, Tensor], *, may_be_odd: bool) -> list[str]:
        """What was chosen always is; what environments gave, unless that was noticed."""
        names = ["chosen", *(name for name in state if name.startswith(_ACTIONS))]
        names += [] if may_be_odd else [_ROWS, "largest_reward", _FINISHED]
        return [name for name in names if not bool(state[name].isfinite().all())]
