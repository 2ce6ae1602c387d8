"""Training RLPD: the shared online path with prior data in every batch."""

from rl_training.runtime.trainer import trainer_function

train_rlpd = trainer_function("rlpd")
