"""Before training: those of the doctor's checks that cost little, on a dataset as it is trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rl_training.data.doctor.action_checks import check_bounds, find_bounds
from rl_training.data.doctor.clock_checks import check_observed_dates
from rl_training.data.doctor.cost_checks import check_sign_of_costs
from rl_training.data.doctor.episode_checks import check_early_ends, check_far_rewards, check_reward_name
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.flag_checks import check_flags, check_left_out
from rl_training.data.doctor.outcome_checks import OUTCOME, check_outcomes
from rl_training.data.doctor.places import in_file
from rl_training.data.doctor.raw_checks import RawFields, read_fields
from rl_training.data.doctor.resolution_checks import check_resolution
from rl_training.data.doctor.subject import Extremes, Subject
from rl_training.data.doctor.succession import check_stored_successors
from rl_training.data.doctor.unit_checks import check_units
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.wording import WARNING

_TOLD_ELSEWHERE = ("flags.none",)  # among what is said of any data that are trained on
_REFUSED_ELSEWHERE = ("flags.few-followed",)  # by whoever trains, as nothing is left to accept
_TOLD_OF_OBS = (OUTCOME, "obs.units")
_KINDS = ("flags", "successors", "actions", "values", "rewards")
_MOST_MAPPED = 1 << 20  # rows of a column directory that are looked at: it may be larger than memory


def screen(dataset: TransitionDataset, *, bounds_known: bool) -> list[Finding]:
    """The errors and warnings about flags, successors, bounds, digits, costs, ends and what is known too late.

    bounds_known: the environment's, which the actions are held to elsewhere.
    """
    fields = _fields(dataset)
    subject = Subject.from_dataset(dataset, next_obs_stored=not dataset.next_obs_derived)
    subject = subject if dataset.in_file is None else subject.told_by(dataset.in_file)
    if dataset.folder is not None:
        subject, fields = subject.head(_MOST_MAPPED), _head(fields, _MOST_MAPPED)
    found = [finding for finding in _findings(dataset, fields, subject, bounds_known) if finding.level != "note"]
    kept = [
        f for f in found if f.code not in _TOLD_ELSEWHERE and (f.code in _TOLD_OF_OBS or f.code.split(".")[0] in _KINDS)
    ]
    if dataset.in_file is None:
        return kept
    return [replace(finding, place=in_file(dataset.in_file, finding)) for finding in kept]


def _findings(dataset: TransitionDataset, fields: RawFields, subject: Subject, bounds_known: bool) -> Iterator[Finding]:
    yield from check_flags(fields, subject)
    if dataset.in_file is not None:
        yield from check_left_out(dataset.in_file)
        yield from check_observed_dates(dataset.in_file)
        yield from check_reward_name(dataset.in_file, subject.rewards)
        yield from check_sign_of_costs(dataset.in_file, subject)
    yield from check_far_rewards(subject)
    yield from check_early_ends(subject, costs=dataset.in_file is not None and dataset.in_file.negated)
    yield from check_stored_successors(subject)
    yield from check_resolution(dataset.coarse)
    yield from check_outcomes(subject)
    yield from check_units(subject)
    if not bounds_known and subject.actions is not None:
        told = dataset.bounds if dataset.in_file is None else dataset.in_file.bounds
        extremes = Extremes.of(subject.actions)
        yield from check_bounds(subject, extremes, find_bounds(subject.actions, extremes, None, told))


def _fields(dataset: TransitionDataset) -> RawFields:
    """What tells ends, as the file has it where there is one."""
    if dataset.in_file is not None and dataset.in_file.arrays:
        return read_fields(dataset.in_file.arrays)
    return read_fields({"terminations": dataset.terminations, "truncations": dataset.truncations})


def _head(fields: RawFields, rows: int) -> RawFields:
    """Of the first rows."""
    return replace(fields, arrays={name: values[:rows] for name, values in fields.arrays.items()})


def screened(
    dataset: TransitionDataset, source: str, way: str, *, bounds_known: bool, refuse: bool = True
) -> TransitionDataset:
    """The dataset with its warnings among its notes; an error that is not accepted is refused, if at all.

    source: names the data in the message. way: how an error is accepted, by its CODE.
    """
    findings = screen(dataset, bounds_known=bounds_known)
    for finding in findings:
        if finding.level == "error" and refuse and finding.code not in (*dataset.accepted, *_REFUSED_ELSEWHERE):
            raise DataError(f"{source}: {finding} To train on them all the same: {way.replace('CODE', finding.code)}")
    return dataset.noted(*(f"{WARNING}{finding}" for finding in findings))
