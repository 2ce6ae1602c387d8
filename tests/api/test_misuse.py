"""Arguments of a wrong kind are told in one line, and copies of a model work."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rl_training
from rl_training import BC, IQL, TransitionDataset, load_policy
from rl_training.errors import CheckpointError, ConfigError, DataError, EnvironmentUnsupportedError, RLTrainingError
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
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


class TestWhatElsewhereComesFirst:
    @pytest.mark.parametrize("first", ["MlpPolicy", "train.csv", "minari:D4RL/door/human-v2", 3, {"obs": 1}])
    def test_a_policy_or_data(self, first: Any) -> None:
        said = refusal(ConfigError, lambda: BC(first, total_timesteps=3))
        assert said == (
            f"env_id: must be an environment's name, such as 'Pendulum-v1', or left out, got {first!r}; data go to"
            " dataset=, as in BC(dataset=data, total_timesteps=10_000)"
        )

    def test_arrays_are_not_written_out(self, dataset: TransitionDataset) -> None:
        assert "got an object of type TransitionDataset; data go to dataset=" in refusal(
            ConfigError, lambda: BC(dataset)
        )

    def test_data_are_asked_for_before_a_budget(self, tmp_path: Path) -> None:
        assert refusal(ConfigError, lambda: BC().learn()).startswith("dataset: is required; ")
        missing = tmp_path / "nofile.csv"
        assert refusal(DataError, lambda: BC(dataset=missing)) == f"{missing}: no such file"

    def test_a_budget_is_asked_for_where_there_are_data(self, data_file: Path) -> None:
        said = refusal(ConfigError, lambda: BC(dataset=data_file).learn())
        assert said == "total_timesteps (or n_epochs) is required"


class TestWaysOut:
    def test_a_run_of_another_algorithm(self, model: Any) -> None:
        said = refusal(CheckpointError, lambda: IQL.load(model.run_dir))
        assert said.endswith("holds 'bc', IQL loads 'iql'; BC.load(…) loads it, as does rl_training.load_policy(…)")

    def test_data_are_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("a,b\n1,2\n")
        said = refusal(CheckpointError, lambda: IQL.load(tmp_path / "train.csv"))
        way = f"rl-training init {tmp_path}/train.csv writes a configuration to train one from them"
        assert said == f"{tmp_path}/train.csv: is data, not a run; {way}"
        (tmp_path / "notes.txt").write_text("")
        said = refusal(CheckpointError, lambda: load_policy(tmp_path / "notes.txt"))
        assert said == f"{tmp_path}/notes.txt: is a file, not a run; give a run's folder or its name"

    def test_a_place_that_is_taken(self, model: Any, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        for free in ("policy", "policy-2", "policy-3"):
            said = refusal(CheckpointError, lambda: model.save(tmp_path / "runs"))
            assert said.endswith(f"is never overwritten; give a new path, such as {tmp_path}/runs/{free}")
            model.save(tmp_path / "runs" / free)
        said = refusal(CheckpointError, lambda: model.save(tmp_path / "runs" / "policy"))
        assert said.endswith(f"such as {tmp_path}/runs/policy-4")

    @pytest.mark.parametrize("name", ["step-77", "step-4", "mine"])
    def test_a_place_among_a_runs_own_checkpoints(self, name: str, model: Any, tmp_path: Path) -> None:
        """The run would go on from it, and refuse it as another's."""
        link = tmp_path / "link"
        link.symlink_to(model.run_dir / "checkpoints")
        before = files_under(model.run_dir)
        for folder in (model.run_dir / "checkpoints", link):
            said = refusal(CheckpointError, lambda: model.save(folder / name))  # noqa: B023
            assert said.startswith(f"{folder / name}: ")
            assert ("already exists" if name == "step-4" else "is a place for a run's own checkpoints") in said
            assert said.endswith(f"path, such as {model.run_dir}/policy")
        said = refusal(CheckpointError, lambda: model.save(model.run_dir / "checkpoints"))
        assert said.endswith(f"path, such as {model.run_dir}/policy")
        assert files_under(model.run_dir) == before

    def test_a_run_that_is_finished(self, model: Any) -> None:
        said = refusal(ConfigError, model.learn)
        assert said.endswith(
            "is finished at step 4; to go on, give a larger total_timesteps than that, such as learn(8)"
        )

    def test_a_run_that_is_finished_before_its_first_step(self, data_file: Path, tmp_path: Path) -> None:
        class Stops(Callback):
            def on_start(self, loop: Loop) -> None:
                loop.stop("nothing to do")

        settings: dict[str, Any] = {"actor_hidden": [8], "runs_dir": str(tmp_path)}
        model = BC(dataset=str(data_file), total_timesteps=4, **settings).learn(callback=Stops())
        assert refusal(ConfigError, model.learn).endswith("such as learn(1)")
        assert model.learn(1).policy.checkpoint.progress["steps"] == 1

    @pytest.mark.parametrize("wrong", [None, "0,0,0", {"speed": 1.0}, ["a", "b", "c"]])
    def test_what_is_no_observation(self, model: Any, wrong: Any) -> None:
        said = refusal(DataError, lambda: model.predict(wrong))
        assert said == (f"obs: must be numbers, one row per observation, got {wrong!r}; expected (3,) or (batch, 3)")

    def test_an_array_of_another_kind_says_which(self, model: Any) -> None:
        """A row of a table with words in it is one of objects, numbers or not."""
        said = refusal(DataError, lambda: model.predict(np.array([1.0, 2, 3], dtype=object)))
        assert "got an array of object; give obs.astype('float32') where all are numbers; expected (3,)" in said
        assert "got an array of <U1; expected" in refusal(DataError, lambda: model.predict(np.array(["a", "b", "c"])))

    def test_an_observation_is_told_by_name_where_names_are_known(self, tmp_path: Path) -> None:
        rows = [f"{n // 5},{n % 7},{n % 3},{n % 2 - 0.5},1,{int(n % 5 == 4)}" for n in range(40)]
        (tmp_path / "log.csv").write_text("\n".join(["episode,temp,ph,feed,reward,done", *rows]))
        columns = {"obs": ["temp", "ph"], "actions": ["feed"]}
        section = {"source": "file", "path": str(tmp_path / "log.csv"), "columns": columns, "dones_are": "terminations"}
        named = BC(dataset=section, total_timesteps=1, actor_hidden=[8], runs_dir=str(tmp_path / "runs")).learn()
        said = refusal(DataError, lambda: named.predict("1,2"))
        assert said.endswith("got '1,2'; expected (2,) or (batch, 2): temp, ph")
        assert (named.predict({"ph": 2, "temp": 1})[0] == named.predict([1, 2])[0]).all()


class TestNamesThatAreNotHere:
    @pytest.mark.parametrize("name", ["Iql", "iql", "IQLL"])
    def test_one_like_it(self, name: str) -> None:
        with pytest.raises(ImportError) as caught:
            exec(f"from rl_training import {name}")  # as users write it
        said = f"module 'rl_training' has no attribute {name!r}; did you mean 'IQL'? the algorithms are AWAC, AWR, BC, "
        assert str(caught.value).startswith(said)

    def test_one_of_another_family(self) -> None:
        with pytest.raises(
            ImportError, match=r"no attribute 'PPO'; that one learns from new episodes alone; .*: IQL or SAC$"
        ):
            exec("from rl_training import PPO")

    def test_whoever_asks_for_an_attribute_is_told_by_an_attribute_error(self) -> None:
        assert not hasattr(rl_training, "PPO")
        with pytest.raises(AttributeError, match="no attribute 'PPO'; that one"):
            rl_training.PPO  # noqa: B018
        from rl_training import run_places, runtime  # submodules are found all the same

        assert (run_places.__name__, runtime.__name__) == ("rl_training.run_places", "rl_training.runtime")


class TestArraysThatAreNone:
    def test_one_is_named(self) -> None:
        arrays: dict[str, Any] = {"observations": None, "actions": np.ones((4, 2)), "rewards": np.ones(4)}
        said = refusal(DataError, lambda: TransitionDataset.from_dict(arrays | {"dones": np.zeros(4)}))
        assert said == "dataset: observations is None; give an array of it, one row per transition"
        said = refusal(DataError, lambda: TransitionDataset.from_dict(arrays | {"terminations": None}))
        assert said == "dataset: observations, terminations are None; give arrays of them, one row per transition"

    def test_what_may_be_left_out_may_be_none(self) -> None:
        arrays = {name: np.ones((4, 2)) for name in ("obs", "actions")} | {"rewards": np.ones(4)}
        made = TransitionDataset.from_dict(arrays | {"terminations": np.arange(4) == 3, "next_obs": None})
        assert len(made) == 4
        said = refusal(DataError, lambda: TransitionDataset.from_dict(arrays | {"truncations": None}))
        assert said == "dataset lacks terminations; found obs, actions, rewards, truncations"


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
