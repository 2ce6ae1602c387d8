"""Nothing that is given on the command line is passed over: neither the first of two values nor an option that has no
effect beside another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training.runtime.trainer import train
from small_runs import small_config


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("export", "RUN", "--seed", "4", "--seed", "2"), "--seed"),
        (("export", "RUN", "-o", "a.onnx", "--output=b.onnx"), "--output"),
        (("predict", "RUN", "--obs-file", "a.csv", "--obs-file", "b.csv"), "--obs-file"),
        (("train", "-c", "iql/pendulum", "-c", "cql/pendulum"), "--config"),
        (("runs", "--algo", "bc", "--algo", "iql"), "--algo"),
        (("runs", "--compare", "a", "b", "--compare", "c", "d"), "--compare"),
        (("data", "check", "a.npz", "--env-id", "A-v0", "--env-id", "B-v0"), "--env-id"),
    ],
)
def test_two_values_where_one_is_taken(run: Path, mistake: Any, words: tuple[str, ...], option: str) -> None:
    said = mistake(*(run if word == "RUN" else word for word in words))
    assert said.startswith(f"error: {option}: is given twice, and takes one value (see rl-training ")


def test_what_may_be_repeated(run: Path, command: Any) -> None:
    """Lists, and flags, which say the same again."""
    assert command("algos", "--json", "--json").out == command("algos", "--json").out
    code, out, _ = command("predict", run, "--obs", "1,1,1", "--obs", "0,0,0")
    assert (code, out.count("\n")) == (0, 2)
    code, out, _ = command("config", "show", "iql/pendulum", "--set", "seed=1", "--set", "seed=2")
    assert "seed: 2" in out


@pytest.mark.parametrize(
    "words",
    [("--algo", "bc"), ("--status", "finished"), ("--sort", "age"), ("--limit", "1")],
    ids=lambda words: words[0],
)
def test_what_chooses_among_runs_beside_two_that_are_named(run: Path, mistake: Any, words: tuple[str, ...]) -> None:
    said = mistake("runs", "--compare", run, run, *words)
    assert said == f"error: {words[0]}: chooses among all runs, and --compare names two; leave out one of them"


def test_a_checkpoint_to_look_into_beside_no_data(run: Path, mistake: Any) -> None:
    said = mistake("report", run, "--which", "best", "--no-data")
    assert said == "error: --which: needs the checkpoint, which --no-data leaves closed; choose one of them"


def test_drawn_actions_of_a_policy_that_draws_none(run: Path, data_file: Path, mistake: Any, command: Any) -> None:
    """As export refuses them; of one among several it is told."""
    told = "error: --stochastic: this BC policy is deterministic; leave the option out"
    assert mistake("predict", run, "--obs", "1,1,1", "--stochastic") == told
    assert mistake("evaluate", run, "--env-id", "Pendulum-v1", "--stochastic") == told
    assert mistake("evaluate", run, "--offline", "--stochastic") == told
    told = "error: --stochastic: all these policies are deterministic; leave the option out"
    assert mistake("evaluate", run, run, "--offline", "--stochastic") == told
    drawn = train(small_config(data_file, Path("runs"), algo_kwargs={"deterministic_policy": False})).run.path
    words = ("--env-id", "Pendulum-v1", "--episodes", 1, "--stochastic")
    code, _, err = command("evaluate", run, drawn, *words)
    assert (code, err) == (0, f"note: {run} is deterministic: --stochastic changes nothing of it\n")
