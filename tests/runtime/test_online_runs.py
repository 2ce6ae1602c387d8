"""Whole online runs: budgets in steps and updates, mistakes told before anything is written, and resuming."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl_training.data.generation import generate_random_dataset
from rl_training.errors import CheckpointError, ConfigError, EnvironmentFailedError, RLTrainingError
from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.checkpoint import load_checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.loop import Loop
from rl_training.runtime.online import OnlineSource
from rl_training.runtime.trainer import trainer_for
from small_runs import StopAt, digest, files_under, script_scores, small_config, small_values
from tiny_environments import CLIFF, COUNTED, SLIPPERY, Counted, Slippery

ONLINE = {"learning_starts": 5, "buffer_capacity": 40}


def online_config(runs: Path, algo: str = "sac", data: Any = None, **changes: Any) -> TrainConfig:
    knobs = {**ONLINE, **changes.pop("algo_kwargs", {})}
    rest = {"env_id": CLIFF, "evaluation": {"episodes": 1}, **changes}
    return small_config(data, runs, algo, algo_kwargs=knobs, **rest)


def random_data(size: int = 60) -> dict[str, Any]:
    return {"source": "random", "size": size}


class StopInPretraining(Callback):
    """Interrupts as soon as it may, which is before the first step where there is pretraining."""

    def on_progress(self, loop: Loop) -> None:
        loop.stop("asked to", status="interrupted")


class SavedUpdates(Callback):
    """How many updates every checkpoint holds."""

    def __init__(self) -> None:
        self.updates: list[int] = []

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        self.updates.append(load_checkpoint(path).progress["updates"])


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_an_option_that_would_do_nothing_is_refused(algo: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^online: {algo} without a dataset has these options in algo_kwargs; give"):
        manager.start(online_config(tmp_path, algo, online={"learning_starts": 3}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algo", ["awac", "iql", "cql", "td3_bc"])
def test_an_offline_algorithm_learns_from_its_own_experience_alone(algo: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"online": {"learning_starts": 5, "buffer_capacity": 100}}
    whole = manager.start(small_config(None, tmp_path, algo, env_id=CLIFF, evaluation={"episodes": 1}, **values))
    assert (whole.progress.unit, whole.progress.steps, whole.progress.updates) == ("steps", 20, 16)
    assert whole.run.describe()["notices"] == [f"there is no dataset: {algo} learns from its own experience alone"]
    values["name"] = "cut"
    config = small_config(None, tmp_path, algo, env_id=CLIFF, evaluation={"episodes": 1}, **values)
    cut = manager.start(config, callbacks=[StopAt(9)])
    resumed = manager.resume(cut.run.path)
    assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())


@pytest.mark.parametrize(
    "option", [{"prior": "buffer"}, {"offline_batch_ratio": 0.25}, {"offline_pretrain_updates": 10}]
)
def test_what_says_how_to_use_data_needs_some(option: dict[str, Any], tmp_path: Path) -> None:
    (name,) = option
    with pytest.raises(ConfigError, match=f"^online.{name}: says how prior data are used, but there is no dataset$"):
        manager.start(small_config(None, tmp_path, "awac", env_id=CLIFF, online=option))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("algo", "knobs", "updates"),
    [
        ("sac", {"learning_starts": 0}, 20),
        ("sac", {"learning_starts": 5}, 16),
        ("td3", {"learning_starts": 5, "train_frequency": 4}, 4),  # after steps 8, 12, 16 and 20
        ("td3", {"learning_starts": 4, "train_frequency": 4, "gradient_updates_per_step": 3}, 15),
        ("rlpd", {"learning_starts": 18, "gradient_updates_per_step": 20, "offline_pretrain_updates": 40}, 100),
        ("sac", {"learning_starts": 100}, 1),  # none; a schedule must span something
    ],
)
def test_the_updates_of_a_run_are_known_before_it_starts(
    algo: str, knobs: dict[str, Any], updates: int, tmp_path: Path
) -> None:
    data = random_data() if algo == "rlpd" else None
    config = online_config(tmp_path, algo, dataset=data, algo_kwargs={**knobs, "n_envs": 3})
    assert trainer_for(algo)(config).assemble().progress.total_updates == updates
    progress = manager.start(config).progress
    assert (progress.steps, progress.unit) == (20, "steps")
    assert progress.updates == (updates if knobs["learning_starts"] < 100 else 0)


def test_learning_rates_span_the_updates_not_the_steps(tmp_path: Path) -> None:
    knobs = {"train_frequency": 4, "lr_schedule": {"actor": {"kind": "linear"}}}
    learner = trainer_for("td3")(online_config(tmp_path, "td3", algo_kwargs=knobs)).assemble().learner
    assert learner.optimisers["actor"].horizon == 4


class TestMistakes:
    @staticmethod
    def refused(config: TrainConfig, runs: Path) -> str:
        with pytest.raises(RLTrainingError) as caught:
            manager.start(config)
        assert files_under(runs) == {}
        assert "\n" not in str(caught.value)
        return str(caught.value)

    @pytest.mark.parametrize("algo", ["sac", "td3", "rlpd"])
    def test_no_environment(self, algo: str, data_file: Path, tmp_path: Path) -> None:
        config = online_config(tmp_path, algo, data_file if algo == "rlpd" else None, env_id=None)
        assert self.refused(config, tmp_path) == (
            f"env_id: is required where {algo} collects its own experience; name it (finetune: --env-id ID)"
        )

    def test_no_dataset(self, tmp_path: Path) -> None:
        expected = "dataset: is required; a path to a file, minari:ID, `source: scripted` or `random`"
        assert self.refused(online_config(tmp_path, "rlpd"), tmp_path) == expected
        config = small_config(None, tmp_path, "iql", env_id=CLIFF)
        assert self.refused(config, tmp_path) == expected

    @pytest.mark.parametrize("option", ["normalise_observations", "reward_range_scaling"])
    def test_transforms_that_need_data(self, option: str, tmp_path: Path) -> None:
        config = online_config(tmp_path, transforms={option: True})
        expected = "transforms: statistics of a dataset are asked for, but there is no dataset"
        assert self.refused(config, tmp_path) == expected

    def test_transforms_that_need_none(self, tmp_path: Path) -> None:
        config = online_config(tmp_path, transforms={"reward_scale": 0.5, "reward_shift": -2.0})
        transforms = trainer_for("sac")(config).assemble().transforms
        assert (transforms.reward_scale, transforms.reward_shift, transforms.obs_mean) == (0.5, -2.0, None)
        assert (transforms.action_low, transforms.action_high) == ((-2.0,), (2.0,))

    def test_data_of_another_environment(self, data_file: Path, tmp_path: Path) -> None:
        message = self.refused(online_config(tmp_path, "rlpd", data_file), tmp_path)
        assert message.endswith(f"observations have 3 columns, but environment '{CLIFF}' has 2")

    def test_pretraining_that_splits_a_round(self) -> None:
        knobs = {"gradient_updates_per_step": 20, "offline_pretrain_updates": 50}
        with pytest.raises(ConfigError) as caught:
            TrainConfig.parse(small_values("x.npz", Path(), "rlpd", algo_kwargs=knobs))
        assert str(caught.value) == (
            "algo_kwargs.offline_pretrain_updates (50) must be a multiple of gradient_updates_per_step (20), "
            "so that rounds stay whole"
        )

    def test_epochs_of_no_dataset(self, tmp_path: Path) -> None:
        config = online_config(tmp_path, total_timesteps=None, n_epochs=3)
        assert (
            self.refused(config, tmp_path)
            == "total_timesteps: is required; without a dataset there are no epochs to count"
        )


class TestNegativeControls:
    """An online algorithm on a fixed dataset learns from that alone, and the run says what to expect of it."""

    @pytest.mark.parametrize("algo", ["sac", "td3"])
    def test_no_step_is_taken_and_a_notice_is_given(
        self, algo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {20: 0.0})
        data = replace(generate_random_dataset(CLIFF, 60, seed=0), env_id=None)
        Counted.start_counting()
        result = manager.start(online_config(tmp_path, algo, env_id=COUNTED), dataset=data)
        assert Counted.steps == 0
        assert (result.progress.updates, result.progress.unit) == (20, "updates")
        assert result.checkpoint.source == {}
        assert result.run.describe()["notices"][-1:] == [
            f"{algo} is not an offline algorithm: with no experience of its own it overrates actions that the data "
            "lack; good as a negative control"
        ]

    @pytest.mark.parametrize(("algo", "dataset"), [("sac", None), ("td3", None), ("rlpd", random_data())])
    def test_online_there_is_nothing_to_say(self, algo: str, dataset: Any, tmp_path: Path) -> None:
        trainer = trainer_for(algo)(online_config(tmp_path, algo, dataset=dataset))
        trainer.assemble()
        assert trainer.notices == []


class TestEnvironmentsAreClosed:
    """As many closed as opened, however the run ends or does not begin."""

    @staticmethod
    def start(runs: Path, **changes: Any) -> Any:
        config = online_config(runs, env_id=COUNTED, algo_kwargs={"n_envs": 3}, **changes)
        return manager.start(config, callbacks=[StopAt(4)]).run

    def test_after_a_run(self, tmp_path: Path) -> None:
        Counted.start_counting()
        self.start(tmp_path)
        assert Counted.closed == Counted.opened >= 3

    def test_when_an_environment_does_not_start(self, tmp_path: Path) -> None:
        Counted.start_counting(resets_left=2)
        with pytest.raises(EnvironmentFailedError, match="RuntimeError: no more resets"):
            self.start(tmp_path)
        assert Counted.closed == Counted.opened >= 3

    def test_when_a_resume_is_refused(self, tmp_path: Path) -> None:
        Counted.start_counting()
        run = self.start(tmp_path)
        Counted.opened = Counted.closed = 0
        with pytest.raises(CheckpointError, match="the environment is not deterministic"):
            manager.resume(run.path)
        assert Counted.closed == Counted.opened >= 3

    def test_when_the_run_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise CheckpointError("no space left")

        Counted.start_counting()
        run = self.start(tmp_path)
        Counted.opened = Counted.closed = 0
        monkeypatch.setattr(type(run), "write_config", full)
        monkeypatch.setattr(OnlineSource, "restore", lambda self, state: None)
        with pytest.raises(CheckpointError, match="no space left"):
            manager.resume(run.path)
        assert Counted.closed == Counted.opened >= 3


class TestResume:
    def test_an_environment_that_cannot_be_repeated_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Slippery, "taken", 0)
        config = online_config(tmp_path, env_id=SLIPPERY, algo_kwargs={"n_envs": 3})
        run = manager.start(config, callbacks=[StopAt(4)]).run
        with pytest.raises(CheckpointError) as caught:
            manager.resume(run.path)
        assert str(caught.value) == "the environment is not deterministic: repeating its actions led elsewhere"
        assert run.describe()["status"] == "interrupted"

    @pytest.mark.parametrize("stop", [1, 6, 13])
    def test_exact(self, stop: int, tmp_path: Path) -> None:
        """Across terminations: episodes of this environment last six steps at most."""
        values = {"seed": (0, 1), "dataset": random_data(), "transforms": {"normalise_observations": True}}
        knobs = {"n_envs": 2, "offline_batch_ratio": 0.25, "offline_pretrain_updates": 4}
        values["algo_kwargs"] = knobs
        whole = manager.start(online_config(tmp_path, "rlpd", **values, name="whole"))
        cut = manager.start(online_config(tmp_path, "rlpd", **values, name="cut"), callbacks=[StopAt(4 + stop)])
        assert cut.progress.updates == 4 + stop
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.checkpoint.source) == digest(whole.checkpoint.source)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert (resumed.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()

    def test_interrupted_while_pretraining(self, tmp_path: Path) -> None:
        values = {"dataset": random_data(), "algo_kwargs": {"offline_pretrain_updates": 150}}
        whole = manager.start(online_config(tmp_path, "rlpd", **values, name="whole"))
        cut = manager.start(online_config(tmp_path, "rlpd", **values), callbacks=[StopInPretraining()])
        assert (cut.progress.steps, cut.progress.updates) == (0, 64)
        resumed = manager.resume(cut.run.path)
        assert resumed.progress.updates == whole.progress.updates == 150 + 16
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())

    def test_interrupted_while_pretraining_again_and_again(self, tmp_path: Path) -> None:
        """Each goes on from where the one before was stopped, though no step was taken in between."""
        values = {"dataset": random_data(), "algo_kwargs": {"offline_pretrain_updates": 150}}
        whole = manager.start(online_config(tmp_path, "rlpd", **values, name="whole"))
        cut = manager.start(online_config(tmp_path, "rlpd", **values), callbacks=[StopInPretraining()])
        for updates in (128, 150):
            again = manager.resume(cut.run.path, callbacks=[StopInPretraining()])
            assert (again.progress.steps, again.progress.updates, again.run.steps()) == (0, updates, [0])
            assert again.run.load().progress["updates"] == updates
            assert [path.name for path in (again.run.path / "checkpoints").iterdir()] == ["step-0"]
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert (resumed.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()

    def test_pretraining_is_saved_on_the_way(self, tmp_path: Path) -> None:
        """By its updates: a killed run would lose all of it otherwise."""
        values = {"dataset": random_data(), "algo_kwargs": {"offline_pretrain_updates": 300}}
        saved = SavedUpdates()
        result = manager.start(online_config(tmp_path, "rlpd", **values, checkpoint_interval=100), callbacks=[saved])
        assert [updates for updates in saved.updates if updates <= 300] == [128, 256, 300]
        assert result.progress.updates == 300 + 16
