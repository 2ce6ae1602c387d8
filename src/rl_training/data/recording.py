"""Recording datasets: in memory, or into a file by way of a folder of finished blocks that survives being killed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.data.behaviours import Behaviour, Exploring, Following, Policy, Uniform
from rl_training.data.collection import Budget, Done, Runner, run_behaviour
from rl_training.data.formats.writers import Target, check_free, write
from rl_training.data.generation import PENDULUM, ScriptedPendulum
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.partial import PartialFolder
from rl_training.data.space_bounds import read_bounds
from rl_training.environments import Spaces, read_spaces
from rl_training.errors import ConfigError, DataError, RLTrainingError
from rl_training.paths import folder_fault, require_temporary_folder
from rl_training.wording import taken


def collect(
    env_id: str,
    policy: str | os.PathLike[str] | Policy | Behaviour,
    steps: int | None = None,
    *,
    episodes: int | None = None,
    seed: int = 0,
    n_envs: int = 1,
    noise: float = 0.0,
    epsilon: float = 0.0,
) -> TransitionDataset:
    """Run a policy in an environment and keep what happens.

    policy: `"random"` (uniform actions), `"scripted"` (the packaged Pendulum-v1 behaviour), a trained policy by its run
    directory, name or checkpoint, or any function of observations `[B, O]` that gives actions `[B, A]`.
    steps, episodes: how much, whichever comes first; the last episode is cut where the steps run out.
    seed: decides the resets and all noise. n_envs: environments stepped at once; the data are the same for any number.
    noise: standard deviation of Gaussian noise on every action, in halves of the action range. epsilon: probability
    of a uniform action instead.
    """
    budget = Budget(steps, episodes)
    spaces = read_spaces(env_id)
    behaviour = explore(_find_behaviour(policy, env_id, spaces), spaces, noise, epsilon)
    return run_behaviour(env_id, behaviour, budget, seed=seed, n_envs=n_envs)


def _find_behaviour(policy: Any, env_id: str, spaces: Spaces) -> Behaviour:
    if isinstance(policy, Behaviour):
        return policy
    if callable(policy):
        return Following(policy, spaces.act_dim)
    if isinstance(policy, str) and policy in PACKAGED:
        return packaged_behaviour(policy, env_id, spaces)
    import rl_training  # the root opens trained policies: this layer does not know how

    loaded: Behaviour = rl_training.load_policy(policy).behaviour(env_id)
    return loaded


PACKAGED = ("random", "scripted")


def packaged_behaviour(name: str, env_id: str, spaces: Spaces) -> Behaviour:
    """One of the behaviours that need no training."""
    if name == "random":
        return Uniform(spaces)
    if env_id != PENDULUM:
        raise ConfigError(f"policy: 'scripted' knows {PENDULUM!r} only, not {env_id!r}; use random or a trained run")
    return ScriptedPendulum()


def explore(behaviour: Behaviour, spaces: Spaces, noise: float, epsilon: float) -> Behaviour:
    """The behaviour with noise and uniform actions mixed in, where asked for."""
    if not (0.0 <= noise < float("inf")):
        raise ConfigError(f"noise: must be at least 0, got {noise:g}")
    if not 0.0 <= epsilon <= 1.0:
        raise ConfigError(f"epsilon: must be between 0 and 1, got {epsilon:g}")
    if isinstance(behaviour, Uniform) and (noise or epsilon):
        raise ConfigError(f"{'noise' if noise else 'epsilon'}: random actions have nothing to add it to; leave it out")
    return Exploring(behaviour, spaces, noise, epsilon) if noise or epsilon else behaviour


# Into a file --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """Everything that decides the bytes of a recorded file. How many environments run at once is not among it.

    policy: which one, in words that no other policy shares.
    """

    env_id: str
    policy: str
    steps: int | None
    episodes: int | None
    seed: int
    noise: float = 0.0
    epsilon: float = 0.0
    stochastic: bool = False

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.episodes)


def partial_path(output: Target) -> Path:
    """Where the finished blocks of a recording lie until it is complete."""
    return output.path.with_name(f"{output.path.name}.partial")


def check_output(output: Target, *, force: bool, resume: bool) -> None:
    """Refuse, before anything is run, a file or folder that could not be written in the end."""
    path = output.path
    if output.dataset_id is None and (fault := folder_fault(path.parent)) is not None:  # of Minari's, it tells itself
        raise DataError(f"{path}: {fault}")
    if path.is_dir() and not output.is_folder:
        raise DataError(f"{path}: is a folder; give the name of a file in it")
    if path.exists() and not force:
        raise DataError(taken(path, "replace it with --force, or choose another name"))
    check_free(output, force=force)
    partial = partial_path(output)
    if partial.exists() and not resume:
        raise DataError(f"{partial}: holds an unfinished recording; {PartialFolder.ways_on(partial)}")
    if resume and not partial.exists():
        raise DataError(f"{partial}: no such folder, so there is nothing to continue; leave out --resume")
    _check_format(output)


def _check_format(output: Target) -> None:
    """Write one transition under the same name elsewhere: what cannot be saved is known before hours of collecting."""
    row, flag = np.zeros((1, 1), dtype=np.float32), np.ones(1, dtype=np.bool_)
    sample = TransitionDataset(
        obs=row, actions=row, rewards=row[0], next_obs=row, terminations=flag, truncations=~flag, next_actions=row
    )
    require_temporary_folder()
    with tempfile.TemporaryDirectory() as folder:
        trial = replace(output, path=Path(folder) / (output.dataset_id or output.path.name))
        try:
            write(sample, trial)
        except DataError as error:
            raise DataError(str(error).replace(str(trial.path), str(output.path))) from None


def record(
    recording: Recording,
    behaviour: Behaviour,
    output: Target,
    *,
    n_envs: int = 1,
    command: str = "",
    resume: bool = False,
    force: bool = False,
    watch: Callable[[Done], None] | None = None,
) -> tuple[TransitionDataset, tuple[str, ...]]:
    """Run a behaviour into a file or folder, which `check_output` has found free; what was recorded, and notes on what
    the format cannot hold.

    What is finished is kept in `partial_path(output)`, from where `resume` continues. watch: told after every step;
    what it raises ends the recording, which keeps every episode that is finished. command: how to continue it. force:
    replace what is there in the end; else what has appeared since stays, and the recording is kept beside it.
    """
    output.path.parent.mkdir(parents=True, exist_ok=True)
    folder = PartialFolder.opened(partial_path(output), asdict(recording), command=command, resume=resume)
    with folder as partial:
        options: dict[str, Any] = {"seed": recording.seed, "n_envs": n_envs, "after": partial.done, "watch": watch}
        runner = Runner(recording.env_id, behaviour, recording.budget, **options)
        try:
            with closing(runner.run()) as episodes:
                for trajectory in episodes:
                    partial.add(trajectory)
        except RLTrainingError:
            partial.remove_if_empty()  # a mistake at the start leaves nothing behind
            raise
        finally:
            partial.flush()
        bounds = runner.bounds or read_bounds(recording.env_id)
        dataset = replace(partial.merge(), env_id=recording.env_id, bounds=bounds)
        notes = _written(dataset, output, force=force)
        partial.remove()
    return dataset, notes


def _written(dataset: TransitionDataset, output: Target, *, force: bool) -> tuple[str, ...]:
    try:
        return write(dataset, output, force=force)
    except DataError as error:
        raise DataError(f"{error} (what was recorded is kept in {partial_path(output)}: --resume)") from error
