"""Figures of metrics of training: in which unit values are drawn, and where the names of lines stand."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_training.experiment import manager
from rl_training.experiment.report import write_report
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.figures import metric_curves
from rl_training.experiment.report.svg import Chart
from small_runs import small_config


def trained(folder: Path, name: str, **transforms: Any) -> Path:
    """On eight episodes whose steps cost 1 to 8 EUR."""
    rows = np.repeat(np.arange(8), 4)
    lines = [f"{np.sin(row):.3f},{np.cos(row):.3f},{cost + 1},{row % 4}" for row, cost in enumerate(rows)]
    (folder / "log.csv").write_text("\n".join(["x,u,cost EUR,t", *lines]) + "\n")
    columns = {"obs": "x", "actions": "u", "rewards": "cost EUR", "step": "t"}
    section = {"source": "file", "path": str(folder / "log.csv"), "columns": columns, "rewards_are": "costs"}
    changes = {"total_timesteps": 4, "log_interval": 1, "name": name, "transforms": transforms}
    return manager.start(small_config(None, folder, "iql", dataset=section, **changes)).run.path


def metrics_of(page: Path) -> str:
    section = page.read_text().split('<section id="curves">')[1].split("</section>")[0]
    return " ".join(unescape(re.sub("<[^>]*>", "", section)).split())


def level_of(text: str) -> float:
    (found,) = re.findall(r"Dashed: the mean of these, (-?[\d.]+)\.", text)[:1]
    return float(found)


def test_values_are_drawn_in_the_unit_of_the_data(tmp_path: Path) -> None:
    """As the figures of values against returns are: the networks' own numbers are times the factor."""
    for name, factor in (("plain", 1.0), ("scaled", 40.0)):
        write_report([trained(tmp_path, name, reward_scale=factor)], tmp_path / f"{name}.html")
    plain, scaled = (metrics_of(tmp_path / f"{name}.html") for name in ("plain", "scaled"))
    assert level_of(scaled) == pytest.approx(level_of(plain), rel=0.3)  # but for what is learned behind cuts
    assert "In EUR, the negative of costs: the numbers of metrics.jsonl over 40." in scaled
    assert "Losses and advantages are of transformed rewards, as the networks see them." in scaled
    assert "In EUR, the negative of costs." in plain
    told = "Dashed: the mean distance between recorded actions of two states picked at random."
    assert told in (tmp_path / "plain.html").read_text()
    assert "transformed" not in plain


def test_values_of_several_scales_share_an_axis_if_all_are_known(tmp_path: Path) -> None:
    runs = [trained(tmp_path, "a", reward_scale=2.0), trained(tmp_path, "b", reward_scale=40.0)]
    write_report(runs, tmp_path / "page.html")
    text = metrics_of(tmp_path / "page.html")
    assert text.count("critic/q_data: Value") == 1
    assert "In EUR, the negative of costs: the numbers of metrics.jsonl over each run's factor on rewards." in text
    write_report([*runs, trained(tmp_path, "c", reward_shift=1.0)], tmp_path / "page.html", force=True)
    text = metrics_of(tmp_path / "page.html")
    assert text.count("critic/q_data: Value") == 2
    assert "In transformed rewards, as the networks see them." in text


def test_of_data_that_are_not_opened_the_unit_is_known_where_nothing_is_transformed(tmp_path: Path) -> None:
    write_report([trained(tmp_path, "a", reward_scale=2.0)], tmp_path / "a.html", with_data=False)
    assert "In transformed rewards, as the networks see them." in metrics_of(tmp_path / "a.html")
    write_report([trained(tmp_path, "b")], tmp_path / "b.html", with_data=False)
    assert "In EUR, the negative of costs." in metrics_of(tmp_path / "b.html")


@pytest.mark.parametrize("side", [1, -1])
def test_no_line_of_the_axis_runs_through_the_name_of_a_line(side: int) -> None:
    """Its line lies at 0.5, just below or above a line of the axis."""
    chart = Chart((440, 280), (0.0, 1.0), (0.0, 1.0))
    chart.y_ticks = [(0.5 + side * 0.04, "tick")]
    chart.rule_y(0.5, "data: 0.5")
    (found,) = re.findall(r'<text class="note" [^>]*y="([\d.]+)"', chart.svg("a chart"))
    line = float(chart.y(0.5 + side * 0.04))
    assert not float(found) - 10 < line < float(found) + 2
    assert (float(found) > float(chart.y(0.5))) == (side == 1)


def test_the_level_of_the_data_stands_clear_of_the_edge(tmp_path: Path) -> None:
    """Its line is the highest or the lowest of the figure, and has room for its name beyond it."""
    (run,) = read_runs([trained(tmp_path, "one")])
    for level in (-1e4, 1e4):
        drawn = metric_curves("critic/q_data", [run], {run.number: level}).draw((440, 280))
        (line,) = map(float, re.findall(r'<path class="rule" d="M[\d.]+ ([\d.]+)H', drawn))
        assert 14 + 17 <= line <= 280 - 46 - 17
