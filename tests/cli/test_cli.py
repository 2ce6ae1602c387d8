"""`rl-training`: what it prints, what it writes, and that every user's mistake is one line and exit code 2."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

import rl_training
from rl_training.experiment import manager
from rl_training.experiment.config import packaged_configs, read_config
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.trainer import train
from small_runs import StopAt, files_under, small_config, small_values


@pytest.fixture
def config_file(data_file: Path, tmp_path: Path) -> Path:
    """A small run of an environment, as YAML."""
    values = small_values(data_file, Path("runs"), total_timesteps=4, env_id="Pendulum-v1", evaluation={"episodes": 1})
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(values))
    return Path("c.yaml")


class TestAbout:
    def test_help_names_every_command(self, command: Any) -> None:
        for flag in ("--help", "-h"):
            code, out, _ = command(flag)
            assert code == 0
            for name in ("train", "resume", "evaluate", "predict", "algos", "config", "demo", "bench"):
                assert f"  {name} " in out

    def test_a_group_alone_shows_its_help(self, command: Any) -> None:
        assert command("config") == command("config", "--help")

    def test_help_and_algos_load_no_torch(self) -> None:
        code = (
            "import sys\nfrom rl_training.cli.main import app\n"
            "for a in (['--help'], ['algos'], ['train', '--help'], ['config', 'list']): app(a, standalone_mode=False)\n"
            "print([m for m in ('torch', 'gymnasium', 'h5py', 'numpy') if m in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stderr == "[]\n"

    def test_version(self, command: Any) -> None:
        assert command("--version") == (0, f"{rl_training.__version__}\n", "")

    def test_algos(self, command: Any) -> None:
        code, out, _ = command("algos")
        assert code == 0
        assert "td3_bc   [offline] TD3+BC: " in out
        assert "configs: td3_bc/pendulum" in out
        listed = {entry["name"]: entry for entry in json.loads(command("algos", "--json").out)}
        assert set(listed) >= {"bc", "cql", "iql", "td3_bc"}
        assert listed["cql"]["configs"] == ["cql/pendulum"]
        assert listed["cql"]["summary"].endswith(".")


class TestConfig:
    def test_list(self, command: Any) -> None:
        assert command("config", "list").out.split() == packaged_configs()

    def test_show_is_complete_and_reads_back(self, command: Any, tmp_path: Path) -> None:
        out = command("config", "show", "iql/pendulum", "--set", "algo_kwargs.batch_size=64").out
        (tmp_path / "shown.yaml").write_text(out)
        assert read_config("shown.yaml") == read_config("iql/pendulum", ["algo_kwargs.batch_size=64"])
        assert yaml.safe_load(out)["algo_kwargs"]["batch_size"] == 64

    def test_validate(self, command: Any, mistake: Any) -> None:
        assert command("config", "validate", "bc/pendulum") == (0, "bc/pendulum: valid (bc, Pendulum-v1)\n", "")
        assert mistake("config", "validate", "bc/pendulum", "--set", "sed=3") == (
            "error: --set: sed: no such option; did you mean 'seed'?"
        )

    def test_validate_looks_at_reasons(self, command: Any, mistake: Any, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("obs,action,reward,why\n1,0,1,\n2,1,1,\n3,0,2,Tagesende\n4,1,2,Alarm\n")
        section = "source: file, path: log.csv, columns: {end_reasons: why}, end_reasons: {Alarm: %s}"
        text = f"algo: bc\ntotal_timesteps: 9\ndataset: {{{section}}}\n"
        (tmp_path / "c.yaml").write_text(text % "termination")
        assert mistake("config", "validate", "c.yaml") == (
            "error: c.yaml: dataset: log.csv: column 'why': 'Tagesende' at row 2 is not among end_reasons; say what it"
            " means,"
            " end_reasons: {Tagesende: termination} (or truncation, ongoing)"
        )
        assert "end_reasons: {Tagesende: termination}" in mistake("data", "check", "-c", "c.yaml")
        (tmp_path / "c.yaml").write_text(text % "termination, Tagesende: truncation")
        assert command("config", "validate", "c.yaml").code == 0

    def test_steps_are_a_setting(self, mistake: Any) -> None:
        line = mistake("train", "-c", "bc/pendulum", "--steps", "100")
        assert line.startswith("error: No such option: --steps; did you mean --set total_timesteps=100?")

    def test_a_seed_is_a_whole_number(self, mistake: Any) -> None:
        line = mistake("train", "-c", "bc/pendulum", "--set", "seed=abc")
        assert line == "error: --set: seed: must be a whole number, got 'abc'"


class TestDryRun:
    def test_prints_configuration_and_plan_and_writes_nothing(
        self, command: Any, config_file: Path, tmp_path: Path
    ) -> None:
        before = files_under(tmp_path)
        code, out, err = command("train", "-c", config_file, "--dry-run", "--seed", 3, "--seed", 4)
        assert (code, err) == (0, "")
        assert files_under(tmp_path) == before
        shown = TrainConfig.parse(yaml.safe_load(out))
        assert shown == read_config(str(config_file), ["seed=[3, 4]"])
        assert "# data: 2,000 transitions in 10 episodes" in out
        assert "observations 3, actions 1" in out
        assert "# train: bc, 4 updates, seeds 3, 4," in out
        assert "engine eager on cpu" in out
        assert re.search(r"# time: about 1 second \([\d.]+ ms an update, as measured here just now\)\n# memory: ", out)
        assert "# evaluate: 1 episode per seed in Pendulum-v1, at the end" in out
        assert "# write: runs/run" in out
        assert out.endswith("# dry run: nothing was written\n")

    def test_warnings_come_last(self, command: Any, tmp_path: Path) -> None:
        rows = [f"{'' if row == 5 else row / 50},{row % 3 - 1},1,{row // 10}" for row in range(50)]
        (tmp_path / "log.csv").write_text("\n".join(["x,u,r,run", *rows]) + "\n")
        columns = {"obs": "x", "actions": "u", "rewards": "r", "episode_ids": "run"}
        section = {"source": "file", "path": "log.csv", "columns": columns, "missing": "hold"}
        section |= {"last_rows_are": "termination", "at_termination": 5}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump({"algo": "bc", "total_timesteps": 2, "dataset": section}))
        told = [line[:8] for line in command("train", "-c", "c.yaml", "--dry-run").out.splitlines() if line[:1] == "#"]
        assert "# note: " in told[told.index("# write:") :]
        assert told[-3:] == ["# warnin", "# warnin", "# dry ru"]

    def test_no_columns_are_an_unknown_width(
        self, command: Any, config_file: Path, data_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = [("train", "-c", config_file, "--dry-run"), ("data", "check", data_file)]

        def told(words: tuple[Any, ...]) -> tuple[int, str, str]:
            code, out, err = command(*words)
            return code, re.sub(r"# time: .*", "", out), err  # measured, and so another each time

        monkeypatch.setenv("COLUMNS", "80")
        wide = [told(words) for words in asked]
        monkeypatch.setenv("COLUMNS", "0")
        assert [told(words) for words in asked] == wide
        assert "\nfinished after 4 updates\n" in command("train", "-c", config_file).out

    @pytest.mark.parametrize(
        ("options", "line"),
        [
            (["dataset.exact=true"], "# mixture: 6 of good, 2 of scripted in every batch of 8"),
            (["dataset.exact=false"], "# mixture: 6 of good, 2 of scripted in a batch of 8, on average"),
            (["dataset.exact=false", "algo_kwargs.batch_size=9"], "6.75 of good, 2.25 of scripted in a batch of 9, on"),
            (["algo=rlpd", "algo_kwargs={batch_size: 8}"], "# mixture: 3 of good, 1 of scripted in every batch of 4"),
        ],
    )
    def test_says_what_batches_of_a_mixture_hold(
        self, options: list[str], line: str, command: Any, config_file: Path, data_file: Path
    ) -> None:
        good, scripted = f"dataset: {data_file}, weight: 3, name: good", "dataset: {source: scripted}, weight: 1"
        mixture = f"dataset={{source: mixture, exact: true, parts: [{{{good}}}, {{{scripted}}}]}}"
        given = [word for text in (mixture, "algo_kwargs.batch_size=8", *options) for word in ("--set", text)]
        code, out, err = command("train", "-c", config_file, "--dry-run", *given)
        assert (code, err) == (0, "")
        assert line in out

    def test_paths_start_where_the_command_is_run(
        self, command: Any, mistake: Any, config_file: Path, data_file: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        text = config_file.read_text().replace(str(data_file), "here.npz")
        (tmp_path / "elsewhere" / "my.yaml").write_text(text)
        (tmp_path / "elsewhere" / "here.npz").touch()
        told = mistake("train", "-c", "elsewhere/my.yaml", "--dry-run", "--set", "dataset=here.npz")
        there = tmp_path / "elsewhere" / "here.npz"
        assert told == f"error: {tmp_path / 'here.npz'}: no such file; did you mean {str(there)!r}?"
        (tmp_path / "here.npz").write_bytes(data_file.read_bytes())
        assert command("train", "-c", "elsewhere/my.yaml", "--dry-run", "--set", "dataset=here.npz").code == 0

    def test_makes_the_same_checks(self, mistake: Any, config_file: Path) -> None:
        assert "no such file" in mistake("train", "-c", config_file, "--dry-run", "--set", "dataset=nowhere.npz")

    def test_a_name_that_is_taken(self, mistake: Any, config_file: Path, tmp_path: Path) -> None:
        (tmp_path / "runs" / "run").mkdir(parents=True)
        assert "exists already" in mistake("train", "-c", config_file, "--dry-run")

    def test_brackets_in_a_path(self, command: Any, config_file: Path, data_file: Path, tmp_path: Path) -> None:
        folder = tmp_path / "[old]"
        folder.mkdir()
        (folder / "log.npz").write_bytes(data_file.read_bytes())
        out = command("train", "-c", config_file, "--dry-run", "--set", f"dataset={folder}/log.npz").out
        assert yaml.safe_load(out)["dataset"]["path"] == f"{folder}/log.npz"
        out = command("train", "-c", config_file, "--runs-dir", "[red]:x:", "--set", "env_id=null").out
        assert "training bc on data alone, seed 0, into [red]:x:/run" in out
        assert "run [red]:x:/run" in " ".join(out.split())


class TestTraining:
    def test_train_then_resume(self, command: Any, config_file: Path, tmp_path: Path) -> None:
        code, out, err = command("train", "-c", config_file, "--name", "mine", "--runs-dir", "here", "--seed", 6, "-q")
        assert (code, err) == (0, "")
        place = tmp_path / "here" / "mine"
        assert "finished after 4 updates" in out
        table = " ".join(out.split())
        assert "run here/mine" in table
        assert "checkpoint here/mine/checkpoints/step-4" in table
        assert "learning curve here/mine/learning_curve.png" in table
        assert "continue: rl-training resume here/mine --total-timesteps 8" in out
        assert manager.load_policy(place).checkpoint.config.seeds == (6,)
        code, out, _ = command("resume", "here/mine", "--total-timesteps", 8)
        assert code == 0
        assert "continuing bc on Pendulum-v1, seed 6, into here/mine" in out
        assert "finished after 8 updates" in out
        assert manager.load_policy(place).checkpoint.progress["updates"] == 8

    def test_resume_with_data_that_moved(
        self, command: Any, mistake: Any, config_file: Path, data_file: Path, tmp_path: Path
    ) -> None:
        shutil.copy(data_file, tmp_path / "log.npz")
        command("train", "-c", config_file, "-q", "--set", "env_id=null", "--set", "dataset=log.npz")
        (tmp_path / "log.npz").rename(tmp_path / "moved.npz")
        said = mistake("resume", "run", "--total-timesteps", 6)
        assert "log.npz: no such file" in said
        assert said.endswith("; where it has moved: `rl-training resume run --dataset FILE`")
        assert "has moved" not in mistake("resume", "run", "--total-timesteps", 6, "--dataset", "none.npz")
        code, out, _ = command("resume", "run", "--total-timesteps", 6, "--dataset", "moved.npz", "-q")
        assert (code, "finished after 6 updates" in out) == (0, True)

    @pytest.mark.parametrize("name", ["2024", "1e5", "true", "null", "2024-01-01"])
    def test_any_allowed_name(self, name: str, command: Any, config_file: Path, tmp_path: Path) -> None:
        assert command("train", "-c", config_file, "--name", name, "-q", "--set", "env_id=null").code == 0
        assert (tmp_path / "runs" / name / "run.json").is_file()

    @pytest.mark.parametrize("folder", ["2024", "null"])
    def test_any_folder_for_runs(self, folder: str, command: Any, config_file: Path, tmp_path: Path) -> None:
        assert command("train", "-c", config_file, "--runs-dir", folder, "-q", "--set", "env_id=null").code == 0
        assert (tmp_path / folder / "run" / "run.json").is_file()

    def test_demo(self, command: Any, config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from rl_training.cli import training

        asked: list[str] = []

        def tiny(name: str, overrides: Any) -> TrainConfig:
            asked.append(name)
            return read_config(str(config_file), [*overrides, "evaluation.max_steps=5"])

        monkeypatch.setattr(training, "read_config", tiny)
        code, out, err = command("demo", "--quiet")
        assert (code, err) == (0, "")
        assert asked == ["cql/pendulum"]
        (place,) = (tmp_path / "runs").iterdir()
        assert place.name.startswith("demo-")
        assert "over 20 new episodes the policy returns" in out
        table = " ".join(out.split())
        assert f"run runs/{place.name}" in table
        assert f"learning curve runs/{place.name}/learning_curve.png" in table
        assert f"continue: rl-training resume runs/{place.name} --total-timesteps 8" in out
        assert (place / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
        assert f"report runs/{place.name}/report.html (open it in a browser)" in table
        assert f"<h1>{place.name}" in (place / "report.html").read_text("utf-8")


class _Images(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))


@pytest.fixture
def image_env() -> Any:
    gymnasium.register("TestImages-v0", entry_point=_Images)
    yield "TestImages-v0"
    gymnasium.registry.pop("TestImages-v0")


class TestMistakes:
    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("log_intervall=3", "log_intervall: no such option; did you mean 'log_interval'?"),
            ("algo_kwargs.actr_lr=3", "algo_kwargs.actr_lr: no such option; did you mean 'actor_lr'?"),
            ("algo_kwargs.batch_size=-3", "algo_kwargs.batch_size: must be at least 1, got -3"),
            ("algo=bcc", "algo: no algorithm 'bcc'; did you mean 'bc'?"),
            ("seed=[0, 0]", "seed: must be one or more distinct seeds"),
        ],
    )
    def test_in_the_configuration(self, setting: str, message: str, mistake: Any, config_file: Path) -> None:
        assert mistake("train", "-c", config_file, "--set", setting) == f"error: --set: {message}"

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (["dataset=nowhere.npz"], "nowhere.npz: no such file"),
            (["dataset=c.yaml"], "c.yaml: is a configuration, not data; the data that it names: "),
            (["dataset=null"], "dataset: is required; a path to a file"),
            (["env_id=Pendulm-v1"], "unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
            (["env_id=CartPole-v1"], "environment 'CartPole-v1': action space is Discrete(2)"),
            (["env_id=MountainCarContinuous-v0"], "observations have 3 columns, but environment 'MountainCar"),
            (["device=cuda"], "device: 'cuda' asked for, but torch sees 0 CUDA devices"),
            (["algo_kwargs.lr_schedule.actr.kind=linear"], "algo_kwargs.lr_schedule: no network 'actr' to schedule"),
        ],
    )
    def test_before_the_run(self, settings: list[str], message: str, mistake: Any, config_file: Path) -> None:
        if "device=cuda" in settings and _has_cuda():
            pytest.skip("this machine has a CUDA device")
        said = mistake("train", "-c", config_file, *(part for s in settings for part in ("--set", s)))
        assert said.startswith("error: ")
        assert message in said

    def test_an_image_observation(self, image_env: str, mistake: Any, config_file: Path) -> None:
        assert mistake("train", "-c", config_file, "--set", f"env_id={image_env}") == (
            "error: environment 'TestImages-v0': observation space is Box of shape (8, 8, 3); "
            "supported: a one-dimensional Box (flat vectors only)"
        )

    def test_configurations_and_overrides(self, mistake: Any, tmp_path: Path) -> None:
        assert "did you mean 'cql/pendulum'?" in mistake("train", "-c", "cql/pendulm")
        (tmp_path / "plant.yaml").write_text("algo: bc\n")
        (tmp_path / "plant.csv").write_text("a,b\n1,2\n")
        for name in ("plnat.yaml", "plnat"):
            assert mistake("train", "-c", name).endswith("; did you mean 'plant.yaml'?")
        said = "error: config: plant.csv is data, not a configuration; `rl-training init plant.csv` writes one for it"
        assert mistake("train", "-c", "plant.csv") == said
        assert mistake("train", "-c", "none.yaml").startswith("error: config: no file none.yaml")
        (tmp_path / "bad.yaml").write_text("algo: [")
        assert "bad.yaml: is not valid YAML at line 1" in mistake("config", "show", "bad.yaml")
        assert "--set seed: must have the form key=value" in mistake("train", "-c", "bc/pendulum", "--set", "seed")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (
                "train",
                "Missing option '--config' / '-c': a configuration; for data of your own `rl-training init",
            ),
            ("train log.csv", "`rl-training init log.csv` writes one"),
            ("train my.yaml", "Missing option '--config' / '-c': rl-training train -c my.yaml"),
            ("train -c my.yaml --total-timestep 10", "did you mean --total-timesteps"),
            ("train --timesteps=10", "and --set total_timesteps=10 changes it"),
            ("train -c my.yaml --max-timesteps 10", "did you mean --set total_timesteps=10?"),
            ("train -c my.yaml --discount 0.9", "did you mean --set algo_kwargs.gamma=0.9?"),
            ("train -c my.yaml --batch-size 64", "did you mean --set algo_kwargs.batch_size=64?"),
            ("train -c my.yaml --gamma 0.9", "did you mean --set algo_kwargs.gamma=0.9?"),
            ("train -c my.yaml --lr 1e-3", "did you mean --set algo_kwargs.actor_lr=1e-3?"),
            ("train -c my.yaml --epochs 3", "did you mean --set n_epochs=3?"),
            ("train -c bc/pendulum --set learning_rate=1", "did you mean 'algo_kwargs.actor_lr'"),
            ("data split log.csv -o one", "takes two files, one to train on and one held out: -o train.npz"),
            ("data split log.csv -o one", "(see rl-training data split --help)"),
            ("train --total-timestep 10", "No such option: --total-timestep"),
            ("resume first --set x=1", "--set; a resumed run keeps its settings, only --total-timesteps gives it"),
            ("runs --compare first", "error: --compare: takes two names, --compare RUN RUN"),
        ],
    )
    def test_wrong_options(self, arguments: str, told: str, mistake: Any) -> None:
        assert told in mistake(*arguments.split())

    def test_a_name_that_is_taken(self, mistake: Any, config_file: Path, tmp_path: Path) -> None:
        (tmp_path / "runs" / "run").mkdir(parents=True)
        assert "error: name: run runs/run exists already" in mistake("train", "-c", config_file)

    @pytest.mark.parametrize("arguments", [["evaluate"], ["predict", "--obs", "1,2,3"], ["resume"]])
    def test_a_missing_run(self, arguments: list[str], mistake: Any, run: Path) -> None:
        name, *rest = arguments
        missing = run.with_name("rnu")
        assert mistake(name, missing, *rest) == (
            f"error: {missing}: no such run; runs in {run.parent}: run; did you mean 'run'?"
        )

    def test_a_finished_run(self, mistake: Any, run: Path) -> None:
        said = mistake("resume", run)
        assert "is finished at step 20" in said
        assert said.endswith(f"`rl-training resume {run} --total-timesteps 40`")

    def test_a_budget_behind_the_last_update(self, mistake: Any, data_file: Path, tmp_path: Path) -> None:
        train(small_config(data_file, Path("runs"), name="cut", total_timesteps=20), callbacks=[StopAt(12)])
        said = mistake("resume", "cut", "--total-timesteps", 10)
        assert said == (
            "error: runs/cut: total_timesteps 10 lies behind update 12, where it stands;"
            " `rl-training resume runs/cut` alone goes on to 20"
        )

    def test_a_checkpoint_is_not_resumed(self, mistake: Any, run: Path) -> None:
        assert f"`rl-training resume {run}`" in mistake("resume", run / "checkpoints" / "step-20")

    def test_evaluating(self, mistake: Any, run: Path) -> None:
        said = mistake("evaluate", run)
        assert said.startswith(f"error: {run}: was trained without an environment; --env-id ID names one")
        assert f"`rl-training evaluate {run} --offline`" in said
        assert "no checkpoint 'frist'; choose from last" in mistake("evaluate", run, "--which", "frist")
        assert "no checkpoint 7; choose from last" in mistake("evaluate", run, "--which", 7)

    @pytest.mark.parametrize(
        "arguments", [["--env-id", "MountainCarContinuous-v0"], ["--env-id", "Pendulum-v1", "--seed", 2**31]]
    )
    def test_evaluating_elsewhere(self, arguments: list[Any], mistake: Any, run: Path) -> None:
        mistake("evaluate", run, "--episodes", 1, *arguments)

    def test_a_digit_that_is_no_number(self, mistake: Any, run: Path) -> None:
        mistake("evaluate", run, "--which", "²")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["trian"], ["'trian'", "'train'", "(see rl-training --help)"]),
            (["train"], ["--config", "(see rl-training train --help)"]),
            (["train", "--confg", "x"], ["--confg", "--config"]),
            (["evaluate", "x", "--episodes", "0"], ["--episodes", "1"]),
            (["evaluate", "x", "--episodes", "two"], ["--episodes", "must be a whole number, got two"]),
            (["evaluate"], ["argument", "(see rl-training evaluate --help)"]),
            (["config", "shwo"], ["'shwo'", "(see rl-training config --help)"]),
        ],
    )
    def test_the_command_line_itself(self, arguments: list[str], words: list[str], mistake: Any) -> None:
        said = mistake(*arguments)
        assert said.startswith("error: ")
        for word in words:
            assert word in said

    def test_a_message_of_several_lines(self, mistake: Any) -> None:
        assert r"--set 'a\n  b': must have the form" in mistake("train", "-c", "bc/pendulum", "--set", "a\n  b")

    def test_control_c_at_any_time(self, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: Any) -> TrainConfig:
            raise KeyboardInterrupt

        monkeypatch.setattr("rl_training.experiment.config.read_config", interrupted)
        assert command("config", "show", "bc/pendulum").code == 130


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def test_a_folder_that_is_gone(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, out, err = command("doctor")
    assert (code, out) == (2, "")
    assert err.startswith("error: the folder this is called in is not there any more (No such file or directory)")


@pytest.mark.parametrize("place", ["/proc/nope", "/proc/nope/deep/er"])
def test_a_folder_of_the_compiler_that_cannot_be_made(
    place: str, command: Any, data_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", place)
    monkeypatch.setattr("rl_training.experiment.manager.start", lambda *_, **__: Path(place).mkdir(parents=True))
    code, _, err = command("train", "-c", "bc/pendulum", "--set", f"dataset={data_file}")
    said = "TORCHINDUCTOR_CACHE_DIR names no folder that can be written to: /proc/nope"
    assert (code, err) == (2, f"error: {said}: No such file or directory\n")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    err = command("train", "-c", "bc/pendulum", "--set", f"dataset={data_file}").err
    assert err == "error: /proc/nope: No such file or directory\n"


def test_a_closed_pipe_is_no_traceback() -> None:
    reader = subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE)
    reader.wait()
    code = "from rl_training.cli.main import main; import sys; sys.argv = ['x', 'algos']; main()"
    done = subprocess.run([sys.executable, "-u", "-c", code], stdout=reader.stdin, stderr=subprocess.PIPE, text=True)
    assert done.stderr == ""
    assert done.returncode == 1


@pytest.mark.parametrize("words", [["datasets"], ["doctor", "--quick", "--runs-dir"], ["config", "validate"]])
def test_names_that_no_file_can_have(words: list[str]) -> None:
    """Wherever they come to light: one line, and the exit code of a mistake."""
    done = subprocess.run(
        [sys.executable, "-m", "rl_training", *words, 300 * "n"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert re.search("File name too long|more than 255 bytes", done.stderr)
    assert len(done.stderr.splitlines()) == 1
