"""Parquet: files, folders, RLlib's layout; twins made here, and the real files where they are at hand."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from real_data import REAL, needs_real_data
from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats import read
from rl_training.data.formats.folders import files_of
from rl_training.data.formats.parquet_footer import Footer
from rl_training.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def columns(rows: int = 60) -> dict[str, Any]:
    """Three episodes of twenty rows, as RLlib logs them."""
    obs = np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32)
    return {
        "obs": tensor(obs),
        "actions": pa.array(np.zeros((rows, 1)).tolist()),
        "rewards": pa.array(np.ones(rows)),
        "dones": pa.array(np.arange(rows) % 20 == 19),
        "agent_index": pa.array(np.zeros(rows, dtype=np.int64)),
        "action_dist_inputs": pa.array(np.zeros((rows, 2)).tolist()),
        "eps_id": pa.array(np.repeat([17, 5, 11], rows // 3)),
        "unroll_id": pa.array(np.repeat([1, 2, 3], rows // 3)),
        "new_obs": tensor(np.r_[obs[1:], np.zeros((1, 3), np.float32)]),
    }


def tensor(values: Any) -> Any:
    return pa.array(values.tolist(), pa.list_(pa.float32()))


TENSOR = {b"ARROW:extension:name": b"ray.data.arrow_tensor", b"ARROW:extension:metadata": b"[3]"}


def rllib_table() -> Any:
    """With the mark that Ray leaves on its tensors, unknown to a reader without Ray."""
    table = pa.table(columns())
    fields = [field.with_metadata(TENSOR) if field.name in ("obs", "new_obs") else field for field in table.schema]
    return table.cast(pa.schema(fields))


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        TransitionDataset.load(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


def in_files(folder: Path, table: Any, rows: int = 5) -> Path:
    """Consecutive files whose names sort as numbers only."""
    folder.mkdir()
    for number, first in enumerate(range(0, len(table), rows)):
        pq.write_table(table.slice(first, rows), folder / f"1_{number}_0.parquet")
    (folder / "_SUCCESS").touch()
    return folder


class TestReading:
    def test_a_file(self, tmp_path: Path) -> None:
        pq.write_table(rllib_table(), tmp_path / "log")  # the name does not matter
        dataset = TransitionDataset.load(tmp_path / "log")
        assert dataset.origin == "Parquet, RLlib's layout"
        assert dataset.episode_lengths().tolist() == [20, 20, 20]

    def test_a_folder_is_one_table(self, tmp_path: Path) -> None:
        pq.write_table(rllib_table(), tmp_path / "whole.parquet")
        folder = in_files(tmp_path / "parts", rllib_table())
        dataset = TransitionDataset.load(folder)
        assert dataset.fingerprint() == TransitionDataset.load(tmp_path / "whole.parquet").fingerprint()
        assert dataset.notes[0] == "12 files, in the order of their names"

    def test_a_lost_file_is_not_stitched_over(self, tmp_path: Path) -> None:
        folder = in_files(tmp_path / "parts", rllib_table())
        (folder / "1_5_0.parquet").unlink()
        dataset = TransitionDataset.load(folder)
        assert dataset.episode_lengths().tolist() == [20, 5, 10, 20]

    def test_names_with_points(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "observation.0": np.arange(4.0),
                "observation.1": -np.arange(4.0),
                "action": np.zeros(4),
                "next.reward": np.ones(4),
                "next.done": [False, True, False, True],
            }
        )
        pq.write_table(table, tmp_path / "a.parquet")
        mapping: Any = {"rewards": "next.reward", "terminations": "next.done"}
        dataset = TransitionDataset.load(tmp_path / "a.parquet", columns=mapping)
        assert dataset.obs[2].tolist() == [2.0, -2.0]
        assert (dataset.origin, dataset.n_episodes) == ("Parquet", 2)

    def test_files_may_differ_in_types_and_hold_no_rows(self, tmp_path: Path) -> None:
        folder = in_files(tmp_path / "parts", rllib_table())
        table = pq.read_table(folder / "1_1_0.parquet")
        place = table.schema.get_field_index("rewards")
        pq.write_table(table.set_column(place, "rewards", pa.array([1] * 5)), folder / "1_1_0.parquet")
        pq.write_table(table.slice(0, 0), folder / "1_99_0.parquet")
        assert TransitionDataset.load(folder).rewards.tolist() == [1.0] * 60

    def test_the_order_of_columns_is_free(self, tmp_path: Path) -> None:
        folder = in_files(tmp_path / "parts", rllib_table())
        expected = TransitionDataset.load(folder).fingerprint()
        table = pq.read_table(folder / "1_1_0.parquet")
        pq.write_table(table.select(table.column_names[::-1]), folder / "1_1_0.parquet")
        assert TransitionDataset.load(folder).fingerprint() == expected

    def test_a_fault_is_told_by_its_file(self, tmp_path: Path) -> None:
        rewards = pa.array([1.0] * 33 + [None] + [1.0] * 26)
        folder = in_files(tmp_path / "parts", pa.table({**columns(), "rewards": rewards}))
        assert refusal(folder).startswith(
            "rewards: NaN at row 3 of 1_6_0.parquet, column 'rewards' (episode named 5, step 13)"
        )
        (finding,) = examine(read(folder)).at("error")
        assert str(finding.place) == "row 3 of 1_6_0.parquet, column 'rewards' (episode named 5, step 13)"

    def test_a_bad_cell_is_told_by_its_file(self, tmp_path: Path) -> None:
        given = columns()
        ids, rewards = given["eps_id"].to_pylist(), given["rewards"].to_pylist()
        ids[13] = None
        folder = in_files(tmp_path / "ids", pa.table({**given, "eps_id": ids}))
        assert refusal(folder) == f"{files_of(folder, 'parquet')[2].name}: column 'eps_id': row 3 has no episode"
        rewards = [*map(str, rewards[:13]), "much", *map(str, rewards[14:])]
        folder = in_files(tmp_path / "words", pa.table({**given, "rewards": rewards}))
        assert refusal(folder).startswith(
            f"{files_of(folder, 'parquet')[2].name}: column 'rewards': 'much' at row 3 is not a"
        )

    def test_one_file_is_open_at_a_time(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[Any] = []

        class Watched(pq.ParquetFile):  # type: ignore[misc, unused-ignore]
            def __init__(self, *args: Any, **options: Any) -> None:
                assert all(file.closed for file in opened)
                super().__init__(*args, **options)
                opened.append(self)

        monkeypatch.setattr("pyarrow.parquet.ParquetFile", Watched)
        TransitionDataset.load(in_files(tmp_path / "parts", rllib_table()))
        assert len(opened) >= 12
        assert all(file.closed for file in opened)

    @pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
    def test_episodes_may_have_names(self, kind: Any, tmp_path: Path) -> None:
        names = pa.array(np.repeat(["ä", "b", "c"], 20).tolist()).cast(kind)
        pq.write_table(pa.table({**columns(), "eps_id": names}), tmp_path / "a.parquet", row_group_size=7)
        assert TransitionDataset.load(tmp_path / "a.parquet").episode_lengths().tolist() == [20, 20, 20]

    def test_columns_that_are_not_used_are_not_read(self, tmp_path: Path) -> None:
        table = pa.table({**columns(), "junk": pa.array([b"x"] * 60)})
        pq.write_table(table, tmp_path / "a.parquet")
        notes = TransitionDataset.load(tmp_path / "a.parquet").notes
        assert notes[0] == "columns not used: action_dist_inputs, unroll_id, junk"


class TestRefusals:
    def test_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pq.write_table(rllib_table(), tmp_path / "a.parquet")
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        for name in ("arrow", "parquet"):
            monkeypatch.delitem(sys.modules, f"rl_training.data.formats.{name}", raising=False)
            monkeypatch.delattr(f"rl_training.data.formats.{name}", raising=False)
        assert refusal(tmp_path / "a.parquet") == "reading Parquet needs pyarrow: pip install 'rl-training[parquet]'"

    def test_files_that_do_not_belong_together(self, tmp_path: Path) -> None:
        folder = in_files(tmp_path / "parts", rllib_table())
        pq.write_table(pa.table(columns() | {"a": [1] * 60}).drop_columns(["obs"]), folder / "1_3_0.parquet")
        assert refusal(folder) == "1_3_0.parquet: has other columns than 1_0_0.parquet: it lacks obs and has a besides"

    def test_packed_episodes(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"item": [b"x"], "eps_id": ["a"], "agent_id": ["b"]}), tmp_path / "a.parquet")
        assert refusal(tmp_path / "a.parquet") == (
            "RLlib's packed episodes (column 'item') cannot be read; record with output_write_episodes=False"
        )

    def test_a_bomb_is_measured_before_it_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One value repeated takes next to nothing in the file."""
        monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 2**20)
        rows = 500_000
        zeros = pa.array(np.zeros(rows))
        table = pa.table({"obs": zeros, "actions": zeros, "rewards": zeros, "dones": np.zeros(rows, bool)})
        pq.write_table(table, tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 2**20
        monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", lambda *_, **__: pytest.fail("was read"))
        assert refusal(tmp_path / "a.parquet").startswith(
            "needs 71.5 MiB of memory to be read, but only 1.0 MiB are free"
        )

    @pytest.mark.parametrize("is_folder", [False, True])
    def test_what_was_packed_to_mislead_is_refused_before_it_is_read(
        self, is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """However much memory is free."""
        zeros = pa.array(np.zeros(1_500_000 if is_folder else 3_000_000))
        names = ("obs", "actions", "rewards", "terminated", "truncated")
        plain = {"compression": "none", "data_page_size": 2**30, "write_statistics": False}
        place = tmp_path / "data" if is_folder else tmp_path
        place.mkdir(exist_ok=True)
        for name in ("a", "b")[: 1 + is_folder]:
            file = place / f"{name}.parquet"
            pq.write_table(pa.table(dict.fromkeys(names, zeros)), file, row_group_size=len(zeros), **plain)
        monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 2**50)
        monkeypatch.setattr("rl_training.data.formats.limits._ALWAYS_FINE", 2**25)
        monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", lambda *_, **__: pytest.fail("was read"))
        assert "declares 114.4 MiB of values but stores 0.0 MiB" in refusal(place if is_folder else file)

    def test_no_more_is_taken_as_stored_than_the_file_has(self) -> None:
        footer = Footer(file_size=1000, stored={"obs": 900, "actions": 2**40, "other": 5})
        assert (footer.stored_of(["obs"]), footer.stored_of(["obs", "actions"])) == (900, 1000)

    def test_long_words_in_every_row(self, tmp_path: Path) -> None:
        """One word of a megabyte, a gigabyte in the end."""
        word = pa.DictionaryArray.from_arrays(np.zeros(60, np.int32), pa.array(["x" * 2**20]))
        pq.write_table(pa.table({**columns(), "eps_id": word}), tmp_path / "a.parquet")
        pa_bytes = pa.total_allocated_bytes()
        assert refusal(tmp_path / "a.parquet") == (
            "column 'eps_id': holds a text of 1,048,576 bytes; at most 256 are read"
        )
        assert pa.total_allocated_bytes() - pa_bytes < 2**23

    def test_a_column_that_comes_along_is_measured_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """pyarrow reads `obs.x` whenever `obs` is asked for."""
        monkeypatch.setattr("rl_training.data.formats.limits.free_memory", lambda: 2**20)
        pq.write_table(pa.table({**columns(), "obs.x": pa.array(["x" * 2**20] * 60)}), tmp_path / "a.parquet")
        assert refusal(tmp_path / "a.parquet").endswith("of memory to be read, but only 1.0 MiB are free")

    @pytest.mark.parametrize(
        ("name", "values", "complaint"),
        [
            ("obs", [{"x": 1.0}] * 60, "Arrow type struct<x: double> is not supported; give numbers or lists"),
            ("obs", [b"x"] * 60, "Arrow type binary is not supported"),
            ("obs", pa.array([b"x"] * 60, pa.binary(1)), "Arrow type fixed_size_binary[1] is not supported"),
            ("obs", [["1", "2"]] * 60, "holds lists of texts; give lists of numbers"),
            ("obs", [[[b"1"]]] * 60, "holds lists of binary; give lists of numbers"),
            ("obs", [[1.0, 2.0]] * 59 + [[1.0]], "row 59 has 1 value, row 0 has 2; all must have as many"),
            ("obs", [[1.0, 2.0]] * 59 + [None], "row 59 is empty"),
            ("rewards", [["a"]] * 60, "'a' at row 0 is not a number"),
            ("eps_id", [[1, 2]] * 60, "holds lists; the episode of a row is one number or name"),
        ],
    )
    def test_columns_of_other_types(self, name: str, values: Any, complaint: str, tmp_path: Path) -> None:
        pq.write_table(pa.table({**columns(), name: values}), tmp_path / "a.parquet")
        assert refusal(tmp_path / "a.parquet").startswith(f"column {name!r}: {complaint}")

    @pytest.mark.parametrize(
        "also",
        [
            b"\x06\x06\x00",  # the number of rows once more
            b"\x09\x04\x0c",  # the schema once more, empty
        ],
    )
    def test_a_footer_that_says_things_twice(
        self, also: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(rllib_table(), path)
        whole = path.read_bytes()
        assert whole[-9] == 0  # the end of the structure
        length = int.from_bytes(whole[-8:-4], "little") + len(also)
        path.write_bytes(whole[:-9] + also + b"\0" + length.to_bytes(4, "little") + b"PAR1")
        monkeypatch.setattr("pyarrow.parquet.ParquetFile", lambda *_: pytest.fail("was opened"))
        assert refusal(path) == "not a readable Parquet file (its footer is damaged)"

    def test_columns_inside_columns_without_end(self, tmp_path: Path) -> None:
        element = b"\x48\x01a\x15\x02\x00"  # a name, and one child
        footer = b"\x15\x02\x19\xfc\x90\x4e" + element * 10_000 + b"\x16\x00\x19\x0c\x00"
        path = tmp_path / "a.parquet"
        path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        assert refusal(path) == "not a readable Parquet file (its footer is damaged)"

    def test_hidden_files_only(self, tmp_path: Path) -> None:
        (tmp_path / "_a.parquet").touch()
        assert refusal(tmp_path) == "its Parquet files are all hidden ones (. or _ before the name)"

    def test_truncated(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(rllib_table(), path)
        whole = path.read_bytes()
        for length in (4, 8, 100, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            assert refusal(path).startswith("not a readable Parquet file (")
        folder = in_files(tmp_path / "parts", rllib_table())
        (folder / "1_2_0.parquet").write_bytes(whole[:50])
        assert refusal(folder).startswith("1_2_0.parquet: not a readable Parquet file (")

    def test_damage_gives_a_line(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(rllib_table(), path, compression="none")
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        lines: list[str] = []
        for place in rng.integers(0, len(whole), 300).tolist():
            damaged = bytearray(whole)
            damaged[place] ^= int(rng.integers(1, 256))
            path.write_bytes(damaged)
            try:
                TransitionDataset.load(path)
            except DataError as error:
                lines.append(str(error))
        assert lines
        assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("error", [OSError("Failed to launch worker thread: try again"), MemoryError()])
def test_what_the_system_lacks_is_no_fault_of_the_file(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns()), path)

    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(pq.ParquetFile, "read", fails)
    assert "cannot be read (" in (said := refusal(path))
    assert "see `ulimit -u` and `ulimit -v`" in said
    assert "not a readable Parquet file" not in said


@needs_real_data
class TestRealFiles:
    FOLDER = REAL / "rllib" / "pendulum-v1_large"

    def test_rows_and_episodes(self) -> None:
        dataset = TransitionDataset.load(self.FOLDER)
        assert dataset.origin == "Parquet, RLlib's layout"
        assert (len(dataset), dataset.n_usable) == (600, 597)
        assert dataset.episode_lengths().tolist() == [200, 200, 200]
        assert dataset.episode_returns().mean() == pytest.approx(-255.99, abs=0.01)

    def test_dones_are_time_limits_unless_one_says_otherwise(self) -> None:
        dataset = TransitionDataset.load(self.FOLDER)
        assert dataset.terminations.sum() == 0
        assert dataset.truncations.nonzero()[0].tolist() == [199, 399, 599]
        assert any("all 3 episodes they end have 200 rows" in note for note in dataset.notes)
        said = TransitionDataset.load(self.FOLDER, dones_are="terminations")
        assert (said.terminations.sum(), said.n_usable) == (3, 600)

    def test_the_doctor_knows_that_reset_observations_are_not_used(self) -> None:
        found = [finding.code for finding in examine(read(self.FOLDER)).at("error")]
        assert found == []

    def test_inside_episodes_every_row_is_followed_by_its_successor(self) -> None:
        dataset = TransitionDataset.load(self.FOLDER)
        inside = np.setdiff1d(np.arange(600), dataset.episode_ends)
        np.testing.assert_array_equal(dataset.next_obs[inside], dataset.obs[inside + 1])


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize("encoded", [False, True])
def test_ids_of_many_digits_stay_apart(encoded: bool, as_table: bool, tmp_path: Path) -> None:
    """Keys of databases are decimals that float64 would round to one another."""
    ids = pa.array([Decimal(2**53 + row // 4) for row in range(8)], pa.decimal128(20, 0))
    ids = ids.dictionary_encode() if encoded else ids
    rows = {name: pa.array([0.0] * 8) for name in ("obs", "action", "reward")}
    whole = pa.table({**rows, "episode_id": ids})
    pq.write_table(whole, tmp_path / "log.parquet")
    dataset = TransitionDataset.from_table(whole) if as_table else TransitionDataset.load(tmp_path / "log.parquet")
    assert dataset.episode_lengths().tolist() == [4, 4]


def test_ids_of_two_types_stay_apart(tmp_path: Path) -> None:
    """Of int64 and uint64 numpy would make float64."""
    for number, kind in enumerate((pa.int64(), pa.uint64())):
        rows = {name: pa.array([0.0] * 3) for name in ("obs", "action", "reward")}
        ids = pa.array([2**60 + number] * 3, kind)
        (tmp_path / "log").mkdir(exist_ok=True)
        pq.write_table(pa.table({**rows, "episode_id": ids}), tmp_path / "log" / f"{number}.parquet")
    assert TransitionDataset.load(tmp_path / "log").episode_lengths().tolist() == [3, 3]


def test_types_of_every_file_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for number, rewards in enumerate((pa.array([1.0]), pa.array([b"1"], pa.binary()))):
        rows = {name: pa.array([0.0]) for name in ("obs", "action")}
        whole = pa.table({**rows, "reward": rewards, "done": pa.array([True])})
        pq.write_table(whole, tmp_path / "log" / f"{number}.parquet")
    with pytest.raises(DataError, match=r"1\.parquet: column 'reward': Arrow type binary is not supported"):
        TransitionDataset.load(tmp_path / "log")


def test_names_that_end_in_nul_are_not_cut() -> None:
    rows = {name: pa.array([0.0] * 2) for name in ("obs", "action", "reward")}
    with pytest.raises(DataError, match="column 'episode_id': a name ends in NUL"):
        TransitionDataset.from_table(pa.table({**rows, "episode_id": ["a", "a\0"]}))


def test_a_file_that_tells_nothing_of_its_columns_may_lie_beside(tmp_path: Path) -> None:
    dataset = TransitionDataset.from_table({"x": [0.0, 1.0], "u": [0, 1], "r": [0, 0], "d": [0, 1]}, {
        "obs": "x", "actions": "u", "rewards": "r", "terminations": "d",
    })  # fmt: skip
    dataset.save(tmp_path / "log" / "a.parquet")
    whole = pq.read_table(tmp_path / "log" / "a.parquet")
    pq.write_table(whole.replace_schema_metadata(None), tmp_path / "log" / "b.parquet")
    assert len(TransitionDataset.load(tmp_path / "log")) == 4


def test_a_column_that_is_empty_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for number, why in enumerate((pa.nulls(3), pa.array([None, None, "alarm"]))):
        rows = {name: pa.array([0.0] * 3) for name in ("obs", "action", "reward")}
        pq.write_table(
            pa.table({**rows, "episode_id": [number] * 3, "why": why}), tmp_path / "log" / f"{number}.parquet"
        )
    said = {"columns": {"end_reasons": "why"}, "end_reasons": {"alarm": "termination"}}
    assert TransitionDataset.load(tmp_path / "log", **said).terminations.tolist() == [False] * 5 + [True]


def test_times_of_files_with_and_without_a_zone(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for number, zone in enumerate(("-02:00", None)):
        rows = {name: pa.array([0.0] * 3) for name in ("obs", "action", "reward")}
        when = pa.array([0, 1, 2], pa.timestamp("s", tz=zone))
        pq.write_table(pa.table({**rows, "when": when, "episode_id": [0] * 3}), tmp_path / "log" / f"{number}.parquet")
    said = "1.parquet: column 'when': some times have a time zone and others none, as at row 0"
    assert said in refusal(tmp_path / "log", columns={"step": "when"})
