"""Whether rows follow each other: stored successors against the next row, jumps, and rows that occur twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FloatArray, IndexArray
from rl_training.data.doctor.findings import Finding
from rl_training.data.doctor.raw_checks import chunks
from rl_training.data.doctor.subject import Columns, Subject
from rl_training.data.doctor.wording import column_in_words, listed, share
from rl_training.data.statistics import sample_rows
from rl_training.wording import amount

_MOST = 0.5
_RIDGE = 1e-6
# A border shows as a step of unusual size that the usual dynamics does not explain. Both are measured against what is
# usual in the data, so that impacts and spins, which are large but follow the dynamics, are left alone.
_USUAL_STEP, _FAR_STEP = 97.0, 1.7
_USUAL_SURPRISE, _FAR_SURPRISE = 90.0, 8.0
_LEAST_ROWS = 200
_LEAST_COPIES = 5  # rows: fewer may stand still by chance
_WIDEST = 2_000
_FEW_LEVELS, _LEVELS_SAMPLE = 10, 5_000  # values of a set point or a mode, which is switched, in so many rows
_MOST_NAMED = 3


def check_successors(subject: Subject, columns: Columns) -> Iterator[Finding]:
    """Stored successors, or without them the steps from row to row."""
    if not subject.whole_episodes or not subject.inner.size:
        return
    assert subject.obs is not None
    if subject.next_obs is None:
        yield from _jumps(subject, columns)
    else:
        yield from check_stored_successors(subject, columns)


def check_stored_successors(subject: Subject, columns: Columns | None = None) -> Iterator[Finding]:
    """Stored successors against the next rows. Without the columns' statistics it is quick: these are taken from a
    sample, and so are the rows where most of the sample differ."""
    if not subject.whole_episodes or not subject.inner.size or subject.obs is None or subject.next_obs is None:
        return
    inner = subject.inner
    if columns is None:
        columns = Columns.of(subject.obs[sample_rows(subject.rows)])
        some = sample_rows(inner)
        if _mismatches(subject, columns, some).size > _MOST * some.size:
            inner = some
    different = _mismatches(subject, columns, inner)
    part = different.size / inner.size
    if different.size and part > _MOST:
        yield _most_differ(subject, different, part)
    elif different.size:
        what = f"In {amount(different.size, 'row')} inside episodes next_obs is not the next row's obs: the rows do not"
        what += " follow each other there."
        advice = "Probably unmarked ends of episodes (mark these rows as truncated) or rows that were dropped."
        place = subject.place(int(different[0]))
        yield Finding("warning", "successors.mismatch", "next_obs", what, advice, int(different.size), place)
    yield from _ends_that_go_on(subject, columns)


def _mismatches(subject: Subject, columns: Columns, rows: IndexArray) -> IndexArray:
    """Those of the rows whose stored successor is not the next row, by more than rounding."""
    obs, next_obs = subject.obs, subject.next_obs
    assert obs is not None
    assert next_obs is not None
    tolerance = 1e-4 * columns.std + 1e-6 * np.maximum(np.abs(columns.min), np.abs(columns.max)) + 1e-12
    found = []
    for suspects in _unequal(obs, next_obs, rows):
        gap = np.abs(next_obs[suspects].astype(np.float64) - obs[suspects + 1])
        found.append(suspects[(gap > tolerance).any(axis=1)])
    return np.concatenate(found)


def _unequal(obs: FloatArray, next_obs: FloatArray, rows: IndexArray) -> Iterator[IndexArray]:
    """Those of the rows whose stored successor is not exactly the next row, a piece at a time."""
    if len(rows) < len(obs) // 2:
        for part in chunks(len(rows)):
            here = rows[part]
            yield here[(next_obs[here] != obs[here + 1]).any(axis=1)]
        return
    asked = np.zeros(len(obs), dtype=np.bool_)  # most rows: slices are several times faster than picking them
    asked[rows] = True
    for part in chunks(len(obs) - 1):
        following = slice(part.start + 1, part.stop + 1)
        entries = np.flatnonzero(next_obs[part] != obs[following])
        wrong = np.zeros(part.stop - part.start, dtype=np.bool_)
        wrong[entries // obs.shape[1]] = True
        yield part.start + np.flatnonzero(wrong & asked[part])


def _most_differ(subject: Subject, different: IndexArray, part: float) -> Finding:
    assert subject.obs is not None
    assert subject.next_obs is not None
    sample = sample_rows(different)
    place = subject.place(int(different[0]))
    copied = (subject.next_obs[sample] == subject.obs[sample]).all(axis=1).mean() > _MOST
    if copied and different.size >= _LEAST_COPIES:
        what = f"next_obs is a copy of obs in most rows ({share(part)} are not followed by it): nothing ever changes."
        advice = "Store the observation after the action; or leave next_obs out, and the next row is taken."
        return Finding("error", "successors.copied", "next_obs", what, advice, int(different.size), place)
    what = (
        f"next_obs is not the next row's obs in {share(part)} of the rows: the rows are shuffled, or some are missing."
    )
    advice = (
        "Returns, lengths and next actions mean nothing then; keep the recorded order, or the successors are wrong."
    )
    return Finding("warning", "successors.mismatch", "next_obs", what, advice, int(different.size), place)


def _ends_that_go_on(subject: Subject, columns: Columns) -> Iterator[Finding]:
    """Ends whose stored successor is the first observation of the next episode: taken after a reset, or no ends."""
    obs = subject.obs
    assert obs is not None
    ends = subject.ends[:-1]
    if subject.has_next_obs is not None:  # nobody takes those for successors
        ends = ends[subject.has_next_obs[ends]]
    if not ends.size:
        return
    same = np.setdiff1d(ends, _mismatches(subject, columns, ends))
    truncated = np.zeros(subject.rows, dtype=np.bool_) if subject.truncations is None else subject.truncations
    cut = same[truncated[same]]
    cuts = np.count_nonzero(truncated[ends])
    usual = np.percentile(step_sizes(obs, sample_rows(subject.inner), columns), _USUAL_STEP)
    if cut.size > max(1, _MOST * cuts) and np.median(step_sizes(obs, cut, columns)) > usual:
        yield _reset(subject, cut)
    elif same.size <= _MOST * ends.size:  # else one long episode, cut into pieces
        far = step_sizes(obs, same, columns) > _FAR_STEP * usual
        if (far & truncated[same]).any():
            yield _reset(subject, same[far & truncated[same]])
        if not far.all():
            yield from _no_ends(subject, same[~far])


def _reset(subject: Subject, rows: IndexArray) -> Finding:
    one = rows.size == 1
    what = f"In {amount(rows.size, 'row')} that {'ends' if one else 'end'} an episode by truncation, next_obs is the"
    what += " first obs of the next one."
    advice = "Store the observation before the reset; or leave next_obs out, and these rows are not trained on."
    return Finding("error", "successors.reset", "next_obs", what, advice, int(rows.size), subject.place(int(rows[0])))


def _no_ends(subject: Subject, rows: IndexArray) -> Iterator[Finding]:
    """Rows marked as ends after which the episode goes on, where other ends are followed by something else."""
    assert subject.obs is not None
    assert subject.next_obs is not None
    _, which, counts = np.unique(subject.obs[subject.starts], axis=0, return_inverse=True, return_counts=True)
    once = counts[which.reshape(-1)] == 1  # where episodes start in the same place, the next one may do so by chance
    going_on = rows[(subject.next_obs[rows] == subject.obs[rows + 1]).all(axis=1)]
    going_on = going_on[once[np.searchsorted(subject.ends, going_on) + 1]]
    if not going_on.size:
        return
    terminated = subject.terminations is not None and bool(subject.terminations[going_on[0]])
    one = going_on.size == 1
    what = f"{amount(going_on.size, 'row')} {'is' if one else 'are'} marked as the end of an episode, but next_obs is"
    what += " exactly the next row's obs, which it is not at the other ends: the episode seems to go on there."
    advice = "Remove the flag where nothing ended; a false termination tells the algorithm that no reward follows."
    field = "terminations" if terminated else "truncations"
    place = subject.place(int(going_on[0]))
    yield Finding("warning", "flags.mid-episode", field, what, advice, int(going_on.size), place)


def step_sizes(obs: FloatArray, rows: IndexArray, columns: Columns) -> npt.NDArray[np.float64]:
    """Length of the step to the next row, in standard deviations per column."""
    scale = np.where(columns.std > 0, columns.std, 1.0)
    step = (obs[rows + 1].astype(np.float64) - obs[rows]) / scale
    return np.asarray(np.sqrt(np.mean(step * step, axis=1)))


def _jumps(subject: Subject, columns: Columns) -> Iterator[Finding]:
    """Steps inside episodes that are large and that a linear model of the dynamics does not expect."""
    obs, inner = subject.obs, subject.inner
    assert obs is not None
    varying = np.flatnonzero(columns.std > 0)
    if inner.size < _LEAST_ROWS or not 0 < len(varying) <= _WIDEST:
        return
    levels = obs[sample_rows(subject.rows, _LEVELS_SAMPLE)]
    varying = np.array([c for c in varying.tolist() if len(np.unique(levels[:, c])) > _FEW_LEVELS], dtype=np.int64)
    if not len(varying):
        return
    model = _LinearSteps(subject, columns, varying)
    sample = sample_rows(inner)
    steps, surprises = model.measure(sample)
    far = np.percentile(steps, _USUAL_STEP) * _FAR_STEP, np.percentile(surprises, _USUAL_SURPRISE) * _FAR_SURPRISE
    if far[1] <= 0:
        return
    found = []
    for part in chunks(len(inner)):
        steps, surprises = model.measure(inner[part])
        found.append(inner[part][(steps > far[0]) & (surprises > far[1])])
    jumps = np.concatenate(found)
    if not jumps.size:
        return
    where = listed([model.name_of(column) for column in model.furthest(jumps)])
    what = f"After {amount(jumps.size, 'row')} inside episodes the next row is far from what the usual steps lead to,"
    what += f" most of all in {where}."
    advice = "Probably unmarked ends of episodes: mark these rows as truncated (or terminated, where the task ended)."
    if subject.ends_told:
        advice = "Rows that are missing, a faulty sensor, or a change from outside; the policy cannot foresee it."
    if subject.days is not None and 2 * (between := int((subject.days[jumps] != subject.days[jumps + 1]).sum())) > len(
        jumps
    ):
        what += f" {between:,} of them {'lies' if between == 1 else 'lie'} between two days."
        advice = "Is each day an episode? Then say episode_each: day."
    place = subject.place(int(jumps[0]))
    yield Finding("warning", "successors.jump", "obs", what, advice, int(jumps.size), place)


class _LinearSteps:
    """A ridge regression of the step on the observation and the action, in standard units."""

    def __init__(self, subject: Subject, columns: Columns, varying: IndexArray) -> None:
        assert subject.obs is not None
        self.obs, self.actions, self.varying = subject.obs, subject.actions, varying
        self.names = subject.obs_names
        self.mean, self.scale = columns.mean[varying], columns.std[varying]
        if self.actions is not None:
            some = self.actions[sample_rows(subject.rows)].astype(np.float64)
            self.action_mean, self.action_scale = some.mean(axis=0), some.std(axis=0) + 1e-9
        sample = sample_rows(subject.inner)
        inputs, steps = self._inputs(sample), self._steps(sample)
        gram = inputs.T @ inputs
        gram[np.diag_indices_from(gram)] += _RIDGE * len(inputs)
        self.weights = np.linalg.solve(gram, inputs.T @ steps)
        errors = steps - inputs @ self.weights
        spread = 1.4826 * np.median(np.abs(errors), axis=0)
        # A column that mostly follows exactly (a goal, a flag) has no usual error to compare with.
        self.spread = np.where(spread < 0.01 * errors.std(axis=0) + 1e-9, np.inf, spread)

    def measure(self, rows: IndexArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Sizes of the steps after these rows, and how far each is from the expected one."""
        steps = self._steps(rows)
        errors = (steps - self._inputs(rows) @ self.weights) / self.spread
        return np.sqrt((steps * steps).mean(axis=1)), np.sqrt((errors * errors).mean(axis=1))

    def furthest(self, rows: IndexArray) -> list[int]:
        """The columns of the observations that are furthest from what was expected, most often first."""
        some = sample_rows(rows)
        errors = np.abs((self._steps(some) - self._inputs(some) @ self.weights) / self.spread)
        counts = np.bincount(errors.argmax(axis=1), minlength=len(self.varying))
        often = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        return [int(self.varying[column]) for column in often[:_MOST_NAMED]]

    def name_of(self, column: int) -> str:
        return column_in_words(column, self.names)

    def _steps(self, rows: IndexArray) -> npt.NDArray[np.float64]:
        step = self.obs[rows + 1].astype(np.float64) - self.obs[rows]
        return np.asarray(step[:, self.varying] / self.scale)

    def _inputs(self, rows: IndexArray) -> npt.NDArray[np.float64]:
        parts = [(self.obs[rows][:, self.varying] - self.mean) / self.scale, np.ones((len(rows), 1))]
        if self.actions is not None:
            parts.append((self.actions[rows] - self.action_mean) / self.action_scale)
        return np.concatenate(parts, axis=1)
