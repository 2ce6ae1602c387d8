"""The managed classes: construction, settings, learning, using, saving and loading."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import rl_training
from rl_training import BC, TD3BC, TrainConfig, algorithms
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DataError
from rl_training.experiment.registry import class_names
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from small_runs import Diary, StopAt, digest, knobs, small_config, small_values

OBS = np.array([0.5, -0.2, 1.0], dtype=np.float32)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Keywords of a small model without data."""
    return {"runs_dir": str(tmp_path / "runs"), "name": "run", **knobs("bc")}


@pytest.fixture
def make(data_file: Path, settings: dict[str, Any]) -> Any:
    """`make(...)`: a small BC; keywords replace or add."""
    return lambda **changes: BC(**{"dataset": data_file, "total_timesteps": 10, **settings, **changes})


class TestConstruction:
    def test_keywords_go_where_they_belong(self, make: Any) -> None:
        model = make(seed=[1, 2], log_interval=5, actor_lr=0.01, evaluation={"episodes": 3}).learn()
        config = model.policy.checkpoint.config
        assert config.seeds == (1, 2)
        assert config.log_interval == 5
        assert config.evaluation.episodes == 3
        assert config.algo_kwargs["actor_lr"] == 0.01
        assert config.algo_kwargs["batch_size"] == 8

    def test_no_name_means_both_a_field_and_a_parameter(self) -> None:
        for algo in algorithms.find():
            assert not set(TrainConfig.model_fields) & set(algorithms.load(algo).Params.model_fields)

    def test_from_a_config_a_file_and_keywords_alike(self, data_file: Path, tmp_path: Path) -> None:
        values = small_values(data_file, tmp_path / "runs", total_timesteps=10)
        (tmp_path / "c.yaml").write_text(yaml.safe_dump({**values, "name": "file"}))
        models = [
            BC(config=small_config(data_file, tmp_path / "runs", total_timesteps=10, name="config")),
            BC(config=tmp_path / "c.yaml"),
            BC(config=str(tmp_path / "c.yaml"), name="text"),
            BC(dataset=str(data_file), total_timesteps=10, runs_dir=str(tmp_path / "runs"), name="kw", **knobs("bc")),
        ]
        assert len({digest(model.learn().policy.checkpoint.tensors) for model in models}) == 1
        assert [model.run_dir.name for model in models] == ["config", "file", "text", "kw"]

    def test_a_packaged_configuration_with_changes(self, data_file: Path, settings: dict[str, Any]) -> None:
        model = BC(config="bc/pendulum", dataset=data_file, total_timesteps=4, evaluation={"episodes": 1}, **settings)
        config = model.learn().policy.checkpoint.config
        assert config.env_id == "Pendulum-v1"
        assert config.eval_interval == 1000
        assert config.algo_kwargs["actor_hidden"] == [8, 8]

    def test_keywords_add_to_the_configurations_parameters(self, tmp_path: Path) -> None:
        config = small_config(None, tmp_path, algo_kwargs={"actor_lr": 0.02})
        model = BC(config=config, batch_size=16, algo_kwargs={"deterministic_policy": False})
        own = model._values["algo_kwargs"]
        assert (own["actor_lr"], own["batch_size"], own["deterministic_policy"]) == (0.02, 16, False)

    def test_another_algorithms_configuration(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="algo: TD3BC got a configuration for 'bc'"):
            TD3BC(config=small_config(None, tmp_path))

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"actr_lr": 1e-3}, "actr_lr: BC has no such option; did you mean 'actor_lr'?"),
            ({"log_intervall": 3}, "log_intervall: BC has no such option; did you mean 'log_interval'?"),
            ({"batch_size": -3}, "algo_kwargs.batch_size: must be at least 1, got -3"),
            ({"algo_kwargs": {"actr_lr": 1}}, "algo_kwargs.actr_lr: no such option; did you mean 'actor_lr'?"),
            ({"seed": [1, 1]}, "seed: must be one or more distinct seeds"),
            ({"device": "gpu"}, "device: must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ],
    )
    def test_a_mistake_is_found_at_once(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            BC(total_timesteps=5, **wrong)
        assert str(caught.value) == message

    def test_an_algorithm_is_no_setting(self) -> None:
        with pytest.raises(ConfigError, match="algo: BC has no such option"):
            BC(algo="cql")

    def test_a_dataset_of_any_kind(self, dataset: TransitionDataset, data_file: Path, make: Any) -> None:
        arrays = {name: value for name, value in dataset.to_dict().items() if value is not None}
        kinds = [dataset, arrays, data_file, str(data_file), {"source": "file", "path": str(data_file)}]
        models = [make(dataset=kind, name=f"run-{i}").learn() for i, kind in enumerate(kinds)]
        assert len({digest(model.policy.checkpoint.tensors) for model in models}) == 1

    def test_arrays_are_checked(self) -> None:
        with pytest.raises(DataError, match="actions"):
            BC(dataset={"obs": np.zeros((4, 3)), "actions": np.zeros((3, 1))}, total_timesteps=3)

    def test_a_budget_of_nothing(self) -> None:
        with pytest.raises(ConfigError, match="total_timesteps: must be"):
            BC(total_timesteps=0)

    def test_parameters_that_are_no_mapping(self) -> None:
        with pytest.raises(ConfigError, match="algo_kwargs"):
            BC(total_timesteps=3, algo_kwargs=5)

    def test_a_budget_in_epochs(self, make: Any) -> None:
        model = make(total_timesteps=None, n_epochs=1, batch_size=1000)
        assert model.learn().policy.checkpoint.progress["updates"] == 2


class TestLearning:
    def test_the_budget_may_come_late(self, make: Any) -> None:
        model = make(total_timesteps=None)
        with pytest.raises(ConfigError, match=r"total_timesteps \(or n_epochs\) is required"):
            model.learn()
        assert model.learn(total_timesteps=6) is model
        assert model.policy.checkpoint.progress["updates"] == 6

    def test_again_goes_on_where_it_stopped(self, make: Any) -> None:
        whole = make(name="whole", total_timesteps=16).learn()
        model = make().learn()
        place = model.run_dir
        with pytest.raises(ConfigError, match="is finished at step 10; to go on, give a larger total_timesteps"):
            model.learn()
        model.learn(total_timesteps=16)
        assert model.run_dir == place
        assert digest(model.policy.checkpoint.tensors) == digest(whole.policy.checkpoint.tensors)

    def test_arrays_from_memory_go_on_too(self, dataset: TransitionDataset, make: Any) -> None:
        model = make(dataset=dataset).learn()
        assert model.learn(total_timesteps=12).policy.checkpoint.progress["updates"] == 12

    @pytest.mark.usefixtures("saved_at_once")
    def test_one_callback_or_several(self, make: Any) -> None:
        one, first, second = Diary(), Diary(), Diary()
        make(name="one").learn(callback=one)
        make(name="two").learn(callback=[first, second])
        assert one.events == first.events == second.events
        assert [event for event, _ in one.events if event != "checkpoint"] == ["start", "metrics", "end"]

    def test_an_interrupted_model_goes_on_without_a_new_budget(self, make: Any) -> None:
        model = make().learn(callback=StopAt(4))
        assert model.policy.checkpoint.progress["updates"] == 4
        assert model.learn().policy.checkpoint.progress["updates"] == 10

    def test_nothing_is_printed_unless_asked_for(self, make: Any, capsys: pytest.CaptureFixture[str]) -> None:
        make(name="quiet").learn()
        assert capsys.readouterr() == ("", "")
        make(name="loud").learn(progress_bar=True)
        assert "training bc on data alone, seed 0" in capsys.readouterr().out

    def test_a_missing_dataset(self, make: Any, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="dataset: is required"):
            make(dataset=None).learn()
        assert not (tmp_path / "runs").exists()


class TestUsing:
    def test_nothing_before_learning(self, make: Any, tmp_path: Path) -> None:
        model = make()
        assert model.run_dir is None
        for use in (lambda: model.predict(OBS), model.evaluate, lambda: model.save(tmp_path / "x")):
            with pytest.raises(ConfigError, match=r"BC has no policy yet; call learn\(\) or load\(\) first"):
                use()

    def test_predict_answers_as_stable_baselines(self, make: Any) -> None:
        model = make(deterministic_policy=False).learn()
        action, state = model.predict(OBS, deterministic=True)
        assert (action.shape, state) == ((1,), None)
        np.testing.assert_array_equal(model.predict(OBS)[0], action)
        assert model.predict(np.array([OBS, OBS])[::-1], deterministic=False)[0].shape == (2, 1)
        samples = [model.predict(OBS, deterministic=False)[0].item() for _ in range(5)]
        assert len(set(samples)) == 5

    def test_several_seeds(self, make: Any) -> None:
        model = make(seed=[2, 5]).learn()
        np.testing.assert_array_equal(model.predict(OBS)[0], model.predict(OBS, seed=2)[0])
        assert model.predict(OBS, seed=2)[0] != model.predict(OBS, seed=5)[0]
        assert model.evaluate(2, env_id="Pendulum-v1").returns.shape == (2, 2)
        with pytest.raises(ConfigError, match="seed: 7 is not in this run; it has 2, 5"):
            model.predict(OBS, seed=7)

    def test_actions_are_in_the_environments_units(self, make: Any) -> None:
        model = make(env_id="Pendulum-v1", evaluation={"episodes": 1}, total_timesteps=2).learn()
        assert model.policy.checkpoint.spaces.action_high == (2.0,)
        unit = model.policy.actor.learner.act(_tensor(OBS)).numpy()[0, 0]
        np.testing.assert_allclose(model.predict(OBS)[0], 2.0 * unit, rtol=1e-6)


def _tensor(obs: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(obs)[None, None]


class TestSaving:
    def test_round_trip(self, make: Any, tmp_path: Path) -> None:
        model = make().learn()
        assert model.save(tmp_path / "a" / "saved") == tmp_path / "a" / "saved"
        loaded = BC.load(tmp_path / "a" / "saved")
        assert loaded.run_dir is None
        np.testing.assert_array_equal(loaded.predict(OBS)[0], model.predict(OBS)[0])
        with pytest.raises(CheckpointError, match="never overwritten"):
            model.save(tmp_path / "a" / "saved")

    def test_the_wrong_class(self, make: Any) -> None:
        model = make().learn()
        with pytest.raises(CheckpointError, match=rf"{model.run_dir}: holds 'bc', TD3BC loads 'td3_bc'"):
            TD3BC.load(model.run_dir)

    def test_which(self, make: Any) -> None:
        model = make(checkpoint_interval=5).learn()
        assert BC.load(model.run_dir, which=5).policy.checkpoint.progress["updates"] == 5
        assert BC.load(model.run_dir).policy.checkpoint.progress["updates"] == 10

    def test_a_loaded_run_learns_on_in_its_directory(self, make: Any) -> None:
        whole = make(name="whole", total_timesteps=14).learn()
        loaded = BC.load(make().learn().run_dir).learn(total_timesteps=14)
        assert loaded.run_dir.name == "run"
        assert digest(loaded.policy.checkpoint.tensors) == digest(whole.policy.checkpoint.tensors)

    def test_a_saved_checkpoint_learns_on_in_a_new_directory(self, make: Any, tmp_path: Path) -> None:
        whole = make(name=None, total_timesteps=14).learn()
        model = make(name=None, runs_dir=str(tmp_path / "other")).learn()
        model.save(tmp_path / "saved")
        loaded = BC.load(tmp_path / "saved")
        loaded._values["runs_dir"] = str(tmp_path / "third")
        loaded.learn(total_timesteps=14)
        assert loaded.run_dir.parent == tmp_path / "third"
        assert digest(loaded.policy.checkpoint.tensors) == digest(whole.policy.checkpoint.tensors)

    def test_a_saved_checkpoint_with_nothing_left_to_do(self, make: Any, tmp_path: Path) -> None:
        make(name=None).learn().save(tmp_path / "saved")
        loaded = BC.load(tmp_path / "saved")
        loaded._values["runs_dir"] = str(tmp_path / "third")
        with pytest.raises(ConfigError, match="larger total_timesteps"):
            loaded.learn()
        with pytest.raises(ConfigError, match="larger total_timesteps"):
            loaded.learn(total_timesteps=10)
        assert not (tmp_path / "third").exists()

    def test_data_from_memory_given_again_as_a_file(
        self, dataset: TransitionDataset, data_file: Path, make: Any
    ) -> None:
        run = make(dataset=dataset).learn().run_dir
        assert BC.load(run, dataset=data_file).learn(total_timesteps=12).policy.checkpoint.progress["updates"] == 12

    def test_a_relative_data_file_goes_on_from_another_folder(
        self, dataset: TransitionDataset, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dataset.save(tmp_path / "log.npz")
        monkeypatch.chdir(tmp_path)
        run = make(dataset="log.npz").learn().run_dir
        (tmp_path / "log.npz").rename("moved.npz")
        loaded = BC.load(run, dataset="moved.npz").learn(total_timesteps=12)
        (tmp_path / "else").mkdir()
        monkeypatch.chdir(tmp_path / "else")
        assert loaded.learn(total_timesteps=14).policy.checkpoint.progress["updates"] == 14

    @pytest.mark.parametrize("branches", [False, True])
    def test_bounds_that_the_networks_were_trained_with_go_on(
        self, dataset: TransitionDataset, branches: bool, make: Any, tmp_path: Path
    ) -> None:
        path = tmp_path / "log.npz"
        dataset.save(path)
        section = {"source": "file", "path": str(path), "action_low": -2.5, "action_high": 2.5}
        run = make(dataset=section).learn().run_dir
        place = run / "checkpoints" / "step-10" if branches else run
        told = (
            r"^dataset\.action_low: gives bounds \[-50, 50\], and the networks were trained with \[-2\.5, 2\.5\], which"
        )
        with pytest.raises(DataError, match=told):
            BC.load(place, dataset={**section, "action_low": -50, "action_high": 50}).learn(total_timesteps=12)
        again = BC.load(place, dataset=path).learn(total_timesteps=12).policy.checkpoint
        assert (again.spaces.action_low, again.spaces.action_high) == ((-2.5,), (2.5,))
        assert again.transforms.to_json()["action_high"] == [2.5]

    def test_a_bare_name_learns_on_in_its_run(self, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make().learn()
        monkeypatch.chdir(tmp_path)
        loaded = BC.load("run").learn(total_timesteps=12)
        assert loaded.run_dir == Path("runs/run")


class TestImports:
    def test_the_package_loads_no_torch(self) -> None:
        code = (
            "import sys, rl_training, rl_training.experiment.registry as registry; registry.entries();"
            "dir(rl_training); hasattr(rl_training, 'Nonsense');"
            "print(rl_training.__version__, [m for m in ('torch', 'numpy', 'gymnasium', 'h5py') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{rl_training.__version__} []"

    def test_names(self) -> None:
        assert rl_training.BC is rl_training.api.BC
        assert rl_training.TrainConfig is TrainConfig
        assert issubclass(BC, rl_training.api.ManagedAlgorithm)
        with pytest.raises(AttributeError, match="module 'rl_training' has no attribute 'Nonsense'"):
            _ = rl_training.Nonsense
        with pytest.raises(AttributeError, match="module 'rl_training' has no attribute 'nonsense'"):
            _ = rl_training.nonsense

    def test_the_classes_are_listed(self) -> None:
        assert {"BC", "CQL", "IQL", "TD3BC", "TrainConfig", "TransitionDataset"} <= set(dir(rl_training))
        for name in (name for name in dir(rl_training) if name[0].isupper()):
            assert getattr(rl_training, name).__name__ == name

    def test_names_are_read_off_the_files_as_they_are(self) -> None:
        assert class_names() == {algorithms.load(algo).__name__: algo for algo in algorithms.find()}


def test_a_callback_sees_metrics_of_every_seed(make: Any) -> None:
    class Sees(Callback):
        def __init__(self) -> None:
            self.metrics: list[Mapping[str, list[float]]] = []

        def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
            self.metrics.append(metrics)

    sees = Sees()
    model = make(seed=[0, 1, 2], log_interval=5).learn(callback=sees)
    records = [record["actor/loss"] for record in model._run.records("metrics")]
    assert [metrics["actor/loss"] for metrics in sees.metrics] == records
    assert [len(record) for record in records] == [3, 3]
