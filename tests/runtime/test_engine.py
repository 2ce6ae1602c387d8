"""The engine: which mode, which batches, which sums."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training import streams
from rl_training.data.batch import Batch
from rl_training.errors import ConfigError
from rl_training.runtime import engine as engines
from rl_training.runtime.engine import Engine, choose_device, choose_mode, compiler_available
from rl_training.runtime.trainer import Trainer
from small_runs import digest, small_config


class TestDevice:
    def test_a_gpu_named_by_its_number_becomes_the_current_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        current: list[int] = []
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "set_device", current.append)
        names = ["cpu", "cuda", "cuda:1", "cuda:0"]
        assert [choose_device(name) for name in names] == names
        assert current == [1, 0]

    def test_a_gpu_that_is_not_there_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        with pytest.raises(ConfigError, match=r"device: 'cuda:2' asked for, but torch sees 2 CUDA devices"):
            choose_device("cuda:2")


class TestMode:
    @pytest.mark.parametrize(
        ("mode", "updates", "device", "compiler", "expected"),
        [
            ("auto", 10, "cpu", True, "eager"),
            ("auto", 29_999, "cpu", True, "eager"),
            ("auto", 30_000, "cpu", True, "compiled"),
            ("auto", 4_999, "cuda", True, "eager"),
            ("auto", 5_000, "cuda", True, "compiled"),
            ("auto", 30_000, "cpu", False, "eager"),
            ("eager", 10**6, "cuda", True, "eager"),
            ("compiled", 1, "cpu", True, "compiled"),
        ],
    )
    def test_rules(
        self, mode: str, updates: int, device: str, compiler: bool, expected: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engines, "compiler_available", lambda: compiler)
        assert choose_mode(mode, updates, torch.device(device)) == expected  # type: ignore[arg-type]

    def test_compiled_without_a_compiler(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engines, "compiler_available", lambda: False)
        message = r"engine: 'compiled' needs a C\+\+ compiler \(g\+\+ or clang\+\+\) on this machine; use 'eager'"
        with pytest.raises(ConfigError, match=message):
            Trainer(small_config(data_file, tmp_path / "runs", engine="compiled")).train()
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize(("most", "enough"), [(20, False), (63, False), (64, True), (-1, True)])
    def test_too_few_open_files(
        self, most: int, enough: bool, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """torch may fail for want of them, and was reported to hang: it is not tried. -1 is no limit."""
        made: list[str] = []
        monkeypatch.setattr(engines, "_compile", lambda update, device: made.append(device) or update)
        monkeypatch.setattr(engines, "compiler_available", lambda: True)
        monkeypatch.setattr("resource.getrlimit", lambda kind: (most, 4096))
        monkeypatch.setitem(engines._COMPILE_PAYS_FROM, "cpu", 20)
        told = f"compiling needs 64 open files (`ulimit -n` allows {most} here; raise it)"
        short = Trainer(small_config(data_file, tmp_path, name="short", total_timesteps=10, device="cpu")).train()
        result = Trainer(small_config(data_file, tmp_path, name="long", device="cpu")).train()
        assert (result.status, made) == ("finished", ["cpu"] if enough else [])
        notices = [one.run.describe().get("machine_notices", []) for one in (short, result)]
        notices = [[notice for notice in some if "compiling" in notice] for some in notices]
        assert notices == [[], [] if enough else [f"{told}; training goes on without it, more slowly"]]
        if not enough:
            config = small_config(data_file, tmp_path, name="asked", engine="compiled", device="cpu")
            with pytest.raises(ConfigError) as caught:
                Trainer(config).train()
            assert str(caught.value) == told.replace("compiling", "engine: 'compiled'") + "; use 'eager'"

    def test_a_compiler_that_fails_is_done_without(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fails(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(engines, "_compile", lambda update, device: torch.compile(update, backend=fails))
        config = small_config(data_file, tmp_path / "runs", "bc", engine="compiled", name="by-name", device="cpu")
        with pytest.raises(ConfigError, match=r"engine: 'compiled', but compiling failed \(.*No space left on dev"):
            Trainer(config).train()
        monkeypatch.setitem(engines._COMPILE_PAYS_FROM, "cpu", 1)
        weights = [
            Trainer(config.model_copy(update={"engine": mode, "name": mode})).train().actor.learner.model.state_dict()
            for mode in ("auto", "eager")
        ]
        assert "No space left on device); training goes on without it, more slowly" in caplog.text
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])

    def test_nothing_is_chosen_by_the_clock_on_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Compiled again, as for a resumed run, it must round alike, whatever was compiled in between."""
        made: list[dict[str, bool]] = []
        monkeypatch.setattr(torch, "compile", lambda function, **given: made.append(given["options"]) or function)
        for device in ("cuda", "cpu"):
            engines._compile(lambda phase, sums: (), device)
        timed = {"deterministic": True, "triton.autotune_pointwise": False}
        assert made == [{"loop_ordering_after_fusion": False, **timed}, {"loop_ordering_after_fusion": False}]
        known = torch._inductor.config.get_config_copy()
        assert set(made[0]) <= set(known)

    def test_a_compiler_is_looked_for_on_the_path_and_in_cxx(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setattr("sys.platform", "linux")
        assert not compiler_available()
        for name, variable in (("g++", None), ("my-c++", "my-c++")):
            program = tmp_path / name
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            if variable:
                monkeypatch.setenv("CXX", variable)
            assert compiler_available()
            program.unlink()


@pytest.fixture
def make(data_file: Path, tmp_path: Path) -> object:
    def engine(name: str, **changes: object) -> Engine:
        return Trainer(small_config(data_file, tmp_path, "td3_bc", name=name, **changes)).prepare().engine

    return engine


class TestBatches:
    def test_are_a_function_of_seed_and_update(self, make: object) -> None:
        """The same batches whatever was drawn before and whoever trains beside."""
        alone, among = make("alone", seed=4), make("among", seed=[9, 4])

        def batch(engine: Engine, update: int) -> Batch:
            return engine.source.batch(engine.learner.keys, torch.tensor(update), 8)

        later = batch(alone, 1000)
        alone.run(0, 3)
        assert all(torch.equal(a, b) for a, b in zip(batch(alone, 1000), later, strict=True) if a is not None)
        assert torch.equal(batch(among, 1000).obs[1], later.obs[0])
        assert not torch.equal(batch(among, 1000).obs[0], later.obs[0])
        assert not torch.equal(batch(alone, 1001).obs, later.obs)

    def test_come_from_the_whole_dataset(self, make: object) -> None:
        engine = make("one")
        rows = engine.source.batch(engine.learner.keys, torch.tensor(0), 50_000).obs[0]
        assert len(torch.unique(rows, dim=0)) > 1_990  # of 2,000; the expected number missed is 2,000·e^-25

    def test_are_the_rows_of_the_dataset(self, make: object, dataset: object) -> None:
        engine = make("one", device="cpu")
        clock, size = torch.tensor(17), 8
        index = streams.integers(engine.learner.keys, streams.stream_id("batch"), clock, size, 2_000)[0].numpy()
        batch = engine.source.batch(engine.learner.keys, clock, size)
        np.testing.assert_array_equal(batch.obs[0].numpy(), dataset.obs[index])
        np.testing.assert_array_equal(batch.rewards[0].numpy(), dataset.rewards[index])
        np.testing.assert_array_equal(batch.next_obs[0].numpy(), dataset.next_obs[index])


class TestMetrics:
    def test_taking_them_starts_anew(self, make: object) -> None:
        engine = make("one", seed=[0, 1])
        assert engine.take_metrics() == {}
        engine.run(0, 2)
        first = engine.take_metrics()
        assert {name: len(values) for name, values in first.items()} == dict.fromkeys(first, 2)
        assert engine.take_metrics() == {}
        engine.run(2, 2)
        assert engine.take_metrics() != first

    def test_in_one_block_or_in_many(self, make: object) -> None:
        one, many = make("one"), make("many")
        one.run(0, 7)
        for first, count in ((0, 1), (1, 4), (5, 2)):
            many.run(first, count)
        assert one.take_metrics() == many.take_metrics()
        assert digest(one.learner.state()) == digest(many.learner.state())


class TestCapture:
    """What a GPU would capture, told without one."""

    @pytest.mark.parametrize("resumed", [False, True])
    def test_only_what_has_run_in_this_process(
        self, resumed: bool, make: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine = make("one")
        engine._captures = True
        if resumed:
            other = make("other")
            other.run(0, 3)
            engine.restore_metrics(*other.metric_state())

        class Replay:
            def replay(self) -> None:
                assert engine._ran == {0, 1}

        monkeypatch.setattr(engine, "_capture", lambda phases: Replay())
        engine.run(0, 40)
        assert engine._graphs


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_a_graph_is_captured(collects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a cycle held, the graphs of a run before, would be let go of in the middle of it, and end it."""
    seen = []

    @contextmanager
    def capture(graph: object) -> Iterator[None]:
        seen.append(gc.isenabled())
        yield
        raise RuntimeError("the capture failed")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(RuntimeError, match="the capture failed"):
            Engine._capture(None, ())  # type: ignore[arg-type]
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        gc.enable()
