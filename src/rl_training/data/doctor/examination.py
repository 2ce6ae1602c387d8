"""The examination of a dataset: every check, in order, on whatever of it can be read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from rl_training.data.doctor.action_checks import check_actions, find_bounds
from rl_training.data.doctor.clock_checks import check_going_on, check_observed_dates
from rl_training.data.doctor.cost_checks import check_sign_of_costs
from rl_training.data.doctor.coverage import (
    action_range_visited,
    action_spread,
    check_coverage,
    effective_dimension,
)
from rl_training.data.doctor.duplicates import check_duplicates
from rl_training.data.doctor.episode_checks import (
    check_early_ends,
    check_episodes,
    check_reward_name,
    check_rewards,
    mean_by_row,
)
from rl_training.data.doctor.findings import Distribution, Facts, Finding, Level, Report
from rl_training.data.doctor.flag_checks import check_ends, check_flags, check_left_out
from rl_training.data.doctor.frozen_checks import check_frozen
from rl_training.data.doctor.observation_checks import ObsBounds, check_observations
from rl_training.data.doctor.outcome_checks import check_outcomes
from rl_training.data.doctor.places import in_file
from rl_training.data.doctor.raw_checks import RawFields, read_fields
from rl_training.data.doctor.reason_checks import Unread, check_failures, check_unseen_limit
from rl_training.data.doctor.resolution_checks import check_resolution
from rl_training.data.doctor.reward_shift import check_reward_shift
from rl_training.data.doctor.screening import screen
from rl_training.data.doctor.subject import Columns, Extremes, Subject
from rl_training.data.doctor.succession import check_successors
from rl_training.data.doctor.unit_checks import check_units
from rl_training.data.doctor.unused_texts import check_unused_texts
from rl_training.data.doctor.wording import sentence
from rl_training.data.fields import BORDERS_LOST
from rl_training.data.final_rewards import with_final_rewards
from rl_training.data.formats import RawData
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.reference_returns import reference_returns
from rl_training.data.space_bounds import SpaceBounds
from rl_training.data.transforms import TransformConfig, Transforms, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError
from rl_training.wording import WARNING, amount


def examine(
    raw: RawData,
    spaces: Spaces | None = None,
    env_id: str | None = None,
    *,
    obs_bounds: ObsBounds | None = None,
    also: Iterable[Finding] = (),
    texts: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
    unread: Unread = dict,
) -> Report:
    """Facts and findings of what a reader handed over; bad data never raise.

    spaces, obs_bounds: the environment's, where they are known. env_id: for the scale of scores; the file's by default.
    also: findings from elsewhere that belong into the report. texts: of columns with text in a few rows, by the file's
    rows. unread: the numbers of columns that nobody reads.
    """
    raw = _with_scores(raw)
    fields = read_fields(raw.arrays, raw.column_in_file)
    dataset, refusal = _dataset(raw)
    whole = not np.any(raw.arrays.get(BORDERS_LOST, False))
    if dataset is not None:
        subject = Subject.from_dataset(dataset, "next_obs" in fields.sources)
    else:
        subject = Subject.from_fields(fields, whole)
    subject = subject.told_by(raw)
    findings = [*also, *_other_environment(raw, env_id), *fields.findings, *_widths(subject, spaces)]
    findings += check_left_out(raw)
    facts = _facts(raw, fields, subject, dataset, env_id or raw.env_id)
    if obs_bounds is None and raw.bounds is not None:
        obs_bounds = raw.bounds.of_observations(subject.obs)
    if subject.rows:
        findings += check_flags(fields, subject, raw.end_text)
        findings += [*check_going_on(raw, subject), *check_observed_dates(raw)]
        facts, more = _check_fields(facts, fields, subject, spaces, obs_bounds, raw.bounds)
        findings += [*more, *check_early_ends(subject, costs=raw.negated), *check_failures(raw, subject)]
        findings += check_unseen_limit(raw, subject, unread)
    coarse = () if dataset is None else dataset.coarse
    findings += check_resolution(coarse)
    findings += [*check_reward_name(raw, subject.rewards), *check_sign_of_costs(raw, subject)]
    findings += [*_unused(raw, subject), *check_unused_texts(texts, raw, subject)]
    notes = raw.notes if dataset is None else [note for note in dataset.notes if note not in raw.hints]
    findings += [_as_read(note) for note in notes]
    if refusal is not None and not any(finding.level == "error" for finding in findings):
        advice = "Training refuses these data as they are."
        findings.append(Finding("error", "data.refused", "data", sentence(refusal), advice))
    return Report.of(facts, [replace(finding, place=in_file(raw, finding)) for finding in findings])


def _with_scores(raw: RawData) -> RawData:
    """Rewards of whole episodes are no gaps in the rows before; where episodes end may still be a question, and arrays
    may be none."""
    try:
        return with_final_rewards(raw)
    except (DataError, TypeError, ValueError):
        return raw


def _as_read(note: str) -> Finding:
    level: Level = "warning" if note.startswith(WARNING) else "note"
    return Finding(level, "data.read", "data", sentence(note.removeprefix(WARNING)), "")


def _other_environment(raw: RawData, env_id: str | None) -> list[Finding]:
    """Where the user names one environment, and the file another."""
    if env_id is None or raw.env_id in (None, env_id):
        return []
    what = f"The file says that it was recorded in {raw.env_id}, and is held to {env_id}."
    advice = "Train in the environment that the data come from, unless the two are known to behave alike."
    return [Finding("warning", "env.differs", "data", what, advice)]


def _unused(raw: RawData, subject: Subject) -> list[Finding]:
    """Columns that nobody reads and that look as if they told episodes apart, which then may be wrong."""
    alone = len(subject.ends) < 2
    level: Level = "warning" if alone else "note"
    advice = "All rows count as one episode; read it with that mapping if there are more." if alone else ""
    return [Finding(level, "data.unused", "data", sentence(said), advice) for said in raw.hints]


class Description(NamedTuple):
    """The short facts of sound data, every transform that can be fitted to them, what makes episodes doubtful, and the
    notes on how they were read."""

    facts: Facts
    transforms: Transforms
    warnings: tuple[Finding, ...]
    notes: tuple[str, ...]


def describe(raw: RawData, env_id: str | None = None, spaces: Spaces | None = None) -> Description:
    """What there is to say of sound data without a long search for faults; bad data raise `DataError`. spaces: the
    environment's, where it is to be trained in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = TransitionDataset.from_raw(raw)
    fields = read_fields(raw.arrays)
    subject = Subject.from_dataset(dataset, "next_obs" in fields.sources).told_by(raw)
    bounds = find_bounds(dataset.actions, Extremes.of(dataset.actions), spaces, dataset.bounds)
    low, high = tuple(bounds.low.tolist()), tuple(bounds.high.tolist())
    facts = _facts(raw, fields, subject, dataset, env_id or raw.env_id)
    facts = replace(facts, action_low=low, action_high=high, bounds_from=bounds.source)
    spread = facts.returns is not None and facts.returns.max > facts.returns.min
    config = TransformConfig(normalise_observations=True, reward_range_scaling=spread)
    transforms = fit_transforms(dataset, Spaces(dataset.obs_dim, low, high), config)
    found = (*_other_environment(raw, env_id), *check_ends(subject), *_unused(raw, subject))
    found = (*found, *screen(dataset, bounds_known=spaces is not None))
    doubts = tuple(said for level in ("error", "warning") for said in found if said.level == level)
    notes = tuple(note for note in dataset.notes if not (doubts and note in raw.hints))
    return Description(facts, transforms, doubts, notes)


def _dataset(raw: RawData) -> tuple[TransitionDataset | None, str | None]:
    """The dataset, or why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is found here, too
        try:
            return TransitionDataset.from_raw(raw), None
        except DataError as error:
            return None, str(error)
        except (TypeError, ValueError) as error:  # arrays that no reader makes, but a caller may
            return None, f"the arrays cannot be read ({' '.join(str(error).split())})"


def _check_fields(
    facts: Facts,
    fields: RawFields,
    subject: Subject,
    spaces: Spaces | None,
    obs_bounds: ObsBounds | None,
    told: SpaceBounds | None,
) -> tuple[Facts, list[Finding]]:
    """The checks that look at values, and the facts they bring to light."""
    findings: list[Finding] = []
    learned: dict[str, Any] = {}
    visited = None
    if subject.actions is not None:
        columns = Columns.of(subject.actions)
        bounds = find_bounds(subject.actions, columns, spaces, told)
        findings += check_actions(subject, columns, bounds, fields.marked_discrete)
        learned |= {"act_effective_dim": effective_dimension(subject.actions)}
        if not fields.marked_discrete:
            visited = action_range_visited(subject.actions, bounds)
            learned |= {
                "action_low": tuple(bounds.low.tolist()),
                "action_high": tuple(bounds.high.tolist()),
                "bounds_from": bounds.source,
                "action_range_visited": tuple(visited.tolist()),
            }
    if subject.obs is not None:
        columns = Columns.of(subject.obs)
        findings += check_observations(subject, columns, obs_bounds)
        findings += [*check_successors(subject, columns), *check_outcomes(subject)]
        learned |= {"obs_effective_dim": effective_dimension(subject.obs)}
    if subject.rewards is not None:
        findings += check_rewards(subject)
        findings += check_reward_shift(subject)
    findings += [*check_episodes(subject), *check_units(subject), *check_frozen(subject)]
    findings += check_duplicates(subject)
    learned["action_spread"] = spread = None if fields.marked_discrete else action_spread(subject)
    findings += check_coverage(visited, spread, subject.action_names)
    return replace(facts, **learned), findings


def _widths(subject: Subject, spaces: Spaces | None) -> list[Finding]:
    """Observations and actions against the environment's."""
    if spaces is None:
        return []
    found = []
    for name, values, expected in (("obs", subject.obs, spaces.obs_dim), ("actions", subject.actions, spaces.act_dim)):
        if values is not None and values.shape[1] != expected:
            what = f"It has {amount(values.shape[1], 'column')}, but the environment has {expected}."
            advice = "Give the environment that the data come from (env_id), in its version."
            found.append(Finding("error", "env.width", name, what, advice))
    return found


def _facts(
    raw: RawData, fields: RawFields, subject: Subject, dataset: TransitionDataset | None, env_id: str | None
) -> Facts:
    """What can be said without looking at values."""
    episodic = subject.whole_episodes and subject.rows > 0
    returns = subject.returns
    by_row = mean_by_row(subject) if episodic else None
    reference = reference_returns(env_id)
    made_from = None if raw.provenance is None else raw.provenance.in_words()
    facts = Facts(raw.format, subject.rows, fields.shapes, env_id, made_from=made_from, costs=raw.costs)
    if "next_obs" in fields.sources or subject.obs is not None:
        facts = replace(facts, successors="stored" if "next_obs" in fields.sources else "derived")
    if dataset is not None:
        facts = replace(facts, usable=dataset.n_usable, fingerprint=dataset.fingerprint())
    if subject.obs is not None:
        width = subject.obs.shape[1]
        facts = replace(facts, obs_dim=width, obs_names=raw.names_of("obs", width))
    if subject.actions is not None:
        width = subject.actions.shape[1]
        facts = replace(facts, act_dim=width, action_names=raw.names_of("actions", width))
    if subject.rewards is not None and subject.rows:
        low, high = float(subject.rewards.min()), float(subject.rewards.max())
        facts = replace(facts, rewards=(low, float(subject.rewards.mean(dtype=np.float64)), high))
    if episodic:
        lasts = subject.ends
        terminated, truncated = (
            None if flags is None else int(np.count_nonzero(flags[lasts]))
            for flags in (subject.terminations, subject.truncations)
        )
        facts = replace(facts, episodes=len(lasts), terminated=terminated, truncated=truncated)
        facts = replace(facts, lengths=Distribution.of(subject.lengths))
    if returns is not None and by_row is not None:
        facts = replace(facts, returns=Distribution.of(returns), return_by_row=by_row)
        if reference is not None:
            scores = reference.score(float(returns.mean())), reference.score(by_row)
            facts = replace(facts, score_by_episode=scores[0], score_by_row=scores[1])
    return facts
