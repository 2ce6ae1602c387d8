"""The one loop. Every algorithm, offline or not, is trained by it.

It runs updates in blocks up to the next thing that is due: a metric record, an evaluation, a checkpoint, the end.
At one update they always happen in that order, so that a checkpoint knows everything recorded before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rl_training.environments import Spaces
from rl_training.errors import DivergenceError
from rl_training.runtime.acting import Actor
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.engine import Engine
from rl_training.runtime.evaluation import Evaluation, Evaluator
from rl_training.runtime.run_directory import RunDirectory

_PULSE_SECONDS = 0.2  # how often callbacks, signals and the progress display get a turn


@dataclass
class Progress:
    """Where a run stands. Everything here goes into the checkpoint.

    A step is what the budget and all intervals count: an update offline, a step of the environment online.
    """

    total_steps: int
    total_updates: int
    updates_per_epoch: int
    steps: int = 0
    updates: int = 0
    last: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    metric_counts: dict[str, int] = field(default_factory=dict)
    callbacks: dict[str, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> float:
        return self.updates / self.updates_per_epoch

    def saw(self, evaluation: Evaluation) -> bool:
        """Keep the last and the best evaluation apart; true if this one is the best so far."""
        self.last = {"step": evaluation.step, "return_mean": evaluation.mean}
        is_best = self.best is None or evaluation.mean > self.best["return_mean"]
        if is_best:
            self.best = self.last
        return is_best


class Loop:
    """Trains one learner to the end of its budget, or until something stops it."""

    def __init__(
        self,
        config: TrainConfig,
        engine: Engine,
        actor: Actor,
        run: RunDirectory,
        progress: Progress,
        spaces: Spaces,
        *,
        evaluator: Evaluator | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config = config
        self.engine = engine
        self.actor = actor
        self.run_directory = run
        self.progress = progress
        self.spaces = spaces
        self.evaluator = evaluator
        self.callbacks = list(callbacks)
        self.stop_reason: str | None = None
        self.stop_status = "finished"
        self.steps_per_second = math.nan

    def stop(self, reason: str, status: str = "finished") -> None:
        """End the run at the next opportunity. `interrupted` runs are meant to be resumed."""
        if self.stop_reason is None:
            self.stop_reason, self.stop_status = reason, status

    def run(self) -> None:
        """Train."""
        for callback, state in zip(self.callbacks, self.progress.callbacks.values(), strict=False):
            callback.restore(state)
        self._tell("on_start")
        try:
            while self.progress.steps < self.progress.total_steps and self.stop_reason is None:
                self._run_to(self._next_due())
                self._attend()
            self._finish()
        finally:
            self._tell("on_end")

    # Time -------------------------------------------------------------------------------------------------------

    def _next_due(self) -> int:
        """The next step at which something must happen."""
        at = self.progress.steps
        intervals = (self.config.log_interval, self.config.eval_interval, self.config.checkpoint_interval)
        return min(self.progress.total_steps, *((at // n + 1) * n for n in intervals if n is not None))

    def _is_due(self, interval: int | None) -> bool:
        at = self.progress.steps
        return at == self.progress.total_steps or (interval is not None and at % interval == 0)

    def _run_to(self, stop: int) -> None:
        """Steps up to `stop`, in blocks short enough that a signal is answered at once."""
        block = 1
        while self.progress.steps < stop and self.stop_reason is None:
            began = time.perf_counter()
            turn = self.engine.source.advance(min(block, stop - self.progress.steps))
            self.engine.run(self.progress.updates, turn.updates)
            self.progress.steps += turn.steps
            self.progress.updates += turn.updates
            self.steps_per_second = turn.steps / max(time.perf_counter() - began, 1e-9)
            block = max(1, min(4 * block, int(_PULSE_SECONDS * self.steps_per_second)))
            self._tell("on_progress")

    # What is due ------------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Record, evaluate, save: whatever is due at this update, in this order."""
        if self._is_due(self.config.log_interval):
            self._log()
        is_best = False
        if self.evaluator is not None and self._is_due(self.config.eval_interval):
            is_best = self._evaluate(self.evaluator)
        if is_best or self._is_due(self.config.checkpoint_interval or self.config.eval_interval):
            self.save()

    def _log(self) -> None:
        metrics = self.engine.take_metrics()
        step = self.progress.steps
        for name, values in metrics.items():
            for seed, value in zip(self.config.seeds, values, strict=True):
                if not math.isfinite(value):
                    raise DivergenceError(
                        f"{name} of seed {seed} is {value} in the {self.config.log_interval} steps before {step}; "
                        f"a smaller learning rate or rescaled rewards often help; {self._last_good()}"
                    )
        self.run_directory.append("metrics", {"step": step, "epoch": self.progress.epoch, **metrics})
        self.run_directory.append(
            "timing", {"step": step, "time": time.time(), "steps_per_second": self.steps_per_second}
        )
        self._tell("on_metrics", metrics)

    def _last_good(self) -> str:
        steps = self.run_directory.steps()
        return f"the last checkpoint is {self.run_directory.checkpoint_path(steps[-1])}" if steps else "none was saved"

    def _evaluate(self, evaluator: Evaluator) -> bool:
        evaluation = evaluator.evaluate(self.actor, self.progress.steps)
        is_best = self.progress.saw(evaluation)
        self.run_directory.append("evaluations", evaluation.to_json())
        self._tell("on_evaluation", evaluation)
        return is_best

    def snapshot(self) -> Checkpoint:
        """The run at this very update. Its tensors are the live ones."""
        self.progress.metric_counts = dict(self.engine.counts)
        self.progress.callbacks = {str(i): callback.state() for i, callback in enumerate(self.callbacks)}
        return Checkpoint(
            self.config,
            self.spaces,
            self.actor.transforms,
            asdict(self.progress),
            self.actor.learner.state(),
            self.engine.sums,
        )

    def save(self) -> Path:
        """Write a checkpoint of this very update."""
        progress = self.progress
        best = progress.best["step"] if progress.best else None
        path = self.run_directory.save(self.snapshot(), progress.steps, self.config.keep_checkpoints, best)
        self.run_directory.note(step=progress.steps, last=progress.last, best=progress.best)
        self._tell("on_checkpoint", path)
        return path

    def _finish(self) -> None:
        """Leave the run evaluated (unless it was interrupted), saved and labelled."""
        evaluated = self.progress.last is not None and self.progress.last["step"] == self.progress.steps
        if self.stop_status != "interrupted" and self.evaluator is not None and not evaluated:
            self._evaluate(self.evaluator)
        self.save()
        self.run_directory.note(status=self.stop_status, reason=self.stop_reason)

    def _tell(self, event: str, *details: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *details)
