"""The figure of one recorded episode: what was done, and what the policy would do in the same states."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.experiment import manager
from rl_training.experiment.report import datasets, write_report
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.episode import EpisodeCheck, check_episode, episode_figures, observed_figures
from rl_training.experiment.report.times import Times, times_of
from small_runs import small_config


@pytest.fixture
def policy(data_file: Path, tmp_path: Path) -> manager.LoadedPolicy:
    changes = {"seed": [0, 1], "transforms": {"normalise_observations": True}}
    return manager.load_policy(manager.start(small_config(data_file, tmp_path, **changes)).run.path)


def test_is_the_median_episode_and_what_predict_says_of_it(
    policy: manager.LoadedPolicy, dataset: TransitionDataset
) -> None:
    found = check_episode(policy.actor.learner, policy.checkpoint.transforms, dataset, ["Torque"], "log.npz")
    assert found is not None
    returns = dataset.episode_returns()
    middle = np.argsort(returns, kind="stable")[len(returns) // 2]
    rows = np.flatnonzero(dataset.episode_ids == middle)
    assert np.array_equal(found.recorded, dataset.actions[rows])
    assert found.which == f"episode {middle} (from 0) of log.npz, whose return is the median one"
    for member in range(2):
        said = policy.predict(dataset.obs[rows], seed=member)
        np.testing.assert_allclose(found.chosen[member], said, atol=1e-5)
    learner, transforms = policy.actor.learner, policy.checkpoint.transforms
    other = check_episode(learner, transforms, dataset, ["Torque"], "log.npz", taken=1)
    assert other is not None
    assert np.array_equal(other.chosen, found.chosen[::-1])


def test_rows_that_are_no_episodes_have_none(policy: manager.LoadedPolicy, dataset: TransitionDataset) -> None:
    some = dataset.select(np.arange(0, len(dataset), 3))
    assert check_episode(policy.actor.learner, policy.checkpoint.transforms, some, ["Torque"], "log.npz") is None


def test_runs_of_the_same_episode_share_a_figure(policy: manager.LoadedPolicy) -> None:
    assert policy.place is not None
    (run,) = read_runs([policy.place])
    recorded, chosen = np.zeros((5, 2)), np.ones((2, 5, 2))
    one = EpisodeCheck(recorded, chosen, ("<Heat>", "Vent"), "episode 1 of log", recorded, ("<T>", "u"))
    other = EpisodeCheck(recorded + 1.0, chosen, ("<Heat>", "Vent"), "episode 1 of log", recorded, ("<T>", "u"))
    assert len(episode_figures([run, run], [one, one])) == 2
    assert len(episode_figures([run, run, run], [one, other, None])) == 4
    (first, _) = episode_figures([run], [one])
    assert first.caption.startswith("<b>&lt;Heat&gt;</b> in episode 1 of log: what was done (dots)")
    drawn = first.draw((440, 280))
    assert drawn.count('class="dots"') == 1
    assert drawn.count('class="line"') == 1


def test_what_was_observed_is_shown_where_it_has_names() -> None:
    recorded, chosen = np.zeros((5, 2)), np.ones((2, 5, 2))
    one = EpisodeCheck(recorded, chosen, ("Heat", "Vent"), "episode 1 of log", recorded, ("<T>", "u"))
    (first, _) = observed_figures([one, None, one])  # once for all runs
    assert first.caption == "<b>&lt;T&gt;</b> in episode 1 of log, as it was recorded."
    assert first.draw((440, 280)).count('class="dots"') == 1
    assert observed_figures([replace(one, seen_names=())]) == []


def test_the_axis_has_the_times_of_a_dated_table(tmp_path: Path) -> None:
    """By the table's own dates; of rows that were written anew, by the time of day among the observations."""
    rows = [f"2025-03-{day:02d} {hour:02d}:00,{day + hour / 24},0.5,1" for day in (1, 2) for hour in range(24)]
    (tmp_path / "log.csv").write_text("\n".join(["time,temp,u,eur", *rows]))
    columns = {"obs": "temp", "actions": "u", "rewards": "eur", "step": "time"}
    options: dict[str, Any] = {"columns": columns, "episode_each": "day", "observe_time": ["day"]}
    data = TransitionDataset.load(tmp_path / "log.csv", **options)
    assert data.in_file is not None
    dated = times_of(data, slice(24, 48))
    assert dated is not None
    assert (dated.day, dated.label) == ("2025-03-02", "time, from 2025-03-02")
    assert dated.ticks() == [(float(hour), f"{hour:02d}:00") for hour in range(0, 24, 3)]
    bare = times_of(replace(data, in_file=replace(data.in_file, clock=None)), slice(24, 48))
    assert bare is not None
    assert (bare.day, bare.label, bare.ticks()) == ("", "time of day", dated.ticks())
    assert times_of(data, slice(0, 1)) is None  # of a single row there is no axis
    assert times_of(replace(data, in_file=None), slice(24, 48)) is None
    long = Times(np.arange(0.0, 12 * 86_400.0, 86_400.0), dated=True)
    assert [text for _, text in long.ticks()] == ["1970-01-01", "1970-01-08"]
    recorded, chosen = np.zeros((24, 1)), np.ones((1, 24, 1))
    seen = np.zeros((24, 3))
    check = EpisodeCheck(recorded, chosen, ("u",), "episode 2 of log", seen, ("temp", "sin_day", "cos_day"), dated)
    (drawn,) = observed_figures([check])  # what the axis tells needs no figure
    assert "21:00" in drawn.draw((440, 280))


def test_all_runs_are_shown_on_the_same_episode(policy: manager.LoadedPolicy, data_file: Path, tmp_path: Path) -> None:
    """One that learns no values, too, and one that was trained on other data of the same environment."""
    assert policy.place is not None
    data = TransitionDataset.load(data_file)
    data.select(np.flatnonzero(data.episode_ids < 5)).save(tmp_path / "some.npz")
    clone = manager.start(small_config(data_file, tmp_path, "bc", name="clone")).run.path
    other = manager.start(small_config(tmp_path / "some.npz", tmp_path, name="other")).run.path
    data.select(np.flatnonzero(data.episode_ids >= 5)).save(tmp_path / "aside.npz")
    write_report([policy.place, clone, other], tmp_path / "page.html", held_out=str(tmp_path / "aside.npz"))
    page = (tmp_path / "page.html").read_text()
    told = re.findall(r"in (episode [^:]*): what was done \(dots\), and what ([^<]*) would", page)
    assert [(which.split(",")[0].split(" of ")[1], who) for which, who in told] == [("aside.npz", "each of 3 policies")]


def test_runs_of_other_worlds_are_not(policy: manager.LoadedPolicy, tmp_path: Path) -> None:
    """Data of as many columns, with nothing that says that these are the same."""
    assert policy.place is not None
    (run,) = read_runs([policy.place])
    shelf, spaces = datasets.Shelf(), policy.checkpoint.spaces
    one, two = (TransitionDataset.load(_path(policy)) for _ in range(2))
    assert shelf.to_be_shown(run, spaces, one, "one") == (one, "one")
    assert shelf.to_be_shown(run, spaces, two, "two")[1] == "two"  # no environment, and no names
    assert shelf.to_be_shown(run, spaces, one, "again")[1] == "one"
    asked = datasets.Shelf("aside.npz")
    assert [asked.to_be_shown(run, spaces, data, name)[1] for data, name in ((one, "one"), (two, "two"))] == ["one"] * 2


def _path(policy: manager.LoadedPolicy) -> str:
    return str(policy.checkpoint.config.dataset.path)  # type: ignore[union-attr]


def test_is_one_of_all_episodes(policy: manager.LoadedPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other figures are of some episodes, the number is still that of the data."""
    assert policy.place is not None
    write_report([policy.place], tmp_path / "whole.html")
    few = datasets.some_episodes
    monkeypatch.setattr(datasets, "some_episodes", lambda data: few(data, 500))
    write_report([policy.place], tmp_path / "some.html")
    told = [
        re.findall(r"in (episode [^:]*): what was done", (tmp_path / name).read_text())
        for name in ("whole.html", "some.html")
    ]
    assert told[0] == told[1] != []


def test_held_out_columns_in_another_order_are_not_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=60) for name in ("warm", "wet", "pay")} | {"u": rng.uniform(-1, 1, 60)}
    table["t"] = np.tile(np.arange(5), 12)
    lines = [",".join(table), *(",".join(str(values[row]) for values in table.values()) for row in range(60))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    columns: dict[str, Any] = {"obs": ["warm", "wet"], "actions": "u", "rewards": "pay", "step": "t"}
    section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns}
    run = manager.start(small_config(None, tmp_path, "iql", dataset=section, total_timesteps=2)).run
    other = TransitionDataset.load(tmp_path / "log.csv", columns={**columns, "obs": ["wet", "warm"]})
    with pytest.warns(UserWarning, match="CSV has no place"):
        other.save(tmp_path / "other.csv")
    write_report([run.path], tmp_path / "page.html", held_out=str(tmp_path / "other.csv"))
    page = (tmp_path / "page.html").read_text()
    assert "obs are wet, warm, in that order, and the policy was trained on warm, wet" in page


def test_is_on_the_page(policy: manager.LoadedPolicy, tmp_path: Path) -> None:
    assert policy.place is not None
    write_report([policy.place], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert (
        "what the policy would do in the same states (line: the seed that export takes, band: the span of all 2 seeds)"
        in page
    )
