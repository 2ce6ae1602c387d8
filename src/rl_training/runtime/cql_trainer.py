"""Training CQL: the shared offline path, nothing added."""

from rl_training.runtime.trainer import trainer_function

train_cql = trainer_function("cql")
