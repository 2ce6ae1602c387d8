"""Training CRR: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_crr = trainer_function("crr")
