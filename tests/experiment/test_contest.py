"""The arithmetic of a contest, and its protocol with workers that only pretend."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_training.experiment.contest import (
    Contestant,
    ContestantError,
    compete,
    environment,
    peak_memory,
    ratio,
    synthetic_arrays,
    whole_units,
)

SOURCE = Path(__file__).resolve().parents[2] / "src"
# Notes what it is asked for; the 30th update takes it down where `fragile` is given.
FAKE = """
import sys, time
from rl_training.experiment.contest import Prepared, serve
from rl_training.errors import ConfigError

log, fragile = sys.argv[1], sys.argv[2:] == ["fragile"]
done = 0

def run(count):
    global done
    done += count
    print("a library's chatter")
    with open(log, "a") as file:
        file.write(f"{count}\\n")
    if fragile and done >= 30:
        sys.exit("error: the disk is full")
    time.sleep(0.0005 * count)

serve(lambda: Prepared(run, unit=4, generating=0.25, about={"version": "1.2"}))
"""


def fake(log: Path, *arguments: str, name: str = "fake") -> Contestant:
    command = [sys.executable, "-c", FAKE, str(log), *arguments]
    return Contestant(name, command, {"algo": "x"}, {**environment(1), "PYTHONPATH": str(SOURCE)})


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    ours, theirs = {"rates": [10.0, 40.0, 90.0]}, {"rates": [10.0, 20.0, 30.0]}
    assert ratio(ours, theirs) == 2.0  # of 1, 2 and 3; the ratio of the medians would be the same by chance only
    assert ratio({"rates": [1.0, 100.0, 3.0]}, {"rates": [1.0, 10.0, 6.0]}) == 1.0  # the medians' ratio is 0.5


def test_a_ratio_counts_every_seed() -> None:
    assert ratio({"rates": [3.0, 3.0], "members": 4}, {"rates": [6.0, 6.0]}) == 2.0


def test_rounds_must_belong_together() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio({"rates": [1.0]}, {"rates": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("updates", "unit", "whole"), [(0.2, 1, 1), (7.4, 1, 7), (7.4, 2, 8), (3.0, 8, 8), (149, 100, 100)]
)
def test_blocks_are_whole_units(updates: float, unit: int, whole: int) -> None:
    assert whole_units(updates, unit) == whole


def test_contestants_answer_in_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    (row,) = compete([fake(log)], rounds=3, seconds=0.05)
    assert row["name"] == "fake"
    assert row["algo"] == "x"
    assert row["about"] == {"version": "1.2"}
    assert len(row["rates"]) == 3
    assert all(0 < rate <= 2000 for rate in row["rates"])  # an update takes half a millisecond at least
    assert row["memory"] > 2**20
    assert row["cuda_memory"] == 0
    assert row["preparing"] >= 0.0
    asked = [int(line) for line in log.read_text().split()]
    assert asked[:2] == [1, 11]  # the first update, then the rest of three units
    assert all(count % 4 == 0 for count in asked[2:])
    assert len(set(asked[-3:])) == 1


def test_time_to_the_first_update_counts_from_the_start_without_making_data_up(tmp_path: Path) -> None:
    contestant = fake(tmp_path / "log")
    answer = contestant.first_update()
    contestant.close()
    assert answer["generating"] == 0.25
    assert answer["from_start"] > answer["seconds"] - 0.25


def test_one_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    told: list[str] = []
    broken, missing = fake(tmp_path / "a", "fragile", name="broken"), Contestant("missing", ["/no/such"], {}, {})
    rows = compete([broken, missing, fake(tmp_path / "b")], 2, 0.05, told.append)
    assert rows[0]["failure"] == "broken: the disk is full"
    assert rows[1]["failure"].startswith("missing: ")
    assert len(rows[2]["rates"]) == 2
    assert {line.partition(":")[0] for line in told} == {"broken", "missing"}


def test_a_worker_that_dies_silently_says_its_exit_code() -> None:
    contestant = Contestant("mute", [sys.executable, "-c", "raise SystemExit(7)"], {}, os.environ)
    contestant.start()
    with pytest.raises(ContestantError, match="mute: ended with code 7 and no word"):
        contestant.ask(1)
    contestant.close()


def test_all_have_the_same_threads() -> None:
    assert environment(3)["OMP_NUM_THREADS"] == environment(3)["MKL_NUM_THREADS"] == "3"
    assert environment(3, Path("here"))["TORCHINDUCTOR_CACHE_DIR"] == "here"


def test_made_up_data_are_whole_episodes_and_always_the_same() -> None:
    arrays = synthetic_arrays(2_500, 3, 2)
    assert arrays["observations"].shape == arrays["next_observations"].shape == (2_500, 3)
    assert np.abs(arrays["actions"]).max() <= 1.0
    assert np.flatnonzero(arrays["timeouts"]).tolist() == [999, 1999, 2499]
    again = synthetic_arrays(2_500, 3, 2)
    assert all((again[name] == arrays[name]).all() for name in arrays)


def test_peak_memory_grows_with_what_is_held() -> None:
    before = peak_memory()
    held = np.ones(before // 8 + 2**21)  # more than was ever held
    assert peak_memory() >= held.nbytes
