"""Members that diverge: found, stopped alone, set back, reported; the others never notice."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training import algorithms
from rl_training.data.batch import Batch
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError, ConfigError, DivergenceError
from rl_training.experiment import manager
from rl_training.experiment.config import read_config
from rl_training.experiment.curves import draw_learning_curve
from rl_training.experiment.registry import entries
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.divergence import largest_reward
from rl_training.runtime.engine import Engine, compiler_available
from rl_training.runtime.loop import Loop
from rl_training.runtime.progress import Progress
from rl_training.runtime.sources import OfflineSource
from rl_training.runtime.trainer import Trainer, TrainResult, train
from small_runs import Poison, StopAt, digest, script_scores, small_config

ALGOS = [e.name for e in entries() if e.name != "rlpd"]  # which needs an environment; it is SAC in every update


def rows(result: TrainResult, seed: int) -> dict[str, torch.Tensor]:
    """Everything that belongs to one seed."""
    member = result.actor.learner.seeds.index(seed)
    return {name: values[member] for name, values in result.actor.learner.rows().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class TestAmongOthers:
    @pytest.mark.parametrize("algo", ALGOS)
    def test_the_others_are_bit_for_bit_as_without_it(self, algo: str, data_file: Path, tmp_path: Path) -> None:
        """Exactly as where nobody diverged, and to rounding (as ever) as where the member never was one."""
        settings = {"log_interval": 5, "total_timesteps": 20, "engine": "eager"}
        poison = Poison(1, 7)
        hurt = train(
            small_config(data_file, tmp_path, algo, seed=[7, 8, 9], name="hurt", **settings), callbacks=[poison]
        )
        well = train(small_config(data_file, tmp_path, algo, seed=[7, 8, 9], name="well", **settings))
        apart = train(small_config(data_file, tmp_path, algo, seed=[7, 9], name="apart", **settings))
        assert [finding.seed for finding in poison.findings] == [8]
        for seed in (7, 9):
            assert same(rows(hurt, seed), rows(well, seed))
            torch.testing.assert_close(rows(hurt, seed), rows(apart, seed), rtol=1e-5, atol=1e-6)
        assert hurt.status == "finished"
        records, theirs = hurt.run.records("metrics"), apart.run.records("metrics")
        for record, other in zip(records[1:], theirs[1:], strict=True):
            assert record.pop("seeds") == [7, 9]
            assert record.keys() == other.keys()
            assert record["actor/loss"] == pytest.approx(other["actor/loss"], rel=1e-4)
        assert [len(record["actor/loss"]) for record in records] == [3, 2, 2, 2]

    def test_it_is_set_back_to_the_last_checkpoint_and_stays_there(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(
            data_file, tmp_path, "td3_bc", seed=[7, 8], checkpoint_interval=5, log_interval=5, keep_checkpoints=9
        )
        poison = Poison(1, 12)
        result = train(config, callbacks=[poison])
        sound = result.run.load(10).build_learner()
        for step in (15, 20):
            learner = result.run.load(step).build_learner()
            assert learner.active.tolist() == [True, False]
            assert torch.equal(learner.rows()["model.actor.flat"][1], sound.rows()["model.actor.flat"][1])
            assert torch.equal(learner.rows()["model.critics.flat"][1], sound.rows()["model.critics.flat"][1])
            assert not torch.equal(learner.rows()["model.actor.flat"][0], sound.rows()["model.actor.flat"][0])
            assert all(value.isfinite().all() for value in learner.state().values())
        (finding,) = poison.findings
        assert (finding.seed, finding.since, finding.step, finding.now_at) == (8, 10, 15, "step 10")
        assert finding.what.startswith(("actor/", "critic/"))
        assert result.run.describe()["divergences"] == result.checkpoint.progress["divergences"]
        assert "\n" not in str(finding)
        assert str(finding).startswith("seed 8 diverged and is stopped, set back to step 10: ")
        assert "between step 10 and 15; likely causes: learning rates (actor_lr 0.0003" in str(finding)

    def test_before_any_checkpoint_it_is_set_back_to_the_start(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=5)
        result = train(config, callbacks=[Poison(0, 2)])
        fresh = algorithms.load("bc")(3, 1, algorithms.load("bc").parse(config.algo_kwargs), seeds=[7, 8])
        assert torch.equal(result.actor.learner.rows()["model.actor.flat"][0], fresh.rows()["model.actor.flat"][0])
        assert result.progress.stopped_seeds[7].now_at == "the start"

    def test_weights_alone_are_found_before_a_checkpoint(self, data_file: Path, tmp_path: Path) -> None:
        """No update came after the poison that a metric could show it in."""

        class PoisonAtTheEnd(Callback):
            def on_progress(self, loop: Loop) -> None:
                if loop.progress.is_complete:
                    loop.actor.learner.optimisers["actor"].state["second_moment"][1, 0] = math.inf

        result = train(small_config(data_file, tmp_path, seed=[7, 8]), callbacks=[PoisonAtTheEnd()])
        assert result.progress.stopped_seeds[8].what == "optimiser.actor.second_moment is not finite"
        assert all(value.isfinite().all() for value in result.run.load().tensors.values())

    def test_a_moment_that_overflows_is_found_with_the_next_record(self, data_file: Path, tmp_path: Path) -> None:
        """It leaves the losses finite: Adam's step is zero from then on."""

        class Overflow(Callback):
            def on_progress(self, loop: Loop) -> None:
                if loop.progress.steps == 7:
                    loop.actor.learner.optimisers["actor"].state["second_moment"][1, 0] = math.inf

        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=5, total_timesteps=30)
        result = train(config, callbacks=[StopAt(99), Overflow()])
        finding = result.progress.stopped_seeds[8]
        assert (finding.since, finding.step) == (5, 10)
        assert finding.what == "optimiser.actor.second_moment is not finite"
        assert [record.get("seeds") for record in result.run.records("metrics")] == [None, *[[7]] * 5]

    def test_data_of_one_seed_that_stay_broken_never_reach_the_others(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = OfflineSource.batch

        def broken(self: OfflineSource, keys: torch.Tensor, clock: torch.Tensor, size: int) -> Batch:
            batch = plain(self, keys, clock, size)
            hit = torch.zeros_like(batch.rewards)
            hit[1] = torch.where(clock >= 6, math.nan, 0.0)
            return batch._replace(rewards=batch.rewards + hit)

        settings = {"seed": [7, 8, 9], "log_interval": 5, "checkpoint_interval": 5}
        well = train(small_config(data_file, tmp_path, "iql", name="well", **settings))
        monkeypatch.setattr(OfflineSource, "batch", broken)
        hurt = train(small_config(data_file, tmp_path, "iql", name="hurt", **settings))
        assert list(hurt.progress.stopped_seeds) == [8]
        assert same(rows(hurt, 7), rows(well, 7))
        assert same(rows(hurt, 9), rows(well, 9))
        assert all(value.isfinite().all() for value in hurt.run.load().tensors.values())

    @pytest.mark.slow
    @pytest.mark.skipif(not compiler_available(), reason="no C++ compiler")
    @pytest.mark.parametrize("algo", ["td3_bc", "cql"])
    def test_compiled(self, algo: str, data_file: Path, tmp_path: Path) -> None:
        """The mask is a tensor: the compiled update sees it change."""
        settings = {"log_interval": 5, "seed": [7, 8, 9], "engine": "compiled"}
        hurt = train(small_config(data_file, tmp_path, algo, name="hurt", **settings), callbacks=[Poison(1, 7)])
        well = train(small_config(data_file, tmp_path, algo, name="well", **settings))
        assert list(hurt.progress.stopped_seeds) == [8]
        for seed in (7, 9):
            assert same(rows(hurt, seed), rows(well, seed))
        learner = algorithms.load(algo)
        start = learner(3, 1, learner.parse(hurt.checkpoint.config.algo_kwargs), seeds=[7, 8, 9]).rows()
        assert torch.equal(rows(hurt, 8)["model.actor.flat"], start["model.actor.flat"][1])
        assert torch.equal(rows(hurt, 8)["model.critics.flat"], start["model.critics.flat"][1])

    def test_every_seed_in_turn_ends_the_run(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=5, checkpoint_interval=5)
        with pytest.raises(DivergenceError, match=r"^all 2 seeds have diverged; the last: seed 7 .*step-10$") as caught:
            train(config, callbacks=[Poison(1, 6), Poison(0, 12)])
        facts = manager.describe(tmp_path / "run")
        assert (facts["status"], facts["reason"]) == ("diverged", str(caught.value))
        assert [finding["seed"] for finding in facts["divergences"]] == [8, 7]
        assert manager.load_policy(tmp_path / "run").stopped_seeds.keys() == {8}


class TestAlone:
    def test_ends_the_run_and_keeps_the_last_good_checkpoint(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, "td3_bc", checkpoint_interval=5, log_interval=5)
        with pytest.raises(DivergenceError) as caught:
            train(config, callbacks=[Poison(0, 12)])
        message = str(caught.value)
        assert message.startswith("seed 0 diverged and is stopped, set back to step 10: ")
        assert message.endswith(f"the last good checkpoint is {tmp_path}/run/checkpoints/step-10")
        assert "\n" not in message
        policy = manager.load_policy(tmp_path / "run")
        assert policy.checkpoint.progress["updates"] == 10
        assert np.isfinite(policy.predict(np.zeros(3))).all()
        assert manager.describe(tmp_path / "run")["status"] == "diverged"
        with pytest.raises(ConfigError, match="diverged, and would again"):
            manager.resume(tmp_path / "run", total_timesteps=40)

    def test_a_new_run_can_begin_at_its_last_good_checkpoint(self, data_file: Path, tmp_path: Path) -> None:
        settings = {"checkpoint_interval": 5, "log_interval": 5}
        with pytest.raises(DivergenceError):
            train(small_config(data_file, tmp_path, **settings), callbacks=[Poison(0, 12)])
        config = small_config(data_file, tmp_path, name="again", init_from=str(tmp_path / "run"), **settings)
        assert train(config).status == "finished"

    def test_before_any_checkpoint(self, data_file: Path, tmp_path: Path) -> None:
        with pytest.raises(DivergenceError, match=r"set back to the start.*none was saved"):
            train(small_config(data_file, tmp_path, log_interval=5), callbacks=[Poison(0, 2)])

    def test_a_return_that_is_not_finite(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script_scores(monkeypatch, {20: math.nan})
        with pytest.raises(DivergenceError, match="the evaluated return is not finite"):
            train(small_config(data_file, tmp_path))


class TestEvaluations:
    def test_leave_it_out_and_say_so(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script_scores(monkeypatch, {5: [1.0, 9.0], 10: [2.0, 99.0], 15: [3.0, 99.0], 20: [4.0, 99.0]})
        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=5, eval_interval=5)
        result = train(config, callbacks=[Poison(1, 6)])
        evaluations = result.run.records("evaluations")
        assert [record["seeds"] for record in evaluations] == [[7, 8], [7], [7], [7]]
        assert evaluations[-1]["return_mean"] == [4.0]
        assert result.progress.best == {"step": 5, "return_mean": 5.0}
        assert result.progress.last == {"step": 20, "return_mean": 4.0}
        assert draw_learning_curve(result.run) is not None

    def test_its_environments_are_not_even_stepped(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=5, env_id="Pendulum-v1")
        config = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"episodes": 2})})
        result = train(config, callbacks=[Poison(0, 6)])
        assert [record["seeds"] for record in result.run.records("evaluations")] == [[8]]
        policy = manager.load_policy(result.run.path)
        evaluation = policy.evaluate(1)
        assert evaluation.seeds == (8,)
        assert evaluation.returns.shape == (1, 1)
        obs = np.zeros(3)
        np.testing.assert_array_equal(policy.predict(obs), policy.predict(obs, seed=8))
        with pytest.warns(UserWarning, match="seed 7 diverged and is stopped, set back to the start"):
            policy.predict(obs, seed=7)


class TestResume:
    @pytest.mark.parametrize("stop", [7, 12, 17])
    def test_is_exact_before_and_after_the_freeze(self, stop: int, data_file: Path, tmp_path: Path) -> None:
        settings: dict[str, Any] = {"seed": [7, 8], "log_interval": 5, "algo": "td3_bc", "checkpoint_interval": 5}
        whole = train(small_config(data_file, tmp_path, name="whole", **settings), callbacks=[Poison(1, 6, 11)])
        cut = small_config(data_file, tmp_path, name="cut", **settings)
        if stop == 7:  # with the poison in it: stopping finds it, so the whole run is cut in a different place
            cut_result = train(cut, callbacks=[Poison(1, 6, 11), StopAt(stop)])
            assert cut_result.progress.stopped_seeds[8].step == 7
        else:
            train(cut, callbacks=[Poison(1, 6, 11), StopAt(stop)])
        end = manager.resume(tmp_path / "cut")
        assert same(rows(end, 7), rows(whole, 7))
        if stop > 7:
            assert digest(end.actor.learner.state()) == digest(whole.actor.learner.state())
            assert (end.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()
            assert end.progress.divergences == whole.progress.divergences

    def test_a_finding_after_the_last_checkpoint_is_forgotten_until_it_is_made_again(
        self, data_file: Path, tmp_path: Path
    ) -> None:
        class Killed(Callback):
            def on_progress(self, loop: Loop) -> None:
                if loop.progress.updates == 11:
                    raise KeyboardInterrupt

        config = small_config(data_file, tmp_path, seed=[7, 8], log_interval=2, checkpoint_interval=5)
        with pytest.raises(KeyboardInterrupt):
            train(config, callbacks=[Poison(1, 6), Killed()])
        assert [one["seed"] for one in manager.describe(tmp_path / "run")["divergences"]] == [8]
        (tmp_path / "run" / "checkpoints" / "step-10").rename(tmp_path / "gone")
        assert manager.resume(tmp_path / "run").progress.divergences == []
        assert manager.describe(tmp_path / "run")["divergences"] == []

    @pytest.mark.parametrize("stored", [{}, {"divergences": []}])
    def test_progress_of_an_earlier_version(self, stored: dict[str, Any]) -> None:
        known = {name: value for name, value in asdict(Progress(3, 3, 1)).items() if name != "divergences"}
        assert Progress.from_json({**known, **stored}).divergences == []

    @pytest.mark.parametrize("stored", [3, [3], [{"seed": 3}], [{**dict.fromkeys(("seed", "since", "step"), "a")}]])
    def test_what_no_run_has_written_is_refused(self, stored: Any) -> None:
        with pytest.raises(CheckpointError, match="divergences"):
            Progress.from_json({**asdict(Progress(3, 3, 1)), "divergences": stored})


class TestAbsurdValues:
    """Rewards of the scripted Pendulum data reach 16, so with γ = 0.9 no return is beyond 163."""

    def values(self, monkeypatch: pytest.MonkeyPatch, member: int, value: float) -> None:
        plain = Engine.take_record

        def taken(self: Engine) -> tuple[dict[str, list[float]], Tensor]:
            metrics, finite = plain(self)
            metrics["critic/q_data"][member] = value
            return metrics, finite

        monkeypatch.setattr(Engine, "take_record", taken)

    def config(self, data_file: Path, tmp_path: Path, **divergence: Any) -> Any:
        return small_config(
            data_file,
            tmp_path,
            "td3_bc",
            seed=[7, 8],
            divergence=divergence,
            algo_kwargs={"gamma": 0.9},
            log_interval=5,
        )

    def test_are_warned_of_once(self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values(monkeypatch, 1, -1e5)
        watch = Poison(0)
        result = train(self.config(data_file, tmp_path), callbacks=[watch])
        (finding,) = watch.findings
        assert str(finding).startswith("warning: critic/q_data is -1e+05, beyond 10 times the 16")
        assert "of seed 8 between step 0 and 5" in str(finding)
        assert not result.progress.stopped_seeds
        assert result.actor.learner.active.all()

    def test_are_not_judged_by_part_of_an_interval(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where a run is interrupted must not decide who is stopped."""
        plain = Engine.peek_metrics
        monkeypatch.setattr(
            Engine, "peek_metrics", lambda engine: {name: [1e6, *v[1:]] for name, v in plain(engine).items()}
        )
        result = train(self.config(data_file, tmp_path, absurd_q="stop"), callbacks=[StopAt(7)])
        assert (result.status, result.progress.divergences) == ("interrupted", [])

    def test_stop_the_member_where_that_is_asked_for(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.values(monkeypatch, 1, 1e5)
        result = train(self.config(data_file, tmp_path, absurd_q="stop"))
        assert list(result.progress.stopped_seeds) == [8]

    @pytest.mark.parametrize("divergence", [{"absurd_q": "off"}, {"q_factor": 1e6}])
    def test_or_nothing(
        self, divergence: Any, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.values(monkeypatch, 1, 1e5)
        assert train(self.config(data_file, tmp_path, **divergence)).progress.divergences == []

    def test_of_entropy_bonuses_are_none(self, data_file: Path, tmp_path: Path) -> None:
        """SAC's α·H counts as a reward: 50 nats at α = 100 explain a Q of 50,000, at γ = 0.9 and factor 1."""
        config = small_config(
            data_file, tmp_path, "sac", divergence={"q_factor": 1}, algo_kwargs={"gamma": 0.9}, total_timesteps=5
        )

        class Asks(Callback):
            def on_end(self, loop: Loop) -> None:
                metrics = {"critic/q_data": [5e4], "actor/entropy": [-50.0], "alpha/value": [100.0]}
                assert loop.guard.look_at_metrics(metrics, 0) == []
                assert loop.guard.look_at_metrics({**metrics, "alpha/value": [10.0]}, 0)

        train(config, callbacks=[Asks()])

    def test_an_absurd_reward_in_the_data_raises_the_bound_and_is_named(
        self, dataset: TransitionDataset, tmp_path: Path
    ) -> None:
        arrays = {
            name: getattr(dataset, name) for name in ("obs", "actions", "next_obs", "terminations", "truncations")
        }
        rewards = dataset.rewards.copy()
        rewards[3] = 1e9
        broken = TransitionDataset.from_dict({**arrays, "rewards": rewards})
        config = small_config(None, tmp_path, "td3_bc", log_interval=5, divergence={"absurd_q": "stop"})
        watch = Poison(0, 7)
        with pytest.raises(DivergenceError, match=r"rewards up to 1e\+09 \(transforms.reward_scale\)"):
            train(config, dataset=broken, callbacks=[watch])

    def test_bounds_come_from_rewards_after_transforms(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, transforms={"reward_scale": 0.5, "reward_shift": 1.0})
        parts = Trainer(config).assemble()
        assert parts.dataset is not None
        by_hand = np.abs(parts.transforms.rewards(parts.dataset.rewards)).max()
        assert largest_reward(parts.dataset, parts.transforms) == pytest.approx(float(by_hand))
        assert largest_reward(None, parts.transforms) == 0.0


def test_online_a_member_that_diverges_stops_alone(tmp_path: Path) -> None:
    """NaN actions never reach an environment; rewards seen so far bound Q; the run can be resumed."""
    settings: dict[str, Any] = {
        "env_id": "Pendulum-v1",
        "total_timesteps": 60,
        "log_interval": 10,
        "checkpoint_interval": 20,
        "algo_kwargs": {"learning_starts": 10, "buffer_capacity": 100},
        "evaluation": {"episodes": 1, "max_steps": 5},
    }
    hurt = train(
        small_config(None, tmp_path, "sac", name="hurt", seed=[7, 8], **settings), callbacks=[Poison(1, 25), StopAt(45)]
    )
    well = train(small_config(None, tmp_path, "sac", name="well", seed=[7, 8], **settings))
    assert hurt.progress.stopped_seeds[8].step == 30
    end = manager.resume(tmp_path / "hurt")
    assert same(rows(end, 7), rows(well, 7))
    assert end.progress.stopped_seeds.keys() == {8}


@pytest.mark.parametrize("algo", [e.name for e in entries()])
def test_packaged_configurations_raise_no_alarm(algo: str, tmp_path: Path) -> None:
    overrides = ["total_timesteps=300", "evaluation.episodes=1", f"runs_dir={tmp_path}", "log_interval=50"]
    config = read_config(f"{algo}/pendulum", [*overrides, "evaluation.max_steps=10", "divergence.q_factor=2"])
    if "learning_starts" in config.algo_kwargs:
        config = read_config(f"{algo}/pendulum", [*overrides, "algo_kwargs.learning_starts=100"])
    assert train(config).progress.divergences == []
