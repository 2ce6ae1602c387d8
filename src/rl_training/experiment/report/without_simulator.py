"""The section on estimates without a simulator, from what `rl-training evaluate --offline` leaves in runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from itertools import combinations
from typing import Any

from rl_training.data.doctor.wording import capital, listed, number
from rl_training.experiment.costs import RETURNS, Shown
from rl_training.experiment.offline_doubts import behind_the_cuts, mean_of, with_last_rows
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.drawing import Drawing, fold, grid
from rl_training.experiment.report.figures import forest
from rl_training.experiment.report.saying import said
from rl_training.experiment.report.tables import Cell, Row, common_of, name_cell, table
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import (
    Record,
    cautions,
    contradicted,
    count,
    data_key,
    discounted,
    estimate,
    gain_between,
    improvement,
    is_better,
    leading,
    mapping,
    policies,
    reasons,
    seed,
    seeds_in_words,
    share_trained_on,
    title,
    trained_otherwise,
    trusted,
)
from rl_training.experiment.stored_numbers import as_number
from rl_training.wording import likely

HEADING = "Without a simulator: fitted Q evaluation"
_EMPTY = Cell("–")
_MOST_DRAWN = 12
_Estimated = tuple[RunContents, Record]
_Why = tuple[str, str]  # what is not trusted, and why not


def without_simulator(runs: Sequence[RunContents]) -> str:
    """The newest trusted estimates of every run that has one, and all refusals; nothing where none has.

    Estimates on the same episodes in the same way share a table, in which the behaviour stands once.
    """
    found = [(run, record) for run in runs for record in run.offline]
    found.sort(key=lambda one: one[1].get("gamma") != 1.0)  # whole episodes first: what a person thinks in
    if not found:
        return ""
    shown = common_of([run for run, _ in found])
    together: dict[str, list[_Estimated]] = {}
    for run, record in found:
        together.setdefault(_conditions(record), []).append((run, record))
    alike: dict[str, list[_Estimated]] = {}
    for run, record in found:
        alike.setdefault(f"{title(record)}, {discounted(record)}", []).append((run, record))
    drawn = [rows for those in alike.values() if (rows := _drawn_rows(those))]
    made = "".join(_drawn(*rows, shown, of=len(drawn)) for rows in drawn)  # first: on a phone a table is many screens
    made += "".join(_table(those, shown) for those in together.values())
    told = [[text for record in run.offline for text in cautions(record)] + [contradicted(run.refused)] for run in runs]
    lines = [[f"{text}." for text in texts if text] for texts in told]
    doubted = [
        (f"{run.label}, {seeds_in_words(seeds)}{_where(record, len(together))}", why)
        for run, record in found
        for why, seeds in reasons(record).items()
    ]
    how = escape(_how(shown, [record for _, record in found]))
    text = f'{made}{_between(found, shown)}<p class="small">{how}</p>{said(runs, lines)}'
    if doubted:
        text += fold(f"Why estimates are not to be trusted ({len(doubted)})", _because("Not to be trusted", doubted))
    refused = [one for run in runs for one in _refusals(run)]
    if refused:
        heading = f"Other estimates of these weights that were refused ({len(refused)})"
        text += f"<details><summary>{heading}</summary>{_because('Refused', refused)}</details>"
    return text


def _between(found: Sequence[_Estimated], shown: Shown) -> str:
    """One run against another, where the same resamples tell of both, the better first."""
    gain = f"saving{_in(shown)}" if shown.costs else "improvement"
    several = len({record.get("gamma") for _, record in found}) > 1
    heads = ["policy", "against", *["sums"] * several, f"{gain} [{LEVEL:.0%}]", "probability"]
    rows: list[Row] = []
    neither: list[str] = []
    for (run, record), (other, against) in combinations(found, 2):
        if run is other or (between := gain_between(record, against)) is None:
            continue
        if between[0].value < 0.0 and (turned := gain_between(against, record)) is not None:
            run, other, between = other, run, turned
        value, chance = between
        if value.low is not None and value.low > 0.0 and not (is_better(record) or is_better(against)):
            neither.append(f"{run.label} and {other.label}")
        cells = [Cell.interval(value), Cell.number(chance, f"{chance:.2f}")]
        rows.append((run.number, [name_cell(run), name_cell(other), *[Cell.of(discounted(record))] * several, *cells]))
    caption = escape("One run against another, means over the trusted seeds, by the same resamples of the episodes.")
    made = table(heads, rows, css="cards", numbers=heads[-2:], sortable=False, caption=caption) if rows else ""
    told = "is shown to be better than the behaviour; being better than the other makes neither worth taking."
    return made + "".join(f'<p class="small">Of {escape(names)}, neither {told}</p>' for names in neither)


def _conditions(record: Record) -> str:
    """The same for estimates that can be held to each other."""
    names = ("data", "gamma", "updates", "repeats", "behaviour")
    return json.dumps([record.get(name) for name in names], default=str, sort_keys=True)


def _table(those: Sequence[_Estimated], shown: Shown) -> str:
    """Estimates under the same conditions, which its caption names."""
    value, gain = (f"cost{_in(shown)}", f"saving{_in(shown)}") if shown.costs else ("value", "improvement")
    heads = ["policy", "seed", "at update", f"{value} [{LEVEL:.0%}]", f"{gain} [{LEVEL:.0%}]", "probability", "checks"]
    first = those[0][1]
    behaviour = mapping(first.get("behaviour"))
    recorded = "recorded" if "weight_behind_cuts" in behaviour else "data"
    rows: list[Row] = [
        (None, [Cell.of(name), _EMPTY, _EMPTY, _cell(behaviour.get(key), shown), _EMPTY, _EMPTY, _EMPTY])
        for name, key in ((recorded, "return"), ("behaviour", "value"))
    ]
    for run, record in those:
        rows += [(run.number, cells) for cells in _of_run(run, record, shown)]
    made = "".join(
        f'<span id="estimate-{run.number}"></span>' for run, record in those if record is leading(run.offline)
    )
    caption = _caption(first, shown)
    made += table(heads, rows, css="cards estimates", numbers=heads[2:6], sortable=False, caption=caption)
    lines = [*_behind(those, shown), *dict.fromkeys(line for run, record in those for line in _beside(run, record))]
    return made + "".join(f'<p class="small">{escape(capital(line))}.</p>' for line in lines)


def _beside(run: RunContents, record: Record) -> Iterator[str]:
    """With which discount it was trained, where that is another, and how often it was judged on the same episodes."""
    if other := trained_otherwise(record, run.config):
        yield f"judged {discounted(record)}{other}"
    steps = [int(one["step"]) for one in run.earlier if data_key(one) == data_key(record)]
    if steps:
        at = listed([f"{step:,}" for step in sorted(set(steps))])
        times = "once" if len(steps) == 1 else f"{len(steps)} times"
        more = "more" if run.as_asked else "before"
        yield (
            f"on these episodes, {run.label} was judged {times} {more}, after {at} {run.unit}: to choose the best of"
            " several estimates flatters it"
        )


def _drawn_rows(those: Sequence[_Estimated]) -> tuple[Record, Sequence[tuple[str, Estimate, int]]] | None:
    """Improvements of the trusted seeds over the behaviour; of very many, their means alone, and nothing of one."""
    rows = [(name, found, run.number, whole) for run, record in those for name, found, whole in _gains(run, record)]
    if len(rows) > _MOST_DRAWN:
        rows = [row for row in rows if row[3]][:_MOST_DRAWN]
    return (those[0][1], [(name, found, run) for name, found, run, _ in rows]) if len(rows) > 1 else None


def _drawn(record: Record, bars: Sequence[tuple[str, Estimate, int]], shown: Shown, *, of: int) -> str:
    over, gain = ("Saving against", "saving") if shown.costs else ("Improvement over", "improvement")
    where = f"{title(record)}, {discounted(record)}"
    caption = f"<b>{over} the behaviour</b> on {escape(where)}, with {LEVEL:.0%} intervals over resamples"
    caption += f" of the episodes: where one holds 0, the dashed line, no {gain} is shown."
    caption += " Each of these figures has a scale of its own." if of > 1 else ""
    label = f"{gain}{_in(shown)}, {discounted(record)} (higher is better)"
    return grid([Drawing(caption, lambda size: forest(bars, label, size[0], middle=0.0))])


def _gains(run: RunContents, record: Record) -> Iterator[tuple[str, Estimate, bool]]:
    """Of each trusted seed, and of all; whether it is all there is to say of the run."""
    sound = trusted(record)
    for one in sound:
        if (found := improvement(one)) is not None:
            yield f"{run.label}, seed {seed(one)}", found[0], len(sound) == 1
    if len(sound) > 1 and (found := improvement(record)) is not None:
        yield f"{run.label}, {mean_of(len(sound), len(policies(record)))}", found[0], True


def _caption(record: Record, shown: Shown) -> str:
    """On which episodes, how, and what these came to."""
    data, behaviour = mapping(record.get("data")), mapping(record.get("behaviour"))
    text = f"{count(data, 'episodes')} episodes of {title(record)}, {count(record, 'repeats')} resamples of them,"
    text += f" {count(record, 'updates')} updates each, {discounted(record)}"
    text += ", on which these policies were trained, which flatters them" if share_trained_on(record) == 1.0 else ""
    whole = None if record.get("gamma") == 1.0 else as_number(behaviour.get("undiscounted"), None)
    does = "cost" if shown.costs else "returned"
    if whole is not None:
        text += f"; an episode {does} {number(shown.number(whole))}{shown.behind} undiscounted"
        text += with_last_rows(as_number(behaviour.get("last_rows_in_no_value"), 0.0))
    return escape(f"{text}.")


def _in(shown: Shown) -> str:
    return "" if shown.counted_in is None else f", {shown.counted_in}"


def _of_run(run: RunContents, record: Record, shown: Shown) -> list[list[Cell]]:
    """A row for each seed that is trusted, one for all others and, of several that are trusted, their mean."""
    step = as_number(record.get("step"), 0.0)
    at = Cell.number(step, f"{int(step):,}")
    sound = trusted(record)
    gains = [gain for one in (record, *sound) if (gain := estimate(one.get("improvement"))) is not None]
    beside = [end for one in gains for end in (one.value, one.low, one.high) if end is not None]
    found = [
        [name_cell(run), Cell.of(seed(one)), at, *_figures(one, shown, beside), Cell.of("✓ passed")] for one in sound
    ]
    if refused := [seed(policy) for policy in policies(record) if policy not in sound]:
        found.append([name_cell(run), Cell.of(", ".join(refused)), at, *[_EMPTY] * 3, Cell.of("✗ not trusted")])
    if len(sound) > 1:
        mean = mean_of(len(sound), len(policies(record)))
        found.append([name_cell(run), Cell.of(mean), at, *_figures(record, shown, beside), _EMPTY])
    return found


def _figures(of: Record, shown: Shown, beside: Sequence[float]) -> list[Cell]:
    """Value, improvement (with the digits of those beside it) and its probability, of a seed or of all."""
    _, chance = improvement(of) or (None, None)
    gain = _cell(of.get("improvement"), RETURNS, beside)  # as much less as it costs, as much more it earns
    return [_cell(of.get("value"), shown), gain, Cell.number(chance, None if chance is None else likely(chance))]


def _cell(value: Any, shown: Shown, beside: Sequence[float] = ()) -> Cell:
    if (found := estimate(value)) is None:
        return _EMPTY
    found = shown.estimate(found)
    return Cell.interval(found, beside)


def _how(shown: Shown, records: Sequence[Record]) -> str:
    whole = [record.get("gamma") == 1.0 for record in records]
    summed = (
        "undiscounted"
        if all(whole)
        else "discounted (or, where it says so, undiscounted)"
        if any(whole)
        else "discounted"
    )
    value = "value, in units of the raw reward"
    if shown.costs:
        value = f"{shown.named}, with the sign of the data's file (lower is better; reasons below speak of rewards,"
        value += " its negative)"
    does = "cost" if shown.costs else "returned"
    gain = "a saving" if shown.costs else "an improvement"
    behind = [mapping(record.get("behaviour")).get("weight_behind_cuts") for record in records]
    cut = any(as_number(share, 1.0) > 0.0 for share in behind)  # or not told
    return (
        f"Estimated from logged episodes alone: the {summed} {value}, where these episodes begin"
        f"{', and on behind where one was cut' if cut else ''}. “Recorded” is what the episodes {does}"
        f"{' until they ended or were cut' if cut else ''}; “behaviour” is the recorded"
        " actions, judged in the same way as the policies, so that common errors cancel in the difference."
        f" [{LEVEL:.0%}]: over resamples of the episodes, each fitted anew; probability: of {gain} over the behaviour."
        " Checks say whether an estimate can be trusted, not whether the policy is good. They know nothing of states"
        " that the policy would reach and the data do not show."
    )


def _behind(those: Sequence[_Estimated], shown: Shown) -> list[str]:
    """How much of the values no row tells, as far as the records have it."""
    behaviour = mapping(those[0][1].get("behaviour"))
    share = as_number(behaviour.get("weight_behind_cuts"), None)
    if share is None:
        return []
    parts = [("the behaviour", behaviour.get("value"), behaviour.get("behind_the_cuts"))]
    for run, record in those:
        of = f"{run.label}, " if len(those) > 1 else ""
        for policy in policies(record):
            tail = mapping(policy.get("diagnostics")).get("behind_the_cuts")
            parts.append((f"{of}seed {seed(policy)}", policy.get("value"), tail))
    known = [
        (name, shown.number(value), shown.number(tail))
        for name, whole, after in parts
        if (value := as_number(mapping(whole).get("value"), None)) is not None
        and (tail := as_number(after, None)) is not None
    ]
    return behind_the_cuts(share, known)


def _where(record: Record, tables: int) -> str:
    return f", on {title(record)}" if tables > 1 else ""


def _because(heading: str, found: Sequence[_Why]) -> str:
    """Every reason with what it is about; what follows from several stands once, below them."""
    of: dict[str, dict[str, list[str]]] = {}
    for who, why in found:
        reason, _, rest = why.partition("; ")
        of.setdefault(rest, {}).setdefault(reason, []).append(f"<b>{escape(who)}</b>")
    parts = []
    for rest, those in of.items():
        entries = "".join(f"<li>{'; '.join(names)}: {escape(reason)}</li>" for reason, names in those.items())
        then = f"<p>{escape(capital(rest))}.</p>" if rest else ""
        parts.append(f'<div class="callout small"><p>{heading}, because</p><ul>{entries}</ul>{then}</div>')
    return "".join(parts)


def _what(record: Record) -> str:
    return f"{title(record)}, {discounted(record)}, after {count(record, 'updates')} updates"


def _refusals(run: RunContents) -> list[_Why]:
    """Of other estimates of the same weights, every reason once that was not told of those that are shown."""
    told = {(title(record), why) for record in run.offline for why in reasons(record)}
    lines = [
        (f"{run.label}, {seeds_in_words(seeds)}, on {_what(record)}", why)
        for record in run.refused
        for why, seeds in reasons(record).items()
        if (title(record), why) not in told
    ]
    return list(dict.fromkeys(lines))
