"""A done is held to the time limit by the rows that its episode had, not by those that are left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset

LENGTH = 20
COLUMNS = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "run"}
WITH_STEP = COLUMNS | {"step": "t"}
LIMIT: list[dict[str, Any]] = [{}, {"max_episode_steps": LENGTH}]


def log(lost: Sequence[int], t: Any = None, *, dones: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """Five episodes of 20 rows, each done at its end and in the rows `dones`, without the rows `lost`."""
    run, count = np.divmod(np.arange(5 * LENGTH), LENGTH)
    table = {
        "run": run,
        "t": count if t is None else t(run, count),
        "x": run + count / 100,
        "u": 0.1 * (-1.0) ** count,
        "r": np.ones(len(run)),
        "done": (count == LENGTH - 1) | np.isin(np.arange(len(run)), dones),
        **more,
    }
    return {name: np.delete(np.asarray(values), lost) for name, values in table.items()}


def terminated(table: dict[str, Any], columns: dict[str, str], **options: Any) -> tuple[int, int]:
    """How many rows are terminations, and how many truncations."""
    dataset = TransitionDataset.from_table(table, columns, **options)
    return int(dataset.terminations.sum()), int(dataset.truncations.sum())


@pytest.mark.parametrize("options", LIMIT)
@pytest.mark.parametrize(
    ("lost", "cuts"),
    [((), 0), ((47,), 1), ((47, 48, 52), 2), ((7, 27, 47, 67, 87), 5), ((40,), 0), ((40, 41, 47), 1)],
    ids=["none", "one", "three", "one of each", "the first", "first and later"],
)
def test_lost_rows_make_no_terminations(lost: tuple[int, ...], cuts: int, options: dict[str, Any]) -> None:
    assert terminated(log(lost), WITH_STEP, **options) == (0, 5 + cuts)


@pytest.mark.parametrize("options", LIMIT)
@pytest.mark.parametrize(
    "t",
    [
        lambda run, count: count + 1,
        lambda run, count: 2 * count,
        lambda run, count: LENGTH * run + count,
        lambda run, count: 0.05 * count,
        lambda run, count: np.datetime64("2024-03-01T08:15") + (5_000 * run + count).astype("m8[m]"),
    ],
    ids=["from 1", "every other", "through all episodes", "seconds", "dates"],
)
def test_however_the_steps_are_counted(t: Any, options: dict[str, Any]) -> None:
    assert terminated(log([47], t), WITH_STEP, **options) == (0, 6)


@pytest.mark.parametrize("options", LIMIT)
@pytest.mark.parametrize("lost", [(40,), (40, 41, 47), (20, 60)])
@pytest.mark.parametrize(
    "t",
    [lambda run, count: 0.5 * count, lambda run, count: 0.1 * count, lambda run, count: 0.1 * (count + 1)],
    ids=["halves", "tenths", "tenths from one"],
)
def test_first_rows_by_other_clocks(t: Any, lost: tuple[int, ...], options: dict[str, Any]) -> None:
    assert terminated(log(lost, t), WITH_STEP, **options)[0] == 0


@pytest.mark.parametrize("options", LIMIT)
@pytest.mark.parametrize("stride", [1, 0.1, 0.05])
@pytest.mark.parametrize("ids", [True, False])
def test_first_rows_by_one_counter(ids: bool, stride: float, options: dict[str, Any]) -> None:
    more = {} if ids else {"run": np.zeros(5 * LENGTH)}
    for lost in ([40], [40, 41, 60], [40, 47]):
        table = log(lost, lambda run, count: stride * (LENGTH * run + count), **more)
        assert terminated(table, WITH_STEP, **options)[0] == 0


def test_a_pause_behind_a_done_is_no_row() -> None:
    """Of an episode that is whole."""
    table = log([], lambda run, count: LENGTH * run + count + 7 * (run > 2), run=np.zeros(5 * LENGTH))
    assert terminated(table, WITH_STEP, max_episode_steps=LENGTH) == (0, 5)


def test_an_early_done_before_missing_rows_is_one() -> None:
    table = log([40, *range(55, 60)], lambda run, count: LENGTH * run + count, dones=[54])
    assert terminated(table, WITH_STEP, max_episode_steps=LENGTH)[0] == 1


def test_of_rows_out_of_order() -> None:
    table, order = log([47]), np.random.default_rng(0).permutation(5 * LENGTH - 1)
    assert terminated({name: values[order] for name, values in table.items()}, WITH_STEP) == (0, 6)


@pytest.mark.parametrize("options", LIMIT)
def test_an_episode_that_is_shorter_by_its_steps_terminated(options: dict[str, Any]) -> None:
    table = log([37, 38, 39, 47], dones=[36])
    assert terminated(table, WITH_STEP, **options) == ((1, 5) if options else (5, 1))


def test_the_note_tells_of_missing_rows() -> None:
    dataset = TransitionDataset.from_table(log([47]), WITH_STEP)
    assert dataset.notes[-1].startswith("done: all 5 episodes they end have 20 rows, with those that are missing, so")


def test_steps_that_go_on_behind_a_done_count_anew() -> None:
    """One id for a whole day, and a done wherever one of its episodes ends."""
    table = log([], lambda run, count: LENGTH * run + count, run=np.zeros(5 * LENGTH))
    assert terminated(table, WITH_STEP, max_episode_steps=LENGTH) == (0, 5)


def test_a_step_of_another_beginning_adds_nothing() -> None:
    """Where few episodes count from 0, the others are not said to have lost their beginning."""
    table = log([], lambda run, count: count + 7 * run)
    assert terminated(table, WITH_STEP, max_episode_steps=LENGTH) == (0, 5)


class TestWithoutSteps:
    """Rows that are missing can be seen, and not be counted."""

    def table(self) -> dict[str, Any]:
        after = np.arange(5 * LENGTH)
        table = log([47], next_obs=(after // LENGTH) + (after % LENGTH + 1) / 100)
        order = np.argsort(table["t"], kind="stable")  # interleaved
        return {name: values[order] for name, values in table.items() if name != "t"}

    def test_whole_episodes_tell_the_limit(self) -> None:
        assert terminated(self.table(), COLUMNS) == (0, 6)

    def test_what_is_not_known_is_told(self) -> None:
        dataset = TransitionDataset.from_table(self.table(), COLUMNS, max_episode_steps=LENGTH)
        assert (dataset.terminations.sum(), dataset.truncations.sum()) == (1, 5)
        assert dataset.notes[-1] == (
            "done after 20 rows are read as truncations, the others as terminations, 1 of them in episodes that lack"
            " rows, nobody knows how many"
        )
