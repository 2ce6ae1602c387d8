"""What metrics give reason to doubt: weights of a clone, a critic on its way; and a sentence for every metric."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_training
from rl_training.experiment.metric_doubts import NEAR_ONE, longer, metric_doubts, metric_notes
from rl_training.experiment.metric_words import MEANING
from rl_training.experiment.report.contents import Curve, RunContents
from rl_training.experiment.report.diagnostics import ValueCheck
from rl_training.experiment.report.metrics import over_seeds
from rl_training.experiment.report.reproducing import reproduce
from rl_training.experiment.run_listing import RunSummary

STEPS = np.arange(100, 5_001, 100)
NOISE = np.random.default_rng(0).normal(size=(len(STEPS), 2))


def run_with(metrics: dict[str, Any], algo: str = "iql", unit: str = "updates", **config: Any) -> RunContents:
    summary = RunSummary("run", Path("run"), "finished", algo=algo, unit=unit)
    curves = {
        name: Curve(tuple(STEPS.tolist()), (0, 1), np.broadcast_to(np.asarray(values).T, (2, len(STEPS))).T.copy())
        for name, values in metrics.items()
    }
    return RunContents(0, Path("run"), "run", summary, config=config, metrics=curves)


def test_weights_near_one_are_a_clone() -> None:
    weights = 0.97 + 0.005 * NOISE
    (doubt,) = metric_doubts(run_with({"actor/weight": weights}))
    assert doubt == (
        "actor/weight stays within 5% of 1: the policy may be little more than a clone of the data;"
        " scale the rewards (transforms.reward_range_scaling) or raise algo_kwargs.beta"
    )
    scaled = run_with({"actor/weight": weights}, "awr", transforms={"reward_range_scaling": True})
    assert metric_doubts(scaled)[0].endswith("clone of the data; lower algo_kwargs.beta")
    assert metric_doubts(run_with({"actor/max_weight": weights + 0.05}, "awac"))[0].startswith("actor/max_weight ")


@pytest.mark.parametrize("algo", ["td3_bc", "bc"])
def test_of_algorithms_that_weigh(algo: str) -> None:
    assert metric_doubts(run_with({"actor/weight": np.ones(len(STEPS))}, algo)) == ()


def test_weights_that_differ_are_none() -> None:
    late = np.where(STEPS > 4_000, 1 + 2 * NEAR_ONE, 1.0)
    early = np.where(STEPS < 2_000, 3.0, 1.0)
    assert metric_doubts(run_with({"actor/weight": late})) == ()
    assert len(metric_doubts(run_with({"actor/weight": early}))) == 1  # only the last half is looked at
    one = np.column_stack([np.ones(len(STEPS)), np.full(len(STEPS), 2.0)])
    assert metric_doubts(run_with({"actor/weight": one})) == ()
    binary = run_with({"actor/weight": np.ones(len(STEPS))}, "crr", algo_kwargs={"weight_type": "binary"})
    assert metric_doubts(binary) == ()


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"tau": 0.005, "gamma": 0.99}, 60_000),
        ({"tau": 0.005, "gamma": 0.9}, 6_000),
        ({"tau": 0.01, "gamma": 0.9}, 10_000),  # they have had the time, and go on all the same
        ({"tau": 0.005, "gamma": 0.9999}, 1_000_000),
        ({"gamma": 0.99}, 10_000),
        ({"tau": "fast", "gamma": 0.99}, 10_000),
        (None, 10_000),
    ],
)
def test_how_far_to_train(kwargs: Any, expected: int) -> None:
    assert longer(5_000, {"algo_kwargs": kwargs}) == expected


def test_values_have_arrived_after_so_many_updates() -> None:
    """A critic that fits its target at once, behind a target network, from 0 to r/(1 - γ)."""
    tau, gamma, value, target = 0.02, 0.95, 0.0, 0.0
    for _ in range(longer(1, {"algo_kwargs": {"tau": tau, "gamma": gamma}})):
        value = 1.0 + gamma * target
        target += tau * (value - target)
    assert 0.94 < value * (1.0 - gamma) < 0.96


@pytest.mark.parametrize("sign", [1, -1])
def test_a_critic_on_its_way(sign: int) -> None:
    values = sign * (0.01 * STEPS[:, None] + 0.2 * NOISE)
    (doubt,) = metric_doubts(run_with({"critic/q_data": values}, "td3_bc"))
    assert doubt.startswith("critic/q_data still moves in a straight line at the end (from ")
    assert "the critic is not finished; train longer" in doubt
    assert metric_doubts(run_with({"critic/q_data": values}, "sac", unit="steps")) == ()  # the policy moves as well


@pytest.mark.parametrize(
    "values",
    [
        -50 * (1 - np.exp(-STEPS / 1_500)),
        -50 + NOISE,
        np.zeros(len(STEPS)),
        -50 + 0.001 * STEPS,
        np.full(len(STEPS), np.nan),
        10 * np.sin(STEPS / 60),
    ],
    ids=["settling", "noise", "nothing", "hardly", "gone", "to and fro"],
)
def test_a_critic_that_is_finished(values: Any) -> None:
    assert metric_doubts(run_with({"critic/q_data": values})) == ()


def test_few_records_are_not_judged() -> None:
    run = run_with({"critic/q_data": 0.01 * STEPS, "actor/weight": np.ones(len(STEPS))})
    few = {name: Curve(curve.steps[:3], curve.seeds, curve.values[:3]) for name, curve in run.metrics.items()}
    assert metric_doubts(RunContents(0, Path("run"), "run", run.summary, metrics=few)) == ()


def curve_of(values: Any, records: int) -> RunContents:
    steps = 1_000 * np.arange(1, records + 1)
    curve = Curve(tuple(steps.tolist()), (0,), np.asarray(values, dtype=np.float64)[:, None])
    run = run_with({})
    return RunContents(0, Path("run"), "run", run.summary, metrics={"critic/q_data": curve})


@pytest.mark.parametrize("status", ["finished", "interrupted"])
@pytest.mark.parametrize("records", [9, 15, 20, 40])
def test_a_short_run_is_judged_as_well(records: int, status: str) -> None:
    run = curve_of(np.arange(1, records + 1), records)
    (doubt,) = metric_doubts(replace(run, summary=replace(run.summary, status=status)))
    longer = f", to {2_000 * records:,} updates or more, or anew with initial_values: data"
    longer = longer if status == "finished" else ""  # the others have a budget
    assert doubt == (
        f"critic/q_data still moves in a straight line at the end (from {records - (7 if records == 40 else 4)} to"
        f" {records} in the last {'7,000' if records == 40 else '4,000'} updates): the critic is not finished; train"
        f" longer{longer}"
    )
    begun_near = replace(run, config={**run.config, "initial_values": "data"})
    assert not any("initial_values" in doubt for doubt in metric_doubts(begun_near))
    settled = -50 * (1 - np.exp(-3.3 * np.arange(1, records + 1) / records))
    assert metric_doubts(curve_of(settled, records)) == ()


@pytest.mark.parametrize(("travelled", "warned"), [(100.0, True), (62.0, True), (10.0, False)])
def test_a_critic_that_began_near_its_values_is_held_to_the_way_it_goes(travelled: float, warned: bool) -> None:
    run = curve_of(np.linspace(-280.0, -280.0 + travelled, 40), 40)
    near = replace(run, config={**run.config, "initial_values": "data"})
    assert bool(metric_doubts(near)) == warned


@pytest.mark.parametrize(("measured", "warned"), [(-100.0, False), (-700.0, True)])
def test_a_moving_critic_is_a_note_where_the_policy_was_measured_to_be_better(measured: float, warned: bool) -> None:
    scores = Curve((1_000, 9_000), (0,), np.array([[-900.0], [measured]]))
    run = replace(curve_of(np.arange(1, 10), 9), evaluations=scores, facts={"dataset": {"return_mean": -600.0}})
    doubts, notes = metric_doubts(run), metric_notes(run)
    assert (len(doubts), len(notes)) == ((1, 0) if warned else (0, 1))
    assert (doubts or notes)[0].startswith("critic/q_data still moves in a straight line at the end (from 5 to 9 in")
    if notes:
        assert notes[0].endswith("longer training may still help; returns are measured without it")
    assert metric_notes(curve_of(np.arange(1, 10), 9)) == ()  # without an environment it is a warning


def test_of_eight_records_nothing_is_said() -> None:
    assert metric_doubts(curve_of(np.arange(8), 8)) == ()


@pytest.mark.parametrize("records", [9, 15, 20])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.5])
def test_noise_of_a_short_run_is_no_trend(records: int, noise: float) -> None:
    draws = 10 + 10 * noise * np.random.default_rng(records).normal(size=(400, records))
    assert sum(bool(metric_doubts(curve_of(one, records))) for one in draws) <= 8  # of 400


def test_every_metric_has_its_sentence() -> None:
    source = Path(rl_training.__file__).parent / "algorithms"
    text = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    logged = set(re.findall(r'"((?:critic|actor|value)/\w+)":', text))
    assert logged <= set(MEANING), logged - set(MEANING)


def test_a_critic_that_has_hardly_set_out() -> None:
    """Fifteen records of a short run, as logged: a straight line at a level far below the returns."""
    logged = [0.044, 0.059, 0.085, 0.117, 0.153, 0.178, 0.204, 0.244, 0.282, 0.320, 0.345, 0.375, 0.422, 0.468, 0.517]
    curve = Curve(tuple(range(100, 1_501, 100)), (0,), np.array(logged)[:, None])
    summary = RunSummary("run", Path("run"), "finished", algo="td3_bc", unit="updates")
    run = RunContents(0, Path("run"), "run", summary, metrics={"critic/q_data": curve})
    (doubt,) = metric_doubts(run)
    assert "from 0.345 to 0.517 in the last 400 updates): the critic is not finished" in doubt


@pytest.mark.parametrize(
    ("bias", "said"), [(192.9, "Q lies 192.9 above"), (-192.9, "Q lies 192.9 below"), (20.0, None)]
)
def test_values_far_from_the_returns(bias: float, said: str | None) -> None:
    returns = np.tile(np.linspace(-60.0, 60.0, 50), (2, 1))
    check = ValueCheck("Q", returns + bias, np.zeros((2, 50)), returns, False)
    found = check.doubts()
    assert len(found) == int(said is not None)
    if said is not None:
        assert found[0].startswith(f"{said} the returns that followed in the data, 5.5 times their standard deviation")
    assert ValueCheck("Q", returns, returns, None, False).doubts() == []


@pytest.mark.parametrize(
    ("seeds", "said"),
    [((0,), "One seed"), ((0, 1), "Mean of two seeds"), ((0, 1, 2), "Interquartile mean over 3 seeds")],
)
def test_what_lines_and_bands_are(seeds: tuple[int, ...], said: str) -> None:
    summary = RunSummary("run", Path("run"), "finished", seeds=seeds)
    assert over_seeds([RunContents(0, Path("run"), "run", summary)]).startswith(said)


def test_threads_of_a_resumed_run_are_shown() -> None:
    summary = RunSummary("run", Path("run"), "finished")
    facts = {"machine": {"cpu_count": 2, "threads": 2, "threads_resumed": [1]}}
    page = reproduce([RunContents(0, Path("run"), "run", summary, facts=facts)])
    assert "2 cores, torch uses 2 threads, resumed with 1" in page
    page = reproduce([RunContents(0, Path("run"), "run", summary, facts={"machine": {"threads_resumed": [1]}})])
    assert ">resumed with 1<" in page
