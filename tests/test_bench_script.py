"""`benchmarks/bench.py`: who competes, what is stored, and the page made of it. No figure is asserted."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rl_training.experiment.benchmark import Work

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("bench")


@pytest.fixture
def speed_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("speed_page")


def row(algo: str, rates: list[float], **changes: Any) -> dict[str, Any]:
    own = {"engine": "eager", "members": 1, "batch_size": 256, "width": 256, "rows": 1_000_000}
    ours = {} if "library" in changes else {**own, "kernels": "auto", "precision": "auto"}
    figures = {"preparing": 0.0, "first_update": 2.0, "memory": 512 * 2**20, "cuda_memory": 0, "about": {}}
    return {"algo": algo, "name": algo, **ours, **figures, "rates": rates, **changes}


def stored() -> dict[str, Any]:
    """What a run leaves, in small."""
    settings = {"mode": "quick", "rounds": 3, "seconds": 0.5, "missing": {"sb3": "no environment"}}
    machine = {"cpu": "A CPU", "cores": 2, "threads": 2, "python": "3.11.7", "torch": "2.13.0", "rl_training": "0.1.0"}
    return {
        "machine": {**machine, "system": "Linux"},
        "settings": dict.fromkeys(("updates", "growth", "start", "imports", "loading"), settings),
        "updates": [
            row("iql", [200.0, 260.0, 240.0], ratio=2.5),
            row("iql", [400.0, 404.0, 398.0], engine="compiled", members=4, preparing=31.4, ratio=17.0),
            row("iql", [80.0, 104.0, 90.0], library="d3rlpy", about={"version": "2.8.1"}),
            {**row("cql", []), "failure": "cql eager, 1 member: killed"},
        ],
        "growth": {"members": [row("td3_bc", [100.0]), row("td3_bc", [50.0], members=4, cuda_memory=2**30)]},
        "start": {"eager": [2.5, 2.0, 3.0], "compiled before": [9.0]},
        "imports": {"import rl_training": [0.05]},
        "loading": {
            "rows": 1000,
            "medians": {"ours_arrays": {"ready_s": 0.2, "added_memory": 1.04, "batch_us": 17.5}},
        },
    }


def test_the_page_shows_what_is_stored(speed_page: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "bench-cpu.json").write_text(json.dumps(stored()))
    lines = speed_page.page(tmp_path).splitlines()
    for line in (
        "## CPU: A CPU",
        "Quick: 3 rounds of about 0.5 s; without Stable-Baselines3 (no environment).",
        "| `iql` | ours, eager | 1 | 240 (200–260) | 240 | 2.50 |  | 512 MiB |",
        "| `iql` | ours, compiled | 4 | 400 (398–404) | 1,600 | 17.00 | 31 s | 512 MiB |",
        "| `iql` | d3rlpy 2.8.1 | 1 | 90.0 (80.0–104) | 90.0 |  |  | 512 MiB |",
        "| `cql` | ours, eager | 1 | failed: cql eager, 1 member: killed |  |  |  |  |",
        "| 4 | 50.0 (50.0–50.0) | 200 | 512 MiB + 1,024 MiB GPU |",
        "| ours, eager | 2.50 (2.00–3.00) |",
        "| ours, compiled before | 9.00 (9.00–9.00) |",
        "| `import rl_training` | 0.05 (0.05–0.05) |",
        "| ours | 0.20 | 1.04 | 17.5 |",
    ):
        assert line in lines
    assert "Nothing is stored" not in "\n".join(lines)


def test_the_page_says_so_where_nothing_is_stored(speed_page: ModuleType, tmp_path: Path) -> None:
    assert speed_page.page(tmp_path).endswith("\nNothing is stored yet.\n")


def test_page_and_chart_are_written(
    speed_page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_page, "PAGE", tmp_path / "docs.md")
    (tmp_path / "bench-gpu.json").write_text(json.dumps(stored()))
    speed_page.write(tmp_path)
    assert "(speed-gpu.png)" in (tmp_path / "docs.md").read_text("utf-8")
    assert (tmp_path / "speed-gpu.png").read_bytes().startswith(b"\x89PNG")


def test_ratios_are_taken_within_a_contest(bench: ModuleType) -> None:
    rows = [row("iql", [30.0, 20.0]), row("iql", [10.0, 10.0], library="d3rlpy"), {"algo": "iql", "failure": "x"}]
    bench.compare_with_d3rlpy(rows)
    assert [found.get("ratio") for found in rows] == [2.5, None, None]


def options(tmp_path: Path, **changes: Any) -> argparse.Namespace:
    values = {"quick": True, "engine": ["eager", "compiled"], "members": [1, 4], "device": "cpu", "threads": 1}
    values |= {"missing": {}, "peer": "peer/python", "work": Work("td3_bc"), "results": tmp_path, "rounds": 1}
    values |= {"seconds": 0.1, "kernels": "auto", "precision": "auto", "only": ["imports"], "algo": ["iql"]}
    return argparse.Namespace(**{**values, **changes})


def names(bench: ModuleType, algo: str, asked: argparse.Namespace) -> list[str]:
    return [contestant.name for contestant in bench.group(algo, asked, Path("compiled"))]


def test_everybody_who_has_an_algorithm_competes(bench: ModuleType, tmp_path: Path) -> None:
    asked = options(tmp_path, quick=False)
    compiled = ["sac compiled, 1 member", "sac compiled, 4 members"]
    assert names(bench, "sac", asked) == ["sac eager, 1 member", *compiled, "d3rlpy sac", "sb3 sac"]
    assert names(bench, "awr", options(tmp_path)) == ["awr eager, 1 member"]
    without = options(tmp_path, missing={"d3rlpy": "no", "sb3": "no"}, engine=["eager"])
    assert names(bench, "iql", without) == ["iql eager, 1 member", "iql eager, 4 members"]
    on_gpu = options(tmp_path, device="cuda", missing=without.missing, engine=["compiled"], members=[1, 256])
    assert names(bench, "bc", on_gpu) == ["bc compiled, 1 member", "bc compiled, 256 members"]


def test_missing_peers_have_a_reason(bench: ModuleType) -> None:
    reasons = bench.missing_peers("nowhere/python")
    assert reasons == dict.fromkeys(("d3rlpy", "sb3"), "no nowhere/python here (`make bench-env` makes it)")


def test_figures_of_another_machine_do_not_stay(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(bench.MEASURES, "imports", lambda asked, earlier: {"import x": [1.0]})
    path = tmp_path / "bench-cpu.json"
    path.write_text(json.dumps({"machine": {"cpu": "another"}, "start": {"eager": [1.0]}}))
    assert bench.run(options(tmp_path)) == path
    first = json.loads(path.read_text())
    assert "start" not in first
    assert first["imports"] == {"import x": [1.0]}
    path.write_text(json.dumps({**first, "start": {"eager": [2.0]}}))
    bench.run(options(tmp_path))
    assert json.loads(path.read_text())["start"] == {"eager": [2.0]}


def test_updates_of_other_work_stay(bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "compete", lambda *_: [row("iql", [2.0])])
    earlier = [row("iql", [1.0]), row("iql", [3.0], kernels="fused"), row("cql", [4.0])]
    rows = bench.updates(options(tmp_path), earlier)
    assert [(found["algo"], found["rates"]) for found in rows] == [("iql", [3.0]), ("cql", [4.0]), ("iql", [2.0])]


def test_the_page_of_profiles_has_the_stored_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    page = importlib.import_module("profile_page")
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text) == text
    assert "Nothing is stored" not in text


def test_every_kernel_of_an_update_is_counted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    page = importlib.import_module("profile_page")
    names = {"forward_kernel": 3.0, "cutlass_gemm": 5.0, "triton_poi_fused_lerp_sqrt_1": 7.0, "triton_red_mean": 11.0}
    row = {
        "work": {"algo": "iql", "members": 2, "engine": "compiled"},
        "updates_per_second": 1_000.0,
        "kernels_per_update": 5.0,
        "busy_us_per_update": 30.0,  # four of the kernels are not among the costliest
        "costliest": [{"name": name, "us_per_update": time} for name, time in names.items()],
    }
    machine = {"cpu": "a CPU", "torch": "2.0"}
    (tmp_path / "profile-cpu.json").write_text(json.dumps({"machine": machine, "results": [row]}))
    assert page.profiles("cpu", tmp_path).splitlines()[-1] == "| IQL | 2 | 1,000 | 5 | 30 | 3 | 5 | 7 | 15 |"
