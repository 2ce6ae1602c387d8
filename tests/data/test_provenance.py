"""Files that are written tell which data they come from, and what was said on how these are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import read, writers
from rl_training.data.formats.written import beside
from rl_training.data.provenance import Provenance, digest_of, other_rewards
from rl_training.data.settling import settle
from rl_training.errors import DataError

NAMES = ["a.npz", "a.hdf5", "a.parquet", "a.csv", "a/", "minari:own/a-v0"]
MADE = Provenance("log.csv", "0123456789abcdef" * 4, {"rewards_are": "costs", "columns": {"obs": ["x", "y"]}}, "a half")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def dataset(rows: int = 12) -> TransitionDataset:
    obs = np.arange(2.0 * rows).reshape(rows, 2)
    ends = np.arange(rows) % 4 == 3
    return TransitionDataset(obs, np.zeros((rows, 1)), np.ones(rows), obs + 2, ends & False, ends)


def write(name: str, **options: Any) -> Path:
    target = writers.target_of(name)
    assert writers.write(dataset(), target, **options) == ()
    return target.path


@pytest.mark.parametrize("name", NAMES)
def test_every_format_keeps_it(name: str) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    if name.startswith("minari:"):
        pytest.importorskip("minari")
    path = write(name, provenance=MADE)
    assert read(path).provenance == MADE
    loaded = TransitionDataset.load(path)
    assert loaded.fingerprint() == dataset().fingerprint()
    assert loaded.provenance is not None
    assert loaded.provenance.before == MADE
    words = "log.csv (SHA-256 0123456789ab…), read with rewards_are: costs, columns: "
    assert (loaded.provenance.in_words() or "").endswith(f"that is made from {words}(obs: x, y); a half")


def test_names_of_columns_are_written_out() -> None:
    """As far as they can be read; a file is not asked for the shape of what it tells."""
    names = {"obs": [f"state.level_{n}_m" for n in range(14)], "actions": ["cmd [l/h]"], "rewards": "score"}
    ends = {"in spec": "termination", "time limit": "truncation", "odd": {"a": [1]}}
    said = Provenance("log", options={"columns": names, "end_reasons": ends, "action_low": [0.0, -2.0]}).in_words()
    levels = ", ".join(names["obs"][:12])
    assert said == (
        f"log, read with columns: (obs: {levels} and 2 more; actions: cmd [l/h]; rewards: score), end_reasons:"
        ' (in spec: termination; time limit: truncation; odd: {"a": [1]}), action_low: [0.0, -2.0]'
    )


def test_what_python_reads_and_saves_has_its_options() -> None:
    write("a.npz")
    TransitionDataset.load("a.npz", rewards_are="costs", action_low=np.float32(-1), action_high=1).save("b.npz")
    made = read(Path("b.npz")).provenance
    assert made is not None
    assert (made.source, made.options) == ("a.npz", {"rewards_are": "costs", "action_low": -1.0, "action_high": 1})
    assert made.says("rewards_are")
    assert not made.says("rewards_at")
    TransitionDataset.load("b.npz").save("c.hdf5")
    last = read(Path("c.hdf5")).provenance
    assert last is not None
    assert last.says("rewards_are")  # by way of b.npz


def test_what_is_applied_in_the_file_is_not_said_again_in_silence() -> None:
    path = write("a.npz", provenance=MADE)
    with pytest.raises(DataError, match="written with rewards_are: costs, so that its rewards are the negative of its"):
        settle(read(path), rewards_are="costs")  # the worst policy would be the best
    assert not any("second time" in note for note in settle(read(path), rewards_at="next").notes)
    once = write("b.npz", provenance=Provenance.of("log.csv", {"rewards_at": "next"}, None))
    again = settle(read(once), rewards_at="next").notes
    assert "the file was written with rewards_at: next, which is applied a second time: leave it out" in again


def test_rewards_that_were_said_otherwise_at_any_stage() -> None:
    costs, fine = {"rewards_are": "costs"}, {"at_termination": -5}
    csv = Provenance.of("log.csv", costs, None)
    converted = Provenance.of("log.npz", {"missing": "hold"}, csv)
    assert other_rewards(converted, csv) is None
    fined = Provenance.of("log.npz", fine, csv)
    told = "rewards are read with rewards_are: costs, and those trained on with rewards_are: costs, then with"
    assert other_rewards(csv, fined) == f"{told} at_termination: -5"
    twice = Provenance.of("a.npz", fine, fined)
    assert str(other_rewards(twice, fined)).count("at_termination: -5") == 3
    plain = Provenance.of("log.csv", {}, None)
    assert other_rewards(plain, csv) == "rewards are read as they stand, and those trained on with rewards_are: costs"


class TestBesideCsv:
    def test_it_counts_for_what_was_written(self) -> None:
        path = write("a.csv", provenance=MADE)
        path.write_text(path.read_text().replace(",1,", ",2,"))
        assert read(path).provenance is None

    def test_metadata_of_someone_else_stay(self) -> None:
        beside(Path("a.csv")).write_text('{"dc:title": "mine"}')
        (note,) = writers.write(dataset(), writers.target_of("a.csv"))
        assert note.startswith("a.csv-metadata.json is there and not from here")
        assert beside(Path("a.csv")).read_text() == '{"dc:title": "mine"}'
        assert read(Path("a.csv")).provenance is None

    def test_it_is_replaced_with_its_file(self) -> None:
        path = write("a.csv", provenance=MADE)
        write("a.csv", provenance=Provenance("other.csv"), force=True)
        found = read(path).provenance
        assert found is not None
        assert found.source == "other.csv"


@pytest.mark.parametrize(
    "told",
    [
        None,
        "{",
        b"\xff",
        3,
        [],
        {"source": "a.csv"},
        {"program": "another 1.0"},
        {"program": "rl-training 1", "options": 3},
        {"program": "rl-training 1", "source": 5},
        {"program": "rl-training 1", "source": "x" * 5_000},
        "[" * 10_000,
    ],
)
def test_what_strangers_tell_is_passed_over(told: Any) -> None:
    assert Provenance.read(told) is None


def test_a_long_line_of_files_is_cut_short() -> None:
    made: Provenance | None = None
    for number in range(400):
        made = Provenance(f"{number}.csv", "f" * 64, {"columns": {"obs": ["x"] * 30}}, before=made)
    assert made is not None
    assert len(made.text()) <= 32_768
    assert json.loads(made.text())["source"] == "399.csv"
    assert Provenance.read(made.text()) is not None


def test_digests(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a").write_bytes(b"abc")
    assert digest_of(tmp_path / "f" / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    first = digest_of(tmp_path / "f", [tmp_path / "f" / "a"])
    (tmp_path / "f" / "a").rename(tmp_path / "f" / "b")
    assert digest_of(tmp_path / "f", [tmp_path / "f" / "b"]) not in (None, first)
    assert digest_of(tmp_path / "nothing") is None


def test_other_columns_of_rewards() -> None:
    def made(rewards: Any, **more: Any) -> Provenance:
        return Provenance.of("log.csv", {"columns": {"obs": "x", "rewards": rewards}} | more, None)

    summed = made(["sales_EUR", "-wages_EUR"])
    told = "rewards are read with columns: (rewards: sales_EUR), and those trained on with"
    found = other_rewards(Provenance.of("split.npz", {}, made("sales_EUR")), summed)
    assert found == f"{told} columns: (rewards: sales_EUR, -wages_EUR)"
    assert other_rewards(Provenance.of("split.npz", {}, made(["- wages_EUR", "sales_EUR"])), summed) is None
    assert other_rewards(made(["sales_EUR"]), made("sales_EUR")) is None
    assert other_rewards(Provenance.of("log.csv", {}, None), summed) is None  # found by its name: it may be their sum
    assert other_rewards(made("sales_EUR", rewards_are="costs"), made("sales_EUR")) is not None
