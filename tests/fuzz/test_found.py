"""What mutation has found once, each as the smallest file that shows it."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutations import is_answered, make_sums_agree
from rl_training import yaml_dialect
from rl_training.cli.observation_files import read_observations
from rl_training.data import TransitionDataset
from rl_training.data.formats import columns
from rl_training.environments import make_env
from rl_training.errors import CheckpointError, ConfigError, DataError, EnvironmentUnsupportedError, RLTrainingError
from rl_training.experiment.config import read_config
from rl_training.experiment.curves import draw_learning_curve
from rl_training.experiment.manager import load_policy, resume
from rl_training.experiment.run_listing import summarise
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import Trainer, train
from small_runs import small_config

COLUMN = {"name": "x", "low": 0, "high": 1}


def refusal(kind: type[RLTrainingError], action: Any) -> str:
    with pytest.raises(kind) as refused:
        action()
    return str(refused.value)


def read_text(text: str, folder: Path) -> None:
    """As a configuration."""
    (folder / "c.yaml").write_text(text)
    read_config(str(folder / "c.yaml"))


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds."""
    return train(small_config(data_file, tmp_path_factory.mktemp("runs"), "iql", seed=[0, 1])).run.path


class TestConfigurations:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("!!bool foo", "(a value is not what its tag says)"),
            ("!!int ''", "(a value is not what its tag says)"),
            ("!!timestamp x", "(a value is not what its tag says)"),
            (":".join(["59"] * 2000) + ".5", "(a value is not what its tag says)"),
            ("0x" + "f" * 5000, "at line 1 (a whole number without end)"),
            ("? 0x" + "f" * 5000, "at line 1 (a whole number without end)"),
            ('"\\uD800"', "at line 1 (half a surrogate pair)"),
            ('"\\uDC00\\uD800"', "at line 1 (half a surrogate pair)"),
            ('{"\\uD83D\\uDE00": 1, "\U0001f600": 2}', "at line 1 (\U0001f600 is given twice)"),
            ("[" * 3000, "(nested more than 50 deep)"),
            ("a: " + "x" * 2**18, "(262,147 characters; at most 262,144 are read)"),
        ],
    )
    def test_yaml(self, text: str, complaint: str, tmp_path: Path) -> None:
        (tmp_path / "c.yaml").write_text(text)
        told = refusal(ConfigError, lambda: read_config(str(tmp_path / "c.yaml")))
        assert told == f"{tmp_path / 'c.yaml'}: is not valid YAML {complaint}"

    def test_a_whole_surrogate_pair(self) -> None:
        assert yaml_dialect.read('name: "a \\uD83D\\uDE00"') == {"name": "a \U0001f600"}

    def test_merges_that_multiply(self, tmp_path: Path) -> None:
        lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} {{<<: [{f'*a{i - 1}, ' * 10}]}}" for i in range(1, 9))]
        told = refusal(ConfigError, lambda: read_text("\n".join(lines), tmp_path))
        assert told.endswith("at line 6 (more than 100,000 values, with those that aliases repeat)")

    @pytest.mark.parametrize(
        "text",
        [
            "a: &a {KEYS}\nb: {<<: [*a,*a,*a,*a,*a,*a,*a,*a]}",
            "a: [&a {b: &b [KEYS]}, *b, *a, *a, *a, *a, *a, *a, *a, *a, *a]",
        ],
    )
    def test_aliases_that_multiply(self, text: str, tmp_path: Path) -> None:
        keys = ",".join(f"k{number}" for number in range(9_900))
        assert not is_answered(lambda: read_text(text.replace("KEYS", keys), tmp_path), text)
        told = refusal(ConfigError, lambda: read_text(text.replace("KEYS", keys), tmp_path))
        assert "(more than 100,000 values, with those that aliases repeat)" in told

    @pytest.mark.parametrize("of", ["{}", "algo_kwargs: {{{}}}", "? {0}\n: 1\n? {0}\n: 2", "a: *{0}"])
    def test_a_line_stays_short(self, of: str, tmp_path: Path) -> None:
        """Of thousands of misspelt options, and of what is a name without end."""
        if "0" in of:
            lines = of.format("x" * 50_000)
        else:
            lines = of.format(("\n" if of == "{}" else ", ").join(f"option_{number}: 1" for number in range(3_000)))
        assert not is_answered(lambda: read_text(f"algo: bc\ntotal_timesteps: 5\n{lines}\n", tmp_path), of)

    def test_what_contains_itself(self, tmp_path: Path) -> None:
        told = refusal(ConfigError, lambda: read_text("a: &a {b: 1, <<: [*a, *a]}", tmp_path))
        assert told.endswith("at line 1 (a value that contains itself)")

    def test_a_preset_that_is_no_text_is_not_written_out(self, tmp_path: Path) -> None:
        many: Any = [0]
        for _ in range(40):
            many = [many, many]
        assert "preset: must be text, got" in refusal(
            ConfigError, lambda: TrainConfig.parse({"algo": "bc", "total_timesteps": 5, "preset": many})
        )

    @pytest.mark.parametrize("changes", [{"total_timesteps": 2**63}, {"algo_kwargs": {"actor_hidden": [2**63]}}])
    def test_numbers_without_end(self, changes: dict[str, Any]) -> None:
        values = {"algo": "bc", "total_timesteps": 5, **changes}
        assert "must be below 2^63" in refusal(ConfigError, lambda: TrainConfig.parse(values))

    def test_an_override_of_two_lines_is_told_in_one(self) -> None:
        assert "\n" not in refusal(ConfigError, lambda: read_config("bc/pendulum", ["seed=? [a]\n: b"]))

    def test_networks_that_cannot_be_are_not_tried(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, algo_kwargs={"actor_hidden": [10**6, 10**6]})
        told = refusal(ConfigError, lambda: Trainer(config).assemble())
        assert told.startswith("algo_kwargs: networks and a batch of 8 need more than")

    def test_no_module_is_imported_because_a_file_names_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "trap.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert "no module is imported" in refusal(EnvironmentUnsupportedError, lambda: make_env("trap:Trap-v0"))
        assert not (tmp_path / "ran").exists()
        assert "trap" not in sys.modules


class TestData:
    @pytest.fixture
    def folder(self, dataset: TransitionDataset, tmp_path: Path) -> Path:
        columns.write(dataset.select(np.arange(200)), tmp_path / "log")
        return tmp_path / "log"

    def test_a_pipe_for_a_schema(self, folder: Path) -> None:
        (folder / "schema.json").unlink()
        os.mkfifo(folder / "schema.json")
        told = refusal(DataError, lambda: TransitionDataset.load(folder))
        assert told == f"{folder}: schema.json: is not a file"

    @pytest.mark.parametrize("name", ["p.yaml", "p.csv", "p.onnx"])
    def test_a_pipe_named_as_data(self, name: str, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / name)
        values = {"algo": "bc", "dataset": str(tmp_path / name), "total_timesteps": 2}
        told = refusal(DataError, lambda: Trainer(TrainConfig.parse(values)).assemble())
        assert told.endswith("is not a file that can be read from its beginning (a pipe or a device)")

    def test_a_link_for_a_schema(self, folder: Path) -> None:
        (folder / "schema.json").unlink()
        (folder / "schema.json").symlink_to("/dev/zero")
        assert "schema.json: is a link" in refusal(DataError, lambda: TransitionDataset.load(folder))

    def test_a_link_among_parquet_files(self, tmp_path: Path) -> None:
        (tmp_path / "a.parquet").symlink_to("/dev/zero")
        assert "a.parquet: is a link" in refusal(DataError, lambda: TransitionDataset.load(tmp_path))

    @pytest.mark.parametrize("name", ["metadata.json", "main_data.hdf5"])
    def test_a_link_in_a_minari_dataset(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").write_text("{}")
        for own in ("metadata.json", "main_data.hdf5"):
            (tmp_path / own).write_text("{}")
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("elsewhere")
        assert f"{name}: is a link" in refusal(DataError, lambda: TransitionDataset.load(tmp_path))

    def test_a_link_for_the_folder_of_a_minari_dataset(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        for own in ("metadata.json", "main_data.hdf5"):
            (tmp_path / "elsewhere" / own).write_text("{}")
        (tmp_path / "log").mkdir()
        (tmp_path / "log" / "data").symlink_to(tmp_path / "elsewhere")
        assert "data: is a link" in refusal(DataError, lambda: TransitionDataset.load(tmp_path / "log"))

    def test_a_link_for_the_configuration_of_a_run(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere.yaml").write_text("dataset: secret.npz\n")
        (tmp_path / "log").mkdir()
        (tmp_path / "log" / "run.json").write_text("{}")
        (tmp_path / "log" / "config.yaml").symlink_to(tmp_path / "elsewhere.yaml")
        told = refusal(DataError, lambda: TransitionDataset.load(tmp_path / "log"))
        assert told == f"{tmp_path / 'log'}: is a run, not data"

    def test_text_of_what_is_no_character(self, tmp_path: Path) -> None:
        ids = np.array([0x110000, 0x61], dtype="<u4").view("<U1")
        np.savez(tmp_path / "log.npz", obs=np.zeros((2, 1)), episode_ids=ids)
        told = refusal(DataError, lambda: TransitionDataset.load(tmp_path / "log.npz"))
        assert told.endswith("episode_ids.npy: damaged (its text holds what is no character)")

    def test_a_message_cannot_write_to_the_terminal(self) -> None:
        assert str(DataError("a\x1b[2J\nb\ud800")) == "a\\x1b[2J\\nb\\ud800"


class TestCheckpoints:
    def edited(self, run: Path, target: Path, part: str, **changes: Any) -> Path:
        """A copy of the checkpoint with entries of its state changed and the sums made to agree."""
        (source,) = (run / "checkpoints").iterdir()
        target.mkdir()
        for file in source.iterdir():
            (target / file.name).write_bytes(file.read_bytes())
        state = json.loads((target / "state.json").read_text())
        state[part].update(changes)
        (target / "state.json").write_text(json.dumps(state))
        make_sums_agree(target)
        return target

    @pytest.mark.parametrize(
        ("part", "changes", "complaint"),
        [
            ("spaces", {"obs_dim": 10**9}, "config: describes networks larger than the"),
            ("spaces", {"obs_dim": float("inf")}, "spaces: stored value is malformed: OverflowError"),
            ("spaces", {"obs_dim": -1}, "spaces: -1 observed values and 1 of an action cannot be"),
            ("spaces", {"action_low": [float("nan")]}, "spaces: each action_low must be below its action_high"),
            ("spaces", {"obs_columns": [COLUMN] * 2}, "spaces: stored value is malformed: ValueError: 2 names for 3"),
            ("spaces", {"obs_columns": [{**COLUMN, "low": float("nan")}] * 3}, "'x', nan to 1.0 is no column"),
            ("spaces", {"obs_columns": [{**COLUMN, "name": "x" * 9999}] * 3}, "xxx', 0.0 to 1.0 is no column"),
            ("spaces", {"obs_columns": [{**COLUMN, "name": "\ud800"}] * 3}, "UnicodeEncodeError"),
            ("transforms", {"action_low": [0, 0], "action_high": [1, 1]}, "transforms.action_low: has 2 entries"),
            ("transforms", {"obs_mean": [0], "obs_std": [1]}, "transforms.obs_mean: has 1 entries, expected 3"),
            ("transforms", {"obs_mean": [0] * 3, "obs_std": [0] * 3}, "transforms.obs_std: must be above 0"),
            ("transforms", {"reward_scale": float("nan")}, "transforms.reward_scale: is not finite"),
            ("progress", {"best": "a" * 9999}, "progress.best: 'aaa"),
        ],
    )
    def test_a_state(self, part: str, changes: dict[str, Any], complaint: str, run: Path, tmp_path: Path) -> None:
        place = self.edited(run, tmp_path / "edited", part, **changes)
        assert not is_answered(lambda: load_policy(place), complaint)
        assert complaint in refusal(CheckpointError, lambda: load_policy(place))

    @pytest.mark.parametrize("wide", [{"actor_hidden": [60_000, 60_000]}, {"n_critics": 10**9}])
    def test_networks_larger_than_what_is_stored(self, wide: dict[str, Any], run: Path, tmp_path: Path) -> None:
        state = json.loads(next((run / "checkpoints").glob("*/state.json")).read_text())
        knobs = {**state["config"]["algo_kwargs"], **wide}
        place = self.edited(run, tmp_path / "edited", "config", algo_kwargs=knobs)
        assert not is_answered(lambda: load_policy(place), str(wide))
        assert "larger than the" in refusal(CheckpointError, lambda: load_policy(place))

    def test_a_million_empty_tensors(self, run: Path, tmp_path: Path) -> None:
        place = self.edited(run, tmp_path / "edited", "progress")
        empty = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(1_000_000)}
        header = json.dumps(empty).encode()
        (place / "weights.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        del empty, header
        make_sums_agree(place)
        assert not is_answered(lambda: load_policy(place), "a million")
        told = refusal(CheckpointError, lambda: load_policy(place))
        assert told.endswith("malformed checkpoint (ValueError: a list of tensors of more than 4,194,304 bytes)")

    def test_every_seed_diverged(self, run: Path, tmp_path: Path) -> None:
        finding = {"since": 0, "step": 3, "what": "x", "causes": "y", "now_at": "step 0"}
        place = self.edited(
            run, tmp_path / "edited", "progress", divergences=[{"seed": 0, **finding}, {"seed": 1, **finding}]
        )
        told = refusal(CheckpointError, lambda: load_policy(place).predict([0.1, 0.2, 0.3]))
        assert told == "seed: every one of this run diverged; name one to have its policy all the same"

    @pytest.mark.parametrize("contents", [{"best": "x"}, {"best": None}, {"status": 3}, {"dataset": []}, []])
    def test_a_run_that_describes_itself_wrongly(self, contents: Any, tmp_path: Path) -> None:
        (tmp_path / "run.json").write_text(json.dumps(contents))
        told = refusal(CheckpointError, RunDirectory.open(tmp_path).describe)
        assert "run.json: is not a description of a run" in told


class TestRunsOfStrangers:
    """Going on with a run writes into it, and nowhere else; nothing in it keeps one waiting."""

    @pytest.fixture
    def hers(self, data_file: Path, tmp_path: Path) -> Path:
        values = {"env_id": "Pendulum-v1", "evaluation": {"episodes": 1, "max_steps": 2}}
        return train(small_config(data_file, tmp_path, "bc", name="hers", **values)).run.path

    @pytest.mark.parametrize(
        "name", [".lock", "metrics.jsonl", "metrics.jsonl.aside", "learning_curve.png", "run.json", "config.yaml"]
    )
    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_link_out_of_it(self, name: str, is_there: bool, hers: Path, tmp_path: Path) -> None:
        mine = tmp_path / "mine"
        if name.endswith(".aside"):  # what is kept aside has to have been changed
            (hers / "metrics.jsonl").write_text('{"step": 1}\n')
        contents = (hers / name).read_bytes() if name in ("run.json", "config.yaml") else b"mine\n"
        if is_there:
            mine.write_bytes(contents)
        (hers / name).unlink(missing_ok=True)
        (hers / name).symlink_to(mine)
        with suppress(RLTrainingError):
            draw_learning_curve(resume(hers, total_timesteps=30).run)
        assert (mine.read_bytes() == contents) if is_there else not mine.exists()

    def test_a_pipe_for_its_configuration(self, hers: Path) -> None:
        """run.json keeps it as well, and a file takes the place of the pipe."""
        (hers / "config.yaml").unlink()
        os.mkfifo(hers / "config.yaml")
        notices = resume(hers, total_timesteps=30).run.describe()["notices"]
        assert any("config.yaml: cannot be read" in notice for notice in notices)
        assert (hers / "config.yaml").is_file()

    @pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "timing.jsonl", "run.json"])
    def test_a_pipe_in_it(self, name: str, hers: Path) -> None:
        (hers / name).unlink()
        os.mkfifo(hers / name)
        told = refusal(CheckpointError, lambda: resume(hers, total_timesteps=30))
        assert name in told
        assert summarise(hers).name == "hers"


class TestObservationFiles:
    def test_a_bomb(self, tmp_path: Path) -> None:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**31, 3)})
        with zipfile.ZipFile(tmp_path / "o.npz", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("obs.npy", header.getvalue() + bytes(2**20))
        told = refusal(DataError, lambda: read_observations(tmp_path / "o.npz"))
        assert told.endswith("o.npz: obs.npy: damaged (its header and its size do not agree)")

    def test_another_array(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "o.npz", observations=np.zeros(3))
        told = refusal(DataError, lambda: read_observations(tmp_path / "o.npz"))
        assert told.endswith("o.npz: has no array 'obs'; it holds observations")

    @pytest.mark.parametrize("suffix", ["json", "csv", "npy", "npz"])
    def test_a_pipe(self, suffix: str, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / f"o.{suffix}")
        told = refusal(DataError, lambda: read_observations(tmp_path / f"o.{suffix}"))
        assert told.endswith("is not a file")
