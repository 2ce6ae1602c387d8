"""Statistics of columns: numpy's own numbers, without a copy of the data."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rl_training.data.statistics import mean_and_deviation


@pytest.mark.parametrize("rows", [1, 2, 16_383, 16_384, 16_385, 100_000])
@pytest.mark.parametrize("width", [1, 3])
def test_are_those_of_numpy_in_float64(rows: int, width: int) -> None:
    values = np.random.default_rng(rows).normal(3.0, 2.0, (rows, width)).astype(np.float32)
    mean, deviation = mean_and_deviation(values)
    np.testing.assert_array_equal(mean, values.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(deviation, values.astype(np.float64).std(axis=0), rtol=1e-13)


def test_far_from_zero_keep_their_digits() -> None:
    values = (1e6 + np.random.default_rng(0).normal(0.0, 1.0, (50_000, 2))).astype(np.float32)
    values[0] = 0.0  # no row stands for the others
    np.testing.assert_allclose(mean_and_deviation(values)[1], values.astype(np.float64).std(axis=0), rtol=1e-13)


def test_of_a_constant_column() -> None:
    assert mean_and_deviation(np.full((20_000, 1), 0.5, dtype=np.float32)) == (0.5, 0.0)


def test_need_little_memory() -> None:
    values = np.ones((500_000, 8), dtype=np.float32)  # 16 MB; a copy in float64 would be 32 MB
    tracemalloc.start()
    try:
        mean_and_deviation(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6
