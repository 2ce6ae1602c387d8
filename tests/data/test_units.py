"""Columns that some episodes have in another unit than the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor.screening import screen
from rl_training.data.formats import RawData
from rl_training.data.offline_dataset import TransitionDataset
from sick_data import codes, ends_of, without_successors

CODE = "obs.units"


def tanks(change: Callable[[Any], Any], which: Callable[[Any], Any], column: int = 0) -> dict[str, Any]:
    """The healthy log with a temperature and a pressure in place of two observations, changed in some episodes."""
    arrays = without_successors()
    episode = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"])))
    warmth = 20.0 + np.random.default_rng(1).normal(size=len(episode))
    measured = np.column_stack([warmth, 1.5 + 0.2 * arrays["obs"][:, 1], arrays["obs"][:, 2]])
    measured[:, column] = np.where(which(episode), change(measured[:, column]), measured[:, column])
    return arrays | {"obs": measured.astype(np.float32)}


def test_mbar_from_one_episode_on() -> None:
    finding = codes(tanks(lambda bar: 1000.0 * bar, lambda episode: episode >= 15, column=1))[CODE]
    assert (finding.level, finding.count, finding.place.episode) == ("warning", 9, 15)
    assert finding.what == (
        "Column 1: in the last 9 of 24 episodes values, and how far they vary, are about 1,000 times larger:"
        " another unit?"
    )


def test_fahrenheit_in_every_other_episode() -> None:
    finding = codes(tanks(lambda celsius: 1.8 * celsius + 32.0, lambda episode: episode % 2 == 1))[CODE]
    assert (finding.count, finding.place.episode) == (12, 1)
    assert finding.what == "Column 0: in 12 of 24 episodes values lie, and vary, as °F do beside °C: another unit?"


def levelled(change: Callable[[Any], Any], row: int) -> dict[str, Any]:
    """A temperature that every episode has at another level, which leaves no gap, changed from a row on."""
    arrays = without_successors()
    episode = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"])))
    warmth = 45.0 + 5.0 * (episode % 12) + np.random.default_rng(1).normal(size=len(episode))
    warmth[row:] = change(warmth[row:])
    return arrays | {"obs": np.column_stack([warmth, arrays["obs"][:, 1:]]).astype(np.float32)}


def test_fahrenheit_from_within_an_episode_on() -> None:
    """The first of them is the one it changed in."""
    start = int(ends_of(without_successors())[11]) + 6
    found = codes(levelled(lambda celsius: 1.8 * celsius + 32.0, start))
    assert (found[CODE].count, found[CODE].place.episode, found[CODE].place.row) == (12, 12, start)
    assert found[CODE].what == (
        "Column 0: in the last 12 of 24 episodes values lie, and vary, as °F do beside °C: another unit?"
    )
    assert CODE in codes(levelled(lambda fahrenheit: (fahrenheit - 32.0) / 1.8, start))
    for change in (lambda celsius: celsius + 60.0, lambda celsius: 1.8 * celsius - 20.0, lambda celsius: celsius):
        assert CODE not in codes(levelled(change, start))


def test_kelvins_in_a_few() -> None:
    finding = codes(tanks(lambda celsius: celsius + 273.15, lambda episode: episode % 7 == 2))[CODE]
    assert "as kelvins do beside °C" in finding.what


def test_shares_in_place_of_per_cent_among_actions() -> None:
    arrays = without_successors()
    episode = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"])))
    open_by = 50.0 + 40.0 * arrays["actions"]
    arrays["actions"] = np.where((episode % 3 == 0)[:, None], open_by / 100.0, open_by)
    finding = codes(arrays)["actions.units"]
    assert "in 8 of 24 episodes values, and how far they vary, are about 100 times smaller" in finding.what


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value + 40.0,
        lambda value: 3.0 * value,
        lambda value: 8.0 * value,
        lambda value: 12.0 * value,
        lambda value: 10.0 * value,
        lambda value: 2.0 * value + 30.0,
        lambda value: value + 46.0,
        lambda value: value + 300.0,
        lambda value: 200.0 + 0.1 * value,
        lambda value: value,
    ],
    ids=["set point", "plant", "product", "season", "ten", "far", "recipe", "site", "steady", "same"],
)
def test_other_levels_are_no_other_units(change: Callable[[Any], Any]) -> None:
    assert CODE not in codes(tanks(change, lambda episode: episode >= 12))


def test_one_episode_tells_nothing_nor_do_few() -> None:
    assert CODE not in codes(tanks(lambda bar: 1000.0 * bar, lambda episode: episode == 3, column=1))
    arrays = tanks(lambda bar: 1000.0 * bar, lambda episode: episode >= 2, column=1)
    rows = ends_of(arrays)[3] + 1
    assert CODE not in codes({name: values[:rows] for name, values in arrays.items()})


def test_it_is_told_before_training_too() -> None:
    arrays = tanks(lambda bar: 1000.0 * bar, lambda episode: episode >= 15, column=1)
    dataset = TransitionDataset.from_raw(RawData(arrays, "test"))
    assert CODE in [finding.code for finding in screen(dataset, bounds_known=False)]
