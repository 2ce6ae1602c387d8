"""What the algorithm files are written with."""

from rl_training.algorithms.base.learner import Learner, Metrics, UpdateResult
from rl_training.algorithms.base.optimiser import Adam
from rl_training.algorithms.base.params import (
    AlgorithmParams,
    BootstrapParams,
    HiddenSizes,
    InitParams,
    LearningRate,
    OnlineParams,
    PositiveInt,
    PriorDataParams,
    Schedule,
)
from rl_training.data.batch import Batch
from rl_training.streams import Noise

__all__ = [
    "Adam",
    "AlgorithmParams",
    "Batch",
    "BootstrapParams",
    "HiddenSizes",
    "InitParams",
    "Learner",
    "LearningRate",
    "Metrics",
    "Noise",
    "OnlineParams",
    "PositiveInt",
    "PriorDataParams",
    "Schedule",
    "UpdateResult",
]
