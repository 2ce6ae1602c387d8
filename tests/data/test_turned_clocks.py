"""Steps that go back into a time that their episode covers: the rows of two logs are not put between each other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.errors import DataError

MAPPING: dict[str, Any] = {"obs": ["x"], "actions": "u", "rewards": "r", "step": "t"}
GOES_BACK = "into a time that rows of the episode cover"


def table(times: list[Any], ids: list[Any] | None = None) -> dict[str, Any]:
    rows = np.arange(len(times))
    columns = {"x": rows * 1.0, "u": rows / len(rows), "r": np.ones(len(rows)), "t": times}
    return columns | ({} if ids is None else {"run": ids})


def load(columns: dict[str, Any], **said: Any) -> TransitionDataset:
    mapping = MAPPING | ({"episode_ids": "run"} if "run" in columns else {})
    return TransitionDataset.from_table(columns, mapping, **said)


def night(jitter: bool = True) -> list[str]:
    """Five minutes apart by a clock that is put back from three to two, on row 36."""
    draw = np.random.default_rng(0)
    utc = [datetime(2024, 10, 26, 22) + timedelta(minutes=5 * row) for row in range(72)]
    local = [time + timedelta(hours=2 if time < datetime(2024, 10, 27, 1) else 1) for time in utc]
    late = draw.uniform(0, 2, len(local)) if jitter else np.zeros(len(local))
    return [str(time + timedelta(seconds=round(float(by), 3))) for time, by in zip(local, late, strict=True)]


def follow(dataset: TransitionDataset) -> None:
    """Each row is followed by the next one of the log, or by none."""
    assert dataset.obs[:, 0].tolist() == list(range(len(dataset)))


class TestClocks:
    def test_an_episode_across_the_end_of_summer_time(self) -> None:
        dataset = load(table(night(), ["night"] * 72))
        follow(dataset)
        assert dataset.episode_lengths().tolist() == [36, 36]
        assert any("after row 35 (episode named night), " + GOES_BACK in note for note in dataset.notes)

    def test_a_day_on_which_it_ends(self) -> None:
        dataset = load(table(night()), episode_each="day")
        follow(dataset)
        assert dataset.episode_lengths().tolist() == [36, 36]

    def test_the_time_that_comes_again_to_the_second_is_refused(self) -> None:
        with pytest.raises(
            DataError,
            match=r"occurs twice .* where a clock was put back, as summer time ends, write dates with their zone",
        ):
            load(table(night(jitter=False), ["night"] * 72))

    def test_an_id_of_two_runs(self) -> None:
        """Each counts its own seconds, not quite evenly, and one row is missing."""
        draw = np.random.default_rng(1)
        seconds = [float(s) for _ in range(2) for s in np.delete(np.cumsum(draw.uniform(0.9, 1.1, 21)), 7)]
        dataset = load(table(seconds, [7] * 40))
        follow(dataset)
        assert dataset.episode_lengths().tolist() == [7, 13, 7, 13]

    def test_what_is_told_is_a_warning_that_says_what_to_do(self) -> None:
        (told,) = (note for note in load(table(night(), ["night"] * 72)).notes if GOES_BACK in note)
        assert told.startswith("warning: column 't' goes back in 1 place, after row 35 (episode named night), ")
        assert told.endswith("; if it is one log, sort its rows by 't', else give every log an id of its own")


class TestShuffledRows:
    """They are sorted as before."""

    @pytest.mark.parametrize("seed", range(20))
    def test_of_short_episodes(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        times = np.concatenate([np.cumsum(draw.uniform(0.5, 1.5, 8)) for _ in range(12)])
        ids = np.repeat(np.arange(12), 8)
        order = draw.permutation(96)
        dataset = load(table(times[order].tolist(), ids[order].tolist()))
        assert dataset.episode_lengths().tolist() == [8] * 12
        assert not any(GOES_BACK in note for note in dataset.notes)

    def test_counts_of_which_every_second_came_first(self) -> None:
        dataset = load(table([*range(0, 24, 2), *range(1, 24, 2)], [1] * 24))
        assert dataset.obs[:4, 0].tolist() == [0, 12, 1, 13]

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("parts", ["even and odd", "in turn", "by chance"])
    @pytest.mark.parametrize("kind", ["a step is missing", "jitter", "events", "rounded"])
    def test_logs_written_in_parts(self, kind: str, parts: str, seed: int) -> None:
        """As by Spark, or ordered by another column: one hole, or jitter, switched sorting off."""
        draw = np.random.default_rng(seed)
        times: dict[str, Callable[[], Any]] = {
            "a step is missing": lambda: np.delete(np.arange(200.0), 77),
            "jitter": lambda: np.arange(200) + draw.uniform(-0.2, 0.2, 200),
            "events": lambda: np.cumsum(draw.lognormal(0.0, 1.5, 200)),
            "rounded": lambda: np.round(np.arange(200) / 30, 2),
        }
        logs = [times[kind]() for _ in range(5)]
        at, ids = np.concatenate(logs), np.repeat(np.arange(5), [len(log) for log in logs])
        count = {"even and odd": 2, "in turn": 4, "by chance": 4}[parts]
        part = (
            draw.integers(0, count, len(at))
            if parts == "by chance"
            else np.concatenate([np.arange(len(log)) % count for log in logs])
        )
        order = np.argsort(part, kind="stable")
        columns = table(at[order].tolist(), ids[order].tolist()) | {"x": np.arange(len(at))[order] * 1.0}
        dataset = load(columns)
        follow(dataset)
        assert dataset.n_episodes == (10 if kind == "a step is missing" else 5)
        assert not any(GOES_BACK in note for note in dataset.notes)


class TestEvents:
    """Times without any beat: none of their pauses is known to be a hole."""

    @pytest.mark.parametrize("kind", ["lognormal(1.5)", "lognormal(2)", "pareto(1.5)"])
    def test_are_not_cut(self, kind: str) -> None:
        draw = np.random.default_rng(0)
        strides = {
            "lognormal(1.5)": draw.lognormal(0.0, 1.5, (4, 250)),
            "lognormal(2)": draw.lognormal(0.0, 2.0, (4, 250)),
            "pareto(1.5)": draw.pareto(1.5, (4, 250)) + 0.01,
        }[kind]
        dataset = load(table(np.cumsum(strides, axis=1).ravel().tolist(), np.repeat(np.arange(4), 250).tolist()))
        assert dataset.episode_lengths().tolist() == [250] * 4
        (note,) = (note for note in dataset.notes if "is not evenly spaced" in note)
        assert "rows are missing" not in note

    def test_of_which_some_pause_are_told(self) -> None:
        """As where an id is given again on the next day."""
        draw = np.random.default_rng(2)
        days = [day * 86_400 + np.cumsum(draw.exponential(10, 30)) for day in range(2) for _ in range(2)]
        dataset = load(table(np.concatenate(days).tolist(), np.repeat([1, 2, 1, 2], 30).tolist()))
        assert dataset.episode_lengths().tolist() == [60, 60]
        (note,) = (note for note in dataset.notes if "is not evenly spaced" in note)
        assert "; it pauses in 2 places, first after row 29 (episode named 1): " in note
        assert "rows are missing" not in note


@pytest.mark.parametrize("newest_first", [False, True])
def test_an_episode_of_two_days_ends_with_its_second(newest_first: bool) -> None:
    """Wherever that stands in the file."""
    hours = [f"2024-03-{1 + hour // 24:02} {hour % 24:02}:00:00" for hour in range(20, 30)]
    columns = table(hours, ["a"] * 10)
    if newest_first:
        columns = {name: list(values)[::-1] for name, values in columns.items()}
    dataset = load(columns, episode_each="day", last_rows_are="termination")
    assert sorted(dataset.obs[dataset.terminations, 0].tolist()) == [3, 9]


def test_whole_degrees_are_no_steps() -> None:
    """A `T` that falls was taken for the time, and the rows turned round."""
    degrees = [95 - step * (step + 5) // 2 for _ in range(3) for step in range(6)]
    columns = table(degrees, np.repeat([1, 2, 3], 6).tolist())
    columns["T"] = columns.pop("t")
    mapping = {**{key: name for key, name in MAPPING.items() if key != "step"}, "episode_ids": "run"}
    dataset = TransitionDataset.from_table(columns, mapping)
    follow(dataset)
    assert any(note.startswith("warning: column 'T' goes back inside episodes") for note in dataset.notes)
