"""Help: every command and option says what it does, examples are commands that exist, and the shell completes names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rl_training import algorithms
from rl_training.cli import completion
from rl_training.cli.examples import EXAMPLES, SHORT
from rl_training.cli.main import app
from rl_training.cli.welcome import WELCOME
from rl_training.experiment.config import packaged_configs


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")


def parsed(line: str) -> Any:
    """The context that a command line gives; whatever it does not know is an error."""
    program, *words = shlex.split(line, comments=True)
    assert program == "rl-training"
    command: Any = typer.main.get_command(app)
    while words and hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command.make_context(command.name, words)


class TestHelp:
    @pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
    def test_everything_is_explained(self, name: str, command: Any) -> None:
        assert command.help
        assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []

    def test_the_list_of_commands_is_not_cut(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        for words in ((), ("config",), ("data",)):
            out = command(*words, "--help").out
            assert "..." not in out.partition("Commands:")[2]

    def test_main_commands_have_examples(self) -> None:
        names = {name for name, _ in commands()}
        assert set(EXAMPLES) <= names
        assert set(SHORT) <= names
        assert names == set(EXAMPLES)

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_examples_are_accepted_and_shown(self, name: str, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        out = command(*name.split(), "--help").out
        for line in EXAMPLES[name]:
            assert line.startswith(f"rl-training {name}")
            assert f"\n    {line}" in out
            assert parsed(line).command.name in getattr(dict(commands())[name], "commands", [name.split()[-1]])

    def test_what_the_first_screen_names_exists(self) -> None:
        lines = [re.split(r" {2,}", line.strip())[0] for line in WELCOME.splitlines() if line.startswith("  rl-")]
        known = {name for name, _ in commands()}
        for line in lines:
            for word in line.removeprefix("rl-training ").split(" | "):
                plain = [part for part in word.split() if part.islower() and not part.startswith(("-", "["))]
                assert word.startswith(("COMMAND", "--help")) or " ".join(plain[:2]) in known or plain[0] in known
        assert len(lines) >= 10


class TestCompletion:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("cql-one", "iql-two"):
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / name / "run.json").write_text("{}")
        (tmp_path / "runs" / "notes").mkdir()
        (tmp_path / "my.yaml").touch()
        (tmp_path / "log.csv").touch()

    def test_algorithms(self) -> None:
        assert [name for name, _ in completion.algos("c")] == ["cql", "crr"]
        assert [name for name, _ in completion.algos("")] == list(algorithms.find())

    def test_configurations(self) -> None:
        assert completion.configs("cq") == ["cql/pendulum"]
        assert completion.configs("") == [*packaged_configs(), "my.yaml", "runs/"]
        assert completion.configs("./m") == ["./my.yaml"]
        assert completion.configs("nowhere/") == []

    def test_runs(self) -> None:
        assert completion.runs("") == ["cql-one", "iql-two"]
        assert completion.runs("i") == ["iql-two"]
        assert completion.runs("runs/c") == ["runs/cql-one"]
        assert completion.runs("./runs/") == ["./runs/cql-one", "./runs/iql-two"]
        assert completion.runs("elsewhere/x") == []

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("tra", "train"),
            ("train -c cq", "cql/pendulum"),
            ("evaluate iq", "iql-two"),
            ("runs --compare cql-one iq", "iql-two"),
            ("algos reb", "rebrac"),
            ("runs --status fin", "finished"),
            ("init log.csv --algo iq", "iql"),
        ],
    )
    def test_the_shell_is_answered(self, words: str, expected: str) -> None:
        line = f"rl-training {words}"
        asked = {"_RL_TRAINING_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "rl_training"],
            capture_output=True,
            text=True,
            env={**os.environ, **asked},
        )
        assert done.stdout.split() == [expected]
        assert " torch\n" not in done.stderr

    def test_the_script_for_the_shell(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        out = command("--help").out
        assert "--install-completion" in out
        asked = {"_RL_TRAINING_COMPLETE": "source_bash"}
        done = subprocess.run(
            [sys.executable, "-m", "rl_training"], capture_output=True, text=True, env={**os.environ, **asked}
        )
        assert done.returncode == 0
        assert "complete -o default -F _rl_training_completion rl-training" in done.stdout


def test_a_terminal_without_unicode_shows_what_it_can() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rl_training", "algos", "cql"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"  gamma = 0.99  (number at least 0 and below 1)\n      discount ?\n" in done.stdout
