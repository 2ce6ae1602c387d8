"""Training AWR: returns over whole episodes, once for the narrow version, at every turn of a round for TD(λ)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_training.algorithms.awr import AWR, scaled_values
from rl_training.data.batch import Batch, PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.returns import lambda_returns
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.memory import DataBytes
from rl_training.runtime.parts import Parts
from rl_training.runtime.sources import BATCH_STREAM, OfflineSource, Source, Turn
from rl_training.runtime.stored_tensors import restore
from rl_training.runtime.trainer import Trainer, trainer_function

_ROWS_AT_ONCE = 65_536


class LambdaReturnSource(OfflineSource):
    """A dataset whose targets are computed anew, for every member, before each phase of a round."""

    is_idle = False

    def __init__(self, transitions: PackedTransitions, dataset: TransitionDataset, learner: AWR) -> None:
        super().__init__(transitions)
        self.learner = learner
        self.ends = dataset.episode_ends
        self.terminations = dataset.terminations
        self.updates = 0
        shape = (learner.members, len(transitions))
        self.returns = torch.zeros(shape, device=learner.device)
        self.advantages = torch.zeros(shape, device=learner.device)

    def advance(self, limit: int) -> Turn:
        """Recompute where a phase begins, and go no further than its end."""
        critic_updates = self.learner.params.critic_updates
        phase = self.updates % self.learner.period
        if phase in (0, critic_updates):
            self._recompute()
        end = critic_updates if phase < critic_updates else self.learner.period
        count = min(limit, end - phase)
        self.updates += count
        return Turn(count, count)

    @torch.no_grad()
    def _recompute(self) -> None:
        params = self.learner.params
        everything = self.transitions.gather(torch.arange(len(self.transitions), device=self.learner.device)[None])
        values, next_values = self._values(everything.obs[0]), self._values(everything.next_obs[0])
        rewards = everything.rewards[0].double().cpu().numpy()
        targets = [
            lambda_returns(rewards, v, self.terminations, self.ends, params.gamma, params.td_lambda or 0.0)
            for v in next_values.double().cpu().numpy()
        ]
        self.returns.copy_(torch.from_numpy(np.stack(targets)))
        advantages = self.returns - values
        if params.normalise_advantages:
            mean, std = advantages.mean(-1, keepdim=True), advantages.std(-1, keepdim=True, correction=0)
            advantages = (advantages - mean) / (std + 1e-5)
        self.advantages.copy_(advantages)

    def _values(self, obs: Tensor) -> Tensor:
        """V of every row, `[M, N]`, a block of rows at a time."""
        learner = self.learner
        blocks = [rows.expand(learner.members, -1, -1) for rows in obs.split(_ROWS_AT_ONCE)]
        return torch.cat([scaled_values(learner.model, block, learner.params) for block in blocks], dim=-1)

    def batch(self, keys: Tensor, clock: Tensor, size: int) -> Batch:
        indices = self.transitions.indices(keys, BATCH_STREAM, clock, size)
        batch = self.transitions.gather(indices)
        return batch._replace(
            returns_to_go=self.returns.gather(1, indices), advantages=self.advantages.gather(1, indices)
        )

    def state(self) -> dict[str, Tensor]:
        return {"updates": torch.tensor(self.updates), "returns": self.returns, "advantages": self.advantages}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        restore(self.state(), state)
        self.updates = int(state["updates"])


class AWRTrainer(Trainer):
    """Adds returns to the data."""

    def check(self, parts: Parts) -> None:
        if parts.dataset is None or self.online is not None:
            raise ConfigError("online: AWR regresses on the returns of a fixed dataset; it has no online part here")
        if self.config.data_memory == "mapped" and self.config.algo_kwargs["td_lambda"] is not None:
            raise ConfigError(
                "data_memory: mapped does not go with algo_kwargs.td_lambda, whose returns are computed anew over all"
                " rows in memory; use auto or ram, or leave td_lambda out"
            )
        if not parts.dataset.whole_episodes:
            raise DataError("dataset: AWR needs whole episodes in order; these rows were sampled or reordered")

    def data_bytes(self, dataset: TransitionDataset | None, *rest: Any) -> DataBytes:
        """In rounds, targets and advantages of every row for each member too, and V's layers over a block of rows."""
        data, knobs = super().data_bytes(dataset, *rest), self.config.algo_kwargs
        if dataset is None or knobs["td_lambda"] is None:
            return data
        layers = 3 * 4 * max(knobs["value_hidden"]) * min(len(dataset), _ROWS_AT_ONCE)
        return replace(data, per_member=data.per_member + (2 * 4 + 4 * 8) * len(dataset) + layers)

    def source(self, parts: Parts) -> Source:
        learner = parts.learner
        assert parts.dataset is not None
        assert isinstance(learner, AWR)
        if learner.params.td_lambda is None:
            processed = parts.transforms.rewards(parts.dataset.rewards)
            with_returns = parts.dataset.with_returns_to_go(learner.params.gamma, rewards=processed)
            return super().source(replace(parts, dataset=with_returns))
        dataset = parts.dataset.usable()  # a row without a successor has no value to bootstrap from
        packed = PackedTransitions.from_dataset(dataset, parts.transforms, learner.device)
        return LambdaReturnSource(packed, dataset, learner)


train_awr = trainer_function("awr")
