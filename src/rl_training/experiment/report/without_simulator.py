"""The section on estimates without a simulator, from what `rl-training evaluate --offline` leaves in runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rl_training.data.doctor.wording import listed, number
from rl_training.experiment.offline_doubts import behind_the_cuts, mean_of
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.costs import RETURNS, Shown
from rl_training.experiment.report.numbers import as_number
from rl_training.experiment.report.tables import Cell, Row, common_of, interval, name_cell, table
from rl_training.experiment.statistics import LEVEL, Estimate

HEADING = "Without a simulator: fitted Q evaluation"


def _heads(shown: Shown) -> list[str]:
    value, gain = ("cost", "saving") if shown.costs else ("value", "improvement")
    return [
        "run",
        "at",
        "data",
        "γ",
        "policy",
        f"{value} [{LEVEL:.0%}]",
        f"{gain} [{LEVEL:.0%}]",
        "probability",
        "trust",
    ]


def without_simulator(runs: Sequence[RunContents]) -> str:
    """The newest trusted estimates of every run that has one, and all refusals; nothing where none has."""
    rows: list[Row] = []
    remarks: list[str] = []
    shown = common_of([run for run in runs if run.offline])
    for run in runs:
        rows += [(run.number, [name_cell(run), *cells]) for record in run.offline for cells in _rows(record, shown)]
        lines = [line for record in run.offline for line in [*_remarks(record, shown), *_doubted(record)]]
        remarks += [f"<b>{escape(run.label)}</b>: {escape(line)}" for line in [*lines, *_refusals(run)]]
    if not rows:
        return ""
    callouts = "".join(f'<p class="callout small">{remark}</p>' for remark in remarks)
    heads = _heads(shown)
    made = table(heads, rows, css="cards", numbers=heads[5:8], sortable=False)
    return f'{made}<p class="small">{escape(_how(shown))}</p>{callouts}'


def _how(shown: Shown) -> str:
    value = f"value, in units of the raw reward{shown.behind}"
    if shown.costs:
        value = f"{shown.named}, with the sign of the data's file (lower is better; reasons below speak of rewards,"
        value += " its negative)"
    does = "cost" if shown.costs else "returned"
    gain = "a saving" if shown.costs else "an improvement"
    return (
        f"Estimated from logged episodes alone: the discounted {value}, where these episodes begin; a time limit ends"
        f" none. “Recorded” is what the episodes {does} until they ended or were cut;"
        " “behaviour” is the data's own actions, valued by the same fits as the policies, so that common errors cancel"
        f" in the difference. [{LEVEL:.0%}]: over resamples of the episodes, each fitted anew; the probability is that"
        f" of {gain} over the behaviour. It says nothing of states that the policy would reach and the data never saw."
    )


def _rows(record: Mapping[str, Any], shown: Shown) -> list[list[Cell]]:
    step = as_number(record.get("step"), 0.0)
    at, data = Cell.number(step, f"{int(step):,}"), Cell.of(_title(record))
    discount = as_number(record.get("gamma"), None)
    on = [at, data, Cell.number(discount, None if discount is None else f"{discount:g}")]
    behaviour = _mapping(record.get("behaviour"))
    empty = Cell("–")
    found = [
        [
            *on,
            Cell.of("recorded" if "weight_behind_cuts" in behaviour else "data"),
            _estimate(behaviour.get("return"), shown),
            empty,
            empty,
            empty,
        ],
        [*on, Cell.of("behaviour"), _estimate(behaviour.get("value"), shown), empty, empty, empty],
    ]
    for policy in _policies(record):
        trust = Cell("✗, see below") if _texts(policy.get("not_trusted_because")) else Cell("✓")
        found.append([*on, Cell.of(f"seed {_seed(policy)}"), *_figures(policy, shown), trust])
    if len(_trusted(record)) > 1:
        found.append(
            [*on, Cell.of(mean_of(len(_trusted(record)), len(_policies(record)))), *_figures(record, shown), empty]
        )
    return found


def _figures(of: Mapping[str, Any], shown: Shown) -> list[Cell]:
    """Value, improvement and its probability, of a seed or of all."""
    gain = _mapping(of.get("improvement"))
    chance = as_number(gain.get("probability"), None)
    return [
        _estimate(of.get("value"), shown),
        _estimate(gain, RETURNS),  # as much less as it costs, as much more it earns
        Cell.number(chance, None if chance is None else f"{chance:.2f}"),
    ]


def _remarks(record: Mapping[str, Any], shown: Shown) -> list[str]:
    """On which data, and what to know of them."""
    data = _mapping(record.get("data"))
    episodes, repeats = _count(data, "episodes"), _count(record, "repeats")
    on = f"{episodes} episodes of {_title(record)}, {repeats} resamples of them"
    on += f", {_count(record, 'updates')} updates each, {_discounted(record)}"
    return ["; ".join([on, *_recorded(record, shown), *_texts(record.get("cautions"))]) + "."]


def _recorded(record: Mapping[str, Any], shown: Shown) -> list[str]:
    """The undiscounted return, and how much of the values no row tells, as far as the record has them."""
    behaviour = _mapping(record.get("behaviour"))
    whole, share = (as_number(behaviour.get(name), None) for name in ("undiscounted", "weight_behind_cuts"))
    does = "cost" if shown.costs else "returned"
    told = [] if whole is None else [f"an episode {does} {number(shown.number(whole))}{shown.behind} undiscounted"]
    if share is None:
        return told
    parts = [("the behaviour", behaviour.get("value"), behaviour.get("behind_the_cuts"))]
    parts += [
        (f"seed {_seed(policy)}", policy.get("value"), _mapping(policy.get("diagnostics")).get("behind_the_cuts"))
        for policy in _policies(record)
    ]
    known = [
        (name, shown.number(value), shown.number(tail))
        for name, of, after in parts
        if (value := as_number(_mapping(of).get("value"), None)) is not None
        and (tail := as_number(after, None)) is not None
    ]
    return told + behind_the_cuts(share, known)


def _doubted(record: Mapping[str, Any]) -> list[str]:
    """Every reason once, after the seeds it is about."""
    return [
        f"{_named(seeds)} {'is' if len(seeds) == 1 else 'are'} not to be trusted, because {why}."
        for why, seeds in _reasons(record).items()
    ]


def _refusals(run: RunContents) -> list[str]:
    """Of other estimates of the same weights, every reason once that was not told of those that are shown."""
    told = {(_title(record), why) for record in run.offline for why in _reasons(record)}
    lines = [
        f"refused on {_title(record)} after {_count(record, 'updates')} updates: {_named(seeds)}, because {why}."
        for record in run.refused
        for why, seeds in _reasons(record).items()
        if (_title(record), why) not in told
    ]
    return list(dict.fromkeys(lines))


def _title(record: Mapping[str, Any]) -> str:
    return str(_mapping(record.get("data")).get("title", "unknown data"))


def _count(of: Mapping[str, Any], name: str) -> str:
    count = as_number(of.get(name), None)
    return "?" if count is None else f"{int(count):,}"


def _reasons(record: Mapping[str, Any]) -> dict[str, list[str]]:
    """The seeds that each reason is about."""
    of: dict[str, list[str]] = {}
    for policy in _policies(record):
        for reason in _texts(policy.get("not_trusted_because")):
            of.setdefault(reason, []).append(_seed(policy))
    return of


def _named(seeds: Sequence[str]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {listed(seeds)}"


def _policies(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    policies = record.get("policies")
    return [_mapping(policy) for policy in policies] if isinstance(policies, list) else []


def _trusted(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [policy for policy in _policies(record) if not _texts(policy.get("not_trusted_because"))]


def _seed(policy: Mapping[str, Any]) -> str:
    return str(int(as_number(policy.get("seed"), 0.0)))


def lead(runs: Sequence[RunContents]) -> str:
    """The result of runs without scores in a sentence: the best that was estimated, or why none could be judged."""
    unscored = [run for run in runs if run.evaluations is None]
    if not unscored:
        return ""
    found = [(of, run) for run in unscored if (of := _improvement(_leading(run))) is not None]
    if not found:
        return f'<p class="lead">{_not_judged(unscored)}</p>' if len(unscored) == len(runs) else ""
    (gain, chance), best = max(found, key=lambda pair: pair[0][0].value)
    record = _leading(best)
    is_shown = gain.low is None or gain.low > 0
    text = f"Estimated from the data alone, <b>{escape(best.label)}</b> {_does(best.shown, is_shown=is_shown)}"
    text += f" {escape(interval(gain) + best.shown.behind + _from_to(record, best.shown))}"
    text += f" ({_over(record)}{_discounted(record)}, {LEVEL:.0%} interval"
    better = "a saving" if best.shown.costs else "an improvement"
    text += ")" if chance is None else f"; probability of {better} {chance:.2f})"
    text += ", the most of the runs that could be judged so" if len(found) > 1 else ""
    if _mapping(record.get("data")).get("trained_on") is True:
        text += ", on the episodes that it was trained on, which flatters it"
    return f'<p class="lead">{text}.{"" if is_shown else _alone(record)}</p>'


def _does(shown: Shown, *, is_shown: bool) -> str:
    """What the best run does beside the behaviour, as far as it is shown."""
    if shown.costs:
        better = "saves, beside the behaviour that recorded them,"
        return better if is_shown else "is not shown to cost less than the behaviour that recorded them: it saves"
    if is_shown:
        return "improves on the behaviour that recorded them by"
    return "is not shown to improve on the behaviour that recorded them: the difference is"


def _leading(run: RunContents) -> Mapping[str, Any]:
    """The newest estimate, on episodes that were not trained on if there is one."""
    others = [record for record in run.offline if _mapping(record.get("data")).get("trained_on") is not True]
    return (others or run.offline or ({},))[-1]


def _over(record: Mapping[str, Any]) -> str:
    """Of how many seeds a mean is, where some were refused."""
    trusted, count = _trusted(record), len(_policies(record))
    if not trusted or len(trusted) == count:
        return ""
    return f"seed {_seed(trusted[0])} of {count}; " if len(trusted) == 1 else f"{mean_of(len(trusted), count)}; "


def _alone(record: Mapping[str, Any]) -> str:
    """The seeds that are shown to improve although their mean is not."""
    better = [
        _seed(policy)
        for policy in _trusted(record)
        if (found := _improvement(policy)) is not None and found[0].low is not None and found[0].low > 0
    ]
    are = "is" if len(better) == 1 else "are"
    return f" Of {len(_policies(record))} seeds, {_named(better)} alone {are} shown to improve." if better else ""


def _from_to(record: Mapping[str, Any], shown: Shown) -> str:
    ends = (_mapping(record.get("behaviour")).get("value"), record.get("value"))
    before, after = (as_number(_mapping(one).get("value"), None) for one in ends)
    if before is None or after is None:
        return ""
    return f", from {'a cost of ' * shown.costs}{number(shown.number(before))} to {number(shown.number(after))}"


def _discounted(record: Mapping[str, Any]) -> str:
    discount = as_number(record.get("gamma"), None)
    return "discounted" if discount is None else f"discounted by {discount:g}"


def _improvement(record: Mapping[str, Any] | None) -> tuple[Estimate, float | None] | None:
    parts = _mapping(_mapping(record).get("improvement"))
    middle, low, high, chance = (as_number(parts.get(name), None) for name in ("value", "low", "high", "probability"))
    return None if middle is None else (Estimate(middle, low, high), chance)


def _not_judged(runs: Sequence[RunContents]) -> str:
    tried = [run for run in runs if run.offline]
    judged = tried or runs
    names = f"<b>{escape(judged[0].label)}</b>" if len(judged) == 1 else f"These {len(judged)} runs"
    why = [told for run in tried for told in _first_reasons(run, named=len(tried) > 1)] or [
        "there was no simulator to score policies in, and nothing was estimated from the data (rl-training evaluate"
        " RUN --offline)"
    ]
    text = f"{names} could not be judged: {escape('; '.join(why))}."
    if untried := [run.label for run in runs if tried and not run.offline]:
        text += f" Nothing was estimated of {escape(listed(untried))} yet (rl-training evaluate RUN --offline)."
    return text


def _first_reasons(run: RunContents, *, named: bool) -> list[str]:
    """Why the seeds of a run are not trusted: of each the first reason, named where they are not all of one run. What
    to do about it stands below."""
    first: dict[str, list[str]] = {}
    policies = _policies(_leading(run))
    for policy in policies:
        for reason in _texts(policy.get("not_trusted_because"))[:1]:
            first.setdefault(reason.partition("; ")[0], []).append(_seed(policy))
    whole = len(first) == 1 and len(next(iter(first.values()))) == len(policies)
    label = [run.label] if named else []
    whose = {why: ", ".join([*label, *([] if whole else [_named(seeds)])]) for why, seeds in first.items()}
    return [f"{who}: {why}" if who else why for why, who in whose.items()]


def _estimate(value: Any, shown: Shown) -> Cell:
    parts = _mapping(value)
    middle, low, high = (as_number(parts.get(name), None) for name in ("value", "low", "high"))
    if middle is None:
        return Cell.number(None)
    found = shown.estimate(Estimate(middle, low, high))
    return Cell.number(found.value, interval(found))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [" ".join(str(entry).split()) for entry in value] if isinstance(value, list) else []
