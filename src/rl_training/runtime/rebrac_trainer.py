"""Training ReBRAC: next actions for data that have none."""

from __future__ import annotations

from dataclasses import replace

from rl_training.runtime.sources import Source
from rl_training.runtime.trainer import Parts, Trainer, trainer_function


class ReBRACTrainer(Trainer):
    """Takes the action at s' from the next row of the episode, and says so; without whole episodes, does without."""

    def check(self, parts: Parts) -> None:
        if parts.dataset is None or parts.dataset.next_actions is not None or self.online is not None:
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

    def source(self, parts: Parts) -> Source:
        dataset = parts.dataset
        if dataset is not None and dataset.next_actions is None and dataset.whole_episodes:
            parts = replace(parts, dataset=dataset.with_next_actions())
        return super().source(parts)


train_rebrac = trainer_function("rebrac")
