"""Numbers as a person writes them."""

from __future__ import annotations

import math

import pytest

from rl_training.data.doctor.wording import alike, within
from rl_training.wording import likely


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.0196, 0.0166, 0.023), ["0.0196", "0.0166", "0.0230"]),
        ((-614.74, -1808.6, -0.0871), ["-614.7", "-1,808.6", "-0.1"]),
        ((-614.74, -1808.6, -0.01), ["-614.7", "-1,808.6", "0.0"]),
        ((14.9, 9.871, 15.0), ["14.9", "9.9", "15.0"]),
        ((0.0, 0.5), ["0.000", "0.500"]),
        ((3.0, 200.0), ["3", "200"]),
        ((2e-7, 1e-7), ["2e-07", "1e-07"]),
        ((math.nan, 1.5), ["nan", "1.5"]),
        ((1.5, math.inf), ["1.5", "inf"]),
    ],
)
def test_numbers_that_stand_together(values: tuple[float, ...], texts: list[str]) -> None:
    assert alike(*values) == texts


@pytest.mark.parametrize(
    ("value", "deviation", "text"),
    [
        (0.00648, 0.911, "0.006"),
        (-9.45e-07, 4.08, "0"),
        (-2.0, 0.911, "-2"),
        (-502.04, 465.9, "-502.0"),
        (0.5, 2e-8, "0.5"),
    ],
)
def test_a_number_to_the_last_digit_of_its_spread(value: float, deviation: float, text: str) -> None:
    assert within(value, deviation) == text


@pytest.mark.parametrize(
    ("probability", "text"), [(0.5, "0.50"), (0.994, "0.99"), (0.996, "> 0.99"), (1.0, "> 0.99"), (0.0, "< 0.01")]
)
def test_an_estimated_probability_is_never_quite_one(probability: float, text: str) -> None:
    assert likely(probability) == text
