"""What a checkpoint says about the source of batches and about pending metrics, if it cannot be so: one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rl_training.algorithms.rlpd import RLPD
from rl_training.data.transforms import Transforms
from rl_training.errors import CheckpointError
from rl_training.experiment import manager
from rl_training.runtime.checkpoint import save_checkpoint
from rl_training.runtime.online import OnlineSource
from rl_training.runtime.progress import Progress
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.stored_experience import Experience
from small_runs import StopAt, small_config
from tiny_environments import CLIFF

Change = Callable[[dict[str, Tensor]], object]


def online_source(transforms: Transforms | None = None) -> OnlineSource:
    learner = RLPD(2, 1, seeds=(5, 2), actor_hidden=(4,), critic_hidden=(4,), batch_size=4, n_envs=2, buffer_capacity=9)
    transforms = transforms or Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))
    return OnlineSource(learner, transforms, CLIFF, learner.params)


@pytest.fixture
def state() -> dict[str, Tensor]:
    source = online_source()
    for _ in range(7):
        source.advance(1)
    return {name: value.clone() for name, value in source.state().items()}


def refusal(state: dict[str, Tensor]) -> str:
    with pytest.raises(CheckpointError) as caught:
        online_source().restore(state)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestOnline:
    def test_a_sound_one_is_taken(self, state: dict[str, Tensor]) -> None:
        source = online_source()
        source.restore(state)
        assert (source.steps, len(source.buffer)) == (7, 7)

    def test_every_entry_is_needed(self, state: dict[str, Tensor]) -> None:
        assert "drawn" in state  # which the first versions did not write
        for name in state.keys() - {"suspect"}:
            missing = {other: value for other, value in state.items() if other != name}
            assert refusal(missing) == f"{name}: in the algorithm only"

    def test_what_was_odd_is_remembered(self) -> None:
        """A run that goes on from it names the same cause as one that was never broken off."""
        source = online_source()
        source.advance(1)
        step = source.collector.step
        source.collector.step = lambda slot, action: (step(slot, action)[0], math.inf, False)  # type: ignore[method-assign]
        source.advance(1)
        source.collector.step = step  # type: ignore[method-assign]
        for _ in range(20):  # the buffer has forgotten it
            source.advance(1)
        cause = f"environment '{CLIFF}', which gave a reward that is not finite at step 1"
        assert (source.suspicion, source.largest_reward) == (cause, math.inf)
        again = online_source()
        again.restore(source.state())
        assert (again.suspicion, again.largest_reward) == (cause, math.inf)

    def test_whose_experience_is_spoilt(self) -> None:
        source = online_source()
        source.advance(1)
        assert source.spoilt_members == []
        source.collector.obs[2] *= math.nan  # of the second seed: each has two environments
        for _ in range(2):
            source.advance(1)
        assert source.spoilt_members == [1]

    def test_what_earlier_versions_did_not_write(self, state: dict[str, Tensor]) -> None:
        largest = float(state["largest_reward"])
        old = {name: value for name, value in state.items() if name not in ("suspect", "largest_reward")}
        source = online_source()
        source.restore(old)
        assert source.steps == 7
        assert (source.suspicion, source.largest_reward) == ("", pytest.approx(largest))
        for odd in (torch.zeros(2, 4, 1), torch.zeros(7), torch.tensor(0.0)):
            expected = f"buffer.rows: has shape {tuple(odd.shape)}, expected (2, any, 7)"
            assert refusal({**old, "buffer.rows": odd}) == expected
        odd = state["buffer.rows"].bool()
        assert refusal({**old, "buffer.rows": odd}) == "buffer.rows: has type torch.bool, expected torch.float32"

    @pytest.mark.parametrize("step", [-2, 7])
    def test_a_step_that_was_never_taken(self, state: dict[str, Tensor], step: int) -> None:
        said = "suspect: holds what no run of this configuration can have written"
        assert refusal({**state, "suspect": torch.tensor([step, 1])}) == said

    def test_every_entry_is_known(self, state: dict[str, Tensor]) -> None:
        assert refusal({**state, "envs.moods": torch.zeros(2)}) == "envs.moods: in the checkpoint only"

    def test_every_entry_has_its_shape_and_its_type(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            assert refusal({**state, name: torch.zeros(3, 1, 2)}).startswith(f"{name}: has shape (3, 1, 2), expected (")
            assert refusal({**state, name: value.half()}).startswith(f"{name}: has type torch.float16, expected torch.")

    def test_lengths_that_may_differ(self, state: dict[str, Tensor]) -> None:
        assert refusal({**state, "buffer.rows": torch.zeros(2, 4, 8)}) == (
            "buffer.rows: has shape (2, 4, 8), expected (2, any, 7)"
        )
        assert refusal({**state, "envs.actions.3": torch.zeros(5, 2)}) == (
            "envs.actions.3: has shape (5, 2), expected (any, 1)"
        )

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("steps", lambda state: state["steps"].fill_(-1)),
            ("pretraining", lambda state: state["pretraining"].fill_(-1)),
            ("drawn", lambda state: state["drawn"].fill_(-1)),
            ("envs.episodes", lambda state: state["envs.episodes"][1:2].fill_(-3)),
            ("buffer.position", lambda state: state["buffer.position"].fill_(9)),
            ("buffer.position", lambda state: state["buffer.position"].fill_(-1)),
            ("buffer.rows", lambda state: state.update({"buffer.rows": torch.zeros(2, 10, 7)})),
            ("buffer.position", lambda state: state["buffer.position"].fill_(3)),
            ("buffer.rows", lambda state: state.update({"buffer.rows": torch.zeros(2, 6, 7)})),
            ("buffer.rows", lambda state: state["buffer.rows"][1, 2].fill_(torch.nan)),
            ("chosen", lambda state: state["chosen"].fill_(torch.inf)),
            ("largest_reward", lambda state: state["largest_reward"].fill_(torch.nan)),
            ("largest_reward", lambda state: state["largest_reward"].fill_(-1.0)),
            ("pretraining", lambda state: state["pretraining"].fill_(1)),
            ("drawn", lambda state: state["drawn"].copy_(torch.tensor([4, 5]))),
            ("suspect", lambda state: state["suspect"].copy_(torch.tensor([3, 2]))),
            ("envs.actions.1", lambda state: state["envs.episodes"][1:2].fill_(9)),
            ("envs.actions.2", lambda state: state.update({"envs.actions.2": torch.zeros(9, 1)})),
            ("envs.actions.2", lambda state: state["envs.actions.2"].fill_(torch.nan)),
            ("envs.finished", lambda state: state.update({"envs.finished": torch.zeros(9, 2).double()})),
            ("envs.finished", lambda state: state.update({"envs.finished": torch.tensor([[0.5, 1.0]]).double()})),
            ("envs.finished", lambda state: state.update({"envs.finished": torch.tensor([[2.0, 1.0]]).double()})),
            ("envs.finished", lambda state: state.update({"envs.finished": torch.tensor([[torch.nan, 1.0]]).double()})),
        ],
    )
    def test_values_it_cannot_have(self, name: str, change: Change, state: dict[str, Tensor]) -> None:
        change(state)
        assert refusal(state) == f"{name}: holds what no run of this configuration can have written"

    def test_more_environments_than_are_listed(self, state: dict[str, Tensor]) -> None:
        settings = online_source().settings.model_copy(update={"n_envs": 10**12})
        with pytest.raises(CheckpointError, match=r"^envs\.actions\.4: in the algorithm only$"):
            Experience(2, 2, 1, settings).require_sound(state)

    def test_what_grows_beyond_float32_in_transforms_is_noticed(self) -> None:
        """The buffer holds what is not finite, and says so: a checkpoint of it is sound."""
        source = online_source(Transforms((0.0, 0.0), (1e-45, 1e-45), 1.0, 0.0, (-2.0,), (2.0,)))
        with np.errstate(over="ignore"):
            for _ in range(4):
                source.advance(1)
        assert not source.state()["buffer.rows"].isfinite().all()
        assert "gave an observation that is not finite" in source.suspicion
        online_source().restore(source.state())

    def test_none_at_all(self) -> None:
        assert refusal({}) == "the checkpoint holds no experience and no environments to go on with"


def edited(run: RunDirectory, **changes: Any) -> None:
    """The run's last checkpoint written anew with other contents."""
    checkpoint = run.load()
    step = int(checkpoint.progress["steps"])
    run.checkpoint_path(step).rename(run.path / "before")
    save_checkpoint(run.checkpoint_path(step), replace(checkpoint, **changes))


class TestRuns:
    @pytest.fixture
    def run(self, data_file: Path, tmp_path: Path) -> RunDirectory:
        config = small_config(data_file, tmp_path, "awr", algo_kwargs={"td_lambda": 0.9})
        return manager.start(config, callbacks=[StopAt(7)]).run

    def refusal(self, run: RunDirectory) -> str:
        with pytest.raises(CheckpointError) as caught:
            manager.resume(run.path)
        assert run.describe()["status"] == "interrupted"
        return str(caught.value)

    def test_an_online_run_without_its_experience(self, tmp_path: Path) -> None:
        knobs = {"learning_starts": 2, "buffer_capacity": 40}
        config = small_config(None, tmp_path, "sac", env_id=CLIFF, algo_kwargs=knobs)
        run = manager.start(config, callbacks=[StopAt(7)]).run
        edited(run, source={})
        said = "the checkpoint holds no experience and no environments to go on with; no other is sound"
        assert self.refusal(run) == f"{run.checkpoint_path(7)}: {said}"

    @pytest.mark.parametrize("algo", ["sac", "td3", "rlpd", "awac"])
    def test_experience_that_was_forged(self, data_file: Path, tmp_path: Path, algo: str) -> None:
        """It is told as other damage is, and `--resume auto` goes on from the checkpoint before."""
        knobs = {"learning_starts": 2, "buffer_capacity": 40}
        own = {"online": {**knobs, "prior": "buffer"}} if algo == "awac" else {"algo_kwargs": knobs}
        data = data_file if algo in ("rlpd", "awac") else None
        env_id = CLIFF if data is None else "Pendulum-v1"
        config = small_config(data, tmp_path, algo, env_id=env_id, checkpoint_interval=5, **own)
        run = manager.start(config, callbacks=[StopAt(7)]).run
        source = run.load().source
        edited(run, source={**source, "buffer.position": torch.tensor(40)})
        said = "buffer.position: holds what no run of this configuration can have written"
        told = f"{run.checkpoint_path(7)}: {said}; the newest sound one is step-5 (--which 5)"
        assert self.refusal(run) == told
        policy = manager.load_policy(run.path)  # which is sound
        assert policy.checkpoint.progress["steps"] == 7
        assert np.isfinite(policy.predict(np.zeros(policy.checkpoint.spaces.obs_dim))).all()
        with pytest.raises(CheckpointError, match=f"^{said}"):
            manager.branch(config, policy.checkpoint, total_timesteps=20)
        ended = manager.start_or_resume(config)
        assert (ended.status, ended.progress.steps) == ("finished", 20)
        assert [notice for notice in run.describe()["notices"] if f"{told}; going on from there" in notice]

    def test_experience_of_another_moment(self, tmp_path: Path) -> None:
        knobs = {"learning_starts": 2, "buffer_capacity": 40}
        config = small_config(None, tmp_path, "sac", env_id=CLIFF, algo_kwargs=knobs, checkpoint_interval=5)
        run = manager.start(config, callbacks=[StopAt(7)]).run
        edited(run, source=run.load(5).source)
        assert "step-7: steps: is 5 in the experience, and the run was saved at step 7; the newest" in self.refusal(run)

    def test_steps_of_a_run_that_takes_none(self, run: RunDirectory) -> None:
        edited(run, progress={**run.load().progress, "unit": "steps"})
        assert "progress.unit: 'steps' is not what a run of its configuration counts" in self.refusal(run)

    def test_targets_of_awr(self, run: RunDirectory) -> None:
        source = run.load().source
        edited(run, source={name: value for name, value in source.items() if name != "updates"})
        assert self.refusal(run) == "updates: in the algorithm only"

    def test_sums_of_other_metrics_than_were_counted(self, run: RunDirectory) -> None:
        sums = run.load().metric_sums
        assert sums
        edited(run, metric_sums={f"{name}s": value for name, value in sums.items()})
        told = self.refusal(run)
        assert told == f"{run.checkpoint_path(7)}: metric.{min(sums)}: is counted but not summed up; no other is sound"

    def test_nobody_is_there_to_choose(self, data_file: Path, tmp_path: Path) -> None:
        """`--resume auto` goes on from the one before, as for other damage."""
        config = small_config(data_file, tmp_path, checkpoint_interval=10)
        run = manager.start(config, callbacks=[StopAt(15)]).run
        edited(run, metric_sums={name: value[:0] for name, value in run.load().metric_sums.items()})
        ended = manager.start_or_resume(config)
        assert (ended.status, ended.progress.steps) == ("finished", 20)
        (told,) = [notice for notice in run.describe()["notices"] if "going on from there" in notice]
        assert "has shape (0,), expected (1,); the newest sound one is step-10 (--which 10); going on" in told

    def test_counts_of_no_metrics(self, run: RunDirectory) -> None:
        edited(run, progress={**run.load().progress, "metric_counts": {"critic": 3}})
        assert "progress.metric_counts: {'critic': 3} is not a value it can have" in self.refusal(run)


@pytest.mark.parametrize(
    "counts",
    [
        {"critic/loss": 3},
        {"0": 3},
        {"0/": 3},
        {"0/loss": 3},
        {"/critic/loss": 3},
        {"-1/critic/loss": 3},
        {"01/critic/loss": 3},
        {"²/critic/loss": 3},
        {"9999999999/critic/loss": 3},
        {"0/critic/loss": 0},
        {"0/critic/loss": -2},
        {"0/critic/loss": 2.0},
        {"0/critic/loss": True},
        {"0/critic/loss": "3"},
        {"0/critic/loss": None},
        {3: 3},
        {"0/critic/loss": 3, "1/actor": 3},
        {"0/a/b": 3, "0/c/d": 2},
    ],
    ids=str,
)
def test_malformed_counts(counts: dict[Any, Any]) -> None:
    with pytest.raises(CheckpointError) as caught:
        Progress.from_json({**asdict(Progress(3, 3, 1)), "metric_counts": counts})
    assert str(caught.value) == f"progress.metric_counts: {counts!r} is not a value it can have"


def test_more_metrics_than_there_is_room_for() -> None:
    counts = {f"0/critic/{i}": 3 for i in range(65)}
    with pytest.raises(CheckpointError, match=r"progress\.metric_counts: .* is not a value it can have"):
        Progress.from_json({**asdict(Progress(3, 3, 1)), "metric_counts": counts})
    del counts["0/critic/0"]
    assert Progress.from_json({**asdict(Progress(3, 3, 1)), "metric_counts": counts}).metric_counts == counts


def test_sound_counts() -> None:
    counts = {"0/critic/loss": 3, "12/actor/q/first": 1}
    assert Progress.from_json({**asdict(Progress(3, 3, 1)), "metric_counts": counts}).metric_counts == counts
    assert Progress.from_json(asdict(Progress(3, 3, 1))).metric_counts == {}
