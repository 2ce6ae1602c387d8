"""A run goes on by what computed it so far, whatever `engine: auto` would choose by now."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from rl_training.errors import CheckpointError
from rl_training.experiment import manager
from rl_training.experiment.report.contents import read_runs
from rl_training.experiment.report.reproducing import reproduce
from rl_training.runtime import engine as engines
from rl_training.runtime.checkpoint import save_checkpoint
from rl_training.runtime.kept_engine import device_to_go_on_with, mode_to_go_on_with
from rl_training.runtime.parts import TrainResult
from rl_training.runtime.progress import Progress
from small_runs import StopAt, digest, small_config

MIXED = "the results are not bit for bit those of an unbroken run"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs of 30 updates are long; a compiler that gives back what it is given, by the device of each engine."""
    made: list[str] = []
    monkeypatch.setitem(engines._COMPILE_PAYS_FROM, "cpu", 30)
    monkeypatch.setattr(engines, "compiler_available", lambda: True)
    monkeypatch.setattr(engines, "_compile", lambda update, device: made.append(device) or update)
    return made


def started(data: Path, runs: Path, updates: int = 20, stop: int | None = None, **changes: object) -> TrainResult:
    config = small_config(data, runs, total_timesteps=updates, device="cpu", **changes)
    return manager.start(config, callbacks=[StopAt(stop)] if stop else [])


def notices(result: TrainResult) -> list[str]:
    """On the engine alone: the machine may be busy."""
    return [told for told in result.run.describe().get("machine_notices", []) if "engine:" in told]


def changed(before: str, now: str, why: str) -> str:
    return f"warning: engine: was {before} so far, and goes on {now}, as {why}; {MIXED}"


def kept(mode: str, updates: str, new: str) -> str:
    return f"engine: goes on {mode}, as it was begun; a new run of {updates} updates would be {new} here"


NO_COMPILER = "compiling needs a C++ compiler (g++ or clang++) on this machine"
NO_GPU, A_GPU = "torch sees no CUDA device here", "device: cuda was asked for"
ASKED = "engine: eager was asked for"


@pytest.mark.parametrize(
    ("asked", "before", "updates", "device", "compiler", "mode", "told"),
    [
        ("auto", "", 40_000, "cpu", True, "compiled", None),
        ("auto", "eager on cpu", 20_000, "cpu", True, "eager", None),
        ("auto", "eager on cpu", 40_000, "cpu", True, "eager", kept("eager", "40,000", "compiled")),
        ("auto", "eager on cpu", 40_000, "cpu", False, "eager", None),
        ("auto", "compiled on cpu", 20_000, "cpu", True, "compiled", kept("compiled", "20,000", "eager")),
        ("auto", "compiled on cpu", 40_000, "cpu", False, "eager", ("eager on cpu", NO_COMPILER)),
        ("auto", "compiled on cuda", 40_000, "cpu", True, "compiled", ("compiled on cpu", NO_GPU)),
        ("auto", "eager on cpu", 5_000, "cuda", True, "compiled", ("compiled on cuda", A_GPU)),
        ("eager", "compiled on cpu", 40_000, "cpu", True, "eager", ("eager on cpu", ASKED)),
        ("compiled", "compiled on cpu", 10, "cpu", True, "compiled", None),
    ],
)
def test_rules(
    asked: str,
    before: str,
    updates: int,
    device: str,
    compiler: bool,
    mode: str,
    told: str | tuple[str, str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was compiled or eager before that is long past; the last updates count."""
    monkeypatch.setattr(engines, "compiler_available", lambda: compiler)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "cuda")
    progress = Progress(updates, updates, 1, engines=["eager on cuda", before] if before else [])
    expected = changed(before, *told) if isinstance(told, tuple) else told
    found = mode_to_go_on_with(asked, progress, torch.device(device))  # type: ignore[arg-type]
    assert found == (mode, [expected] if expected else [])


@pytest.mark.parametrize(
    ("asked", "engines", "has_gpu", "device", "is_told"),
    [
        ("auto", [], True, "cuda", False),
        ("auto", ["eager on cpu"], True, "cpu", True),
        ("auto", ["eager on cuda", "compiled on cpu"], True, "cpu", True),
        ("auto", ["compiled on cuda"], True, "cuda", False),
        ("auto", ["compiled on cuda"], False, "cpu", False),  # which `mode_to_go_on_with` warns of
        ("auto", ["eager on cpu"], False, "cpu", False),
        ("cuda", ["eager on cpu"], True, "cuda", False),
    ],
)
def test_the_device_stays_what_it_was(
    asked: str,
    engines: list[str],
    has_gpu: bool,
    device: str,
    is_told: bool,
    data_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = started(data_file, tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(has_gpu))
    checkpoint = replace(begun.checkpoint, progress={**begun.checkpoint.progress, "engines": engines})
    found, told = device_to_go_on_with(asked, checkpoint, begun.run)
    assert (found, len(told)) == (device, int(is_told))
    assert device_to_go_on_with("auto", None, None) == ("cuda" if has_gpu else "cpu", [])


class TestRuns:
    def test_a_gpu_that_has_come_is_told_of(
        self, data_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = started(data_file, tmp_path / "whole")
        config = small_config(data_file, tmp_path, total_timesteps=20, device="auto")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        run = manager.start(config, callbacks=[StopAt(7)]).run
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        ended = manager.resume(run.path)
        assert ended.run.describe()["engines"] == ["eager on cpu"]
        assert digest(ended.checkpoint.tensors) == digest(whole.checkpoint.tensors)
        (told,) = [notice for notice in ended.run.describe()["machine_notices"] if "device:" in notice]
        options = f"--name NAME --set init_from={run.path} --set device=cuda"
        assert told == (
            "device: continues on the CPU, as it was begun, though there is a CUDA device by now; "
            f"`rl-training train -c {run.path}/config.yaml {options}` trains its networks on there, as a new run"
        )

    def test_a_larger_budget_changes_nothing_of_how_it_is_computed(
        self, data_file: Path, tmp_path: Path, compiled: list[str]
    ) -> None:
        begun = started(data_file, tmp_path / "begun")
        assert begun.run.describe()["engines"] == ["eager on cpu"]
        grown = manager.resume(begun.run.path, total_timesteps=40)
        assert not compiled
        assert grown.run.load().progress["engines"] == grown.run.describe()["engines"] == ["eager on cpu"]
        assert notices(grown) == [
            "engine: goes on eager, as it was begun; a new run of 40 updates would be compiled here"
        ]
        assert "config.yaml --name run-again --set engine=eager" in reproduce(read_runs([grown.run.path]))
        whole = started(data_file, tmp_path / "whole", 40, engine="eager")
        assert digest(grown.checkpoint.tensors) == digest(whole.checkpoint.tensors)

    def test_one_that_was_compiled_is_compiled(self, data_file: Path, tmp_path: Path, compiled: list[str]) -> None:
        begun = started(data_file, tmp_path, 40, stop=10)
        assert manager.resume(begun.run.path, total_timesteps=25).run.describe()["engines"] == ["compiled on cpu"]
        assert compiled == ["cpu", "cpu"]

    def test_without_the_compiler_it_goes_on_and_says_so(
        self, data_file: Path, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begun = started(data_file, tmp_path, 40, stop=10)
        monkeypatch.setattr(engines, "compiler_available", lambda: False)
        ended = manager.resume(begun.run.path)
        assert (ended.status, compiled) == ("finished", ["cpu"])
        (told,) = notices(ended)
        assert told.startswith(
            "warning: engine: was compiled on cpu so far, and goes on eager on cpu, as compiling needs"
        )
        assert told.endswith(MIXED)
        both = ["compiled on cpu", "eager on cpu"]
        assert ended.run.load().progress["engines"] == both
        page = reproduce(read_runs([ended.run.path]))
        assert "It was computed compiled on cpu, then eager on cpu: no command gives the same weights" in page

    def test_a_compiler_that_failed_at_the_start_is_not_tried_again(
        self, data_file: Path, tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        works = engines._compile
        monkeypatch.setattr(engines, "_compile", lambda update, device: torch.compile(update, backend=_fails))
        begun = started(data_file, tmp_path, 40, stop=10)
        assert begun.run.describe()["engines"] == ["eager on cpu"]
        monkeypatch.setattr(engines, "_compile", works)
        assert manager.resume(begun.run.path).run.describe()["engines"] == ["eager on cpu"]
        assert not compiled

    def test_a_compiler_that_fails_by_now_is_told_of(
        self,
        data_file: Path,
        tmp_path: Path,
        compiled: list[str],
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        begun = started(data_file, tmp_path, 40, stop=10)
        monkeypatch.setattr(engines, "_compile", lambda update, device: torch.compile(update, backend=_fails))
        ended = manager.resume(begun.run.path)
        assert ended.run.describe()["engines"] == ["compiled on cpu", "eager on cpu"]
        assert "more slowly, and not bit for bit as a run that is compiled throughout" in caplog.text

    def test_a_checkpoint_that_is_trained_on_goes_on_as_well(
        self, data_file: Path, tmp_path: Path, compiled: list[str]
    ) -> None:
        begun = started(data_file, tmp_path)
        branched = manager.branch(begun.checkpoint.config, begun.checkpoint, total_timesteps=40)
        assert branched.run.path != begun.run.path
        assert branched.run.describe()["engines"] == ["eager on cpu"]
        assert not compiled

    def test_runs_of_earlier_versions_go_on_as_a_new_one_would(
        self, data_file: Path, tmp_path: Path, compiled: list[str]
    ) -> None:
        begun = started(data_file, tmp_path)
        old = {name: value for name, value in begun.checkpoint.progress.items() if name != "engines"}
        _saved_anew(begun, old)
        ended = manager.resume(begun.run.path, total_timesteps=40)
        assert (ended.run.describe()["engines"], compiled) == (["compiled on cpu"], ["cpu"])


def _fails(*_: object) -> None:
    raise OSError(28, "No space left on device")


def _saved_anew(result: TrainResult, progress: dict[str, object]) -> None:
    place = result.run.checkpoint_path(int(result.checkpoint.progress["steps"]))
    place.rename(result.run.path / "before")
    save_checkpoint(place, replace(result.checkpoint, progress=progress))


class TestDamage:
    @pytest.mark.parametrize("engines", ["eager on cpu", ["fast on cpu"], [["eager on cpu"]], [3], {}, None], ids=str)
    def test_what_no_checkpoint_says(self, engines: object) -> None:
        with pytest.raises(CheckpointError) as caught:
            Progress.from_json({**asdict(Progress(3, 3, 1)), "engines": engines})
        assert str(caught.value) == f"progress.engines: {engines!r} is not a value it can have"

    def test_counts_as_damage_of_the_checkpoint(self, data_file: Path, tmp_path: Path) -> None:
        begun = started(data_file, tmp_path, stop=15, checkpoint_interval=10)
        _saved_anew(begun, {**begun.checkpoint.progress, "engines": ["fast on cpu"]})
        with pytest.raises(CheckpointError, match=r"progress\.engines: .* the newest sound one is step-10"):
            manager.resume(begun.run.path)

    def test_of_run_json(self, data_file: Path, tmp_path: Path) -> None:
        run = started(data_file, tmp_path).run
        file = run.path / "run.json"
        file.write_text(json.dumps({**run.describe(), "engines": ["fast on cpu"]}))
        with pytest.raises(CheckpointError, match=r"run\.json: engines: \['fast on cpu'\] is not a value it can have"):
            run.describe()
