"""What a training would do, in words: the last lines of `rl-training train --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rl_training.algorithms.base import OnlineParams, PriorDataParams
from rl_training.data.provenance import as_costs, set_aside
from rl_training.data.summaries import known_facts
from rl_training.runtime.config import OnlineConfig, TrainConfig
from rl_training.runtime.initial_values import has_critics
from rl_training.runtime.new_runs import new_path
from rl_training.wording import WARNING, amount, milliseconds, notice_line, readable

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset
    from rl_training.runtime.parts import Parts
    from rl_training.runtime.rehearsal import Pace
    from rl_training.runtime.trainer import Trainer


def unusual(
    config: TrainConfig, params: Any, online: OnlineParams | None, dataset: TransitionDataset | None
) -> list[str]:
    """What to know of an algorithm that is trained in another way than it was made for."""
    notices = _unusual_use(config, params, online, has_data=dataset is not None)
    usual = type(params).model_fields["batch_size"].default
    if dataset is not None and online is None and params.batch_size > max(dataset.n_usable, usual):
        size = amount(params.batch_size, "row")
        notices.append(
            f"a batch of {size} is drawn from data of {dataset.n_usable:,}: it repeats them and takes long;"
            f" {usual:,} are usual (algo_kwargs.batch_size)"
        )
    return notices


def _unusual_use(config: TrainConfig, params: Any, online: OnlineParams | None, *, has_data: bool) -> list[str]:
    if online is None and isinstance(params, OnlineParams):
        return [
            f"{config.algo} is not an offline algorithm: with no experience of its own it overrates actions that the"
            " data lack; good as a negative control"
        ]
    if config.initial_values == "data" and not has_critics(config):  # as of a file that was written for another
        return [f"initial_values: has no effect, as {config.algo} has no critics"]
    if isinstance(online, OnlineConfig) and not has_data:
        return [f"there is no dataset: {config.algo} learns from its own experience alone"]
    return []


def plan_in_words(trainer: Trainer, parts: Parts, pace: Pace | None) -> list[str]:
    """Data, updates, memory, evaluation and the folder that would be written, a line each, and what to know before.
    pace: of the updates, where it is known."""
    config, progress, online = trainer.config, parts.progress, trainer.online
    lines = []
    if parts.dataset is not None:
        lines.append(f"data: {_data(known_facts(parts.dataset), config)}")
        if parts.dataset.mixture is not None and (of_data := _rows_of_data(trainer, parts)):
            lines.append(f"mixture: {parts.dataset.mixture.in_batches(of_data)}")
    if online is not None:
        lines.append(f"collect: {amount(progress.total_steps, 'step')} in {config.env_id}, {online.n_envs} at once")
    parameters = sum(p.numel() for p in parts.learner.model.parameters() if p.requires_grad)
    every = f"every {config.eval_interval:,} {progress.unit} and " if config.eval_interval else ""
    scored = f"{amount(config.evaluation.episodes, 'episode')} per seed in {config.env_id}, {every}at the end"
    seeds = f"{'seed' if len(config.seeds) == 1 else 'seeds'} {', '.join(map(str, config.seeds))}"
    return [
        *lines,
        f"train: {config.algo}, {amount(progress.total_updates, 'update')}, {seeds}, "
        f"observations {parts.spaces.obs_dim}, actions {parts.spaces.act_dim}, {parameters:,} parameters, "
        f"engine {parts.mode} on {parts.learner.device}",
        *([] if pace is None else [f"time: {_time(pace, progress.total_updates)}"]),
        *map(str, parts.memory),
        f"evaluate: {scored if config.env_id else _afterwards(config, parts)}",
        f"write: {new_path(config)}",
        *sorted(map(notice_line, trainer.notices), key=lambda line: line.startswith(WARNING)),  # warnings last
    ]


def _afterwards(config: TrainConfig, parts: Parts) -> str:
    made = None if parts.dataset is None else parts.dataset.provenance
    aside = set_aside(made, getattr(config.dataset, "path", None))
    return f"no environment; afterwards `{' '.join(['rl-training evaluate RUN --offline', *aside])}`"


def _time(pace: Pace, updates: int) -> str:
    seconds = pace.seconds * updates
    scales = ((5400.0, 3600.0, "hour"), (90.0, 60.0, "minute"), (0.0, 1.0, "second"))
    size, unit = next((size, unit) for least, size, unit in scales if seconds >= least)
    each = f"{milliseconds(pace.seconds)} an update, {pace.how}"
    return f"about {amount(max(1, round(seconds / size)), unit)} ({each})"


def _data(facts: dict[str, Any], config: TrainConfig) -> str:
    rows = amount(facts["transitions"], "transition")
    if "episodes" not in facts:
        return f"{rows} (sampled)"
    section = None if config.dataset is None else config.dataset.model_dump(mode="json")
    costs, mean = as_costs(section, facts), facts["return_mean"]
    told = f"mean cost {readable(0.0 - mean)}" if costs else f"mean return {readable(mean)}"
    return f"{rows} in {amount(facts['episodes'], 'episode')}, {told}"


def _rows_of_data(trainer: Trainer, parts: Parts) -> int:
    """Rows of a batch that are drawn from the dataset; none where it only fills the replay buffer."""
    size = parts.learner.params.batch_size
    if trainer.online is None:
        return size
    if not isinstance(trainer.online, PriorDataParams) or getattr(trainer.online, "prior", "mixed") != "mixed":
        return 0
    return round(trainer.online.offline_batch_ratio * size)
