"""What the README says of scores is what the committed benchmark measured, and its links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rl_training import algorithms

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text("utf-8")


def test_scores_in_the_table_are_the_measured_ones() -> None:
    rows = json.loads((REPOSITORY / "benchmarks/results/scores.json").read_text())["results"]
    scores = {row["config"].partition("/")[0]: row for row in rows}
    table = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", README, flags=re.MULTILINE))
    assert len(table) >= 11
    assert table.keys() <= algorithms.find().keys()
    for name, shown in table.items():
        assert shown == f"{scores[name]['mean']:.1f} ± {scores[name]['std_over_seeds']:.1f}"


def test_steps_until_solved_are_the_measured_ones() -> None:
    curves = json.loads((REPOSITORY / "benchmarks/results/online_curves.json").read_text())["curves"]
    steps = [curves[name]["summary"]["every_seed_solved_at"] for name in ("rlpd:scripted", "sac_many", "sac_single")]
    paragraph = next(text for text in README.split("\n\n") if text.startswith("Online, all five seeds"))
    assert re.findall(r"after ([\d,]+)", paragraph) == [f"{count:,}" for count in steps]


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (REPOSITORY / link).exists()] == []
