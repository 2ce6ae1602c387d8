"""What is written comes back: every field, bit for bit where the format can hold it; complete or not at all."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import read, writers
from rl_training.errors import DataError
from small_runs import files_under

FILES = ["a.npz", "a.hdf5", "a.h5", "a.parquet", "a.csv", "a/"]


def dataset(rows: int = 40) -> TransitionDataset:
    """Episodes of ten rows, ended either way, one cut off; every optional field; numbers with all their digits."""
    rng = np.random.default_rng(0)
    obs = (rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-30, 30, (rows, 3))).astype(np.float32)
    number = np.arange(rows)
    return (
        TransitionDataset.from_dict(
            {
                "obs": obs,
                "actions": rng.uniform(-1, 1, (rows, 2)),
                "rewards": rng.normal(size=rows),
                "terminations": number == 9,
                "truncations": number % 10 == 9,
            }
        )
        .with_next_actions()
        .with_returns_to_go(0.9)
    )


def write(given: TransitionDataset, target: Path | str, **options: Any) -> tuple[str, ...]:
    return writers.write(given, writers.target_of(str(target)), **options)


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        write(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    if "parquet" in request.param:
        pytest.importorskip("pyarrow")
    return request.param


class TestRoundTrips:
    def test_every_field_and_the_fingerprint(self, name: str, tmp_path: Path) -> None:
        given = dataset()
        assert given.has_next_obs is not None
        assert write(given, f"{tmp_path}/{name}") == ()
        back = TransitionDataset.load(tmp_path / name)
        for field, values in given.to_dict().items():
            np.testing.assert_array_equal(getattr(back, field), values, err_msg=field)
        assert back.fingerprint() == given.fingerprint()

    def test_a_dataset_of_one_column_and_one_row(self, name: str, tmp_path: Path) -> None:
        given = TransitionDataset.from_dict(
            {"obs": [[0.1]], "actions": [[0.2]], "rewards": [0.3], "next_obs": [[0.4]], "terminations": [0]}
        )
        write(given, f"{tmp_path}/{name}")
        assert TransitionDataset.load(tmp_path / name).fingerprint() == given.fingerprint()

    @pytest.mark.parametrize("suffix", ["hdf5", "parquet"])
    def test_the_environment_is_named(self, suffix: str, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        write(dataset(), tmp_path / f"a.{suffix}", env_id="Hopper-v5")
        assert read(tmp_path / f"a.{suffix}").env_id == "Hopper-v5"

    def test_hdf5_has_the_names_and_types_of_d4rl(self, tmp_path: Path) -> None:
        write(dataset(), tmp_path / "a.hdf5")
        with h5py.File(tmp_path / "a.hdf5") as file:
            assert {"observations", "actions", "rewards", "next_observations", "terminals", "timeouts"} <= set(file)
            assert (file["observations"].dtype, file["terminals"].dtype) == (np.float32, np.bool_)
            assert file["observations"].compression == "gzip"

    def test_csv_can_be_read_by_eye(self, tmp_path: Path) -> None:
        given = TransitionDataset.from_dict(
            {"obs": [[0.1, 2]], "actions": [[3]], "rewards": [0.25], "next_obs": [[1, 1]], "terminations": [1]}
        )
        write(given, tmp_path / "a.csv")
        assert (tmp_path / "a.csv").read_text().splitlines() == [
            "obs_0,obs_1,actions_0,rewards,next_obs_0,next_obs_1,terminations,truncations",
            "0.100000001,2,3,0.25,1,1,1,0",
        ]

    def test_lost_borders_are_kept_or_refused(self, tmp_path: Path) -> None:
        sampled = dataset().sample(5, np.random.default_rng(0))
        for name in ("a.npz", "a/"):
            write(sampled, f"{tmp_path}/{name}")
            assert not TransitionDataset.load(tmp_path / name).whole_episodes
        assert refusal(sampled, tmp_path / "a.csv").endswith(
            "a.csv: the rows were sampled or reordered; only .npz and a folder of columns can say so"
        )

    def test_a_folder_of_columns_can_be_changed_on_reading(self, tmp_path: Path) -> None:
        write(replace(dataset(), truncations=np.zeros(40, bool), has_next_obs=None), f"{tmp_path}/a/")
        cut = TransitionDataset.load(tmp_path / "a", max_episode_steps=15)
        assert cut.episode_lengths().tolist() == [10, 15, 15]


class TestMinari:
    @pytest.fixture(autouse=True)
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        pytest.importorskip("minari")
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        return tmp_path

    def given(self) -> TransitionDataset:
        """With true successors everywhere, and nothing that Minari has no place for."""
        rows = np.arange(30, dtype=np.float32)
        return TransitionDataset.from_dict(
            {
                "obs": np.stack([rows, -rows], axis=1),
                "actions": np.full((30, 1), 0.5),
                "rewards": rows,
                "next_obs": np.stack([rows + 1, -rows - 1], axis=1),
                "terminations": rows == 9,
                "truncations": np.isin(rows, [19, 29]),
            }
        )

    def test_a_relative_root(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root)
        monkeypatch.setenv("MINARI_DATASETS_PATH", "here")
        write(self.given(), "minari:own/log-v0")
        assert (root / "here" / "own" / "log-v0" / "data" / "metadata.json").is_file()

    def test_minari_itself_reads_it(self, root: Path) -> None:
        import minari

        assert write(self.given(), "minari:own/made/log-v3", env_id="Pendulum-v1") == ()
        loaded = minari.load_dataset("own/made/log-v3")
        assert (loaded.total_episodes, loaded.total_steps, loaded.id) == (3, 30, "own/made/log-v3")
        assert loaded.env_spec.id == "Pendulum-v1"
        first = loaded[0]
        np.testing.assert_array_equal(first.observations[:, 0], np.arange(11))
        assert (first.terminations[-1], first.truncations[-1]) == (True, False)
        assert list(minari.list_local_datasets()) == ["own/made/log-v3"]
        assert (loaded.action_space.low.tolist(), loaded.action_space.high.tolist()) == ([-1.0], [1.0])
        assert {"own", "own/made"} <= set(minari.namespace.list_local_namespaces())

    def test_it_comes_back(self, root: Path) -> None:
        write(self.given(), "minari:log-v0", env_id="NotRegistered-v0")
        assert TransitionDataset.load(root / "log-v0").fingerprint() == self.given().fingerprint()

    def test_what_it_cannot_hold(self, root: Path) -> None:
        assert write(dataset(), "minari:log-v0") == (
            "3 rows left out: Minari cannot hold one whose next observation is unknown",
            "Minari does not hold next_actions, returns_to_go",
        )
        back = TransitionDataset.load(root / "log-v0")
        np.testing.assert_array_equal(back.obs, dataset().usable().obs)
        np.testing.assert_array_equal(back.next_obs, dataset().usable().next_obs)
        assert back.episode_lengths().tolist() == [10, 9, 9, 9]

    def test_successors_that_are_not_the_next_row(self, root: Path) -> None:
        given = replace(self.given(), next_obs=self.given().next_obs + 5)
        assert refusal(given, "minari:log-v0") == (
            "next_obs: not the observation of the next row at row 0 (episode 0, step 0); Minari can hold no other"
        )
        assert files_under(root) == {}

    def test_replaced_only_when_asked(self, root: Path) -> None:
        write(self.given(), "minari:log-v0")
        assert refusal(self.given(), "minari:log-v0") == f"{root}/log-v0: exists already; --force replaces it"
        write(dataset(), "minari:log-v0", force=True)
        assert len(TransitionDataset.load(root / "log-v0")) == 37
        assert [entry.name for entry in root.iterdir()] == ["log-v0"]

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "minari", None)
        monkeypatch.setitem(sys.modules, "minari.data_collector", None)
        monkeypatch.setitem(sys.modules, "minari.data_collector.episode_buffer", None)
        assert refusal(self.given(), "minari:log-v0") == (
            "writing this format needs minari: pip install 'rl-training[minari]'"
        )


class TestTargets:
    @pytest.mark.parametrize("text", ["a.txt", "a", "a.npz.gz", ""])
    def test_unknown(self, text: str) -> None:
        with pytest.raises(DataError) as caught:
            writers.target_of(text)
        assert str(caught.value) == (
            f"{text}: must end in .npz, .hdf5, .h5, .parquet, .csv or in / (a folder of columns), or be minari:ID"
        )

    def test_no_id(self) -> None:
        with pytest.raises(DataError, match=r"^minari: '\.\./x-v0' is no id"):
            writers.target_of("minari:../x-v0")

    def test_what_exists_stays(self, name: str, tmp_path: Path) -> None:
        write(dataset(), f"{tmp_path}/{name}")
        before = files_under(tmp_path)
        path = tmp_path / name
        assert refusal(dataset(20), f"{tmp_path}/{name}") == f"{path}: exists already; --force replaces it"
        assert files_under(tmp_path) == before
        write(dataset(20), f"{tmp_path}/{name}", force=True)
        assert len(TransitionDataset.load(path)) == 20
        beside = [f"{name}-metadata.json"] if name == "a.csv" else []  # where CSV tells of where it comes from
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, *beside]

    def test_force_replaces_datasets_only(self, tmp_path: Path) -> None:
        (tmp_path / "a.npz").mkdir()
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "letter.txt").write_text("dear")
        (tmp_path / "file").write_text("x")
        assert refusal(dataset(), tmp_path / "a.npz", force=True).endswith("is a folder and will not be replaced")
        assert refusal(dataset(), f"{tmp_path}/file/", force=True).endswith("is a file and will not be replaced")
        assert refusal(dataset(), f"{tmp_path}/home/", force=True).endswith(
            "home: is a folder, but no dataset, and will not be replaced"
        )

    def test_a_crash_leaves_nothing_behind(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever fails while it is written, what was there before is still there."""
        write(dataset(20), f"{tmp_path}/{name}")
        before = files_under(tmp_path)

        def fail(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fail)
        assert refusal(dataset(), f"{tmp_path}/{name}", force=True).endswith("No space left on device")
        assert files_under(tmp_path) == before

    def test_missing_folders_are_made(self, tmp_path: Path) -> None:
        write(dataset(), tmp_path / "deep" / "er" / "a.csv")
        assert (tmp_path / "deep" / "er" / "a.csv").is_file()
        (tmp_path / "file").write_text("x")
        assert "cannot be made: File exists" in refusal(dataset(), tmp_path / "file" / "a.csv")

    def test_folders_made_for_what_cannot_be_written_go_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", fail)
        (tmp_path / "old").mkdir()
        refusal(dataset(), tmp_path / "old" / "deep" / "er" / "a.csv")
        assert list(tmp_path.iterdir()) == [tmp_path / "old"]
        assert not list((tmp_path / "old").iterdir())

    def test_parquet_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert refusal(dataset(), tmp_path / "a.parquet") == (
            "writing this format needs pyarrow: pip install 'rl-training[parquet]'"
        )


def test_the_home_folder_is_meant_by_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in ("~/a.npz", "~/b/"):
        dataset().save(name)
        assert TransitionDataset.load(name).fingerprint() == dataset().fingerprint()
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["a.npz", "b"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_negative_zero_among_whole_numbers_stays_one(tmp_path: Path) -> None:
    rows = {"obs": np.zeros((4, 1)), "actions": np.zeros((4, 1)), "rewards": np.array([1.0, -0.0, 2.0, 0.0])}
    given = TransitionDataset.from_dict({**rows, "terminations": np.zeros(4), "next_obs": np.zeros((4, 1))})
    given.save(tmp_path / "log.csv")
    back = TransitionDataset.load(tmp_path / "log.csv")
    assert np.signbit(back.rewards).tolist() == [False, True, False, False]
    assert back.fingerprint() == given.fingerprint()


PACKED_ROWS = f".packed/{'0' * 32}.f32"


@pytest.mark.parametrize("schema", ["as it was", "damaged"])
@pytest.mark.parametrize(
    ("name", "goes"),
    [
        ("my_notes.txt", False),
        ("mine.npy", False),
        ("data/thesis.txt", False),
        (".git/HEAD", False),
        (".packed/mine.f32", False),
        (".DS_Store", True),
        (PACKED_ROWS, True),
    ],
)
def test_what_others_put_into_a_folder_of_columns_stays(name: str, goes: bool, schema: str, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    obs = np.zeros((3, 1))
    dataset = TransitionDataset(obs, obs, obs[:, 0], obs, obs[:, 0] > 0, obs[:, 0] > 0)
    dataset.save(f"{folder}/")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    if schema == "damaged":
        (folder / "schema.json").write_text("{")
    if goes:
        dataset.save(f"{folder}/")
    else:
        told = name if name.startswith(".packed") else name.partition("/")[0]
        with pytest.raises(
            DataError, match=rf"log: holds {re.escape(told)}, which is no part of a dataset; move it away, or"
        ):
            dataset.save(f"{folder}/")
    assert (folder / name).exists() is not goes
