"""What to do next with a run that was estimated without a simulator: in words first, then the command."""

from __future__ import annotations

from html import escape

from rl_training.experiment.deciding import deciding
from rl_training.experiment.metric_doubts import longer
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.reproducing import options_of
from rl_training.experiment.seed_choice import seed_by_estimates
from rl_training.experiment.stored_estimates import Record, improvement, is_better, mapping, share_trained_on
from rl_training.experiment.stored_numbers import as_number


def then(run: RunContents, record: Record, *, is_shown: bool) -> str:
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
        return f"Estimate again with more resamples, which narrow the interval: `{again}`."
    if found.episodes is not None:
        again = options_of(run, {**record, "data": {"title": "MORE", "fingerprint": "MORE"}})
        told = f"Record more episodes, {found.episodes} in all that are not trained on, and estimate on them:"
        return f"{told} `rl-training evaluate {name} --offline{escape(again)}`, MORE being their file."
    if run.by_heart:
        told = "Record more episodes and train on them, too: the policy is worth about what the behaviour is, and"
        return f"{told} longer training on these would rather learn them by heart."
    further = longer(run.summary.steps or 0, dict(run.config))
    told = "Train longer, as it is worth about what the behaviour is, then estimate it again:"
    return f"{told} `rl-training resume {name} --total-timesteps {further}`."


def _export(run: RunContents, record: Record) -> str:
    """The command that writes the policy which was judged, and whose that is of several seeds."""
    step = as_number(record.get("step"), None)
    which = "" if step is None or step == run.summary.steps else f" --which {int(step)}"
    chosen = seed_by_estimates(record) if len(run.summary.seeds) > 1 else None
    whose = "the policy" if chosen is None else f"the policy of seed {chosen.seed} ({escape(chosen.why or '')})"
    return f"`rl-training export {escape(run.in_command)}{which}` writes {whose}"
