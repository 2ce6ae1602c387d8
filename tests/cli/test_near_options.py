"""Options that do not exist: what was perhaps meant, and nothing that was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rl_training.wording import A_REPORT_IS_HTML


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("data split log.csv -o a.npz b.npz --overwrite", "--overwrite; did you mean --force?"),
        ("export run --yes", "--yes; did you mean --force?"),
        ("init log.csv --replace", "--replace; did you mean --force?"),
        ("report run --forse", "--forse; did you mean --force?"),
        ("report run --seed 2", "--seed; a report shows all seeds of a run"),
        ("report run --format pdf", f"--format; {A_REPORT_IS_HTML}"),
        ("train -c c.yaml --force", "--force; a run is never replaced: another --name starts a new one"),
        ("predict run --force", "--force"),
        ("export run --onnx", "--onnx; did you mean --format onnx?"),
        ("export run --torch", "--torch; did you mean --format torch?"),
        ("export run -f onnx", "-f; did you mean --format?"),
        ("init --input log.csv", "--input; data are named without: `rl-training init FILE`"),
        ("predict run --output act.csv", "--output; it prints the actions, a list in each line: add > FILE"),
        ("evaluate run --held", "--held"),
        ("evaluate run --helpme", "--helpme"),
        ("train --hlep", "--hlep; did you mean --help?"),
        ("evaluate run --offlin", "--offlin; did you mean --offline?"),
    ],
)
def test_what_was_meant(words: str, said: str, mistake: Any) -> None:
    assert mistake(*words.split()).startswith(f"error: No such option: {said} (see rl-training ")


def test_a_command_by_the_word_that_it_is_short_for(mistake: Any) -> None:
    assert mistake("initialise", "log.csv").startswith(
        "error: No such command 'initialise'; did you mean `rl-training init log.csv`?"
    )


def test_parameters_of_an_algorithm(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("algo: iql\ndataset: log.npz\ntotal_timesteps: 10\n")
    said = mistake("config", "validate", "c.yaml", "--set", "algo_kwargs.zz=1")
    assert "algo_kwargs.zz: no such option; choose from actor_" in said
    assert ", batch_size, " in said
    said = mistake("config", "validate", "c.yaml", "--set", "algo_kwargs.actr_lr=1")
    assert said.endswith("algo_kwargs.actr_lr: no such option; did you mean 'actor_lr'?")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{source: file, path: a.csv, action_low: 0}", "dataset: action_low and action_high are given together"),
        ("{source: file, path: a.csv, at_termination: {crash: 1}}", "dataset: at_termination"),
        ("{source: file, path: a.csv, action_lo: 0}", "dataset.action_lo: no such option; did you mean 'action_low'?"),
        (
            "{source: mixture, parts: [{dataset: a.csv, weight: 1}, {dataset: b.csv}]}",
            "dataset: give every part a weight, or none",
        ),
    ],
)
def test_no_key_is_named_that_nobody_wrote(section: str, said: str, mistake: Any, tmp_path: Path) -> None:
    """pydantic names the branch of a union, `dataset.file`, as if it were a key."""
    (tmp_path / "c.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {section}\n")
    assert mistake("config", "validate", "c.yaml").startswith(f"error: c.yaml: {said}")


def test_a_budget_of_its_own(command: Any) -> None:
    told = command("train", "-c", "bc/pendulum", "--total-timesteps", 7, "--dry-run").out
    assert "\ntotal_timesteps: 7\n" in told
