"""The workflows around a run: resume it, load it, evaluate it, ask it for actions."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DataError, RLTrainingError
from rl_training.experiment import manager
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.td3_bc_trainer import train_td3_bc
from small_runs import StopAt, digest, files_under, script_scores, small_config, small_values

OBS = np.array([[0.5, -0.2, 1.0], [0.1, 0.9, -3.0]], dtype=np.float32)


@pytest.fixture(scope="module")
def runs(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`run`: three seeds of a Gaussian policy, checkpoints at 10 and 20, the first scored better."""
    folder = tmp_path_factory.mktemp("runs")
    config = small_config(
        data_file, folder, checkpoint_interval=10, seed=[3, 1, 8], algo_kwargs={"deterministic_policy": False}
    )
    with pytest.MonkeyPatch.context() as patch:
        script_scores(patch, {10: 2.0, 20: 1.0})
        manager.start(config.model_copy(update={"eval_interval": 10}))
    return folder


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(runs / "run", tmp_path / "run"))


class TestResume:
    def test_a_finished_run_has_nothing_left(self, run: Path) -> None:
        before = files_under(run)
        with pytest.raises(ConfigError) as caught:
            manager.resume(run)
        message = f"{run}: is finished at step 20; to go on, give a larger total_timesteps than that"
        assert str(caught.value) == message
        for budget in (5, 20):
            with pytest.raises(ConfigError, match="is finished at step 20"):
                manager.resume(run, total_timesteps=budget)
        assert files_under(run) == before

    @pytest.mark.parametrize("status", ["running", "interrupted"])
    def test_one_that_was_not_told_finished_ends_with_the_budget_it_has_asked_for_again(
        self, status: str, run: Path
    ) -> None:
        """As a job's script does whose process was killed at the very end."""
        RunDirectory.open(run).note(status=status)
        again = manager.resume(run, total_timesteps=20)
        assert (again.status, again.run.describe()["status"]) == ("finished", "finished")

    def test_a_larger_budget_ends_as_an_unbroken_run(self, data_file: Path, tmp_path: Path) -> None:
        whole = manager.start(small_config(data_file, tmp_path, name="whole", total_timesteps=30))
        short = manager.start(small_config(data_file, tmp_path, name="short"))
        longer = manager.resume(short.run.path, total_timesteps=30)
        assert digest(longer.actor.learner.state()) == digest(whole.actor.learner.state())
        assert (longer.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()
        assert "total_timesteps: 30" in (short.run.path / "config.yaml").read_text()
        assert longer.run.describe()["status"] == "finished"

    def test_a_budget_in_epochs_is_replaced(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(
            data_file, tmp_path, total_timesteps=None, n_epochs=1, algo_kwargs={"batch_size": 500}, log_interval=4
        )
        assert manager.start(config).progress.updates == 4
        assert manager.resume(tmp_path / "run", total_timesteps=6).progress.updates == 6

    def test_data_from_memory_must_be_given_again(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        config = small_config(None, tmp_path)
        manager.start(config, dataset=dataset, callbacks=[StopAt(7)])
        with pytest.raises(ConfigError, match="was trained from arrays in memory; give the same arrays again"):
            manager.resume(tmp_path / "run")
        assert manager.resume(tmp_path / "run", dataset=dataset).progress.updates == 20

    def test_arrays_given_instead_of_the_configured_data(
        self, dataset: TransitionDataset, data_file: Path, tmp_path: Path
    ) -> None:
        """The file is not what the run was trained from, so config.yaml must not say so."""
        other = replace(dataset, rewards=dataset.rewards + 1)
        manager.start(small_config(data_file, tmp_path), dataset=other, callbacks=[StopAt(7)])
        with pytest.raises(ConfigError, match="was trained from arrays in memory"):
            manager.resume(tmp_path / "run")

    def test_other_data_is_refused(self, dataset: TransitionDataset, run: Path) -> None:
        rewards = dataset.rewards.copy()
        rewards[17] += 0.5
        with pytest.raises(CheckpointError, match=rf"dataset: not the one {run} was started with"):
            manager.resume(run, total_timesteps=30, dataset=replace(dataset, rewards=rewards))

    def test_a_data_file_that_changed_is_refused(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        dataset.save(tmp_path / "log.npz")
        manager.start(small_config(tmp_path / "log.npz", tmp_path), callbacks=[StopAt(7)])
        (tmp_path / "log.npz").unlink()
        replace(dataset, obs=dataset.obs + np.float32(1e-3)).save(tmp_path / "log.npz")
        with pytest.raises(CheckpointError, match="dataset: not the one"):
            manager.resume(tmp_path / "run")

    def test_a_data_file_that_moved(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        dataset.save(tmp_path / "log.npz")
        manager.start(small_config(tmp_path / "log.npz", tmp_path), callbacks=[StopAt(7)])
        (tmp_path / "log.npz").rename(tmp_path / "moved.npz")
        with pytest.raises(DataError, match=r"log\.npz: no such file"):
            manager.resume(tmp_path / "run")
        moved = {"source": "file", "path": str(tmp_path / "moved.npz")}
        assert manager.resume(tmp_path / "run", dataset=moved).progress.updates == 20
        assert manager.resume(tmp_path / "run", total_timesteps=22).progress.updates == 22
        replace(dataset, rewards=dataset.rewards + 1).save(tmp_path / "other.npz")
        with pytest.raises(CheckpointError, match="dataset: not the one"):
            manager.resume(tmp_path / "run", total_timesteps=30, dataset={**moved, "path": tmp_path / "other.npz"})
        with pytest.raises(ConfigError, match=r"dataset.pth: no such option; did you mean 'path'\?"):
            manager.resume(tmp_path / "run", total_timesteps=30, dataset={"source": "file", "pth": "x.npz"})

    def test_a_run_without_data_takes_none(self, dataset: TransitionDataset, run: Path) -> None:
        import json

        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**facts, "dataset": None}))
        with pytest.raises(ConfigError, match="run: collects its own experience; it was started without a dataset"):
            manager.resume(run, total_timesteps=30, dataset=dataset)

    def test_a_refused_resume_changes_nothing(self, dataset: TransitionDataset, run: Path) -> None:
        before = files_under(run)
        with pytest.raises(CheckpointError):
            manager.resume(run, total_timesteps=30, dataset=replace(dataset, rewards=dataset.rewards + 1))
        assert files_under(run) == before

    def test_from_another_folder(
        self, dataset: TransitionDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Paths in a configuration are relative to where the run was started, wherever it goes on."""
        dataset.save(tmp_path / "log.npz")
        monkeypatch.chdir(tmp_path)
        manager.start(small_config("log.npz", Path("runs")), callbacks=[StopAt(7)])
        elsewhere = tmp_path / "else" / "where"
        elsewhere.mkdir(parents=True)
        monkeypatch.chdir(elsewhere)
        assert manager.resume("../../runs/run").progress.updates == 20
        assert list(elsewhere.iterdir()) == []

    def test_a_missing_run(self, runs: Path) -> None:
        with pytest.raises(CheckpointError, match=f"{runs}/rnu: no such run; runs in {runs}: run"):
            manager.resume(runs / "rnu")

    def test_a_checkpoint_is_pointed_at_its_run(self, run: Path) -> None:
        with pytest.raises(CheckpointError, match=f"resume {run}"):
            manager.resume(run / "checkpoints" / "step-10", total_timesteps=30)

    def test_a_checkpoint_outside_a_run(self, run: Path, tmp_path: Path) -> None:
        shutil.copytree(run / "checkpoints" / "step-10", tmp_path / "a" / "b" / "saved")
        with pytest.raises(CheckpointError, match=r"saved: is a checkpoint, .* load it in Python and call learn"):
            manager.resume(tmp_path / "a" / "b" / "saved", total_timesteps=30)

    def test_a_checkpoint_with_other_counters(self, run: Path) -> None:
        import hashlib
        import json

        last = run / "checkpoints" / "step-20"
        state = json.loads((last / "state.json").read_text())
        state["progress"]["unheard_of"] = 1
        data = json.dumps(state).encode()
        (last / "state.json").write_bytes(data)
        manifest = json.loads((last / "manifest.json").read_text())
        manifest["files"]["state.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        (last / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(CheckpointError, match="unheard_of"):
            manager.resume(run, total_timesteps=30)


class TestLoad:
    def test_run_or_checkpoint_last_best_or_number(self, runs: Path) -> None:
        run = runs / "run"
        first, last = (manager.load_policy(run, which).predict(OBS) for which in (10, 20))
        assert not np.array_equal(first, last)
        np.testing.assert_array_equal(manager.load_policy(run).predict(OBS), last)
        np.testing.assert_array_equal(manager.load_policy(str(run), "best").predict(OBS), first)
        np.testing.assert_array_equal(manager.load_policy(run / "checkpoints" / "step-10").predict(OBS), first)

    def test_in_one_call(self, runs: Path) -> None:
        policy = manager.load_policy(runs / "run", 10)
        np.testing.assert_array_equal(manager.predict(runs / "run", OBS, which=10), policy.predict(OBS))
        options = {"env_id": "Pendulum-v1", "seed": 7}
        scored = manager.evaluate(runs / "run", 2, which=10, **options)
        np.testing.assert_array_equal(scored.returns, policy.evaluate(2, **options).returns)

    def test_needs_neither_environment_nor_data(
        self, dataset: TransitionDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dataset.save(tmp_path / "log.npz")
        config = small_config(tmp_path / "log.npz", tmp_path, env_id="Pendulum-v1", evaluation={"episodes": 1})
        expected = manager.start(config).actor(OBS[None])[0]
        (tmp_path / "log.npz").unlink()
        import gymnasium

        monkeypatch.delitem(gymnasium.registry, "Pendulum-v1")
        np.testing.assert_array_equal(manager.load_policy(tmp_path / "run").predict(OBS), expected)

    @pytest.mark.parametrize("which", [11, "first", "-1"])
    def test_a_checkpoint_that_is_not_there(self, which: Any, runs: Path) -> None:
        with pytest.raises(CheckpointError, match=f"no checkpoint {which!r}; choose from last, best, 10, 20"):
            manager.load_policy(runs / "run", which)

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="holds no run"):
            manager.load_policy(tmp_path)

    def test_best_of_one_checkpoint_makes_no_sense(self, runs: Path) -> None:
        checkpoint = runs / "run" / "checkpoints" / "step-20"
        with pytest.raises(ConfigError, match="step-20: is one checkpoint; 'best' can be asked of a run only"):
            manager.load_policy(checkpoint, "best")
        with pytest.raises(ConfigError, match="20 can be asked of a run only"):
            manager.load_policy(checkpoint, 20)

    def test_a_number_as_text(self, runs: Path) -> None:
        assert manager.load_policy(runs / "run", "10").checkpoint.progress["updates"] == 10
        for which in ("²", "9" * 5000):
            with pytest.raises(CheckpointError, match="no checkpoint"):
                manager.load_policy(runs / "run", which)

    def test_a_bare_name_is_looked_for_among_the_runs(
        self, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(runs, tmp_path / "runs")
        monkeypatch.chdir(tmp_path)
        assert manager.load_policy("run").checkpoint.progress["updates"] == 20
        assert manager.describe("run")["status"] == "finished"
        with pytest.raises(CheckpointError, match="runs/rnu: no such run; runs in runs: run"):
            manager.load_policy("rnu")

    @pytest.mark.parametrize("name", ["~nobody-of-this-name/run", "x" * 300])
    def test_names_the_file_system_refuses(self, name: str) -> None:
        for use in (manager.load_policy, manager.resume, manager.describe):
            with pytest.raises(CheckpointError, match="cannot be looked for"):
                use(name)


@pytest.fixture(scope="module")
def policy(runs: Path) -> manager.LoadedPolicy:
    return manager.load_policy(runs / "run")


class TestPredict:
    def test_one_or_several(self, policy: manager.LoadedPolicy) -> None:
        both = policy.predict(OBS)
        assert both.shape == (2, 1)
        assert both.dtype == np.float32
        one = policy.predict(OBS[1])
        assert one.shape == (1,)
        np.testing.assert_allclose(one, both[1], rtol=1e-5)
        assert policy.predict(OBS[:1]).shape == (1, 1)
        assert policy.predict(np.zeros((0, 3))).shape == (0, 1)
        np.testing.assert_allclose(policy.predict(OBS.astype(np.float64).tolist()), both, rtol=1e-5)

    def test_does_not_write_to_the_observations(self, policy: manager.LoadedPolicy) -> None:
        obs = OBS.copy()
        obs.setflags(write=False)
        policy.predict(obs)
        np.testing.assert_array_equal(obs, OBS)

    @pytest.mark.parametrize(
        ("obs", "message"),
        [
            ([0.0, 1.0], r"obs: has shape \(2,\); expected \(3,\) or \(batch, 3\)"),
            (np.zeros((4, 2)), r"obs: has shape \(4, 2\); expected \(3,\) or \(batch, 3\)"),
            (np.zeros((1, 2, 3)), r"obs: has shape \(1, 2, 3\)"),
            (0.5, r"obs: has shape \(\)"),
            ([[0, 0, 0], [0, float("nan"), 0]], "obs: value 1 of row 1 is not finite"),
            ([float("inf"), 0, 0], "obs: value 0 of row 0 is not finite"),
            ([1e300, 0, 0], "obs: value 0 of row 0 is not finite"),
            (np.array([1e300, 0, 0]), "obs: value 0 of row 0 is not finite"),
            ([10**400, 0, 0], "obs: must be numbers, one row per observation"),
            (["a", "b", "c"], "obs: must be numbers, one row per observation"),
            ({"a": 1}, "obs: must be numbers"),
            ([[0, 0, 0], [0, 0]], "obs: must be numbers, one row per observation"),
        ],
    )
    def test_what_is_no_observation(self, obs: Any, message: str, policy: manager.LoadedPolicy) -> None:
        with pytest.raises(DataError, match=message) as caught:
            policy.predict(obs)
        assert "\n" not in str(caught.value)

    def test_sampling_repeats_itself_by_its_draw(self, policy: manager.LoadedPolicy) -> None:
        mode = policy.predict(OBS)
        first, again, other = (policy.predict(OBS, deterministic=False, draw=draw) for draw in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert (first != other).all()
        assert (first != mode).all()
        assert (np.abs(first) <= 2.0).all()

    def test_whose_policy(self, policy: manager.LoadedPolicy) -> None:
        by_seed = [policy.predict(OBS, seed=seed) for seed in (3, 1, 8)]
        np.testing.assert_array_equal(policy.predict(OBS), by_seed[0])
        assert not np.allclose(by_seed[0], by_seed[1])
        assert not np.allclose(by_seed[1], by_seed[2])
        with pytest.raises(ConfigError, match="seed: 2 is not in this run; it has 3, 1, 8"):
            policy.predict(OBS, seed=2)


class TestEvaluate:
    def test_needs_an_environment(self, policy: manager.LoadedPolicy) -> None:
        with pytest.raises(ConfigError, match="env_id: this policy was trained without an environment; name one"):
            policy.evaluate(1)

    def test_in_a_named_environment(self, policy: manager.LoadedPolicy) -> None:
        evaluation = policy.evaluate(2, env_id="Pendulum-v1", seed=5)
        assert evaluation.seeds == (3, 1, 8)
        assert evaluation.returns.shape == (3, 2)
        assert evaluation.step == 20
        np.testing.assert_allclose(
            policy.evaluate(1, env_id="Pendulum-v1", seed=6).returns[:, 0], evaluation.returns[:, 1], rtol=1e-3
        )

    def test_an_unknown_environment(self, policy: manager.LoadedPolicy) -> None:
        with pytest.raises(RLTrainingError, match=r"unknown environment 'Pendulm-v1'; did you mean 'Pendulum-v1'\?"):
            policy.evaluate(1, env_id="Pendulm-v1")

    @pytest.mark.parametrize("env_id", ["MountainCarContinuous-v0", "CartPole-v1", "Acrobot-v1"])
    def test_an_environment_of_other_spaces(self, env_id: str, policy: manager.LoadedPolicy) -> None:
        with pytest.raises(RLTrainingError, match=env_id) as caught:
            policy.evaluate(1, env_id=env_id)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("wrong", [{"episodes": 0}, {"seed": -1}, {"seed": 2**31}])
    def test_settings_out_of_range(self, wrong: dict[str, int], policy: manager.LoadedPolicy) -> None:
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            policy.evaluate(**{"episodes": 1, "env_id": "Pendulum-v1", **wrong})


class TestStart:
    def test_trainer_functions_take_a_config_or_its_values(self, data_file: Path, tmp_path: Path) -> None:
        values = small_values(data_file, tmp_path, "td3_bc", name="a", total_timesteps=3)
        del values["algo"]
        first = train_td3_bc(values)
        second = train_td3_bc(small_config(data_file, tmp_path, "td3_bc", name="b", total_timesteps=3))
        assert digest(first.checkpoint.tensors) == digest(second.checkpoint.tensors)
        with pytest.raises(ConfigError, match="algo: train_td3_bc got a configuration for 'bc'"):
            train_td3_bc(small_config(data_file, tmp_path))

    def test_a_config_made_by_its_constructor(self, data_file: Path, tmp_path: Path) -> None:
        values = small_values(data_file, tmp_path, total_timesteps=3, algo_kwargs={})
        config = TrainConfig(**{**values, "algo_kwargs": {"actor_hidden": [8, 8]}})
        assert manager.start(config).progress.updates == 3

    def test_rewards_that_are_not_numbers(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        arrays = {name: value for name, value in dataset.to_dict().items() if value is not None}
        arrays["rewards"] = arrays["rewards"].copy()
        arrays["rewards"][1203] = np.nan
        np.savez(tmp_path / "log.npz", **arrays)
        with pytest.raises(DataError, match=r"log.npz: rewards: NaN at row 1203 \(episode 6, step 3\)"):
            manager.start(small_config(tmp_path / "log.npz", tmp_path / "runs"))
        assert not (tmp_path / "runs").exists()


def test_weights_that_are_no_numbers_give_no_action(run: Path) -> None:
    policy = manager.load_policy(run)
    policy.actor.learner.model.actor.flat.data.fill_(float("nan"))  # as a forged checkpoint could have them
    with pytest.raises(CheckpointError, match=r"answers with what is no number: its weights are not finite$"):
        policy.predict(OBS)


@pytest.mark.parametrize("line", ["[]", "{}", '{"step": "x"}', "3"])
def test_a_run_goes_on_without_a_damaged_record(line: str, run: Path) -> None:
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines()
    damaged = "\n".join([lines[0], line, *lines[2:]]) + "\n"
    file.write_text(damaged)
    manager.resume(run, total_timesteps=30)
    assert (run / "metrics.jsonl.aside").read_text() == damaged
    steps = [json.loads(record)["step"] for record in file.read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 30
