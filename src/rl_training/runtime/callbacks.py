"""What can watch a run, and stop it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.config import EarlyStoppingConfig
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import Evaluation
from rl_training.validation import is_count, shown

if TYPE_CHECKING:
    from rl_training.runtime.loop import Loop


class Callback:
    """Override what you need; call `loop.stop("why")` to end the run after the present update.

    A callback with a memory gives it to checkpoints through `state` and takes it back in `restore`. One that never
    looks at the weights may say so (`looks_at_learner = False`): a GPU then trains on while policies are evaluated.
    """

    looks_at_learner = True

    def on_start(self, loop: Loop) -> None:
        """Before the first update of this process."""

    def on_progress(self, loop: Loop) -> None:
        """After every short block of updates (a few times a second)."""

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        """After every log interval: means over it, one value for each of `loop.sound_seeds`."""

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        """After every evaluation."""

    def on_divergence(self, loop: Loop, finding: Divergence) -> None:
        """After a seed was stopped for having diverged, or a Q-value that the rewards cannot explain was seen."""

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        """After a checkpoint is safely on disk."""

    def on_end(self, loop: Loop) -> None:
        """After the last update of this process, whatever ended it."""

    def state(self) -> dict[str, Any]:
        """JSON-like values a checkpoint keeps."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""


def kept_state(name: str, callback: Callback) -> dict[str, Any]:
    """What a callback has checkpoints keep; refused where JSON could not."""
    state = callback.state()
    try:
        json.dumps(state, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"callback {name}: state() must hold plain numbers (finite), texts, lists and mappings, which a checkpoint"
            f" can keep ({error})"
        ) from None
    return state


class EarlyStopping(Callback):
    """Stops a run that has reached its target or no longer improves. Seeds count together, by their mean."""

    looks_at_learner = False

    def __init__(self, config: EarlyStoppingConfig) -> None:
        self.config = config
        self.best = -math.inf
        self.waited = 0

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        if self.config.metric in metrics:  # a delayed actor's metrics are not in every record
            self._judge(loop, fmean(metrics[self.config.metric]))

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        record = evaluation.to_json()
        if self.config.metric in record:
            self._judge(loop, fmean(record[self.config.metric]))

    def _judge(self, loop: Loop, value: float) -> None:
        config = self.config
        smaller_is_better = config.mode == "min" or (config.mode is None and config.metric.endswith("loss"))
        sign = -1.0 if smaller_is_better else 1.0
        if config.target is not None and sign * value >= sign * config.target:
            loop.stop(f"{config.metric} reached {value:.4g} (target {config.target:g})")
        if sign * value > self.best + config.min_delta:
            self.best, self.waited = sign * value, 0
        else:
            self.waited += 1
        if config.patience is not None and self.waited >= config.patience:
            loop.stop(f"{config.metric} has not improved for {self.waited} records")

    def state(self) -> dict[str, Any]:
        return {"best": None if math.isinf(self.best) else self.best, "waited": self.waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        known: Mapping[str, Any] = state if isinstance(state, Mapping) else {"best": ""}
        best, waited = known.get("best"), known.get("waited")
        is_number = isinstance(best, int | float) and not isinstance(best, bool) and abs(best) < 1e300
        if not (best is None or is_number) or not is_count(waited):
            raise CheckpointError(f"progress.callbacks.EarlyStopping: {shown(state)} is not a value it can have")
        self.best, self.waited = -math.inf if best is None else float(best), known["waited"]
