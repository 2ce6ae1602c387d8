"""Mistakes on the command line are answered with what to type, by the names of what lies here; and that works."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.experiment.config import read_config
from rl_training.runtime.trainer import train
from small_runs import small_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log, its configuration, and a run that sees the time of the day."""
    folder = tmp_path_factory.mktemp("plant")
    draw, lines = np.random.default_rng(0), ["when,batch,x,y,u,gain"]
    for row in range(80):
        x, y, u = draw.normal(), draw.normal(), draw.uniform(-1, 1)
        lines.append(f"2024-03-0{1 + row // 20}T{row % 20:02}:00:00,b{row // 20},{x:.4f},{y:.4f},{u:.4f},{x - u:.4f}")
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    columns = "columns: {obs: [x, y], actions: u, rewards: gain, episode_ids: batch, step: when}"
    section = f"{{source: file, path: log.csv, {columns}, observe_time: [day]}}"
    (folder / "plant.yaml").write_text(f"algo: bc\ndataset: {section}\ntotal_timesteps: 4\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train(read_config("plant.yaml", ["name=first"]))
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path) -> Path:
    """A copy of it in which the command is called."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return tmp_path


def proposed(said: str) -> list[str]:
    """The words of the command in an answer, without the program's name."""
    program, *words = shlex.split(re.findall(r"`(rl-training [^`]*)`", said)[0])
    assert program == "rl-training"
    return words


@pytest.mark.usefixtures("here")
class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("words", "line"),
        [
            ("config show", "config show plant.yaml"),
            ("config validate", "config validate plant.yaml"),
            ("config presets", "config presets rebrac"),
            ("data check", "data check -c plant.yaml"),
            ("data convert", "data convert -c plant.yaml converted.npz"),
            ("data convert plant.yaml", "data convert -c plant.yaml converted.npz"),
            ("data split", "data split -c plant.yaml -o train.npz held_out.npz"),
            ("data split plant.yaml", "data split -c plant.yaml -o train.npz held_out.npz"),
            ("data split -c plant.yaml", "data split -c plant.yaml -o train.npz held_out.npz"),
            ("export", "export first"),
            ("predict", "predict first --obs 0,0,0,0"),
            ("predict first", "predict first --obs"),
            ("report", "report first"),
            ("resume", "resume first --total-timesteps 8"),
        ],
    )
    def test_is_shown_in_a_line_that_works(self, words: str, line: str, mistake: Any, command: Any) -> None:
        found = proposed(mistake(*words.split()))
        assert shlex.join(found).startswith(line)
        assert command(*found).code == 0

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            ("init", "init log.csv"),
            ("data info", "data info log.csv"),
            ("data convert log.csv", "data convert log.csv log.npz"),
            ("data split log.csv", "data split log.csv -o train.npz held_out.npz"),
            ("data split log.csv a.npz b.npz", "data split log.csv -o a.npz b.npz"),
            ("evaluate", "evaluate first --offline"),
            ("finetune first", "finetune first --steps 10000 --env-id ID"),
            ("push first", "push first --repo USER/first --dry-run -o for-the-hub"),
        ],
    )
    def test_is_shown_in_a_line(self, words: str, line: str, mistake: Any) -> None:
        assert shlex.join(proposed(mistake(*words.split()))) == line

    def test_a_configuration_to_train(self, mistake: Any) -> None:
        for words in ("train", "train plant.yaml", "train -c"):
            assert ": rl-training train -c plant.yaml (see" in mistake(*words.split())
        assert "rl-training train -c plant.yaml --seed 1" in mistake("train", "plant.yaml", "--seed", 1)


def test_names_that_are_taken_are_not_proposed(here: Path, mistake: Any, command: Any) -> None:
    (here / "held_out.npz").touch()
    found = proposed(mistake("data", "split"))
    assert shlex.join(found) == "data split -c plant.yaml -o train-2.npz held_out-2.npz"
    assert command(*found).code == 0


def test_an_observation_of_a_run_without_data(mistake: Any, command: Any, tmp_path: Path) -> None:
    env, steps = {"env_id": "MountainCarContinuous-v0"}, {"learning_starts": 5, "buffer_capacity": 100}
    train(small_config(None, tmp_path / "runs", "sac", total_timesteps=10, algo_kwargs=steps, **env))
    found = proposed(mistake("predict"))
    assert found == ["predict", "run", "--obs", "0,0"]
    assert command(*found).code == 0


def test_without_a_run_train_first(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("algo: bc\n")
    for name in ("report", "export", "evaluate", "predict"):
        assert "train first: rl-training train -c one.yaml" in mistake(name)
    for name in ("config.yaml", "run2.yaml"):
        (tmp_path / name).write_text("algo: bc\n")
    assert "train first: rl-training train -c config.yaml" in mistake("report")


class TestHelpOf:
    @pytest.mark.parametrize("words", ["", "train", "data", "data split"])
    def test_is_what_its_option_shows(self, words: str, command: Any) -> None:
        shown, asked = command("help", *words.split()), command(*words.split(), "--help")
        assert (shown.code, shown.out) == (0, asked.out)

    def test_what_is_not_there(self, mistake: Any) -> None:
        assert "No such command 'nix'; choose from check, info, " in mistake("help", "data", "nix")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("TRAIN -c bc/pendulum", "train -c bc/pendulum"),
        ("--train", "train"),
        ("fit -c bc/pendulum", "train -c bc/pendulum"),
        ("run my.yaml", "train -c my.yaml"),
        ("run train.csv", "init train.csv"),
        ("FIT log.npz --seed 1", "init log.npz"),
        ("my.yaml", "train -c my.yaml"),
        ("log.csv", "init log.csv"),
        ("config my.yaml", "config show my.yaml"),
        ("data log.csv", "data check log.csv"),
        ("check log.csv", "data check log.csv"),
        ("validate my.yaml", "config validate my.yaml"),
        ("version", "--version"),
    ],
)
def test_commands_by_another_name(words: str, line: str, mistake: Any) -> None:
    assert f"; did you mean `rl-training {line}`?" in mistake(*words.split())


FIVE = "--seed 0 --seed 1 --seed 2 --seed 3 --seed 4"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--seeds 3", "--seeds; 3 seeds are --seed 0 --seed 1 --seed 2, and seed 3 alone is --seed 3"),
        ("--num-seeds 2", "--num-seeds; 2 seeds are --seed 0 --seed 1, and seed 2 alone is --seed 2"),
        ("--n_seeds=2", "--n_seeds; 2 seeds are --seed 0 --seed 1, and seed 2 alone is --seed 2"),
        ("--seeds=0-4", f"--seeds; did you mean {FIVE}?"),
        ("--seeds 0:5", f"--seeds; did you mean {FIVE}?"),
        ("--seeds 10", "--seeds; 10 seeds are --set 'seed=[0,1,2,3,4,5,6,7,8,9]', and"),
        (f"--seeds {'1' * 5000}", "--seeds; did you mean --seed 0 --seed 1?"),
        (f"-n {'1' * 5000}", "-n; 3 seeds are --seed 0 --seed 1 --seed 2, 3 updates --total-timesteps 3"),
        ("-n 5", f"-n; 5 seeds are {FIVE}, 5 updates --total-timesteps 5"),
        ("--seed 0-4", f"takes one number, and is repeated for more: {FIVE}"),
        ("--seed 0 1", "0 1: --seed is repeated for more: --seed 0 --seed 1"),
        ("--total-timesteps 1e5", "--total-timesteps: must be a whole number, got 1e5; write 100000"),
        ("--total-timesteps 20k", "--total-timesteps: must be a whole number, got 20k; write 20000"),
        ("--total-timesteps 4,000", "--total-timesteps: must be a whole number, got 4,000; write 4000"),
        ("--set total_timesteps=4,000", "total_timesteps: must be a whole number, got '4,000'; write 4000"),
        ("--set total_timesteps=2m", "total_timesteps: must be a whole number, got '2m'; write 2000000"),
        ("--set seed=1,2", "seed: must be a whole number, got '1,2'; several are a list, [1, 2]"),
        ("--gpu", "--gpu; did you mean --set device=cuda?"),
        ("--gpu 1", "--gpu; did you mean --set device=cuda:1?"),
        ("--wandb", "--wandb; did you mean --track wandb?"),
        ("algo=cql", "a setting is changed by --set: --set algo=cql"),
        ("--set algo cql", "--set algo: must have the form key=value: --set algo=cql"),
        ("--set seed: 1", "--set seed:: must have the form key=value: --set seed=1"),
        ("-seed 1", "-seed; did you mean --seed, with two dashes?"),
        ("--offline", "--offline; it is an option of `rl-training evaluate`"),
        ("-o model.pt", "-o; a run lies in runs/NAME: --name NAME calls it so"),
        ("--resume", "--resume: takes auto; a given run is continued by `rl-training resume RUN`"),
        ("other.yaml", "other.yaml: is more than this command takes; one configuration at a time"),
    ],
)
def test_options_of_train(words: str, told: str, mistake: Any) -> None:
    assert told in mistake("train", "-c", "bc/pendulum", *words.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train -help", "-help; did you mean --help, with two dashes?"),
        ("export first policy.onnx", "policy.onnx: the file to write is named by -o: -o policy.onnx"),
        ("export first --best", "--best; did you mean --which best?"),
        ("export --run first", "--run; a run is named without: `rl-training export first`"),
        ("evaluate --run=foo --offline", "--run; a run is named without: `rl-training evaluate foo --offline`"),
        ("report --run foo --runs-dir x", "--run; a run is named without: `rl-training report foo --runs-dir x`"),
        ("init log.csv my.yaml", "my.yaml: the file to write is named by -o: -o my.yaml"),
        ("init log.csv --config my.yaml", "--config; the configuration to write is -o FILE.yaml"),
        ("init log.csv --algorithm iql", "--algorithm; did you mean --algo?"),
        ("data split log.csv -o a.npz b.npz --test-size 0.2", "--test-size; did you mean --held-out?"),
        ("data convert log.csv -o a.npz", "-o; what to write is named without: SOURCE TARGET"),
        ("report first report.html", "report.html: is no run; the page to write is named by -o: -o report.html"),
        ("report first --data log.csv", "--data; did you mean --held-out?"),
        ("resume first --steps 9", "--steps; did you mean --total-timesteps?"),
        ("finetune first --total-timesteps 9", "--total-timesteps; did you mean --steps?"),
        ("runs first", "first: this lists all runs; of one, `rl-training report RUN` writes a page"),
    ],
)
def test_options_of_others(words: str, told: str, mistake: Any) -> None:
    assert told in mistake(*words.split())


class TestTheTime:
    """Of a policy that sees the time of the day."""

    ADVICE = "sin_day, cos_day are computed from when, which is given by name: --obs x=1,y=2,when=2024-06-01T12:00"

    @pytest.mark.usefixtures("here")
    @pytest.mark.parametrize("given", ["1,2", "x=1,y=2", "y=2,x=1", "y=2,sin_day=0.5,x=1"])
    def test_what_is_computed_from_it_is_said(self, given: str, mistake: Any, command: Any) -> None:
        assert mistake("predict", "first", "--obs", given).endswith(self.ADVICE)
        assert command("predict", "first", *self.ADVICE.split()[-2:]).code == 0

    @pytest.mark.usefixtures("here")
    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ("x=1,sin_day=0.5", {"x": "1", "when": "2024-06-01T12:00"}),
            ("y=1.23456,when=2024-06-02T07:00", {"y": "1.23456", "when": "2024-06-02T07:00"}),
        ],
    )
    def test_what_was_given_keeps_its_name(self, given: str, kept: dict[str, str], mistake: Any, command: Any) -> None:
        line = shlex.split(mistake("predict", "first", "--obs", given).rpartition(": ")[2])
        values = dict(part.split("=") for part in line[1].split(","))
        assert list(values) == ["x", "y", "when"]
        assert values | kept == values
        assert values["y"] != "0.5"
        assert command("predict", "first", *line).code == 0

    @pytest.mark.usefixtures("here")
    def test_is_taken_by_its_name(self, command: Any) -> None:
        by_name = command("predict", "first", "--obs", "when=2024-06-01T06:00,y=2,x=1")
        assert (by_name.code, by_name.out) == (
            0,
            command("predict", "first", "--obs", f"1,2,1,{np.cos(np.pi / 2)}").out,
        )

    @pytest.mark.usefixtures("here")
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ("x=1,y=2,when=noon", "column 'when': 'noon' at row 0 is neither a number nor a time"),
            ("x=1 y=2", "values are separated by commas: --obs x="),
            ("x=1,5,y=2", "'5' has no name; write decimals with a point: --obs x="),
            ("a,b,c", "must be numbers separated by commas, or by name, such as --obs x="),
        ],
    )
    def test_other_mistakes(self, given: str, told: str, mistake: Any) -> None:
        assert told in mistake("predict", "first", "--obs", given)


def test_a_name_with_a_comma(here: Path, mistake: Any, command: Any) -> None:
    (here / "log.csv").write_text((here / "log.csv").read_text().replace(",x,y,", ',"T, °C","a ""b""",'))
    (here / "plant.yaml").write_text((here / "plant.yaml").read_text().replace("[x, y]", "['T, °C', 'a \"b\"']"))
    assert command("train", "-c", "plant.yaml", "--name", "hot").code == 0
    line = shlex.split(mistake("predict", "hot", "--obs", "1,2").rpartition(": ")[2])
    assert line == ["--obs", '"T, °C=1","a ""b""=2",when=2024-06-01T12:00']
    answer = command("predict", "hot", *line)
    assert answer.code == 0
    names_alone = '"T, °C"=1,"a ""b"""= "2",when=2024-06-01T12:00'
    assert command("predict", "hot", "--obs", names_alone).out == answer.out
    told = mistake("predict", "hot", "--obs", names_alone.replace("=1", "=1 K"))
    assert told.endswith('give it without its unit, "T, °C=1"')


@pytest.mark.usefixtures("here")
def test_a_header_alone(here: Path, mistake: Any) -> None:
    """Of a policy whose rows need a date."""
    (here / "now.csv").write_text("x,y,when\n")
    told = "--obs-file now.csv: has no rows; each is an observation of 4 values"
    assert told in mistake("predict", "first", "--obs-file", "now.csv")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", [["--format", "pt"], ["--format", "torchscript"], ["-o", "policy.pt"]])
def test_files_for_torch(words: list[str], mistake: Any) -> None:
    assert ": torch reads .pt2 here: --format torch, or -o FILE.pt2" in mistake("export", "first", *words)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("algo: bc\n\tdataset: a.csv\n", "; indent with blanks, not with tabs"),
        ("algo:bc\ndataset: a.csv\n", "; write line 1 `algo:bc` as `algo: bc`"),
        (
            "algo:\xa0bc\nseed: 1\n",
            "; line 1 holds a blank that does not break, as web pages have it; type a plain one",
        ),
        (
            "dataset:\n\xa0\xa0path: a.csv\n",
            "line 2 (a blank that does not break, as web pages have it; type a plain one)",
        ),
        ("algo: x: bc\n", "; each key is followed by a colon and a blank, and stands in its own line"),
        ("dataset:\n  source: file\n   path: a.csv\n", "indented alike, and more than its name"),
        (
            "dataset:\n   path: a.csv\n  source: file\n",
            "by 2, the lines above it by 0 or 3; indent it like one of them",
        ),
        ("x: [a, b\nalgo: bc\n", "; the bracket [ of line 1 `x: [a, b` is not closed; write ] at its end"),
        (
            "algo: 'bc\nseed: 1\nname: 'a'\n",
            "in line 1 `algo: 'bc` is not closed; write another at the end of the value",
        ),
        ("algo: bc\nseed = 1\nname: a\n", "; write line 2 `seed = 1` as `seed: 1`"),
        (  # what stands in brackets of several lines is right
            "algo: bc\nend_reasons: {crash: termination,\n    timeout: truncation}\nseed = 3\nname: a\n",
            "; write line 4 `seed = 3` as `seed: 3`",
        ),
        (  # a block of text is no key
            "notes: |\n  seed 3\n  x = [\nx: [a, b\nalgo: bc\n",
            "; the bracket [ of line 4 `x: [a, b` is not closed; write ] at its end",
        ),
        ("notes: a text\n  goes on\nseed = 3\nname: a\n", "; write line 3 `seed = 3` as `seed: 3`"),
        ("notes:\n  a text\n  goes on\nseed = 3\nname: a\n", "; write line 4 `seed = 3` as `seed: 3`"),
        ("notes: 'a text\n  goes on'\nseed = 3\nname: a\n", "; write line 3 `seed = 3` as `seed: 3`"),
        ("notes: it's [a\nseed = 3\nname: a\n", "; write line 2 `seed = 3` as `seed: 3`"),
        ("parts:\n  - a: 1\n    b: 2\nseed = 3\nname: a\n", "; write line 4 `seed = 3` as `seed: 3`"),
        ("x: {a: 1\nalgo: bc\n", "; the bracket { of line 1 `x: {a: 1` is not closed; write } at its end"),
        (
            "x: {a: 1,\n  b: 2\nalgo: bc\n",
            "; the bracket { of line 1 `x: {a: 1,` is not closed; write } after its last value",
        ),
        ("x: {a: [1, 2}\n", "; the bracket [ of line 1 `x: {a: [1, 2}` is not closed; write ] before }"),
        ("algo: bc\nx: [TI [C], b]\n", "; names with brackets stand in quotes: ['TI-101 [°C]', PI-205]"),
        ("", "is empty; `rl-training init DATA` writes one"),
    ],
)
def test_yaml(text: str, told: str, mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    assert mistake("config", "validate", "c.yaml").endswith(told)


def test_a_state_is_an_observation(mistake: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,u,r\n" + "1,2,3\n" * 9)
    words = ["--columns", "state=x", "--columns", "actions=u"]
    assert "no field 'state'; did you mean 'obs'?" in mistake("data", "info", "log.csv", *words)


@pytest.mark.parametrize(
    ("words", "meant"), [(("A", "B"), "A B"), (("my run", "B"), "'my run' B"), ((), "RUN RUN"), (("A",), "RUN RUN")]
)
def test_two_runs_are_compared_by_an_option_of_runs(words: tuple[str, ...], meant: str, mistake: Any) -> None:
    told = f"No such command 'compare'; did you mean `rl-training runs --compare {meant}`?"
    assert told in mistake("compare", *words)
