"""Numbers as people are shown them."""

from __future__ import annotations

import pytest

from rl_training.wording import readable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-152.34, "-152.3"),
        (10.0, "10.0"),
        (1.2345, "1.23"),
        (0.0041321, "0.00413"),
        (-0.5, "-0.5"),
        (0.0, "0.0"),
        (12345.678, "12345.7"),
        (9_999_999.0, "9999999.0"),
        (1.2345678e7, "1.235e+07"),
        (-1.71846e38, "-1.718e+38"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_scores_keep_the_digits_that_matter(value: float, text: str) -> None:
    assert readable(value) == text
