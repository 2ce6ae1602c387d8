"""`rl-training data collect`: files that repeat, that survive Ctrl-C, and mistakes in one line."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_environments
from rl_training.cli import collecting
from rl_training.data import TransitionDataset, collect, generate_pendulum_dataset
from rl_training.experiment.manager import load_policy
from small_runs import files_under
from tiny_environments import CLIFF

RANDOM = ("data", "collect", "--env-id", CLIFF, "--policy", "random")
SCRIPTED = ("data", "collect", "--env-id", "Pendulum-v1", "--policy", "scripted")


class TestRecording:
    def test_random(self, command: Any, tmp_path: Path) -> None:
        code, out, err = command(*RANDOM, "--steps", 50, "--seed", 4, "--output", "log.npz")
        assert (code, err) == (0, "")
        data = TransitionDataset.load(tmp_path / "log.npz")
        assert data.fingerprint() == collect(CLIFF, "random", 50, seed=4).fingerprint()
        assert f"collecting 50 steps of {CLIFF} with random, seed 4, into log.npz\n" in out
        assert f"recorded 50 transitions of {CLIFF}\n" in out
        assert f"episodes       {data.n_episodes}, of" in out
        assert f"mean return    {collecting.readable(data.episode_returns().mean())} (from " in out
        assert "file           log.npz\n" in out
        assert out.endswith(
            f"train on it: rl-training train --config cql/pendulum --set env_id={CLIFF} --set dataset=log.npz\n"
        )
        assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]

    def test_scripted_is_the_embedded_dataset(self, command: Any, tmp_path: Path) -> None:
        assert command(*SCRIPTED, "--steps", 450, "-o", "log.npz", "--n-envs", 3).code == 0
        data = TransitionDataset.load(tmp_path / "log.npz")
        assert data.fingerprint() == generate_pendulum_dataset(450, 0).fingerprint()

    def test_the_number_of_environments_changes_no_byte(self, command: Any, run: Path, tmp_path: Path) -> None:
        options = ["--env-id", "Pendulum-v1", "--policy", run, "--steps", 500, "--noise", 0.2, "--epsilon", 0.1]
        for n_envs in (1, 4):
            output = f"{n_envs}.npz"
            command("data", "collect", *options, "--stochastic", "--n-envs", n_envs, "-o", output, "-q")
        assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "4.npz").read_bytes()

    def test_whose_policy(self, command: Any, run: Path, tmp_path: Path) -> None:
        options = ["data", "collect", "--env-id", "Pendulum-v1", "--steps", 210, "-o", "log.npz", "-q"]
        assert command(*options, "--policy", run, "--member", 2, "--which", 10).code == 0
        data = TransitionDataset.load(tmp_path / "log.npz")
        policy = load_policy(run, 10)
        np.testing.assert_allclose(data.actions, policy.predict(data.obs, seed=2), atol=1e-5)
        assert np.abs(data.actions - policy.predict(data.obs, seed=4)).max() > 1e-3
        assert command(*options, "--force", "--policy", run / "checkpoints" / "step-20").code == 0
        data = TransitionDataset.load(tmp_path / "log.npz")
        np.testing.assert_allclose(data.actions, load_policy(run).predict(data.obs), atol=1e-5)

    def test_by_name(self, command: Any, run: Path, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "mine").symlink_to(run)
        options = ["--env-id", "Pendulum-v1", "--policy", "mine", "--steps", 10, "-o", "log.npz"]
        assert "with mine, seed 0" in command("data", "collect", *options).out

    def test_episodes(self, command: Any, tmp_path: Path) -> None:
        code, out, _ = command(*RANDOM, "--episodes", 7, "-o", "log.npz")
        assert code == 0
        assert "collecting 7 episodes" in out
        assert TransitionDataset.load(tmp_path / "log.npz").n_episodes == 7

    @pytest.mark.parametrize(
        ("output", "options", "made"),
        [
            ("log.hdf5", [], "log.hdf5"),
            ("log/", [], "log"),
            ("log", ["--format", "columns"], "log"),
            ("log.dat", ["--format", "hdf5"], "log.dat"),
            ("minari:own/log-v0", [], "minari:own/log-v0"),
        ],
    )
    def test_formats(
        self, output: str, options: list[str], made: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
        given = ("--env-id", "Pendulum-v1", "--policy", "random", "--episodes", 1)
        assert command("data", "collect", *given, "--output", "log.npz").code == 0
        code, out, err = command("data", "collect", *given, "--output", output, *options)
        assert (code, err) == (0, "")
        assert f"--set dataset={made}" in out
        facts = [json.loads(command("data", "info", name, "--json").out) for name in ("log.npz", made)]
        for key in ("rows", "episodes", "env_id", "action_low", "action_high"):
            assert facts[0][key] == facts[1][key]

    def test_quiet(self, command: Any) -> None:
        assert command(*RANDOM, "--steps", 9, "-o", "log.npz", "-q").out.startswith("\nrecorded 9 transitions")

    def test_force(self, command: Any, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "log.npz").write_bytes(b"old")
        said = mistake(*RANDOM, "--steps", 9, "-o", "log.npz")
        assert said == "error: log.npz: exists already; replace it with --force, or choose another name"
        assert command(*RANDOM, "--steps", 9, "-o", "log.npz", "--force").code == 0
        assert len(TransitionDataset.load(tmp_path / "log.npz")) == 9

    def test_it_can_be_trained_on(self, command: Any, tmp_path: Path) -> None:
        out = command(*SCRIPTED, "--steps", 400, "-o", "a: b.npz", "-q").out
        words = shlex.split(out.splitlines()[-1].removeprefix("train on it: "))
        assert words[0] == "rl-training"
        short = [f"--set={key}" for key in ("total_timesteps=2", "eval_interval=null", "env_id=null", "name=run")]
        assert command(*words[1:], *short, "-q").code == 0
        facts = (tmp_path / "runs" / "run" / "run.json").read_text()
        assert '"transitions": 400' in facts

    def test_plain_lines(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(collecting, "PLAIN_SECONDS", 0.0)
        out = command(*RANDOM, "--steps", 1_200, "-o", "log.npz").out
        assert re.search(r"^    1,100/1,200 steps · [\d,]+/s · 0:00 left$", out, flags=re.MULTILINE)


# The command itself in a process of its own; a signal comes at a chosen step, which no clock could hit.
COMMAND = """
import os, sys
import tiny_environments
from rl_training.cli import collecting, main

number, at = int(sys.argv[1]), int(sys.argv[2])
watch = collecting._Display.watch
def interrupted(self, done):
    if number and done.rows >= at and not self.stop_reason:
        os.kill(os.getpid(), number)
    watch(self, done)
collecting._Display.watch = interrupted
sys.argv[:] = ["rl-training", *sys.argv[3:]]
main.main()
"""


def in_a_process(number: int, at: int, *arguments: Any, **options: Any) -> Any:
    """The command, sent a signal (none: 0) after `at` steps."""
    tests = Path(tiny_environments.__file__).parent
    path = os.pathsep.join([str(tests), *filter(None, sys.path)])
    command = [sys.executable, "-c", COMMAND, str(number), str(at), *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.run(command, timeout=120, env={**os.environ, "PYTHONPATH": path}, **streams)


class TestInterrupted:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_keeps_what_is_finished(
        self, number: signal.Signals, code: int, command: Any, mistake: Any, tmp_path: Path
    ) -> None:
        whole = [*RANDOM, "--steps", 90, "-o", "whole.npz"]
        options = [*RANDOM, "--steps", 90, "-o", "log.npz", "--n-envs", 2]
        command(*whole)
        ended = in_a_process(number, 40, *options, cwd=tmp_path)
        assert (ended.returncode, ended.stderr) == (code, "")
        again = f"rl-training {shlex.join(map(str, options))} --resume"
        assert ended.stdout.endswith(
            f"interrupted: {number.name} received; what is finished is kept in log.npz.partial\ncontinue: {again}\n"
        )
        assert not (tmp_path / "log.npz").exists()
        said = mistake(*options)
        assert said.startswith("error: log.npz.partial: holds an unfinished recording; continue it with `rl-training")
        assert f"`{again}`, or discard it with `rm -r log.npz.partial`" in said
        code, _, err = command(*shlex.split(again)[1:])
        assert (code, err) == (0, "")
        assert (tmp_path / "log.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["log.npz", "whole.npz"]

    def test_killed(self, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        command(*RANDOM, "--steps", 90, "-o", "whole.npz")
        ended = in_a_process(signal.SIGKILL, 40, *RANDOM, "--steps", 90, "-o", "log.npz", cwd=tmp_path)
        assert ended.returncode == -signal.SIGKILL
        assert command(*RANDOM, "--steps", 90, "-o", "log.npz", "--resume", "--n-envs", 3).code == 0
        assert (tmp_path / "log.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()

    def test_other_settings_are_refused(self, mistake: Any, run: Path, tmp_path: Path) -> None:
        options = ["data", "collect", "--env-id", "Pendulum-v1", "--steps", 600, "-o", "log.npz"]
        in_a_process(signal.SIGINT, 300, *options, "--policy", run, "--which", 10, cwd=tmp_path)
        said = mistake(*options, "--resume", "--policy", run)
        assert re.search(r"was begun with policy bc seed 4 step 10 \(\w+\), not policy bc seed 4 step 20 \(\w+\)", said)
        said = mistake(*options, "--resume", "--policy", run, "--which", 10, "--seed", 1, "--stochastic")
        assert "was begun with seed 0, stochastic False, not seed 1, stochastic True; use the same, or" in said
        said = mistake(*options, "--resume", "--policy", "random")
        assert re.search(r"was begun with policy bc .*, not policy random; use the same", said)

    def test_nothing_to_continue(self, mistake: Any) -> None:
        said = mistake(*RANDOM, "--steps", 9, "-o", "log.npz", "--resume")
        assert said == ("error: log.npz.partial: no such folder, so there is nothing to continue; leave out --resume")


def test_a_live_line_on_a_terminal(tmp_path: Path) -> None:
    here, there = pty.openpty()
    done = in_a_process(0, 0, *RANDOM, "--steps", 3_000, "-o", "log.npz", cwd=tmp_path, stdout=there)
    os.close(there)
    shown = b""
    while chunk := _read(here):
        shown += chunk
    os.close(here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3,000/3,000 steps · " in shown.decode()
    assert "\x1b[" in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


class TestMistakes:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (["--env-id", "Pendulm-v1"], "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
            (["--env-id", "CartPole-v1"], "environment 'CartPole-v1': action space is Discrete(2)"),
            (["--env-id", "Blackjack-v1"], "environment 'Blackjack-v1': observation space is Tuple"),
            (["--env-id", CLIFF, "--policy", "scripted"], "policy: 'scripted' knows 'Pendulum-v1' only, not 'tests/Cl"),
            (["--policy", "nowhere"], "nowhere: no such run; a policy is random, scripted or a trained run"),
            (["--policy", "."], ".: holds no run (no run.json)"),
            (["--output", "/dev/null/log.npz"], "/dev/null/log.npz: /dev/null is no folder"),
            (["--output", "log.doc"], "log.doc: "),
            (["--output", "."], ".: is a folder; give the name of a file in it"),
            (["--output", "./"], "./: is a folder"),
            (["--output", "log.npz", "--format", "zip"], "Invalid value for '--format': "),
            (["--output", "log/", "--format", "hdf5"], "log/: ends in / as a folder does, and hdf5 is a file"),
            (
                ["--output", "minari:a/b-v0", "--format", "npz"],
                "minari:a/b-v0: names a Minari dataset, which cannot be",
            ),
            (["--output", "log", "--format", "minari"], "minari: 'log' is no id; one looks like D4RL/door/human-v2"),
            (["--noise", "0.1"], "noise: random actions have nothing to add it to; leave it out"),
            (["--stochastic"], "--stochastic: is for a trained policy, and 'random' is none; leave it out"),
            (["--which", "best"], "--which: is for a trained policy, and 'random' is none; leave it out"),
            (["--member", "0"], "--member: is for a trained policy, and 'random' is none; leave it out"),
            (["--steps", "0"], "Invalid value for '--steps': "),
            (["--seed", "-1"], "Invalid value for '--seed': "),
            (["--n-envs", "0"], "Invalid value for '--n-envs': "),
            (["--epsilon", "2"], "Invalid value for '--epsilon': "),
        ],
    )
    def test_in_one_line(self, changes: list[str], message: str, mistake: Any) -> None:
        options = {"--env-id": "Pendulum-v1", "--policy": "random", "--output": "log.npz", "--steps": "10"}
        flags = [option for option in changes if option == "--stochastic"]
        given = [option for option in changes if option not in flags]
        options |= dict(zip(given[::2], given[1::2], strict=True))
        said = mistake("data", "collect", *flags, *(word for pair in options.items() for word in pair))
        assert said.startswith(f"error: {message}")

    def test_noise_that_is_no_number(self, mistake: Any) -> None:
        assert "noise" in mistake(*SCRIPTED, "--steps", 9, "-o", "log.npz", "--noise", "nan")

    def test_how_much(self, mistake: Any) -> None:
        assert mistake(*RANDOM, "-o", "log.npz") == "error: steps: is required, or a number of episodes"

    def test_a_policy_of_another_width(self, mistake: Any, run: Path) -> None:
        said = mistake("data", "collect", "--env-id", CLIFF, "--policy", run, "--steps", 9, "-o", "log.npz")
        assert "has observations of 2 and actions of 1 values; this policy was trained with 3 and 1" in said

    def test_a_member_that_is_not_there(self, mistake: Any, run: Path) -> None:
        options = ["--env-id", "Pendulum-v1", "--policy", run, "--steps", 9, "-o", "log.npz"]
        assert mistake("data", "collect", *options, "--member", 9) == "error: seed: 9 is not in this run; it has 4, 2"

    def test_a_damaged_run(self, mistake: Any, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run, tmp_path / "copy")
        (file,) = (tmp_path / "copy" / "checkpoints" / "step-20").glob("weights*")
        file.write_bytes(file.read_bytes()[:-1])
        options = ["--env-id", "Pendulum-v1", "--policy", "copy", "--steps", 9, "-o", "log.npz"]
        assert "copy/checkpoints/step-20" in mistake("data", "collect", *options)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_may_not_be_written(self, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0o500)
        assert "cannot be written" in mistake(*RANDOM, "--steps", 9, "-o", "closed/log.npz")

    def test_a_failing_environment_leaves_what_is_finished(self, command: Any, tmp_path: Path) -> None:
        """The error is told as the environment's own, and the recording can go on."""
        tiny_environments.Counted.start_counting(resets_left=4)
        options = ["data", "collect", "--env-id", tiny_environments.COUNTED, "--policy", "random", "--steps", 90]
        code, _, err = command(*options, "-o", "log.npz")
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith(f"error: environment '{tiny_environments.COUNTED}' failed at reset")
        assert "RuntimeError: no more resets (tiny_environments.py, line" in err
        kept = files_under(tmp_path / "log.npz.partial")
        assert sorted(kept) == ["episodes-000000000.npz", "settings.json"]


def test_help_loads_no_torch() -> None:
    code = (
        "import sys\nfrom rl_training.cli.main import app\napp(['data', 'collect', '--help'], standalone_mode=False)\n"
        "print([m for m in ('torch', 'gymnasium', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"
    assert "--n-envs" in done.stdout


class TestDocument:
    SECTION = (Path(__file__).parents[2] / "docs" / "data" / "recording.md").read_text("utf-8")

    def test_commands(self, command: Any, run: Path, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "pendulum").symlink_to(run)
        (block,) = re.findall(r"```bash\n(.*?)```", self.SECTION, flags=re.DOTALL)
        for line in block.splitlines():
            assert command(*shlex.split(line.replace("40000", "20"))[1:]).code == 0

    def test_example(self, command: Any, tmp_path: Path) -> None:
        (example,) = re.findall(r"```python\n(.*?)```", self.SECTION, flags=re.DOTALL)
        exec(compile(example, "recording.md", "exec"), {})
        assert len(TransitionDataset.load("log.npz")) == 1_000
