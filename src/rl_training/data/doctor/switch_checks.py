"""Actions that are switched rather than set: a policy that averages them does what nobody ever did."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from rl_training.data.action_gaps import Gaps, Stages, find_gaps, find_stages
from rl_training.data.checks import FloatArray
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.wording import alike, capital, column_in_words, columns_in_words, listed, number, share
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.wording import WARNING

Names = Sequence[str | None] | None

CODE = "actions.gap"
SNAP = "transforms.snap_actions: true moves its actions to the nearer side"
_MOST_MAPPED = 1 << 20  # rows of a column directory that are looked at: it may be larger than memory


def check_stages(few: Mapping[int, Stages], names: Names) -> Iterator[Finding]:
    """Actions that are numbers of choices, together those that take the same."""
    together: dict[tuple[float, ...], list[int]] = {}
    for column, (values, _) in few.items():
        together.setdefault(tuple(values.tolist()), []).append(column)
    for stage, columns in together.items():
        yield _of_stages(stage, columns, names, slips=any(few[column][1] for column in columns))


def _of_stages(values: Sequence[float], columns: list[int], names: Names, *, slips: bool) -> Finding:
    ends = f"{number(values[0])} to {number(values[-1])}"
    shown = listed([number(value) for value in values]) if len(values) <= 5 else ends
    verb = "takes" if len(columns) == 1 else "take"
    what = f"{capital(columns_in_words(columns, names))} {verb} only {len(values)} distinct values ({shown})"
    what += " in nearly all rows" if slips else ""
    whole = all(value.is_integer() for value in values)
    what += ", which look like the numbers of choices." if whole else ", so the behaviour looks discrete."
    advice = "A continuous policy would act in between: where that means nothing, transforms.snap_actions: true moves"
    advice += " its actions to the nearest of them."
    return Finding("warning", "actions.discrete", "actions", what, advice, len(values))


def check_gaps(actions: FloatArray, gaps: Gaps, names: Names) -> Iterator[Finding]:
    """Wide ranges that no action lies in, of columns that take many values."""
    for column in dict.fromkeys(gap.column for gap in gaps):
        own = [gap for gap in gaps if gap.column == column]
        low, high = alike(own[0].low, own[0].high)
        above = share(float((actions[:, column] >= 0.5 * (own[0].low + own[0].high)).mean()))
        more = f", and {len(own) - 1} more such ranges are left out" if len(own) > 1 else ""
        what = f"{capital(column_in_words(column, names))} is hardly ever between {low} and {high} ({above} of the rows"
        what += f" lie above){more}: it is switched rather than set."
        advice = f"A policy that averages acts in between, where nobody tried what happens: {SNAP}."
        yield Finding("warning", CODE, "actions", what, advice, len(own))


def gap_notices(dataset: TransitionDataset, transforms: Transforms, names: Names, *, snapped: bool) -> list[str]:
    """What the user should know before training. snapped: it is asked that actions are moved out of gaps."""
    actions = dataset.actions if dataset.folder is None else dataset.actions[:_MOST_MAPPED]
    if snapped and not transforms.action_gaps:
        return ["transforms.snap_actions: the recorded actions leave no wide range out, so none is moved"]
    if snapped:
        told = [
            f"{column_in_words(gap.column, names)} from between {' and '.join(alike(gap.low, gap.high))}"
            for gap in transforms.action_gaps[:4]
        ]
        more = len(transforms.action_gaps) - len(told)
        return [f"actions are moved to the nearer side of what no recorded one lies in: {listed(told)}" + _more(more)]
    few = find_stages(actions)
    found = [*check_stages(few, names), *check_gaps(actions, without(find_gaps(actions), few), names)]
    return [f"{WARNING}{finding}" for finding in found]


def without(gaps: Gaps, columns: Container[int]) -> Gaps:
    """The gaps of other columns."""
    return tuple(gap for gap in gaps if gap.column not in columns)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
