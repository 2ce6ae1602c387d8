"""Arguments of a wrong kind are told in one line, and copies of a model work."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training import BC, TransitionDataset, load_policy
from rl_training.errors import CheckpointError, ConfigError, DataError, EnvironmentUnsupportedError, RLTrainingError
from small_runs import files_under

NOT_A_PATH = "path: must be a text or a pathlib.Path"


@pytest.fixture(scope="module")
def model(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = {"actor_hidden": [8], "runs_dir": str(tmp_path_factory.mktemp("runs")), "seed": [0, 1]}
    return BC(env_id="Pendulum-v1", dataset=str(data_file), total_timesteps=4, **settings).learn()


def refusal(kind: type[RLTrainingError], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("wrong", [3, None, b"x", ["a"]])
class TestPaths:
    def test_data(self, wrong: Any, dataset: TransitionDataset) -> None:
        for call in (TransitionDataset.load, TransitionDataset.open, dataset.save):
            assert refusal(DataError, lambda call=call: call(wrong)) == f"{NOT_A_PATH}, got {wrong!r}"

    def test_runs(self, wrong: Any) -> None:
        for call in (BC.load, load_policy):
            said = refusal(CheckpointError, lambda call=call: call(wrong))
            assert said == f"{NOT_A_PATH} of a run or a checkpoint, got {wrong!r}"

    def test_what_is_written(self, wrong: Any, model: Any) -> None:
        for call in (model.save, model.export) if wrong is not None else (model.save,):
            assert refusal(ConfigError, lambda call=call: call(wrong)) == f"{NOT_A_PATH}, got {wrong!r}"


class TestValues:
    @pytest.mark.parametrize("wrong", [3, 0, ["Pendulum-v1"]])
    def test_an_environment(self, model: Any, wrong: Any) -> None:
        said = refusal(EnvironmentUnsupportedError, lambda: model.evaluate(1, env_id=wrong))
        assert said == f"env_id: must be an environment's name, such as 'Pendulum-v1', got {wrong!r}"

    def test_an_environment_without_a_name(self, model: Any) -> None:
        assert "environment '' cannot be opened" in refusal(
            EnvironmentUnsupportedError, lambda: model.evaluate(1, env_id="")
        )

    @pytest.mark.parametrize("wrong", ["no", None, 2, 0.5])
    def test_a_flag(self, model: Any, wrong: Any, tmp_path: Path) -> None:
        said = f"deterministic: must be True or False, got {wrong!r}"
        calls: list[Callable[[], Any]] = [
            lambda: model.predict(np.zeros(3), deterministic=wrong),
            lambda: model.policy.predict(np.zeros(3), deterministic=wrong),
            lambda: model.export(tmp_path / "p.onnx", deterministic=wrong),
        ]
        if wrong is not None:
            calls.append(lambda: model.evaluate_offline(deterministic=wrong))
        for call in calls:
            assert refusal(ConfigError, call) == said
        assert files_under(tmp_path) == {}

    def test_a_flag_of_numpy_is_one(self, model: Any) -> None:
        expected, _ = model.predict(np.zeros(3))
        for true in (np.bool_(True), 1):
            np.testing.assert_array_equal(model.predict(np.zeros(3), deterministic=true)[0], expected)

    @pytest.mark.parametrize("wrong", [True, 1.0, "1", [1]])
    def test_a_seed(self, model: Any, wrong: Any) -> None:
        said = refusal(ConfigError, lambda: model.predict(np.zeros(3), seed=wrong))
        assert said == f"seed: {wrong!r} is not in this run; it has 0, 1"
        assert "is not in this run" in refusal(ConfigError, lambda: model.predict(np.zeros(3), seed=np.array([1])))

    def test_data_to_evaluate_on(self, model: Any) -> None:
        said = refusal(DataError, lambda: model.evaluate_offline(3))
        assert said == "dataset: must be a TransitionDataset or a path, got 3"
        said = refusal(ConfigError, lambda: model.evaluate_offline(gamma="x"))
        assert said == "gamma: must be from 0 to 1, got 'x'"


class TestMaskedArrays:
    def test_observations(self, model: Any) -> None:
        obs = np.ma.array(np.ones((4, 3)), mask=np.zeros((4, 3)))
        np.testing.assert_array_equal(model.predict(obs)[0], model.predict(np.ones((4, 3)))[0])
        obs.mask[2, 1] = True
        assert refusal(DataError, lambda: model.predict(obs)) == "obs: value 1 of row 2 is masked"
        assert refusal(DataError, lambda: model.predict(obs[2])) == "obs: value 1 of row 0 is masked"
        assert refusal(DataError, lambda: model.predict(list(obs))) == "obs: value 1 of row 2 is masked"
        assert "has shape (4, 2)" in refusal(DataError, lambda: model.predict(obs[:, :2]))

    def test_data(self) -> None:
        arrays: dict[str, Any] = {name: np.ones((4, 2)) for name in ("obs", "actions")}
        arrays |= {"rewards": np.ones(4), "terminations": np.arange(4) == 3}
        masked = np.ma.array(np.ones((4, 2)), mask=[[0, 0], [0, 0], [0, 1], [0, 0]])
        said = refusal(DataError, lambda: TransitionDataset.from_dict(arrays | {"obs": masked}))
        assert said == "obs: masked at row 2, column 1; fill it in, or leave the row out"
        said = refusal(DataError, lambda: TransitionDataset.from_dict(arrays | {"rewards": masked[:, 1]}))
        assert said == "rewards: masked at row 2; fill it in, or leave the row out"

    def test_a_column_of_a_table_is_missing_values(self) -> None:
        table = {name: np.ones(5) for name in ("obs", "actions", "rewards")} | {"terminations": np.arange(5) == 4}
        table["rewards"] = np.ma.array(np.arange(5.0), mask=[0, 1, 0, 0, 0])
        assert "rewards" in refusal(DataError, lambda: TransitionDataset.from_table(table))
        kept = TransitionDataset.from_table(table, missing="drop")
        assert kept.rewards.tolist() == [0.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    "make_copy",
    [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["deep", "flat", "pickle"],
)
class TestCopies:
    def test_a_copy_acts_and_scores_alike(self, model: Any, make_copy: Callable[[Any], Any]) -> None:
        twin, obs = make_copy(model), np.linspace(-1, 1, 12).reshape(4, 3)
        np.testing.assert_array_equal(twin.predict(obs, seed=1)[0], model.predict(obs, seed=1)[0])
        np.testing.assert_array_equal(twin.evaluate(2).returns, model.evaluate(2).returns)

    def test_a_copy_trains_on_in_a_run_of_its_own(self, model: Any, make_copy: Callable[[Any], Any]) -> None:
        before = files_under(model.run_dir)
        action, _ = model.predict(np.ones(3))
        twin = make_copy(model).learn(6)
        assert twin.run_dir != model.run_dir
        assert files_under(model.run_dir) == before
        np.testing.assert_array_equal(model.predict(np.ones(3))[0], action)
        unbroken = BC.load(model.run_dir, which="last")
        unbroken._run = None
        np.testing.assert_array_equal(unbroken.learn(6).predict(np.ones(3))[0], twin.predict(np.ones(3))[0])

    def test_an_untrained_one(self, data_file: Path, tmp_path: Path, make_copy: Callable[[Any], Any]) -> None:
        given = BC(dataset=str(data_file), total_timesteps=2, actor_hidden=[8], runs_dir=str(tmp_path))
        assert make_copy(given).learn().run_dir is not None
