"""The first screen of a report says no more than is known, and its commands can be typed where it was made."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from rl_training.experiment import manager
from rl_training.experiment.offline_doubts import TRAINED_ON
from rl_training.experiment.report import write_report
from small_runs import small_config


def lead_of(*runs: Path) -> str:
    page = runs[0].parent / "page.html"
    write_report(list(runs), page, with_data=False, force=True)
    first = page.read_text().split("<main>")[0].split('<dl class="lead">')[1]
    return " ".join(unescape(re.sub("<[^>]*>", "", first.replace("</p>", " "))).split())


@pytest.fixture
def run(data_file: Path, tmp_path: Path) -> Path:
    return manager.start(small_config(data_file, tmp_path / "runs")).run.path


class TestWhetherTheEpisodesWereTrainedOn:
    """As far as it is known: nobody is told to try a policy because of what was not looked at."""

    def lead(self, run: Path, data: dict[str, Any], low: float = 1.0, cautions: tuple[str, ...] = ()) -> str:
        gain = {"value": 4.0, "low": low, "high": 7.0, "probability": 0.97}
        policies = [{"seed": 0, "value": gain, "improvement": gain, "not_trusted_because": []}]
        record = {"step": 20, "gamma": 0.9, "policies": policies, "value": gain, "improvement": gain}
        told = record | {"data": {"title": "a.npz", "episodes": 9} | data, "cautions": list(cautions)}
        (run / "offline_evaluations.jsonl").write_text(json.dumps(told) + "\n")
        return lead_of(run)

    def test_none_of_them(self, run: Path) -> None:
        text = self.lead(run, {"trained_on": False, "share_trained_on": 0.0})
        assert "passed its checks, on episodes that were not trained on. Nobody" in text
        assert "Try it carefully: rl-training export" in text

    @pytest.mark.parametrize("data", [{"trained_on": False}, {"share_trained_on": None}, {"share_trained_on": "x"}])
    def test_not_known(self, run: Path, data: dict[str, Any]) -> None:
        text = self.lead(run, data)
        assert "passed its checks; whether these episodes were trained on is not known. Nobody" in text
        assert "not trained on. " not in text
        assert "Make sure that these episodes were not trained on, then try it carefully: rl-training export" in text

    @pytest.mark.parametrize(("share", "told"), [(0.4, "40%"), (0.6, "60%"), (0.001, "1%")])
    def test_some_of_them(self, run: Path, share: float, told: str) -> None:
        text = self.lead(run, {"trained_on": share > 0.5, "share_trained_on": share})
        assert f"passed its checks; about {told} of its episodes were trained on, which flatters it. Nobody" in text
        assert "export" not in text

    @pytest.mark.parametrize("data", [{"trained_on": True}, {"trained_on": True, "share_trained_on": 1.0}])
    @pytest.mark.parametrize("low", [1.0, -1.0])
    def test_all_of_them(self, run: Path, data: dict[str, Any], low: float) -> None:
        text = self.lead(run, data, low, (TRAINED_ON,))
        assert "; it was made on the episodes that it was trained on, which flatters it. Nobody" in text
