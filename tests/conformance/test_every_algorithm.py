"""What every registered algorithm must do, by construction. A new file in `algorithms/` is tested here unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

import rl_training
from rl_training import algorithms
from rl_training.algorithms.base import OnlineParams, PriorDataParams
from rl_training.cli.main import app
from rl_training.data.batch import Batch
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.experiment.config import read_config
from rl_training.experiment.registry import entries, entry
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.engine import Engine
from small_runs import StopAt, digest

ALGOS = [e.name for e in entries()]
UPDATES = 60


def small(algo: str) -> dict[str, Any]:
    """The algorithm's parameters with tiny networks and batches."""
    fields = algorithms.load(algo).Params.model_fields
    online = {"learning_starts": 5, "buffer_capacity": 40}  # full before the run ends, so that the ring goes round
    own = {name: value for name, value in online.items() if name in fields}
    return {"batch_size": 16, **own, **{name: [16, 16] for name in fields if name.endswith("_hidden")}}


def needs_environment(algo: str) -> bool:
    """Whether the algorithm collects experience even where it is given a dataset."""
    return issubclass(algorithms.load(algo).Params, PriorDataParams)


@pytest.fixture
def config(algo: str, data_file: Path, tmp_path: Path) -> TrainConfig:
    return TrainConfig.parse(
        {
            "algo": algo,
            "env_id": "Pendulum-v1",
            "dataset": str(data_file),
            "total_timesteps": UPDATES,
            "eval_interval": 30,
            "log_interval": 20,
            "evaluation": {"episodes": 2},
            "algo_kwargs": small(algo),
            "transforms": {"normalise_observations": True, "reward_scale": 0.1},
            "runs_dir": str(tmp_path / "runs"),
        }
    )


def batch_of(dataset: TransitionDataset, members: int, size: int = 16) -> Batch:
    def rows(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values[:size].astype(np.float32)).expand(members, *values[:size].shape)

    names = ("obs", "actions", "rewards", "next_obs", "terminations", "next_actions")
    fields = {name: rows(getattr(dataset, name)) for name in names}
    halved = {name: fields[name] / 2 for name in ("actions", "next_actions")}
    return Batch(**{**fields, **halved, "returns_to_go": fields["rewards"] * 10})


@pytest.mark.parametrize("algo", ALGOS)
class TestEveryAlgorithm:
    def test_names_and_exports(self, algo: str) -> None:
        learner = algorithms.load(algo)
        name = learner.__name__
        assert getattr(algorithms, name) is learner
        assert getattr(algorithms, f"{name}Algorithm") is learner
        assert callable(getattr(algorithms, f"{algo}_loss"))
        managed = getattr(rl_training, name)
        assert managed is getattr(rl_training.api, name)
        assert managed.algo == algo
        assert entry(algo).learner is learner
        assert f"{algo}/pendulum" in entry(algo).configs
        assert entry(algo).summary.endswith(".")

    def test_parameters_are_documented_and_strict(self, algo: str) -> None:
        learner = algorithms.load(algo)
        assert [n for n, f in learner.Params.model_fields.items() if not f.description] == []
        with pytest.raises(ConfigError, match=r"algo_kwargs\.batch_sise: no such option; did you mean 'batch_size'\?"):
            learner(3, 1, batch_sise=3)
        with pytest.raises(ConfigError, match="batch_size: must be at least 1, got -3"):
            learner(3, 1, batch_size=-3)

    def test_update_moves_every_learning_network_and_names_metrics(self, algo: str, dataset: TransitionDataset) -> None:
        learner = algorithms.load(algo)(3, 1, seeds=(0, 1), **small(algo))
        before = {name: o.parameter.detach().clone() for name, o in learner.optimisers.items()}
        for _ in range(learner.period):
            result = learner.update(batch_of(dataset, 2))
            assert result.gradient_steps == 1
        assert int(learner.clock) == learner.period
        for name, optimiser in learner.optimisers.items():
            moved = (optimiser.parameter - before[name]).flatten(1).abs().amax(1)
            assert (moved > 0).all(), name
        assert result.metrics
        for name, value in result.metrics.items():
            network, _, what = name.partition("/")
            assert what, f"{name} does not say of which network it speaks"
            assert network in {"actor", "critic", "value", "alpha", "lagrange"}
            assert value.shape == (2,), name
            assert torch.isfinite(value).all(), name
            assert not value.requires_grad, name

    def test_a_run_leaves_everything_behind(self, algo: str, config: TrainConfig) -> None:
        result = manager.start(config)
        run = result.run
        assert result.status == "finished"
        assert [r["step"] for r in run.records("metrics")] == [20, 40, 60]
        assert [r["step"] for r in run.records("evaluations")] == [30, 60]
        assert run.steps() == [30, 60]
        facts = run.describe()
        assert facts["status"] == "finished"
        assert facts["last"]["step"] == 60
        assert facts["best"]["return_mean"] == max(np.mean(r["return_mean"]) for r in run.records("evaluations"))
        assert len(facts["dataset"]["fingerprint"]) == 64
        written = yaml.safe_load((run.path / "config.yaml").read_text())
        assert written["algo_kwargs"] == config.algo_kwargs
        assert TrainConfig.parse(written) == result.checkpoint.config

    @pytest.mark.parametrize("stop", [1, 30])  # random ones: test_exact_resume.py
    def test_resume_is_exact(self, algo: str, stop: int, config: TrainConfig) -> None:
        whole = manager.start(config.model_copy(update={"name": "whole"}))
        cut = manager.start(config.model_copy(update={"name": "cut"}), callbacks=[StopAt(stop)])
        assert (cut.status, cut.progress.steps) == ("interrupted", stop)
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        for kind in ("metrics", "evaluations"):
            a, b = ((r.run.path / f"{kind}.jsonl").read_bytes() for r in (whole, resumed))
            assert a == b
        last = f"checkpoints/step-{UPDATES}"
        files = [path.name for path in (whole.run.path / last).glob("*.safetensors")]
        assert {"weights.safetensors", "training.safetensors"} <= set(files)
        for name in files:
            assert (whole.run.path / last / name).read_bytes() == (resumed.run.path / last / name).read_bytes()

    def test_repeating_a_run_gives_the_same_weights(self, algo: str, config: TrainConfig) -> None:
        first, second = (manager.start(config.model_copy(update={"name": name})) for name in ("a", "b"))
        assert digest(first.actor.learner.state()) == digest(second.actor.learner.state())

    def test_a_seed_does_not_know_the_others(self, algo: str, config: TrainConfig) -> None:
        alone = manager.start(config.model_copy(update={"seed": 2, "name": "alone"}))
        among = manager.start(config.model_copy(update={"seed": (0, 1, 2, 3), "name": "among"}))
        single, many = alone.actor.learner.state(), among.actor.learner.state()
        for name, value in single.items():
            if value.dim():
                rows = many[name].view(4, -1, *many[name].shape[1:])[2]
                torch.testing.assert_close(rows, value, rtol=2e-3, atol=2e-5, msg=lambda m, n=name: f"{n}: {m}")
        evaluation = among.run.records("evaluations")[-1]
        assert len(set(evaluation["return_mean"])) == 4
        np.testing.assert_allclose(
            evaluation["return_mean"][2], alone.run.records("evaluations")[-1]["return_mean"][0], rtol=2e-2
        )
        policy = manager.load_policy(among.run.path)
        obs = np.array([[0.5, -0.2, 1.0], [0.1, 0.9, -3.0]])
        expected = manager.load_policy(alone.run.path).predict(obs)
        np.testing.assert_allclose(policy.predict(obs, seed=2), expected, atol=1e-3)
        assert not np.allclose(policy.predict(obs, seed=1), expected, atol=1e-4)

    def test_managed_learn_evaluate_predict_save_load(
        self, algo: str, dataset: TransitionDataset, tmp_path: Path
    ) -> None:
        managed = getattr(rl_training, algorithms.load(algo).__name__)
        model = managed(
            env_id="Pendulum-v1", dataset=dataset, total_timesteps=20, runs_dir=str(tmp_path / "runs"), **small(algo)
        ).learn()
        obs = np.array([1.0, 0.0, 0.5], dtype=np.float32)
        action, state = model.predict(obs)
        assert state is None
        assert action.shape == (1,)
        assert action.dtype == np.float32
        assert abs(float(action[0])) <= 2.0
        batched, _ = model.predict(np.stack([obs, -obs]))
        assert batched.shape == (2, 1)
        np.testing.assert_allclose(batched[0], action, rtol=1e-5)
        evaluation = model.evaluate(episodes=2)
        assert evaluation.returns.shape == (1, 2)
        model.save(tmp_path / "saved")
        again = managed.load(tmp_path / "saved")
        np.testing.assert_array_equal(again.predict(obs)[0], action)
        assert again.evaluate(episodes=2).mean == evaluation.mean
        from_run = managed.load(model.run_dir, dataset=dataset).learn(total_timesteps=25)
        assert from_run.policy.checkpoint.progress["steps"] == 25

    def test_from_arrays_alone(self, algo: str, dataset: TransitionDataset, tmp_path: Path) -> None:
        if needs_environment(algo):
            pytest.skip(f"{algo} collects its own experience")
        managed = getattr(rl_training, algorithms.load(algo).__name__)
        arrays = {name: value for name, value in dataset.to_dict().items() if value is not None}
        model = managed(dataset=arrays, total_timesteps=10, runs_dir=str(tmp_path), **small(algo)).learn()
        assert model.predict(np.zeros(3))[0].shape == (1,)
        with pytest.raises(ConfigError, match="trained without an environment"):
            model.evaluate()

    def test_command_line(self, algo: str, data_file: Path, tmp_path: Path) -> None:
        settings = [f"dataset={data_file}", "total_timesteps=20", "evaluation.episodes=1", "eval_interval=20"]
        settings += [f"algo_kwargs.{name}={json.dumps(value)}" for name, value in small(algo).items()]
        arguments = ["train", "--config", f"{algo}/pendulum", "--name", "x", "--runs-dir", str(tmp_path)]
        for setting in settings:
            arguments += ["--set", setting]
        runner = CliRunner()
        trained = runner.invoke(app, arguments, catch_exceptions=False)
        assert trained.exit_code == 0, trained.output
        assert "finished after 20 " in trained.output
        run = str(tmp_path / "x")
        assert (tmp_path / "x" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
        scored = runner.invoke(app, ["evaluate", run, "--episodes", "1", "--json"], catch_exceptions=False)
        record = json.loads((tmp_path / "x" / "evaluations.jsonl").read_text())
        assert json.loads(scored.output)["return_mean"] == record["return_mean"]
        acted = runner.invoke(app, ["predict", run, "--obs", "1,0,0", "--obs", "0,1,2"], catch_exceptions=False)
        lines = [json.loads(line) for line in acted.output.splitlines()]
        expected = manager.load_policy(run).predict([[1, 0, 0], [0, 1, 2]])
        np.testing.assert_allclose(lines, expected, rtol=1e-6)
        more = runner.invoke(app, ["resume", run, "--total-timesteps", "30"], catch_exceptions=False)
        assert "finished after 30 " in more.output

    def test_packaged_configuration_is_valid(self, algo: str) -> None:
        config = read_config(f"{algo}/pendulum")
        assert config.algo == algo
        assert config.env_id == "Pendulum-v1"

    @pytest.mark.slow
    def test_compiled_equals_eager(self, algo: str, config: TrainConfig, dataset: TransitionDataset) -> None:
        from rl_training.runtime.trainer import trainer_for

        states = []
        for mode in ("eager", "compiled"):
            loop = trainer_for(algo)(config.model_copy(update={"engine": mode, "name": mode})).prepare()
            assert isinstance(loop.engine, Engine)
            loop.engine.run(0, 20)
            states.append({name: value.detach().clone() for name, value in loop.actor.learner.state().items()})
        for name, value in states[0].items():
            torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-5)


ONLINE = [algo for algo in ALGOS if issubclass(algorithms.load(algo).Params, OnlineParams)]


@pytest.mark.parametrize("algo", ONLINE)
class TestOnline:
    """Algorithms that collect their own experience, several environments at once."""

    @pytest.fixture
    def online(self, algo: str, config: TrainConfig) -> TrainConfig:
        kwargs = {**config.algo_kwargs, "n_envs": 3, "train_frequency": 2}
        data = config.dataset if needs_environment(algo) else None
        transforms = {"reward_scale": 0.1}
        changes = {"dataset": data, "algo_kwargs": kwargs, "transforms": transforms, "evaluation": {"episodes": 1}}
        return TrainConfig.parse({**config.to_plain(), **changes})

    @pytest.mark.parametrize("stop", [4, 31])
    def test_resume_is_exact(self, algo: str, stop: int, online: TrainConfig) -> None:
        whole = manager.start(online.model_copy(update={"name": "whole"}))
        cut = manager.start(online.model_copy(update={"name": "cut"}), callbacks=[StopAt(stop)])
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.checkpoint.source) == digest(whole.checkpoint.source)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        for kind in ("metrics", "evaluations"):
            a, b = ((r.run.path / f"{kind}.jsonl").read_bytes() for r in (whole, resumed))
            assert a == b

    def test_counts_and_reports(self, algo: str, online: TrainConfig) -> None:
        result = manager.start(online)
        progress = result.progress
        assert progress.steps == UPDATES
        rounds = UPDATES // 2 - 5 // 2  # every second step once learning has started
        assert progress.updates == progress.total_updates == rounds
        record = result.run.records("metrics")[-1]
        assert record["updates"] == rounds
        assert record["data/buffer_size"] == [40.0]
        assert ("data/offline_share" in record) == needs_environment(algo)

    def test_a_seed_does_not_know_the_others(self, algo: str, online: TrainConfig) -> None:
        alone = manager.start(online.model_copy(update={"seed": 2, "name": "alone"}))
        among = manager.start(online.model_copy(update={"seed": (0, 2), "name": "among"}))
        torch.testing.assert_close(
            among.checkpoint.source["buffer.rows"][1], alone.checkpoint.source["buffer.rows"][0], rtol=1e-3, atol=1e-3
        )
