"""`algos`, `configs` and `datasets`: what they list, also as JSON, and that none of them needs torch."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_training
from rl_training import algorithms
from rl_training.algorithms.base import OnlineParams
from rl_training.data import inventory
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.experiment.config import packaged_configs
from rl_training.experiment.registry import class_names
from rl_training.parameters import parameters_of
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.presets import presets


@pytest.fixture(autouse=True)
def at_eighty_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


class TestAlgos:
    @pytest.mark.parametrize("name", algorithms.find())
    def test_one_shows_every_parameter_with_its_default(self, name: str, command: Any) -> None:
        code, out, err = command("algos", name)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80
        for parameter in parameters_of(algorithms.load(name).Params):
            assert f"  {parameter.name} = {parameter.default_text}" in out
        assert f"docs/algorithms/{name}.md" in out
        assert all(f"  {preset} " in out for preset in presets(name))

    def test_the_range_and_the_paper(self, command: Any) -> None:
        out = command("algos", "iql").out
        assert "  expectile = 0.7  (number above 0 and below 1)\n      expectile κ of the value\n" in out
        assert '"Offline Reinforcement Learning with' in out
        assert "ICLR 2022" in out
        assert "  layer_norm = none  (none, pre or post)" in out
        assert "  actor_hidden = [256, 256]  (list of integers at least 1)" in out

    def test_one_as_json(self, command: Any) -> None:
        told = json.loads(command("algos", "cql", "--json").out)
        assert set(told) == {"name", "class", "learns", "summary", "paper", "docs", "configs", "presets", "parameters"}
        assert told["class"] == "CQL"
        found = {parameter["name"]: parameter for parameter in told["parameters"]}
        assert found["cql_alpha"] == {
            "name": "cql_alpha",
            "allowed": "number at least 0",
            "default": 5.0,
            "description": "weight w of the conservative penalty; 0 is SAC",
        }

    def test_a_wrong_name(self, mistake: Any) -> None:
        assert mistake("algos", "iqll") == "error: algo: no algorithm 'iqll'; did you mean 'iql'?"

    def test_what_each_learns_from(self, command: Any) -> None:
        told = {one["name"]: one["learns"] for one in json.loads(command("algos", "--json").out)}
        online = {name for name in told if issubclass(algorithms.load(name).Params, OnlineParams)}
        assert {name for name, learns in told.items() if learns == "online"} == online == {"sac", "td3", "rlpd"}
        assert "\nsac      [online] Soft actor-critic" in command("algos").out
        assert "  learns   from data alone (offline)\n" in command("algos", "iql").out

    def test_every_paper_is_found(self) -> None:
        assert [name for name in algorithms.find() if not algorithms.paper(name)] == []


class TestHelpInPython:
    @pytest.mark.parametrize("name", class_names())
    def test_every_setting_is_in_the_signature_and_in_the_text(self, name: str) -> None:
        managed = getattr(rl_training, name)
        listed = inspect.signature(managed).parameters
        own = algorithms.load(class_names()[name]).Params.model_fields
        assert set(listed) == {*own, *TrainConfig.model_fields, "config"} - {"algo", "algo_kwargs"}
        assert listed["seed"].default == 0
        assert all(f"  {parameter} = " in managed.__doc__ for parameter in own)
        assert managed.__doc__.startswith(algorithms.find()[class_names()[name]])

    def test_what_is_said_by_default_is_accepted(self) -> None:
        given = {
            name: argument.default
            for name, argument in inspect.signature(rl_training.CQL).parameters.items()
            if argument.default is not None
        }
        assert (
            rl_training.CQL(**{**given, "total_timesteps": 5})._config() == rl_training.CQL(total_timesteps=5)._config()
        )


class TestConfigs:
    def test_each_with_what_it_is_of(self, command: Any) -> None:
        out = command("configs").out
        assert all(f"\n{name} " in f"\n{out}" for name in packaged_configs())
        assert max(map(len, out.splitlines())) <= 80
        told = json.loads(command("configs", "--json").out)
        assert [entry["name"] for entry in told] == packaged_configs()
        cql = next(entry for entry in told if entry["name"] == "cql/pendulum")
        assert (cql["algo"], cql["env_id"], cql["total_timesteps"]) == ("cql", "Pendulum-v1", 5000)
        assert cql["summary"].startswith("CQL on Pendulum-v1")


class TestDatasets:
    def test_every_format(self, command: Any, dataset: TransitionDataset, tmp_path: Path) -> None:
        names = ("a.npz", "b.hdf5", "c.parquet", "d.csv", "sub/e.npz")
        (tmp_path / "sub").mkdir()
        for name in names:
            dataset.save(tmp_path / name)
        dataset.save("folder/")
        told = {one["source"]: one for one in json.loads(command("datasets", "--json").out)}
        assert set(told) == {*names, "folder"}
        assert {one["rows"] for one in told.values()} == {2_000}
        assert {name: told[name]["episodes"] for name in told} == {
            "a.npz": 10, "b.hdf5": 10, "folder": 10, "sub/e.npz": 10, "c.parquet": 10, "d.csv": None,
        }  # fmt: skip
        assert all(one["missing"] is None and one["fault"] is None for one in told.values())
        out = command("datasets").out
        assert any(line.split()[:5] == ["a.npz", "NumPy", "archive", "2,000", "10"] for line in out.splitlines())

    def test_minari(self, command: Any, dataset: TransitionDataset, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("minari")
        dataset.save("minari:mine/pendulum-v0")
        (found,) = json.loads(command("datasets", "--json").out)
        assert (found["source"], found["rows"], found["episodes"]) == ("minari:mine/pendulum-v0", 2_000, 10)

    def test_what_cannot_be_used_is_listed_with_the_reason(self, command: Any, tmp_path: Path) -> None:
        (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04nothing")
        (tmp_path / "empty.csv").write_bytes(b"")
        (tmp_path / "odd.csv").write_text("s,a,r\n1,2,3\n")
        np.savez(tmp_path / "objects.npz", obs=np.array([None], dtype=object))
        (tmp_path / "notes.txt").write_text("a, b")
        code, out, _ = command("datasets")
        assert code == 0
        assert "broken.npz   unreadable" in out
        assert "it is empty" in out
        assert "lacks obs, actions, rewards, terminations (or episode_ids): rl-training init\n  odd.csv" in out
        assert "holds Python objects" in out
        assert "notes.txt" not in out

    def test_none(self, command: Any) -> None:
        assert command("datasets").out.startswith("no data in .")

    def test_no_such_folder(self, mistake: Any) -> None:
        assert mistake("datasets", "nowhere") == "error: nowhere: no such folder"

    def test_among_thousands_of_other_files(
        self, command: Any, tmp_path: Path, dataset: TransitionDataset, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inventory, "_MOST", 2)
        for number in range(50):
            (tmp_path / f"note{number}.txt").touch()
        (tmp_path / "long").symlink_to("a" * 300)  # longer than a name can be
        for name in ("a1.npz", "a2.npz"):
            dataset.save(tmp_path / name)
        assert [one["source"] for one in json.loads(command("datasets", "--json").out)] == ["a1.npz", "a2.npz"]
        dataset.save(tmp_path / "a10.npz")
        *_, last = json.loads(command("datasets", "--json").out)
        assert last["fault"] == ".: holds more; the first 2 were looked at"


def test_lists_load_no_torch(tmp_path: Path) -> None:
    (tmp_path / "runs" / "half").mkdir(parents=True)
    (tmp_path / "runs" / "half" / "run.json").write_text("{")
    code = (
        "import sys\nfrom rl_training.cli.main import app\n"
        "for a in ([], ['runs'], ['configs'], ['algos'], ['datasets'], ['doctor', '--help'], ['init', '--help']):\n"
        "    app(a, standalone_mode=False)\n"
        "print([m for m in ('torch', 'gymnasium') if m in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "MINARI_DATASETS_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.stderr == "[]\n"
