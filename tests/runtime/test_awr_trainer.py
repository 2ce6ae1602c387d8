"""AWR's returns: of the processed rewards for the narrow version; for TD(λ) computed anew where a phase begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from numpy_reference import Array, network
from rl_training import streams
from rl_training.algorithms.awr import AWR
from rl_training.data.batch import PackedTransitions
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError, DataError
from rl_training.experiment import manager
from rl_training.runtime.awr_trainer import AWRTrainer, LambdaReturnSource, train_awr
from rl_training.runtime.engine import Engine
from rl_training.runtime.sources import Turn
from rl_training.runtime.trainer import trainer_for
from small_runs import StopAt, digest, files_under, small_config

SEEDS = (0, 1)
ROUNDS = {"td_lambda": 0.8, "critic_updates": 3, "actor_updates": 2, "gamma": 0.9}
TRANSFORMS = Transforms((0.1, -0.2), (2.0, 0.5), 0.1, -0.3, (-2.0,), (2.0,))


def data() -> TransitionDataset:
    """Forty rows: an episode that terminates, two that are truncated, one that is cut off."""
    rng = np.random.default_rng(0)
    terminated, truncated = np.zeros(40, dtype=bool), np.zeros(40, dtype=bool)
    terminated[11], truncated[[19, 30]] = True, True
    obs, after = rng.normal(size=(2, 40, 2))
    return TransitionDataset(
        obs, rng.uniform(-2, 2, (40, 1)), rng.normal(scale=4.0, size=40), after, terminated, truncated
    )


def learner(**knobs: Any) -> AWR:
    sizes = {"actor_hidden": (8,), "value_hidden": (8,), "batch_size": 16, "value_lr": 1e-2, "actor_lr": 1e-2}
    return AWR(2, 1, seeds=SEEDS, **sizes, **{**ROUNDS, **knobs})


def source_of(awr: AWR) -> LambdaReturnSource:
    dataset = data()
    return LambdaReturnSource(PackedTransitions.from_dataset(dataset, TRANSFORMS), dataset, awr)


def expected_targets(awr: AWR) -> tuple[Array, Array]:
    """R and A of every member for the networks as they are now, `[M, N]`, row by row from the end."""
    dataset, p = data(), awr.params
    value, returns, advantages = network(awr.model.value), [], []
    rewards = 0.1 * dataset.rewards.astype(np.float64) - 0.3
    seen, after = ((x - np.array([0.1, -0.2])) / np.array([2.0, 0.5]) for x in (dataset.obs, dataset.next_obs))
    for m in range(len(SEEDS)):
        v, following = (p.value_scale * value(m, x)[:, 0] for x in (seen, after))
        r = np.empty(40)
        for t in reversed(range(40)):
            bootstrap = following[t]
            if dataset.terminations[t]:
                bootstrap = 0.0
            elif not (dataset.truncations[t] or t == 39):
                bootstrap = (1 - p.td_lambda) * following[t] + p.td_lambda * r[t + 1]
            r[t] = rewards[t] + p.gamma * bootstrap
        a = r - v
        if p.normalise_advantages:
            a = (a - a.mean()) / (a.std() + 1e-5)
        returns.append(r)
        advantages.append(a)
    return np.stack(returns), np.stack(advantages)


def assert_targets(source: LambdaReturnSource, expected: tuple[Array, Array]) -> None:
    for ours, theirs in zip((source.returns, source.advantages), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-5, atol=2e-5)


class TestNarrow:
    @pytest.mark.parametrize("gamma", [0.5, 0.99])
    def test_returns_are_of_the_processed_rewards(
        self, gamma: float, dataset: TransitionDataset, data_file: Path, tmp_path: Path
    ) -> None:
        config = small_config(
            data_file,
            tmp_path,
            "awr",
            algo_kwargs={"gamma": gamma},
            transforms={"reward_scale": 0.1, "reward_shift": 0.7, "normalise_observations": True},
        )
        source = trainer_for("awr")(config).prepare().engine.source
        batch = source.transitions.gather(torch.arange(len(dataset))[None])
        expected, ahead = np.empty(len(dataset)), 0.0
        for row in reversed(range(len(dataset))):
            if dataset.truncations[row] or dataset.terminations[row]:
                ahead = 0.0  # the narrow version takes a time limit for the end
            ahead = 0.1 * float(dataset.rewards[row]) + 0.7 + gamma * ahead
            expected[row] = ahead
        np.testing.assert_allclose(batch.returns_to_go[0].numpy(), expected, rtol=1e-5, atol=1e-5)
        assert batch.advantages is None
        assert dataset.truncations.any()  # or the above says nothing about them

    def test_the_values_learn_these_returns(self, data_file: Path, tmp_path: Path) -> None:
        """`value/return` in the metrics is the mean of what was drawn."""
        config = small_config(data_file, tmp_path, "awr", algo_kwargs={"gamma": 0.0}, transforms={"reward_shift": 5.0})
        record = train_awr(config).run.records("metrics")[-1]
        rewards = TransitionDataset.load(data_file).rewards + 5.0
        keys, stream = streams.member_keys((0,)), streams.stream_id("batch")
        drawn = [rewards[streams.integers(keys, stream, update, 8, 2_000)[0]].mean() for update in range(10, 20)]
        assert record["value/return"][0] == pytest.approx(np.mean(drawn), rel=1e-5)

    def test_sampled_rows_are_refused(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        sampled = dataset.sample(200, np.random.default_rng(0))
        with pytest.raises(
            DataError, match=r"^dataset: AWR needs whole episodes in order; these rows were sampled or reordered$"
        ):
            manager.start(small_config(None, tmp_path, "awr"), dataset=sampled)


class TestTargets:
    @pytest.mark.parametrize(
        "knobs",
        [{}, {"normalise_advantages": False}, {"value_scale": 10.0}, {"td_lambda": 0.0}, {"td_lambda": 1.0}],
        ids=str,
    )
    def test_are_computed_with_the_networks_of_each_phase_s_beginning(self, knobs: dict[str, Any]) -> None:
        awr = learner(**knobs)
        source = source_of(awr)
        engine, expected = Engine(awr, source), (np.zeros(0), np.zeros(0))
        for update in range(12):
            if update % 5 in (0, 3):
                before, expected = expected, expected_targets(awr)
                if update:  # V has moved since the round began, but not since the actor's phase did
                    assert np.allclose(before[0], expected[0], rtol=0, atol=1e-7) is (update % 5 == 0)
            assert source.advance(1) == Turn(1, 1)
            assert_targets(source, expected)
            engine.run(update, 1)
        assert not np.allclose(expected[0][0], expected[0][1], atol=1e-2)  # each member has its own V

    def test_advantages_are_standardised_over_the_whole_dataset(self) -> None:
        source = source_of(learner())
        source.advance(1)
        np.testing.assert_allclose(source.advantages.mean(-1).numpy(), 0.0, atol=1e-6)
        np.testing.assert_allclose(source.advantages.std(-1, correction=0).numpy(), 1.0, rtol=1e-4)

    def test_a_turn_ends_with_its_phase(self) -> None:
        awr = learner()
        source = source_of(awr)
        assert [source.advance(limit) for limit in (100, 100, 2, 100, 1, 100, 7)] == [
            *(Turn(3, 3), Turn(2, 2), Turn(2, 2), Turn(1, 1), Turn(1, 1), Turn(1, 1), Turn(3, 3)),
        ]

    def test_a_batch_carries_the_targets_of_its_rows(self) -> None:
        awr = learner()
        source = source_of(awr)
        source.advance(1)
        batch = source.batch(awr.keys, torch.tensor(4), 16)
        rows = [int(np.flatnonzero(np.isclose(row, source.transitions.rows[:, :2]).all(1))[0]) for row in batch.obs[1]]
        assert len(set(rows)) > 5
        assert batch.returns_to_go[1].tolist() == source.returns[1, rows].tolist()
        assert batch.advantages[1].tolist() == source.advantages[1, rows].tolist()
        indices = streams.integers(awr.keys, streams.stream_id("batch"), 4, 16, 40)
        assert rows == indices[1].tolist()
        assert rows != indices[0].tolist()

    def test_values_are_computed_in_blocks_of_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        awr = learner()
        whole, blocks = source_of(awr), source_of(awr)
        whole.advance(1)
        monkeypatch.setattr("rl_training.runtime.awr_trainer._ROWS_AT_ONCE", 7)
        blocks.advance(1)
        np.testing.assert_allclose(blocks.returns.numpy(), whole.returns.numpy(), rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("limits", [(1,), (2,), (1, 4, 2), (100,)])
    def test_what_happens_does_not_depend_on_how_it_is_cut(self, limits: tuple[int, ...]) -> None:
        def run(cuts: tuple[int, ...]) -> tuple[str, str]:
            awr = learner()
            source = source_of(awr)
            engine, done, turn = Engine(awr, source), 0, 0
            while done < 17:
                count = source.advance(min(cuts[turn % len(cuts)], 17 - done)).updates
                engine.run(done, count)
                done, turn = done + count, turn + 1
            return digest(awr.state()), digest(source.state())

        assert run(limits) == run((3, 2))


class TestRuns:
    @pytest.fixture
    def values(self) -> dict[str, Any]:
        return {"seed": SEEDS, "total_timesteps": 23, "algo_kwargs": ROUNDS, "transforms": {"reward_scale": 0.1}}

    @pytest.mark.parametrize("optimiser", ["adam", "momentum"])
    @pytest.mark.parametrize("stop", [1, 3, 4, 5, 12, 14])
    def test_resume_is_exact_in_the_middle_of_either_phase(
        self, stop: int, optimiser: str, data_file: Path, tmp_path: Path, values: dict[str, Any]
    ) -> None:
        """Of the rounds 0-2 | 3-4: inside the value's updates, between the two, inside the actor's, between rounds."""
        values["algo_kwargs"] = {**ROUNDS, "optimiser": optimiser}
        whole = manager.start(small_config(data_file, tmp_path, "awr", **values, name="whole"))
        cut = manager.start(small_config(data_file, tmp_path, "awr", **values, name="cut"), callbacks=[StopAt(stop)])
        assert (cut.status, cut.progress.updates) == ("interrupted", stop)
        assert int(cut.checkpoint.source["updates"]) == stop
        resumed = manager.resume(cut.run.path)
        assert digest(resumed.actor.learner.state()) == digest(whole.actor.learner.state())
        assert digest(resumed.checkpoint.source) == digest(whole.checkpoint.source)
        assert (resumed.run.path / "metrics.jsonl").read_bytes() == (whole.run.path / "metrics.jsonl").read_bytes()
        last = "checkpoints/step-23/"
        ours, theirs = files_under(resumed.run.path), files_under(whole.run.path)
        for name in ("weights.safetensors", "training.safetensors", "source.safetensors"):
            assert ours[last + name] == theirs[last + name]

    def test_the_whole_dataset_s_targets_are_in_the_checkpoint(
        self, data_file: Path, tmp_path: Path, values: dict[str, Any]
    ) -> None:
        source = manager.start(small_config(data_file, tmp_path, "awr", **values)).checkpoint.source
        assert {name: tuple(value.shape) for name, value in source.items()} == {
            "updates": (),
            "returns": (2, 2_000),
            "advantages": (2, 2_000),
        }

    def test_awr_has_its_own_trainer(self) -> None:
        assert trainer_for("awr") is AWRTrainer

    def test_online_is_refused(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, "awr", env_id="Pendulum-v1", online={})
        with pytest.raises(ConfigError) as refusal:
            manager.start(config)
        assert str(refusal.value) == (
            "online: AWR regresses on the returns of a fixed dataset; it has no online part here"
        )

    @pytest.mark.parametrize("case", ["online", "sampled rows"])
    def test_nothing_is_written_for_what_is_refused(
        self, case: str, dataset: TransitionDataset, tmp_path: Path
    ) -> None:
        online = {"env_id": "Pendulum-v1", "online": {}} if case == "online" else {}
        data = dataset if case == "online" else dataset.sample(200, np.random.default_rng(0))
        with pytest.raises((ConfigError, DataError)):
            manager.start(small_config(None, tmp_path, "awr", **online), dataset=data)
        assert files_under(tmp_path) == {}

    def test_sampled_rows_have_no_lambda_returns(self, tmp_path: Path, dataset: TransitionDataset) -> None:
        sampled = dataset.sample(200, np.random.default_rng(0))
        with pytest.raises(DataError, match="these rows were sampled or reordered"):
            manager.start(small_config(None, tmp_path, "awr", algo_kwargs=ROUNDS), dataset=sampled)
