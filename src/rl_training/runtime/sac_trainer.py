"""Training SAC: the shared online path; given a dataset, the offline one."""

from rl_training.runtime.trainer import trainer_function

train_sac = trainer_function("sac")
