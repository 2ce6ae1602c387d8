"""How often a trained policy does what the data never do: acts between the settings of a switch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rl_training.data.action_gaps import Gaps, find_gaps
from rl_training.data.column_names import names_of
from rl_training.data.doctor.wording import column_in_words
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.runtime.acting import Actor
from rl_training.runtime.action_support import policy_actions
from rl_training.runtime.run_directory import RunDirectory

FACT = "acts_between"  # in run.json
_ASKED = 2_000  # rows
_AT_LEAST = 0.01  # of them: fewer are not worth a word
_EDGE = 0.1  # of a gap's width: so near a side is no other action


def note_between(run: RunDirectory, actor: Actor, dataset: TransitionDataset | None) -> None:
    """Keep in run.json which gaps of the data the policies act in, and how often."""
    if dataset is None or dataset.folder is not None or actor.transforms.action_gaps:
        return
    gaps = find_gaps(dataset.actions)
    if gaps:
        run.note(**{FACT: [fact for fact in _facts(actor, dataset, gaps) if fact["share"] >= _AT_LEAST]})


def _facts(actor: Actor, dataset: TransitionDataset, gaps: Gaps) -> list[dict[str, Any]]:
    rows = np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), _ASKED)).astype(np.int64))
    sound = np.flatnonzero(actor.learner.active.cpu().numpy()).tolist()
    if not sound:
        return []
    unit = policy_actions(actor, sound, dataset.obs[rows], deterministic=True)[:, 0]
    actions = actor.transforms.from_unit_actions(unit)  # [P, N, act]
    names, facts = names_of(dataset, "actions", dataset.act_dim), []
    for column, low, high in gaps:
        own, edge = actions[..., column], _EDGE * (high - low)
        inside = float(((own > low + edge) & (own < high - edge)).mean())
        facts.append({"column": column_in_words(column, names), "low": low, "high": high, "share": inside})
    return facts


def acts_between(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a description of a run says of it; nothing that makes no sense."""
    stored = facts.get(FACT)
    return [one for one in stored if _makes_sense(one)] if isinstance(stored, list) else []


def _makes_sense(stored: Any) -> bool:
    kinds = {"column": str, "low": int | float, "high": int | float, "share": int | float}
    return isinstance(stored, Mapping) and all(
        isinstance(stored.get(name), kind) and not isinstance(stored[name], bool) for name, kind in kinds.items()
    )
