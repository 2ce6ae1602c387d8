"""Data whose columns are counted in another unit than those trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_training.data import TransitionDataset
from rl_training.environments import NamedColumn, Spaces
from rl_training.experiment.other_units import other_units

SPACES = Spaces(
    2,
    (0.0,),
    (100.0,),
    obs_columns=(NamedColumn("ALT_m", 0.0, 50.0), NamedColumn("SPEED", -3.0, 3.0)),
    action_columns=(NamedColumn("THRUST_pct", 0.0, 100.0),),
)


def data(scale: tuple[float, float, float] = (1.0, 1.0, 1.0), rows: int = 60) -> TransitionDataset:
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {
        "obs": np.stack([rng.uniform(5, 45, rows) * scale[0], rng.normal(size=rows) * scale[1]], 1),
        "actions": rng.uniform(10, 90, (rows, 1)) * scale[2],
        "rewards": rng.normal(size=rows),
        "terminations": np.arange(rows) % 20 == 19,
    }
    return TransitionDataset.from_dict(fields)


def test_the_same_unit() -> None:
    assert not other_units(data(), SPACES, "new.csv")


def test_feet_and_fractions() -> None:
    (of_feet,) = other_units(data((3.28, 1.0, 1.0)), SPACES, "new.csv")
    assert of_feet.startswith("new.csv: ALT_m goes from ")
    assert of_feet.endswith("where the policy was trained on 0 to 50: is it counted in the same unit?")
    (of_thrust,) = other_units(data((1.0, 1.0, 0.01)), SPACES, "new.csv")
    assert "THRUST_pct goes from 0.1" in of_thrust


def test_a_column_that_stays_the_same_tells_nothing() -> None:
    assert not other_units(data((1.0, 0.0, 1.0)), SPACES, "new.csv")


def test_few_rows_or_no_names_tell_nothing() -> None:
    assert not other_units(data((9.0, 9.0, 9.0), rows=10), SPACES, "new.csv")
    assert not other_units(data((9.0, 9.0, 9.0)), Spaces(2, (0.0,), (100.0,)), "new.csv")
