"""A preset that the caller asks for: over the named configuration, beneath everything else that the caller gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rl_training import CQL, TrainConfig
from rl_training.cli.main import main
from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.experiment.config import read_config
from rl_training.runtime.run_directory import RunDirectory
from small_runs import script_scores, small_config

MUJOCO = {"cql_alpha": 10.0, "actor_lr": 3.0e-5, "critic_lr": 3.0e-4, "alpha_lr": 3.0e-5}


def in_python(config: Any, **settings: Any) -> TrainConfig:
    return CQL(config=config, **settings)._config()


def on_the_command_line(
    config: Any, *overrides: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> TrainConfig:
    settings = [argument for override in overrides for argument in ("--set", override)]
    monkeypatch.setattr("sys.argv", ["rl-training", "config", "show", str(config), *settings])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    return TrainConfig.parse(yaml.safe_load(capsys.readouterr().out))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: on_the_command_line(*arguments, monkeypatch=monkeypatch, capsys=capsys)


def test_over_a_packaged_configuration(shown: Any) -> None:
    config = in_python("cql/pendulum", preset="d4rl-mujoco")
    assert config == shown("cql/pendulum", "preset=d4rl-mujoco")
    assert {name: config.algo_kwargs[name] for name in MUJOCO} == MUJOCO
    assert config.total_timesteps == 1_000_000
    assert config.transforms.normalise_observations
    file = read_config("cql/pendulum")  # what the preset does not mention is the file's
    assert config.algo_kwargs["actor_hidden"] == file.algo_kwargs["actor_hidden"] == [64, 64]
    assert (config.transforms.reward_scale, config.dataset) == (0.1, file.dataset)


@pytest.mark.parametrize("first", [True, False])
def test_beneath_whatever_else_is_given(first: bool, shown: Any) -> None:
    config = in_python("cql/pendulum", total_timesteps=7, preset="d4rl-mujoco", cql_alpha=2.0, actor_lr=0.01)
    others = ["total_timesteps=7", "algo_kwargs.cql_alpha=2.0", "algo_kwargs.actor_lr=0.01"]
    overrides = ["preset=d4rl-mujoco", *others] if first else [*others, "preset=d4rl-mujoco"]
    assert config == shown("cql/pendulum", *overrides)
    own = config.algo_kwargs
    assert (config.total_timesteps, own["cql_alpha"], own["actor_lr"], own["alpha_lr"]) == (7, 2.0, 0.01, 3.0e-5)


def test_in_place_of_the_files_own_preset_which_lies_beneath_the_file(tmp_path: Path, shown: Any) -> None:
    values = {"algo": "cql", "preset": "d4rl-antmaze", "algo_kwargs": {"cql_alpha": 2.0}, "total_timesteps": 9}
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump(values))
    plain = read_config(str(file))
    assert (plain.algo_kwargs["cql_alpha"], plain.algo_kwargs["target_gap"], plain.total_timesteps) == (2.0, 0.8, 9)
    config = in_python(file, preset="d4rl-mujoco")
    assert config == shown(file, "preset=d4rl-mujoco")
    assert (config.preset, config.algo_kwargs["cql_alpha"], config.algo_kwargs["target_gap"]) == (
        "d4rl-mujoco",
        10.0,
        None,
    )
    without = in_python(file, preset=None)
    assert without == shown(file, "preset=null")
    assert (without.algo_kwargs["cql_alpha"], without.algo_kwargs["target_gap"]) == (2.0, None)


def test_of_the_files_algorithm_is_none_of_another_that_lacks_it(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("algo: iql\npreset: layernorm\ndataset: d.npz\ntotal_timesteps: 9\n")
    file = str(tmp_path / "c.yaml")
    assert read_config(file, ["algo=bc"]).preset is None
    assert read_config(file, ["algo=td3_bc"]).preset == "layernorm"
    with pytest.raises(ConfigError, match="preset: bc has no preset 'layernorm'"):
        read_config(file, ["algo=bc", "preset=layernorm"])
    with pytest.raises(ConfigError, match="has no preset 'layrenorm'; did you mean 'layernorm'"):
        read_config(file, ["preset=layrenorm"])


def test_over_a_configuration_object() -> None:
    config = in_python(read_config("cql/pendulum"), preset="d4rl-mujoco", cql_alpha=2.0)
    assert config == in_python("cql/pendulum", preset="d4rl-mujoco", cql_alpha=2.0)


def test_the_algorithm_may_change_with_it(shown: Any) -> None:
    config = shown("bc/pendulum", "preset=d4rl-mujoco", "algo=td3_bc")
    assert (config.algo, config.total_timesteps) == ("td3_bc", 1_000_000)


def test_a_mistake_is_one_line() -> None:
    message = "preset: cql has no preset 'd4rl-mujoko'; did you mean 'd4rl-mujoco'?"
    with pytest.raises(ConfigError) as caught:
        CQL(config="cql/pendulum", preset="d4rl-mujoko")
    assert str(caught.value) == f"cql/pendulum: {message}"
    with pytest.raises(ConfigError) as caught:
        read_config("cql/pendulum", ["preset=d4rl-mujoko"])
    assert str(caught.value) == f"--set: {message}"


def test_over_the_run_that_is_fine_tuned(data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_scores(monkeypatch, {4: 1.0})
    knobs = {"cql_alpha": 2.0, "critic_lr": 0.1}
    values = {"env_id": "Pendulum-v1", "total_timesteps": 4, "algo_kwargs": knobs}
    run = manager.start(small_config(data_file, tmp_path, "cql", **values)).run.path
    changes = {"name": "new", "preset": "official", "algo_kwargs": {"cql_alpha": 3.0}}
    config = RunDirectory.open(manager.finetune(run, 4, changes=changes).run.path).load().config
    assert config.total_timesteps == 4
    own = {name: config.algo_kwargs[name] for name in ("cql_alpha", "critic_lr", "bc_warmup_updates")}
    assert own == {"cql_alpha": 3.0, "critic_lr": 0.1, "bc_warmup_updates": 0}
    again = {"name": "newer", "preset": "official"}
    config = RunDirectory.open(manager.finetune(run, 4, changes=again).run.path).load().config
    assert (config.algo_kwargs["cql_alpha"], config.algo_kwargs["batch_size"]) == (5.0, 8)
