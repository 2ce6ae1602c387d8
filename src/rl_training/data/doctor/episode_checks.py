"""Rewards, returns and episodes as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rl_training.data.checks import FloatArray
from rl_training.data.doctor.far_values import far_apart
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Subject
from rl_training.data.doctor.wording import number, round_up, share
from rl_training.data.formats.raw import RawData
from rl_training.data.guess_words import is_cost, may_cost
from rl_training.wording import amount

_FEW_EPISODES = 10
_FAR_RETURN = 10.0  # interquartile ranges from the median
_MOST_OF_IT = 0.8  # of what sets a return apart, by a single reward
_SPARSE = 0.95
_HORIZON = 100  # rows that count for a value where the discount is 0.99
_ROUNDED = 1e-6  # of a number that was added to another in float32, and taken off again
_LONG_SUM, _FEWEST_SUMS = 5, 3  # rows of an episode, and such episodes, that show a running sum
_MOSTLY_MOVING = 0.3  # of the rows after which it grows


def check_reward_name(raw: RawData, rewards: FloatArray | None) -> Iterator[Finding]:
    """Rewards that by their name in the file are costs, or money that is only spent or only earned, where nobody has
    said which; none above zero may have been negated already."""
    name = raw.column_in_file("rewards", None)
    if raw.rewards_are is not None or raw.signs_told or name is None or not may_cost(name):
        return
    above = rewards is None or bool((rewards > 0).any())
    if not is_cost(name) and above and rewards is not None and (rewards < 0).any():
        return
    what = f"Rewards come from a column named {name!r}: if lower is better, the worst behaviour is learned as the best."
    advice = "If lower is better, say rewards_are: costs, and they are negated; if higher is, rewards_are: rewards."
    yield Finding("warning" if above else "note", "rewards.cost", "rewards", what, advice)


def check_early_ends(subject: Subject, *, costs: bool = False) -> Iterator[Finding]:
    """Rewards below zero, which an early end spares: worth a warning where it is cheaper than what it spares, and
    nothing shows that it is wanted. costs: at_termination is said with the other sign."""
    if subject.rewards is None or subject.terminations is None or not subject.whole_episodes:
        return
    ended = int(np.count_nonzero(subject.terminations))
    if not 0 < 2 * ended < len(subject.ends):  # where most episodes do, it probably is what they are for
        return
    at_end = float(subject.rewards[subject.terminations].mean(dtype=np.float64))
    usual = float(subject.rewards[~subject.terminations].mean(dtype=np.float64))
    to_come = _HORIZON * usual
    if usual >= 0 or at_end <= to_come:
        return
    sign = -1.0 if costs else 1.0
    told = [number(sign * value) for value in (to_come, at_end)]
    kind = "cost" if costs else "earn"
    what = f"{ended:,} of {amount(len(subject.ends), 'episode')} terminate{'s' if ended == 1 else ''}, and that is the"
    what += f" best that can happen: {_HORIZON} more steps {kind} {told[0]}, the last one {kind}s {told[1]} on average."
    wanted = at_end > usual or subject.rewards.min() == subject.rewards.max()
    advice = "Fine where the end is the goal. Where it is a failure, say what it costs besides, at_termination"
    more = f"{round_up(sign * (to_come - at_end)):g}"
    advice += "." if wanted else f": {more} at the least, on top of what you say there now (with a gamma of 0.99)."
    yield Finding("note" if wanted else "warning", "rewards.end-early", "rewards", what, advice, ended)


def _running_sum(subject: Subject, rewards: FloatArray) -> Iterator[Finding]:
    """Rewards that move away from zero all through every episode, from near it."""
    long = subject.lengths >= _LONG_SUM
    if not subject.whole_episodes or long.sum() < _FEWEST_SUMS:
        return
    sizes = np.abs(rewards.astype(np.float64))
    changes = sizes[subject.inner + 1] - sizes[subject.inner]
    grown = sizes[subject.starts] < sizes[subject.ends] / 2
    if (changes >= 0).all() and grown[long].all() and np.mean(changes > 0) > _MOSTLY_MOVING:
        what = (
            f"Rewards only grow from row to row, in all of {len(subject.ends)} episodes: they look like a running sum."
        )
        advice = "If so, write the difference from row to row in their place: what a step earned, not the score so far."
        yield Finding("warning", "rewards.running-sum", "rewards", what, advice)


def check_rewards(subject: Subject) -> Iterator[Finding]:
    """Rewards that say little."""
    rewards = subject.rewards
    assert rewards is not None
    if len(rewards) < 2:
        return
    yield from _running_sum(subject, rewards)
    least, most = float(rewards.min()), float(rewards.max())
    if least == most:
        ends_tell = subject.terminations is not None and bool(subject.terminations.any())
        what = f"Every {'cost' if subject.costs else 'reward'} is {_own(subject, least)}."
        if least != 0 and ends_tell:
            what += " Only the terminations tell good from bad."
            advice = "Fine for tasks such as balancing, where it pays to last; else see what the recorder stored."
            yield Finding("note", "rewards.constant", "rewards", what, advice)
        else:
            what += " Nothing tells good behaviour from bad."
            advice = "Only behaviour cloning can use such data; see whether the rewards were recorded at all."
            yield Finding("warning", "rewards.constant", "rewards", what, advice)
        return
    yield from check_far_rewards(subject)
    usual = float(np.median(rewards.astype(np.float64)))
    part = float((rewards == np.float32(usual)).mean())
    if part > _SPARSE:
        kind = "Costs" if subject.costs else "Rewards"
        what = f"{kind} are sparse: {share(part)} of them are {_own(subject, usual)}."
        advice = "Expect to need an algorithm and settings for sparse rewards (IQL's antmaze preset, for one)."
        yield Finding("note", "rewards.sparse", "rewards", what, advice)


def check_far_rewards(subject: Subject) -> Iterator[Finding]:
    """A few that dwarf all others, as the log has them. That of a termination may be worth what a whole episode is."""
    if subject.rewards is None:
        return
    rewards, added = subject.rewards.astype(np.float64), subject.added_at_ends
    rewards = rewards if added is None else rewards - added
    ended = np.zeros(len(rewards), dtype=np.bool_) if subject.terminations is None else subject.terminations
    apart = np.abs(rewards - np.median(rewards if ended.all() else rewards[~ended]))
    if added is not None:
        apart[apart <= _ROUNDED * np.abs(added)] = 0.0
    if subject.whole_episodes:
        apart[ended] /= subject.lengths.mean()
    far = far_apart(apart)
    if not far.size:
        return
    noun, row = "cost" if subject.costs else "reward", int(far[0])
    others = np.delete(rewards, far)
    ends = (float(others.max()), float(others.min())) if subject.costs else (float(others.min()), float(others.max()))
    least, most = (_own(subject, end) for end in ends)
    what = f"{amount(far.size, noun)} {'lies' if far.size == 1 else 'lie'} a thousand times as far out as all others,"
    what += f" such as {_own(subject, float(rewards[row]))} where the others are in [{least}, {most}]."
    advice = "Values are learned from it above all else: correct it if it is a fault; if it stands for a missing one,"
    advice += " name it in missing_words, with missing: drop."
    yield Finding("warning", "rewards.far-out", "rewards", what, advice, int(far.size), subject.place(row))


def check_episodes(subject: Subject) -> Iterator[Finding]:
    """Few episodes, odd ones, and means that depend on how one counts."""
    if not subject.whole_episodes:
        what = "The rows are a selection that has lost its episodes: returns and lengths mean nothing."
        advice = "Algorithms that need episodes cannot use it; save the whole dataset for them."
        yield Finding("note", "episodes.lost", "terminations", what, advice)
        return
    count = len(subject.ends)
    if 1 < count < _FEW_EPISODES:
        what = f"There are only {count} episodes: their mean {_noun(subject)} says little about the behaviour."
        yield Finding("note", "episodes.few", "data", what, "Judge the data by rows rather than episodes.", count)
    if subject.returns is not None and count >= _FEW_EPISODES:
        yield from _odd_returns(subject)
        yield from _by_row(subject)


def _noun(subject: Subject) -> str:
    return "cost" if subject.costs else "return"


def _own(subject: Subject, reward: float) -> str:
    """A sum of rewards in the sign of the user's file."""
    return number(float(0.0 - reward if subject.costs else reward))


def mean_by_row(subject: Subject) -> float | None:
    """Mean return of the episodes that rows belong to: an episode counts as often as it has rows."""
    returns = subject.returns
    return None if returns is None else float((returns * subject.lengths).sum() / subject.rows)


def _odd_returns(subject: Subject) -> Iterator[Finding]:
    returns = subject.returns
    assert returns is not None
    assert subject.rewards is not None
    lower, median, upper = np.percentile(returns, [25, 50, 75])
    spread = upper - lower
    if spread <= 0:
        return
    odd = np.flatnonzero(np.abs(returns - median) > _FAR_RETURN * spread)
    if 0 < odd.size <= max(1, 0.01 * len(returns)):
        noun = _noun(subject)
        what = f"{amount(odd.size, 'episode')} {f'has a {noun}' if odd.size == 1 else f'have {noun}s'} far from all"
        what += f" others, such as {_own(subject, returns[odd[0]])} where the median is {_own(subject, median)}."
        row = int(subject.starts[odd[0]])
        if (alone := _row_of_most(subject, int(odd[0]), float(returns[odd[0]] - median))) is not None:
            row, kind = alone, "cost" if subject.costs else "reward"
            what = f"{what[:-1]}; a single {kind} makes it so, {_own(subject, float(subject.rewards[row]))}."
        advice = "See whether they are real: unmarked borders and faulty rewards look like this, luck does too."
        place = subject.place(row)
        yield Finding("note", "returns.far-out", "rewards", what, advice, int(odd.size), place)


def _row_of_most(subject: Subject, episode: int, apart: float) -> int | None:
    """The row whose reward alone sets an episode's return apart from the others, so far; none where several do."""
    assert subject.rewards is not None
    start, end = int(subject.starts[episode]), int(subject.ends[episode])
    rewards = subject.rewards[start : end + 1].astype(np.float64)
    beyond = rewards - np.median(rewards)
    most = int(np.argmax(np.abs(beyond)))
    return start + most if beyond[most] / apart > _MOST_OF_IT else None


def _by_row(subject: Subject) -> Iterator[Finding]:
    returns, by_row = subject.returns, mean_by_row(subject)
    assert returns is not None
    assert by_row is not None
    by_episode = float(returns.mean())
    if abs(by_row - by_episode) > 0.5 * float(returns.std()) > 0:
        shorter = np.sort(subject.lengths)[: len(subject.lengths) // 2]
        held = float(shorter.sum() / subject.rows)
        what = (
            f"Short episodes dominate the mean {_noun(subject)}: {_own(subject, by_episode)} by episode,"
            f" but {_own(subject, by_row)} by row;"
            f" the shorter half of the episodes holds only {share(held)} of the rows."
        )
        advice = "Training draws rows, so compare a policy with the mean by row; hold out episodes, not rows."
        yield Finding("note", "returns.by-row", "rewards", what, advice)
