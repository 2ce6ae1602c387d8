"""What is known of how good an exported policy is, in one line: whoever takes it elsewhere should know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl_training.data.provenance import KEY, Provenance, set_aside
from rl_training.experiment.costs import Shown
from rl_training.experiment.horizon import FURTHER_REFUSED, NEWER_REFUSED, WHOLE_REFUSED, beginning_of, discounted_by
from rl_training.experiment.offline_doubts import TOO_SHORT
from rl_training.experiment.shipping.card import shown_by_card
from rl_training.experiment.stored_estimates import mapping, share_trained_on
from rl_training.experiment.stored_numbers import as_number
from rl_training.paths import in_shell
from rl_training.validation import shortened
from rl_training.wording import amount, readable

_LONGEST_REASON = 300  # characters; `evaluate --offline` tells all of it, and what to do
_BEHAVIOUR = "than the behaviour that recorded the data"


def quality(card: Mapping[str, Any], run: Path, which: str) -> str:
    """Of the policy that a card describes. run, which: what was asked for, for the command that would tell more."""
    scores, estimate = card["scores"], card["offline_evaluation"]
    told = [_in_environment(scores, card["dataset"] or {}, shown_by_card(card))] if scores is not None else []
    told += [_estimated(estimate, shown_by_card(card))] if estimate is not None else []
    if not told:
        words = ["rl-training", "evaluate", in_shell(run), *([] if which == "last" else ["--which", which])]
        data = card["dataset"] or {}
        aside = set_aside(Provenance.read(data.get(KEY)), (data.get("source") or {}).get("path"))
        words += [] if card["environment"] else ["--offline", *aside]
        return f"this checkpoint was never evaluated: {' '.join(words)}"
    caution = card["policy"]["seed_caution"]
    return "; ".join([*told, *([] if caution is None else [caution])])


def _in_environment(scores: Mapping[str, Any], dataset: Mapping[str, Any], shown: Shown) -> str:
    """Beside what the episodes of the data returned, where that is known."""
    how, own = scores["how"], scores["return_mean"]
    if own is None:
        return f"its {shown.noun} in {how['environment']} was no number"
    where = f"{amount(how['episodes'], 'episode')} of {how['environment']} during training"
    told = f"{shown.noun} {readable(shown.number(own))}{shown.behind} over {where}"
    of_data = dataset.get("return_mean")
    if isinstance(of_data, bool) or not isinstance(of_data, int | float):
        return told
    beside = f"the data's episodes {'cost' if shown.costs else 'returned'} {readable(shown.number(of_data))}"
    return f"{told}; {beside}" if own > of_data else f"not shown to be better {_BEHAVIOUR}: {told}, {beside}"


def _estimated(estimate: Mapping[str, Any], shown: Shown) -> str:
    gain, reasons = estimate["improvement"], estimate["not_trusted_because"]
    if gain is None and TOO_SHORT in reasons and not estimate.get("contradicted"):
        return (
            "not judged yet: a trial fit, shorter than `rl-training evaluate RUN --offline` makes, says nothing of it"
        )
    if gain is None:
        why = f", because {shortened(reasons[0].partition('; ')[0], _LONGEST_REASON)}" if reasons else ""
        older = f"; {told}" if (told := estimate.get("contradicted")) else ""
        return f"unknown: there is no reliable estimate{why}{older}"
    if estimate.get("disagreement"):
        return f"not decided whether better {_BEHAVIOUR}: {estimate['disagreement']}, from the data alone"
    low, high = gain["low"], gain["high"]
    sign = "+" if gain["value"] > 0 else ""
    ends = (
        "" if low is None or high is None else f", {estimate['level']:.0%} interval {readable(low)} to {readable(high)}"
    )
    better = "saving" if shown.costs else "improvement"
    gained = f"{better} {sign}{readable(gain['value'])}{shown.behind}{_discounted(estimate)}{ends}"
    found = f"{gained}, estimated from the data alone{_flattered(estimate)}"
    part = beginning_of(estimate)
    over = "" if part is None else f" over {part} of an episode"
    refused = [
        told
        for told in (NEWER_REFUSED, FURTHER_REFUSED, WHOLE_REFUSED)
        if any(t.startswith(told) for t in estimate["cautions"])
    ]
    besides = "".join(f"; {told}" for told in refused)
    if low is not None and low > 0:
        return f"better {_BEHAVIOUR}{over}: {found}{besides}"
    if high is not None and high < 0:
        return f"worse {_BEHAVIOUR}{over}: {found}{besides}"
    return f"not shown to be better {_BEHAVIOUR}{over}: {found}{besides}"


def value_of(estimate: Mapping[str, Any], shown: Shown) -> str:
    """`cost 44.6 EUR discounted by 0.99, against 50.8 as recorded`: a discounted sum is to be held to no other."""
    value = f"{'cost' if shown.costs else 'value'} {readable(shown.number(estimate['value']['value']))}{shown.behind}"
    recorded = mapping(mapping(estimate.get("behaviour")).get("value")).get("value")
    beside = as_number(recorded, None)
    against = "" if beside is None else f", against {readable(shown.number(beside))} as recorded"
    return f"{value}{_discounted(estimate)}{against}{_flattered(estimate)}"


def _discounted(estimate: Mapping[str, Any]) -> str:
    gamma = as_number(estimate.get("gamma"), None)
    return "" if gamma is None else f" {discounted_by(gamma)}"


def _flattered(estimate: Mapping[str, Any]) -> str:
    """Where it was judged by episodes that it was trained on, that."""
    share = share_trained_on(estimate) or 0.0
    if share == 0.0:
        return ""
    whose = "the episodes" if share == 1.0 else f"episodes, {share:.0%} of them those"
    return f", by {whose} it was trained on, which flatters it"
