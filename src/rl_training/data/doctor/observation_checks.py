"""Observations: constant columns, scales far apart, values outside the environment's space, values already scaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray
from rl_training.data.doctor.far_values import far_beyond
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.subject import Columns, Outside, Subject
from rl_training.data.doctor.wording import capital, column_in_words, columns_in_words, number, share
from rl_training.data.missing_marks import NINES, nines_among
from rl_training.data.statistics import sample_rows
from rl_training.wording import amount

_RARELY = 0.001  # share of rows in which a near-constant column departs from its usual value
_SCALES_APART = 1e3
_FAR_OUT = 100.0  # standard deviations
_SUSPECT = 10.0  # standard deviations from where on it is worth a closer look
_FEW = 10_000  # rows, of which all are looked at
_MOST_TOLD = 3  # columns
_LOOKS_NORMALISED = 0.05

ObsBounds = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # lowest and highest, [O] each


def check_observations(subject: Subject, columns: Columns, bounds: ObsBounds | None) -> Iterator[Finding]:
    """Every check on the observations."""
    obs = subject.obs
    assert obs is not None
    varying = columns.std > 0
    yield from _constant(subject, obs, columns)
    yield from _scales(columns, varying, subject.obs_names)
    marks = dict(_marks(obs, columns))
    yield from _told_marks(subject, obs, marks)
    varying_without = varying & ~np.isin(np.arange(len(varying)), list(marks))
    yield from _far_out(subject, obs, columns, varying_without)
    yield from _normalised(columns, varying)
    if bounds is not None and len(bounds[0]) == obs.shape[1]:
        yield from _outside(subject, obs, columns, bounds)


def _constant(subject: Subject, obs: FloatArray, columns: Columns) -> Iterator[Finding]:
    """But for columns that float32 loses, which are told apart."""
    apart, names = np.array(subject.lost_in_float32, dtype=np.int64), subject.obs_names
    constant = np.setdiff1d(np.flatnonzero(columns.std == 0), apart).tolist()
    if len(obs) > 1 and constant:
        zero = bool((columns.min[constant] == 0).all())
        what = f"{capital(columns_in_words(constant, names))} never {'changes' if len(constant) == 1 else 'change'}"
        what += " (always 0)." if zero else "."
        advice = "Harmless in training, but a policy that meets other values there later has never seen them."
        yield Finding("note", "obs.constant", "obs", what, advice, len(constant))
    rows = sample_rows(len(obs))
    if len(rows) < 1 / _RARELY:
        return
    usual = np.median(obs[rows], axis=0)
    departs = (obs[rows] != usual).mean(axis=0)
    rare = np.flatnonzero((departs <= _RARELY) & (columns.std > 0)).tolist()
    if rare:
        what = f"{capital(columns_in_words(rare, names))} {'departs' if len(rare) == 1 else 'depart'} from the usual"
        what += f" value in at most {share(_RARELY)} of the rows."
        advice = "Normalising would blow up these few values: see whether they are faults of the recorder."
        yield Finding("note", "obs.near-constant", "obs", what, advice, len(rare))


def _scales(columns: Columns, varying: npt.NDArray[np.bool_], names: tuple[str, ...] | None) -> Iterator[Finding]:
    if np.count_nonzero(varying) < 2:
        return
    deviations = np.where(varying, columns.std, np.nan)
    least, most = int(np.nanargmin(deviations)), int(np.nanargmax(deviations))
    if deviations[most] > _SCALES_APART * deviations[least]:
        what = (
            f"Scales are far apart: {column_in_words(most, names)} varies by {number(deviations[most])} (standard"
            f" deviation), {column_in_words(least, names)} by {number(deviations[least])}."
        )
        advice = "Train with transforms.normalise_observations=true."
        yield Finding("note", "obs.scales", "obs", what, advice)


def _marks(obs: FloatArray, columns: Columns) -> Iterator[tuple[int, float]]:
    """Columns with nothing but nines in a few rows, -999 or 9999, far from the rest. Such a mark is the least or the
    largest value, so that few columns have to be looked at."""
    ends = (np.isin(of.astype(np.float32), np.array(NINES, dtype=np.float32)) for of in (columns.min, columns.max))
    for column in np.flatnonzero(np.logical_or(*ends)).tolist():
        if (mark := nines_among(obs[:, column].astype(np.float64))) is not None:
            yield column, mark


def _told_marks(subject: Subject, obs: FloatArray, marks: Mapping[int, float]) -> Iterator[Finding]:
    for column, mark in list(marks.items())[:_MOST_TOLD]:
        rows = np.flatnonzero(obs[:, column] == np.float32(mark))
        written = number(mark) if mark.is_integer() else f"{mark:.12g}"
        name = column_in_words(column, subject.obs_names)
        what = f"{written} stands in {amount(rows.size, 'row')} of {name}, far"
        what += " from all other values: it looks like a mark for a missing one."
        advice = f"If it is, say missing_words: ['{mark:.12g}'] with missing: hold (the value before) or missing: drop."
        place = subject.place(int(rows[0]), column)
        yield Finding("warning", "obs.far-out", "obs", what, advice, int(rows.size), place)


def _far_out(subject: Subject, obs: FloatArray, columns: Columns, varying: npt.NDArray[np.bool_]) -> Iterator[Finding]:
    """Values such as -9999, which recorders write for what they do not know."""
    scale = np.where(varying, columns.std, 1.0)
    reach = np.maximum(columns.max - columns.mean, columns.mean - columns.min) / scale
    told = 0
    for column in np.flatnonzero(varying & ((reach > _SUSPECT) | (len(obs) < _FEW))).tolist():
        if told == _MOST_TOLD:
            return
        values = obs[:, column].astype(np.float64)
        far, beyond = far_beyond(values), "a thousand times as far out as all others"
        if not far.size:
            far = np.flatnonzero(np.abs(values - columns.mean[column]) > _FAR_OUT * columns.std[column])
            beyond = f"over {_FAR_OUT:.0f} standard deviations from the mean"
        if not far.size:
            continue
        told += 1
        what = f"{amount(far.size, 'value')} in {column_in_words(column, subject.obs_names)}"
        what += f" {'lies' if far.size == 1 else 'lie'} {beyond}, such as {number(float(values[far[0]]))}."
        advice = (
            "See whether it stands for a missing measurement; if so, name it in missing_words, or drop those episodes."
        )
        place = subject.place(int(far[0]), column)
        yield Finding("warning", "obs.far-out", "obs", what, advice, int(far.size), place)


def _normalised(columns: Columns, varying: npt.NDArray[np.bool_]) -> Iterator[Finding]:
    if np.count_nonzero(varying) < 2:
        return
    mean, std = columns.mean[varying], columns.std[varying]
    if (np.abs(mean) < _LOOKS_NORMALISED).all() and (np.abs(std - 1.0) < _LOOKS_NORMALISED).all():
        what = "All columns have mean 0 and standard deviation 1: the observations look already normalised."
        advice = "A policy trained on them needs the same normalisation where it acts; raw observations are safer."
        yield Finding("note", "obs.normalised", "obs", what, advice)


def _outside(subject: Subject, obs: FloatArray, columns: Columns, bounds: ObsBounds) -> Iterator[Finding]:
    low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
    slack = 1e-4 * np.where(np.isfinite(high - low), high - low, 1.0) + 1e-6
    low, high = low - slack, high + slack
    wrong_columns = np.flatnonzero((columns.min < low) | (columns.max > high)).tolist()
    if not wrong_columns:
        return
    outside = Outside.of(obs, low, high)
    rows, (row, column) = outside.rows, outside.first
    what = f"{amount(rows, 'row')} ({share(rows / len(obs))}) lie outside the environment's observation space, in"
    what += (
        f" {columns_in_words(wrong_columns, subject.obs_names)}; the first is {number(float(obs[row, column]))} where"
    )
    what += f" [{number(bounds[0][column])}, {number(bounds[1][column])}] is possible."
    advice = "Perhaps they were filtered or normalised, or are another environment's: a policy would meet others."
    yield Finding("warning", "obs.outside-space", "obs", what, advice, rows, subject.place(row, column))
