"""What a training would do, in words: the last lines of `rl-training train --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.run_directory import new_path

if TYPE_CHECKING:
    from rl_training.runtime.trainer import Parts, Trainer


def plan_in_words(trainer: Trainer, parts: Parts) -> list[str]:
    """Data, updates, memory, evaluation and the folder that would be written, a line each, and what to know before."""
    config, progress, online = trainer.config, parts.progress, trainer.online
    lines = []
    if facts := known_facts(parts.dataset):
        known = "episodes" in facts
        of = f"in {facts['episodes']:,} episodes, mean return {facts['return_mean']:.1f}" if known else "(sampled)"
        lines.append(f"data: {facts['transitions']:,} transitions {of}")
    if online is not None:
        lines.append(f"collect: {progress.total_steps:,} steps in {config.env_id}, {online.n_envs} at once")
    parameters = sum(p.numel() for p in parts.learner.model.parameters() if p.requires_grad)
    every = f"every {config.eval_interval:,} {progress.unit} and " if config.eval_interval else ""
    scored = f"{config.evaluation.episodes} episodes per seed in {config.env_id}, {every}at the end"
    return [
        *lines,
        f"train: {config.algo}, {progress.total_updates:,} updates, seeds {', '.join(map(str, config.seeds))}, "
        f"observations {parts.spaces.obs_dim}, actions {parts.spaces.act_dim}, {parameters:,} parameters, "
        f"engine {parts.mode} on {parts.learner.device}",
        *map(str, parts.memory),
        f"evaluate: {scored if config.env_id else 'no environment, none'}",
        f"write: {new_path(config)}",
        *(f"note: {notice}" for notice in trainer.notices),
    ]


def known_facts(dataset: TransitionDataset | None) -> dict[str, Any] | None:
    """What is known of the data: less where rows were sampled and are not whole episodes."""
    if dataset is None:
        return None
    return dataset.summary() if dataset.whole_episodes else dataset.row_summary()
