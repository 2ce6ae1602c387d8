"""Which of the settings that differ are shown at once: those that change the learning or what a score means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.settings import settings, told_apart
from rl_training.experiment.run_listing import RunSummary, differing_values


def runs(*configs: dict[str, Any], sums: tuple[str | None, ...] = ()) -> list[RunContents]:
    return [
        RunContents(
            number,
            Path(f"run-{number}"),
            f"run-{number}",
            RunSummary(f"run-{number}", Path(f"run-{number}"), "finished"),
            {"dataset": {"fingerprint": sums[number]}} if sums else {},
            config,
        )
        for number, config in enumerate(configs)
    ]


def split(*configs: dict[str, Any], sums: tuple[str | None, ...] = ()) -> tuple[set[str], set[str]]:
    first, rest = told_apart(runs(*configs, sums=sums), differing_values(configs))
    return set(first), set(rest)


IQL = {"algo": "iql", "algo_kwargs": {"expectile": 0.7, "beta": 3.0, "actor_lr": 3e-4}}
BC = {"algo": "bc", "algo_kwargs": {"best_fraction": 1.0, "actor_lr": 3e-4}}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": [0, 1]},
        {"runs_dir": "elsewhere"},
        {"tracking": [{"tracker": "wandb"}]},
        {"log_interval": 5},
        {"eval_interval": 7},
        {"evaluation": {"max_envs": 3}},
        {"device": "cuda"},
    ],
)
def test_what_does_not_change_the_learning_is_folded(change: dict[str, Any]) -> None:
    usual = {**IQL, "seed": 0, "runs_dir": "runs", "tracking": [], "log_interval": 100, "eval_interval": 1}
    usual |= {"device": "cpu", "evaluation": {"max_envs": 64}}
    first, rest = split(usual, {**usual, **change})
    assert first == set()
    assert len(rest) == 1


@pytest.mark.parametrize("change", [{"total_timesteps": 5}, {"evaluation": {"episodes": 3}}, {"precision": "bf16"}])
def test_what_changes_it_or_the_score_is_shown(change: dict[str, Any]) -> None:
    usual = {**IQL, "total_timesteps": 9, "evaluation": {"episodes": 10}, "precision": "auto"}
    first, rest = split(usual, {**usual, **change})
    assert (len(first), rest) == (1, set())


def test_parameters_that_an_algorithm_does_not_have() -> None:
    other = {**IQL, "algo_kwargs": {**IQL["algo_kwargs"], "beta": 0.3}}  # type: ignore[dict-item]
    first, rest = split(IQL, other, BC)
    assert first == {"algo", "algo_kwargs.beta"}
    assert rest == {"algo_kwargs.expectile", "algo_kwargs.best_fraction"}
    assert split(IQL, {**BC, "algo_kwargs": {"actor_lr": 1e-3}})[0] == {"algo", "algo_kwargs.actor_lr"}
    without = {**IQL, "algo_kwargs": {"beta": 3.0, "actor_lr": 3e-4}}
    assert split(IQL, without)[0] == {"algo_kwargs.expectile"}  # of the same algorithm: said, and not said


def test_the_same_data_in_another_place() -> None:
    here, there = ({**IQL, "dataset": {"path": path}} for path in ("a/log.npz", "b/log.npz"))
    assert split(here, there, sums=("x", "x")) == (set(), {"dataset.path"})
    assert split(here, there, sums=("x", "y")) == ({"dataset.path"}, set())
    assert split(here, there, sums=(None, None)) == ({"dataset.path"}, set())


def test_on_the_page() -> None:
    configs = ({**IQL, "seed": 0}, {**BC, "seed": 1})
    made = settings(runs(*configs), differing_values(configs))
    assert made.index(">algo<") < made.index("<details>") < made.index("<wbr>expectile<")
    assert "machines (4)" in made
    assert "<input" not in made  # a filter of few rows
    alike = ({**IQL, "seed": 0}, {**IQL, "seed": 1})
    assert "<p>Nothing that changes the learning.</p>" in settings(runs(*alike), differing_values(alike))
