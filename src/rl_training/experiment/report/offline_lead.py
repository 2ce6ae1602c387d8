"""The result of runs without scores in a sentence: what was estimated without a simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from rl_training.data.doctor.wording import alike, capital, listed, number
from rl_training.experiment.costs import Shown
from rl_training.experiment.horizon import beginning_of
from rl_training.experiment.offline_doubts import mean_of
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.first_lines import Lead
from rl_training.experiment.report.not_judged import not_judged
from rl_training.experiment.report.what_next import then
from rl_training.experiment.seed_choice import SeedChoice, seed_by_estimates
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import (
    Record,
    cautions,
    count,
    discounted,
    estimate,
    gained_by_each,
    how_they_agree,
    improvement,
    is_better,
    leading,
    mapping,
    of_trust,
    policies,
    seed,
    seeds_in_words,
    share_trained_on,
    title,
    trained_otherwise,
    trusted,
)
from rl_training.experiment.stored_numbers import as_number
from rl_training.wording import likely

_MOST_SHARE = 10.0  # of the behaviour's value: beyond, it says nothing


def offline_lead(runs: Sequence[RunContents]) -> Lead | None:
    """The result of runs without scores: the best that was estimated, or why none could be judged."""
    unscored = [run for run in runs if run.evaluations is None]
    if not unscored:
        return None
    found = [(of, run) for run in unscored if (of := improvement(leading(run.offline))) is not None]
    if not found:
        return not_judged(unscored) if len(unscored) == len(runs) else None
    (gain, chance), best = max(found, key=lambda pair: pair[0][0].value)
    record = leading(best.offline)
    is_shown = is_better(record) and not best.opposed
    part = beginning_of(record)
    result = [_in_numbers(best, record, gain, part), escape(_verdict(best, record, gain)), _of_seeds(best, record)]
    alike = len({(title(leading(run.offline)), leading(run.offline).get("gamma")) for _, run in found}) == 1
    besides = [
        f"{_how_estimated(record)}{escape(_likely(chance, best))}{escape(_alone(best, record))}",
        escape(_as_recorded(record, best.shown) + _summed(best, record)),
        escape(_side_by_side(best, record)),
        _most(best, len(found), alike=alike) + _not_judged_with(unscored, [run for _, run in found]),
    ]
    result.append(_gone_on(best, record))
    trust = _trust(best, record, part, is_shown=is_shown)
    told = [line.strip() for line in besides if line.strip()]
    return Lead(" ".join(line for line in result if line), trust, then(best, record, is_shown=is_shown), told)


def _in_numbers(run: RunContents, record: Record, gain: Estimate, part: str | None) -> str:
    """`first is estimated to cost 79.8 instead of the recorded behaviour's 86.9 per episode: 7.1 less, or 8.2% (…).`"""
    shown, ends = run.shown, (record.get("value"), mapping(record.get("behaviour")).get("value"))
    after, before = (as_number(mapping(one).get("value"), None) for one in ends)
    is_more = (gain.value > 0) != shown.costs
    word = "more" if is_more else "less"
    found = (
        gain if gain.value > 0 else Estimate(-gain.value, *(None if e is None else -e for e in (gain.high, gain.low)))
    )
    known = [end for end in (found.low, found.high) if end is not None]
    changed, *interval = alike(found.value, *known)
    over = "per episode" if part is None else f"over {part} of an episode"
    how = discounted(record)
    first = "" if how == discounted({**record, "gamma": 1.0, "deterministic": True}) else f"{capital(how)}, "
    text = f"{escape(first)}<b>{escape(run.label)}</b> is estimated to {'cost' if shown.costs else 'return'} "
    behind = escape(shown.behind)
    if after is not None and before is not None:
        new, old = alike(shown.number(after), shown.number(before))
        text += f"<b>{new}</b> instead of the recorded behaviour’s <b>{old}</b>{behind} {over}: {changed} {word}"
    else:
        text += f"<b>{changed}</b>{behind} {word} {over} than the recorded behaviour"
    told = f"{LEVEL:.0%} interval {' to '.join(interval)} {word}; " if len(interval) == 2 else ""
    return f"{text}{_share(gain, record)} ({told}{table_of(run)})."


def _verdict(run: RunContents, record: Record, gain: Estimate) -> str:
    """Whether it is shown."""
    better, worse = ("saving", "cost more") if run.shown.costs else ("improvement", "return less")
    if run.opposed:
        return f"{capital(how_they_agree(record, run.opposed, better))}."
    if gain.low is None or gain.high is None:
        return ""
    if is_better(record):
        return f"The interval excludes zero: {'a' if run.shown.costs else 'an'} {better} is shown."
    if gain.high < 0:
        return f"The interval excludes zero: it would {worse}."
    return f"The interval includes zero: no {better} is shown."


def _of_seeds(run: RunContents, record: Record) -> str:
    """Which seed leaves the run, where it has several, what its own number is, and which were refused."""
    some, of = trusted(record), _seeds_of(run, record)
    if of < 2:
        return ""
    chosen = _exported(run, record)
    own = [improvement(one) for one in some if chosen is not None and seed(one) == str(chosen.seed)]
    gain = "saving" if run.shown.costs else "improvement"
    alone = [f", whose own {gain} is {_gained(found[0], run.shown)}" for found in own if len(some) > 1 and found]
    told = [] if len(some) == 1 else [f"these are the {mean_of(len(some), of)}"]
    told += [] if chosen is None else [f"`export` and `predict` take seed {chosen.seed}{''.join(alone)}"]
    refused = [seed(one) for one in policies(record) if one not in some]
    told += [f"the estimate of {escape(seeds_in_words(refused))} was refused"] if refused else []
    return f"{capital('; '.join(told))}." if told else ""


def _seeds_of(run: RunContents, record: Record) -> int:
    """How many the run has, of which some may not have been judged."""
    return max(len(policies(record)), len(run.summary.seeds))


def _exported(run: RunContents, record: Record) -> SeedChoice | None:
    return seed_by_estimates(record) if record.get("step") == run.summary.steps else None


def _most(best: RunContents, judged: int, *, alike: bool) -> str:
    if judged < 2:
        return ""
    gain = "saving" if best.shown.costs else "improvement"
    return (
        f" Of the {judged} runs that could be judged, its {gain} is the largest."
        if alike
        else (" Other runs were judged in another way, so that it is not compared with them.")
    )


def _likely(chance: float | None, run: RunContents) -> str:
    better = "a saving" if run.shown.costs else "an improvement"
    return "" if chance is None else f" The probability of {better} is {likely(chance)}."


def _summed(run: RunContents, record: Record) -> str:
    """What a discounted sum leaves out, and whether the training counted otherwise."""
    other = trained_otherwise(record, run.config)
    counted = _counted(record, run.shown)
    return f"{counted}{f' The policy was{other[1:]}.' if other else ''}"


def _how_estimated(record: Record) -> str:
    return escape(f"Estimated from {count(mapping(record.get('data')), 'episodes')} episodes of {title(record)} alone.")


def _side_by_side(run: RunContents, record: Record) -> str:
    """Every estimate of the same weights that says otherwise, beside the one that leads."""
    if not run.opposed:
        return ""
    what = "Savings" if run.shown.costs else "Improvements"
    return f"{what} per episode ({LEVEL:.0%} intervals): {gained_by_each(record, run.opposed)}."


def _not_judged_with(unscored: Sequence[RunContents], judged: Sequence[RunContents]) -> str:
    refused = [run.label for run in unscored if run.offline and run not in judged]
    return f" There is no reliable estimate of {escape(listed(refused))}." if refused else ""


def plus_ends(run: RunContents) -> str:
    """What is counted besides the columns of the data, to follow them: `, plus 4 for overrun`."""
    return "" if run.added_at_ends is None else f", plus {run.added_at_ends}"


def table_of(run: RunContents) -> str:
    """A reference to the table with the estimate that leads; its number is known when the page is made."""
    return f'<a href="#estimate-{run.number}">the table below</a>'


def _trust(run: RunContents, record: Record, part: str | None, *, is_shown: bool) -> str:
    """How far the estimate may be believed."""
    checks = "its own checks (a warning about the training stands below)" if run.warnings else "its checks"
    text = f"The estimate passed {checks}" + ("" if is_shown else ", but does not tell policy and behaviour apart")
    text = f"The estimates passed {checks.replace('its', 'their')}, but one alone is no proof" if run.opposed else text
    seen = share_trained_on(record)
    if seen is None:
        text += "; whether these episodes were trained on is not known"
    elif seen == 1.0:
        text += "; it was made on the episodes that it was trained on, which flatters it"
        unseen = [one for one in run.refused if share_trained_on(one) == 0.0]
        text += f": on {escape(title(unseen[-1]))}, not trained on, no estimate could be trusted" if unseen else ""
    elif seen:
        text += f"; about {max(seen, 0.01):.0%} of its episodes were trained on, which flatters it"
    elif is_shown:
        text += ", on episodes that were not trained on"
    short = [of_trust(caution) for caution in cautions(record)]
    words = [escape(one) for one in short if one is not None]
    text += f". {capital('; '.join(words))}" if words else ""
    text += f".{_not_told(run, record, part)}{_of_failures(run)}"
    return f"{text} Nobody has tried the policy: it is an estimate, not a measurement."


def _of_failures(run: RunContents) -> str:
    """A word on ends that cost something: the figure has their costs, and does not tell how often they come."""
    costly, episodes = run.costly_ends
    if not costly:
        return ""
    text = f" How often the policy would end by {listed(costly, 'or')} is not estimated by itself: what that costs is"
    text += " part of the figure"
    whole = as_number(run.data_facts.get("episodes"), None)
    text += "" if episodes is None or whole is None else f"; {episodes:,} of {int(whole):,} recorded episodes ended so"
    return escape(f"{text}.")


def _share(gain: Estimate, record: Record) -> str:
    """`, or 9.0%` of the behaviour's, where that is not near 0: its interval holds none."""
    behaviour = estimate(mapping(record.get("behaviour")).get("value"))
    if behaviour is None or behaviour.low is None or behaviour.high is None or not behaviour.low * behaviour.high > 0:
        return ""
    share = abs(gain.value / behaviour.value) if behaviour.value else math.inf
    return f", or {share:.{0 if share >= 0.1 else 1}%}" if share < _MOST_SHARE else ""


def _gained(gain: Estimate, shown: Shown) -> str:
    """`2.95 EUR (95% interval 0.11 to 5.79)`, in HTML."""
    if gain.low is None or gain.high is None:
        return escape(number(gain.value) + shown.behind)
    value, low, high = alike(gain.value, gain.low, gain.high)
    ends = f'<span class="piece">{low} to {high}</span>'
    return f"{escape(value + shown.behind)} ({LEVEL:.0%} interval {ends})"


def _counted(record: Record, shown: Shown) -> str:
    """How much of what was recorded a discounted sum counts, where that is a share."""
    behaviour = mapping(record.get("behaviour"))
    part, whole = (
        as_number(mapping(behaviour.get("return")).get("value"), None),
        as_number(behaviour.get("undiscounted"), None),
    )
    if record.get("gamma") == 1.0 or not part or not whole or not 0.0 < part / whole < 1.0:
        return ""
    does = "cost" if shown.costs else "returned"
    return f" The discount of {record.get('gamma'):g} counts {part / whole:.0%} of what an episode {does}."


def _not_told(run: RunContents, record: Record, part: str | None) -> str:
    """What the estimate says nothing of, and what was tried to know more."""
    told = [] if part is None else [" It does not tell which is better over whole episodes."]
    further = [one for one in run.refused if as_number(one.get("gamma"), 0.0) > as_number(record.get("gamma"), 1.0)]
    told += [f" An estimate that looks further ahead, {discounted(one)}, was refused." for one in further[-1:]]
    return escape("".join(told))


def _gone_on(run: RunContents, record: Record) -> str:
    """Of which weights the estimate is, if the run has gone on since."""
    step, now = as_number(record.get("step"), None), run.summary.steps
    if step is None or now is None or int(step) == now:
        return ""
    return f"This is the policy after {int(step):,} of {now:,} {escape(run.unit)}."


def _alone(run: RunContents, record: Record) -> str:
    """How many seeds are shown to improve by themselves, where not all are, or where their mean is not."""
    is_shown = is_better(record)
    better = [
        seed(policy)
        for policy in trusted(record)
        if (found := improvement(policy)) is not None and found[0].low is not None and found[0].low > 0
    ]
    of = len(policies(record))
    if of < 2 or len(better) == (of if is_shown else 0):
        return ""
    some = f"{len(better)} of {of} seeds ({seeds_in_words(better)})" if better else f"none of {of} seeds"
    itself, are = ("itself", "is") if len(better) < 2 else ("themselves", "are")
    return f" By {itself}, {some} {are} shown to be better."


def _as_recorded(record: Record, shown: Shown) -> str:
    """What the episodes themselves came to, and why the behaviour is said to have another value."""
    behaviour = mapping(record.get("behaviour"))
    recorded, fitted = (as_number(mapping(behaviour.get(of)).get("value"), None) for of in ("return", "value"))
    if recorded is None or fitted is None:
        return ""
    does = "cost" if shown.costs else "returned"
    whole = None if record.get("gamma") == 1.0 else as_number(behaviour.get("undiscounted"), None)
    plain, valued = (f"{number(shown.number(value))}{shown.behind}" for value in (recorded, fitted))
    text = f"The recorded episodes of {title(record)} {does} {plain} on average"
    if whole is not None:
        text += f" ({number(shown.number(whole))}{shown.behind} undiscounted)"
    return f"{text}; the same method puts the behaviour at {valued}." if plain != valued else f"{text}."
