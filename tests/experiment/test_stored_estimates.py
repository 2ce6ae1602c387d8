"""Which of the stored estimates leads, and which of the others contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from rl_training.experiment.stored_estimates import disagreement, in_a_word, leading, opposed, to_show


def estimate(gamma: float = 0.99, low: float = -1.0, high: float = 4.0, **changes: Any) -> dict[str, Any]:
    gain = {"value": 0.5 * (low + high), "low": low, "high": high, "probability": 0.9}
    data = {"title": "a.csv", "fingerprint": "f", "episodes": 80, "share_trained_on": 0.0}
    told = {"step": 50, "seeds": [0, 1], "gamma": gamma, "updates": 5_000, "repeats": 5, "data": data}
    return told | {"behaviour": {"steps": 36.0}, "value": gain, "improvement": gain} | changes


def test_the_newest_leads_though_another_of_its_discount_is_older_than_the_others() -> None:
    records = [estimate(0.99), estimate(1.0), estimate(0.99, repeats=20)]
    assert leading(to_show(records)[0]) == records[2]


def test_those_that_say_otherwise() -> None:
    whole, near = estimate(1.0, 1.0, 3.0), estimate(0.99)
    assert opposed(whole, [near, whole]) == (near,)
    assert opposed(near, [whole, near]) == (whole,)
    assert disagreement(whole, (near,)) == (
        "two estimates disagree: undiscounted +2 (1 to 3); discounted by 0.99 +1.50 (-1.00 to 4.00)"
    )
    assert in_a_word([near, whole]) == (whole, "disputed")


@pytest.mark.parametrize(
    "other",
    [
        {"step": 40},
        {"seeds": [0]},
        {"data": {"fingerprint": "g"}},
        {"value": None, "improvement": None},
        {"gamma": 0.9, "behaviour": {"steps": 96.0}},  # of the beginning of an episode alone
        {"improvement": {"value": 2.0, "low": 0.5, "high": 3.5}},
    ],
)
def test_those_that_say_nothing_against_it(other: dict[str, Any]) -> None:
    whole = estimate(1.0, 1.0, 3.0)
    assert opposed(whole, [estimate() | other, whole]) == ()


def test_less_work_does_not_replace_more_of_the_same_discount() -> None:
    thorough, trial = estimate(repeats=20), estimate(low=1.0)
    assert opposed(trial, [thorough, trial]) == (thorough,)
    assert disagreement(trial, (thorough,)) == (
        "two estimates disagree: discounted by 0.99, 5 resamples, 5,000 updates +2.50 (1.00 to 4.00); discounted by"
        " 0.99, 20 resamples, 5,000 updates +1.50 (-1.00 to 4.00)"
    )
    assert opposed(thorough, [trial, thorough]) == ()
