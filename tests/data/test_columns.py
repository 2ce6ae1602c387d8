"""The column directory: written whole, opened without being read, never trusted beyond its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rl_training.data import TransitionDataset, direct_reads
from rl_training.data.batch import PackedTransitions
from rl_training.data.direct_reads import DirectReader
from rl_training.data.formats import columns
from rl_training.data.generation import generate_pendulum_dataset
from rl_training.data.mapped import MappedTransitions
from rl_training.data.space_bounds import SpaceBounds
from rl_training.data.transforms import Transforms
from rl_training.errors import DataError

PLAIN = Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))


@pytest.fixture
def dataset() -> TransitionDataset:
    return generate_pendulum_dataset(1_000, 0).with_next_actions()


@pytest.fixture
def folder(dataset: TransitionDataset, tmp_path: Path) -> Path:
    columns.write(dataset, tmp_path / "log")
    return tmp_path / "log"


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}: ")


def change(folder: Path, **changes: Any) -> None:
    """Entries of the schema, with a SHA-256 that is right."""
    schema = json.loads((folder / "schema.json").read_text())
    del schema["sha256"]
    (folder / "schema.json").write_text(columns.with_sum(json.dumps(schema | changes, indent=1)))


def as_of_version_1(folder: Path, **changes: Any) -> None:
    schema = json.loads((folder / "schema.json").read_text())
    del schema["sha256"]
    (folder / "schema.json").write_text(json.dumps(schema | {"version": 1} | changes, indent=1))


class TestRoundTrip:
    def test_keeps_everything(self, dataset: TransitionDataset, folder: Path) -> None:
        opened = TransitionDataset.load(folder)
        assert opened.to_dict().keys() == dataset.to_dict().keys()
        for name, values in dataset.to_dict().items():
            np.testing.assert_array_equal(getattr(opened, name), values)
        assert opened.fingerprint() == dataset.fingerprint()
        assert opened.summary() == dataset.summary()
        assert opened.episode_ends.tolist() == dataset.episode_ends.tolist()
        columns.verify(folder)

    def test_fields_are_mapped_not_read(self, folder: Path) -> None:
        assert isinstance(TransitionDataset.load(folder).obs, np.memmap)

    def test_any_numpy_reads_the_files(self, dataset: TransitionDataset, folder: Path) -> None:
        np.testing.assert_array_equal(np.load(folder / "obs.npy"), dataset.obs)

    def test_in_blocks_of_whole_episodes(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        cut = int(dataset.episode_ends[1]) + 1
        blocks = (dataset.select(np.arange(cut)), dataset.select(np.arange(cut, len(dataset))))
        columns.ColumnWriter(tmp_path / "log").write_blocks(blocks)
        opened = TransitionDataset.load(tmp_path / "log")
        assert opened.fingerprint() == dataset.fingerprint()
        assert opened.summary() == pytest.approx(dataset.summary())

    def test_a_selection_says_so(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        columns.write(dataset.sample(50, np.random.default_rng(0)), tmp_path / "log")
        assert not TransitionDataset.load(tmp_path / "log").whole_episodes

    def test_bounds_of_very_many_values(self, tmp_path: Path) -> None:
        width = 40_000
        wide = np.random.default_rng(0).normal(size=(4, width)).astype(np.float32)
        rows = {"obs": wide, "actions": np.zeros((4, 1)), "rewards": np.ones(4), "terminations": np.arange(4) == 3}
        bounds = SpaceBounds(obs_low=tuple(wide.min(0).tolist()), obs_high=tuple(wide.max(0).tolist()))
        columns.write(replace(TransitionDataset.from_dict(rows), bounds=bounds), tmp_path / "wide")
        assert TransitionDataset.load(tmp_path / "wide").bounds == bounds


class TestWriting:
    def test_never_over_something(self, dataset: TransitionDataset, folder: Path) -> None:
        with pytest.raises(DataError, match="exists already"):
            columns.write(dataset, folder)

    def test_leaves_nothing_half_done(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        def blocks() -> Any:
            yield dataset
            yield replace(dataset, next_actions=None)

        with pytest.raises(DataError, match="blocks differ in their fields"):
            columns.ColumnWriter(tmp_path / "log").write_blocks(blocks())
        assert list(tmp_path.iterdir()) == []

    def test_blocks_of_other_widths(self, dataset: TransitionDataset, tmp_path: Path) -> None:
        wide = np.zeros((len(dataset), 4), dtype=np.float32)
        with pytest.raises(DataError, match=r"^blocks differ in their widths: obs \(4,\) and \(3,\)$"):
            columns.ColumnWriter(tmp_path / "log").write_blocks([dataset, replace(dataset, obs=wide, next_obs=wide)])
        assert list(tmp_path.iterdir()) == []

    def test_no_rows(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="nothing to write"):
            columns.ColumnWriter(tmp_path / "log").write_blocks([])
        assert list(tmp_path.iterdir()) == []


def damage(folder: Path) -> None:
    """One bit of one reward."""
    raw = bytearray((folder / "rewards.npy").read_bytes())
    raw[200] ^= 1
    (folder / "rewards.npy").write_bytes(raw)


class TestDamage:
    def test_a_changed_value_is_found_by_verifying(self, folder: Path) -> None:
        damage(folder)
        with pytest.raises(DataError, match=r"rewards.npy: damaged \(its SHA-256 is not the schema's\)"):
            columns.verify(folder)

    def test_a_changed_value_is_found_by_reading_it_with_options(self, folder: Path) -> None:
        damage(folder)
        with pytest.raises(DataError) as caught:
            TransitionDataset.load(folder, time_limits="d4rl")
        assert str(caught.value) == f"{folder}: rewards.npy: damaged (its SHA-256 is not the schema's)"

    def test_a_changed_value_is_found_by_packing(self, folder: Path) -> None:
        damage(folder)
        transforms = Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))
        with pytest.raises(DataError, match=r"rewards.npy: damaged \(its SHA-256 is not the schema's\)"):
            MappedTransitions.of_folder(TransitionDataset.load(folder), transforms)
        assert not (folder / ".packed").exists()

    def test_a_value_that_is_not_finite_is_not_trained_on(self, folder: Path) -> None:
        raw = bytearray((folder / "rewards.npy").read_bytes())
        raw[128 + 4 * 17 : 128 + 4 * 18] = np.float32(np.nan).tobytes()
        (folder / "rewards.npy").write_bytes(raw)
        transforms = Transforms(None, None, 1.0, 0.0, (-2.0,), (2.0,))
        said = r"^rewards: nan at row 17 \(episode 0, step 17\) once transforms are applied; all values must be"
        with pytest.raises(DataError, match=said):
            PackedTransitions.from_dataset(TransitionDataset.load(folder), transforms)

    def test_another_fingerprint(self, folder: Path) -> None:
        change(folder, fingerprint="0" * 64)
        with pytest.raises(DataError, match=r"schema.json: damaged \(its fingerprint is not that of the fields\)"):
            columns.verify(folder)

    def test_a_shorter_file(self, folder: Path) -> None:
        path = folder / "obs.npy"
        path.write_bytes(path.read_bytes()[:-4])
        assert refusal(folder) == "obs.npy: has 12,124 bytes, the schema says 12,128"

    def test_another_header(self, folder: Path) -> None:
        path = folder / "obs.npy"
        path.write_bytes(path.read_bytes().replace(b"'<f4'", b"'<i4'"))
        assert refusal(folder) == "obs.npy: its header does not agree with the schema"

    def test_a_missing_field(self, folder: Path) -> None:
        (folder / "obs.npy").unlink()
        assert refusal(folder) == "obs.npy: cannot be read: No such file or directory"

    def test_a_link_out_of_the_folder(self, folder: Path, tmp_path: Path) -> None:
        (folder / "obs.npy").rename(tmp_path / "elsewhere.npy")
        (folder / "obs.npy").symlink_to(tmp_path / "elsewhere.npy")
        assert refusal(folder) == "obs.npy: is a link, and none is followed; put the file itself there"

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"version": 3}, "schema.json: not version 1 or 2 of 'rl_training columns'"),
            ({"format": None}, "schema.json: not version 1 or 2 of 'rl_training columns'"),
            ({"fields": []}, "schema.json: malformed"),
            ({"fields": {}}, "schema.json: lacks a field that every dataset has"),
            ({"fields": {"../obs": {"dtype": "<f4", "shape": [1], "sha256": ""}}}, "schema.json: malformed"),
            ({"fields": {"obs": {"dtype": "|O", "shape": [1], "sha256": ""}}}, "schema.json: malformed"),
            ({"fields": {"obs": {"dtype": "<f4", "shape": [-1], "sha256": ""}}}, "schema.json: malformed"),
            ({"fingerprint": 3}, "schema.json: malformed"),
            ({"summary": None}, "schema.json: malformed"),
        ],
    )
    def test_of_the_schema(self, changes: dict[str, Any], complaint: str, folder: Path) -> None:
        change(folder, **changes)
        assert refusal(folder) == complaint

    @pytest.mark.parametrize(
        ("name", "value", "complaint"),
        [
            ("transitions", -1, "must be a count of its 1,000 rows, got -1"),
            ("usable", 1_001, "must be a count of its 1,000 rows, got 1001"),
            ("episodes", True, "must be a count of its 1,000 rows, got True"),
            ("terminations", 1.5, "must be a count of its 1,000 rows, got 1.5"),
            ("truncations", None, "must be a count of its 1,000 rows, got None"),
            ("length_mean", False, "must be a finite number, got False"),
            ("return_min", float("nan"), "must be a finite number, got nan"),
            ("return_max", float("inf"), "must be a finite number, got inf"),
            ("return_mean", 10**400, "must be a finite number, got 10"),
            ("return_mean", "1", "must be a finite number, got '1'"),
        ],
    )
    def test_of_the_summary(self, name: str, value: Any, complaint: str, folder: Path) -> None:
        summary = json.loads((folder / "schema.json").read_text())["summary"]
        as_of_version_1(folder, summary=summary | {name: value})
        assert refusal(folder).startswith(f"schema.json: summary.{name}: {complaint}")
        assert len(refusal(folder)) < 200

    def test_every_bit_of_the_schema(self, folder: Path) -> None:
        file = folder / "schema.json"
        whole = file.read_bytes()
        for bit in range(8 * len(whole)):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            file.write_bytes(changed)
            with pytest.raises(DataError):
                columns.read_schema(folder)
        file.write_bytes(whole)
        columns.verify(folder)

    def test_another_bound(self, folder: Path) -> None:
        file = folder / "schema.json"
        text = file.read_text()
        file.write_text(text.replace("   2.0\n", "   6.0\n"))
        assert file.read_text() != text
        assert refusal(folder) == "schema.json: damaged (its SHA-256 is not that of what it says)"

    def test_no_json(self, folder: Path) -> None:
        (folder / "schema.json").write_text("[" * 100_000)
        assert refusal(folder).startswith("schema.json: cannot be read (")


class TestVersion1:
    """Schemas without a SHA-256 of their own are read, and it is told."""

    NOTE = "schema.json is of an earlier version, which has no SHA-256 of its own; data convert writes one"

    @pytest.mark.parametrize("options", [{}, {"time_limits": "d4rl"}])
    def test_opens(self, options: Any, folder: Path) -> None:
        now = TransitionDataset.load(folder, **options)
        as_of_version_1(folder)
        before = TransitionDataset.load(folder, **options)
        assert set(before.notes) - set(now.notes) == {self.NOTE}
        assert before.fingerprint() == now.fingerprint()

    def test_is_the_same_data(self, dataset: TransitionDataset, folder: Path, tmp_path: Path) -> None:
        as_of_version_1(folder)
        opened = TransitionDataset.load(folder)
        opened.save(f"{tmp_path}/new/")
        assert json.loads((tmp_path / "new" / "schema.json").read_text())["version"] == 2
        again = TransitionDataset.load(tmp_path / "new")
        assert again.fingerprint() == opened.fingerprint() == dataset.fingerprint()
        assert again.notes == ()

    def test_one_that_has_a_sum_after_all(self, folder: Path) -> None:
        file = folder / "schema.json"
        file.write_text(file.read_text().replace('"version": 2', '"version": 1'))
        assert refusal(folder) == "schema.json: damaged (its SHA-256 is not that of what it says)"


def test_an_episode_does_not_go_on_in_the_next_block(tmp_path: Path) -> None:
    rows = {"obs": np.zeros((5, 1)), "actions": np.zeros((5, 1)), "rewards": np.ones(5), "next_obs": np.zeros((5, 1))}
    block = TransitionDataset.from_dict({**rows, "terminations": np.zeros(5)})
    columns.ColumnWriter(tmp_path / "log").write_blocks([block, block, block])
    opened = TransitionDataset.open(tmp_path / "log")
    assert opened.truncations.nonzero()[0].tolist() == [4, 9, 14]
    assert (opened.summary()["episodes"], opened.summary()["truncations"], opened.n_episodes) == (3, 3, 3)
    columns.write(block, tmp_path / "one")
    assert TransitionDataset.open(tmp_path / "one").fingerprint() == block.fingerprint()


class TestDirectReads:
    """Where they fail, rows come through the map, and are the same."""

    @pytest.fixture
    def mapped(self, folder: Path) -> Iterator[MappedTransitions]:
        mapped = MappedTransitions.of_folder(TransitionDataset.open(folder), PLAIN)
        yield mapped
        mapped.close()

    def read(self, mapped: MappedTransitions) -> None:
        rows = torch.arange(0, 640).view(2, 5, 64)
        out = torch.empty(2, 5, 64, mapped.rows.shape[1])
        mapped.read(rows, out)
        assert torch.equal(out, mapped.rows[rows])

    def test_at_the_first_row(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> None:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(DirectReader, "_read_windows", refuse)
        mapped = MappedTransitions.of_folder(TransitionDataset.open(folder), PLAIN)
        assert mapped._direct is None
        self.read(mapped)
        mapped.close()

    def test_later(self, mapped: MappedTransitions, monkeypatch: pytest.MonkeyPatch) -> None:
        if mapped._direct is None:
            pytest.skip("no direct reads on this file system")
        self.read(mapped)
        monkeypatch.setattr(direct_reads, "_SECTOR", 8)  # offsets that no disk takes
        self.read(mapped)
        assert mapped._direct is None
        self.read(mapped)
