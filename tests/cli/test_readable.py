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
        (float("nan"), "nan"),
    ],
)
def test_scores_keep_the_digits_that_matter(value: float, text: str) -> None:
    assert readable(value) == text
