"""What to do next with a run that was estimated without a simulator: in words first, then the command."""

from __future__ import annotations

import re
from html import escape

from rl_training.data.doctor.wording import capital
from rl_training.experiment.deciding import deciding
from rl_training.experiment.horizon import LEAST_GAMMA, nearer_gamma
from rl_training.experiment.metric_doubts import longer
from rl_training.experiment.offline_doubts import MOST_BEHIND_CUTS
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.reproducing import options_of, splitting_anew, where_the_log_stands
from rl_training.experiment.seed_choice import seed_by_estimates
from rl_training.experiment.stored_estimates import (
    Record,
    data_key,
    improvement,
    is_better,
    leading,
    mapping,
    missed_by_the_mean,
    policies,
    share_trained_on,
    texts,
)
from rl_training.experiment.stored_numbers import as_number

_UPDATES = re.compile(r"--updates (\d+)")
_NEARER = "smaller --gamma"
_FEW_SET_ASIDE = 100  # episodes


def then(run: RunContents, record: Record, *, is_shown: bool) -> str:
    if run.training_doubts:
        return "Train longer or otherwise, as the warning below says, then estimate again."
    if seen := share_trained_on(record):
        if any(share_trained_on(one) == 0.0 for one in run.refused):
            command = splitting_anew(run)
            more = (
                f"Set more episodes aside, `{escape(command)}`{where_the_log_stands(command)}, train anew on the others"
            )
            return f"{more}, and estimate again: those set aside were too few to tell."
        aside = "`rl-training data split` sets episodes aside; train on the others, then `rl-training evaluate NEW_RUN"
        return f"{aside} --offline --data ASIDE`."
    if is_shown:
        first = "Make sure that these episodes were not trained on, then try it" if seen is None else "Try it"
        return f"{first} carefully: {_export(run, record)} as one file."
    return _to_decide(run, record)


def after_refusal(run: RunContents) -> list[tuple[str, str]]:
    """What to do where every estimate was refused: in words, and the command that `evaluate --offline` ends with, if
    there is one."""
    record = leading(run.offline)
    own = [texts(policy.get("not_trusted_because")) for policy in policies(record)]
    every = [why for whys in own for why in whys]
    name = f"rl-training evaluate {escape(run.in_command)} --offline"
    updates = [[int(found[1]) for why in whys if (found := _UPDATES.search(why))] for whys in own]
    if settled := [max(asked) for asked, whys in zip(updates, own, strict=True) if asked and len(asked) == len(whys)]:
        plain = {**record, "asked": {}}
        return [("Let it go on for longer", f"{name}{escape(options_of(run, plain))} --updates {max(settled)}")]
    if not every or not all(_NEARER in why or _UPDATES.search(why) for why in every):
        asked = [why.partition("; ")[2] for why in every]
        return [(escape(capital(one)), "") for one in dict.fromkeys(asked) if one]
    refused = [one for one in (record, *run.refused) if data_key(one) == data_key(record)]
    gamma = min(as_number(one.get("gamma"), 1.0) for one in refused)
    steps = as_number(mapping(record.get("behaviour")).get("steps"), 100.0)
    behind = as_number(mapping(record.get("behaviour")).get("weight_behind_cuts"), 0.0)
    few = as_number(mapping(record.get("data")).get("episodes"), 0.0) < _FEW_SET_ASIDE and behind <= MOST_BEHIND_CUTS
    told = []
    if few and share_trained_on(record) == 0.0:
        command = splitting_anew(run)
        words = f"Set more episodes aside{where_the_log_stands(command)}, and train anew on the others"
        told.append((words, escape(command)))
    if gamma > LEAST_GAMMA:
        nearer = {**record, "gamma": nearer_gamma(gamma, steps), "asked": {}}
        told.append((f"{'Or look' if told else 'Look'} less far ahead", f"{name}{escape(options_of(run, nearer))}"))
    return told or [("Record more episodes", "")]


def _to_decide(run: RunContents, record: Record) -> str:
    """The command that may decide it, the same that `evaluate --offline` prints."""
    record = next((one for one in (record, *reversed(run.opposed)) if not is_better(one)), record)
    gain, repeats = improvement(record), as_number(record.get("repeats"), 0.0)
    episodes = as_number(mapping(record.get("data")).get("episodes"), 0.0)
    can = run.config.get("dataset") is not None and run.summary.steps is not None
    besides = missed_by_the_mean(record)
    found = None if gain is None else deciding(gain[0], int(repeats), int(episodes), can_train_on=can, besides=besides)
    name = escape(run.in_command)
    if found is None:
        return f"Record more episodes and estimate on them, `rl-training evaluate {name} --offline --data MORE`."
    if found.repeats is not None:
        again = f"rl-training evaluate {name} --offline{escape(options_of(run, {**record, 'repeats': found.repeats}))}"
        return f"Estimate again with more resamples, which narrow the interval: `{again}`."
    if found.episodes is not None:
        again = options_of(run, {**record, "data": {"title": "MORE", "fingerprint": "MORE"}})
        told = f"Record more episodes, {found.in_words} in all that are not trained on, and estimate on them:"
        return f"{told} `rl-training evaluate {name} --offline{escape(again)}`, where MORE is their file."
    if run.by_heart:
        told = "Record more episodes and train on them, too: the policy is about as good as the behaviour, and"
        return f"{told} longer training on these would only learn them by heart."
    further = longer(run.summary.steps or 0, dict(run.config))
    told = "The policy is about as good as the behaviour. Train longer, then estimate it again:"
    return f"{told} `rl-training resume {name} --total-timesteps {further}`."


def _export(run: RunContents, record: Record) -> str:
    """The command that writes the policy which was judged, and whose that is of several seeds."""
    step = as_number(record.get("step"), None)
    which = "" if step is None or step == run.summary.steps else f" --which {int(step)}"
    chosen = seed_by_estimates(record) if len(run.summary.seeds) > 1 else None
    whose = "the policy" if chosen is None else f"the policy of seed {chosen.seed} ({escape(chosen.why or '')})"
    return f"`rl-training export {escape(run.in_command)}{which}` writes {whose}"
