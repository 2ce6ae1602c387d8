"""Training IQL: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_iql = trainer_function("iql")
