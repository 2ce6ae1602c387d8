"""The one loop. Every algorithm, offline or not, is trained by it.

It runs updates in blocks up to the next thing that is due: a metric record, an evaluation, a checkpoint, the end.
At one step they always happen in that order, so that a checkpoint knows everything recorded before it.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rl_training.environments import Spaces
from rl_training.errors import ConfigError, EnvironmentFailedError
from rl_training.runtime.acting import Actor
from rl_training.runtime.callbacks import Callback, kept_state
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.checkpoint_writer import CheckpointWriter
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.divergence import Divergence, DivergenceGuard
from rl_training.runtime.engine import Engine
from rl_training.runtime.evaluation import EnvironmentEvaluator, EvaluationStoppedError, Evaluator
from rl_training.runtime.progress import Progress
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_identity import data_of
from rl_training.validation import shown

_STOPPED_AS = ("finished", "interrupted")
_PULSE_SECONDS = 0.2  # how often callbacks, signals and the progress display get a turn
_CUT_OFF_SECONDS = 1.0  # what a run that was cut off still waits for its last write


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
        notices: Sequence[str] = (),
        guard: DivergenceGuard,
        writer: CheckpointWriter,
    ) -> None:
        self.notices = list(notices)
        self.config = config
        self.engine = engine
        self.actor = actor
        self.run_directory = run
        self.progress = progress
        self.spaces = spaces
        self.evaluator = evaluator
        if isinstance(evaluator, EnvironmentEvaluator):
            evaluator.should_stop = self._keep_busy
        self.guard = guard
        self.callbacks = list(callbacks)
        self.stop_reason: str | None = None
        self.stop_status = "finished"
        self.steps_per_second: float | None = None  # over the last log interval
        self._is_ending = self._is_announcing = False
        self._writer = writer
        self._saved: object = None  # where the run stood at its last checkpoint
        self._held: Checkpoint | None = None  # this very step, while the device works ahead of it
        guard.before_stopping = self._settle
        self._data = data_of(run.describe())
        self._clock = (progress.steps, time.perf_counter())  # of the last record

    def stop(self, reason: str, status: str = "finished") -> None:
        """End the run at the next opportunity. `interrupted` runs are meant to be resumed; what has ended one that was
        just interrupted ends it when it is."""
        if not isinstance(reason, str):
            raise ConfigError(f"loop.stop: reason: must be a text, got {shown(reason)}")
        if not isinstance(status, str) or status not in _STOPPED_AS:
            raise ConfigError(f"loop.stop: status: must be {' or '.join(_STOPPED_AS)}, got {shown(status)}")
        if status == "finished" and self.progress.ended is None:
            self.progress.ended = reason
        if self.stop_reason is None:
            self.stop_reason, self.stop_status = reason, status

    @property
    def sound_seeds(self) -> tuple[int, ...]:
        """Seeds that have not diverged; metrics and evaluations are theirs alone."""
        return self.guard.sound_seeds

    @property
    def is_over(self) -> bool:
        return self.progress.is_complete or self.stop_reason is not None

    @property
    def _is_interrupted(self) -> bool:
        """A signal that comes when everything is done, the last evaluation included, interrupts nothing."""
        is_done = self.progress.is_complete and (self.evaluator is None or self.progress.is_evaluated)
        return self.stop_status == "interrupted" and not is_done

    @property
    def is_saving(self) -> bool:
        """Whether a checkpoint is being written that is worth waiting for."""
        return self._is_ending or self._writer.is_busy

    def run(self) -> None:
        """Train."""
        for name, callback in self._named_callbacks():
            if name in self.progress.callbacks:
                callback.restore(self.progress.callbacks[name])
        if self.progress.ended is not None:
            self.stop(self.progress.ended)
        try:
            self._tell("on_start")
            if self.progress.steps and (self.is_over or self._is_due(self.config.eval_interval)):
                self._evaluate_if_due()  # interrupted just before this evaluation
            while not self.is_over:
                self._run_to(self._next_due())
                self._attend()
            self._save_the_end()
            if not self._is_interrupted:
                if self.stop_status == "interrupted":  # by a signal that came when all was done
                    self.stop_reason = self.progress.ended
                self.stop_status = "finished"
            self.run_directory.note(status=self.stop_status, reason=self.stop_reason)
        finally:
            self._tell("on_end")

    def close(self) -> None:
        """Let go of everything; a checkpoint being written is waited for, unless the run was cut off."""
        cut_off = isinstance(sys.exception(), KeyboardInterrupt)
        with ExitStack() as closings:
            if self.evaluator is not None:
                closings.callback(self.evaluator.close)
            closings.callback(self.engine.source.close)
            closings.callback(self._writer.wait, _CUT_OFF_SECONDS if cut_off else None)

    # Time -------------------------------------------------------------------------------------------------------

    @property
    def checkpoint_interval(self) -> int:
        """As configured, else with every evaluation, else ten times in a run."""
        config = self.config
        return config.checkpoint_interval or config.eval_interval or math.ceil(self.progress.total_steps / 10)

    @property
    def _pretraining_interval(self) -> int:
        """In updates, as it takes no steps; not more than about twenty times."""
        return max(self.checkpoint_interval, self.progress.total_updates // 20)

    def _next_due(self) -> int:
        """The next step at which something must happen."""
        return self._next_of(self.config.log_interval, self.config.eval_interval, self.checkpoint_interval)

    def _next_of(self, *intervals: int | None) -> int:
        at = self.progress.steps
        return min(self.progress.total_steps, *((at // n + 1) * n for n in intervals if n is not None))

    def _is_due(self, interval: int | None) -> bool:
        return self.progress.is_complete or (interval is not None and self.progress.steps % interval == 0)

    def _run_to(self, stop: int) -> None:
        """Steps up to `stop`, in blocks short enough that a signal is answered at once."""
        block, self._held = 1, None
        while self.progress.steps < stop and self.stop_reason is None:
            began = time.perf_counter()
            turn = self.engine.source.advance(min(block, stop - self.progress.steps))
            self.engine.run(self.progress.updates, turn.updates)
            self.progress.steps += turn.steps
            self.progress.updates += turn.updates
            if turn.updates:
                self.progress.computed_by(self.engine.told)
            if not turn.steps and self.progress.updates % self._pretraining_interval < turn.updates:
                self.save()
            pace = turn.steps / max(time.perf_counter() - began, 1e-9)
            block = max(1, min(4 * block, int(_PULSE_SECONDS * pace)))
            self._tell("on_progress")
            self._announce(self._writer.poll())

    # What is due ------------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Record, evaluate, save: whatever is due at this step, in this order."""
        if self._is_due(self.config.log_interval) and self.progress.steps > self._clock[0]:
            self._log()
        is_best = self._evaluate_if_due()
        if is_best or self.is_over or self._is_due(self.checkpoint_interval):
            self.save()

    def _log(self) -> None:
        measured, finite = self.engine.take_record()
        metrics = {**measured, **self.engine.source.take_metrics()}
        self._report(self.guard.look_at_metrics(metrics, self._clock[0]))
        self._report(self.guard.look_at_weights(finite))
        metrics = self.guard.sound_only(metrics)
        step, now = self.progress.steps, time.perf_counter()
        self.steps_per_second = pace = (step - self._clock[0]) / max(now - self._clock[1], 1e-9)
        self._clock = (step, now)
        counters: dict[str, Any] = {"step": step, "updates": self.progress.updates, "epoch": self.progress.epoch}
        if len(self.sound_seeds) < len(self.config.seeds):
            counters["seeds"] = self.sound_seeds
        self.run_directory.append("metrics", {**counters, **metrics})
        self.run_directory.append("timing", {"step": step, "time": time.time(), "steps_per_second": pace})
        self._tell("on_metrics", metrics)

    def _evaluate_if_due(self) -> bool:
        """Evaluate at the evaluation interval and at the end (but not on being interrupted); true for a new best."""
        due = self._is_due(self.config.eval_interval) or self.is_over
        if self.evaluator is None or not due or self._is_interrupted or self.progress.is_evaluated:
            return False
        self._settle()
        self._report(self.guard.look_at_weights())
        try:
            evaluation = self.evaluator.evaluate(self._actor_to_judge(), self.progress.steps)
        except EvaluationStoppedError:
            return False
        except EnvironmentFailedError:
            self.save()  # what was trained is sound; resuming begins with this evaluation
            self._announce(self._writer.finish())
            raise
        self._report(self.guard.look_at_returns(evaluation, self._clock[0]))
        evaluation = evaluation.only(self.sound_seeds).scored()
        if not evaluation.seeds:
            return False
        is_best = self.progress.saw(evaluation)
        self.run_directory.append("evaluations", evaluation.to_json())
        self._tell("on_evaluation", evaluation)
        return is_best

    def _actor_to_judge(self) -> Actor:
        """The policies of this step. Where the device can work ahead meanwhile, they are a copy on the CPU."""
        works_ahead = (
            isinstance(self.evaluator, EnvironmentEvaluator)
            and self.engine.can_work_ahead
            and not self.is_over
            and not any(callback.looks_at_learner for callback in self.callbacks)
        )
        if not works_ahead:
            return self.actor
        self._report(self.guard.look_at_metrics(self.engine.peek_metrics(), self._clock[0], is_part=True))
        self._held = self.snapshot().copied()
        limit = self._next_of(self.config.eval_interval, self.checkpoint_interval)  # a step is an update here
        self.engine.work_ahead(self.progress.updates, limit, self.config.log_interval, self._held.tensors)
        self._keep_busy()
        return Actor(self._held.build_learner(), self.actor.transforms)

    def _keep_busy(self) -> bool:
        """Asked at every step of an evaluation: whether to break it off. Gives the device more to do, if it may."""
        if self._held is not None and self.stop_reason is None:
            self.engine.go_on_ahead(max(1, int(_PULSE_SECONDS * (self.steps_per_second or 1.0))))
        return self._is_interrupted

    def _settle(self) -> None:
        """Go back to this step, if the device works ahead of it."""
        self.engine.settle(self.progress.updates)
        self._held = None

    def save(self) -> None:
        """Begin a checkpoint of this very step, in which every member is sound."""
        if self._is_announcing:  # else every checkpoint would be the reason of another
            raise ConfigError("loop.save: not in on_checkpoint, which it would call again; save in on_progress")
        if self._held is None:
            self._settle()
            self._report(self.guard.look_at_metrics(self.engine.peek_metrics(), self._clock[0], is_part=True))
            self._report(self.guard.look_at_weights())
        self._is_ending = self.is_over
        self._saved = self._standing
        self._announce(self._writer.finish())
        if self._held is None:
            checkpoint = self.snapshot().copied()
        else:
            checkpoint = replace(self._held, progress=self._progress_told())
        self._writer.begin(lambda: self.run_directory.keep(checkpoint))
        self._announce(self._writer.poll())

    def _save_the_end(self) -> None:
        """Have the last checkpoint say that the run is over. Being told of one, a callback may have ended it there:
        those weights are still to be evaluated, and another is to say so."""
        self._settle()
        self._is_ending = True
        self._announce(self._writer.finish())
        while self._saved != self._standing:
            self._evaluate_if_due()
            self.save()
            self._announce(self._writer.finish())

    @property
    def _standing(self) -> object:
        """Tells whether the run still stands where it was saved."""
        progress = self.progress
        return progress.steps, progress.updates, progress.ended, progress.is_evaluated

    def _announce(self, written: Path | None) -> None:
        """Tell of a checkpoint that is safely on disk."""
        if written is not None:
            self._is_announcing = True
            try:
                self._tell("on_checkpoint", written)
            finally:
                self._is_announcing = False

    def snapshot(self) -> Checkpoint:
        """The run at this very step. Its tensors are the live ones."""
        self._progress_told()
        return self.last_snapshot()

    def last_snapshot(self) -> Checkpoint:
        """The same with what the last one has of callbacks, which may be good for nothing after `on_end`."""
        sums, self.progress.metric_counts = self.engine.metric_state()
        return Checkpoint(
            self.config,
            self.spaces,
            self.actor.transforms,
            asdict(self.progress),
            self.actor.learner.state(),
            sums,
            self.engine.source.state(),
            self._data,
        )

    def _progress_told(self) -> dict[str, Any]:
        """As a checkpoint has it, with what was recorded and what callbacks remember."""
        self.progress.records = self.run_directory.tallies()
        self.progress.callbacks = {name: kept_state(name, callback) for name, callback in self._named_callbacks()}
        return asdict(self.progress)

    def _report(self, findings: Sequence[Divergence]) -> None:
        for finding in findings:
            self._tell("on_divergence", finding)

    # Callbacks --------------------------------------------------------------------------------------------------

    def _named_callbacks(self) -> list[tuple[str, Callback]]:
        """Callbacks under the names their memories are kept by: the class, numbered where there are several."""
        seen: Counter[str] = Counter()
        named = []
        for callback in self.callbacks:
            kind = type(callback).__name__
            seen[kind] += 1
            named.append((kind if seen[kind] == 1 else f"{kind}-{seen[kind]}", callback))
        return named

    def _tell(self, event: str, *details: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *details)
