"""Training ReBRAC: next actions for data that have none, and what changes online."""

from __future__ import annotations

from dataclasses import replace

from rl_training.algorithms.rebrac import ReBRAC
from rl_training.runtime.parts import Parts
from rl_training.runtime.sources import Source
from rl_training.runtime.trainer import Trainer, trainer_function


class ReBRACTrainer(Trainer):
    """Takes the action at s' from the next row of the episode, and says so; without whole episodes, does without.

    Online it does without, too: the action at s' is not known yet when a step is stored.
    """

    def check(self, parts: Parts) -> None:
        if self.online is not None:
            self.notices.append(self.online_weights())
            return
        if parts.dataset is None or parts.dataset.next_actions is not None:
            return
        if parts.dataset.whole_episodes:
            self.notices.append(
                "the data have no next_actions: each is taken from the next row of its episode "
                "(the last row of an episode repeats its own)"
            )
        else:
            self.notices.append(
                "the data have no next_actions and no whole episodes to take them from: the critics go unpenalised"
            )

    def online_weights(self) -> str:
        """Which penalties there are online, in words."""
        params = ReBRAC.parse(self.config.algo_kwargs)
        weight, final = params.actor_bc_weight, params.actor_bc_weight * params.actor_bc_final
        actor = f"stays {weight:g}" if final == weight else f"goes linearly from {weight:g} to {final:g}"
        critics = f" (critic_bc_weight {params.critic_bc_weight:g} has no effect)" if params.critic_bc_weight else ""
        return f"online no next actions are kept, so the critics go unpenalised{critics}; actor_bc_weight {actor}"

    def source(self, parts: Parts) -> Source:
        dataset = parts.dataset
        if dataset is not None and dataset.next_actions is None and dataset.whole_episodes:
            parts = replace(parts, dataset=dataset.with_next_actions())
        return super().source(parts)


train_rebrac = trainer_function("rebrac")
