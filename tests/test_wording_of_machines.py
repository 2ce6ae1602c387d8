"""What is said of machines and times, in one way everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from rl_training.wording import cores_and_threads, milliseconds


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.13, "130 ms"),
        (0.0033, "3.3 ms"),
        (2.34, "2,300 ms"),
        (0.0000421, "0.042 ms"),
        (0.00996, "10 ms"),
        (0.0, "0 ms"),
    ],
)
def test_no_power_of_ten(seconds: float, told: str) -> None:
    assert milliseconds(seconds) == told


@pytest.mark.parametrize(
    ("cores", "threads", "told"),
    [(2, 1, "2 cores, torch uses 1 thread"), (1, None, "1 core"), (None, 3, "torch uses 3 threads"), ("x", [], "")],
)
def test_threads(cores: Any, threads: Any, told: str) -> None:
    assert cores_and_threads(cores, threads) == told
