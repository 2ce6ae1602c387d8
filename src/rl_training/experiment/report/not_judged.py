"""Runs of which there is no reliable estimate: why, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rl_training.data.doctor.wording import listed
from rl_training.experiment.alike_reasons import frame, with_spans
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.first_lines import Lead
from rl_training.experiment.report.what_next import after_refusal
from rl_training.experiment.stored_estimates import contradicted, leading, policies, seed, seeds_in_words, texts

_PLAINLY = {  # by a part of the reason
    "impossible": "the data say too little about what the policy does, and the calculation ran away",
    "the fit diverged": "the data say too little about what the policy does, and the calculation ran away",
    "gave very different values": "calculations on parts of the data gave very different values",
    "the value still moved": "the calculation had not settled",
    "no similar state of the data has seen": "the policy does what the data hardly show",
    "lies behind its cut": "most of what counts comes after the episodes were cut",
}


def not_judged(runs: Sequence[RunContents]) -> Lead:
    tried = [run for run in runs if run.offline]
    judged = tried or runs
    names = f"<b>{escape(judged[0].label)}</b>" if len(judged) == 1 else f"These {len(judged)} runs"
    name, which = (escape(judged[0].in_command), judged[0].as_asked) if len(judged) == 1 else ("RUN", "")
    it, were, them = ("it is", "it was", "it") if len(judged) == 1 else ("they are", "they were", "each")
    played = all(run.summary.env_id is not None for run in judged)
    untold = f"{were} not played yet" if played else "there was no simulator to score policies in, and nothing was"
    untold += "" if played else " estimated from the data"
    why = [told for run in tried for told in _first_reasons(run, named=len(tried) > 1)] or [untold]
    plain = list(dict.fromkeys(map(plainly, why)))
    plain += [told for run in tried if (told := contradicted(run.refused))]
    if not tried:
        then = f"`rl-training evaluate {name}{'' if played else ' --offline'}{which}`"
        then += f" plays {them}." if played else f" estimates {them} from the recorded data."
        return Lead(f"{names} could not be judged: {escape('; '.join(why))}.", f"How good {it} is not known.", then)
    whose = names if len(judged) == 1 else names.lower()
    text = f"There is no reliable estimate of {whose} yet: {escape('; '.join(plain))}."
    if untried := [run.label for run in runs if not run.offline]:
        text += f" Nothing was estimated of {escape(listed(untried))} yet (rl-training evaluate RUN --offline)."
    asked: dict[str, list[str]] = {}
    for words, command in (line for run in tried for line in after_refusal(run)):
        asked[words] = list(dict.fromkeys([*asked.get(words, []), *([command] if command else [])]))
    then = " ".join(f"{words}{': ' * bool(of)}{'; '.join(f'`{one}`' for one in of)}." for words, of in asked.items())
    besides = [f"{told}." for told in why]
    return Lead(text, "", then, [escape(line) for line in besides] if plain != why else [])


def plainly(reason: str) -> str:
    """A reason not to trust an estimate, as somebody reads it who does not know how it was made."""
    return next((told for part, told in _PLAINLY.items() if part in reason), reason)


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
    same = [one for one in dict.fromkeys(every) if frame(one) == frame(reason)]
    return reason if len(same) < 2 else with_spans(same).partition(": ")[0]
