"""What a run is made of before it starts, and what is left of it at its end."""

from __future__ import annotations

from dataclasses import dataclass

from rl_training.algorithms.base import Learner
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.environments import Spaces
from rl_training.runtime.acting import Actor
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.engine import EngineMode
from rl_training.runtime.memory import MemoryNeed
from rl_training.runtime.progress import Progress
from rl_training.runtime.run_directory import RunDirectory


@dataclass(frozen=True)
class TrainResult:
    """A run that has come to its end: the policy in memory and the directory that holds everything else."""

    run: RunDirectory
    actor: Actor
    checkpoint: Checkpoint
    status: str
    reason: str | None

    @property
    def progress(self) -> Progress:
        return Progress.from_json(self.checkpoint.progress)


@dataclass(frozen=True)
class Parts:
    """What a run is made of, before it starts."""

    dataset: TransitionDataset | None
    spaces: Spaces
    progress: Progress
    learner: Learner
    transforms: Transforms
    mode: EngineMode
    memory: list[MemoryNeed]
    in_memory: bool = False  # the rows are, wherever the configuration would have them
