"""Training TD3+BC: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_td3_bc = trainer_function("td3_bc")
