"""What an examination of a dataset yields: facts, and findings that say what is wrong, where, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from dataclasses import field as _made  # as a finding has a field of that name
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training import yaml_dialect

Level: TypeAlias = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

HISTOGRAM_BINS = 10


@dataclass(frozen=True)
class Place:
    """Where in the data, everything counted from 0."""

    row: int | None = None
    episode: int | None = None
    episode_id: str | None = None  # in the file, where it names its episodes
    step: int | None = None  # within the episode
    column: int | None = None
    column_name: str | None = None  # in the file, where it has one
    file: str | None = None  # where the data are several

    def __str__(self) -> str:
        parts = [] if self.row is None else [f"row {self.row:,}" + (f" of {self.file}" if self.file else "")]
        if self.column is not None or self.column_name is not None:
            parts.append(f"column {self.column if self.column_name is None else repr(self.column_name)}")
        if self.episode is not None:
            named = f"{self.episode:,}" if self.episode_id is None else f"named {self.episode_id}"
            inside = f"episode {named}" + ("" if self.step is None else f", step {self.step:,}")
            parts = [f"{', '.join(parts)} ({inside})" if parts else inside]
        return ", ".join(parts)


NOWHERE = Place()


@dataclass(frozen=True)
class Finding:
    """One thing to know. `error`: refused, or trains wrongly; `warning`: probably wrong; `note`: worth knowing."""

    level: Level
    code: str  # stable: for scripts that look for a certain finding
    field: str
    what: str  # a sentence
    advice: str  # a sentence
    count: int | None = None  # of rows, entries or episodes, as `what` says
    place: Place = NOWHERE  # the first of them
    advised: Mapping[str, Any] = _made(default_factory=dict, hash=False)  # options that the advice has `spelt_out`

    def __str__(self) -> str:
        where = str(self.place)
        many = self.count is not None and self.count > 1
        told = f" {'First at' if many else 'At'} {where}." if where and self.place.row is not None else ""
        return f"{self.field} [{self.code}]: {self.what}{told} {self.advice}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        plain = asdict(self)
        place = plain.pop("place")
        del plain["advised"]  # in words it is there already
        return {**plain, **place}


def spelt_out(options: Mapping[str, Any]) -> str:
    """Options as a configuration has them, in one line: `at_termination: {crash: -100}`."""
    return ", ".join(f"{name}: {yaml_dialect.inline(value)}" for name, value in options.items())


@dataclass(frozen=True)
class Distribution:
    """Numbers of one kind, one per episode, in brief."""

    mean: float
    std: float
    min: float
    median: float
    max: float
    counts: tuple[int, ...]  # of the histogram's bins
    edges: tuple[float, ...]  # one more than there are bins
    whole: bool  # whole numbers: a bin from 10 to 20 holds 10 to 19

    @classmethod
    def of(cls, values: npt.NDArray[Any], bins: int = HISTOGRAM_BINS) -> Distribution:
        """The distribution of finite values, of which there is at least one; whole numbers get whole-numbered bins."""
        low, high = float(values.min()), float(values.max())
        whole = values.dtype.kind in "iu"
        values = values.astype(np.float64)  # sums of float32 may be beyond its range
        if whole:
            width = max(1, math.ceil((high - low + 1) / bins))
            edges = low + width * np.arange(math.ceil((high - low + 1) / width) + 1)
        else:
            edges = np.linspace(low, high, bins + 1) if high > low else np.array([low, low])
        counts = np.histogram(values, edges)[0] if high > low else np.array([len(values)])
        return cls(
            mean=float(values.mean()),
            std=float(values.std()),
            min=low,
            median=float(np.median(values)),
            max=high,
            counts=tuple(counts.tolist()),
            edges=tuple(edges[: len(counts) + 1].tolist()),
            whole=whole,
        )

    def negated(self) -> Distribution:
        """Of the same numbers with the other sign."""
        least, middle, most, mean = (0.0 - value for value in (self.max, self.median, self.min, self.mean))
        edges = tuple(0.0 - edge for edge in self.edges[::-1])
        return replace(self, mean=mean, min=least, median=middle, max=most, counts=self.counts[::-1], edges=edges)


@dataclass(frozen=True)
class Facts:
    """What the data are, as far as they can be read; None where that cannot be said."""

    format: str
    rows: int
    fields: dict[str, str]  # field -> dtype and shape in the file
    env_id: str | None = None
    usable: int | None = None  # rows whose successor is known
    episodes: int | None = None
    terminated: int | None = None  # episodes by how they end
    truncated: int | None = None
    obs_dim: int | None = None
    act_dim: int | None = None
    obs_names: tuple[str, ...] | None = None  # the columns of a table
    action_names: tuple[str, ...] | None = None
    successors: str | None = None  # "stored" or "derived"
    action_low: tuple[float, ...] | None = None
    action_high: tuple[float, ...] | None = None
    bounds_from: str | None = None  # in words
    rewards: tuple[float, float, float] | None = None  # smallest, mean, largest
    returns: Distribution | None = None
    lengths: Distribution | None = None
    return_by_row: float | None = None  # mean return of the episode a row drawn at random belongs to
    costs: bool = False  # rewards and returns are the negative of the file's own, which people are shown
    score_by_episode: float | None = None  # on D4RL's scale
    score_by_row: float | None = None
    obs_effective_dim: float | None = None
    act_effective_dim: float | None = None
    action_range_visited: tuple[float, ...] | None = None  # share of each dimension's bounds
    action_spread: float | None = None  # variance of actions among neighbouring states, of the whole variance
    fingerprint: str | None = None
    made_from: str | None = None  # in words, as the file tells it

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return dict(_finite(asdict(self)))

    def in_own_sign(self) -> Facts:
        """With rewards and returns as the user's file has them."""
        if not self.costs:
            return self
        least, mean, most = self.rewards or (0.0, 0.0, 0.0)
        return replace(
            self,
            rewards=None if self.rewards is None else (0.0 - most, 0.0 - mean, 0.0 - least),
            returns=None if self.returns is None else self.returns.negated(),
            return_by_row=None if self.return_by_row is None else 0.0 - self.return_by_row,
        )


@dataclass(frozen=True)
class Report:
    """Facts and findings of one dataset, the gravest findings first."""

    facts: Facts
    findings: tuple[Finding, ...] = field(default=())

    @classmethod
    def of(cls, facts: Facts, findings: Sequence[Finding]) -> Report:
        """A report with its findings in order of level, within a level in order of discovery."""
        return cls(facts, tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level))))

    def at(self, level: Level) -> list[Finding]:
        """The findings of one level."""
        return [finding for finding in self.findings if finding.level == level]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.at("error")

    def verdict(self) -> str:
        """One line on the whole."""
        counts = {level: len(self.at(level)) for level in LEVELS}
        named = [f"{n} {level}{'s' * (n != 1)}" for level, n in counts.items() if n]
        found = ", ".join(named) or "no findings"
        if not self.ok:
            return f"not fit for training: {found}"
        return f"fit for training, but look at the warnings: {found}" if counts["warning"] else f"healthy: {found}"

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; numbers that are not finite become null."""
        facts = asdict(self.facts)
        findings = [finding.to_json() for finding in self.findings]
        plain = {"ok": self.ok, "verdict": self.verdict(), "facts": facts, "findings": findings}
        return dict(_finite(plain))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
