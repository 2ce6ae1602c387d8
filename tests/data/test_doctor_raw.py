"""The doctor on fields as a file has them: what a dataset would be refused for, with field, episode and row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from rl_training.data.doctor import Place
from rl_training.data.formats import RawData
from rl_training.environments import Spaces
from sick_data import codes, ends_of, healthy, report_on, without_successors


def changed(field: str, where: Any, value: Any, **changes: Any) -> dict[str, Any]:
    """Healthy data with one place of one field set to a value."""
    arrays = healthy(**changes)
    arrays[field] = np.array(arrays[field], dtype=np.float64 if arrays[field].dtype == np.bool_ else None)
    arrays[field][where] = value
    return arrays


def second_episode(arrays: dict[str, Any]) -> int:
    return int(ends_of(arrays)[0]) + 1


class TestHealthyData:
    def test_have_no_findings(self) -> None:
        report = report_on(healthy())
        assert report.findings == ()
        assert report.ok
        assert report.verdict() == "healthy: no findings"

    def test_nor_without_successors(self) -> None:
        assert report_on(without_successors()).findings == ()

    def test_facts(self) -> None:
        arrays = healthy()
        facts = report_on(arrays).facts
        rows = len(arrays["obs"])
        assert (facts.rows, facts.usable, facts.episodes) == (rows, rows, 24)
        assert (facts.obs_dim, facts.act_dim, facts.successors) == (3, 2, "stored")
        assert (facts.terminated, facts.truncated) == (12, 12)
        assert facts.fields["obs"] == f"float32 {rows:,}×3"
        assert facts.returns is not None
        assert facts.returns.mean == pytest.approx(arrays["rewards"].sum() / 24, rel=1e-5)
        assert sum(facts.returns.counts) == 24
        assert facts.lengths is not None
        assert facts.lengths.mean == pytest.approx(rows / 24)
        assert (facts.action_low, facts.action_high) == ((-1.0, -1.0), (1.0, 1.0))


class TestTheEightCorruptions:
    """Each is caught with its field and, where there is one, its episode and row."""

    @pytest.mark.parametrize("field", ["obs", "actions", "next_obs"])
    @pytest.mark.parametrize(("value", "code"), [(np.nan, "values.nan"), (np.inf, "values.infinite")])
    def test_values_that_are_not_finite(self, field: str, value: float, code: str) -> None:
        row = second_episode(healthy()) + 3
        finding = codes(changed(field, ([row, row, row + 1], [0, 1, 1]), value))[code]
        assert (finding.level, finding.field, finding.count) == ("error", field, 3)
        assert finding.place == Place(row=row, episode=1, step=3, column=0)
        assert "3 values" in finding.what
        assert "in 2 rows of 1 episode (columns 0 and 1)" in finding.what

    def test_too_large_for_float32(self) -> None:
        arrays = healthy(rewards=healthy()["rewards"].astype(np.float64))
        arrays["rewards"][5] = 1e60
        finding = codes(arrays)["values.infinite"]
        assert (finding.field, finding.place.row, finding.place.column) == ("rewards", 5, None)

    def test_unequal_lengths(self) -> None:
        arrays = healthy()
        rows = len(arrays["obs"])
        finding = codes(arrays | {"rewards": arrays["rewards"][:-5]})["fields.length"]
        assert (finding.level, finding.field) == ("error", "rewards")
        assert finding.what.startswith(f"It has {rows - 5:,} rows, but obs has {rows:,}")
        assert (finding.place.row, finding.place.episode) == (rows - 5, 23)

    def test_action_out_of_bounds(self) -> None:
        row = second_episode(healthy())
        spaces = Spaces(3, (-1.0, -1.0), (1.0, 1.0))
        finding = codes(changed("actions", (row, 1), 1.5), spaces=spaces)["actions.outside"]
        assert (finding.level, finding.count) == ("error", 1)
        assert finding.place == Place(row=row, episode=1, step=0, column=1)
        assert "the first is 1.5, outside [-1, 1]" in finding.what

    @pytest.mark.parametrize("field", ["terminations", "truncations"])
    def test_bad_flags(self, field: str) -> None:
        row = second_episode(healthy())
        finding = codes(changed(field, [row, row + 1], 2.0))["flags.values"]
        assert (finding.level, finding.field, finding.count) == ("error", field, 2)
        assert (finding.place.row, finding.place.episode) == (row, 1)
        assert "(the first is 2)" in finding.what

    def test_width_of_next_obs(self) -> None:
        arrays = healthy()
        finding = codes(arrays | {"next_obs": arrays["next_obs"][:, :2]})["fields.width"]
        assert (finding.level, finding.field, finding.place.column) == ("error", "next_obs", 2)
        assert "2 columns, but obs has 3" in finding.what

    def test_no_data(self) -> None:
        report = report_on({name: values[:0] for name, values in healthy().items()})
        assert [(finding.level, finding.code) for finding in report.findings] == [("error", "fields.empty")]

    def test_overlapping_flags(self) -> None:
        arrays = healthy()
        row = int(np.flatnonzero(arrays["truncations"])[0])
        finding = codes(changed("terminations", row, 1.0))["flags.overlap"]
        assert (finding.level, finding.count, finding.place.row, finding.place.episode) == ("warning", 1, row, 1)


class TestFields:
    def test_missing(self) -> None:
        report = report_on(healthy(rewards=None, actions=None))
        assert [(f.code, f.field) for f in report.at("error")] == [
            ("fields.missing", "actions"),
            ("fields.missing", "rewards"),
        ]
        assert report.facts.obs_dim == 3

    def test_of_other_names(self) -> None:
        arrays = healthy()
        arrays["observations"] = arrays.pop("obs")
        assert codes(arrays) == {}

    def test_terminations_are_not_missed_where_episodes_have_ids(self) -> None:
        arrays = healthy()
        ids = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"])))
        assert "fields.missing" not in codes(healthy(terminations=None, truncations=None, episode_ids=ids))

    def test_unknown(self) -> None:
        finding = codes(healthy(rewrds=np.zeros(3)))["fields.unknown"]
        assert (finding.level, finding.field) == ("error", "rewrds")
        assert "did you mean 'rewards'" in finding.advice

    def test_side_information_is_not_unknown(self) -> None:
        assert codes(healthy(**{"infos/qpos": np.zeros((5, 2))})) == {}

    def test_twice(self) -> None:
        assert codes(healthy(observations=healthy()["obs"]))["fields.twice"].field == "obs"

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            (np.array(["a"] * 1332), "fields.dtype"),
            (np.zeros(1332, dtype=np.complex64), "fields.dtype"),
            ([[1.0], [1.0, 2.0]], "fields.dtype"),
            (np.zeros((1332, 2)), "fields.shape"),
            (np.float32(1.0), "fields.shape"),
        ],
    )
    def test_of_the_wrong_kind(self, values: Any, code: str) -> None:
        finding = codes(healthy(rewards=values))[code]
        assert (finding.level, finding.field) == ("error", "rewards")

    def test_pictures(self) -> None:
        assert codes(healthy(obs=np.zeros((1332, 4, 4, 3))))["fields.shape"].field == "obs"

    def test_without_columns(self) -> None:
        assert codes(healthy(actions=np.zeros((1332, 0))))["fields.width"].field == "actions"

    def test_widths_of_the_environment(self) -> None:
        found = [f for f in report_on(healthy(), spaces=Spaces(4, (-1.0,), (1.0,))).findings if f.code == "env.width"]
        assert [(finding.level, finding.field) for finding in found] == [("error", "obs"), ("error", "actions")]
        assert codes(healthy(), spaces=Spaces(3, (-1.0, -1.0), (1.0, 1.0))) == {}


class TestRefusals:
    def test_what_no_other_check_finds_is_told_as_it_is(self) -> None:
        arrays = healthy()
        ids = np.searchsorted(ends_of(arrays), np.arange(len(arrays["obs"]))) % 20
        finding = codes(healthy(episode_ids=ids))["data.refused"]
        assert finding.level == "error"
        assert "episode 0 goes on at row" in finding.what

    def test_other_checks_still_run(self) -> None:
        """A NaN in the rewards does not hide the constant action, and the lengths are still known."""
        arrays = changed("rewards", 7, np.nan)
        arrays["actions"][:, 0] = 0.5
        report = report_on(arrays)
        assert {"values.nan", "actions.constant"} <= {finding.code for finding in report.findings}
        assert report.facts.returns is None
        assert report.facts.lengths is not None
        assert report.facts.episodes == 24

    def test_notes_of_the_reader_are_passed_on(self) -> None:
        from rl_training.data.doctor import examine

        report = examine(RawData(healthy(), "test", notes=("two files were joined",)))
        assert [(f.code, f.what) for f in report.findings] == [("data.read", "Two files were joined.")]

    def test_the_dones_are_no_warning_of_python(self) -> None:
        arrays = healthy(truncations=None)
        arrays["dones"] = arrays.pop("terminations")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert codes(arrays)["flags.dones"].level == "note"

    @pytest.mark.parametrize("seed", range(60))
    def test_nothing_raises(self, seed: int) -> None:
        """Fields are dropped, cut, reshaped, retyped and filled with nonsense, several at a time."""
        rng = np.random.default_rng(seed)
        arrays = healthy(episodes=int(rng.integers(1, 6)))
        for name in rng.choice(list(arrays), int(rng.integers(1, 4)), replace=False):
            values = arrays[name]
            nonsense: list[Any] = [
                None,
                values[: len(values) // 2],
                values[:0],
                values[:1],
                values.reshape(-1),
                values[..., None],
                values.astype(str),
                values.astype(object),
                np.full(values.shape, np.nan),
                np.full(values.shape, 3e38, dtype=np.float64),
                np.zeros(values.shape),
                np.full(values.shape, 7),
                np.float32(1.0),
                [[1.0], [1.0, 2.0]],
                "text",
            ]
            arrays[name] = nonsense[int(rng.integers(len(nonsense)))]
        report = report_on(arrays)
        assert report.to_json()["verdict"] == report.verdict()
