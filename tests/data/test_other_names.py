"""Names that stand for another: the policy's own is the one to write, and a unit is more than a name."""

from __future__ import annotations

import pytest

from rl_training.data.formats.other_names import called_otherwise


@pytest.mark.parametrize(
    ("lacking", "given", "told"),
    [
        ("Drum temp [°C]", "Drum temp [°F]", "'Drum temp [°F]' is in another unit: convert its values to °C, and name"),
        ("drum temp °C", "Drum temp °F", "'Drum temp °F' is in another unit: convert its values to °C, and name it so"),
        ("feed_mbar", "feed_psi", "'feed_psi' is in another unit: convert its values to mbar, and name it so"),
        ("Moisture [%]", "Moisture", "if 'Moisture' is that, its name must be 'Moisture [%]'"),
        ("door (front)", "door (rear)", "if 'door (rear)' is that, its name must be 'door (front)'"),
        ("phase [A]", "phase [V]", "if 'phase [V]' is that, its name must be 'phase [A]'"),
        ("wheel_F", "wheel_C", "if 'wheel_C' is that, its name must be 'wheel_F'"),
        ("speed", "Fuel", "the data have time, Fuel"),
    ],
)
def test_what_is_to_be_done(lacking: str, given: str, told: str) -> None:
    assert called_otherwise(lacking, ["time", given]).startswith(f"; {told}")
