"""Runs of a second or less: tiny networks, few updates, and the callbacks and evaluators that steer them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from rl_training.algorithms import load
from rl_training.runtime.acting import Actor
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.loop import Loop
from rl_training.runtime.trainer import Trainer


def knobs(algo: str) -> dict[str, Any]:
    """The algorithm's parameters with tiny networks and batches."""
    hidden = {name: [8, 8] for name in load(algo).Params.model_fields if name.endswith("_hidden")}
    return {"batch_size": 8, **hidden}


def small_values(data: Path | str | None, runs: Path, algo: str = "bc", **changes: Any) -> dict[str, Any]:
    """The plain values of a small run without an environment."""
    values = {"algo": algo, "dataset": str(data) if data else None, "runs_dir": str(runs), "name": "run"}
    own = {**knobs(algo), **changes.pop("algo_kwargs", {})}
    if "eval_interval" not in changes:  # no checkpoint but the last, unless a test asks for more
        values["checkpoint_interval"] = 1_000
    return {**values, "total_timesteps": 20, "log_interval": 10, "algo_kwargs": own, **changes}


def small_config(data: Path | str | None, runs: Path, algo: str = "bc", **changes: Any) -> TrainConfig:
    """A small run without an environment; `changes` replace or add any value."""
    return TrainConfig.parse(small_values(data, runs, algo, **changes))


def digest(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names and bytes."""
    sums = hashlib.sha256()
    for name in sorted(state):
        sums.update(name.encode() + state[name].detach().cpu().numpy().tobytes())
    return sums.hexdigest()


def files_under(path: Path) -> dict[str, bytes]:
    """Every file below `path` and its bytes."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


class StopAt(Callback):
    """Stops a run at one step exactly: blocks are cut to single steps by looking after each."""

    def __init__(self, step: int, status: str = "interrupted") -> None:
        self.step = step
        self.status = status

    def on_start(self, loop: Loop) -> None:
        one_update_at_a_time(loop)

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.steps == self.step:
            loop.stop("asked to", status=self.status)


def one_update_at_a_time(loop: Loop) -> None:
    """The loop's blocks grow with the machine's speed; tests want to look after every update."""
    advance = loop.engine.source.advance
    loop.engine.source.advance = lambda limit: advance(min(1, limit))  # type: ignore[method-assign]


class Poison(Callback):
    """Makes one member's actor NaN before the first update of each of the given steps."""

    def __init__(self, member: int, *steps: int, value: float = math.nan) -> None:
        self.member, self.steps, self.value = member, steps, value
        self.findings: list[Divergence] = []

    def on_start(self, loop: Loop) -> None:
        advance = loop.engine.source.advance

        def one_at_a_time(limit: int) -> Any:
            if loop.progress.steps in self.steps:
                loop.actor.learner.policy.flat.data.view(loop.actor.learner.members, -1)[self.member] = self.value  # type: ignore[attr-defined]
            return advance(min(1, limit))

        loop.engine.source.advance = one_at_a_time  # type: ignore[method-assign]

    def on_divergence(self, loop: Loop, finding: Divergence) -> None:
        self.findings.append(finding)


class Diary(Callback):
    """Writes down every event and the update it came at."""

    def __init__(self, name: str = "", diary: list[Any] | None = None) -> None:
        self.name = name
        self.events: list[Any] = [] if diary is None else diary

    def _note(self, event: str, loop: Loop) -> None:
        self.events.append((*([self.name] if self.name else []), event, loop.progress.updates))

    def on_start(self, loop: Loop) -> None:
        self._note("start", loop)

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        self._note("metrics", loop)

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        self._note("evaluation", loop)

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        self._note("checkpoint", loop)

    def on_end(self, loop: Loop) -> None:
        self._note("end", loop)


class ScriptedEvaluator:
    """Returns chosen scores by update; a plain number is every seed's."""

    def __init__(self, scores: Mapping[int, float | Sequence[float]]) -> None:
        self.scores = scores
        self.asked: list[int] = []

    def evaluate(self, actor: Actor, step: int) -> Evaluation:
        self.asked.append(step)
        score = np.asarray(self.scores[step], dtype=np.float64)
        returns = np.broadcast_to(score, (actor.learner.members,))[:, None]
        return Evaluation(step, actor.learner.seeds, returns, np.ones_like(returns, dtype=np.int64))

    def close(self) -> None:
        self.asked.append(-1)


def script_scores(monkeypatch: pytest.MonkeyPatch, scores: Mapping[int, float | Sequence[float]]) -> ScriptedEvaluator:
    """Every run of this test is scored as `scores` say."""
    evaluator = ScriptedEvaluator(scores)
    monkeypatch.setattr(Trainer, "evaluator", lambda self: evaluator)
    return evaluator
