"""Tables of tens of thousands of columns: what is done for each grows with their number, not with its square."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_training.data import TransitionDataset
from rl_training.data.formats import read
from rl_training.data.formats.peek import peek
from rl_training.data.formats.raw import RawData
from rl_training.data.formats.tables import plan
from rl_training.data.guess_words import words_in
from rl_training.data.guessing import guess_fields
from rl_training.data.missing_rows import with_held, without_missing
from rl_training.errors import DataError
from rl_training.reading_choices import TableChoices

WIDE = 16_000  # columns; for each of them all others are minutes


def test_names_that_come_twice(tmp_path: Path) -> None:
    names = [f"n{place}" for place in range(WIDE)]
    header = ",".join(["obs", "actions", "rewards", "terminations", *names, *names])
    rows = [f"{place},.5,1,{place}" + ",7" * (2 * WIDE) for place in range(2)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *rows, ""]))
    told = f"{WIDE:,} names stand for several columns each, which are not used: n0, n1, n2, "
    (note,) = (note for note in read(path).notes if "several columns" in note)
    assert note.startswith(told)
    (note,) = peek(path).notes
    assert note.startswith(f"{WIDE:,} names stand for several columns each, which hold the same, and one is read: n0, ")


def test_a_few_are_named_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("obs,actions,rewards,terminations,a,b,c,a,b,c,c\n1,2,3,1,4,5,6,4,5,6,6\n")
    assert [note for note in read(path).notes if "are named" in note] == [
        "two columns are named 'a'; they are not used",
        "two columns are named 'b'; they are not used",
        "3 columns are named 'c'; they are not used",
    ]


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("cost_{}",), {"rewards": WIDE}),
        (("sensor_{}", "valve_{}"), {"obs": WIDE, "actions": WIDE}),
        (("temp_{}", "thing_{}", "valve_{}"), {"obs": 2, "actions": WIDE}),
    ],
)
def test_guesses(names: tuple[str, ...], kinds: dict[str, int]) -> None:
    columns = {name.format(place): np.array([0.5, 1.5, 0.25]) for name in names for place in range(WIDE)}
    fields = {guess.field: guess for guess in guess_fields(columns).fields}
    assert {field: len(fields[field].columns or fields[field].candidates) for field in kinds} == kinds


def test_words_of_a_name_are_a_list_of_ones_own() -> None:
    words_in("jointPos_12").append("more")
    assert words_in("jointPos_12") == ["joint", "pos", "12"]


def test_columns_that_lack_values() -> None:
    obs = np.full((4, WIDE), 1.0)
    obs[1:, :] = np.nan
    raw = RawData(
        {"obs": obs, "actions": np.ones((4, 1)), "rewards": np.ones(4), "terminations": np.array([0, 0, 0, 1])},
        "CSV",
        columns={"obs": [(f"n{place}", 1) for place in range(WIDE)]},
    )
    assert without_missing(raw, "drop").notes[-1].count("mostly n0; is that what is meant?") == 1
    assert "held at the last one before (missing: hold): n0 3, n1 3, " in with_held(raw).notes[-1]


def test_a_value_without_a_name_is_told_by_its_place() -> None:
    raw = RawData({}, "CSV", columns={"obs": [("x", 1), ("y", 2)]})
    assert raw.called("obs", 4) == ["x", "y[0]", "y[1]", "obs[3]"]


def test_a_mapping_of_all(tmp_path: Path) -> None:
    names = [f"n{place}" for place in range(WIDE)]
    lines = [",".join([*names, "u", "r", "end"]), *("1," * WIDE + f"2,3,{place}" for place in range(2)), ""]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    columns = {"obs": names, "actions": ["u"], "rewards": ["r"], "terminations": ["end"]}
    assert TransitionDataset.from_raw(read(tmp_path / "log.csv", columns, TableChoices())).obs_dim == WIDE


class TestManyWords:
    """A mapping may name as many things as a table has columns, in many ways."""

    NAMES = (*(f"n{place}" for place in range(WIDE)), "x", "u")

    def test_measures_of_all(self) -> None:
        rewards = [f"abs(n{place} - 20)" for place in range(WIDE)]
        planned = plan(self.NAMES, {"obs": "x", "actions": "u", "rewards": rewards, "terminations": "n0"})
        assert all(planned.is_part(name) == name.startswith("n") for name in self.NAMES)

    def test_patterns_that_repeat(self) -> None:
        with pytest.raises(DataError, match=r"columns\.obs: 'n0' is given twice"):
            plan(self.NAMES, {"obs": ["n*"] * WIDE, "actions": "u", "rewards": "x"})

    def test_patterns_without_end(self) -> None:
        told = r"columns\.obs: at most 200 names with a \* in them are looked for"
        with pytest.raises(DataError, match=told):
            plan(self.NAMES, {"obs": [f"n{place}*" for place in range(1000, 1500)], "actions": "u", "rewards": "x"})

    def test_a_list_in_one_text(self) -> None:
        with pytest.raises(DataError, match=r"columns\.obs: no column 'n15999,") as told:
            plan(self.NAMES, {"obs": ",".join([f"n{WIDE - 1}"] * WIDE), "actions": "u", "rewards": "x"})
        assert len(str(told.value)) < 1_000
