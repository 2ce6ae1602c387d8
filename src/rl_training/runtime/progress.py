"""Where a run stands."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rl_training.errors import CheckpointError, ConfigError
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.records import are_tallies
from rl_training.runtime.run_description import are_engines, is_score
from rl_training.validation import is_count, printable, shown

METRICS_PER_UPDATE = 64  # rows that an engine adds them up in; far more than any algorithm reports
_COUNTED = re.compile(r"(0|[1-9][0-9]{0,8})/[^/]+/.+")


@dataclass
class Progress:
    """Counters, scores and the memories of callbacks. Everything here goes into the checkpoint.

    A step is what the budget and all intervals count: an update offline, a step of the environment online (`unit`).
    """

    total_steps: int
    total_updates: int
    updates_per_epoch: int
    unit: str = "updates"
    steps: int = 0
    updates: int = 0
    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    metric_counts: dict[str, int] = field(default_factory=dict)
    callbacks: dict[str, Any] = field(default_factory=dict)
    divergences: list[Divergence] = field(default_factory=list)
    records: dict[str, Any] = field(default_factory=dict)  # what the run's files of records held
    ended: str | None = None  # why the run is over before its budget is spent, where something has decided so
    engines: list[str] = field(default_factory=list)  # what computed its updates, in order, as `compiled on cpu`

    @property
    def epoch(self) -> float | None:
        """Passes over the dataset; none where there is no fixed one."""
        return self.updates / self.updates_per_epoch if self.updates_per_epoch else None

    @property
    def is_complete(self) -> bool:
        return self.steps >= self.total_steps

    @property
    def is_evaluated(self) -> bool:
        """Whether the present weights have been evaluated."""
        return self.last is not None and self.last["step"] == self.steps

    @property
    def stopped_seeds(self) -> dict[int, Divergence]:
        """Seeds that diverged and train no more, and what stopped them."""
        return {finding.seed: finding for finding in self.divergences if finding.is_stopped}

    def saw(self, evaluation: Evaluation) -> bool:
        """Keep the last and the best evaluation apart; true if this one is the best so far."""
        self.last = {"step": evaluation.step, "return_mean": evaluation.mean}
        is_best = self.best is None or evaluation.mean > self.best["return_mean"]
        if is_best:
            self.best = self.last
        return is_best

    def computed_by(self, engine: str) -> None:
        """Note what the last updates were computed by, where it is not what computed those before."""
        if self.engines[-1:] != [engine]:
            self.engines = [*self.engines, engine]

    @classmethod
    def resumed(cls, stored: Any, total_steps: int, total_updates: int, *, goes_past_its_end: bool) -> Progress:
        """What a checkpoint says, with another budget perhaps."""
        found = cls.from_json({**stored, "total_steps": total_steps, "total_updates": total_updates})
        is_same = stored["total_steps"] == total_steps and not goes_past_its_end
        found.ended = found.ended if is_same else None
        return found

    @classmethod
    def from_json(cls, stored: Any) -> Progress:
        """What a checkpoint says, if it is what a checkpoint can say."""
        if not isinstance(stored, Mapping):
            raise CheckpointError("progress: is not a mapping of counters")
        stored = {"divergences": [], "records": {}, "ended": None, "engines": [], **stored}  # earlier versions had none
        odd = sorted(stored.keys() ^ {f.name for f in fields(cls)})
        if odd:
            fault = "is not known" if odd[0] in stored else "is missing"
            raise CheckpointError(f"progress.{printable(odd[0])}: {fault}")
        counters = ("total_steps", "total_updates", "updates_per_epoch", "steps", "updates")
        wrong = [name for name in counters if not is_count(stored[name])]
        scores = ("last", "best")
        wrong += [name for name in scores if not (stored[name] is None or is_score(stored[name]))]
        wrong += [name for name in ("metric_counts", "callbacks") if not isinstance(stored[name], dict)]
        wrong += [name for name in ("metric_counts",) if name not in wrong and not _are_counts(stored[name])]
        wrong += [name for name in ("records",) if not are_tallies(stored[name])]
        wrong += [name for name in ("unit",) if stored[name] not in ("updates", "steps")]
        wrong += [name for name in ("ended",) if not isinstance(stored[name], str | None)]
        wrong += [name for name in ("engines",) if not are_engines(stored[name])]
        if wrong:
            raise CheckpointError(f"progress.{wrong[0]}: {shown(stored[wrong[0]])} is not a value it can have")
        if not isinstance(stored["divergences"], list):
            raise CheckpointError("progress.divergences: is not a list of findings")
        return cls(**{**stored, "divergences": [Divergence.from_json(one) for one in stored["divergences"]]})


def _are_counts(values: dict[Any, Any]) -> bool:
    """Whether keys are a phase and a metric, as in `0/critic/loss`, and each was recorded at least once, together with
    the others of its phase, which are not more than there is room for."""
    updates: dict[str, int] = {}
    for key, count in values.items():
        if not (isinstance(key, str) and _COUNTED.fullmatch(key) and is_count(count, least=1)):
            return False
        if updates.setdefault(key.partition("/")[0], count) != count:
            return False
    metrics = Counter(key.partition("/")[0] for key in values)
    return max(metrics.values(), default=0) <= METRICS_PER_UPDATE


def budget_of(config: TrainConfig, transitions: int) -> tuple[int, int]:
    """The steps that a run on so many transitions may take, and the updates that make an epoch."""
    per_epoch = math.ceil(transitions / int(config.algo_kwargs["batch_size"]))
    if config.total_timesteps is None and not transitions:
        raise ConfigError("total_timesteps: is required; without a dataset there are no epochs to count")
    budgets = (config.total_timesteps, config.n_epochs and config.n_epochs * per_epoch)
    return min(budget for budget in budgets if budget), per_epoch
