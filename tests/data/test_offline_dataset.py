"""`TransitionDataset`: names, conversions, episodes, derived fields, files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError


def raw() -> dict[str, Any]:
    """Six rows: 0-1 terminated, 2-4 truncated, 5 cut off with no flag. Actions are 0, 1, ... 5."""
    return {
        "obs": np.arange(12.0).reshape(6, 2),
        "actions": np.arange(6.0),
        "rewards": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "next_obs": np.arange(12.0).reshape(6, 2) + 2,
        "terminations": [0, 1, 0, 0, 0, 0],
        "truncations": [0, 0, 0, 0, 1, 0],
    }


def complete() -> TransitionDataset:
    return TransitionDataset.from_dict(raw()).with_next_actions().with_returns_to_go(0.5)


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.from_dict(data)
    return str(caught.value)


def test_conversions() -> None:
    data = raw()
    data["rewards"] = np.array(data["rewards"]).reshape(6, 1)
    data["terminations"] = np.array(data["terminations"], dtype=np.float64).reshape(6, 1)
    data["obs"] = np.asfortranarray(data["obs"])
    dataset = TransitionDataset.from_dict(data)
    shapes = {name: (values.shape, values.dtype.name) for name, values in dataset.to_dict().items()}
    assert shapes == {
        "obs": ((6, 2), "float32"),
        "actions": ((6, 1), "float32"),
        "rewards": ((6,), "float32"),
        "next_obs": ((6, 2), "float32"),
        "terminations": ((6,), "bool"),
        "truncations": ((6,), "bool"),
    }
    assert all(values.flags.c_contiguous for values in dataset.to_dict().values())
    assert dataset.fingerprint() == TransitionDataset.from_dict(raw()).fingerprint()
    assert (len(dataset), dataset.obs_dim, dataset.act_dim) == (6, 2, 1)


@pytest.mark.parametrize("terminal", ["terminals", "terminated", "dones", "done", "terminations"])
@pytest.mark.parametrize("timeout", ["timeouts", "truncated", "truncation"])
@pytest.mark.parametrize("plural", ["s", ""])
def test_other_names_for_the_same_fields(terminal: str, timeout: str, plural: str) -> None:
    names = {
        "obs": f"observation{plural}",
        "actions": f"action{plural}",
        "rewards": f"reward{plural}",
        "next_obs": f"next_observation{plural}",
        "terminations": terminal,
        "truncations": timeout,
    }
    renamed = {names[name]: values for name, values in raw().items()}
    extra = {"infos/qpos": "ignored", "metadata/algorithm": "ignored", "next_actions": None}
    dataset = TransitionDataset.from_dict(renamed | extra)
    assert dataset.fingerprint() == TransitionDataset.from_dict(raw()).fingerprint()


def test_unknown_doubled_and_missing_names() -> None:
    assert refusal(raw() | {"reward_s": 0}) == "unknown field 'reward_s'; did you mean 'rewards'?"
    assert refusal(raw() | {"reward": [0] * 6}) == "rewards: given twice, as 'rewards' and 'reward'; keep one"
    assert refusal({"observations": [0.0], "acts": [1.0]}).startswith("unknown field 'acts'; did you mean 'act'?")
    assert refusal({"observations": [0.0], "done": [1]}) == ("dataset lacks actions, rewards; found observations, done")
    assert refusal({}) == "dataset lacks obs, actions, rewards, terminations; found nothing"


def test_truncations_default_to_none_and_no_flag_is_invented() -> None:
    data = raw()
    del data["truncations"]
    dataset = TransitionDataset.from_dict(data)
    assert dataset.truncations.tolist() == [False] * 6
    assert dataset.terminations.tolist() == [False, True, False, False, False, False]
    assert dataset.episode_ends.tolist() == [1, 5]


def test_dones_that_also_mean_truncated_are_refused() -> None:
    data = raw()
    del data["terminations"]
    message = refusal(data | {"dones": [0, 1, 0, 0, 1, 0]})
    assert message.startswith("dones: set on every truncated row, so it seems to mean 'terminated or truncated'")
    assert TransitionDataset.from_dict(data | {"dones": [0, 1, 0, 0, 0, 0]}).terminations.sum() == 1


def test_episodes() -> None:
    dataset = TransitionDataset.from_dict(raw())
    assert dataset.episode_ends.tolist() == [1, 4, 5]
    assert dataset.episode_ids.tolist() == [0, 0, 1, 1, 1, 2]
    assert dataset.episode_ids.dtype == np.int64
    assert dataset.n_episodes == 3
    assert dataset.episode_lengths().tolist() == [2, 3, 1]
    assert dataset.episode_returns().tolist() == [3.0, 28.0, 32.0]
    assert dataset.episode_returns().dtype == np.float64


def test_summary() -> None:
    dataset = TransitionDataset.from_dict(raw())
    assert dataset.summary() == {
        "transitions": 6,
        "usable": 6,
        "episodes": 3,
        "return_mean": 21.0,
        "return_min": 3.0,
        "return_max": 32.0,
        "length_mean": 2.0,
        "terminations": 1,
        "truncations": 1,
        "obs_dim": 2,
        "act_dim": 1,
        "fingerprint": dataset.fingerprint(),
    }


def test_next_actions_never_cross_a_border() -> None:
    dataset = TransitionDataset.from_dict(raw()).with_next_actions()
    assert dataset.next_actions is not None
    assert dataset.next_actions[:, 0].tolist() == [1, 1, 3, 4, 4, 5]


def test_returns_to_go_never_cross_a_border() -> None:
    dataset = TransitionDataset.from_dict(raw()).with_returns_to_go(0.5)
    assert dataset.returns_to_go is not None
    assert dataset.returns_to_go.tolist() == [2, 2, 4 + 4 + 4, 8 + 8, 16, 32]
    scaled = dataset.with_returns_to_go(1.0, rewards=np.ones(6))
    assert scaled.returns_to_go is not None
    assert scaled.returns_to_go.tolist() == [2, 1, 3, 2, 1, 1]
    assert scaled.rewards.tolist() == raw()["rewards"]
    with pytest.raises(DataError, match=r"rewards: shape \(5,\), but the dataset has 6 rows"):
        dataset.with_returns_to_go(1.0, rewards=np.ones(5))


def test_fingerprint_sees_every_field_and_every_bit() -> None:
    base = complete()
    prints = {base.fingerprint(), TransitionDataset.from_dict(raw()).fingerprint()}
    for name, values in base.to_dict().items():
        changed = {key: array.copy() for key, array in base.to_dict().items()}
        changed[name][0] = ~values[0] if values.dtype == bool else np.nextafter(values[0], np.float32(9.0))
        prints.add(TransitionDataset.from_dict(changed).fingerprint())
    assert len(prints) == 2 + 8
    assert complete().fingerprint() == base.fingerprint()


def test_select_keeps_optional_fields() -> None:
    part = complete().select(np.array([5, 0]))
    assert part.next_actions is not None
    assert part.returns_to_go is not None
    assert part.actions[:, 0].tolist() == [5, 0]
    assert part.next_actions[:, 0].tolist() == [5, 1]
    assert part.returns_to_go.tolist() == [32, 2]
    masked = complete().select(np.array([False, True, False, False, True, False]))
    assert masked.rewards.tolist() == [2.0, 16.0]
    with pytest.raises(DataError, match="rows: indices -1 to 3; the dataset has 0 to 5"):
        complete().select(np.array([3, -1]))


@pytest.mark.parametrize(
    ("rows", "whole"),
    [([2, 3, 4, 0, 1], True), ([3, 4, 5], True), ([0, 1], True), ([0, 2], False), ([5, 0], False), ([3, 2], False)],
)
def test_what_must_not_cross_a_border_needs_the_borders(rows: list[int], whole: bool) -> None:
    part = TransitionDataset.from_dict(raw()).select(np.array(rows))
    assert part.whole_episodes is whole
    if whole:
        expected = {(2, 3, 4, 0, 1): [3, 4, 4, 1, 1], (3, 4, 5): [4, 4, 5], (0, 1): [1, 1]}[tuple(rows)]
        filled = part.with_next_actions().next_actions
        assert filled is not None
        assert filled[:, 0].tolist() == expected
    else:
        with pytest.raises(DataError, match=r"^next_actions: the rows were sampled or reordered; compute it on the"):
            part.with_next_actions()
        with pytest.raises(DataError, match=r"^returns_to_go: the rows were sampled or reordered"):
            part.with_returns_to_go(0.9)


def test_samples_are_rows_of_the_dataset_and_follow_the_generator() -> None:
    dataset = complete()
    batch = dataset.sample(1000, np.random.default_rng(1))
    rows = batch.actions[:, 0].astype(int)
    assert len(batch) == 1000
    assert set(rows) == set(range(6))
    assert batch.fingerprint() == dataset.select(rows).fingerprint()
    assert batch.fingerprint() == dataset.sample(1000, np.random.default_rng(1)).fingerprint()
    assert batch.fingerprint() != dataset.sample(1000, np.random.default_rng(2)).fingerprint()
    assert not batch.whole_episodes


@pytest.mark.parametrize("optional", [True, False])
def test_file_round_trip(tmp_path: Path, optional: bool) -> None:
    dataset = complete() if optional else TransitionDataset.from_dict(raw())
    path = tmp_path / "new" / "data.npz"
    dataset.save(path)
    loaded = TransitionDataset.load(path)
    assert loaded.fingerprint() == dataset.fingerprint()
    assert loaded.to_dict().keys() == dataset.to_dict().keys()
    assert loaded.whole_episodes
    assert [entry.name for entry in path.parent.iterdir()] == ["data.npz"]


def test_a_saved_sample_remembers_that_it_lost_the_borders(tmp_path: Path) -> None:
    sample = complete().sample(8, np.random.default_rng(0))
    sample.save(tmp_path / "sample.npz")
    loaded = TransitionDataset.load(tmp_path / "sample.npz")
    assert loaded.fingerprint() == sample.fingerprint()
    assert not loaded.whole_episodes


def test_a_failed_save_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.npz"
    complete().save(path)
    before = path.read_bytes()

    def full_disk(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(DataError, match=r"data\.npz: cannot be written: No space left on device$"):
        TransitionDataset.from_dict(raw()).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.npz"]
    with pytest.raises(DataError, match=r"data\.dat: must end in \.npz, \.hdf5, \.h5, \.parquet, \.csv or in / "):
        complete().save(tmp_path / "data.dat")


def load_refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_files_that_are_no_dataset(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    assert load_refusal(path) == "no such file"
    path.write_text("no table\n1 2\n")
    assert load_refusal(path).startswith("not a dataset in a format this version reads")
    np.savez(path, obs=np.zeros((2, 1)))
    assert load_refusal(path).startswith("lacks actions, rewards, terminations")
    np.savez(path, **(raw() | {"rewards": np.array([{}] * 6)}))
    assert load_refusal(path) == "rewards.npy: holds Python objects; give plain numbers"
    np.savez(path, **(raw() | {"rewards": [1, 2, 3, 4, np.nan, 6]}))
    assert load_refusal(path).startswith("rewards: NaN at row 4 (episode 1, step 2)")
    assert load_refusal(tmp_path).startswith("not a folder this version reads")


def test_damage_anywhere_in_a_file_is_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    dataset = complete()
    dataset.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(whole), 400).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            assert TransitionDataset.load(path).fingerprint() == dataset.fingerprint()
        except DataError:
            refused += 1
    assert refused > 200
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert load_refusal(path).startswith("not a readable .npz file" if length else "not a dataset in a format")


def test_a_header_cannot_ask_for_more_than_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**22)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("obs.npy", header.getvalue() + bytes(8))
    assert load_refusal(path) == "obs.npy: damaged (its header and its size do not agree)"


def test_arrays_of_other_names_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    odd = {"pos": np.zeros((4, 2)), "vel": np.ones(4), "u": np.zeros(4), "r": np.ones(4), "end": np.arange(4) == 1}
    np.savez(path, **odd, seed=np.array(7), names=np.array(["a", "b"]))
    mapping = {"obs": ["pos", "vel"], "actions": "u", "rewards": "r", "terminations": "end"}
    dataset = TransitionDataset.load(path, columns=mapping)
    assert dataset.obs[0].tolist() == [0.0, 0.0, 1.0]
    assert (dataset.n_episodes, dataset.notes) == (2, ("columns not used: seed, names",))
    for wrong, complaint in (
        ({"obs": "poss"}, "columns.obs: no column 'poss'; did you mean 'pos'?"),
        ({"rewards": "seed"}, "column 'seed': holds 7, not one value per row"),
        ({"rewards": "names"}, "columns 'names' and 'pos' have 2 and 4 rows; all must agree"),
        ({"state": "pos"}, "columns: no field 'state'"),
    ):
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(path, columns=mapping | wrong)
        assert str(caught.value).removeprefix(f"{path}: ").startswith(complaint)
    np.savez(path, weather=np.zeros(4))
    assert load_refusal(path) == (
        "lacks obs, actions, rewards, terminations (or episode_ids); the data have weather;"
        " say which columns hold them with columns: {obs: …}"
    )


def test_a_selection_read_by_a_mapping_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    TransitionDataset.from_dict(raw()).sample(5, np.random.default_rng(0)).save(path)
    assert not TransitionDataset.load(path, columns={"obs": "obs"}).whole_episodes


def test_a_file_larger_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, obs=np.zeros((2**20, 4), dtype=np.float32))
    assert path.stat().st_size < 2**17
    monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 2**23)
    assert load_refusal(path) == "needs 48.0 MiB of memory to be read, but only 8.0 MiB are free"
