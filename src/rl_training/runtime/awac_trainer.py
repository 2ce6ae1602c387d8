"""Training AWAC: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_awac = trainer_function("awac")
