"""The page of scores: what its cells say, and the curves behind its reasons."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
import yaml

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("score_tables")


def row(*means: float, **more: object) -> dict[str, object]:
    """Seeds with these mean returns."""
    return {"returns": [[mean - 1.0, mean + 1.0] for mean in means], "seeds": list(range(len(means))), **more}


def test_a_cell_tells_how_many_seeds_it_has_unless_five(tables: ModuleType) -> None:
    assert tables.summary("pendulum-random", row(1.0, 2.0, 3.0, 4.0, 5.0)) == "3.0 ± 1.6"
    assert tables.summary("pendulum-random", row(1.0, 2.0)) == "1.5 ± 0.7 (2 seeds)"
    assert tables.summary("pendulum-random", row(1.0)) == "1.0 (1 seed)"


def test_intervals_are_those_of_student(tables: ModuleType) -> None:
    assert tables.interval("pendulum-random", row(1.0, 2.0, 3.0, 4.0, 5.0)) == pytest.approx((1.037, 4.963), abs=1e-3)
    assert tables.interval("pendulum-random", row(1.0)) is None
    assert tables.interval("hopper-medium", {"score": "50.8 ± 2.4"}) == pytest.approx((47.82, 53.78), abs=0.01)


def test_only_a_mean_under_the_interval_is_below(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = row(1.0, 2.0, 3.0, 4.0, 5.0, dataset="pendulum-random", algo="iql", updates=10, d3rlpy="2")
    monkeypatch.setattr(tables, "stored", lambda name: [peer] if name == "d3rlpy_scores" else [])

    def line(mean: float) -> str:
        ours = row(*[mean] * 5, updates=10)
        return str(tables.comparison({("pendulum-random", "iql"): ours}).splitlines()[-1])

    assert "| 1.0 to 5.0 | below |" in line(1.0)
    assert "| 1.0 to 5.0 |  |" in line(1.1)
    assert "| 1.0 to 5.0 |  |" in line(9.0)


def test_missing_seeds_are_named(tables: ModuleType) -> None:
    pairs = [(name, algo) for algo in tables.PEER_ALGORITHMS for name in ("pendulum-replay", "pendulum-random")]
    peers = {pair: row(1.0, 2.0, 3.0, 4.0, 5.0) for pair in pairs}
    assert tables.missing(peers) == ""
    peers["pendulum-random", "iql"] = row(1.0, 2.0)
    del peers["pendulum-replay", "crr"]
    assert tables.missing(peers).endswith("only: 2 of `iql` on pendulum-random, none of `crr` on pendulum-replay.")


def test_a_curve_is_what_the_run_wrote(tables: ModuleType, tmp_path: Path) -> None:
    curves = importlib.import_module("learning_curve")
    config = {"algo": "cql", "algo_kwargs": {"cql_alpha": 5.0}, "transforms": {}, "evaluation": {"episodes": 5}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "run.json").write_text(json.dumps({"versions": {"torch": "2"}}))
    evaluations = [{"step": step, "seeds": [3, 4], "return_mean": [12135.0, -280.178953]} for step in (10, 20)]
    (tmp_path / "evaluations.jsonl").write_text("\n".join(map(json.dumps, evaluations)))
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 5, "actor/q": [1.23456789, 2.0], "alpha/value": [1.0]}))
    row = curves.curve("a", "halfcheetah-medium", tmp_path)
    assert (row["seeds"], row["steps"], row["scores"]) == ([3, 4], [10, 20], [[100.0, 0.0], [100.0, 0.0]])
    assert (row["metric_steps"], row["metrics"]) == ([5], {"actor/q": [[1.23457, 2.0]]})
