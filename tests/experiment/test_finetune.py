"""Going on online: from the very weights and transforms of a run, with its data in every batch or in the buffer."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import CheckpointError, ConfigError, RLTrainingError
from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.loop import Loop
from rl_training.runtime.online import OnlineSource
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.trainer import TrainResult
from small_runs import StopAt, digest, files_under, script_scores, small_config

STEPS = 12
TESTED = ("iql", "awac", "cql")


@pytest.fixture(scope="module")
def offline(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of two seeds for each algorithm, by its name."""
    folder = tmp_path_factory.mktemp("offline")
    transforms = {"normalise_observations": True, "reward_range_scaling": True}
    with pytest.MonkeyPatch.context() as patch:
        script_scores(patch, {20: 1.0})
        for algo in (*TESTED, "awr"):
            stopping = {"metric": "return_mean", "target": 100.0}
            values = {"seed": (3, 1), "env_id": "Pendulum-v1", "transforms": transforms, "early_stopping": stopping}
            manager.start(small_config(data_file, folder, algo, name=algo, **values))
    return folder


@pytest.fixture(autouse=True)
def scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations are not what is tested here."""
    script_scores(monkeypatch, {STEPS: 2.0, 20: 1.0, 30: 3.0})


class Dies(Callback):
    """As a run that is killed before it has saved anything."""

    def on_progress(self, loop: Loop) -> None:
        if loop.progress.steps == 3:
            raise KeyboardInterrupt


class TestKilledBeforeItsFirstCheckpoint:
    """It starts again from what it began with, whatever has become of that."""

    @pytest.fixture
    def killed(self, offline: Path, tmp_path: Path) -> Path:
        shutil.copytree(offline / "iql", tmp_path / "origin")
        with pytest.raises(KeyboardInterrupt):
            self.start(tmp_path, "cut", Dies())
        assert RunDirectory.open(tmp_path / "cut").steps() == [0]
        return tmp_path / "cut"

    def start(self, tmp_path: Path, name: str, *callbacks: Callback) -> TrainResult:
        changes = {"runs_dir": str(tmp_path), "name": name, "checkpoint_interval": STEPS}
        return manager.finetune(tmp_path / "origin", STEPS, changes=changes, callbacks=callbacks)

    @pytest.mark.parametrize("fate", ["trained on", "without that checkpoint", "removed", "another"])
    def test_from_the_very_checkpoint(self, fate: str, killed: Path, tmp_path: Path) -> None:
        whole = self.start(tmp_path, "whole")
        origin = tmp_path / "origin"
        if fate in ("trained on", "without that checkpoint"):
            manager.resume(origin, total_timesteps=30)
            assert RunDirectory.open(origin).steps()[-1] == 30
        if fate == "without that checkpoint":
            shutil.rmtree(origin / "checkpoints" / "step-20")
        if fate in ("removed", "another"):
            shutil.rmtree(origin)
        if fate == "another":
            shutil.copytree(self.other(tmp_path), origin)
        resumed = manager.resume(killed)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert digest(resumed.run.load().source) == digest(whole.run.load().source)
        assert resumed.run.records("metrics") == whole.run.records("metrics")

    def test_where_a_program_asks_again(self, killed: Path, tmp_path: Path) -> None:
        """As `train --resume auto` does, with the same configuration."""
        shutil.rmtree(tmp_path / "origin")
        result = manager.start_or_resume(RunDirectory.open(killed).config())
        assert (result.run.path, result.progress.steps) == (killed, STEPS)

    def test_not_where_its_own_start_is_gone(self, killed: Path, tmp_path: Path) -> None:
        shutil.rmtree(killed / "checkpoints" / "step-0")
        with pytest.raises(CheckpointError, match=r"tells of a checkpoint at step 0, but there is none"):
            manager.resume(killed)

    def test_not_where_nothing_tells_of_its_start(self, killed: Path, tmp_path: Path) -> None:
        shutil.rmtree(killed / "checkpoints" / "step-0")
        RunDirectory.open(killed).note(step=None)
        with pytest.raises(
            CheckpointError, match="it has no checkpoint, not even of where it began; start another run"
        ):
            manager.resume(killed)

    def other(self, tmp_path: Path) -> Path:
        config = RunDirectory.open(tmp_path / "cut").config()
        data = {"algo": "iql", "dataset": config.to_plain()["dataset"], "total_timesteps": 20, "seed": [5, 6]}
        values = {**data, "algo_kwargs": config.algo_kwargs, "env_id": "Pendulum-v1", "runs_dir": str(tmp_path)}
        return manager.start(TrainConfig.parse({**values, "name": "other"})).run.path


class Look(Callback):
    """What the run was before its first step, and every batch it learned from."""

    def on_start(self, loop: Loop) -> None:
        source = loop.engine.source
        assert isinstance(source, OnlineSource)
        self.source, self.transforms = source, loop.actor.transforms
        self.weights = {name: value.detach().clone() for name, value in loop.actor.learner.state().items()}
        self.progress = (loop.progress.steps, loop.progress.updates, loop.progress.last, loop.progress.best)
        self.filled = len(source.buffer)
        self.first_rows = source.buffer.rows[:, : self.filled].clone()
        self.batches: list[Tensor] = []
        draw = source.batch

        def keep(*arguments: Any) -> Any:
            batch = draw(*arguments)
            self.batches.append(batch.obs)
            return batch

        source.batch = keep  # type: ignore[method-assign]


def finetuned(run: Path, tmp_path: Path, **options: Any) -> tuple[TrainResult, Look]:
    look = Look()
    changes = {"runs_dir": str(tmp_path / "online"), "name": "new", **options.pop("changes", {})}
    return manager.finetune(run, STEPS, changes=changes, callbacks=[look], **options), look


def known_rows(dataset: TransitionDataset, transforms: Transforms) -> set[tuple[float, ...]]:
    return {tuple(row) for row in transforms.observations(dataset.obs).tolist()}


@pytest.mark.parametrize("algo", TESTED)
class TestStart:
    def test_from_the_very_weights_and_transforms(self, algo: str, offline: Path, tmp_path: Path) -> None:
        old = RunDirectory.open(offline / algo).load()
        result, look = finetuned(offline / algo, tmp_path)
        assert int(look.weights.pop("clock")) == 0
        before = {name: value for name, value in old.tensors.items() if name != "clock"}
        assert digest(look.weights) == digest(before)
        assert look.transforms == old.transforms == result.checkpoint.transforms
        assert old.transforms.obs_mean is not None
        assert look.progress == (0, 0, None, None)
        assert (result.progress.steps, result.progress.unit, result.progress.updates) == (STEPS, "steps", STEPS)
        assert int(result.actor.learner.clock) == STEPS
        assert not torch.equal(result.actor.learner.state()["model.actor.flat"], before["model.actor.flat"])

    def test_learning_rates_are_constant(self, algo: str, offline: Path, tmp_path: Path) -> None:
        result, _ = finetuned(offline / algo, tmp_path)
        kinds = {optimiser.schedule.kind for optimiser in result.actor.learner.optimisers.values()}
        assert kinds == {"constant"}
        rates = {name: optimiser.lr for name, optimiser in result.actor.learner.optimisers.items()}
        old = RunDirectory.open(offline / algo).load().build_learner()
        assert rates == {name: optimiser.lr for name, optimiser in old.optimisers.items()}
        assert (algo == "iql") is (old.optimisers["actor"].schedule.kind == "cosine")

    def test_a_new_run_that_says_where_it_comes_from(self, algo: str, offline: Path, tmp_path: Path) -> None:
        before = files_under(offline / algo)
        result, _ = finetuned(offline / algo, tmp_path)
        assert files_under(offline / algo) == before
        assert result.run.path == tmp_path / "online" / "new"
        config = result.checkpoint.config
        assert config.init_from == str((offline / algo).resolve())
        assert config.early_stopping is None
        assert config.algo_kwargs == {**config.algo_kwargs, "batch_size": 8}
        assert f"init_from: {(offline / algo).resolve()}" in (result.run.path / "config.yaml").read_text()
        assert result.run.describe()["status"] == "finished"

    @pytest.mark.parametrize("stop", [1, 7])
    @pytest.mark.parametrize("prior", ["mixed", "buffer"])
    def test_resumed_exactly_even_without_the_run_it_came_from(
        self, algo: str, prior: str, stop: int, offline: Path, tmp_path: Path
    ) -> None:
        origin = Path(shutil.copytree(offline / algo, tmp_path / "origin"))
        options = {"online": {"prior": prior, "n_envs": 2, "buffer_capacity": 500}}
        values = {"runs_dir": str(tmp_path)}
        whole = manager.finetune(origin, STEPS, **options, changes={**values, "name": "whole"})
        cut = manager.finetune(origin, STEPS, **options, changes={**values, "name": "cut"}, callbacks=[StopAt(stop)])
        assert (cut.status, cut.progress.steps) == ("interrupted", stop)
        shutil.rmtree(origin)
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert digest(resumed.checkpoint.source) == digest(whole.checkpoint.source)
        assert (resumed.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()


class TestData:
    @pytest.mark.parametrize(("ratio", "rows"), [(None, 4), (0.0, 0), (0.25, 2), (1.0, 8)])
    def test_in_a_share_of_every_batch(
        self, ratio: float | None, rows: int, dataset: TransitionDataset, offline: Path, tmp_path: Path
    ) -> None:
        online = {} if ratio is None else {"offline_batch_ratio": ratio}
        result, look = finetuned(offline / "iql", tmp_path, online=online)
        assert look.filled == 0
        old = known_rows(dataset, look.transforms)
        assert len(look.batches) == STEPS
        for batch in look.batches:
            assert [sum(tuple(row) in old for row in member) for member in batch.tolist()] == [rows, rows]
        assert result.run.records("metrics")[-1]["data/offline_share"] == [rows / 8, rows / 8]

    def test_as_the_first_contents_of_the_buffer(
        self, dataset: TransitionDataset, offline: Path, tmp_path: Path
    ) -> None:
        online = {"prior": "buffer", "buffer_capacity": 2_005}
        result, look = finetuned(offline / "iql", tmp_path, online=online)
        assert look.filled == len(dataset)
        expected = look.transforms.observations(dataset.obs)
        for member in range(2):
            np.testing.assert_array_equal(look.first_rows[member, :, :3].numpy(), expected)
            np.testing.assert_array_equal(
                look.first_rows[member, :, 4].numpy(), look.transforms.rewards(dataset.rewards)
            )
        assert result.run.records("metrics")[-1]["data/buffer_size"] == [2_005.0, 2_005.0]
        newest = look.source.buffer.rows[0, :7, :3].numpy()  # 12 steps: five to fill it, seven over the oldest
        assert not any(np.isclose(row, expected).all(1).any() for row in newest)

    def test_new_experience_goes_through_the_old_transforms(self, offline: Path, tmp_path: Path) -> None:
        """Rewards too: the range of episode returns belongs to the offline data."""
        _, look = finetuned(offline / "iql", tmp_path)
        rows = look.source.buffer.rows[0, :STEPS].numpy().astype(np.float64)
        t = look.transforms
        assert t.obs_mean is not None
        seen = rows[:, :3] * t.obs_std + t.obs_mean
        np.testing.assert_allclose(seen[:, 0] ** 2 + seen[:, 1] ** 2, 1.0, rtol=1e-4)  # a cosine and a sine again
        angle, speed, torque = np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2], 2.0 * rows[:, 3]
        raw = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        np.testing.assert_allclose(rows[:, 4], t.reward_scale * raw + t.reward_shift, rtol=1e-3, atol=1e-3)

    def test_transforms_are_not_fitted_again(self, dataset: TransitionDataset, offline: Path, tmp_path: Path) -> None:
        """Other data, with other statistics: the networks still see what they learned from."""
        other = replace(dataset, obs=dataset.obs * 2, next_obs=dataset.next_obs * 2, rewards=dataset.rewards * 3)
        old = RunDirectory.open(offline / "iql").load()
        result, look = finetuned(offline / "iql", tmp_path, dataset=other)
        assert look.transforms == result.checkpoint.transforms == old.transforms
        known = known_rows(other, old.transforms)
        assert sum(tuple(row) in known for row in look.batches[0][0].tolist()) == 4

    def test_arrays_from_memory_are_asked_for_again(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        config = small_config(None, tmp_path, "iql", env_id="Pendulum-v1", total_timesteps=STEPS)
        run = manager.start(config, dataset=dataset).run.path
        with pytest.raises(ConfigError) as refusal:
            manager.finetune(run, STEPS)
        message = f"{run}: was trained from arrays in memory; give the same arrays again as `dataset`"
        assert str(refusal.value) == message
        result, look = finetuned(run, tmp_path, dataset=dataset)
        assert result.progress.steps == STEPS
        old = known_rows(dataset, look.transforms)
        assert sum(tuple(row) in old for row in look.batches[0][0].tolist()) == 4


class TestChoices:
    def test_online_settings_and_other_changes(self, offline: Path, tmp_path: Path) -> None:
        online = {"learning_starts": 4, "train_frequency": 2, "gradient_updates_per_step": 3, "n_envs": 2}
        result, _ = finetuned(
            offline / "awac", tmp_path, online=online, changes={"algo_kwargs": {"beta": 0.7}, "log_interval": 4}
        )
        assert result.progress.updates == result.progress.total_updates == 3 * 5  # after steps 4, 6, 8, 10 and 12
        assert result.checkpoint.config.algo_kwargs["beta"] == 0.7
        assert [record["step"] for record in result.run.records("metrics")] == [4, 8, 12]

    def test_pretraining_on_the_data_first(self, offline: Path, tmp_path: Path) -> None:
        result, look = finetuned(offline / "iql", tmp_path, online={"offline_pretrain_updates": 5})
        assert result.progress.updates == result.progress.total_updates == 5 + STEPS
        assert len(look.batches) == 5 + STEPS

    def test_the_updates_announced_are_those_taken(self, offline: Path, tmp_path: Path) -> None:
        result, _ = finetuned(offline / "iql", tmp_path, online={"prior": "mixed", "offline_pretrain_updates": 5})
        assert result.progress.updates == result.progress.total_updates
        with pytest.raises(ConfigError, match=r"^online: offline_pretrain_updates needs prior: mixed"):
            finetuned(offline / "iql", tmp_path, online={"prior": "buffer", "offline_pretrain_updates": 5})

    def test_a_schedule_may_be_asked_for(self, offline: Path, tmp_path: Path) -> None:
        changes = {"algo_kwargs": {"lr_schedule": {"actor": {"kind": "linear"}}}}
        learner = finetuned(offline / "iql", tmp_path, changes=changes)[0].actor.learner
        assert learner.optimisers["actor"].schedule.kind == "linear"
        assert learner.optimisers["actor"].horizon == STEPS

    def test_from_one_checkpoint(self, offline: Path, tmp_path: Path) -> None:
        checkpoint = offline / "cql" / "checkpoints" / "step-20"
        result, look = finetuned(checkpoint, tmp_path)
        assert result.checkpoint.config.init_from == str(checkpoint)
        expected = RunDirectory.open(offline / "cql").load().tensors["model.actor.flat"]
        assert torch.equal(look.weights["model.actor.flat"], expected)

    def test_twice(self, offline: Path, tmp_path: Path) -> None:
        first, _ = finetuned(offline / "iql", tmp_path)
        second, look = finetuned(first.run.path, tmp_path, changes={"name": "newer"})
        expected = first.checkpoint.tensors["model.value.flat"]
        assert torch.equal(look.weights["model.value.flat"], expected)
        assert second.checkpoint.config.init_from == str(first.run.path)


class TestReBRAC:
    """Section 2.9 of ALGORITHMS.md: online β₂ is 0 and β₁ falls linearly to half."""

    @pytest.fixture
    def trained(self, data_file: Path, tmp_path: Path) -> Path:
        knobs = {"actor_bc_weight": 0.04, "critic_bc_weight": 0.5}
        values = {"env_id": "Pendulum-v1", "total_timesteps": STEPS, "algo_kwargs": knobs}
        return manager.start(small_config(data_file, tmp_path, "rebrac", **values)).run.path

    def test_the_weights_change_and_that_is_said(self, trained: Path, tmp_path: Path) -> None:
        result, look = finetuned(trained, tmp_path)
        kwargs = result.checkpoint.config.algo_kwargs
        assert [kwargs[name] for name in ("actor_bc_weight", "actor_bc_final", "critic_bc_weight")] == [
            0.04,
            0.5,
            0,
        ]
        assert look.source.prior_rows == 4  # of eight
        assert result.actor.learner.total_updates == STEPS  # what the fall spans
        assert result.run.describe()["notices"] == [
            "online no next actions are kept, so the critics go unpenalised; "
            "actor_bc_weight goes linearly from 0.04 to 0.02"
        ]

    def test_what_the_user_says_wins(self, trained: Path, tmp_path: Path) -> None:
        changes = {"algo_kwargs": {"critic_bc_weight": 0.1, "actor_bc_final": 1.0}}
        result, _ = finetuned(trained, tmp_path, changes=changes)
        assert result.run.describe()["notices"] == [
            "online no next actions are kept, so the critics go unpenalised (critic_bc_weight 0.1 has no effect); "
            "actor_bc_weight stays 0.04"
        ]

    @pytest.mark.parametrize("algo", TESTED)
    def test_no_other_algorithm_is_changed(self, algo: str, offline: Path, tmp_path: Path) -> None:
        old, new = (
            RunDirectory.open(offline / algo).load().config,
            finetuned(offline / algo, tmp_path)[0].checkpoint.config,
        )
        assert {**new.algo_kwargs, "lr_schedule": None} == {**old.algo_kwargs, "lr_schedule": None}


class TestNoSecondStart:
    """What comes before a policy has learned anything does not come again."""

    @staticmethod
    def trained(algo: str, data_file: Path, runs: Path, **knobs: Any) -> Path:
        values = {"env_id": "Pendulum-v1", "total_timesteps": STEPS, "algo_kwargs": knobs}
        return manager.start(small_config(data_file, runs, algo, name="first", **values)).run.path

    def test_cql_does_not_clone_again(self, data_file: Path, tmp_path: Path) -> None:
        run = self.trained("cql", data_file, tmp_path, bc_warmup_updates=1_000)
        weights = {}
        for warmup in (None, 0, 1_000):
            given = {} if warmup is None else {"algo_kwargs": {"bc_warmup_updates": warmup}}
            result, _ = finetuned(run, tmp_path, changes={"name": f"after-{warmup}", **given})
            assert result.checkpoint.config.algo_kwargs["bc_warmup_updates"] == (warmup or 0)
            weights[warmup] = digest(result.checkpoint.tensors)
        assert weights[None] == weights[0] != weights[1_000]

    def test_rlpd_neither_acts_at_random_nor_pretrains(self, data_file: Path, tmp_path: Path) -> None:
        knobs = {"learning_starts": 8, "offline_pretrain_updates": 3, "buffer_capacity": 40}
        run = self.trained("rlpd", data_file, tmp_path, **knobs)
        result, look = finetuned(run, tmp_path)
        assert (look.source.settings.learning_starts, look.source.pretraining) == (0, 0)
        assert result.progress.updates == STEPS  # one after every step
        assert result.checkpoint.config.algo_kwargs["buffer_capacity"] == 40

    def test_rlpd_does_as_the_user_says(self, data_file: Path, tmp_path: Path) -> None:
        run = self.trained("rlpd", data_file, tmp_path, learning_starts=8, buffer_capacity=40)
        online = {"learning_starts": 4, "offline_pretrain_updates": 2}
        result, _ = finetuned(run, tmp_path, online=online)
        assert result.progress.updates == 2 + STEPS - 3
        changes = {"algo_kwargs": {"learning_starts": 5}, "name": "newer"}
        assert finetuned(run, tmp_path, changes=changes)[0].progress.updates == STEPS - 4

    @pytest.mark.parametrize("algo", ["sac", "td3"])
    def test_the_online_algorithms_go_on_at_once(self, algo: str, data_file: Path, tmp_path: Path) -> None:
        """Their own `learning_starts` is for runs without data."""
        result, look = finetuned(self.trained(algo, data_file, tmp_path, learning_starts=8), tmp_path)
        assert look.source.settings.learning_starts == 0
        assert result.progress.updates == STEPS


class TestMistakes:
    @staticmethod
    def refused(run: Path, runs: Path, **options: Any) -> str:
        with pytest.raises(RLTrainingError) as caught:
            manager.finetune(run, STEPS, changes={"runs_dir": str(runs), **options.pop("changes", {})}, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_awr_has_no_online_part(self, offline: Path, tmp_path: Path) -> None:
        expected = "online: AWR regresses on the returns of a fixed dataset; it has no online part here"
        assert self.refused(offline / "awr", tmp_path) == expected

    def test_awr_is_refused_before_anything_is_written(self, offline: Path, tmp_path: Path) -> None:
        self.refused(offline / "awr", tmp_path)
        assert files_under(tmp_path) == {}

    def test_options(self, offline: Path, tmp_path: Path) -> None:
        run = offline / "iql"
        assert self.refused(run, tmp_path, online={"prior": "both"}) == (
            "online.prior: must be 'mixed' or 'buffer', got 'both'"
        )
        assert self.refused(run, tmp_path, online={"offline_batch_ratio": 2}) == (
            "online.offline_batch_ratio: must be at least 0 and at most 1, got 2"
        )
        assert self.refused(run, tmp_path, online={"learning_start": 2}) == (
            "online.learning_start: no such option; did you mean 'learning_starts'?"
        )
        assert self.refused(run, tmp_path, changes={"seed": 4}) == (
            f"init_from: the networks of {run} do not fit this run: they are of 2 seeds, and it has 1; give as many, as"
            " seed: [3, 1]"
        )
        assert self.refused(tmp_path / "nowhere", tmp_path).startswith(f"{tmp_path / 'nowhere'}: no such run")
        assert files_under(tmp_path) == {}

    def test_no_environment(self, data_file: Path, tmp_path: Path) -> None:
        run = manager.start(small_config(data_file, tmp_path, "iql", total_timesteps=STEPS)).run.path
        expected = "env_id: is required where iql collects its own experience; name it (finetune: --env-id ID)"
        assert self.refused(run, tmp_path / "new") == expected
        result, _ = finetuned(run, tmp_path, env_id="Pendulum-v1")
        assert result.checkpoint.config.env_id == "Pendulum-v1"

    def test_a_run_that_collected_its_own_experience(self, tmp_path: Path) -> None:
        knobs = {"learning_starts": 5, "buffer_capacity": 40}
        config = small_config(None, tmp_path, "sac", env_id="Pendulum-v1", total_timesteps=STEPS, algo_kwargs=knobs)
        run = manager.start(config).run.path
        assert "arrays in memory" not in self.refused(run, tmp_path / "new")

    def test_online_settings_are_not_ignored(self, data_file: Path, tmp_path: Path) -> None:
        knobs = {"learning_starts": 5, "buffer_capacity": 40}
        values = {"env_id": "Pendulum-v1", "total_timesteps": STEPS, "algo_kwargs": knobs}
        run = manager.start(small_config(data_file, tmp_path, "rlpd", **values)).run.path
        said = self.refused(run, tmp_path / "new", online={"prior": "buffer"})
        assert said.startswith("algo_kwargs.prior: no such option; choose from actor_hidden, ")
        result = manager.finetune(run, STEPS, online={"offline_batch_ratio": 0.25}, changes={"name": "other"})
        assert result.checkpoint.config.algo_kwargs["offline_batch_ratio"] == 0.25
