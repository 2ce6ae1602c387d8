"""A log of measurements and controls in which nobody wrote down what a step is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_init_proposes_a_distance(command: Any, tmp_path: Path) -> None:
    rows = [f"{row // 50},{row % 7 + 18}.5,{row % 3 / 4}" for row in range(500)]
    (tmp_path / "log.csv").write_text("\n".join(["batch,temperature,valve", *rows]) + "\n")
    command("init", "log.csv", "-o", "c.yaml")
    assert "# rewards: [abs(temperature - 20), 0.1*square(valve)]" in (tmp_path / "c.yaml").read_text()
    changed = (tmp_path / "c.yaml").read_text().replace("rewards: TODO", "rewards: [-abs(temperature - 20), -valve]")
    (tmp_path / "c.yaml").write_text(changed)
    assert "rewards are -abs(temperature - 20) - valve" in command("data", "check", "-c", "c.yaml").out
