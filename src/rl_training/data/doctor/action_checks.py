"""Actions: outside their bounds, exactly on them, of few distinct values, constant."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.action_gaps import find_gaps, find_stages
from rl_training.data.checks import FloatArray, in_unit_range, rounding_slack
from rl_training.data.doctor.findings import Finding, Level
from rl_training.data.doctor.raw_checks import chunks
from rl_training.data.doctor.subject import Columns, Extremes, Outside, Subject
from rl_training.data.doctor.switch_checks import check_gaps, check_stages, without
from rl_training.data.doctor.wording import capital, column_in_words, columns_in_words, listed, number, share
from rl_training.data.space_bounds import SpaceBounds, action_bounds
from rl_training.data.statistics import sample_rows
from rl_training.environments import Spaces
from rl_training.wording import amount

_NEARLY_ALL = 0.99  # of the entries inside [-1, 1]: the others are then the suspects
_MOSTLY = 0.5  # of the entries on a bound
_FAR = 2.0  # widths of the range from the 1st to the 99th percentile, beyond its middle


class Limits(NamedTuple):
    """A range `[A]` that actions should lie in, and whose it is."""

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    source: str  # in words

    @property
    def slack(self) -> npt.NDArray[np.float64]:
        """How far outside rounding may leave an action."""
        return rounding_slack(self.low, self.high)


@dataclass(frozen=True)
class Bounds:
    """The bounds `[A]` that training scales actions by, and what they are held to."""

    used: Limits
    held_to: Limits | None  # none: nothing is known but the data's own extremes
    known: str | None = None  # where an action outside is refused: what else could be done about it

    @property
    def low(self) -> npt.NDArray[np.float64]:
        return self.used.low

    @property
    def high(self) -> npt.NDArray[np.float64]:
        return self.used.high

    @property
    def source(self) -> str:
        return self.used.source


def find_bounds(
    actions: FloatArray, extremes: Extremes, spaces: Spaces | None, told: SpaceBounds | None = None
) -> Bounds:
    """The environment's bounds, else those training infers (`infer_spaces`); `told`: the bounds that the data tell,
    which are only used where the data keep to them. Where nearly all actions lie in [-1, 1], they are held to it."""
    width = actions.shape[1]
    if spaces is not None and spaces.act_dim == width:
        limits = Limits(np.array(spaces.action_low), np.array(spaces.action_high), "the environment's")
        return Bounds(limits, limits, known="rescale the actions to the environment's units")
    if told is not None and told.by_user and told.action_low is not None and len(told.action_low) == width:
        limits = Limits(np.array(told.action_low), np.array(told.action_high), "as you say")
        return Bounds(limits, limits, known="give wider bounds (action_low, action_high)")
    fitted = None if told is None else told.fitted_to_actions(extremes.min, extremes.max)
    low, high, how_much = action_bounds(fitted, extremes.min, extremes.max)
    if how_much != "none" and fitted is not None and fitted.actions_observed:
        return Bounds(Limits(low, high, "the smallest and largest of the log that these are a part of"), None)
    if how_much != "none":
        source = "as the data tell them" if how_much == "all" else "as the data tell them, the rest inferred"
        used = Limits(low, high, source)
        return Bounds(used, used)
    if (low == -1.0).all() and (high == 1.0).all():
        used = Limits(low, high, "the usual ones, as all lie inside")
        return Bounds(used, used)
    used = Limits(low, high, "the smallest and largest in the data")
    stated = action_bounds(told, extremes.min, extremes.max)
    if stated.told != "none":
        return Bounds(used, Limits(stated.low, stated.high, "as the data tell them"))
    if in_unit_range(actions[sample_rows(len(actions))]).mean(axis=0).min() >= _NEARLY_ALL:
        return Bounds(used, Limits(np.full(width, -1.0), np.ones(width), "the usual ones, as nearly all lie inside"))
    return Bounds(used, None)


def check_bounds(subject: Subject, extremes: Extremes, bounds: Bounds) -> Iterator[Finding]:
    """Actions outside what they are held to, or far from all others."""
    assert subject.actions is not None
    if bounds.held_to is not None:
        yield from _outside(subject, subject.actions, extremes, bounds.held_to, known=bounds.known)
    else:
        yield from _far_out(subject, subject.actions, extremes)


def check_actions(subject: Subject, columns: Columns, bounds: Bounds, marked_discrete: bool) -> Iterator[Finding]:
    """Every check on the actions."""
    actions = subject.actions
    assert actions is not None
    names = subject.action_names
    yield from _constant(columns, bounds, names)
    if marked_discrete:
        yield _marked_discrete(actions)
        return
    few = find_stages(actions)
    gaps = without(find_gaps(actions), few)
    yield from check_stages(few, names)
    yield from check_gaps(actions, gaps, names)
    yield from check_bounds(subject, columns, bounds)
    if not few:
        yield from _at_bounds(subject, actions, bounds, {gap.column for gap in gaps})


def _outside(
    subject: Subject, actions: FloatArray, extremes: Extremes, bounds: Limits, *, known: str | None
) -> Iterator[Finding]:
    low, high = bounds.low - bounds.slack, bounds.high + bounds.slack
    if (extremes.min >= low).all() and (extremes.max <= high).all():
        return
    outside = Outside.of(actions, low, high)
    count, rows, (row, column) = outside.entries, outside.rows, outside.first
    least, most = number(bounds.low[column]), number(bounds.high[column])
    what = f"{amount(count, 'entry')} in {amount(rows, 'row')} {'lies' if count == 1 else 'lie'} outside the bounds"
    what += f" ({bounds.source}); the first is {number(float(actions[row, column]))}, outside [{least}, {most}]."
    reach = [number(float(extremes.min[column])), number(float(extremes.max[column]))]
    if known:
        advice = f"Such data are refused: drop these episodes, or {known}; the data reach from {' to '.join(reach)}."
    else:
        used = f"[{', '.join(reach)}]"
        advice = f"Training would scale {column_in_words(column, subject.action_names)} by {used}, its extremes: drop"
        advice += " these episodes if they are faulty, or tell the true bounds (action_low and action_high, or env_id)."
    level: Level = "error" if known else "warning"
    yield Finding(level, "actions.outside", "actions", what, advice, count, subject.place(row, column))


def _far_out(subject: Subject, actions: FloatArray, columns: Extremes) -> Iterator[Finding]:
    """Where no bounds are known: single actions far from all others, which would become the bounds."""
    some = actions[sample_rows(len(actions))].astype(np.float64)
    least = np.percentile(some, 1, axis=0, method="higher")  # of few rows, too, never the extremes themselves
    most = np.percentile(some, 99, axis=0, method="lower")
    middle, reach = (least + most) / 2, _FAR * np.maximum(most - least, 1e-6)
    wide = np.flatnonzero((columns.max > middle + reach) | (columns.min < middle - reach))
    for column in wide.tolist():
        values = actions[:, column]
        far = np.flatnonzero(np.abs(values - middle[column]) > reach[column])
        what = f"{amount(far.size, 'action')} in {column_in_words(column, subject.action_names)}"
        what += f" {'lies' if far.size == 1 else 'lie'} far from all others, such as"
        what += f" {number(float(values[far[0]]))}, where 98% are in"
        what += f" [{number(float(least[column]))}, {number(float(most[column]))}]."
        advice = "The extremes become the bounds, as nothing else tells them: drop these rows' episodes, or give"
        advice += " action_low and action_high."
        place = subject.place(int(far[0]), column)
        yield Finding("warning", "actions.far-out", "actions", what, advice, int(far.size), place)


def _at_bounds(subject: Subject, actions: FloatArray, bounds: Bounds, switched: Set[int]) -> Iterator[Finding]:
    """switched: columns of which more is said elsewhere."""
    limits = bounds.held_to or bounds.used
    low, high = (limits.low + limits.slack).astype(np.float32), (limits.high - limits.slack).astype(np.float32)
    counts = np.zeros(actions.shape[1], dtype=np.int64)
    for part in chunks(len(actions)):
        counts += np.count_nonzero((actions[part] <= low) | (actions[part] >= high), axis=0)
    if bounds.held_to is None:  # its own two extremes lie on them in any case
        counts = np.maximum(counts - 2, 0)
    counts[list(switched)] = 0
    total = int(counts.sum())
    part_at = total / actions.size
    if part_at <= _MOSTLY:  # training moves them just inside
        return
    worst = int(np.argmax(counts))
    what = f"{share(part_at)} of all action entries lie exactly on a bound"
    if len(counts) > 1:
        what += f" (most in {column_in_words(worst, subject.action_names)}: {share(counts[worst] / len(actions))})"
    what += ": the behaviour switches between extremes, or its actions were clipped when they were recorded."
    advice = "If they were clipped, record the actions that were executed; a smooth policy fits extremes badly."
    yield Finding("warning", "actions.at-bound", "actions", what, advice, total)


def _marked_discrete(actions: FloatArray) -> Finding:
    """The file says so itself."""
    values = np.unique(actions[sample_rows(len(actions)), 0])
    shown = listed([number(float(value)) for value in values[:5]]) if len(values) <= 5 else f"{len(values)} values"
    what = f"The file says that actions are discrete; there are {len(values)} of them ({shown})."
    advice = "Only continuous actions can be trained on; use a library for discrete actions."
    return Finding("error", "actions.discrete", "actions", what, advice, len(values))


def _constant(columns: Columns, bounds: Bounds, names: tuple[str, ...] | None) -> Iterator[Finding]:
    constant = np.flatnonzero(columns.min == columns.max).tolist()
    if not constant:
        return
    values = listed([number(float(columns.min[column])) for column in constant[:3]])
    plural = len(constant) > 1
    what = f"{capital(columns_in_words(constant, names))} never {'change' if plural else 'changes'} (always {values})."
    unbounded = bool((bounds.low[constant] >= bounds.high[constant]).any())
    if unbounded:
        advice = "Its bounds cannot be inferred, so training is refused: leave the column out, or give action_low and"
        advice += " action_high."
    else:
        advice = "Nothing can be learned about it: leave it out if it does not control anything."
    level: Level = "error" if unbounded else "warning"
    yield Finding(level, "actions.constant", "actions", what, advice, len(constant))
