"""Which column of a file is proposed where an end comes by the clock and no observation tells how near it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.mark.parametrize("shown", ["Min", "Volts"])
def test_the_one_that_counts_and_no_date(command: Any, tmp_path: Path, shown: str) -> None:
    """A column that only looks like a counter at first is none."""
    lines = ["Time,batch,Volts,Min,temp,valve,cost,why"]
    draw, clock = np.random.default_rng(0), np.datetime64("2024-03-01T06:00:00")
    for batch in range(30):
        length = 40 if batch % 2 else 15 + batch % 7
        for row in range(length):
            clock += np.timedelta64(60, "s")
            why = "" if row < length - 1 else "time over" if length == 40 else "done"
            volts = row if batch < 20 else 3
            numbers = ",".join(f"{value:.3f}" for value in draw.uniform(0.1, 0.9, 3))
            lines.append(f"{str(clock).replace('T', ' ')},{batch},{volts},{row},{numbers},{why}")
    if shown == "Volts":
        lines = [",".join([*line.split(",")[:3], *line.split(",")[4:]]) for line in lines]
    Path("log.csv").write_text("\n".join(lines) + "\n")
    columns = ["obs=temp", "actions=valve", "rewards=cost", "episode_ids=batch", "step=Time", "end_reasons=why"]
    options = [word for entry in columns for word in ("--columns", entry)]
    options += ["--end-reasons", "done=termination", "--end-reasons", "time over=termination", "--rewards-are", "costs"]
    told = " ".join(command("data", "check", "log.csv", *options).out.split())
    way = "Add 'Min' to obs; if" if shown == "Min" else "Add a column that counts the rows of an episode to obs (or say"
    assert "[flags.unseen-limit]" in told
    assert way in told
    assert "Add 'Time'" not in told
