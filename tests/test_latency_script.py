"""`benchmarks/latency.py`: a busy machine stores nothing, and the page is made of what was stored."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
FIGURES = {
    "figures": {"onnxruntime": {"median_us": 12.4, "p99_us": 20.0, "version": "1.31.1"}},
    "missing": {"sb3": "no such file"},
}


@pytest.fixture
def latency(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("latency")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "latency.json")
    monkeypatch.setattr(module, "PAGE", tmp_path / "latency.md")
    monkeypatch.setattr(sys, "argv", ["latency.py"])
    return module


def run(latency: ModuleType, monkeypatch: pytest.MonkeyPatch, before: float, highest: float) -> None:
    monkeypatch.setattr(latency.os, "getloadavg", lambda: (before, 0.0, 0.0))
    monkeypatch.setattr(latency, "measure", lambda *_: (FIGURES, highest))
    latency.main()


@pytest.mark.parametrize(("before", "highest"), [(2.0, 1.0), (0.1, 3.0)])
def test_a_busy_machine_stores_nothing(
    latency: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any, before: float, highest: float
) -> None:
    run(latency, monkeypatch, before, highest)
    assert (
        f"busy (load {before:.1f} before, up to {highest:.1f} meanwhile): nothing is stored" in capsys.readouterr().out
    )
    assert not latency.RESULTS.exists()
    assert not latency.PAGE.exists()


def test_an_idle_one_does(latency: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    run(latency, monkeypatch, 0.1, 1.0)
    assert json.loads(latency.RESULTS.read_text())["load"] == {"before": 0.1, "highest": 1.0}
    page = latency.page(latency.RESULTS)
    assert "| exported, onnxruntime | 1.31.1 | 12 µs | 20 µs |" in page
    assert "`predict` of Stable-Baselines3 is left out: no such file" in page
