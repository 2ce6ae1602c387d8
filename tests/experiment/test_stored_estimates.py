"""Which of the stored estimates leads, and which of the others contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from rl_training.experiment.stored_estimates import (
    contradicted,
    disagreement,
    discounted,
    gain_between,
    in_a_word,
    leading,
    opposed,
    to_show,
)


def estimate(gamma: float = 0.99, low: float = -1.0, high: float = 4.0, **changes: Any) -> dict[str, Any]:
    gain = {"value": 0.5 * (low + high), "low": low, "high": high, "probability": 0.9}
    data = {"title": "a.csv", "fingerprint": "f", "episodes": 80, "share_trained_on": 0.0}
    told = {"step": 50, "seeds": [0, 1], "gamma": gamma, "updates": 5_000, "repeats": 5, "data": data}
    return told | {"behaviour": {"steps": 36.0}, "value": gain, "improvement": gain} | changes


def test_the_newest_leads_though_another_of_its_discount_is_older_than_the_others() -> None:
    records = [estimate(0.99), estimate(0.9), estimate(0.99, repeats=20)]
    assert leading(to_show(records)[0]) == records[2]


def test_one_of_whole_episodes_comes_first() -> None:
    """It is what a person thinks in."""
    records = [estimate(0.99), estimate(1.0), estimate(0.99, repeats=20)]
    assert leading(to_show(records)[0]) == records[1]


def test_opposite_estimates_disagree_and_no_others() -> None:
    whole = estimate(1.0, 1.0, 3.0)
    for low, high, word, said in (
        (-3.0, -1.0, "disputed", "two estimates disagree: "),
        (-3.0, 1.0, "not shown", "two estimates point in different directions; only the undiscounted one excludes"),
        (-1.0, 3.0, "not shown", "both estimates point to a saving; only the undiscounted one excludes zero: "),
    ):
        other = estimate(0.99, low, high)
        assert in_a_word([other, whole]) == (whole, word)
        assert disagreement(whole, opposed(whole, [other, whole]), "saving").startswith(said)
    apart = estimate(1.0, -3.0, 0.5, repeats=20)
    assert disagreement(whole, opposed(whole, [apart, whole])).startswith("two estimates disagree: undiscounted, 5")


def test_those_that_say_otherwise() -> None:
    whole, near = estimate(1.0, 1.0, 3.0), estimate(0.99)
    assert opposed(whole, [near, whole]) == (near,)
    assert opposed(near, [whole, near]) == (whole,)
    assert disagreement(whole, (near,)) == (
        "both estimates point to an improvement; only the undiscounted one excludes zero: undiscounted +2 (1 to 3);"
        " discounted by 0.99 +1.50 (-1.00 to 4.00)"
    )
    assert in_a_word([near, whole]) == (whole, "not shown")


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
        "both estimates point to an improvement; only the one discounted by 0.99, 5 resamples, 5,000 updates excludes"
        " zero: discounted by 0.99, 5 resamples, 5,000 updates +2.50 (1.00 to 4.00); discounted by"
        " 0.99, 20 resamples, 5,000 updates +1.50 (-1.00 to 4.00)"
    )
    assert opposed(thorough, [trial, thorough]) == ()


def test_of_drawn_actions_it_neither_leads_nor_contradicts_nor_replaces_what_is_shipped() -> None:
    shipped, drawn = estimate(low=1.0), estimate(deterministic=False)
    shown, refused = to_show([shipped, drawn])
    assert (shown, refused) == ((shipped, drawn), ())
    assert leading(shown) == shipped
    assert opposed(shipped, [shipped, drawn]) == ()
    assert discounted(drawn) == "discounted by 0.99, with actions drawn at random"
    assert gain_between(shipped, drawn) is None


def test_of_some_seeds_it_leads_not_where_there_is_one_of_all() -> None:
    every, one = estimate(), estimate(seeds=[1])
    shown, _ = to_show([every, one])
    assert shown == (every, one)
    assert leading(shown) == every


def refusal(**changes: Any) -> dict[str, Any]:
    failed = [{"seed": seed, "value": None, "not_trusted_because": ["so few"]} for seed in (0, 1)]
    return estimate(value=None, improvement=None, policies=failed) | changes


STOPPED = {"updates": 1_000, "asked": {"updates": 5_000}}  # as it diverged


@pytest.mark.parametrize("new", [{}, {"repeats": 20}, {"updates": 20_000}, {"seeds": [0, 1, 2]}, STOPPED])
def test_what_is_refused_when_it_is_made_again_is_refused(new: dict[str, Any]) -> None:
    old, trial = estimate(low=1.0), refusal(updates=1_500)
    records = [old, refusal(**new), trial]
    shown, others = to_show(records)
    assert (shown, others) == ((records[1],), (trial, old))
    assert in_a_word(records) == (records[1], "refused")
    assert contradicted(others) == (
        "an older estimate (+2.50 (1.00 to 4.00) over the behaviour, discounted by 0.99) is contradicted: made again as"
        " thoroughly, it was refused"
    )
    again = estimate(low=2.0)
    assert to_show([*records, again]) == ((again,), (records[1], trial))  # and trusted once more
    assert contradicted(to_show([*records, again])[1]) == ""


@pytest.mark.parametrize(
    "other", [{"repeats": 2}, {"updates": 100}, {"gamma": 1.0}, {"data": {"fingerprint": "g"}}, {"seeds": [0]}]
)
def test_what_another_refusal_says_nothing_of_stays(other: dict[str, Any]) -> None:
    old, new = estimate(low=1.0), refusal(**other)
    assert to_show([old, new]) == ((old,), (new,))
    assert to_show([new | refusal(), old]) == ((old,), (refusal(),))  # an older one
    assert in_a_word([old, new]) == (old, "better")


def test_what_is_refused_when_it_is_made_again_opposes_nothing() -> None:
    thorough, trial = estimate(1.0, low=1.0), estimate(0.99)
    assert opposed(thorough, [trial, thorough]) == (trial,)
    assert opposed(thorough, [trial, refusal(), thorough]) == ()
    assert leading(to_show([trial, refusal(), thorough])[0]) == thorough
