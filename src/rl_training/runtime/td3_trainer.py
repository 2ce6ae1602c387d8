"""Training TD3: the shared online path; given a dataset, the offline one."""

from rl_training.runtime.trainer import trainer_function

train_td3 = trainer_function("td3")
