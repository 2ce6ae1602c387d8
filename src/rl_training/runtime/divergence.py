"""Divergence: finding the members whose training has failed, and stopping them alone.

Looked for where values are on the host anyway: with every metric record, and before every evaluation and checkpoint, in
weights and moments, too (a moment that overflows leaves losses finite, and nothing is learned any more). A member is
stopped by what is not finite, and by Q-values far beyond what the rewards allow where the configuration asks for it (it
warns, otherwise). A stopped member is set back to the last checkpoint, all of which are sound, and frozen: see
`Learner.freeze`. Its rows of every tensor are its own, so the others never notice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from rl_training.algorithms.base import BootstrapParams, Learner, OnlineParams
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import CheckpointError, DivergenceError

if TYPE_CHECKING:
    from rl_training.runtime.checkpoint_writer import CheckpointWriter
    from rl_training.runtime.config import TrainConfig
    from rl_training.runtime.evaluation import Evaluation
    from rl_training.runtime.progress import Progress
    from rl_training.runtime.run_directory import RunDirectory
    from rl_training.runtime.sources import Source

Metrics = Mapping[str, list[float]]

VALUES = ("critic/q_data", "critic/q_target", "actor/q", "value/mean")  # metrics that estimate a discounted return
_LARGE_REWARD = 100.0  # beyond this, rewards are worth naming as a cause
_CHUNK = 1 << 20
_OUTSIDE = "the environment itself, whose actions were finite; such evaluations count without the seed"


@dataclass(frozen=True)
class Divergence:
    """One finding. `since` and `step` bound the updates it happened in; `now_at` is where a stopped member stands."""

    seed: int
    since: int
    step: int
    what: str
    causes: str
    now_at: str | None

    @property
    def is_stopped(self) -> bool:
        return self.now_at is not None

    def __str__(self) -> str:
        fate = f"seed {self.seed} diverged and is stopped, set back to {self.now_at}" if self.is_stopped else "warning"
        where = "" if self.is_stopped else f" of seed {self.seed}"
        return f"{fate}: {self.what}{where} between step {self.since} and {self.step}; likely causes: {self.causes}"

    @classmethod
    def from_json(cls, stored: Any) -> Divergence:
        """What a checkpoint says, if it is what a checkpoint can say."""
        kinds = {"seed": int, "since": int, "step": int, "what": str, "causes": str, "now_at": str | None}
        whole = isinstance(stored, Mapping) and stored.keys() == {f.name for f in fields(cls)}
        if not whole or not all(isinstance(stored[name], kind) for name, kind in kinds.items()):
            raise CheckpointError("progress.divergences: is not a list of findings")
        return cls(**stored)


class DivergenceGuard:
    """Knows which members are sound, and keeps `progress`, the learner and `run.json` in agreement about it."""

    def __init__(
        self,
        config: TrainConfig,
        learner: Learner,
        source: Source,
        run: RunDirectory,
        progress: Progress,
        writer: CheckpointWriter,
        *,
        start: Callable[[], Mapping[str, Tensor]],
        data_reward: float = 0.0,
    ) -> None:
        """start: makes the learner's state before the first update; data_reward: the dataset's largest |reward|."""
        self.config = config
        self.learner = learner
        self.source = source
        self.run = run
        self.progress = progress
        self.writer = writer
        self.start = start
        self.data_reward = data_reward
        self.before_stopping: Callable[[], None] = lambda: None
        self._looked_at = progress.steps  # the last step at which weights were looked at, or that of a checkpoint
        if "divergences" in run.describe():  # a run that goes on from before some of them will find them again
            self._write_down()

    @property
    def sound_seeds(self) -> tuple[int, ...]:
        """Seeds that still train, in the run's order."""
        stopped = self.progress.stopped_seeds
        return tuple(seed for seed in self.config.seeds if seed not in stopped)

    def sound_only(self, metrics: Metrics) -> dict[str, list[float]]:
        """The values of sound members: as many as there are `sound_seeds`."""
        kept = [member for member, _ in self._sound_members()]
        return {name: [values[member] for member in kept] for name, values in metrics.items()}

    # Looking ----------------------------------------------------------------------------------------------------

    def look_at_metrics(self, metrics: Metrics, since: int, *, is_part: bool = False) -> list[Divergence]:
        """Findings in metrics of the steps after `since`, one value per member: whatever is not finite, absurd Qs.

        is_part: of a log interval that goes on, wherever a run was interrupted: means of it judge no Qs. Before the
        first update there is little to measure, and the experience itself is looked at.
        """
        action = "off" if is_part else self.config.divergence.absurd_q
        found, spoilt = [], self.source.spoilt_members
        for member, seed in self._sound_members():
            own = {name: values[member] for name, values in metrics.items()}
            broken = {name: value for name, value in own.items() if not math.isfinite(value)}
            if broken:
                name, value = next(iter(broken.items()))
                found.append(self._stop(member, f"{name} became {value}", since))
            elif member in spoilt:
                found.append(self._stop(member, "its experience is not finite", since))
            elif action != "off" and (absurd := self._absurd_value(own)):
                if action == "stop":
                    found.append(self._stop(member, absurd, since))
                elif all(seed != known.seed for known in self.progress.divergences):
                    found.append(self._find(seed, absurd, since))
        return self._told(found)

    def look_at_weights(self, finite: Tensor | None = None) -> list[Divergence]:
        """Findings in the members' weights, targets and moments, which one transfer from the device judges.

        finite: the learner's `finite_rows` at this step, where the device is ahead of it."""
        since, self._looked_at = self._looked_at, self.progress.steps
        finite = (self.learner.finite_rows() if finite is None else finite).cpu()
        found = []
        for member, _ in self._sound_members():
            if not bool(finite[:, member].all()):
                name = list(self.learner.rows())[int(finite[:, member].int().argmin())]
                found.append(self._stop(member, f"{name} is not finite", since))
        return self._told(found)

    def look_at_returns(self, evaluation: Evaluation, since: int) -> list[Divergence]:
        """Findings in the returns of an evaluation. What an environment is to blame for stops nobody."""
        by_seed = zip(evaluation.seeds, evaluation.returns, strict=True)
        broken = {seed for seed, returns in by_seed if not np.isfinite(returns).all()}
        found = []
        for member, seed in self._sound_members():
            faults = [fault for fault in evaluation.faults if fault.seed == seed]
            if faults and not any(fault.by_policy for fault in faults):
                if all(known.causes != _OUTSIDE for known in self.progress.divergences if known.seed == seed):
                    found.append(self._find(seed, f"{faults[0].what}, in an evaluation", since, causes=_OUTSIDE))
            elif seed in broken:
                told = next((fault.what for fault in faults if fault.by_policy), "the evaluated return is not finite")
                found.append(self._stop(member, told, since))
        return self._told(found)

    def _sound_members(self) -> Iterator[tuple[int, int]]:
        stopped = self.progress.stopped_seeds
        return ((member, seed) for member, seed in enumerate(self.config.seeds) if seed not in stopped)

    def _absurd_value(self, metrics: Mapping[str, float]) -> str | None:
        """The largest estimate of one member in words, if it is beyond `q_factor` times what rewards can add up to."""
        values = {name: abs(metrics[name]) for name in VALUES if name in metrics}
        if not values:
            return None
        name = max(values, key=lambda each: values[each])
        possible = self._possible_value(metrics)
        if values[name] <= self.config.divergence.q_factor * possible:
            return None
        return (
            f"{name} is {metrics[name]:.3g}, beyond {self.config.divergence.q_factor:g} times the {possible:.3g} that"
            " rewards allow"
        )

    def _possible_value(self, metrics: Mapping[str, float]) -> float:
        """max|r| / (1 - γ), with α·|H| beside the reward where the backup has an entropy; never below 1."""
        params = self.learner.params
        bonus = 0.0
        if getattr(params, "backup_entropy", False):
            alpha = metrics.get("alpha/value", getattr(params, "alpha", 0.0))
            bonus = alpha * abs(metrics.get("actor/entropy", 0.0))
        return max(1.0, (self._largest_reward + bonus) / (1.0 - getattr(params, "gamma", 0.0)))

    @property
    def _largest_reward(self) -> float:
        return max(self.data_reward, self.source.largest_reward)

    # Acting on it -----------------------------------------------------------------------------------------------

    def _stop(self, member: int, what: str, since: int) -> Divergence:
        self.before_stopping()
        place, sound = self._last_sound()
        self.learner.freeze(member, sound)
        return self._find(self.config.seeds[member], what, since, place)

    def _find(
        self, seed: int, what: str, since: int, now_at: str | None = None, causes: str | None = None
    ) -> Divergence:
        finding = Divergence(seed, since, self.progress.steps, what, causes or self._likely_causes(), now_at)
        self.progress.divergences.append(finding)
        return finding

    def _last_sound(self) -> tuple[str, Mapping[str, Tensor]]:
        """The newest checkpoint that can be read: none is ever written of a member that is not sound."""
        self.writer.wait()  # the one being written is the newest, on a disk of any speed
        for step in reversed(self.run.steps()):
            with suppress(CheckpointError):
                return f"step {step}", self.run.load(step).tensors
        return "the start", self.start()

    def _told(self, found: list[Divergence]) -> list[Divergence]:
        """Write findings down; where no member is left, the run is over."""
        if found:
            self._write_down()
        if found and not self.sound_seeds:
            steps = self.run.steps()
            kept = f"the last good checkpoint is {self.run.checkpoint_path(steps[-1])}" if steps else "none was saved"
            who = "" if len(self.config.seeds) == 1 else f"all {len(self.config.seeds)} seeds have diverged; the last: "
            raise DivergenceError(f"{who}{found[-1]}; {kept}")
        return found

    def _write_down(self) -> None:
        self.run.note(divergences=[asdict(finding) for finding in self.progress.divergences])

    def _likely_causes(self) -> str:
        """What to try, the likeliest first, from what this run's configuration and data say."""
        params, transforms = self.learner.params, self.config.transforms
        causes = [self.source.suspicion] if self.source.suspicion else []
        if isinstance(params, OnlineParams) and self.progress.unit == "updates":
            causes.append(f"{self.config.algo} on fixed data, where it overrates the actions they lack")
        if (largest := self._largest_reward) > _LARGE_REWARD:
            causes.append(f"rewards up to {largest:.3g} (transforms.reward_scale)")
        rates = [f"{name} {value:g}" for name, value in params if name.endswith("_lr")]
        causes.append(f"learning rates ({', '.join(rates)})")
        if not transforms.normalise_observations:
            causes.append("observations that are not normalised (transforms.normalise_observations)")
        if isinstance(params, BootstrapParams) and params.layer_norm == "none":
            causes.append(f"TD targets that grow (smaller tau, {params.tau:g} now, or layer_norm)")
        return ", ".join(causes)


def largest_reward(dataset: TransitionDataset | None, transforms: Transforms) -> float:
    """max|r| as the learner sees it; 0 without data."""
    if dataset is None:
        return 0.0
    blocks = (dataset.rewards[first : first + _CHUNK] for first in range(0, len(dataset), _CHUNK))
    return max((float(np.abs(transforms.rewards(block)).max()) for block in blocks), default=0.0)
