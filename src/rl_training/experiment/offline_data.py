"""The episodes that a policy is evaluated on without a simulator, and what a user should know of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_training.data.column_names import require_order
from rl_training.data.dataset_loaders import DatasetConfig, FileDatasetConfig, load_dataset
from rl_training.data.few_episodes import FEWEST_EPISODES
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import KEY as PROVENANCE
from rl_training.data.provenance import Provenance, other_rewards
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.costs import Shown, shown_of
from rl_training.experiment.offline_doubts import FEW_EPISODES, caution_of_few
from rl_training.experiment.other_units import other_units
from rl_training.experiment.report.diagnostics import some_episodes
from rl_training.experiment.report.held_out import outside_in_words, read_alike, share_seen
from rl_training.experiment.stored_estimates import TRAINED_ON
from rl_training.experiment.stored_numbers import as_number
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import run_of
from rl_training.validation import shown
from rl_training.wording import WARNING, amount

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy

MOST_ROWS = 500_000  # whole episodes are left out beyond
_FEW_ENDS = 5  # terminations: fewer tell next to nothing of how often there would be one
_NEARLY_ALL = 0.99  # of the rows: as good as all


@dataclass(frozen=True)
class DataUsed:
    """What a policy was evaluated on."""

    title: str
    fingerprint: str
    episodes: int
    transitions: int
    trained_on: bool  # on most of them
    share_trained_on: float | None = None  # of the episodes; none where it is not known


def episodes_to_evaluate_on(
    policy: LoadedPolicy, given: TransitionDataset | str | None
) -> tuple[TransitionDataset, DataUsed, list[str]]:
    """The episodes to evaluate on, what they are, and what the user should know of them."""
    run = run_of(policy.place)
    trained = None if run is None else (run.describe().get("dataset") or {}).get("fingerprint")
    spaces, cautions = policy.checkpoint.spaces, []
    data, title, said = _open(policy, given)
    cautions += [f"{title}: {note}" for note in said]
    trained_on = None if given is None else _provenance(policy)
    if given is not None:
        differs = None if data.provenance is None or trained_on is None else other_rewards(data.provenance, trained_on)
        facts = None if run is None else run.describe().get("dataset")
        cautions += _held_to(data, title, differs, facts or {}, shown_of(policy.checkpoint.config, run))
    for name, found, expected in (
        ("observations", data.obs_dim, spaces.obs_dim),
        ("actions", data.act_dim, spaces.act_dim),
    ):
        if found != expected:
            raise DataError(f"{title}: {name} have {amount(found, 'column')}, the policy was trained with {expected}")
    cautions += require_order(data, spaces, title)
    cautions += [] if given is None else other_units(data, spaces, title)
    cautions += outside_in_words(data, spaces)
    own = given is None
    if own and trained not in (None, data.fingerprint()):
        cautions.insert(0, f"{WARNING}the data have changed since the policy was trained")
    seen = 1.0 if own or data.fingerprint() == trained else _share_seen(policy, data, trained)
    if seen == 1.0:
        cautions.append(TRAINED_ON)
    elif seen:
        cautions.append(
            f"the policy was trained on about {seen * data.n_episodes:,.0f} of these"
            f" {amount(data.n_episodes, 'episode')}, which flatters it; judge it on others"
        )
    some = some_episodes(data, MOST_ROWS)
    if len(some) < len(data):
        cautions.append(f"of {amount(len(data), 'row')}, whole episodes of {len(some):,} are used")
    if data.mixture is not None:
        cautions.append("the shares of the mixture are not used: every row counts alike")
    episodes = _fitted_episodes(some)
    if FEWEST_EPISODES <= episodes < FEW_EPISODES:
        cautions.append(caution_of_few(episodes))
    known = run.describe().get("dataset") if run is not None else None
    cautions += _few_ends(some, known if isinstance(known, Mapping) else {})
    used = DataUsed(title, data.fingerprint(), episodes, some.n_usable, (seen or 0.0) > 0.5, seen)
    return some, used, cautions


def fingerprint_of(config: TrainConfig, given: str) -> str | None:
    """Of data as a run is evaluated on them; none where they cannot be read."""
    try:
        return _load(config, read_alike(config.to_plain(), given).section).fingerprint()
    except (DataError, ConfigError, OSError):
        return None


def _few_ends(data: TransitionDataset, trained: Mapping[str, Any]) -> list[str]:
    """A word on terminations that are too few to be judged, where the policy was trained to mind them."""
    if not data.whole_episodes or not trained.get("terminations"):
        return []
    ends = int(data.terminations.sum())
    if ends >= _FEW_ENDS:
        return []
    some = f"only {amount(ends, 'episode')} of {data.n_episodes:,}" if ends else f"none of {data.n_episodes:,} episodes"
    verb = "terminate" if ends > 1 else "terminates"
    return [f"{some} {verb}: these data hardly tell how often a policy would, and what that costs or earns"]


def _held_to(
    data: TransitionDataset, title: str, differs: str | None, trained: Mapping[str, Any], how: Shown
) -> list[str]:
    """A word on rewards that were read otherwise than those trained on, if they differ. Costs whose sign is turned are
    refused; where the file does not tell, and its episodes return what those trained on did, they may be the same."""
    ends = [as_number(trained.get(f"return_{end}"), None) for end in ("min", "max")]
    known = [end for end in ends if end is not None]
    if len(known) == len(ends) and data.whole_episodes:
        low, high = known
        mean = float(data.episode_returns().mean())
        if how.costs and high < 0.0 < mean:
            raise DataError(
                f"{title}: costs were taken for rewards: episodes return {mean:.4g} on average, and those trained on"
                f" {low:.4g} to {high:.4g}; write the file anew with `rl-training data convert … --rewards-are costs`"
            )
        silent = data.provenance is not None and not data.provenance.tells_of_rewards
        if differs and silent and low - (high - low) <= mean <= high + (high - low):
            return [f"{title}: does not tell how its rewards were made; they look like those trained on"]
    return [f"{title}: {differs}: what is estimated is not what was trained for"] if differs else []


def _provenance(policy: LoadedPolicy) -> Provenance | None:
    """How the data were read that the policy was trained on; none where that is not known."""
    run, section = run_of(policy.place), policy.checkpoint.config.dataset
    if run is None or not isinstance(section, FileDatasetConfig):
        return None
    facts = run.describe().get("dataset") or {}
    return Provenance.of(str(section.path), section.model_dump(mode="json"), Provenance.read(facts.get(PROVENANCE)))


def _fitted_episodes(data: TransitionDataset) -> int:
    """Episodes with a row whose successor is known; none where borders are lost."""
    if not data.whole_episodes:
        return 0
    return data.n_episodes if data.has_next_obs is None else len(np.unique(data.episode_ids[data.has_next_obs]))


def _share_seen(policy: LoadedPolicy, data: TransitionDataset, trained: str | None) -> float | None:
    """The share of the episodes that were trained on, by their rows; none where what was trained on is not known.

    trained: the fingerprint of the data trained on, where the run tells it."""
    section = policy.checkpoint.config.dataset
    if section is None:
        return None
    try:
        own = _load(policy.checkpoint.config, section)
    except (DataError, ConfigError, OSError):
        return None
    seen = share_seen(data, own)
    if seen > _NEARLY_ALL:
        return 1.0
    if round(seen * data.n_episodes):  # a few rows may be alike without being the same
        return seen
    is_all = trained in (None, own.fingerprint()) and policy.checkpoint.config.init_from is None
    return 0.0 if is_all else None  # it may have seen others: before the data were changed, or in the run it began from


def _open(
    policy: LoadedPolicy, given: TransitionDataset | str | None
) -> tuple[TransitionDataset, str, tuple[str, ...]]:
    """The data, what to call them, and what to say on how they were read."""
    config = policy.checkpoint.config
    if isinstance(given, TransitionDataset):
        return given, given.origin or "arrays in memory", ()
    if given is not None and not isinstance(given, str | Mapping):
        raise DataError(f"dataset: must be a TransitionDataset or a path, got {shown(given)}")
    section, notes = (config.dataset, ()) if given is None else read_alike(config.to_plain(), given)
    if section is None:
        raise ConfigError("data: this policy was trained from arrays in memory; name the data to evaluate it on")
    data = _load(config, section)
    return data, given or str(getattr(section, "path", None) or getattr(section, "id", section.source)), notes


def _load(config: TrainConfig, section: DatasetConfig) -> TransitionDataset:
    return load_dataset(section, config.env_id, None, refuse=False)
