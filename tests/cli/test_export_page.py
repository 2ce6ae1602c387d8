"""docs/export.md: its commands and its code do what it says, one after another."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "export.md").read_text("utf-8")
FEWER = ("--set", "total_timesteps=4", "--set", "eval_interval=null", "--set", "evaluation.episodes=1", "--quiet")

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra `dev` has it)")


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_every_line_runs(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = fenced("console")
    lines = block.splitlines()
    assert len(lines) >= 7
    for line in lines:
        words = shlex.split(line)[2:]
        fewer = (*FEWER, "--set", "dataset.size=400") if words[0] == "train" else ()
        code, _, err = command(*words, *fewer)
        assert (line, code) == (line, 0), err
    for name in ("swing.onnx", "best.onnx", "each-seed-0.onnx", "each-seed-1.onnx", "sampled.onnx", "policy.pt2"):
        assert Path(f"{name}.json").is_file()
    for code in fenced("python"):
        exec(compile(code, "export.md", "exec"), {"__name__": "example"})
    numbers = [float(text) for text in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", capsys.readouterr().out)]
    wanted = float(command("predict", "swing", "--obs", "1,0,0").out.strip("[]\n"))
    assert np.allclose(numbers, wanted, atol=1e-4)
    assert len(numbers) == 2
