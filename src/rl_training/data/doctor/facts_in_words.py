"""The facts as lines of a label and a sentence, for every form of the report."""

from __future__ import annotations

from rl_training.data.doctor.findings import Distribution, Facts
from rl_training.data.doctor.wording import number, share
from rl_training.data.fields import FIELD_OF
from rl_training.data.formats.names import listed, split_number
from rl_training.wording import amount


def fact_lines(facts: Facts, brief: bool = False) -> list[tuple[str, str]]:
    """Label and text of what is known; `brief` leaves out what takes statistics to understand."""
    facts = facts.in_own_sign()
    step, episode = ("step cost", "episode cost") if facts.costs else ("rewards", "returns")
    lines = [
        ("format", facts.format),
        ("made from", facts.made_from or ""),
        ("environment", facts.env_id or ""),
        ("rows", _rows(facts)),
    ]
    lines += [("episodes", _episodes(facts)), ("observations", _observations(facts, brief))]
    lines += [("actions", _actions(facts, brief)), (step, _rewards(facts)), (episode, _returns(facts))]
    lines += [("score", _score(facts)), ("lengths", _lengths(facts))]
    if not brief:
        lines.append(("behaviour", _behaviour(facts)))
    return [(label, text) for label, text in lines if text]


def _rows(facts: Facts) -> str:
    if facts.usable is None:
        return f"{facts.rows:,}"
    if facts.usable == facts.rows:
        return f"{facts.rows:,}, all of which can be trained on"
    return f"{facts.rows:,}, of which {facts.usable:,} can be trained on (the others have no known successor)"


def _episodes(facts: Facts) -> str:
    if facts.episodes is None:
        return ""
    if facts.terminated is None and facts.truncated is None:
        return f"{facts.episodes:,}"
    counts = {"terminated": facts.terminated or 0, "truncated": facts.truncated or 0}
    ends = [f"{'all' if count == facts.episodes > 1 else f'{count:,}'} {how}" for how, count in counts.items() if count]
    open_ends = facts.episodes - sum(counts.values())
    if open_ends > 0:
        ends.append(f"{open_ends:,} without a flag")
    return f"1, {ends[0].removeprefix('1 ')}" if facts.episodes == 1 else f"{facts.episodes:,}: {', '.join(ends)}"


def _observations(facts: Facts, brief: bool) -> str:
    if facts.obs_dim is None:
        return ""
    text = amount(facts.obs_dim, "column") + _named(facts.obs_names)
    if facts.obs_effective_dim is not None and facts.obs_dim > 1 and not brief:
        text += f", which vary in about {facts.obs_effective_dim:.1f} independent directions"
    where = {"stored": "next_obs is stored", "derived": "next_obs is taken from the next row"}
    return f"{text}; {where[facts.successors]}" if facts.successors else text


def _actions(facts: Facts, brief: bool) -> str:
    if facts.act_dim is None:
        return ""
    text = amount(facts.act_dim, "column") + _named(facts.action_names)
    if facts.action_low is not None and facts.action_high is not None:
        text += f"; bounds {_interval(facts.action_low, facts.action_high)} ({facts.bounds_from})"
    if facts.action_range_visited and not brief:
        least, most = min(facts.action_range_visited), max(facts.action_range_visited)
        span = share(least) if share(least) == share(most) else f"{share(least)} to {share(most)}"
        text += f", of which {span} {'is' if facts.act_dim == 1 else 'are'} visited"
    return text


def _named(names: tuple[str, ...] | None) -> str:
    """The names, but for those that only repeat the field's."""
    own = all(split_number(name.strip().lower())[0] in FIELD_OF for name in names or ())
    return "" if own or not names else f" ({listed(names)})"


def _interval(low: tuple[float, ...], high: tuple[float, ...]) -> str:
    pairs = [f"[{number(least)}, {number(most)}]" for least, most in zip(low, high, strict=True)]
    if len(set(pairs)) == 1:
        return pairs[0]
    return ", ".join(pairs) if len(pairs) <= 3 else f"from {pairs[0]} to {pairs[-1]}, differing by column"


def _rewards(facts: Facts) -> str:
    if facts.rewards is None:
        return ""
    least, mean, most = map(number, facts.rewards)
    if facts.rewards[0] == facts.rewards[2]:
        return f"always {least}"
    return f"from {least} to {most}, mean {mean}"


def _spread(values: Distribution) -> str:
    if values.min == values.max:
        return number(values.min) + (" in every episode" if sum(values.counts) > 1 else "")
    return f"mean {number(values.mean)} ± {number(values.std)}, from {number(values.min)} to {number(values.max)}"


def _returns(facts: Facts) -> str:
    if facts.returns is None:
        return ""
    text = _spread(facts.returns)
    if facts.return_by_row is not None and number(facts.return_by_row) != number(facts.returns.mean):
        text += f"; mean by row {number(facts.return_by_row)} (an episode counts as often as it has rows)"
    return text


def _score(facts: Facts) -> str:
    if facts.score_by_episode is None or facts.score_by_row is None:
        return ""
    scores = f"{facts.score_by_episode:.1f} by episode, {facts.score_by_row:.1f} by row"
    return f"{scores} (D4RL's scale: 0 is random, 100 an expert)"


def _lengths(facts: Facts) -> str:
    if facts.lengths is None:
        return ""
    if facts.lengths.min == facts.lengths.max:
        each = " in every episode" if sum(facts.lengths.counts) > 1 else ""
        return f"{amount(int(facts.lengths.min), 'row')}{each}"
    return f"{_spread(facts.lengths)} rows"


def _behaviour(facts: Facts) -> str:
    if facts.action_spread is None:
        return ""
    return (
        f"in neighbouring states actions vary by {share(facts.action_spread)} of their whole variance"
        " (0%: the state decides, 100%: chance)"
    )
