"""Minari: folders made by its own package, twins made by hand, and the real dataset where it is at hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from real_data import REAL, needs_real_data
from rl_training.data import TransitionDataset
from rl_training.data.dataset_loaders import MinariDatasetConfig, load_dataset
from rl_training.data.formats import minari as reader
from rl_training.data.formats import read
from rl_training.errors import DataError

BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, -1.0], "high": [1.0, 1.0]}
LENGTHS = (4, 3, 1)


def episode(length: int, first: int) -> dict[str, Any]:
    flags = np.arange(length) == length - 1
    observations = np.arange(first, first + length + 1, dtype=np.float64)
    return {
        "observations": np.stack([observations, -observations], axis=1),
        "actions": np.zeros((length, 2), np.float32),
        "rewards": np.ones(length),
        "terminations": flags & (first == 0),
        "truncations": flags & (first != 0),
    }


def dataset_folder(root: Path, dataset_id: str = "own/log-v0", **metadata: Any) -> Path:
    """Eleven episodes, so that their names sort otherwise than their numbers; ten of them of three rows."""
    data = root / dataset_id / "data"
    data.mkdir(parents=True)
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for number in range(11):
            for name, values in episode(4 if number == 0 else 3, 100 * number).items():
                file[f"episode_{number}/{name}"] = values
    given = {
        "dataset_id": dataset_id,
        "data_format": "hdf5",
        "observation_space": json.dumps(BOX),
        "action_space": json.dumps(BOX),
        "env_spec": json.dumps({"id": "Walker-v9", "entry_point": "antigravity:fly"}),
    }
    (data / "metadata.json").write_text(json.dumps({k: v for k, v in (given | metadata).items() if v is not None}))
    return root / dataset_id


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def change(folder: Path, **changes: Any) -> None:
    """Replace arrays of the second episode; None removes one."""
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        for name, values in changes.items():
            del file[f"episode_1/{name}"]
            if values is not None:
                file[f"episode_1/{name}"] = values


class TestReading:
    def test_an_episode_has_one_observation_more_than_rows(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.load(dataset_folder(tmp_path))
        assert dataset.episode_lengths().tolist() == [4] + [3] * 10
        assert (dataset.n_usable, dataset.origin) == (34, "Minari dataset own/log-v0")
        assert dataset.obs[:5, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 100.0]
        assert dataset.next_obs[:5, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 101.0]
        assert dataset.terminations.nonzero()[0].tolist() == [3]

    def test_by_any_path_into_it(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        for path in (folder, folder / "data", folder / "data" / "main_data.hdf5"):
            assert len(TransitionDataset.load(path)) == 34

    def test_the_environment_is_named_but_never_built(self, tmp_path: Path) -> None:
        assert read(dataset_folder(tmp_path, observation_space=None)).env_id == "Walker-v9"
        assert "antigravity" not in sys.modules
        assert read(dataset_folder(tmp_path / "other", env_spec=None)).env_id is None

    def test_an_episode_that_ends_without_a_flag_is_cut(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        change(folder, truncations=np.zeros(3, bool))
        dataset = TransitionDataset.load(folder)
        assert dataset.episode_lengths().tolist() == [4] + [3] * 10
        assert dataset.notes == ("1 episode without a flag on the last row: counted as truncated",)

    def test_an_episode_without_a_flag_hides_no_bad_one(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            for number in range(11):
                del file[f"episode_{number}/truncations"]
                file[f"episode_{number}/truncations"] = np.full(4 if number == 0 else 3, 7 * (number == 2))
        assert refusal(folder).startswith("truncations: 7 at row 7 ")

    def test_a_flag_inside_an_episode(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        change(folder, terminations=np.array([True, False, False]))
        assert TransitionDataset.load(folder).notes == (
            "1 row inside an episode flagged as an end: the episode counts as ended there",
        )

    def test_episodes_without_a_step_are_passed_over(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        nothing = episode(0, 500)
        change(folder, **nothing)
        assert TransitionDataset.load(folder).n_episodes == 10


class TestCounts:
    """What a dataset says of its own size; a copy may have been cut off."""

    def test_what_fits_is_not_spoken_of(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path, total_episodes=11, total_steps=34)
        self.say(folder, 1, total_steps=3)
        assert TransitionDataset.load(folder).notes == ()

    @staticmethod
    def say(folder: Path, number: int, **attributes: Any) -> None:
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            file[f"episode_{number}"].attrs.update(attributes)

    @pytest.mark.parametrize("said", [2, 9])
    def test_an_episode_of_other_length_than_it_says(self, said: int, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        self.say(folder, 1, total_steps=said)
        told = f"episode_1: has 3 steps, but its total_steps says {said}; write the episode anew, or leave it out"
        assert refusal(folder) == told

    @pytest.mark.parametrize("said", ["three", 3.5, [3, 3], h5py.Empty("i8")])
    def test_what_is_no_count_tells_nothing(self, said: Any, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path, total_steps="many", total_episodes=None)
        self.say(folder, 1, total_steps=said)
        assert TransitionDataset.load(folder).notes == ()

    def test_a_dataset_of_other_size_than_it_says(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path, total_episodes=99, total_steps=396)
        assert TransitionDataset.load(folder).notes == (
            "warning: total_episodes says 99, but there are 11; total_steps says 396, but there are 34:"
            " a part of the dataset may be lost",
        )

    def test_a_gap_in_the_numbers_of_episodes(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            del file["episode_4"]
        assert TransitionDataset.load(folder).notes == (
            "warning: episode_4 is missing, and there is episode_10: a part of the dataset may be lost",
        )

    @needs_real_data
    def test_a_real_one_says_what_it_has(self) -> None:
        assert TransitionDataset.load(REAL / "minari" / "D4RL" / "door" / "human-v2").notes == ()


def test_a_column_that_float32_loses_is_told(tmp_path: Path) -> None:
    folder = dataset_folder(tmp_path)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        for number in range(11):
            file[f"episode_{number}/observations"][:, 1] += 1e12
    assert [(found.column, found.constant) for found in TransitionDataset.load(folder).coarse] == [(1, True)]


class TestDictObservations:
    SPACE = json.dumps(
        {
            "type": "Dict",
            "subspaces": {
                "achieved_goal": {**BOX, "shape": [1]},
                "image": {**BOX, "shape": [8, 8, 3]},
                "observation": BOX,
            },
        }
    )

    def folder(self, root: Path) -> Path:
        folder = dataset_folder(root, observation_space=self.SPACE)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            for name in list(file):
                plain = file[f"{name}/observations"][()]
                del file[f"{name}/observations"]
                file[f"{name}/observations/observation"] = plain
                file[f"{name}/observations/achieved_goal"] = plain[:, :1] + 0.5
        return folder

    def test_need_a_choice(self, tmp_path: Path) -> None:
        assert refusal(self.folder(tmp_path)) == (
            "observations are a Dict of achieved_goal: Box(1), image: Box(8, 8, 3), observation: Box(2);"
            " choose entries with columns: {obs: [achieved_goal, observation]}"
        )

    def test_are_put_side_by_side(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        dataset = TransitionDataset.load(folder, columns={"obs": ["observation", "achieved_goal"]})
        assert dataset.obs[1].tolist() == [1.0, -1.0, 1.5]
        assert dataset.next_obs[1].tolist() == [2.0, -2.0, 2.5]
        assert TransitionDataset.load(folder, columns={"obs": "observation"}).obs_dim == 2

    @pytest.mark.parametrize(
        ("columns", "complaint"),
        [
            (
                {"obs": "observations"},
                "columns.obs: the observations have no 'observations'; did you mean 'observation'?",
            ),
            ({"obs": "image"}, "columns.obs: 'image' is Box(8, 8, 3); only vectors are supported"),
            (
                {"obs": [1]},
                "columns.obs: must be an entry's name or a list of names, got [1]",
            ),
            (
                {"obs": []},
                "columns.obs: must be an entry's name or a list of names, got []",
            ),
            (
                {"actions": "a"},
                "columns: of a Minari dataset only obs can be chosen: {obs: [observation, desired_goal]}",
            ),
        ],
    )
    def test_mistakes(self, columns: Any, complaint: str, tmp_path: Path) -> None:
        assert refusal(self.folder(tmp_path), columns=columns) == complaint

    def test_plain_vectors_have_no_entries(self, tmp_path: Path) -> None:
        assert refusal(dataset_folder(tmp_path), columns={"obs": "x"}) == (
            "columns: the observations of this dataset are plain vectors; leave columns out"
        )


def _refuse_links(original: Any) -> Any:
    def getitem(group: Any, name: Any) -> Any:
        assert isinstance(group.get(name, getlink=True), h5py.HardLink)
        return original(group, name)

    return getitem


class TestRefusals:
    @pytest.mark.parametrize(
        ("metadata", "complaint"),
        [
            (
                {"action_space": json.dumps({"type": "Discrete", "n": 4, "start": 0})},
                "actions: Discrete(4); only continuous actions (Box) are supported",
            ),
            (
                {"observation_space": json.dumps({"type": "Discrete", "n": 16})},
                "observations: Discrete(16); only vectors (Box of one dimension) are supported",
            ),
            (
                {"observation_space": json.dumps({**BOX, "shape": [8, 8]})},
                "observations: Box(8, 8); only vectors (Box of one dimension) are supported",
            ),
            ({"data_format": "arrow"}, "a Minari dataset stored as 'arrow'; only those stored as HDF5 are read"),
        ],
    )
    def test_spaces(self, metadata: dict[str, Any], complaint: str, tmp_path: Path) -> None:
        assert refusal(dataset_folder(tmp_path, **metadata)) == complaint

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"rewards": None}, "episode_1: lacks rewards"),
            ({"observations": np.zeros((3, 2))}, "episode_1/obs: 3 rows, but 4 belong to 3 rewards"),
            ({"actions": np.zeros((5, 2))}, "episode_1/actions: 5 rows, but 3 belong to 3 rewards"),
            ({"rewards": 1.0}, "episode_1/rewards: is a single number, not one per step"),
            (
                {"rewards": np.array([b"x"] * 3)},
                "episode_1/rewards: dtype |S1 is not supported; give booleans, integers or floats",
            ),
            (
                {"observations": h5py.SoftLink("/episode_0/observations")},
                "episode_1/observations: is a link to elsewhere",
            ),
            ({"observations": h5py.ExternalLink("x.h5", "y")}, "episode_1/observations: is a link to elsewhere"),
            ({"rewards": [1.0, np.nan, 1.0]}, "rewards: NaN at row 5 (episode 1, step 1)"),
            ({"observations": np.zeros((4, 3))}, "episode_1/obs: a row has shape (3,), but (2,) in episode_0"),
            ({"terminations": np.zeros((3, 2))}, "episode_1/terminations: a row has shape (2,); one value per step"),
            ({"actions": np.zeros(3)}, "episode_1/actions: a row has shape (), but (2,) in episode_0"),
        ],
    )
    def test_arrays(self, changes: dict[str, Any], complaint: str, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        change(folder, **changes)
        assert refusal(folder).startswith(complaint)

    def test_a_bomb_is_measured_before_it_is_read(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            del file["episode_1"]
            huge = {"observations": (2**40 + 1, 2), "actions": (2**40, 2)}
            huge |= dict.fromkeys(("rewards", "terminations", "truncations"), (2**40,))
            for name, shape in huge.items():
                file.create_dataset(f"episode_1/{name}", shape, "f4", chunks=(1024, *shape[1:]), compression="gzip")
        assert "GiB of values but stores" in refusal(folder)

    @pytest.mark.parametrize("link", [h5py.SoftLink("/episode_0/observations"), h5py.ExternalLink("x.h5", "/")])
    def test_a_group_elsewhere_is_not_followed(
        self, link: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = TestDictObservations().folder(tmp_path)
        change(folder, observations=link)
        monkeypatch.setattr("h5py.Group.__getitem__", _refuse_links(h5py.Group.__getitem__))
        assert refusal(folder, columns={"obs": "observation"}).startswith("episode_1/observations: is a link to elsewh")

    @pytest.mark.parametrize("name", ["observation_space", "action_space"])
    @pytest.mark.parametrize("shape", [3, None, "ab", {}, [[2]], ["x"] * 10**5, 10**400])
    @pytest.mark.parametrize("kind", ["Box", "Dict", "Discrete", 7, "x\ny" * 99])
    def test_odd_spaces(self, name: str, shape: Any, kind: Any, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path, **{name: json.dumps({"type": kind, "shape": shape, "subspaces": shape})})
        if name == "observation_space" or kind != "Box":  # of actions only the kind counts
            message = refusal(folder)
            assert message.startswith("observations" if name == "observation_space" else "actions: ")
            assert len(message) < 400

    def test_flags_in_a_column_end_episodes_too(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
            for group in file.values():
                flags = group["truncations"][()][:, None]
                del group["truncations"]
                group["truncations"] = np.zeros_like(flags)
        dataset = TransitionDataset.load(folder)
        assert dataset.episode_lengths().tolist() == [4] + [3] * 10

    def test_metadata_without_end(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path, description="x" * 2**24)
        assert "bytes; at most 16,777,216 are read" in refusal(folder)

    def test_missing_and_damaged_files(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        data = folder / "data" / "main_data.hdf5"
        whole = data.read_bytes()
        for length in (8, 100, len(whole) // 2):
            data.write_bytes(whole[:length])
            assert refusal(folder).startswith("not a readable Minari dataset (")
        data.unlink()
        assert refusal(folder) == "a Minari dataset without its data/main_data.hdf5"
        for text in ("{", "[1]", "[" * 100_000):
            (folder / "data" / "metadata.json").write_text(text)
            assert refusal(folder).startswith("metadata.json: ")

    def test_the_data_file_alone(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        (folder / "data" / "metadata.json").unlink()
        assert refusal(folder / "data" / "main_data.hdf5") == (
            "the data file of a Minari dataset; its metadata.json must lie beside it"
        )

    def test_no_episodes(self, tmp_path: Path) -> None:
        folder = dataset_folder(tmp_path)
        with h5py.File(folder / "data" / "main_data.hdf5", "w") as file:
            file["x"] = 1
        assert refusal(folder) == "the Minari dataset has no episodes"


class TestById:
    @pytest.fixture(autouse=True)
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        return tmp_path

    def load(self, dataset_id: str, **options: Any) -> TransitionDataset:
        return load_dataset(MinariDatasetConfig(id=dataset_id, **options), None, None)

    def refusal(self, dataset_id: str, **options: Any) -> str:
        with pytest.raises(DataError) as caught:
            self.load(dataset_id, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_what_is_here_needs_no_package(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        dataset_folder(root, "own/deep/log-v0")
        monkeypatch.setitem(sys.modules, "minari", None)
        assert len(self.load("own/deep/log-v0")) == 34
        assert reader.local_ids() == ["own/deep/log-v0"]

    def test_what_messages_advise_can_be_said(self, root: Path) -> None:
        """Missing values, late rewards and costs, as of a file."""
        folder = dataset_folder(root)
        seen = episode(3, 100)["observations"]
        seen[1] = np.nan
        change(folder, observations=seen, rewards=np.array([7.0, 8.0, 9.0]))
        assert self.refusal("own/log-v0").endswith("where it is missing, missing: hold or drop goes on")
        held = self.load("own/log-v0", missing="hold")
        assert held.obs[4:7, 0].tolist() == [100, 100, 102]
        assert held.next_obs[4:7, 0].tolist() == [100, 102, 103]
        assert len(self.load("own/log-v0", missing="drop")) == len(held) - 2
        late = self.load("own/log-v0", missing="hold", rewards_at="next", rewards_are="costs")
        assert late.rewards[3:5].tolist() == [-8, -9]

    def test_what_is_not_here(self, root: Path) -> None:
        start = f"minari: no dataset 'own/lag-v0' in {root} (download: true fetches it)"
        assert self.refusal("own/lag-v0") == f"{start}; none is here"
        dataset_folder(root, "own/log-v0")
        assert self.refusal("own/lag-v0") == f"{start}; did you mean 'own/log-v0'?"
        assert self.refusal("D4RL/x/y-v0").endswith("; here are own/log-v0")

    @pytest.mark.parametrize("dataset_id", ["../log-v0", "/etc/log-v0", "own/log", "own//log-v0", "a b-v0"])
    def test_what_is_no_id(self, dataset_id: str) -> None:
        assert self.refusal(dataset_id) == f"minari: {dataset_id!r} is no id; one looks like D4RL/door/human-v2"

    def test_download_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "minari", None)
        assert self.refusal("own/log-v0", download=True) == (
            "downloading from Minari needs minari: pip install 'rl-training[minari]'"
        )

    def test_download_is_passed_on(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        minari = pytest.importorskip("minari")
        monkeypatch.setattr(minari, "download_dataset", lambda dataset_id: dataset_folder(root, dataset_id))
        assert len(self.load("own/log-v0", download=True)) == 34

    def test_a_download_that_fails(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        minari = pytest.importorskip("minari")

        def fail(dataset_id: str) -> None:
            raise ConnectionError("no route\nto host")

        monkeypatch.setattr(minari, "download_dataset", fail)
        dataset_folder(root, "own/log-v0")
        assert self.refusal("D4RL/x/y-v0", download=True) == (
            "minari: 'D4RL/x/y-v0' could not be downloaded (no route to host); here are own/log-v0"
        )


@pytest.mark.filterwarnings("ignore:`eval_env`|env_spec is None:UserWarning")
def test_what_the_package_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    spaces = pytest.importorskip("gymnasium.spaces")
    from minari.data_collector.episode_buffer import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = [EpisodeBuffer(**episode(length, 100 * i)) for i, length in enumerate(LENGTHS)]
    minari.create_dataset_from_buffers(
        "own/log-v0",
        episodes,
        observation_space=spaces.Box(-np.inf, np.inf, (2,)),
        action_space=spaces.Box(-1, 1, (2,)),
        author="a", author_email="b", code_permalink="c", algorithm_name="d", description="e",
    )  # fmt: skip
    dataset = TransitionDataset.load(tmp_path / "own" / "log-v0")
    assert dataset.episode_lengths().tolist() == list(LENGTHS)
    assert dataset.next_obs[3].tolist() == [4.0, -4.0]
    assert TransitionDataset.load("minari:own/log-v0").fingerprint() == dataset.fingerprint()
    with pytest.raises(DataError, match="own/nothing"):
        TransitionDataset.load("minari:own/nothing-v0")


@needs_real_data
def test_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(REAL / "minari"))
    config = MinariDatasetConfig(id="D4RL/door/human-v2")
    dataset = load_dataset(config, None, None)
    assert (len(dataset), dataset.n_usable, dataset.n_episodes) == (6729, 6729, 25)
    assert read(REAL / "minari" / "D4RL" / "door" / "human-v2").env_id == "AdroitHandDoor-v1"
    inside = np.setdiff1d(np.arange(6729), dataset.episode_ends)
    np.testing.assert_array_equal(dataset.next_obs[inside], dataset.obs[inside + 1])
    ends = dataset.episode_ends[:-1]
    assert (dataset.next_obs[ends] != dataset.obs[ends + 1]).any(axis=1).all()
    assert load_dataset(config, None, None).fingerprint() == dataset.fingerprint()


def test_episodes_that_share_their_arrays_read_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = dataset_folder(tmp_path)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        for number in range(2, 11):
            del file[f"episode_{number}"]
            file[f"episode_{number}"] = file["episode_1"]
    made: list[str] = []
    values = h5py.Dataset.__getitem__
    monkeypatch.setattr(h5py.Dataset, "__getitem__", lambda array, rows: made.append(array.name) or values(array, rows))
    arrays = read(folder).arrays
    assert len(made) == 2 * 5
    np.testing.assert_array_equal(arrays["obs"][4:7], arrays["obs"][-3:])
    assert len(arrays["obs"]) == 4 + 10 * 3
