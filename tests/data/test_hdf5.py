"""HDF5 in D4RL's and d3rlpy's layouts: twins made here, and the real files where they are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import pytest

from real_data import REAL, needs_real_data
from rl_training.data import TransitionDataset
from rl_training.data.batch import PackedTransitions
from rl_training.data.formats import hdf5, hdf5_chunks, recognise
from rl_training.data.formats.peek import peek
from rl_training.data.transforms import TransformConfig, fit_transforms
from rl_training.environments import Spaces
from rl_training.errors import DataError


def d4rl(rows: int = 12, **changes: Any) -> dict[str, Any]:
    """Three episodes of 5, 4 and 3 rows: terminated, timed out, cut off by the end of the file."""
    rng = np.random.default_rng(0)
    arrays = {
        "observations": np.arange(rows * 2, dtype=np.float32).reshape(rows, 2),
        "actions": rng.uniform(-1, 1, (rows, 1)).astype(np.float32),
        "rewards": np.arange(rows, dtype=np.float32),
        "terminals": np.arange(rows) == 4,
        "timeouts": np.arange(rows) == 8,
    }
    return arrays | changes


def write(path: Path, arrays: dict[str, Any]) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


class TestSuccessors:
    def test_are_read_where_they_are_stored(self, tmp_path: Path) -> None:
        stored = np.full((12, 2), 7.0, dtype=np.float32)
        dataset = TransitionDataset.load(write(tmp_path / "a.hdf5", d4rl(next_observations=stored)))
        assert dataset.has_next_obs is None
        assert dataset.n_usable == 12
        np.testing.assert_array_equal(dataset.next_obs, stored)

    def test_else_are_the_next_row_of_the_episode(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.load(write(tmp_path / "a.hdf5", d4rl()))
        assert (len(dataset), dataset.n_episodes, dataset.n_usable) == (12, 3, 10)
        assert dataset.episode_returns().tolist() == [10.0, 26.0, 30.0]
        assert dataset.has_next_obs is not None
        assert np.flatnonzero(~dataset.has_next_obs).tolist() == [8, 11]
        inside = [0, 1, 2, 3, 5, 6, 7, 9, 10]
        np.testing.assert_array_equal(dataset.next_obs[inside], dataset.obs[[i + 1 for i in inside]])

    def test_rows_without_one_are_not_trained_on(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.load(write(tmp_path / "a.hdf5", d4rl()))
        transforms = fit_transforms(dataset, Spaces(2, (-1.0,), (1.0,)), TransformConfig())
        packed = PackedTransitions.from_dataset(dataset, transforms)
        assert packed.rows[:, 0].tolist() == [2.0 * row for row in range(12) if row not in (8, 11)]

    def test_usable_rows_keep_their_episodes(self, tmp_path: Path) -> None:
        """D4RL's own conversion: the row at a time limit goes, and the episode ends before it."""
        usable = TransitionDataset.load(write(tmp_path / "a.hdf5", d4rl())).usable()
        assert usable.has_next_obs is None
        assert usable.episode_lengths().tolist() == [5, 3, 2]
        assert usable.terminations.nonzero()[0].tolist() == [4]
        assert usable.truncations.nonzero()[0].tolist() == [7, 9]

    def test_an_episode_of_one_row_goes_altogether(self) -> None:
        arrays = d4rl(timeouts=np.isin(np.arange(12), [5, 8]))
        usable = TransitionDataset.from_dict(arrays).usable()
        assert usable.episode_lengths().tolist() == [5, 2, 2]

    def test_of_no_row_is_an_error(self) -> None:
        arrays = {name: values[:1] for name, values in d4rl().items()}
        with pytest.raises(DataError, match="no row has a recorded successor"):
            TransitionDataset.from_dict(arrays).usable()

    def test_survive_a_file_of_our_own(self, tmp_path: Path) -> None:
        dataset = TransitionDataset.from_dict(d4rl())
        dataset.save(tmp_path / "own.npz")
        assert TransitionDataset.load(tmp_path / "own.npz").fingerprint() == dataset.fingerprint()


class TestLayouts:
    def test_side_information_is_left_alone(self, tmp_path: Path) -> None:
        arrays = d4rl() | {"infos/qpos": np.zeros((12, 3)), "metadata/algorithm": np.bytes_("SAC"), "extra": [1, 2]}
        assert len(TransitionDataset.load(write(tmp_path / "a.hdf5", arrays))) == 12

    def test_float_flags_and_column_rewards(self, tmp_path: Path) -> None:
        plain = TransitionDataset.from_dict(d4rl())
        arrays = d4rl(rewards=np.arange(12.0)[:, None], terminals=(np.arange(12) == 4).astype(np.float64))
        assert TransitionDataset.load(write(tmp_path / "a.hdf5", arrays)).fingerprint() == plain.fingerprint()

    def test_d3rlpy_marks_the_last_row_of_every_episode(self, tmp_path: Path) -> None:
        """A terminal flag on a row before the last, as in its CartPole data, ends nothing."""
        arrays = d4rl(terminals=np.isin(np.arange(12), [3, 4]).astype(np.float32))
        del arrays["timeouts"]
        arrays |= {"episode_terminals": np.isin(np.arange(12), [4, 8, 11]), "discrete_action": False, "version": "1.0"}
        dataset = TransitionDataset.load(write(tmp_path / "a.h5", arrays))
        assert dataset.episode_lengths().tolist() == [5, 4, 3]
        assert dataset.terminations.nonzero()[0].tolist() == [4]
        assert dataset.truncations.nonzero()[0].tolist() == [8, 11]
        assert dataset.n_usable == 10

    @pytest.mark.parametrize("name", ["Hopper-v4", np.bytes_("Hopper-v4")])
    def test_the_environment_is_told_in_any_kind_of_text(self, name: Any, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", d4rl())
        with h5py.File(path, "a") as file:
            file.attrs["env_id"] = name
        assert TransitionDataset.load(path).env_id == "Hopper-v4"

    def test_discrete_actions_are_refused(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.h5", d4rl() | {"discrete_action": True})
        assert refusal(path) == (
            "actions: discrete (the file's discrete_action is set); only continuous actions are supported"
        )


class TestOtherNames:
    ODD: ClassVar = {
        "robot/joints/pos": np.arange(12.0)[:, None] * [1.0, 2.0],
        "robot/joints/vel": -np.arange(12.0),
        "u": np.zeros((12, 1)),
        "score": np.ones(12),
        "over": np.arange(12) == 4,
        "traj": np.repeat([7, 9], 6)[::-1],
        "infos/qpos": np.zeros((3, 3)),
    }
    MAPPING: ClassVar = {"obs": ["robot/joints/pos", "robot/joints/vel"], "actions": "u", "rewards": "score"}

    def test_are_mapped(self, tmp_path: Path) -> None:
        mapping = {**self.MAPPING, "terminations": "over", "episode_ids": "traj"}
        dataset = TransitionDataset.load(write(tmp_path / "a.hdf5", self.ODD), columns=mapping)
        assert (dataset.origin, dataset.obs[3].tolist()) == ("HDF5", [3.0, 6.0, -3.0])
        assert dataset.episode_lengths().tolist() == [5, 1, 6]
        assert dataset.notes == ()

    def test_names_of_episodes_and_dates_are_texts(self, tmp_path: Path) -> None:
        mapping = {**self.MAPPING, "episode_ids": "traj", "step": "when"}
        dates = [f"2024-03-01 08:{59 - row:02}:00" for row in range(12)]
        for names in (["run 2"] * 6 + ["run 10"] * 6, np.array(["run 2"] * 6 + ["run 10"] * 6, "S")):
            path = write(tmp_path / "a.hdf5", {**self.ODD, "traj": names, "when": dates})
            dataset = TransitionDataset.load(path, columns=mapping)
            assert dataset.obs[:, 2].tolist() == [*range(-5, 1), *range(-11, -5)]
            assert dataset.episode_lengths().tolist() == [6, 6]
            by_name = write(tmp_path / "b.hdf5", d4rl(terminals=np.zeros(12), timeouts=np.zeros(12), episode_ids=names))
            assert TransitionDataset.load(by_name).episode_lengths().tolist() == [6, 6]
            path.unlink()
            by_name.unlink()

    def test_suggestions(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", self.ODD)
        assert refusal(path, columns={**self.MAPPING, "obs": "robot/joint/pos"}) == (
            "columns.obs: no column 'robot/joint/pos'; did you mean 'robot/joints/pos'?"
        )
        hint = "column 'traj' looks like an episode id: columns: {episode_ids: traj}"
        assert refusal(path, columns=self.MAPPING).endswith(hint)
        notes = TransitionDataset.load(path, columns={**self.MAPPING, "terminations": "over"}).notes
        assert notes == ("columns not used: traj", hint)

    def test_faults_are_named_by_array_and_row(self, tmp_path: Path) -> None:
        pos = self.ODD["robot/joints/pos"].copy()
        pos[8, 1] = np.nan
        path = write(tmp_path / "a.hdf5", self.ODD | {"robot/joints/pos": pos})
        told = "obs: NaN at row 8, column 'robot/joints/pos[1]' (episode 1, step 3);"
        assert refusal(path, columns={**self.MAPPING, "terminations": "over"}).startswith(told)

    def test_links_and_loops_are_passed_over(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", self.ODD)
        with h5py.File(path, "a") as file:
            file["robot/again"] = file["robot"]  # a group inside itself
            file["elsewhere"] = h5py.ExternalLink("x.h5", "/")
            file["soft"] = h5py.SoftLink("/u")
        mapping = {**self.MAPPING, "terminations": "over"}
        assert len(TransitionDataset.load(path, columns=mapping)) == 12
        assert refusal(path, columns={**mapping, "actions": "soft"}).startswith("columns.actions: no column 'soft'")

    def test_a_group_that_holds_itself_is_entered_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "a.hdf5", d4rl())
        with h5py.File(path, "a") as file:
            group = file.create_group("infos/loop")
            group["x"] = np.zeros(12)
            for number in range(20):
                group[f"again_{number}"] = group
        looked_into: list[str] = []
        names_in = hdf5.names_in
        monkeypatch.setattr(hdf5, "names_in", lambda group: looked_into.append(group.name) or names_in(group))
        assert TransitionDataset.load(path).n_episodes == 3
        assert len(looked_into) == 3
        monkeypatch.setattr(hdf5, "_MOST_GROUPS", 2)
        looked_into.clear()
        assert TransitionDataset.load(path).n_episodes == 3
        assert len(looked_into) == 2


class TestRefusals:
    @pytest.mark.parametrize("group", ["data/demo_{}", "traj_{}", "{}"])
    def test_a_group_for_every_episode(self, group: str, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "demos.hdf5", "w") as file:
            for number in range(11):
                episode = file.create_group(group.format(number))
                episode["obs/pose"], episode["actions"] = np.zeros((5, 3)), np.zeros((5, 2))
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(tmp_path / "demos.hdf5")
        several = f"{group.format(0)} … {group.format(10)}"
        assert f"holds a group for every episode ({several}, as robomimic's files do)" in str(caught.value)
        assert "join them into one array per field, with episode_ids" in str(caught.value)

    def test_missing_fields(self, tmp_path: Path) -> None:
        arrays = d4rl() | {"reward_signal": np.zeros(12), "infos/x": np.zeros(12)}
        del arrays["rewards"]
        assert refusal(write(tmp_path / "a.hdf5", arrays)) == (
            "lacks rewards; the data have actions, observations, reward_signal, terminals, timeouts, infos/x;"
            " say which columns hold them with columns: {rewards: …}"
        )

    @pytest.mark.parametrize(
        ("field", "values", "complaint"),
        [
            ("rewards", np.array([np.nan] + [0.0] * 11), "rewards: NaN at row 0 (episode 0, step 0)"),
            ("rewards", np.zeros(11), "rewards: 11 rows, but obs has 12"),
            ("rewards", np.array([b"x"] * 12), "rewards: dtype |S1 is not supported"),
        ],
    )
    def test_bad_values(self, field: str, values: Any, complaint: str, tmp_path: Path) -> None:
        assert refusal(write(tmp_path / "a.hdf5", d4rl(**{field: values}))).startswith(complaint)

    def test_a_group_is_no_array(self, tmp_path: Path) -> None:
        arrays = d4rl()
        del arrays["rewards"]
        assert refusal(write(tmp_path / "a.hdf5", arrays | {"rewards/raw": np.zeros(12)})) == (
            "rewards: is a group of raw; one array is expected"
        )

    def test_links_out_of_the_file_are_not_followed(self, tmp_path: Path) -> None:
        other = write(tmp_path / "other.hdf5", {"secret": np.zeros(12)})
        path = write(tmp_path / "a.hdf5", {name: v for name, v in d4rl().items() if name != "rewards"})
        with h5py.File(path, "a") as file:
            file["rewards"] = h5py.ExternalLink(other.name, "secret")
        assert refusal(path) == "rewards: is a link to elsewhere; give the array itself"

    def test_external_and_virtual_storage(self, tmp_path: Path) -> None:
        arrays = {name: v for name, v in d4rl().items() if name != "rewards"}
        path = write(tmp_path / "a.hdf5", arrays)
        with h5py.File(path, "a") as file:
            file.create_dataset("rewards", (12,), "f4", external=[(str(tmp_path / "raw.bin"), 0, 48)])
        assert refusal(path) == "rewards: its data lie in other files; give them in this one"

    def test_a_bomb_is_measured_before_it_is_read(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", {name: v for name, v in d4rl().items() if name != "observations"})
        with h5py.File(path, "a") as file:
            file.create_dataset("observations", (2**34, 2**10), "f4", chunks=(1024, 1024), compression="gzip")
        assert "declares 65,536.0 GiB of values but stores 0.0 MiB" in refusal(path)

    @pytest.mark.parametrize("options", [{}, {"chunks": (2**16,)}, {"chunks": (2**16,), "compression": "gzip"}])
    def test_what_was_never_written_is_not_made_up(self, options: dict[str, Any], tmp_path: Path) -> None:
        """It would fit into the memory of most machines, zeros upon zeros."""
        path = tmp_path / "a.hdf5"
        with h5py.File(path, "w") as file:
            for name in d4rl():
                file.create_dataset(name, (2**26,), "f4", **options)
            if options:
                file["terminals"][:10] = 1.0
        assert refusal(path).startswith("declares 1.2 GiB of values but stores 0.")

    def test_chunks_larger_than_the_array(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "a.hdf5", {name: v for name, v in d4rl().items() if name != "rewards"})
        with h5py.File(path, "a") as file:
            options = {"chunks": (2**23,), "maxshape": (None,), "compression": "gzip"}
            file.create_dataset("rewards", data=np.zeros(12, np.float32), **options)
        monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 2**25)
        assert refusal(path) == "needs 96.0 MiB of memory to be read, but only 32.0 MiB are free"

    def test_names_that_are_no_text(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", d4rl())
        with h5py.File(path, "a") as file:
            h5py.h5g.create(file.id, b"\xff\xfe")
        assert len(TransitionDataset.load(path)) == 12
        assert refusal(path, columns={"obs": "x"}).startswith("columns.obs: no column 'x'; the data have actions, obs")

    def test_an_array_without_a_space(self, tmp_path: Path) -> None:
        assert refusal(write(tmp_path / "a.hdf5", d4rl(rewards=h5py.Empty("f4")))) == "rewards: holds nothing"

    def test_damage(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.hdf5", d4rl())
        whole = path.read_bytes()
        for length in (8, 100, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            assert refusal(path)


@needs_real_data
class TestRealFiles:
    @pytest.mark.parametrize(
        ("name", "rows", "usable", "episodes"),
        [
            ("d4rl_excerpts/ant_medium-v2.hdf5", 2000, 2000, 2),
            ("d4rl_excerpts/antmaze-umaze-v0.hdf5", 1402, 1400, 2),
            ("d4rl_excerpts/door-cloned-v0.hdf5", 300, 299, 2),
            ("d4rl_excerpts/halfcheetah_medium_replay-v1.hdf5", 2000, 2000, 2),
            ("d4rl_excerpts/hopper_medium-v2.hdf5", 911, 911, 2),
            ("d4rl_excerpts/hopper_medium.hdf5", 524, 524, 2),
            ("d4rl_excerpts/pen-human-v1.hdf5", 400, 398, 2),
            ("d4rl_excerpts/walker2d_random-v1.hdf5", 44, 44, 2),
            ("d3rlpy/pendulum_replay.h5", 99_500, 99_000, 500),
            ("d3rlpy/pendulum_random.h5", 99_500, 99_000, 500),
            ("mujoco/hopper-medium.hdf5", 100_000, 100_000, 246),
            ("mujoco/halfcheetah-medium.hdf5", 100_000, 100_000, 100),
        ],
    )
    def test_load_whole(self, name: str, rows: int, usable: int, episodes: int) -> None:
        dataset = TransitionDataset.load(REAL / name)
        assert (len(dataset), dataset.n_usable, dataset.n_episodes) == (rows, usable, episodes)

    def test_returns(self) -> None:
        returns = TransitionDataset.load(REAL / "mujoco/hopper-medium.hdf5").episode_returns()
        assert returns[:-1].mean() == pytest.approx(1251.48, abs=0.01)  # the last episode was cut off
        assert TransitionDataset.load(REAL / "d3rlpy/pendulum_replay.h5").episode_returns().mean() == pytest.approx(
            -180.48, abs=0.01
        )

    def test_the_stored_successors_are_the_next_rows(self) -> None:
        """What is derived for files without successors is what files with them store."""
        stored = TransitionDataset.load(REAL / "mujoco/hopper-medium.hdf5")
        arrays = stored.to_dict()
        del arrays["next_obs"]
        derived = TransitionDataset.from_dict(arrays)
        inside = np.setdiff1d(np.arange(len(stored)), stored.episode_ends)
        np.testing.assert_array_equal(derived.next_obs[inside], stored.next_obs[inside])

    def test_discrete_actions(self) -> None:
        assert "only continuous actions are supported" in refusal(REAL / "d3rlpy/cartpole_replay.h5")


class TestNetCDF:
    """netCDF files are HDF5, and their arrays say beside them what their numbers stand for."""

    def told(self, path: Path, **attributes: Any) -> Path:
        kept = np.arange(24, dtype=np.int16).reshape(12, 2)
        kept[3, 1] = -9999
        with h5py.File(write(path, d4rl(observations=kept)), "a") as file:
            file["observations"].attrs.update(attributes)
        return path

    def test_packed_numbers_are_no_values(self, tmp_path: Path) -> None:
        path = self.told(tmp_path / "a.nc", scale_factor=0.01, add_offset=np.array([20.0]))
        assert refusal(path) == (
            "observations: is packed as netCDF does (scale_factor 0.01, add_offset 20.0);"
            " write the values, number * scale_factor + add_offset"
        )
        assert refusal(path, columns={"obs": "observations"}).startswith("observations: is packed")
        path.unlink()
        odd = self.told(path, add_offset=np.bytes_(b"\x1b"))
        assert refusal(odd).startswith(r"observations: is packed as netCDF does (add_offset b'\x1b')")

    def test_what_is_missing_is_no_value(self, tmp_path: Path) -> None:
        path = self.told(tmp_path / "a.nc", _FillValue=np.int16(-9999), scale_factor=1.0)
        assert refusal(path).startswith("obs: NaN at row 3, column 1 (episode 0, step 3)")
        held = TransitionDataset.load(path, columns={"obs": "observations"}, missing="hold")
        assert held.obs[2:5].tolist() == [[4, 5], [6, 5], [8, 9]]

    def test_signed_numbers_that_stand_for_unsigned_ones(self, tmp_path: Path) -> None:
        path = self.told(tmp_path / "a.nc", _Unsigned="true")
        assert refusal(path).startswith(
            "observations: is packed as netCDF does (_Unsigned); write the values in a type"
        )

    @pytest.mark.parametrize("factor", ["0.01", [1.0, 0.2]])
    def test_factors_that_are_text_or_several(self, factor: Any, tmp_path: Path) -> None:
        path = self.told(tmp_path / "a.nc", scale_factor=factor)
        assert refusal(path).startswith("observations: is packed as netCDF does (scale_factor")

    def test_integers_that_were_never_written(self, tmp_path: Path) -> None:
        kept = np.arange(12, dtype=np.int32)
        kept[5] = -(2**31 - 1)
        assert refusal(write(tmp_path / "a.nc", d4rl(rewards=kept))).startswith("rewards: NaN at row 5")

    def test_what_was_never_written(self, tmp_path: Path) -> None:
        rewards = np.arange(12.0, dtype=np.float32)
        rewards[5] = 9.969209968386869e36
        assert refusal(write(tmp_path / "a.nc", d4rl(rewards=rewards))).startswith("rewards: NaN at row 5")

    def test_what_no_number_can_be_marks_nothing(self, tmp_path: Path) -> None:
        path = self.told(tmp_path / "a.nc", _FillValue=np.nan, missing_value=1e30)
        assert TransitionDataset.load(path).obs[[0, 3]].tolist() == [[0, 1], [6, -9999]]


def test_ids_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    ids = np.array([name.encode("latin-1") for name in ("Müller", "Möller") for _ in range(6)])
    arrays = d4rl(episode_ids=ids)
    arrays = {name: values for name, values in arrays.items() if name not in ("terminals", "timeouts")}
    columns = {"episode_ids": "episode_ids"}
    assert TransitionDataset.load(write(tmp_path / "a.h5", arrays), columns=columns).episode_lengths().tolist() == [
        6,
        6,
    ]


class TestEpisodesOfD3rlpy:
    """What `ReplayBuffer.dump` of d3rlpy 2 writes."""

    def write(self, path: Path, **changes: Any) -> Path:
        rng = np.random.default_rng(0)
        with h5py.File(path, "w") as file:
            for episode, (length, ended) in enumerate([(4, True), (12, False), (3, True)] * 4):
                arrays = {
                    "observations": rng.normal(size=(length, 3)).astype(np.float32),
                    "actions": rng.uniform(-1, 1, (length, 2)).astype(np.float32),
                    "rewards": np.full((length, 1), episode, dtype=np.float32),
                    "terminated": ended,
                }
                for name, values in arrays.items():
                    key = f"{name}_{episode}"
                    file[key] = changes.pop(key, values)
            for key, values in changes.items():
                file[key] = values
            file["columns"] = ["observations", "actions", "rewards", "terminated"]
            file["num_episodes"] = 12
            file["version"] = "2.1"
        return path

    def test_is_read(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "log.h5")
        dataset = TransitionDataset.load(path)
        assert dataset.origin == "HDF5, d3rlpy 2's layout"
        assert dataset.notes == ()
        assert dataset.episode_lengths().tolist() == [4, 12, 3] * 4
        assert dataset.rewards[dataset.episode_ends].tolist() == list(range(12))  # in order: 10 comes after 9
        assert dataset.terminations.sum() == 8
        assert dataset.truncations.sum() == 4
        with h5py.File(path) as file:
            np.testing.assert_array_equal(dataset.obs[4:16], file["observations_1"][()])
        found = peek(path, 3)
        assert (found.rows, found.episodes) == (76, 12)
        assert found.columns["observations"].shape == (3, 3)

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"rewards_3": np.zeros((5, 1))}, "rewards_3: 5 rows, but observations_3 has 4"),
            ({"actions_2": np.zeros((3, 4))}, "actions_2: a row has shape (4,), but (2,) in actions_0"),
            ({"terminated_1": 2}, "terminated_1: must be one flag, 0 or 1 (or a boolean)"),
            ({"observations_5": np.zeros((0, 3))}, "observations_5: holds no rows; leave out the episode"),
            (
                {"actions_13": np.zeros((3, 2))},
                "lacks actions_12, but holds actions_13; number the episodes from 0 without a gap",
            ),
        ],
    )
    def test_what_does_not_fit_is_named(self, changes: dict[str, Any], told: str, tmp_path: Path) -> None:
        assert refusal(self.write(tmp_path / "log.h5", **changes)) == told

    def test_discrete_actions_are_refused(self, tmp_path: Path) -> None:
        whole = {f"actions_{i}": np.zeros((length, 1), dtype=np.int32) for i, length in enumerate([4, 12, 3] * 4)}
        assert refusal(self.write(tmp_path / "log.h5", **whole)).startswith("actions: discrete")


def test_chunks_that_were_never_written(tmp_path: Path) -> None:
    """As a recorder leaves them that was cut off: HDF5 would make up their values. Flags may be set here and there."""
    path = write(
        tmp_path / "log.h5", {name: a for name, a in d4rl().items() if name not in ("observations", "timeouts")}
    )
    with h5py.File(path, "a") as file:
        seen = file.create_dataset("observations", (12, 2), "f4", chunks=(4, 2))
        file.create_dataset("timeouts", (12,), bool, chunks=(4,))[8] = True
        seen[:8] = 1.0
    said = "observations: 2 of its 3 chunks were written, and the rest is made up;"
    assert refusal(path) == f"{said} write all rows, or make the array smaller"
    with h5py.File(path, "a") as file:
        file["observations"][8:] = 1.0
    assert len(TransitionDataset.load(path)) == 12


@pytest.mark.parametrize("columns", [None, {"obs": "observations"}])
@pytest.mark.parametrize(("name", "shape"), [("rewards", (12,)), ("rewards", (12, 1)), ("actions", (12,))])
def test_numbers_that_were_written_in_part(
    name: str, shape: tuple[int, ...], columns: dict[str, str] | None, tmp_path: Path
) -> None:
    """Of one axis as of two: what was never written is no reward of 0, nor an action."""
    path = write(tmp_path / "log.h5", {key: a for key, a in d4rl().items() if key not in (name, "timeouts")})
    with h5py.File(path, "a") as file:
        given = file.create_dataset(name, shape, "f4", chunks=(4, *shape[1:]), fillvalue=7.0)
        given[:5] = 0.5
        file.create_dataset("timeouts", (12, 1), bool, chunks=(4, 1))[8] = True
    said = f"{name}: 2 of its 3 chunks were written, and the rest is made up; write all rows, or make the array smaller"
    assert refusal(path, columns=columns) == said
    with h5py.File(path, "a") as file:
        file[name][5:] = 0.25
        del file["timeouts"]
        file.create_dataset("timeouts", (12,), bool, chunks=(4,), fillvalue=True)[8] = True
    assert refusal(path, columns=columns).startswith("timeouts: 1 of its 3 chunks were written")


@pytest.mark.parametrize("chunks", [None, (4,)])
@pytest.mark.parametrize("columns", [None, {"obs": "observations"}])
@pytest.mark.parametrize("name", ["rewards", "actions"])
def test_arrays_of_which_nothing_was_written(
    name: str, columns: dict[str, str] | None, chunks: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """A reward that is always 0 is written as such, and then it is taken."""
    path = write(tmp_path / "log.h5", {key: a for key, a in d4rl().items() if key != name})
    with h5py.File(path, "a") as file:
        file.create_dataset(name, (12,), "f4", chunks=chunks)
    said = f"{name}: was declared and never written, so that what it holds is made up;"
    assert refusal(path, columns=columns) == f"{said} write its values, zeros too, or leave it out"
    with h5py.File(path, "a") as file:
        file[name][:] = 0
    assert len(TransitionDataset.load(path, columns=columns)) == 12


@pytest.mark.parametrize("chunks", [None, (4,)])
@pytest.mark.parametrize("columns", [None, {"obs": "observations"}])
@pytest.mark.parametrize("name", ["terminals", "timeouts"])
def test_flags_that_were_never_set(
    name: str, columns: dict[str, str] | None, chunks: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """A recorder makes room for them and writes where something ends; one that ends everything unless it is told
    otherwise is no flag."""
    other = {"terminals": "timeouts", "timeouts": "terminals"}[name]
    kept = {key: a for key, a in d4rl().items() if key not in (name, other)}
    path = write(tmp_path / "log.h5", {**kept, other: np.arange(12) % 6 == 5})
    with h5py.File(path, "a") as file:
        file.create_dataset(name, (12,), bool, chunks=chunks)
    dataset = TransitionDataset.load(path, columns=columns)
    assert (dataset.terminations.sum(), dataset.truncations.sum()) == ((0, 2) if name == "terminals" else (2, 0))
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_dataset(name, (12,), bool, chunks=chunks, fillvalue=True)
    assert refusal(path, columns=columns).startswith(f"{name}: was declared and never written")


def test_arrays_in_the_head_of_the_file_are_always_written(tmp_path: Path) -> None:
    path = write(tmp_path / "log.h5", {key: a for key, a in d4rl().items() if key != "rewards"})
    with h5py.File(path, "a") as file:
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        kind, space = h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((12,))
        h5py.h5d.create(file.id, b"rewards", kind, space, compact)
    assert not TransitionDataset.load(path).rewards.any()


def test_reasons_and_marks_of_which_nothing_was_written(tmp_path: Path) -> None:
    path = write(tmp_path / "log.h5", d4rl())
    with h5py.File(path, "a") as file:
        file.create_dataset("discrete_action", (), bool)
    assert refusal(path).startswith("discrete_action: was declared and never written")
    with h5py.File(path, "a") as file:
        del file["discrete_action"]
        file.create_dataset("why", (12,), h5py.string_dtype())
    columns = {"obs": "observations", "end_reasons": "why"}
    assert refusal(path, columns=columns).startswith("why: was declared and never written")


@pytest.mark.parametrize("kind", ["S8", h5py.string_dtype()])
def test_texts_that_are_declared_without_end(kind: Any, tmp_path: Path) -> None:
    """They were gone through one after another, for days."""
    path = write(tmp_path / "log.h5", d4rl())
    with h5py.File(path, "a") as file:
        file.create_dataset("why", (10**11,), kind, chunks=(60_000,))[:12] = ["", "crash"] * 6
    for field in ("end_reasons", "episode_ids", "step"):
        assert refusal(path, columns={field: "why"}).startswith("declares ")


@pytest.mark.parametrize("kind", ["S10", "f4", h5py.string_dtype()])
@pytest.mark.parametrize("name", ["env_id", "action_high", "names"])
def test_attributes_that_hold_nothing(name: str, kind: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "log.h5", d4rl())
    with h5py.File(path, "a") as file:
        file.attrs[name] = h5py.Empty(kind)
    assert TransitionDataset.load(path).env_id is None


class TestSmallChunks:
    """libhdf5 goes through every chunk that an array declares, written or not, whenever it is read."""

    @pytest.fixture
    def reads(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
        """Where each array that was read lies, and how many rows were read of it at once."""
        made: list[tuple[int, int]] = []
        read = h5py.Dataset.__getitem__

        def counted(array: h5py.Dataset, rows: Any) -> Any:
            values = read(array, rows)
            made.append((hdf5.address(array), len(values) if array.ndim else 1))
            return values

        monkeypatch.setattr(h5py.Dataset, "__getitem__", counted)
        return made

    def test_an_array_of_many_names_is_read_once(self, tmp_path: Path, reads: list[tuple[int, int]]) -> None:
        fields = d4rl()
        with h5py.File(tmp_path / "log.h5", "w") as file:
            for name in ("actions", "rewards", "terminals", "timeouts"):
                file[name] = fields[name]
            array = file.create_dataset("a0", data=np.arange(12.0), chunks=(1,))
            for i in range(1, 50):
                file[f"a{i}"] = array
        columns = {"obs": [f"a{i}" for i in range(50)], **{name: name for name in fields if name != "observations"}}
        raw = hdf5.read(tmp_path / "log.h5", columns)
        np.testing.assert_array_equal(raw.arrays["obs"], np.tile(np.arange(12.0)[:, None], 50))
        assert len(reads) == len(set(reads)) == 5

    def test_of_episodes_that_share_theirs(self, tmp_path: Path, reads: list[tuple[int, int]]) -> None:
        with h5py.File(tmp_path / "log.h5", "w") as file:
            held = {
                "observations": file.create_dataset("observations_0", data=np.ones((4, 2)), chunks=(1, 2)),
                "actions": file.create_dataset("actions_0", data=np.ones((4, 1)), chunks=(1, 1)),
                "rewards": file.create_dataset("rewards_0", data=np.ones((4, 1)), chunks=(1, 1)),
                "terminated": file.create_dataset("terminated_0", data=0),
            }
            for i in range(1, 20):
                for name, array in held.items():
                    file[f"{name}_{i}"] = array
        assert len(hdf5.read(tmp_path / "log.h5").arrays["rewards"]) == 80
        assert sum(rows > 1 for _, rows in reads) == 3

    def test_a_large_chunk_of_texts_is_unpacked_once(self, tmp_path: Path, reads: list[tuple[int, int]]) -> None:
        """More than libhdf5 keeps: for every hundred rows it was unpacked anew, which took minutes."""
        texts = np.array([b"", b"crash"] * 5_000, "S200")
        with h5py.File(write(tmp_path / "log.h5", d4rl(10_000)), "a") as file:
            file.create_dataset("why", data=texts, chunks=texts.shape, compression="gzip")
            assert hdf5.texts_of(file, "why").tolist() == ["", "crash"] * 5_000
        assert [rows for _, rows in reads] == [10_000]

    def test_more_than_can_have_been_written_are_not_gone_through(
        self, tmp_path: Path, reads: list[tuple[int, int]]
    ) -> None:
        """Four million of them took 15 GB."""
        rows = 2**22
        with h5py.File(tmp_path / "log.h5", "w") as file:
            for name, shape in {"observations": (rows, 1), "actions": (rows, 1), "rewards": (rows,)}.items():
                file.create_dataset(name, data=np.zeros(shape, np.int8), chunks=shape, compression="gzip")
            file.create_dataset("terminals", (rows,), bool, chunks=(1,))
        size = (tmp_path / "log.h5").stat().st_size
        assert f"declares 4,194,307 chunks in a file of {size:,} bytes: they were never" in refusal(tmp_path / "log.h5")
        assert not reads

    @pytest.mark.parametrize(("shape", "chunks"), [((99, 2), (2, 1)), ((100,), (1,)), ((3, 40), (1, 1)), ((99,), (7,))])
    def test_a_few_are_read_at_a_time(
        self,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        tmp_path: Path,
        reads: list[tuple[int, int]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(hdf5_chunks, "_PIECES_AT_ONCE", 10)
        values = np.arange(np.prod(shape)).reshape(shape)
        with h5py.File(tmp_path / "log.h5", "w") as file:
            array = file.create_dataset("a", data=values, chunks=chunks)
            np.testing.assert_array_equal(hdf5_chunks.values_in(array), values)
        of_a_band = int(np.prod([-(-n // width) for n, width in zip(shape[1:], chunks[1:], strict=True)]))
        most = chunks[0] * max(1, 10 // of_a_band)
        assert max(rows for _, rows in reads) == most
        assert sum(rows for _, rows in reads) == shape[0]


class TestUserBlock:
    """A program may keep bytes of its own before the file's beginning."""

    def write(self, path: Path, size: int, begins: bytes = b"") -> Path:
        with h5py.File(path, "w", userblock_size=size) as file:
            for name, values in d4rl().items():
                file.create_dataset(name, data=values, chunks=True, compression="gzip")
            file["why"] = np.array(["crash" if end else "" for end in d4rl()["terminals"]], dtype=object)
            file.attrs["env_id"] = "Hopper-v5"
        with path.open("r+b") as raw:
            raw.write(begins)
        return path

    @pytest.mark.parametrize("size", [0, 512, 1024, 4096, 2**20, 2**22])
    def test_is_passed_over(self, size: int, tmp_path: Path) -> None:
        path = self.write(tmp_path / "a.hdf5", size, b"made by a logger\n" if size else b"")
        dataset = TransitionDataset.load(path)
        assert (len(dataset), dataset.n_episodes, dataset.env_id) == (12, 3, "Hopper-v5")
        np.testing.assert_array_equal(dataset.obs, d4rl()["observations"])
        columns = {"obs": "observations", "end_reasons": "why", "truncations": []}
        told = TransitionDataset.load(path, columns=columns, end_reasons={"crash": "termination"})
        assert told.terminations.nonzero()[0].tolist() == [4]

    def test_that_begins_as_an_archive(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "a.hdf5", 2048, b"PK\x03\x04")
        assert TransitionDataset.load(path).n_episodes == 3

    def test_an_archive_with_the_signature_in_it_stays_one(self, tmp_path: Path) -> None:
        arrays = {"obs": np.zeros((200, 2)), "actions": np.zeros(200), "rewards": np.zeros(200), "dones": np.zeros(200)}
        np.savez(tmp_path / "a.npz", **arrays)
        content = bytearray((tmp_path / "a.npz").read_bytes())
        content[1024:1032] = b"\x89HDF\r\n\x1a\n"
        (tmp_path / "a.npz").write_bytes(content)
        assert recognise(tmp_path / "a.npz") == "npz"

    def test_no_zero_bytes_are_to_be_removed(self, tmp_path: Path) -> None:
        """Where the file does not begin where it may, it is refused, and would be destroyed so."""
        path = self.write(tmp_path / "a.hdf5", 0)
        path.write_bytes(b"made,by\na logger\n" + b"\0" * 700 + path.read_bytes())
        assert "not a dataset in a format this version reads" in refusal(path)
        assert "tr -d" not in refusal(path)

    def test_of_matlab_is_not(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "a.mat", 512, b"MATLAB 7.3 MAT-file, Platform: GLNXA64\0")
        assert "it is a file of MATLAB; write its table as CSV" in refusal(path)

    def test_a_signature_elsewhere_is_none(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "a.hdf5", 2048)
        path.write_bytes(b"\0" * 512 + path.read_bytes())
        assert "it begins with b'" in refusal(path)
