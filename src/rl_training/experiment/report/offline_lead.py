"""The result of runs without scores in a sentence: what was estimated without a simulator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rl_training.data.doctor.wording import alike, capital, listed, number
from rl_training.experiment.costs import Shown
from rl_training.experiment.deciding import deciding
from rl_training.experiment.horizon import beginning_of
from rl_training.experiment.metric_doubts import longer
from rl_training.experiment.offline_doubts import mean_of
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.reproducing import options_of
from rl_training.experiment.seed_choice import seed_by_estimates
from rl_training.experiment.statistics import LEVEL, Estimate
from rl_training.experiment.stored_estimates import (
    Record,
    cautions,
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
    text += f" {escape(_gained(gain, best.shown))} {'an episode' if part is None else f'over {part} of an episode'}"
    text += f" compared with {_BEHAVIOUR}" if best.shown.costs and is_shown else ""
    text += f"{_share(gain, record)}{escape(_from_to(record, best.shown))}"
    alike = len({(title(leading(run.offline)), leading(run.offline).get("gamma")) for _, run in found}) == 1
    most = "the most of the runs that could be judged" if alike else "other runs were judged in another way"
    text += f", {most}" * (len(found) > 1)
    better = "a saving" if best.shown.costs else "an improvement"
    text += f" ({_over(record)}" + ("" if chance is None else f"probability of {better} {escape(likely(chance))}; ")
    text += f"{discounted(record)}{_counted(record, best.shown)}{trained_otherwise(record, best.config)})."
    text += escape(f"{measured_in(best)}{_alone(record, is_shown=is_shown)}{_as_recorded(record, best.shown)}")
    text += _gone_on(best, record) + others
    return Lead(text, _trust(best, record, part, is_shown=is_shown), _then(best, record, is_shown=is_shown))


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
    text += f".{escape(measured_in(run))}{_gone_on(run, record)}{others}"
    trust = "Each passed its checks, but what only some of them show is not shown."
    trust += " Nobody has tried the policy: these are estimates, not measurements."
    return Lead(text, trust, _then(run, record, is_shown=False))


def measured_in(run: RunContents) -> str:
    """What is counted, where no unit says it."""
    return f" Counted is ‘{run.added_up}’, summed over an episode{with_ends(run.shown)}." if run.added_up else ""


def with_ends(shown: Shown) -> str:
    """What is counted besides the columns of the data, to follow them."""
    return ", and at_termination" if shown.with_ends else ""


def _what_is_gained(shown: Shown) -> str:
    return f"{'saving' if shown.costs else 'improvement'} an episode{f', {shown.unit}' if shown.unit else ''}"


def _trust(run: RunContents, record: Record, part: str | None, *, is_shown: bool) -> str:
    """How far the estimate may be believed."""
    text = "The estimate passed its checks" + ("" if is_shown else ", but the data do not tell the two apart")
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
    return f"{text}.{_not_told(run, record, part)} Nobody has tried the policy: it is an estimate, not a measurement."


def _then(run: RunContents, record: Record, *, is_shown: bool) -> str:
    if run.training_doubts:
        return "Train longer or otherwise, as the warning below says, then estimate again."
    if seen := share_trained_on(record):
        if any(share_trained_on(one) == 0.0 for one in run.refused):
            more = "Set more episodes aside, `rl-training data split --held-out 0.5`, train on the others"
            return f"{more}, and estimate again: those that were set aside did not tell."
        aside = "`rl-training data split` sets episodes aside; train on the others, then `rl-training evaluate NEW_RUN"
        return f"{aside} --offline --data ASIDE`."
    if is_shown:
        first = "Make sure that these episodes were not trained on, then try it" if seen is None else "Try it"
        return f"{first} carefully: {_export(run, record)} as one file."
    return _to_decide(run, record)


def _to_decide(run: RunContents, record: Record) -> str:
    """The command that may decide it, the same that `evaluate --offline` prints."""
    record = next((one for one in (record, *reversed(run.opposed)) if not is_better(one)), record)
    gain, repeats = improvement(record), as_number(record.get("repeats"), 0.0)
    episodes = as_number(mapping(record.get("data")).get("episodes"), 0.0)
    can = run.config.get("dataset") is not None and run.summary.steps is not None
    found = None if gain is None else deciding(gain[0], int(repeats), int(episodes), can_train_on=can)
    name = escape(run.in_command)
    if found is None:
        return f"Record more episodes and estimate on them, `rl-training evaluate {name} --offline --data MORE`."
    if found.repeats is not None:
        again = f"rl-training evaluate {name} --offline{escape(options_of(run, {**record, 'repeats': found.repeats}))}"
        return f"`{again}`: more resamples narrow the interval."
    if found.episodes is not None:
        again = options_of(run, {**record, "data": {"title": "MORE", "fingerprint": "MORE"}})
        told = f"MORE being {found.episodes} episodes that were not trained on."
        return f"`rl-training evaluate {name} --offline{escape(again)}`, {told}"
    further = longer(run.summary.steps or 0, dict(run.config))
    told = "it is worth about what the behaviour is. Then estimate it again."
    return f"Train longer, `rl-training resume {name} --total-timesteps {further}`: {told}"


def _export(run: RunContents, record: Record) -> str:
    """The command that writes the policy which was judged, and whose that is of several seeds."""
    step = as_number(record.get("step"), None)
    which = "" if step is None or step == run.summary.steps else f" --which {int(step)}"
    chosen = seed_by_estimates(record) if len(run.summary.seeds) > 1 else None
    whose = "the policy" if chosen is None else f"the policy of seed {chosen.seed} ({escape(chosen.why or '')})"
    return f"`rl-training export {escape(run.in_command)}{which}` writes {whose}"


def _does(shown: Shown, *, is_shown: bool) -> str:
    """What the best run does beside the behaviour, as far as it is shown."""
    if shown.costs:
        return "saves" if is_shown else f"is not shown to cost less than {_BEHAVIOUR}: the saving is"
    if is_shown:
        return f"improves on {_BEHAVIOUR} by"
    return f"is not shown to improve on {_BEHAVIOUR}: the difference is"


def _share(gain: Estimate, record: Record) -> str:
    """`, or 9.0%` of the behaviour's, where that is not near 0: its interval holds none."""
    behaviour = estimate(mapping(record.get("behaviour")).get("value"))
    if behaviour is None or behaviour.low is None or behaviour.high is None or not behaviour.low * behaviour.high > 0:
        return ""
    return f", or {gain.value / abs(behaviour.value):.1%}" if behaviour.value else ""


def _gained(gain: Estimate, shown: Shown) -> str:
    """`2.95 EUR (95% interval 0.11 to 5.79)`."""
    if gain.low is None or gain.high is None:
        return number(gain.value) + shown.behind
    value, low, high = alike(gain.value, gain.low, gain.high)
    return f"{value}{shown.behind} ({LEVEL:.0%} interval {low} to {high})"


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


def _over(record: Record) -> str:
    """Of how many seeds a mean is, where some were refused."""
    some, of = trusted(record), len(policies(record))
    if not some or len(some) == of:
        return ""
    refused = listed([f"seed {seed(one)}" for one in policies(record) if one not in some])
    own = f"seed {seed(some[0])} of {of}" if len(some) == 1 else mean_of(len(some), of)
    return f"{escape(own)}, as what was estimated of {escape(refused)} was refused; "


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
    plain, valued = (number(shown.number(value)) for value in (recorded, fitted))
    text = f" As recorded, an episode of {title(record)} {does} {plain}{shown.behind} on average"
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
    command = f"`rl-training evaluate {run.in_command} --offline{options_of(run, {**record, 'asked': {}})}"
    return [_UPDATES.sub(lambda found: f"{command} {found[1]}`", one, count=1) for one in asked]


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
