"""What a measurement of this package runs: the work as told, in the way of `train`."""

from __future__ import annotations

import pytest

from rl_training import algorithms
from rl_training.errors import ConfigError
from rl_training.experiment.benchmark import Work, measure, prepare

TINY = {"width": 8, "rows": 300, "batch_size": 8, "obs_dim": 3, "act_dim": 2, "engine": "eager", "device": "cpu"}


@pytest.mark.parametrize("algo", algorithms.find())
def test_every_algorithm_can_be_measured(algo: str) -> None:
    worker = prepare(Work(algo, members=2, **TINY))  # type: ignore[arg-type]
    worker.run(1)
    worker.run(3 * worker.unit - 1)
    assert worker.generating > 0.0


def test_the_usual_sizes() -> None:
    assert Work("td3_bc").sizes == (256, 2)
    assert Work("rebrac").sizes == (1024, 3)
    assert Work("rebrac", batch_size=64, layers=1).sizes == (64, 1)
    knobs = Work("cql").config().algo_kwargs
    assert (knobs["batch_size"], knobs["actor_hidden"], knobs["critic_hidden"]) == (256, [256, 256], [256, 256])
    assert knobs["num_cql_samples"] == 10
    assert Work("iql", members=3).config().seeds == (0, 1, 2)


def test_nothing_is_left_to_choose() -> None:
    work = Work("rebrac", engine="eager").resolved()
    assert (work.engine, work.batch_size, work.layers) == ("eager", 1024, 3)
    assert work.device in ("cpu", "cuda")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algo": "iqq"}, "algo: no algorithm 'iqq'; did you mean 'iql'?"),
        ({"members": 0}, "members: must be at least 1, got 0"),
        ({"rows": -1}, "rows: must be at least 1, got -1"),
        ({"layers": -1}, "layers: must be at least 1, or 0 for the usual, got -1"),
        ({"engine": "fast"}, "engine: must be 'auto', 'eager' or 'compiled', got 'fast'"),
        ({"device": "gpu"}, "device: must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ({"device": "cpu", "precision": "tf32"}, "precision: 'tf32' is a mode of CUDA devices; use fp32, bf16 or auto"),
        ({"device": "cpu", "kernels": "fused"}, "kernels: 'fused' needs a CUDA device and Triton; use 'plain'"),
    ],
)
def test_mistakes_are_told_before_anything_starts(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        measure([Work(**{"algo": "iql", **changes})], seconds=1.0)  # type: ignore[arg-type]
    assert str(caught.value) == message
