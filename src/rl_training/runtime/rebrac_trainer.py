"""Training ReBRAC: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_rebrac = trainer_function("rebrac")
