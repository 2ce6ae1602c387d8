"""Words in columns of numbers that stand for missing values, as `init` guesses them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rl_training.data.missing_marks import number_of, words_as_missing


def column(*words: str, numbers: int = 100) -> np.ndarray:
    return np.array([*(f"{n / 4}".replace(".", ",") for n in range(numbers)), *words], dtype=object)


def test_a_few_words_among_numbers_are_missing_values() -> None:
    found = words_as_missing({"temp": column("n/v", "", "n/v"), "other": np.arange(3.0)})
    assert found.words == ("n/v",)
    assert found.columns["temp"].dtype == np.float64
    assert np.isnan(found.columns["temp"][100:]).all()
    assert found.columns["temp"][3] == 0.75
    assert found.columns["other"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "cells",
    [
        column(),
        column(*["n/v"] * 20),  # too many to be exceptions
        column("a", "b", "c", "d"),  # several texts
        column("-3 °C"),  # a number with its unit
        np.array([*["0"] * 90, *["1"] * 9, "ERR"], dtype=object),  # a code
        np.array(["a", "b"], dtype=object),
        np.array([["1", "2"]], dtype=object),
    ],
    ids=["numbers", "many", "texts", "unit", "code", "words", "matrix"],
)
def test_what_is_left_as_it_is(cells: np.ndarray) -> None:
    found = words_as_missing({"temp": cells})
    assert found.words == ()
    assert found.columns["temp"] is cells


def test_columns_of_texts_are_left_alone() -> None:
    assert words_as_missing({"batch": column("test")}, ["batch"]).words == ()


@pytest.mark.parametrize("mark", ["999.9", "-99.9", "99.99", "-9999"])
def test_nines_with_decimals_are_marks_too(mark: str) -> None:
    found = words_as_missing({"bar": np.array([*np.linspace(0.1, 1.5, 60), float(mark), float(mark)])})
    assert found.words == (mark,)
    assert np.isnan(found.columns["bar"][60:]).all()


def test_nines_among_others_like_them_are_numbers() -> None:
    assert words_as_missing({"per cent": np.array([*np.linspace(0.0, 99.0, 60), 99.9])}).words == ()


def test_numbers_with_either_sign() -> None:
    assert [number_of("1,5"), number_of("-2.5"), number_of("7")] == [1.5, -2.5, 7.0]
    assert math.isnan(number_of("n/v"))
