"""The result of runs without scores in a sentence: what was estimated without a simulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rl_training.data.doctor.wording import alike, capital, listed, number
from rl_training.experiment.costs import Shown
from rl_training.experiment.horizon import beginning_of
from rl_training.experiment.offline_doubts import mean_of
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.reproducing import options_of
from rl_training.experiment.report.what_next import then
from rl_training.experiment.seed_choice import SeedChoice, seed_by_estimates
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import (
    Record,
    cautions,
    contradicted,
    count,
    disagreement,
    discounted,
    estimate,
    improvement,
    is_better,
    leading,
    mapping,
    of_trust,
    policies,
    reasons,
    seed,
    seeds_in_words,
    share_trained_on,
    texts,
    title,
    trained_otherwise,
    trusted,
)
from rl_training.experiment.stored_numbers import as_number
from rl_training.wording import amount, likely

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_UPDATES = re.compile(r"(--updates \d+(?: --repeats \d+)?)")
_BEHAVIOUR = "the behaviour that recorded the data"


class Lead(NamedTuple):
    """What is said first of runs, each in HTML; empty where there is nothing to say."""

    result: str
    trust: str = ""
    then: str = ""
    besides: str = ""  # to the result: how it came about


def offline_lead(runs: Sequence[RunContents]) -> Lead | None:
    """The result of runs without scores: the best that was estimated, or why none could be judged."""
    unscored = [run for run in runs if run.evaluations is None]
    if not unscored:
        return None
    found = [(of, run) for run in unscored if (of := improvement(leading(run.offline))) is not None]
    if not found:
        return _not_judged(unscored) if len(unscored) == len(runs) else None
    (gain, chance), best = max(found, key=lambda pair: pair[0][0].value)
    record = leading(best.offline)
    others = _not_judged_with(unscored, [run for _, run in found])
    if best.opposed:
        return _disputed(best, record, others)
    is_shown = is_better(record)
    text = f"{_from_data_alone(record)}, <b>{escape(best.label)}</b> {_does(best.shown, is_shown=is_shown)}"
    part = beginning_of(record)
    text += f" {_gained(gain, best.shown)} {'an episode' if part is None else f'over {part} of an episode'}"
    text += f" compared with {_BEHAVIOUR}" if best.shown.costs and is_shown else ""
    text += f"{_share(gain, record)}{escape(_from_to(record, best.shown))} ({table_of(best)}){_of_seeds(best, record)}."
    alike = len({(title(leading(run.offline)), leading(run.offline).get("gamma")) for _, run in found}) == 1
    how = _whose(best, record) + escape(_alone(record, is_shown=is_shown))
    how += _most(best, len(found), alike=alike) + escape(_likely(chance, record, best))
    how += escape(_as_recorded(record, best.shown)) + _gone_on(best, record) + others
    return Lead(text, _trust(best, record, part, is_shown=is_shown), then(best, record, is_shown=is_shown), how.strip())


def _of_seeds(run: RunContents, record: Record) -> str:
    """Of which seeds the number is, where the run has several, and what that of the one is which leaves it."""
    some, of = trusted(record), _seeds_of(run, record)
    if of < 2 or len(some) == 1:
        return "" if of < 2 else f", of seed {seed(some[0])} of {of}"
    chosen = _exported(run, record)
    own = [improvement(one) for one in some if chosen is not None and seed(one) == str(chosen.seed)]
    alone = [f"; the exported seed {chosen.seed}: {_gained(found[0], run.shown)}" for found in own if chosen and found]
    return f", the {mean_of(len(some), of)}{''.join(alone)}"


def _seeds_of(run: RunContents, record: Record) -> int:
    """How many the run has, of which some may not have been judged."""
    return max(len(policies(record)), len(run.summary.seeds))


def _exported(run: RunContents, record: Record) -> SeedChoice | None:
    return seed_by_estimates(record) if record.get("step") == run.summary.steps else None


def _whose(run: RunContents, record: Record) -> str:
    """Of which seeds the number is not, and which leaves the run, where it has several."""
    refused = [f"seed {seed(one)}" for one in policies(record) if one not in trusted(record)]
    told = [f"what was estimated of {listed(refused)} was refused"] if refused else []
    chosen = _exported(run, record) if _seeds_of(run, record) > 1 else None
    if chosen is not None:
        why = "" if chosen.why is None or chosen.best_of < 2 else f" ({chosen.why.partition(', that of')[0]})"
        told.append(f"`export` and `predict` take seed {chosen.seed}{why}")
    return f" {escape(capital('; '.join(told)))}." if told else ""


def _most(best: RunContents, judged: int, *, alike: bool) -> str:
    if judged < 2:
        return ""
    gain = "saving" if best.shown.costs else "improvement"
    return (
        f" Of the {judged} runs that could be judged, its {gain} is the largest."
        if alike
        else (" Other runs were judged in another way, so that it is not compared with them.")
    )


def _likely(chance: float | None, record: Record, run: RunContents) -> str:
    """How probable it is, and with which discount that is said."""
    better = "a saving" if run.shown.costs else "an improvement"
    text = "" if chance is None else f" The probability of {better} is {likely(chance)}."
    return f"{text} Sums are {discounted(record)}{_counted(record, run.shown)}{trained_otherwise(record, run.config)}."


def _from_data_alone(record: Record) -> str:
    return escape(f"Estimated from {count(mapping(record.get('data')), 'episodes')} episodes of {title(record)} alone")


def _not_judged_with(unscored: Sequence[RunContents], judged: Sequence[RunContents]) -> str:
    refused = [run.label for run in unscored if run.offline and run not in judged]
    return f" What was estimated of {escape(listed(refused))} is not to be trusted." if refused else ""


def _disputed(run: RunContents, record: Record, others: str) -> Lead:
    """Where trusted estimates of the same weights on the same episodes say different things, none of them leads."""
    gain = "saves anything against" if run.shown.costs else "improves on"
    text = f"{_from_data_alone(record)}, it is not decided whether <b>{escape(run.label)}</b> {gain} {_BEHAVIOUR}: "
    text += escape(f"{disagreement(record, run.opposed)} ({_what_is_gained(run.shown)}, {LEVEL:.0%} intervals)")
    text += f".{_gone_on(run, record)}{others}"
    trust = "Each passed its checks, but what only some of them show is not shown."
    trust += f"{_of_failures(run)} Nobody has tried the policy: these are estimates, not measurements."
    return Lead(text, trust, then(run, record, is_shown=False))


def plus_ends(run: RunContents) -> str:
    """What is counted besides the columns of the data, to follow them: `, plus 4 for overrun`."""
    return "" if run.added_at_ends is None else f", plus {run.added_at_ends}"


def table_of(run: RunContents) -> str:
    """A reference to the table with the estimate that leads; its number is known when the page is made."""
    return f'<a href="#estimate-{run.number}">the table below</a>'


def _what_is_gained(shown: Shown) -> str:
    return f"{'saving' if shown.costs else 'improvement'} an episode{f', {shown.unit}' if shown.unit else ''}"


def _trust(run: RunContents, record: Record, part: str | None, *, is_shown: bool) -> str:
    """How far the estimate may be believed."""
    checks = "its own checks (a warning about the training stands below)" if run.warnings else "its checks"
    text = f"The estimate passed {checks}" + ("" if is_shown else ", but the data do not tell the two apart")
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
    words += [f"{amount(short.count(None), 'note')} below"] if None in short else []
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


def _does(shown: Shown, *, is_shown: bool) -> str:
    """What the best run does beside the behaviour, as far as it is shown."""
    if shown.costs:
        return "saves" if is_shown else f"is not shown to cost less than {_BEHAVIOUR}: the saving is"
    if is_shown:
        return f"improves on {_BEHAVIOUR} by"
    return f"is not shown to improve on {_BEHAVIOUR}: the difference is"


def _share(gain: Estimate, record: Record) -> str:
    """`, or 9.0%` of the behaviour's, where neither is near 0: their intervals hold none."""
    if gain.low is None or gain.high is None or not gain.low * gain.high > 0:
        return ""
    behaviour = estimate(mapping(record.get("behaviour")).get("value"))
    if behaviour is None or behaviour.low is None or behaviour.high is None or not behaviour.low * behaviour.high > 0:
        return ""
    return f", or {gain.value / abs(behaviour.value):.1%}" if behaviour.value else ""


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
    return f", which counts {part / whole:.0%} of what the recorded episodes {'cost' if shown.costs else 'returned'}"


def _not_told(run: RunContents, record: Record, part: str | None) -> str:
    """What the estimate says nothing of, and what was tried to know more."""
    told = [] if part is None else [" Which is better over whole episodes it does not tell."]
    further = [one for one in run.refused if as_number(one.get("gamma"), 0.0) > as_number(record.get("gamma"), 1.0)]
    told += [f" One that looks further ahead, {discounted(one)}, was refused." for one in further[-1:]]
    return escape("".join(told))


def _gone_on(run: RunContents, record: Record) -> str:
    """Of which weights the estimate is, if the run has gone on since."""
    step, now = as_number(record.get("step"), None), run.summary.steps
    if step is None or now is None or int(step) == now:
        return ""
    return f" It is of the policy after {int(step):,} of the {now:,} {escape(run.unit)} that were trained by now."


def _alone(record: Record, *, is_shown: bool) -> str:
    """How many seeds are shown to improve by themselves, where not all are, or where their mean is not."""
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
    first = "" if whole is None else f"{number(shown.number(whole))}{shown.behind} each, undiscounted, and "
    text = f" As recorded, the episodes of {title(record)} {does} {first}{plain}{' each' * (whole is None)}"
    text += "" if record.get("gamma") == 1.0 else ", discounted alike"
    other = f"; {valued} is what the fits that judge the policy say of the same behaviour"
    return f"{text}{other if plain != valued else ''}."


def _from_to(record: Record, shown: Shown) -> str:
    ends = (mapping(record.get("behaviour")).get("value"), record.get("value"))
    before, after = (as_number(mapping(one).get("value"), None) for one in ends)
    if before is None or after is None:
        return ""
    return f", from {'a cost of ' * shown.costs}{number(shown.number(before))} to {number(shown.number(after))}"


def _not_judged(runs: Sequence[RunContents]) -> Lead:
    tried = [run for run in runs if run.offline]
    judged = tried or runs
    names = f"<b>{escape(judged[0].label)}</b>" if len(judged) == 1 else f"These {len(judged)} runs"
    name = escape(judged[0].in_command) if len(judged) == 1 else "RUN"
    it, were, them = ("it is", "it was", "it") if len(judged) == 1 else ("they are", "they were", "each")
    played = all(run.summary.env_id is not None for run in judged)
    untold = f"{were} not played yet" if played else "there was no simulator to score policies in, and nothing was"
    untold += "" if played else " estimated from the data"
    why = [told for run in tried for told in _first_reasons(run, named=len(tried) > 1)] or [untold]
    why += [told for run in tried if (told := contradicted(run.refused))]
    text = f"{names} could not be judged: {escape('; '.join(why))}."
    if untried := [run.label for run in runs if tried and not run.offline]:
        text += f" Nothing was estimated of {escape(listed(untried))} yet (rl-training evaluate RUN --offline)."
    if tried:
        asked = list(dict.fromkeys(one for run in tried for one in _asked_by_reasons(run)))
        then = capital("; or ".join(asked)) + "." if len(tried) == 1 and asked else "What each reason asks for, below."
        return Lead(text, f"How good {it}, is not known: no number here tells.", escape(then))
    then = f"`rl-training evaluate {name}{'' if played else ' --offline'}`"
    then += f" plays {them}." if played else f" estimates {them} from the recorded data."
    return Lead(text, f"How good {it}, is not known.", then)


def _asked_by_reasons(run: RunContents) -> list[str]:
    """What the reasons against an estimate ask for, with the command, where they name options of it."""
    record = leading(run.offline)
    told = [why.partition("; ")[2] for why in reasons(record)]
    asked = [one.rpartition("further; ")[2] for one in told if one]
    return [_UPDATES.sub(lambda found: f"`{_with(run, record, found[1])}`", one, count=1) for one in asked]


def _with(run: RunContents, record: Record, options: str) -> str:
    """The command of an estimate with other options in the place of its own of these names."""
    own = {**record, "asked": {}, **({"repeats": None} if "--repeats" in options else {})}
    return f"rl-training evaluate {run.in_command} --offline{options_of(run, own)} {options}"


def _first_reasons(run: RunContents, *, named: bool) -> list[str]:
    """Why the seeds of a run are not trusted: of each the first reason, named where they are not all of one run. What
    to do about it stands below."""
    first: dict[str, list[str]] = {}
    judged = policies(leading(run.offline))
    told = [(texts(policy.get("not_trusted_because"))[:1], seed(policy)) for policy in judged]
    of_seed = {own: why[0].partition("; ")[0] for why, own in told if why}
    for own, reason in of_seed.items():
        first.setdefault(_of_all(reason, list(of_seed.values())), []).append(own)
    whole = len(first) == 1 and len(next(iter(first.values()))) == len(judged)
    label = [run.label] if named else []
    whose = {why: ", ".join([*label, *([] if whole else [seeds_in_words(seeds)])]) for why, seeds in first.items()}
    return [f"{who}: {why}" if who else why for why, who in whose.items()]


def _of_all(reason: str, every: Sequence[str]) -> str:
    """In short, with the span of its numbers, where others differ from it in these alone."""
    same = [one for one in dict.fromkeys(every) if _NUMBER.split(one) == _NUMBER.split(reason)]
    if len(same) < 2:
        return reason
    spans = []
    for found in zip(*(_NUMBER.findall(one) for one in same), strict=True):
        ends = sorted(set(found), key=lambda text: float(text.replace(",", "")))
        spans.append(ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}")
    parts = _NUMBER.split(reason)
    whole = "".join(part + span for part, span in zip(parts, [*spans, ""], strict=True))
    return whole.partition(": ")[0]
