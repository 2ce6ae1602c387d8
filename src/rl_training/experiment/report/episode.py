"""One recorded episode: what was done in it, and what the policies would do in the same states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

import numpy as np
import torch

from rl_training.algorithms.base import Learner
from rl_training.data.column_names import names_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.diagnostics import FloatArray, spread_over_members
from rl_training.experiment.report.drawing import Drawing, Size, group, look, shortened
from rl_training.experiment.report.svg import Chart, marker, padded, to_ticks
from rl_training.experiment.report.times import Times, times_of
from rl_training.time_features import formula
from rl_training.validation import printable

_MOST_STEPS = 400  # more could not be told apart
_MOST_ACTIONS = 4
_MOST_OBSERVED = 8
_MOST_EPISODES = 4  # of different data
_TICKS = 5  # of the axis of an action, roughly
_MARKS = 6  # on each line, so that no colour is needed to tell it


@dataclass(frozen=True)
class EpisodeCheck:
    """Actions in the data's own units, of T steps and M seeds."""

    recorded: FloatArray  # [T, A]
    chosen: FloatArray  # [M, T, A], first of the seed that is taken where none is named
    names: tuple[str, ...]  # [A], for a reader
    which: str  # episode, in words
    seen: FloatArray  # [T, O]
    seen_names: tuple[str, ...]  # [O], where the data have names for them
    times: Times | None = None  # of the steps

    def chart(self, size: Size, values: Sequence[FloatArray], label: str) -> Chart:
        """Axes for these values over the steps, with the times of these where they are known."""
        names = ("step of the episode" if self.times is None else self.times.label, shortened(label))
        made = Chart(
            size, (0, max(1, len(self.recorded) - 1)), to_ticks(padded(values), _TICKS), names, None, (4, _TICKS)
        )
        if self.times is not None:
            made.x_ticks = self.times.ticks()
        return made


@torch.no_grad()
def check_episode(
    learner: Learner,
    transforms: Transforms,
    dataset: TransitionDataset,
    names: Sequence[str],
    of: str,
    noun: str = "return",
    taken: int | None = None,
) -> EpisodeCheck | None:
    """The episode whose return, or whatever its noun is, is the median one; none where there are no whole episodes.

    taken: the seed that comes first.
    """
    if not dataset.whole_episodes or not learner.active.any():
        return None
    returns = dataset.episode_returns()
    middle = int(np.argsort(returns, kind="stable")[len(returns) // 2])
    last = int(dataset.episode_ends[middle])
    first = last - int(dataset.episode_lengths()[middle]) + 1
    rows = slice(first, min(last + 1, first + _MOST_STEPS))
    unit = learner.policy.mode(spread_over_members(learner, transforms.observations(dataset.obs[rows])))
    members = sorted(np.flatnonzero(learner.active.cpu().numpy()), key=lambda one: learner.seeds[one] != taken)
    chosen = transforms.from_unit_actions(unit.cpu().numpy())[members]
    part = f", its first {_MOST_STEPS} steps" if last + 1 > rows.stop else ""
    times = times_of(dataset, rows)
    day = f" ({times.day})" if times is not None and times.day else ""
    which = f"{_episode(dataset, middle, first)} of {of}{day}, whose {noun} is the median one{part}"
    done, seen = dataset.actions[rows].astype(np.float64), dataset.obs[rows].astype(np.float64)
    seen_names = tuple(names_of(dataset, "obs", dataset.obs_dim))
    return EpisodeCheck(done, chosen.astype(np.float64), tuple(names), which, seen, seen_names, times)


def _episode(dataset: TransitionDataset, number: int, row: int) -> str:
    """As messages name it: counted from 0, and by the id that its file has, where that is known."""
    own = None if dataset.in_file is None else dataset.in_file.episode_name(row)
    return f"episode {number:,} (from 0{'' if own is None else f'; {printable(own)}'})"


def episode_figures(runs: Sequence[RunContents], checks: Sequence[EpisodeCheck | None]) -> list[Drawing]:
    """A figure of each action, with all runs that are shown on the same episode."""
    of: dict[tuple[str, bytes], list[tuple[RunContents, EpisodeCheck]]] = {}
    for run, check in zip(runs, checks, strict=True):
        if check is not None:
            of.setdefault((check.which, check.recorded.tobytes()), []).append((run, check))
    made = []
    for those in list(of.values())[:_MOST_EPISODES]:
        first = those[0][1]
        for column, name in enumerate(first.names[:_MOST_ACTIONS]):
            caption = f"<b>{escape(name)}</b> in {escape(first.which)}: what was done (dots), and what"
            caption += f" {'the policy' if len(those) == 1 else f'each of {len(those)} policies'} would do in the same"
            caption += f" states{_over_seeds([check for _, check in those])}."
            alone = those[0][0].number if len(those) == 1 else None
            made.append(Drawing(caption, partial(_action, those, column, name), alone))
    return made


def observed_figures(checks: Sequence[EpisodeCheck | None]) -> list[Drawing]:
    """What was observed in the same episodes, where it has names by which a reader can judge what is done."""
    of = {(check.which, check.recorded.tobytes()): check for check in checks if check is not None}
    made = []
    for check in list(of.values())[:_MOST_EPISODES]:
        told = [] if check.times is None else [name for name in check.seen_names if formula(name)]  # by the axis
        shown = [(column, name) for column, name in enumerate(check.seen_names) if name not in told]
        for column, name in shown[:_MOST_OBSERVED]:
            caption = f"<b>{escape(printable(name))}</b> in {escape(check.which)}, as it was recorded."
            made.append(Drawing(caption, partial(_observation, check, column, printable(name))))
    return made


def _observation(check: EpisodeCheck, column: int, name: str, size: Size) -> str:
    seen = check.seen[:, column]
    chart = check.chart(size, [seen], name)
    chart.add(f'<g class="data">{chart.dots(np.arange(len(seen)), seen)}</g>')
    return chart.svg(f"{name} over the steps of one episode")


def _over_seeds(checks: Sequence[EpisodeCheck]) -> str:
    """What lines and bands are, and of how many seeds."""
    counts = sorted({len(check.chosen) for check in checks})
    if counts == [1]:
        return " (line)"
    return f" (line: the seed that export takes, band: the span of all {' or '.join(map(str, counts))} seeds)"


def _action(those: Sequence[tuple[RunContents, EpisodeCheck]], column: int, name: str, size: Size) -> str:
    recorded = those[0][1].recorded[:, column]
    steps = np.arange(len(recorded))
    every = [recorded, *(check.chosen[..., column].ravel() for _, check in those)]
    bare = name.removeprefix("Action ")
    chart = those[0][1].chart(size, every, name if bare.isdecimal() else bare)
    chart.add(f'<g class="data">{chart.dots(steps, recorded)}</g>')
    for run, check in those:
        chosen = check.chosen[..., column]
        drawn = chart.band(steps, chosen.min(0), chosen.max(0)) if len(chosen) > 1 else ""
        _, dash, sign = look(run.number)
        first, apart = chosen[0], max(1, len(recorded) // _MARKS)  # a mean may lie where no policy ever acts
        signs = "".join(
            marker(sign, float(chart.x(step)), float(chart.y(first[step])))
            for step in range(apart * (1 + run.number % 3) // 4, len(first), apart)
        )
        chart.add(group(run.number, drawn + chart.line(steps, first, "line", dash) + signs))
    return chart.svg(f"{name} over the steps of one episode, recorded and as the policy would have it")
