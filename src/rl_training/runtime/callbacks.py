"""What can watch a run, and stop it."""

from __future__ import annotations

import json
import math
from collections import Counter
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

_MOST_LEVELS = 100  # of a callback's memory; Python gives up at a few hundred, depending on who called


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


def kept_state(name: str, callback: Callback) -> Any:
    """What a callback has checkpoints keep, as it will come back from one, so that nothing more can go wrong when one
    is written (a `Counter`, say, is a plain mapping in it); refused where JSON could not keep it."""
    state = callback.state()
    try:
        kept = json.loads(json.dumps(state, allow_nan=False), object_pairs_hook=_mapping)
        _require_shallow(kept)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"callback {name}: state() must hold plain numbers (finite), texts, lists and mappings, which a checkpoint"
            f" can keep ({error})"
        ) from None
    return kept


def _mapping(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """One that keeps every entry: JSON makes texts of keys, and two of them may be the same then."""
    found = dict(entries)
    if len(found) < len(entries):
        (twice, _), *_ = Counter(key for key, _ in entries).most_common(1)
        raise ValueError(f"two of its keys are {shown(twice)} as texts")
    return found


def _require_shallow(value: Any) -> None:
    """Refuse what is nested so deeply that it might be written and not be read again."""
    layer = [value]
    for _ in range(_MOST_LEVELS):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if layer:
        raise ValueError(f"it is nested more than {_MOST_LEVELS} levels deep")


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
