"""A ridge regression on numbers of rows and their powers, scored on episodes that it has not seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import IndexArray
from rl_training.data.doctor.subject import Subject
from rl_training.data.statistics import sample_rows

Matrix = npt.NDArray[np.float64]

ROWS_PER_TERM = 8
FAR = 4.0  # standard deviations
_POWERS_UP_TO, _PRODUCTS_UP_TO = 60, 20
_RIDGE = 1e-6


def rows_with_neighbours(subject: Subject, most: int) -> IndexArray:
    """A sample of the rows that have a row of their episode before and one after them."""
    inside = np.ones(subject.rows, dtype=np.bool_)
    inside[subject.starts] = False
    inside[subject.ends] = False
    return sample_rows(np.flatnonzero(inside), most)


def held_out(subject: Subject, rows: IndexArray) -> npt.NDArray[np.bool_]:
    """About a third of the rows: of every third episode, or of the end of each where there are few."""
    episodes = np.searchsorted(subject.ends, rows)
    if len(subject.ends) >= 6:
        return np.asarray(episodes % 3 == 0)
    within = (rows - subject.starts[episodes]) / subject.lengths[episodes]
    return np.asarray(within > 0.7)


def standard(values: Matrix) -> Matrix:
    scale = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _terms(values: Matrix) -> list[Matrix]:
    """The numbers and their squares; of few numbers also products and higher powers, which angles and costs need.

    Never more terms than the rows can determine.
    """
    rows, width = values.shape
    square = values * values
    terms = [values]
    if 2 * width <= rows / ROWS_PER_TERM:
        terms.append(square)
    if width <= _PRODUCTS_UP_TO and width * width / 2 <= rows / ROWS_PER_TERM:
        one, other = np.triu_indices(width, k=1)
        terms.append(values[:, one] * values[:, other])
    if width <= _POWERS_UP_TO and 4 * width <= rows / ROWS_PER_TERM:
        terms += [square * values, square * square]
    return terms


class Ridge:
    """A regression whose inputs are prepared once for several targets."""

    def __init__(self, inputs: Matrix, held_out: npt.NDArray[np.bool_]) -> None:
        features = np.concatenate([*_terms(inputs), np.ones((len(inputs), 1))], axis=1)
        self.train, self.test, self.held_out = features[~held_out], features[held_out], held_out
        self.gram = self.train.T @ self.train
        self.gram[np.diag_indices_from(self.gram)] += _RIDGE * len(self.train)

    def explained(self, target: Matrix) -> float:
        """Share of the target's variance explained in the rows held out; 0 where there is none to explain."""
        train, test = target[~self.held_out], target[self.held_out]
        if not len(test) or not len(train) or test.var() == 0.0:
            return 0.0
        middle = train.mean()
        weights = np.linalg.solve(self.gram, self.train.T @ (train - middle))
        return float(1.0 - np.mean((test - middle - self.test @ weights) ** 2) / test.var())
