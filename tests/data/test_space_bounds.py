"""The environment's name and bounds: kept by every format that has a place for them, and used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data import TransitionDataset, infer_spaces, mix_datasets
from rl_training.data.doctor import examine
from rl_training.data.formats import read, writers
from rl_training.data.formats.columns import ColumnWriter
from rl_training.data.space_bounds import SpaceBounds, read_bounds
from rl_training.environments import Spaces
from rl_training.errors import DataError

BOUNDS = SpaceBounds((-2.0, 0.0), (2.0, 0.5), (-np.inf, -1.0, 0.0), (np.inf, 1.0, 100.0))
FORMATS = ["a.npz", "a.hdf5", "a.parquet", "a/", "minari:own/a-v0"]


def arrays(rows: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    obs = rng.uniform(0, 1, (rows + 1, 3)).astype(np.float32)
    return {
        "obs": obs[:-1],
        "next_obs": obs[1:],
        "actions": rng.uniform(0, 0.5, (rows, 2)).astype(np.float32),
        "rewards": rng.normal(size=rows),
        "terminations": np.zeros(rows),
        "truncations": np.arange(rows) == rows - 1,
    }


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TransitionDataset:
    """Told to be of an environment that is not installed here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return replace(TransitionDataset.from_dict(arrays()), env_id="my/Robot-v3", bounds=BOUNDS)


def there(name: str) -> Path:
    pytest.importorskip("minari" if name.startswith("minari:") else "pyarrow" if "parquet" in name else "numpy")
    return writers.target_of(name).path


class TestRoundTrips:
    @pytest.mark.parametrize("name", FORMATS)
    def test_both_come_back(self, name: str, dataset: TransitionDataset) -> None:
        path = there(name)
        dataset.save(name)
        back = TransitionDataset.load(path)
        assert (back.env_id, back.bounds, back.notes) == ("my/Robot-v3", BOUNDS, ())
        assert back.fingerprint() == dataset.fingerprint()
        raw = read(path)
        assert (raw.env_id, raw.bounds) == ("my/Robot-v3", BOUNDS)

    @pytest.mark.parametrize("name", FORMATS)
    def test_through_every_other(self, name: str, dataset: TransitionDataset) -> None:
        there(name)
        dataset.save(name)
        TransitionDataset.load(there(name)).save("b.npz")
        assert TransitionDataset.load("b.npz").bounds == BOUNDS

    @pytest.mark.parametrize("name", FORMATS)
    def test_nothing_told_is_nothing_written(self, name: str, dataset: TransitionDataset) -> None:
        there(name)
        replace(dataset, env_id=None, bounds=None).save(name)
        back = TransitionDataset.load(there(name))
        assert (back.env_id, back.bounds) == (None, None)

    def test_minari_itself_reads_it(self, dataset: TransitionDataset) -> None:
        minari = pytest.importorskip("minari")
        dataset.save("minari:own/a-v0")
        space = minari.load_dataset("own/a-v0").action_space
        assert (space.low.tolist(), space.high.tolist()) == ([-2.0, 0.0], [2.0, 0.5])

    def test_csv_has_it_beside(self, dataset: TransitionDataset) -> None:
        with pytest.warns(UserWarning, match=r"^CSV has no place for the environment, bounds: kept in a\.csv-metadata"):
            dataset.save("a.csv")
        back = TransitionDataset.load("a.csv")
        assert back.fingerprint() == dataset.fingerprint()
        assert (back.env_id, back.bounds) == (dataset.env_id, dataset.bounds)
        moved = TransitionDataset.load("a.csv", columns={"actions": ["actions_1", "actions_0"]})
        assert moved.bounds is None  # they are those of the columns in their order
        lines = Path("a.csv").read_text().splitlines(keepends=True)
        Path("a.csv").write_text("".join([*lines, lines[-1]]))
        assert TransitionDataset.load("a.csv").bounds is None  # another file than was written

    def test_an_archive_is_still_plain_arrays(self, dataset: TransitionDataset) -> None:
        """Whoever opens it with numpy can pass it on as it is."""
        dataset.save("a.npz")
        with np.load("a.npz", allow_pickle=False) as file:
            assert str(file["metadata/env_id"]) == "my/Robot-v3"
            assert TransitionDataset.from_dict(dict(file)).fingerprint() == dataset.fingerprint()

    def test_given_bounds_are_kept(self, dataset: TransitionDataset) -> None:
        TransitionDataset.from_dict(arrays(), action_low=-3, action_high=[3, 4]).save("a.npz")
        assert TransitionDataset.load("a.npz").bounds == SpaceBounds((-3.0, -3.0), (3.0, 4.0))

    def test_a_selection_keeps_them(self, dataset: TransitionDataset) -> None:
        assert dataset.select(np.arange(5)).bounds == BOUNDS


class TestWhatFilesTell:
    @pytest.mark.parametrize(
        "told",
        [
            {"action_low": [-1.0]},
            {"action_low": [1.0], "action_high": [-1.0]},
            {"action_low": [-1.0], "action_high": [1.0, 1.0]},
            {"action_low": [np.nan], "action_high": [1.0]},
            {"action_low": "low", "action_high": "high"},
            {"action_low": [[0.0]], "action_high": [[1.0]]},
            {"action_low": [], "action_high": []},
            {"action_low": [True], "action_high": [True]},
            {"action_low": [[1], [2, 3]], "action_high": [[1], [2, 3]]},
            {"action_low": {}, "action_high": None},
            {"obs_low": [-np.inf, -np.inf], "obs_high": [np.inf, np.inf]},
        ],
    )
    def test_what_is_not_sound_is_passed_over(self, told: dict[str, Any]) -> None:
        assert SpaceBounds.read(told) is None

    def test_json_knows_no_infinity(self) -> None:
        text = json.dumps(BOUNDS.to_json(), allow_nan=False)
        assert SpaceBounds.read(json.loads(text)) == BOUNDS

    def test_that_the_data_contradict(self, dataset: TransitionDataset) -> None:
        wrong = SpaceBounds((0.0, 0.0), (0.25, 0.5), (0.0,), (1.0,))
        replace(dataset, bounds=wrong).save("a.npz")
        back = TransitionDataset.load("a.npz")
        assert back.bounds is None
        assert back.notes == (
            "the action bounds that the data tell are not used: column 0 has actions outside [0, 0.25]",
            "the observation bounds that the data tell are not used: they have 1 column, and observations 3",
        )

    @pytest.mark.parametrize("name", ["x\ny", "", "a" * 300])
    def test_names_that_are_none(self, name: str, dataset: TransitionDataset) -> None:
        np.savez("a.npz", **arrays(), **{"metadata/env_id": name})
        assert TransitionDataset.load("a.npz").env_id is None

    @pytest.mark.parametrize("name", ["a.npz", "a.hdf5"])
    def test_beside_arrays_of_other_names(self, name: str, dataset: TransitionDataset) -> None:
        """A mapping of arrays leaves what is told where it was, and out of what is not used."""
        dataset.save(name)
        mapped = TransitionDataset.load(name, columns={"obs": "obs" if name == "a.npz" else "observations"})
        assert (mapped.env_id, mapped.bounds, mapped.notes) == ("my/Robot-v3", BOUNDS, ())

    def test_of_blocks_that_disagree(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        ColumnWriter(tmp_path / "log").write_blocks([dataset, replace(dataset, env_id="my/Robot-v4"), dataset])
        written = TransitionDataset.open(tmp_path / "log")
        assert (written.env_id, written.bounds) == (None, BOUNDS)

    def test_side_information_of_others_is_left_alone(self, dataset: TransitionDataset) -> None:
        np.savez("a.npz", **arrays(), **{"metadata/policy": np.zeros(3), "metadata/action_low": np.array("low")})
        back = TransitionDataset.load("a.npz")
        assert (back.env_id, back.bounds) == (None, None)

    def test_attributes_of_an_hdf5_file(self, dataset: TransitionDataset) -> None:
        replace(dataset, bounds=None).save("a.hdf5")
        with h5py.File("a.hdf5", "a") as file:
            file.attrs.update(action_low=[-9.0, -9.0], action_high=[9.0, 9.0])
        assert TransitionDataset.load("a.hdf5").bounds == SpaceBounds((-9.0, -9.0), (9.0, 9.0))

    def test_a_schema_that_is_damaged(self, dataset: TransitionDataset) -> None:
        dataset.save("a/")
        schema = json.loads(Path("a/schema.json").read_text())
        del schema["sha256"]
        Path("a/schema.json").write_text(
            json.dumps(schema | {"version": 1, "bounds": {"action_low": "x"}, "env_id": 3})
        )
        back = TransitionDataset.load("a")
        assert (back.env_id, back.bounds) == (None, None)


class TestUse:
    def test_training_without_an_environment(self, dataset: TransitionDataset) -> None:
        assert infer_spaces(dataset) == Spaces(3, (-2.0, 0.0), (2.0, 0.5))

    def test_a_constant_action_has_bounds_then(self, dataset: TransitionDataset) -> None:
        still = replace(dataset, actions=np.full_like(dataset.actions, 0.25))
        assert infer_spaces(still) == Spaces(3, (-2.0, 0.0), (2.0, 0.5))

    @pytest.mark.parametrize("low", [-np.inf, 2.0])
    def test_bounds_that_bound_nothing(self, low: float, dataset: TransitionDataset) -> None:
        told = SpaceBounds((low, 0.0), (2.0, 0.5))
        assert infer_spaces(replace(dataset, bounds=told)) == Spaces(3, (-1.0, 0.0), (1.0, 0.5))

    def test_a_mixture_has_what_its_parts_agree_on(self, dataset: TransitionDataset) -> None:
        same = mix_datasets({"a": dataset, "b": dataset})
        assert (same.env_id, same.bounds) == ("my/Robot-v3", BOUNDS)
        other = mix_datasets({"a": dataset, "b": replace(dataset, bounds=None, env_id="my/Robot-v4")})
        assert (other.env_id, other.bounds) == (None, BOUNDS)

    def test_the_doctor_holds_data_to_them(self, dataset: TransitionDataset) -> None:
        replace(dataset, bounds=replace(BOUNDS, obs_low=(0.5, 0.0, 0.0))).save("a.npz")
        report = examine(read(Path("a.npz")))
        assert report.facts.bounds_from == "as the data tell them"
        assert (report.facts.action_low, report.facts.action_high) == ((-2.0, 0.0), (2.0, 0.5))
        assert "obs.outside-space" in [finding.code for finding in report.at("warning")]

    def test_of_an_environment(self) -> None:
        bounds = read_bounds("Pendulum-v1")
        assert (bounds.action_low, bounds.action_high, bounds.obs_high) == ((-2.0,), (2.0,), (1.0, 1.0, 8.0))


class TestOneSide:
    def bounds(self, low: list[float], high: list[float], actions: Any) -> Spaces:
        given = {**arrays(), "actions": actions}
        return infer_spaces(replace(TransitionDataset.from_dict(given), bounds=SpaceBounds(tuple(low), tuple(high))))

    def test_cuts_what_is_inferred(self) -> None:
        actions = arrays()["actions"]
        spaces = self.bounds([0.0, -2.0], [np.inf, 2.0], actions)
        assert (spaces.action_low, spaces.action_high) == ((0.0, -2.0), (1.0, 2.0))
        spaces = self.bounds([-np.inf, -np.inf], [0.75, np.inf], actions)
        assert (spaces.action_low, spaces.action_high) == ((-1.0, -1.0), (0.75, 1.0))

    def test_never_leaves_no_room(self) -> None:
        spaces = self.bounds([1.0, 0.0], [np.inf, 0.0], np.tile([1.0, 0.0], (40, 1)))
        assert (spaces.action_low, spaces.action_high) == ((-1.0, -1.0), (1.0, 1.0))

    def test_is_told_by_the_doctor(self, dataset: TransitionDataset) -> None:
        replace(dataset, bounds=SpaceBounds((0.0, 0.0), (np.inf, np.inf))).save("a.npz")
        facts = examine(read(Path("a.npz"))).facts
        assert (facts.action_low, facts.action_high) == ((0.0, 0.0), (1.0, 1.0))
        assert facts.bounds_from == "as the data tell them, the rest inferred"


def test_bounds_beyond_what_a_checkpoint_holds() -> None:
    with pytest.raises(DataError, match=r"action_low: must be a number that float32 holds \(at most 3.3e\+38\)"):
        SpaceBounds().said(-1e39, 1.0, np.zeros((2, 1)))
    assert SpaceBounds.read({"action_low": [-1e39], "action_high": [1e39]}) is None
