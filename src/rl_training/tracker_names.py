"""The trackers there are: for configurations, the command line and the shell's completion alike."""

from __future__ import annotations

from typing import Literal, TypeAlias

TrackerName: TypeAlias = Literal["tensorboard", "wandb", "mlflow", "trackio"]
