"""`rl-training evaluate`: runs scored, with intervals, on the normalised scale, and beside each other."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_training.cli.given_options import require_draws
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import table
from rl_training.cli.using import tell_stopped
from rl_training.data.reference_returns import Reference, reference_of
from rl_training.errors import ConfigError
from rl_training.experiment import statistics
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.video import check_video, record_episode, write_video
from rl_training.paths import in_shell
from rl_training.runtime.evaluation import Evaluation
from rl_training.validation import shown
from rl_training.wording import amount, readable


@dataclass(frozen=True)
class Asked:
    """The options, the same for every run."""

    episodes: int
    which: str
    seeds: Sequence[str] | None  # each may name several
    env_id: str | None
    seed: int | None
    stochastic: bool
    video: Path | None

    @property
    def members(self) -> list[int] | None:
        if not self.seeds:
            return None
        named = ",".join(self.seeds)
        try:
            return list(dict.fromkeys(int(word) for word in named.split(",")))
        except ValueError:
            raise ConfigError(f"--seeds {shown(named)}: must be numbers separated by commas") from None


@dataclass(frozen=True)
class Scored:
    """One run's evaluation and what follows from it."""

    run: Path
    which: str
    env_id: str
    evaluation: Evaluation
    reference: Reference | None
    taken: Sequence[str] = ()  # which seed others take, in words

    @property
    def by_seed(self) -> bool:
        """Whether the interval is over seeds; of a single seed there are only its episodes."""
        return len(self.evaluation.seeds) > 1

    @property
    def scores(self) -> Any:
        """What the interval is over, `[n]`: the mean return of each seed, or the episodes of the only one."""
        return self.evaluation.returns.mean(1) if self.by_seed else self.evaluation.returns[0]

    def estimate(self) -> Estimate:
        return statistics.bootstrap([self.scores])

    def normalised(self) -> Estimate | None:
        return None if self.reference is None else self.estimate().scaled(self.reference.score)

    def to_json(self) -> dict[str, Any]:
        normalised = self.normalised()
        return {
            "run": str(self.run),
            "which": self.which,
            "env_id": self.env_id,
            **self.evaluation.to_json(),
            "returns": self.evaluation.returns.tolist(),
            "interquartile_mean": {**self.estimate().to_json(), "level": LEVEL, "over": self.over},
            "normalised": None
            if normalised is None or self.reference is None
            else normalised.to_json() | {"scale": self.reference.source},
        }

    @property
    def over(self) -> str:
        return "seeds" if self.by_seed else "episodes"


def evaluate(runs: Sequence[Path], asked: Asked, *, as_json: bool) -> None:
    """Score every run, then compare those that share an environment."""
    members = asked.members
    if asked.video is not None:
        if len(runs) > 1:
            raise ConfigError("--video: films one run; give one")
        check_video(asked.video)
    policies = [load_policy(run, asked.which) for run in runs]
    for run, policy in zip(runs, policies, strict=True):
        _require_environment(run, policy, asked)
    if asked.stochastic:
        require_draws([*zip(runs, policies, strict=True)])
    scored = [_score(run, policy, asked, members) for run, policy in zip(runs, policies, strict=True)]
    for policy in policies:
        tell_stopped(policy)
    pairs = list(_compared(scored))
    if as_json:
        told: Any = [one.to_json() for one in scored]
        tell(json.dumps(told[0] if len(told) == 1 else {"runs": told, "improvement": [_json(*p) for p in pairs]}))
        return
    for one in scored:
        tell("\n".join(_lines(one, asked.episodes)))
    if pairs:
        unit = pairs[0][0].over.removesuffix("s")
        tell(f"probability of improvement (a random {unit} of the one scores higher than one of the other)")
        rows = [
            (f"  {ours.run.name}", f"over {theirs.run.name}", _chance(ours, theirs, found))
            for ours, theirs, found in pairs
        ]
        tell("\n".join(table(("", "", ""), rows)[1:]))
    elif len(scored) > 1:
        tell("not compared: that takes runs in one environment, all of several seeds or all of one")


def _require_environment(run: Path, policy: LoadedPolicy, asked: Asked) -> None:
    if asked.env_id is None and policy.checkpoint.config.env_id is None:
        raise ConfigError(
            f"{run}: was trained without an environment; --env-id ID names one to evaluate in, and"
            f" `rl-training evaluate {in_shell(run)} --offline` estimates from the data without one"
        )


def _score(run: Path, policy: LoadedPolicy, asked: Asked, members: list[int] | None) -> Scored:
    deterministic = False if asked.stochastic else None
    with warnings.catch_warnings(action="ignore"):  # what diverged is told as a note
        evaluation = policy.evaluate(
            asked.episodes, env_id=asked.env_id, seed=asked.seed, deterministic=deterministic, members=members
        )
        if asked.video is not None:
            _film(policy, evaluation, asked)
    config = policy.checkpoint.config
    env_id = str(asked.env_id or config.env_id)
    section = None if config.dataset is None else config.dataset.model_dump(mode="json")
    reference = reference_of(section if env_id == config.env_id else None, env_id)
    taken = [*policy.seed_choice.taken, *_disagreement(evaluation, policy.seed_choice.seed)]
    return Scored(run, asked.which, env_id, evaluation, reference, taken)


def _disagreement(evaluation: Evaluation, taken: int) -> list[str]:
    """What to say where another seed than the one that is taken has returned the most just now."""
    means = dict(zip(evaluation.seeds, evaluation.returns.mean(1).tolist(), strict=True))
    best = max(means, key=lambda seed: means[seed])
    if means[best] <= means.get(taken, math.inf):
        return []
    return [f"in the episodes above seed {best} returned more than seed {taken}; --seed {best} takes that one instead"]


def _film(policy: LoadedPolicy, evaluation: Evaluation, asked: Asked) -> None:
    assert asked.video is not None
    first = policy.checkpoint.config.evaluation.seed if asked.seed is None else asked.seed
    own = policy.seed_choice.seed
    whose = own if own in evaluation.seeds else evaluation.seeds[0]
    frames, rate = record_episode(policy, asked.env_id, whose, first)
    write_video(asked.video, frames, rate)
    tell(f"film of seed {whose}: {asked.video} ({amount(len(frames), 'picture')})", err=True)


def _compared(scored: Sequence[Scored]) -> Any:
    """Every two runs of one environment, the better first."""
    for one, other in itertools.combinations(scored, 2):
        if one.env_id == other.env_id and one.by_seed == other.by_seed:
            found = statistics.improvement([one.scores], [other.scores])
            if found.value < 0.5:
                one, other = other, one
                found = statistics.improvement([one.scores], [other.scores])
            yield one, other, found


def _chance(ours: Scored, theirs: Scored, found: Estimate) -> str:
    luck = statistics.may_be_chance(found, len(ours.scores), len(theirs.scores))
    return _in_words(found, 2) + ("; may be chance" if luck else "")


def _json(ours: Scored, theirs: Scored, found: Estimate) -> dict[str, Any]:
    luck = statistics.may_be_chance(found, len(ours.scores), len(theirs.scores))
    return {"run": str(ours.run), "over": str(theirs.run), **found.to_json(), "level": LEVEL, "may_be_chance": luck}


def _lines(scored: Scored, episodes: int) -> list[str]:
    evaluation = scored.evaluation
    step = f"{scored.which} checkpoint, update {evaluation.step:,}"
    lines = [f"{scored.run} ({step}), {amount(episodes, 'episode')} per seed"]
    for seed, returns in zip(evaluation.seeds, evaluation.returns, strict=True):
        mean, least, most = map(readable, (returns.mean(), returns.min(), returns.max()))
        spread = f" ± {readable(returns.std())}   min {least}   max {most}" if len(returns) > 1 else ""
        lines.append(f"  seed {seed:<6} return {mean:>10}{spread}")
    if scored.by_seed:
        means = evaluation.returns.mean(1)
        lines.append(f"  all seeds   return {readable(means.mean()):>10} ± {readable(means.std(ddof=1))} (over seeds)")
    if len(scored.scores) > 1:
        what = amount(len(scored.scores), "seed" if scored.by_seed else "episode")
        only = "" if scored.by_seed else "; one seed says nothing of others"
        lines.append(f"  interquartile mean {_in_words(scored.estimate())} (bootstrap over {what}{only})")
    normalised = scored.normalised()
    if normalised is not None and scored.reference is not None:
        lines.append(f"  normalised score   {_in_words(normalised)} ({scored.reference.source}: 0 random, 100 expert)")
    return [*lines, *(f"  {line}" for line in scored.taken)]


def _in_words(found: Estimate, digits: int | None = None) -> str:
    ends = [found.value, found.low, found.high]
    value, low, high = ("" if end is None else readable(end) if digits is None else f"{end:.{digits}f}" for end in ends)
    return f"{value}, {LEVEL:.0%} interval {low} to {high}" if low else value
