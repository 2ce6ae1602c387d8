"""Switches among the actions: found in the data, told of, and kept out of by the policy in every form it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rl_training.data.action_gaps import ActionGap, find_gaps, find_stages, snap
from rl_training.data.doctor.switch_checks import check_stages, gap_notices
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.transforms import TransformConfig, Transforms, fit_transforms, transforms_without_data
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError, ConfigError
from rl_training.experiment.manager import load_policy
from rl_training.experiment.report.contents import training_doubts
from rl_training.experiment.shipping import torch_program
from rl_training.experiment.shipping.exporting import export_policy
from rl_training.runtime.trainer import Trainer
from small_runs import small_config

ROWS = 2_000
GAP = ActionGap(1, 0.06, 0.5)


def switched(rows: int = ROWS, seed: int = 0) -> npt.NDArray[np.float32]:
    """A dial, and a heater that is nearly off or on at half power or more."""
    draw = np.random.default_rng(seed)
    on = draw.uniform(size=rows) < 0.1
    heater = np.where(on, draw.uniform(0.5, 1.0, rows), draw.uniform(0.0, 0.06, rows))
    heater[:4] = [0.06, 0.5, 0.0, 1.0]
    return np.stack([draw.uniform(0.0, 100.0, rows), heater], 1).astype(np.float32)


def dataset(actions: npt.NDArray[np.float32]) -> TransitionDataset:
    draw = np.random.default_rng(1)
    obs = draw.normal(size=(len(actions), 3)).astype(np.float32)
    ends = np.arange(1, len(actions) + 1) % 50 == 0
    return TransitionDataset(obs, actions, obs[:, 0], obs[::-1].copy(), ends, np.zeros_like(ends))


class TestFinding:
    def test_a_switch_beside_a_dial(self) -> None:
        (gap,) = find_gaps(switched())
        assert gap.column == 1
        assert gap.low == pytest.approx(0.06, abs=0.002)
        assert gap.high == pytest.approx(0.5, abs=0.02)

    def test_a_slip_of_a_sensor_closes_none(self) -> None:
        actions = switched()
        actions[77, 1] = 0.3
        (gap,) = find_gaps(actions)
        assert gap.high - gap.low > 0.4

    def test_stages(self) -> None:
        stages = np.random.default_rng(0).integers(0, 6, (ROWS, 1)).astype(np.float32)
        assert find_gaps(stages) == tuple(ActionGap(0, float(stage), float(stage + 1)) for stage in range(5))

    @pytest.mark.parametrize("slips", [[0.5], [0.3, 0.7], np.linspace(0.1, 0.9, 9).tolist()])
    def test_a_slip_is_no_stage(self, slips: list[float]) -> None:
        actions = np.random.default_rng(0).integers(0, 2, (10_000, 1)).astype(np.float32)
        actions[77 : 77 + len(slips), 0] = slips
        assert find_gaps(actions) == (ActionGap(0, 0.0, 1.0),)
        (stages,) = find_stages(actions).values()
        assert (stages.values.tolist(), stages.slips) == ([0.0, 1.0], True)
        (finding,) = check_stages(find_stages(actions), None)
        assert "takes only 2 distinct values (0 and 1) in nearly all rows" in finding.what
        assert snap(np.array([[0.3], [0.6]], dtype=np.float32), find_gaps(actions)).tolist() == [[0.0], [1.0]]

    def test_a_stage_that_is_seldom_used_is_not_moved_away_from(self) -> None:
        """It may be one, or a slip: nothing around it is a gap."""
        actions = np.repeat([0.0, 1.0, 2.0, 3.0], [60, 60, 5, 75])[:, None]
        assert find_gaps(actions) == (ActionGap(0, 0.0, 1.0),)

    def test_rows_that_repeat_themselves(self) -> None:
        """Every n-th of them would always be at the same stage."""
        actions = (np.arange(600_000) % 3).astype(np.float32)[:, None]
        assert find_gaps(actions) == (ActionGap(0, 0.0, 1.0), ActionGap(0, 1.0, 2.0))
        assert find_stages(actions)[0].values.tolist() == [0.0, 1.0, 2.0]

    def test_two_of_one_column_from_below(self) -> None:
        draw = np.random.default_rng(0)
        levels = draw.choice([0.0, 5.0, 10.0], ROWS) + draw.uniform(0.0, 1.0, ROWS)
        lower, upper = find_gaps(levels.reshape(-1, 1))
        assert lower.high < upper.low
        assert (lower.column, upper.column) == (0, 0)

    @pytest.mark.parametrize(
        "values",
        [
            np.random.default_rng(0).normal(size=ROWS),
            np.clip(np.random.default_rng(0).normal(size=ROWS), -1.0, 1.0),
            np.random.default_rng(0).standard_t(2, size=ROWS),
            np.full(ROWS, 3.0),
            np.concatenate([np.repeat([0.0, 1.0], ROWS), np.linspace(0.0, 1.0, ROWS)]),
            np.random.default_rng(0).uniform(size=12),
        ],
        ids=["normal", "clipped", "far tails", "constant", "ends of a dial", "few rows"],
    )
    def test_none_in_what_is_set(self, values: npt.NDArray[np.float64]) -> None:
        assert find_gaps(values.reshape(-1, 1)) == ()

    def test_none_where_a_slow_drive_passes_by(self) -> None:
        there_and_back = np.concatenate([np.linspace(0, 0.3, 900), np.linspace(0.8, 1.0, 900)])
        assert find_gaps(there_and_back.reshape(-1, 1)) == ()


class TestSnapping:
    def test_to_the_nearer_side(self) -> None:
        actions = np.array([[50.0, 0.27], [50.0, 0.29], [50.0, 0.03], [50.0, 0.7], [0.3, 0.06]], dtype=np.float32)
        expected = np.array([[50.0, 0.06], [50.0, 0.5], [50.0, 0.03], [50.0, 0.7], [0.3, 0.06]], dtype=np.float32)
        np.testing.assert_array_equal(snap(actions, [GAP]), expected)

    def test_against_a_loop_over_entries(self) -> None:
        gaps = [ActionGap(0, -1.0, 0.5), ActionGap(0, 0.5, 2.0), ActionGap(2, -3.0, 3.0)]
        actions = np.random.default_rng(0).uniform(-4, 4, (500, 3)).astype(np.float32)
        expected = actions.copy()
        for row in expected:
            for column, low, high in gaps:
                if low < row[column] < high:
                    row[column] = low if row[column] - low < high - row[column] else high
        np.testing.assert_array_equal(snap(actions, gaps), expected)

    def test_nothing_hides_a_nan(self) -> None:
        assert np.isnan(snap(np.full((1, 2), np.nan, dtype=np.float32), [GAP])).all()


class TestTransforms:
    def fitted(self, **options: Any) -> Transforms:
        spaces = Spaces(3, (0.0, 0.0), (100.0, 1.0))
        return fit_transforms(dataset(switched()), spaces, TransformConfig(**options))

    def test_only_if_asked(self) -> None:
        assert self.fitted().action_gaps == ()
        assert len(self.fitted(snap_actions=True).action_gaps) == 1

    def test_actions_leave_the_gap(self) -> None:
        fitted = self.fitted(snap_actions=True)
        unit = np.random.default_rng(0).uniform(-1, 1, (4, 300, 2)).astype(np.float32)
        actions = fitted.from_unit_actions(unit)
        (gap,) = fitted.action_gaps
        assert not ((actions[..., 1] > gap.low) & (actions[..., 1] < gap.high)).any()
        np.testing.assert_allclose(actions[..., 0], 50.0 * (unit[..., 0] + 1.0), rtol=1e-5)
        np.testing.assert_allclose(fitted.as_done(unit), fitted.to_unit_actions(actions))

    def test_bounds_are_never_left(self) -> None:
        """Recorded actions may lie outside by a hair, and so may the ends of a gap."""
        actions = np.tile(np.float32([[-1.0005], [1.0005], [0.0]]), (200, 1))
        fitted = fit_transforms(dataset(actions), Spaces(3, (-1.0,), (1.0,)), TransformConfig(snap_actions=True))
        assert fitted.action_gaps == (ActionGap(0, -1.0, 0.0), ActionGap(0, 0.0, 1.0))
        done = fitted.from_unit_actions(np.linspace(-1, 1, 99, dtype=np.float32)[:, None])
        assert set(done[:, 0].tolist()) == {-1.0, 0.0, 1.0}

    def test_keep_what_they_are(self) -> None:
        fitted = self.fitted(snap_actions=True)
        assert Transforms.from_json(fitted.to_json()) == fitted
        earlier = {name: value for name, value in fitted.to_json().items() if name != "action_gaps"}
        assert Transforms.from_json(earlier) == replace(fitted, action_gaps=())

    @pytest.mark.parametrize("stored", [[2, 0.1, 0.5], [-1, 0.1, 0.5], [1, 0.5, 0.1], [1, 0.1, float("nan")]])
    def test_stored_ones_that_make_no_sense(self, stored: list[float]) -> None:
        found = Transforms.from_json({**self.fitted().to_json(), "action_gaps": [stored]})
        with pytest.raises(CheckpointError, match=r"transforms\.action_gaps: \[.*\] is no range of an action"):
            found.require_widths(Spaces(3, (0.0, 0.0), (100.0, 1.0)))

    @pytest.mark.parametrize("stored", [7, [[1, 2]], ["abc"], [[None, 0, 1]]])
    def test_stored_ones_of_another_form(self, stored: Any) -> None:
        with pytest.raises(CheckpointError, match="transforms: stored value is malformed"):
            Transforms.from_json({**self.fitted().to_json(), "action_gaps": stored})

    def test_need_data(self) -> None:
        with pytest.raises(ConfigError, match="there is no dataset"):
            transforms_without_data(Spaces(3, (0.0,), (1.0,)), TransformConfig(snap_actions=True))


class TestNotices:
    def test_of_a_switch(self) -> None:
        data = dataset(switched())
        plain = Transforms(None, None, 1.0, 0.0, (0.0, 0.0), (100.0, 1.0))
        (told,) = gap_notices(data, plain, ["fan", "heater"], snapped=False)
        assert told.startswith("warning: actions [actions.gap]: Column 'heater' is hardly ever between 0.0")
        assert "transforms.snap_actions: true moves its actions to the nearer side" in told
        (moved,) = gap_notices(data, replace(plain, action_gaps=(GAP,)), ["fan", "heater"], snapped=True)
        assert moved.endswith("no recorded one lies in: column 'heater' from between 0.060 and 0.500")

    def test_of_an_option_that_does_nothing(self) -> None:
        data = dataset(np.random.default_rng(0).uniform(-1, 1, (ROWS, 2)).astype(np.float32))
        plain = Transforms(None, None, 1.0, 0.0, (-1.0, -1.0), (1.0, 1.0))
        assert gap_notices(data, plain, None, snapped=False) == []
        (told,) = gap_notices(data, plain, None, snapped=True)
        assert told.startswith("transforms.snap_actions: the recorded actions leave no wide range out")


class TestRuns:
    def trained(self, tmp_path: Path, **transforms: Any) -> Path:
        config = small_config(None, tmp_path, transforms=transforms, total_timesteps=60)
        return Trainer(config, dataset=dataset(switched())).train().run.path

    def test_say_how_often_the_policy_acts_between(self, tmp_path: Path) -> None:
        (doubt,) = training_doubts(self.trained(tmp_path))
        assert "of the recorded states the policy sets column 1 between 0.0" in doubt

    def test_that_snap_never_do(self, tmp_path: Path) -> None:
        run = self.trained(tmp_path, snap_actions=True)
        assert training_doubts(run) == []
        policy = load_policy(run)
        (gap,) = policy.actor.transforms.action_gaps
        obs = np.random.default_rng(3).normal(size=(3_000, 3)).astype(np.float32)
        actions = policy.predict(obs)
        assert not ((actions[:, 1] > gap.low) & (actions[:, 1] < gap.high)).any()
        exported = export_policy(policy, tmp_path / "policy.pt2")
        (answer,) = torch_program.run(exported.path.read_bytes(), [{"obs": obs}])
        np.testing.assert_allclose(answer, actions, atol=1e-4)
        assert exported.card["normalisation"]["gaps"] == [gap._asdict()]

    def test_that_start_from_another_have_its_transforms(self, tmp_path: Path) -> None:
        before = self.trained(tmp_path)
        config = small_config(None, tmp_path, name="next", init_from=str(before), total_timesteps=60)
        trainer = Trainer(config, dataset=dataset(switched()))
        trainer.assemble()
        assert not any("snap_actions" in notice for notice in trainer.notices)  # it can be followed no more
        asked = config.model_copy(update={"transforms": TransformConfig(snap_actions=True)})
        said = f"transforms.snap_actions: is true, and the networks of {before} were trained with false"
        with pytest.raises(ConfigError, match=said):
            Trainer(asked, dataset=dataset(switched())).assemble()

    def test_in_onnx_as_here(self, tmp_path: Path) -> None:
        onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `dev` has it)")
        policy = load_policy(self.trained(tmp_path, snap_actions=True))
        exported = export_policy(policy, tmp_path / "policy.onnx")
        obs = np.random.default_rng(3).normal(size=(3_000, 3)).astype(np.float32)
        (actions,) = onnxruntime.InferenceSession(exported.path.read_bytes()).run(["action"], {"obs": obs})
        np.testing.assert_allclose(actions, policy.predict(obs), atol=1e-4)
        broken = np.full((1, 3), np.nan, dtype=np.float32)
        (answer,) = onnxruntime.InferenceSession(exported.path.read_bytes()).run(["action"], {"obs": broken})
        assert np.isnan(answer).all()
