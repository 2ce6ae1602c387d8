"""A log with columns of words, from `init` to the exported policy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import yaml_dialect
from rl_training.data.offline_dataset import TransitionDataset

SHORT = ("--set", "total_timesteps=3", "--set", "algo_kwargs={batch_size: 8}", "--quiet")
MODES = ("heat", "cool", "dry")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twenty episodes of a room with a door."""
    noise = np.random.default_rng(0).normal(size=(400, 2))
    rows = ["run,t,obs_temp,action_heat,reward,last,door,mode"]
    for i, (temp, heat) in enumerate(noise):
        door, mode = ("Open" if i % 7 == 0 else "shut"), MODES[i % 3]
        rows.append(f"{i // 20},{i % 20},{temp:.3f},{heat:.3f},{-abs(temp):.3f},{int(i % 20 == 19)},{door},{mode}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def config(log: Path, command: Any, tmp_path: Path) -> Path:
    """What init writes, with the door among the observations."""
    assert command("init", log.name).code == 0
    path = tmp_path / "config.yaml"
    path.write_text(path.read_text().replace("obs: obs_temp", "obs: [obs_temp, door]"))
    assert "obs: [obs_temp, door]" in path.read_text()
    return path


@pytest.mark.usefixtures("log")
def test_init_proposes_numbers(command: Any, tmp_path: Path) -> None:
    told = " ".join(command("init", "log.csv").out.split())
    assert "words door: shut 0, Open 1" in told
    assert "not used door (the words Open, shut; words gives them numbers), mode (the words heat, cool, dry;" in told
    text = (tmp_path / "config.yaml").read_text()
    assert "  words:\n    door: {shut: 0, Open: 1}  # rows: shut 342, Open 58\n" in text
    assert "    # mode: {cool: 0, dry: 1, heat: 2}\n" in text
    assert "mode: 3 words (cool 133, dry 133, heat 134 rows); numbers say that one lies" in " ".join(text.split())
    assert yaml_dialect.read(text)["dataset"]["words"] == {"door": {"shut": 0, "Open": 1}}


@pytest.mark.parametrize(("name", "obs", "actions"), [("Tor", ", Tor", ""), ("Klappe", "", ", Klappe")])
def test_init_has_them_among_what_may_be_observed_or_done(
    name: str, obs: str, actions: str, command: Any, tmp_path: Path
) -> None:
    rows = [f"{i // 10},{i * 7 % 11}.5,{i * 5 % 13}.5,{i % 4}.5,{'zu' if i % 3 else 'auf'}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join([f"Schicht,ka,kb,eur,{name}", *rows]) + "\n")
    told = command("init", "log.csv").out
    assert "not used" not in told
    text = (tmp_path / "config.yaml").read_text()
    assert f"    # candidate: obs: [ka, kb{obs}]\n" in text
    assert f"    # candidate: actions: [ka, kb{actions}]\n" in text
    assert f"    {name}: {{zu: 0, auf: 1}}  # rows: zu 40, auf 20\n" in text
    assert ("snap_actions: true" in text) == bool(actions)


def test_three_words_alone_stay_a_comment(command: Any, tmp_path: Path) -> None:
    rows = [f"{i // 10},{i * 7 % 11}.5,{i * 5 % 13}.5,{i % 4}.5,{MODES[i % 3]}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(["run,obs_a,action_b,reward,kind", *rows]) + "\n")
    assert command("init", "log.csv").code == 0
    text = (tmp_path / "config.yaml").read_text()
    assert "  # words:\n" in text
    assert yaml_dialect.read(text)["dataset"].get("words") is None


def test_every_command_reads_them_alike(config: Path, command: Any, tmp_path: Path) -> None:
    assert command("config", "validate", config.name).code == 0
    checked = command("data", "check", "-c", config.name, "--json")
    assert json.loads(checked.out)["facts"]["obs_dim"] == 2
    assert command("data", "split", "-c", config.name, "-o", "train.csv", "aside.csv").code == 0
    assert command("data", "convert", "log.npz", "-c", config.name).code == 0
    assert command("train", "-c", config.name, "--name", "own", *SHORT).code == 0
    (tmp_path / "made.yaml").write_text("algo: bc\ndataset: train.csv\n")
    assert command("train", "-c", "made.yaml", "--name", "made", *SHORT).code == 0
    for run in ("own", "made"):
        by_word = command("predict", f"runs/{run}", "--obs", "door=OPEN,obs_temp=0.5")
        assert by_word.code == 0
        assert by_word.out == command("predict", f"runs/{run}", "--obs", "0.5,1").out
        assert by_word.out == command("predict", f"runs/{run}", "--obs", "0.5,open").out
        assert by_word.out != command("predict", f"runs/{run}", "--obs", "door=shut,obs_temp=0.5").out
    (tmp_path / "new.csv").write_text("mode,door,obs_temp\ndry,Open,0.5\nheat,1,0.5\n")
    from_file = command("predict", "runs/own", "--obs-file", "new.csv").out.splitlines()
    own = command("predict", "runs/own", "--obs", "0.5,1").out
    np.testing.assert_allclose([json.loads(line) for line in from_file], [json.loads(own)] * 2, rtol=1e-4)
    assert command("export", "runs/own", "-o", "policy.onnx").code == 0
    card = json.loads((tmp_path / "policy.onnx.json").read_text())
    assert card["inputs"][0]["columns"][1]["words"] == {"shut": 0.0, "Open": 1.0}
    assert "words" not in card["inputs"][0]["columns"][0]


def test_an_unknown_word_of_an_observation(config: Path, command: Any, mistake: Any, tmp_path: Path) -> None:
    assert command("train", "-c", config.name, "--name", "own", *SHORT).code == 0
    said = mistake("predict", "runs/own", "--obs", "door=wide,obs_temp=0.5")
    assert said.endswith("column 'door' must be one number, or one of shut, Open, got 'wide'")
    (tmp_path / "new.csv").write_text("door,obs_temp\nwide,0.5\n")
    assert "column 'door': 'wide' at row 0 is none of its words, shut, open" in mistake(
        "predict", "runs/own", "--obs-file", "new.csv"
    )


def test_words_with_blanks_and_commas(log: Path, config: Path, command: Any, mistake: Any) -> None:
    log.write_text(log.read_text().replace("shut", "half open").replace("Open", '"ajar, a bit"'))
    config.write_text(config.read_text().replace("{shut: 0, Open: 1}", "{half open: 0, 'ajar, a bit': 1}"))
    assert command("train", "-c", config.name, "--name", "own", *SHORT).code == 0
    for number, texts in {
        "0": ["0.5,half open", "0.5, Half open", "door=half open,obs_temp=0.5", '"door=half open",obs_temp=0.5'],
        "1": ['0.5,"ajar, a bit"', 'door="ajar, a bit",obs_temp=0.5', 'obs_temp=0.5, "door=Ajar, a bit"'],
    }.items():
        expected = command("predict", "runs/own", "--obs", f"0.5,{number}")
        assert expected.code == 0
        for text in texts:
            assert command("predict", "runs/own", "--obs", text) == expected
    said = mistake("predict", "runs/own", "--obs", "door=ajar, a bit,obs_temp=0.5")
    assert said.endswith("'a bit' is not NAME=VALUE; a word with a comma goes in double quotes, NAME=\"a, b\"")


def test_options_of_the_command_line(log: Path, command: Any, mistake: Any) -> None:
    columns = ["--columns", "obs=obs_temp,door,mode", "--columns", "actions=action_heat"]
    words = ["--words", "door=shut:0,open:1", "--words", "mode=cool:-1,dry:0,heat:1"]
    checked = command("data", "check", log.name, *columns, *words, "--json")
    assert json.loads(checked.out)["facts"]["obs_dim"] == 3
    said = mistake("data", "check", log.name, *columns, *words[:2])
    assert (
        "'mode' holds text in most rows: say what number each word stands for, --words mode=cool:0,dry:1,heat:2" in said
    )


CHECKED = 5_000  # rows that `config validate` looks at


def log_of(doors: list[Any]) -> dict[str, list[Any]]:
    rows = range(len(doors))
    return {
        "run": [i // 100 for i in rows],
        "x": [i % 7 / 2 for i in rows],
        "door": doors,
        "u": [i % 5 / 4 for i in rows],
        "r": [1.5] * len(doors),
    }


def write(path: Path, columns: dict[str, list[Any]]) -> None:
    if path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), path)
    else:
        rows = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        path.write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
class TestValidate:
    """A configuration that is called valid can be trained on, as far as the first rows and all words tell."""

    def config(self, folder: Path, name: str, more: str = "") -> None:
        columns = "{obs: [x, door], actions: u, rewards: r, episode_ids: run}"
        section = f"dataset:\n  source: file\n  path: {name}\n  columns: {columns}\n{more}"
        (folder / "c.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\n{section}")

    def test_sees_a_column_of_text(self, name: str, mistake: Any, tmp_path: Path) -> None:
        write(tmp_path / name, log_of(["open", "shut"] * 100))
        self.config(tmp_path, name)
        said = mistake("config", "validate", "c.yaml")
        assert said.startswith(f"error: c.yaml: dataset: {name}: column 'door': 'open' at row 0 is not a number")
        assert said.endswith("say what number each word stands for, words: {door: {shut: 0, open: 1}}, or leave it out")

    def test_sees_a_word_far_down(self, name: str, command: Any, mistake: Any, tmp_path: Path) -> None:
        write(tmp_path / name, log_of([*["open", "shut"] * CHECKED, "wide"]))
        self.config(tmp_path, name, "  words: {door: {shut: 0, open: 1}}\n")
        none = f"column 'door': 'wide' at row {2 * CHECKED} is none of its words, shut, open; say its number"
        assert none in mistake("config", "validate", "c.yaml")
        assert none in mistake("data", "check", "-c", "c.yaml")
        self.config(tmp_path, name, "  words: {door: {shut: 0, open: 1, wide: 2}}\n")
        assert command("config", "validate", "c.yaml").code == 0

    def test_takes_flags_for_words(self, name: str, command: Any, tmp_path: Path) -> None:
        write(tmp_path / name, log_of([True, False] * 100))
        self.config(tmp_path, name, "  words: {door: {'true': 1, 'false': 0}}\n")
        assert command("config", "validate", "c.yaml").code == 0

    def test_leaves_what_is_missing_alone(self, name: str, command: Any, tmp_path: Path) -> None:
        write(tmp_path / name, log_of(["1", "ERR", "0", ""] * 50))
        self.config(tmp_path, name, "  missing: hold\n  missing_words: [ERR]\n")
        assert command("config", "validate", "c.yaml").code == 0


class TestDecimalCommas:
    """`config validate` reads words as `data check` and `train` do."""

    @pytest.fixture(autouse=True)
    def config(self, tmp_path: Path) -> None:
        columns = "columns: {obs: [x, door], actions: u, rewards: r, episode_ids: run}"
        section = f"{{source: file, path: log, {columns}, words: {{door: {{shut: 0, open: 1}}}}}}"
        (tmp_path / "c.yaml").write_text(f"algo: bc\ntotal_timesteps: 10\ndataset: {section}\n")
        (tmp_path / "log").mkdir()

    def write(self, folder: Path, name: str, last: str) -> None:
        doors = [*["open", "shut", "0,5"] * 20, last]
        rows = [f"{name};{i % 7},25;{door};{i % 5},5;1,5" for i, door in enumerate(doors)]
        (folder / "log" / f"{name}.csv").write_text("\n".join(["run;x;door;u;r", *rows]) + "\n")

    def test_numbers_among_words(self, command: Any, tmp_path: Path) -> None:
        self.write(tmp_path, "a", "0,5")
        assert command("data", "check", "-c", "c.yaml").code == 0
        assert command("config", "validate", "c.yaml").code == 0

    def test_another_word_in_the_second_file(self, mistake: Any, tmp_path: Path) -> None:
        self.write(tmp_path, "a", "0,5")
        self.write(tmp_path, "b", "wide")
        none = "dataset: log: b.csv: column 'door': 'wide' at row 60 is none of its words, shut, open; say its number"
        assert none in mistake("config", "validate", "c.yaml")


def test_a_raw_file_beside_a_run_comes_with_the_command_that_converts_it(
    config: Path, command: Any, mistake: Any, tmp_path: Path
) -> None:
    """The run's own file tells how it was written, so that the same can be said of other raw files."""
    assert command("data", "split", "-c", config.name, "-o", "train.npz", "aside.npz").code == 0
    (tmp_path / "made.yaml").write_text("algo: bc\ndataset: train.npz\n")
    assert command("train", "-c", "made.yaml", "--name", "own", *SHORT).code == 0
    for asked in (("evaluate", "runs/own", "--offline", "--data"), ("report", "runs/own", "--held-out")):
        said = mistake(*asked, "log.csv")
        way = said.partition("bring it into form: rl-training ")[2]
        assert way.startswith("data convert log.csv NEW.npz --columns obs=obs_temp,door --columns ")
        assert " --words door=shut:0,Open:1" in way
        assert command(*shlex.split(way), "--force").code == 0
        assert command("data", "convert", "log.csv", "same.npz", "-c", config.name, "--force").code == 0
        made, same = (TransitionDataset.load(tmp_path / name) for name in ("NEW.npz", "same.npz"))
        assert made.fingerprint() == same.fingerprint()
    assert command("report", "runs/own", "--held-out", "NEW.npz", "-o", "page.html").code == 0


def test_other_data_are_converted_as_a_configuration_reads_its_own(config: Path, command: Any, tmp_path: Path) -> None:
    (tmp_path / "later.csv").write_text((tmp_path / "log.csv").read_text().replace("shut", "Open"))
    assert command("data", "convert", "later.csv", "later.npz", "-c", config.name).code == 0
    assert TransitionDataset.load(tmp_path / "later.npz").obs[:, 1].min() == 1.0
    code, _, said = command("data", "check", "later.csv", "-c", config.name)
    assert (code, said.startswith("error: --config config.yaml: not beside later.csv")) == (2, True)
