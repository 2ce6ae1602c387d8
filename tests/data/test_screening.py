"""What training looks at before it starts: the doctor's errors are refused, its warnings told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset, load_dataset
from rl_training.data.dataset_loaders import FileDatasetConfig, MixtureDatasetConfig, infer_spaces, screen_arrays
from rl_training.data.doctor import describe
from rl_training.data.doctor.screening import screen
from rl_training.data.formats import RawData, read
from rl_training.data.resolution import is_coarse
from rl_training.data.space_bounds import SpaceBounds
from rl_training.errors import ConfigError, DataError
from rl_training.runtime.trainer import Trainer
from sick_data import codes, ends_of, healthy, report_on
from small_runs import small_config


def copied() -> dict[str, Any]:
    return healthy(next_obs=healthy()["obs"])


def after_reset() -> dict[str, Any]:
    arrays = healthy()
    cuts = np.flatnonzero(arrays["truncations"])[:-1]
    arrays["next_obs"][cuts] = arrays["obs"][cuts + 1]
    return arrays


def two_rows() -> dict[str, Any]:
    arrays = healthy(next_obs=None)
    arrays["truncations"][np.flatnonzero(arrays["truncations"]) - 1] = True
    return arrays


def overlapping() -> dict[str, Any]:
    arrays = healthy()
    return arrays | {"terminations": arrays["terminations"] | arrays["truncations"]}


def shifted() -> dict[str, Any]:
    return healthy(next_obs=np.roll(healthy()["next_obs"], -3, axis=0))


def one_overlap() -> dict[str, Any]:
    arrays = healthy()
    arrays["truncations"][ends_of(arrays)[0]] = True
    return arrays


def outlier() -> dict[str, Any]:
    arrays = healthy()
    arrays["actions"][83, 1] = 1e6
    return arrays


def far_offset() -> dict[str, Any]:
    arrays = healthy(next_obs=None)
    arrays["obs"] = arrays["obs"].astype(np.float64)
    arrays["obs"][:, 0] = 5.4e6 + 0.01 * arrays["obs"][:, 0]
    return arrays


ERRORS = {
    "successors.copied": copied,
    "successors.reset": after_reset,
    "flags.two-rows": two_rows,
    "flags.overlap": overlapping,
    "values.resolution": far_offset,
}


def far_reward() -> dict[str, Any]:
    arrays = healthy()
    arrays["rewards"][41] = 1e9
    return arrays


WARNINGS = {
    "rewards.far-out": far_reward,
    "successors.mismatch": shifted,
    "flags.overlap": one_overlap,
    "actions.outside": outlier,
}


def save(folder: Path, arrays: dict[str, Any]) -> Path:
    path = folder / "log.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("code", ERRORS)
class TestErrors:
    def test_are_refused_with_a_place_and_a_way(self, code: str, tmp_path: Path) -> None:
        path = save(tmp_path, ERRORS[code]())
        with pytest.raises(DataError) as refusal:
            load_dataset(FileDatasetConfig(path=path), None, None)
        text = str(refusal.value)
        assert text.startswith(f"{path}: ")
        assert f"[{code}]" in text
        assert "row " in text or "Column 0 " in text
        assert text.endswith(f"dataset: {{source: file, path: …, accept: [{code}]}}")
        assert "\n" not in text

    def test_are_accepted_by_name_and_told(self, code: str, tmp_path: Path) -> None:
        config = FileDatasetConfig(path=save(tmp_path, ERRORS[code]()), accept=[code])
        (note,) = [note for note in load_dataset(config, None, None).notes if note.startswith("warning: ")]
        assert f"[{code}]" in note

    def test_are_the_doctors(self, code: str) -> None:
        assert codes(ERRORS[code]())[code].level == "error"

    def test_of_arrays_in_memory(self, code: str, tmp_path: Path) -> None:
        dataset = TransitionDataset.from_dict(ERRORS[code]())
        with pytest.raises(DataError, match=rf"^dataset: .*To train .*: dataset\.accepting\('{code}'\)$"):
            Trainer(small_config(None, tmp_path), dataset=dataset).plan()
        plan = Trainer(small_config(None, tmp_path), dataset=dataset.accepting(code)).plan()
        assert sum(line.startswith("warning: ") for line in plan) == 1

    def test_are_shown_by_info(self, code: str) -> None:
        found = describe(RawData(ERRORS[code](), "test")).warnings
        assert [(finding.level, finding.code) for finding in found] == [("error", code)]


@pytest.mark.parametrize("code", WARNINGS)
def test_warnings_are_told_once_and_trained_on(code: str, tmp_path: Path) -> None:
    path = save(tmp_path, WARNINGS[code]())
    plan = Trainer(small_config(path, tmp_path)).plan()
    (warning,) = [line for line in plan if line.startswith("warning: ")]
    assert f"[{code}]" in warning
    assert "(episode " in warning
    found = describe(read(path)).warnings
    assert [(finding.level, finding.code) for finding in found] == [("warning", code)]


def test_sound_data_say_nothing(tmp_path: Path) -> None:
    for changes in ({}, {"next_obs": None}):
        dataset = TransitionDataset.from_dict(healthy(**changes))
        assert screen(dataset, bounds_known=False) == []
        assert screen_arrays(dataset, None).notes == ()


def test_notes_are_not_told_twice(tmp_path: Path) -> None:
    dataset = load_dataset(FileDatasetConfig(path=save(tmp_path, shifted())), None, None)
    assert screen_arrays(dataset, None).notes == dataset.notes


def test_an_unknown_code_is_no_way_out(tmp_path: Path) -> None:
    section = {"source": "file", "path": "log.npz", "accept": ["successors.copy"]}
    with pytest.raises(ConfigError, match="accept"):
        small_config(None, tmp_path, dataset=section)


def test_a_part_of_a_mixture(tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", **healthy())
    np.savez(tmp_path / "bad.npz", **copied())
    parts = [{"dataset": str(tmp_path / name)} for name in ("good.npz", "bad.npz")]
    with pytest.raises(DataError, match=r"bad\.npz: next_obs \[successors\.copied\]"):
        load_dataset(MixtureDatasetConfig(parts=parts), None, None)
    np.savez(tmp_path / "bad.npz", **shifted())
    (note,) = load_dataset(MixtureDatasetConfig(parts=parts), None, None).notes
    assert note.startswith("warning: bad.npz: next_obs [successors.mismatch]")


def test_a_column_directory_keeps_its_fingerprint(tmp_path: Path) -> None:
    TransitionDataset.from_dict(shifted()).save(f"{tmp_path}/log/")
    opened = load_dataset(FileDatasetConfig(path=tmp_path / "log"), None, None)
    assert "_fingerprint" in vars(opened)
    assert "successors.mismatch" in opened.notes[0]


def test_the_quick_way_finds_what_the_long_one_does() -> None:
    """Sampled where most rows differ, by slices where few do."""
    rng = np.random.default_rng(0)
    rows = 70_000
    obs = rng.normal(size=(rows, 3)).astype(np.float32)
    arrays = healthy(
        obs=obs, next_obs=np.roll(obs, -1, axis=0), actions=rng.uniform(-0.9, 0.9, (rows, 1)), rewards=np.zeros(rows)
    )
    arrays |= {"terminations": np.arange(rows) % 100 == 99, "truncations": np.zeros(rows, dtype=np.bool_)}
    arrays["next_obs"][arrays["terminations"]] += 1.0
    arrays["next_obs"][[5, 66_001]] += 1.0
    found = {finding.code: finding for finding in screen(TransitionDataset.from_dict(arrays), bounds_known=False)}
    finding = found["successors.mismatch"]
    long = codes(arrays)["successors.mismatch"]
    assert (finding.code, finding.count, finding.place) == ("successors.mismatch", 2, long.place)


class TestFewRows:
    """Where the data are too few to tell, nothing is refused."""

    def test_a_few_that_stand_still(self) -> None:
        obs = np.array([[0.0], [0.0], [1.0]])
        arrays = {"obs": obs, "next_obs": obs, "actions": obs, "rewards": obs[:, 0], "terminations": [0, 0, 1]}
        assert all(found.level != "error" for found in report_on(arrays).findings)

    def test_two_episodes_of_one_row(self) -> None:
        arrays = {key: values[:8] for key, values in healthy().items()}
        arrays["terminations"] = np.array([0, 0, 1, 1, 0, 0, 1, 1])
        assert codes(arrays)["flags.two-rows"].level == "warning"


class TestBandits:
    def test_are_no_error(self) -> None:
        arrays = healthy(truncations=None)
        arrays["terminations"] = np.ones(len(arrays["obs"]), dtype=np.bool_)
        found = codes(arrays)
        assert "flags.two-rows" not in found
        assert found["episodes.one-row"].level == "note"
        assert "bandit" in found["episodes.one-row"].what
        assert screen(TransitionDataset.from_dict(arrays), bounds_known=False) == []


class TestBounds:
    def test_info_tells_those_that_are_trained_with(self) -> None:
        raw = RawData(outlier(), "test")
        spaces = infer_spaces(TransitionDataset.from_raw(raw))
        description = describe(raw)
        assert description.facts.action_high == spaces.action_high == description.transforms.action_high
        assert spaces.action_high[1] == 1e6
        assert report_on(outlier()).facts.action_high == spaces.action_high

    def test_a_lone_outlier_among_few_rows(self) -> None:
        arrays = {key: values[:50] for key, values in healthy().items()}
        arrays["actions"] = arrays["actions"] * 3
        arrays["actions"][7, 0] = 1e4
        finding = codes(arrays)["actions.far-out"]
        assert (finding.place.row, finding.place.column) == (7, 0)

    def test_told_ones_that_are_not_kept_to(self) -> None:
        arrays = healthy()
        arrays["actions"][7, 0] = 3.0
        raw = RawData(arrays, "test", bounds=SpaceBounds((-1.0, -1.0), (1.0, 1.0)))
        dataset = TransitionDataset.from_raw(raw)
        (finding,) = screen(dataset, bounds_known=False)
        assert (finding.code, finding.place.row, finding.place.episode) == ("actions.outside", 7, 0)
        assert "as the data tell them" in finding.what
        assert describe(raw).facts.action_high == infer_spaces(dataset).action_high


class TestResolution:
    def test_a_column_that_becomes_constant(self) -> None:
        found = codes(far_offset())
        assert found["values.resolution"].level == "error"
        assert "5,400,000" in found["values.resolution"].what
        assert "obs.constant" not in found

    def test_one_that_loses_most_of_it(self) -> None:
        arrays = far_offset()
        arrays["obs"][:, 0] = (arrays["obs"][:, 0] - 5.4e6) * 100 + 5.4e6
        assert codes(arrays)["values.resolution"].level == "warning"

    @pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e4])
    def test_usual_columns_are_fine(self, size: float) -> None:
        arrays = healthy(next_obs=None)
        arrays["obs"] = arrays["obs"].astype(np.float64) * size + size
        assert "values.resolution" not in codes(arrays)

    def test_rounding_of_float64_is_none(self) -> None:
        arrays = far_offset()
        arrays["obs"][:, 0] = 1e6 * (1.0 + 1e-16 * np.arange(len(arrays["obs"])))
        found = codes(arrays)
        assert "values.resolution" not in found
        assert "obs.constant" in found

    def test_noise_far_below_a_unit_is_not_refused(self) -> None:
        arrays = far_offset()
        arrays["obs"][:, 0] = 1.0 + 1e-9 * (np.arange(len(arrays["obs"])) % 7)
        assert codes(arrays)["values.resolution"].level == "warning"

    @pytest.mark.parametrize("kind", ["int64", "uint64"])
    @pytest.mark.parametrize(("offset", "unit"), [(2**40, 1), (2**60, 1), (1_700_000_000_000_000_000, 20_000)])
    def test_integers_are_never_rounded(self, kind: str, offset: int, unit: int) -> None:
        """In float64 they would be constant, or its noise."""
        arrays = healthy(next_obs=None)
        arrays["obs"] = (offset + unit * np.arange(arrays["obs"].size)).astype(kind).reshape(arrays["obs"].shape)
        assert codes(arrays)["values.resolution"].level == "error"

    def test_integers_that_float64_takes_for_one(self) -> None:
        assert is_coarse(2**60 + np.arange(50)[:, None])

    def test_integers_that_do_not_change(self) -> None:
        assert not is_coarse(np.full((9, 1), 2**60 + 1))

    def test_integers_as_far_apart_as_can_be(self) -> None:
        assert not is_coarse(np.array([[-(2**63)], [2**63 - 1]] * 4))
        assert not is_coarse(np.array([[0], [2**64 - 1]] * 4, dtype=np.uint64))

    def test_integers_of_a_table(self) -> None:
        arrays = healthy(next_obs=None)
        rows = len(arrays["obs"])
        stamps = {"obs_0": 2**60 + np.arange(rows), "obs_1": np.arange(rows)}
        rest = {name: list(values) for name, values in arrays.items() if name not in ("obs", "next_obs")}
        dataset = TransitionDataset.from_table(stamps | rest)
        assert [(found.column, found.constant) for found in dataset.coarse] == [(0, True)]
        with pytest.raises(DataError, match=r"column 'obs_0': its integers change by less than floats of their size"):
            TransitionDataset.from_table(stamps | rest | {"obs_1": 0.5 * np.arange(rows)})
        two = np.stack([2**40 + np.arange(rows), stamps["obs_0"]], axis=1)  # of which float64 shows the first
        with pytest.raises(DataError, match=r"column 'obs_0': its integers change by less than floats of their size"):
            TransitionDataset.from_table(rest | {"obs_0": two, "obs_1": 0.5 * np.arange(rows)})

    def test_columns_of_a_table(self) -> None:
        arrays = far_offset()
        columns = {f"obs_{i}": arrays["obs"][:, i] for i in range(3)} | {"actions": list(arrays["actions"])}
        columns |= {name: arrays[name] for name in ("rewards", "terminations", "truncations")}
        (found,) = TransitionDataset.from_table(columns).coarse
        assert (found.field, found.column, found.constant) == ("obs", 0, True)
