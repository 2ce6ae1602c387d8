"""Checkpoints: complete or absent, checked byte by byte, plain data only, never overwritten."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from rl_training.errors import CheckpointError, RLTrainingError
from rl_training.experiment.manager import load_policy
from rl_training.runtime.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from rl_training.runtime.run_directory import RunDirectory, load_any
from rl_training.runtime.stored_tensors import restore
from rl_training.runtime.trainer import train
from small_runs import digest, files_under, small_config

FILES = ["manifest.json", "state.json", "training.safetensors", "weights.safetensors"]


@pytest.fixture(scope="module")
def trained(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with checkpoints of updates 10 and 15, metrics pending in the second."""
    runs = tmp_path_factory.mktemp("runs")
    config = small_config(data_file, runs, "td3_bc", total_timesteps=15, checkpoint_interval=10, seed=[0, 5])
    return train(config).run


@pytest.fixture
def saved(trained: RunDirectory, tmp_path: Path) -> Path:
    """A copy of the first checkpoint, to damage."""
    return Path(shutil.copytree(trained.checkpoint_path(10), tmp_path / "step-10"))


@pytest.fixture
def checkpoint(trained: RunDirectory) -> Checkpoint:
    return trained.load(10)


def rewrite(path: Path, **changes: Any) -> None:
    """Change entries of state.json and make the manifest agree, as a stranger could."""
    state = {**json.loads((path / "state.json").read_text()), **changes}
    replace_file(path, "state.json", json.dumps(state).encode())


def replace_file(path: Path, name: str, data: bytes) -> None:
    (path / name).write_bytes(data)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(manifest))


class TestContents:
    def test_files_and_manifest(self, saved: Path) -> None:
        files = files_under(saved)
        assert sorted(files) == FILES
        manifest = json.loads(files.pop("manifest.json"))
        assert manifest["format"] == 1
        assert manifest["files"] == {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        }

    def test_weights_and_training_state_are_apart(self, saved: Path) -> None:
        weights = safetensors.torch.load_file(saved / "weights.safetensors")
        training = safetensors.torch.load_file(saved / "training.safetensors")
        assert all(name.startswith("model.") for name in weights)
        assert not any(name.startswith("model.") for name in training)
        assert training["clock"].item() == 10
        assert training["optimiser.critic.steps"].item() == 10
        assert training["optimiser.actor.steps"].item() == 5

    def test_is_complete_in_itself(self, saved: Path, checkpoint: Checkpoint) -> None:
        state = json.loads((saved / "state.json").read_text())
        assert sorted(state) == ["config", "data", "format", "progress", "rl_training", "spaces", "transforms"]
        assert state["config"] == checkpoint.config.to_plain()
        assert state["spaces"] == checkpoint.spaces.to_json()
        assert load_policy(saved).predict(np.zeros(3), seed=5).shape == (1,)

    def test_only_json_and_safetensors(self, saved: Path) -> None:
        for name, data in files_under(saved).items():
            length = int.from_bytes(data[:8], "little")  # a safetensors file is a JSON header and raw numbers
            header = data if name.endswith(".json") else data[8 : 8 + length]
            assert isinstance(json.loads(header), dict), name

    def test_round_trip(self, checkpoint: Checkpoint, tmp_path: Path) -> None:
        sums = {"0/critic/loss": torch.tensor([1.5, 2.5], dtype=torch.float64)}
        checkpoint = replace(checkpoint, progress={**checkpoint.progress, "metric_counts": {"0/critic/loss": 2}})
        save_checkpoint(tmp_path / "again", replace(checkpoint, metric_sums=sums))
        again = load_checkpoint(tmp_path / "again")
        assert digest(again.tensors) == digest(checkpoint.tensors)
        assert torch.equal(again.metric_sums["0/critic/loss"], sums["0/critic/loss"])
        assert replace(again, tensors={}, metric_sums={}) == replace(checkpoint, tensors={}, metric_sums={})

    def test_earlier_versions_froze_nobody_and_did_not_say_so(self, saved: Path, checkpoint: Checkpoint) -> None:
        training = safetensors.torch.load_file(saved / "training.safetensors")
        assert training.pop("active").tolist() == [True, True]
        replace_file(saved, "training.safetensors", safetensors.torch.save(training))
        old = load_checkpoint(saved)
        assert old.build_learner().active.tolist() == [True, True]
        assert digest(old.build_learner().state()) == digest(checkpoint.build_learner().state())

    def test_pending_metrics_are_kept(self, data_file: Path, tmp_path: Path) -> None:
        config = small_config(data_file, tmp_path, total_timesteps=15, checkpoint_interval=7)
        run = train(config).run
        pending = run.load(7) if 7 in run.steps() else run.load(14)
        assert pending.progress["metric_counts"] == {"0/actor/loss": pending.progress["updates"] % 10}
        assert pending.metric_sums["0/actor/loss"].shape == (1,)


class TestDamage:
    def test_every_flipped_bit_is_noticed(self, saved: Path) -> None:
        rng = np.random.default_rng(0)
        for name in FILES:
            data = (saved / name).read_bytes()
            places = {0, len(data) - 1, *rng.integers(0, len(data), 18).tolist()}
            for place in sorted(places):
                broken = bytearray(data)
                broken[place] ^= 1 << int(rng.integers(0, 8))
                (saved / name).write_bytes(broken)
                with pytest.raises(CheckpointError) as caught:
                    load_checkpoint(saved)
                expected = str(saved) if name == "manifest.json" else f"{saved / name}: damaged"
                assert expected in str(caught.value), (name, place)
                assert "\n" not in str(caught.value), (name, place)
            (saved / name).write_bytes(data)
        load_checkpoint(saved)

    @pytest.mark.parametrize("name", FILES)
    def test_truncated(self, name: str, saved: Path) -> None:
        data = (saved / name).read_bytes()
        for length in (0, 1, len(data) // 2, len(data) - 1):
            (saved / name).write_bytes(data[:length])
            if name == "manifest.json" and length == len(data) - 1:  # only the final newline
                load_checkpoint(saved)
                continue
            with pytest.raises(CheckpointError, match=name):
                load_checkpoint(saved)

    @pytest.mark.parametrize("name", FILES)
    def test_missing(self, name: str, saved: Path) -> None:
        (saved / name).unlink()
        with pytest.raises(CheckpointError, match=rf"{name}: cannot be read \(No such file or directory\)"):
            load_checkpoint(saved)

    def test_another_format(self, saved: Path) -> None:
        manifest = json.loads((saved / "manifest.json").read_text())
        (saved / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
        with pytest.raises(CheckpointError, match="checkpoint format 2, this version reads 1"):
            load_checkpoint(saved)

    @pytest.mark.parametrize("text", ["[]", "3", "{}", '{"format": 1}', '{"format": 1, "files": []}', "\xff", "null"])
    def test_a_manifest_of_another_kind(self, text: str, saved: Path) -> None:
        (saved / "manifest.json").write_text(text, "latin-1")
        with pytest.raises(CheckpointError, match=r"manifest\.json"):
            load_checkpoint(saved)

    @pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 64, b'{"a": 1}', pickle.dumps({"a": 1})])
    def test_weights_that_are_no_safetensors(self, data: bytes, saved: Path) -> None:
        replace_file(saved, "weights.safetensors", data)
        with pytest.raises(CheckpointError, match="malformed checkpoint"):
            load_checkpoint(saved)

    def test_a_damaged_last_checkpoint_leaves_the_one_before(self, trained: RunDirectory, tmp_path: Path) -> None:
        run = RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))
        damage(run.checkpoint_path(15) / "weights.safetensors")
        with pytest.raises(CheckpointError, match=r"step-15/weights\.safetensors: damaged"):
            run.load("last")
        assert run.load(10).progress["updates"] == 10

    def test_the_one_before_is_offered(self, trained: RunDirectory, tmp_path: Path) -> None:
        run = RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))
        damage(run.checkpoint_path(15) / "weights.safetensors")
        with pytest.raises(CheckpointError, match=r"step-15.*(step-10|update 10|--which 10)"):
            run.load("last")

    def test_a_damaged_description_of_the_run_damages_no_checkpoint(
        self, trained: RunDirectory, tmp_path: Path
    ) -> None:
        run = RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))
        assert run.newest_sound() == 15
        (run.path / "run.json").write_text("{")
        for look in (run.newest_sound, run.load):
            with pytest.raises(CheckpointError) as caught:
                look()
            assert str(caught.value).startswith(f"{run.path / 'run.json'}: cannot be read (Expecting property name")
            assert "sound" not in str(caught.value)
            way = f"; put back a copy of this file, or name a checkpoint in place of the run: {run.path}/checkpoints/"
            assert str(caught.value).endswith(f"{way}step-15")
        assert load_any(run.path / "checkpoints" / "step-15").progress["steps"] == 15

    @pytest.mark.parametrize("name", FILES)
    def test_a_missing_file_is_named_and_the_newest_sound_one_offered(
        self, name: str, trained: RunDirectory, tmp_path: Path
    ) -> None:
        run = RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))
        (run.checkpoint_path(15) / name).unlink()
        with pytest.raises(CheckpointError, match=rf"step-15/{name}: cannot be read.*newest sound one is step-10 \("):
            run.load("last")
        with pytest.raises(CheckpointError, match=rf"step-15/{name}: cannot be read"):
            load_policy(run.checkpoint_path(15))

    def test_what_is_offered_is_sound(self, trained: RunDirectory, tmp_path: Path) -> None:
        run = RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))
        shutil.copytree(run.checkpoint_path(10), run.checkpoint_path(12))
        for step in (12, 15):
            damage(run.checkpoint_path(step) / "training.safetensors")
        with pytest.raises(CheckpointError, match=r"step-15/.*damaged.*newest sound one is step-10 "):
            run.load("last")
        damage(run.checkpoint_path(10) / "training.safetensors")
        with pytest.raises(CheckpointError, match=r"step-15/.*damaged.*no other is sound"):
            run.load("last")


Tensors = dict[str, torch.Tensor]
FLAT = "model.actor.flat"


class TestRightSums:
    """Damage that the manifest agrees with: named with its checkpoint, and the newest sound one offered."""

    @pytest.fixture
    def run(self, trained: RunDirectory, tmp_path: Path) -> RunDirectory:
        return RunDirectory(Path(shutil.copytree(trained.path, tmp_path / "run")))

    def refusal(self, run: RunDirectory) -> str:
        with pytest.raises(CheckpointError) as caught:
            run.load()
        start, end = f"{run.checkpoint_path(15)}", "; the newest sound one is step-10 (--which 10)"
        said = str(caught.value)
        assert said.startswith(start), said
        assert said.endswith(end), said
        return said.removeprefix(start).removesuffix(end)

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            (lambda t: {**t, FLAT: t[FLAT].int()}, f": {FLAT}: has type torch.int32, expected torch.float32"),
            (lambda t: {**t, FLAT: t[FLAT][:1]}, f": {FLAT}: has shape (1, 160), expected (2, 160)"),
            (lambda t: {**t, "model.z": t[FLAT].clone()}, ": model.z: in the checkpoint only"),
            (lambda t: {n: v for n, v in t.items() if n != FLAT}, f": {FLAT}: in the algorithm only"),
            (
                lambda t: {**t, FLAT: torch.full_like(t[FLAT], torch.nan)},
                f": {FLAT}: holds values that are not finite, which no run saves",
            ),
        ],
    )
    def test_of_tensors(self, change: Callable[[Tensors], Tensors], complaint: str, run: RunDirectory) -> None:
        weights = change(safetensors.torch.load_file(run.checkpoint_path(15) / "weights.safetensors"))
        replace_file(run.checkpoint_path(15), "weights.safetensors", safetensors.torch.save(weights))
        assert self.refusal(run) == complaint

    @pytest.mark.parametrize(
        ("sums", "counted", "complaint"),
        [
            (None, True, "metric.0/a/b: is counted but not summed up"),
            (torch.zeros(2).double(), False, "metric.0/a/b: is summed up but not counted"),
            (torch.zeros(3).double(), True, "metric.0/a/b: has shape (3,), expected (2,)"),
            (torch.zeros(2), True, "metric.0/a/b: has type torch.float32, expected torch.float64"),
            (
                torch.tensor([0.0, torch.inf]).double(),
                True,
                "metric.0/a/b: holds values that are not finite, which no run saves",
            ),
        ],
        ids=str,
    )
    def test_of_metrics(self, sums: torch.Tensor | None, counted: bool, complaint: str, run: RunDirectory) -> None:
        """Of those not yet logged: refused here, and not when the loop starts, where nobody looks for another."""
        place = run.checkpoint_path(15)
        progress = json.loads((place / "state.json").read_text())["progress"]
        training = safetensors.torch.load_file(place / "training.safetensors")
        others = {name: value for name, value in training.items() if not name.startswith("metric.")}
        own = {} if sums is None else {"metric.0/a/b": sums}
        replace_file(place, "training.safetensors", safetensors.torch.save({**others, **own}))
        rewrite(place, progress={**progress, "metric_counts": {"0/a/b": 5} if counted else {}})
        assert self.refusal(run) == f": {complaint}"

    @pytest.mark.parametrize(
        ("entry", "value", "complaint"),
        [
            ("total_updates", 0, ": total_updates: must be at least 1, got 0"),
            ("total_steps", 2**63, ": progress.total_steps: 9223372036854775808 is not a value it can have"),
            ("best", {"step": 2**63, "return_mean": 1.0}, ": progress.best: {'return_mean': 1.0, 'step': "),
            ("best", {"step": 3, "return_mean": 10**400}, ": progress.best: {'return_mean': 1"),
        ],
    )
    def test_of_progress(self, entry: str, value: Any, complaint: str, run: RunDirectory) -> None:
        progress = json.loads((run.checkpoint_path(15) / "state.json").read_text())["progress"]
        rewrite(run.checkpoint_path(15), progress={**progress, entry: value})
        said = self.refusal(run)
        assert said.startswith(complaint)
        assert len(said) < 200

    @pytest.mark.parametrize("size", [10**400, -1, 2**63, 2060.0, True, "2060", None, [1]])
    def test_of_a_size_in_the_manifest(self, size: Any, run: RunDirectory) -> None:
        manifest = json.loads((run.checkpoint_path(15) / "manifest.json").read_text())
        manifest["files"]["weights.safetensors"]["bytes"] = size
        (run.checkpoint_path(15) / "manifest.json").write_text(json.dumps(manifest))
        said = self.refusal(run)
        assert said.startswith("/manifest.json: malformed (ValueError: weights.safetensors has ")
        assert len(said) < 200


def test_a_file_that_is_mostly_a_hole_takes_no_memory(saved: Path) -> None:
    """It may be of any size that the manifest says."""
    size, file = 2**28, saved / "weights.safetensors"
    manifest = json.loads((saved / "manifest.json").read_text())
    manifest["files"][file.name]["bytes"] = size
    (saved / "manifest.json").write_text(json.dumps(manifest))
    os.truncate(file, size)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"weights\.safetensors: damaged"):
            load_checkpoint(saved)
        assert tracemalloc.get_traced_memory()[1] < size / 8
    finally:
        tracemalloc.stop()


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


class TestStrangers:
    def test_loading_runs_nothing(self, saved: Path, tmp_path: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (tmp_path / "ran",)

        replace_file(saved, "training.safetensors", pickle.dumps(Bomb()))
        (saved / "weights.pt").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(CheckpointError):
            load_checkpoint(saved)
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("algo", ["os", "../../evil", "base", "__init__", "rl_training.api"])
    def test_an_algorithm_of_its_own(self, algo: str, saved: Path) -> None:
        config = json.loads((saved / "state.json").read_text())["config"]
        rewrite(saved, config={**config, "algo": algo})
        with pytest.raises(RLTrainingError, match="no algorithm"):
            load_checkpoint(saved)

    def test_an_option_of_a_later_version(self, saved: Path) -> None:
        config = json.loads((saved / "state.json").read_text())["config"]
        rewrite(saved, config={**config, "not_yet": 1})
        with pytest.raises(CheckpointError, match=str(saved)):
            load_checkpoint(saved)

    @pytest.mark.parametrize("entry", ["config", "spaces", "transforms"])
    def test_missing_or_wrong_entries(self, entry: str, saved: Path) -> None:
        for value in (None, [], 3, "text", {}):
            rewrite(saved, **{entry: value})
            with pytest.raises(RLTrainingError):
                load_checkpoint(saved)

    @pytest.mark.parametrize("value", [None, [], {}, {"total_updates": "many"}])
    def test_wrong_progress(self, value: Any, saved: Path) -> None:
        rewrite(saved, progress=value)
        with pytest.raises(CheckpointError, match="progress"):
            load_policy(saved)

    def test_deeply_nested_json(self, saved: Path) -> None:
        (saved / "manifest.json").write_text("[" * 100_000)
        with pytest.raises(CheckpointError):
            load_checkpoint(saved)


class TestRestore:
    def test_names(self) -> None:
        here, there = {"a": torch.zeros(2), "b": torch.zeros(2)}, {"a": torch.ones(2)}
        with pytest.raises(CheckpointError, match="b: in the algorithm only"):
            restore(here, there)
        with pytest.raises(CheckpointError, match="b: in the checkpoint only"):
            restore(there, here)

    def test_shapes(self) -> None:
        with pytest.raises(CheckpointError, match=r"a: has shape \(3,\), expected \(2, 3\)"):
            restore({"a": torch.zeros(2, 3)}, {"a": torch.ones(3)})

    def test_types(self) -> None:
        with pytest.raises(CheckpointError, match=r"float64.*float32|float32.*float64"):
            restore({"a": torch.zeros(2)}, {"a": torch.ones(2, dtype=torch.float64)})

    def test_nothing_is_copied_unless_everything_fits(self) -> None:
        live = {"a": torch.zeros(2), "b": torch.zeros(2)}
        with pytest.raises(CheckpointError):
            restore(live, {"a": torch.ones(2), "b": torch.ones(3)})
        assert torch.equal(live["a"], torch.zeros(2))
