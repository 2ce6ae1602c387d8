"""This package under the faults of `faults.py`, and Minari's datasets, which are read in the same environment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fault_cases import ACT, OBS, ROWS, Outcome, digest, made_up


@dataclass(frozen=True)
class Loaded:
    """A checkpoint, and the step it is of."""

    tensors: dict[str, Any]
    fault_step: int


class Ours:
    styles = ("a name per step",)
    calls = {  # noqa: RUF012
        "kill": "RunDirectory.keep (what a run does at every checkpoint) in a loop; load_policy(run)",
        "flip": "two checkpoints of a run; load_policy(run)",
        "disk": "RunDirectory.keep; load_policy(run)",
        "stranger": "load_policy of a run with a pickled call as weights (its sum in the manifest), as state, and as a "
        "YAML tag in config.yaml",
        "resume": "td3_bc: TD3BC.learn stopped by a callback, manager.resume; weights and optimiser compared",
        "nan": "TD3BC(dataset=arrays).learn; learn with a callback that sets one seed's policy to NaN",
        "datasets": "TransitionDataset.from_dict with action bounds, then ten updates of TD3BC",
        "settings": "TD3BC(**setting).learn",
        "bombs": "TransitionDataset.load of an HDF5 file and of an .npz file",
        "sigterm": "rl-training train with checkpoint_interval: 300; rl-training resume",
    }

    def versions(self) -> dict[str, str]:
        import torch

        import rl_training

        torch.set_num_threads(1)
        return {"rl_training": rl_training.__version__, "torch": torch.__version__}

    def model(self, folder: Path, updates: int = 100, dataset: Any = None, **settings: Any) -> Any:
        from rl_training import TD3BC, TransitionDataset

        given = {"name": "run", "checkpoint_interval": 10, "log_interval": 10, "engine": "eager", "batch_size": 32}
        arrays = TransitionDataset.from_dict(made_up()) if dataset is None else dataset
        return TD3BC(dataset=arrays, total_timesteps=updates, runs_dir=str(folder), **{**given, **settings})

    def fresh(self, folder: Path) -> Any:
        from rl_training.runtime.trainer import Trainer

        model = self.model(folder)
        loop = Trainer(model._config(), dataset=model.dataset).prepare()
        return loop.run_directory, loop.snapshot()

    def save(self, model: Any, folder: Path, step: int, style: str) -> None:
        run, checkpoint = model
        run.keep(replace(checkpoint, progress={**checkpoint.progress, "steps": step}))

    def newest_files(self, folder: Path) -> list[Path]:
        places = [path for path in (folder / "run" / "checkpoints").glob("step-*") if path.suffix == ""]
        newest = max((path for path in places if ".tmp-" not in path.name), key=lambda path: int(path.name[5:]))
        return sorted(newest.iterdir())

    def load_newest(self, folder: Path) -> Loaded:
        from rl_training import load_policy

        checkpoint = load_policy(folder / "run").checkpoint
        return Loaded(dict(checkpoint.tensors), int(checkpoint.progress["steps"]))

    def weights(self, model: Loaded) -> dict[str, Any]:
        return {name: value.numpy() for name, value in model.tensors.items()}

    def stranger(self, folder: Path, marker: Path) -> None:
        """Every way in is tried; what the last one is told is raised."""

        class Call:
            def __reduce__(self) -> Any:
                return os.mkdir, (str(marker),)

        self.save(self.fresh(folder), folder, 1, self.styles[0])
        config = folder / "run" / "config.yaml"
        config.write_text(f"{config.read_text()}x: !!python/object/apply:os.mkdir ['{marker}']\n")
        with contextlib.suppress(Exception):
            self.load_newest(folder)
        manifest = next(file for file in self.newest_files(folder) if file.name == "manifest.json")
        for name in ("state.json", "weights.safetensors"):
            file = manifest.parent / name
            whole, sums = file.read_bytes(), manifest.read_text()
            file.write_bytes(pickle.dumps(Call()))
            told = json.loads(sums)
            told["files"][name] = {
                "bytes": file.stat().st_size,
                "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            }
            manifest.write_text(json.dumps(told))
            if name == "state.json":
                with contextlib.suppress(Exception):
                    self.load_newest(folder)
                file.write_bytes(whole)
                manifest.write_text(sums)
        self.load_newest(folder)

    def callback(self, at: int, action: Any) -> Any:
        """Calls `action(loop)` before one update; blocks are cut to single updates for that."""
        from rl_training import Callback

        class At(Callback):
            def on_start(self, loop: Any) -> None:
                advance = loop.engine.source.advance

                def one(limit: int) -> Any:
                    if loop.progress.steps == at:
                        action(loop)
                    return advance(min(1, limit))

                loop.engine.source.advance = one

        return At()

    def resumed(self, folder: Path, stop: int, total: int) -> tuple[str, str]:
        from rl_training import TransitionDataset
        from rl_training.experiment import manager

        for name in ("unbroken", "broken"):
            (folder / name).mkdir()
        self.model(folder / "unbroken", total).learn()
        asked = self.callback(stop - 1, lambda loop: loop.stop("asked to", status="interrupted"))
        self.model(folder / "broken", total).learn(callback=asked)
        assert self.load_newest(folder / "broken").fault_step == stop
        manager.resume(folder / "broken" / "run", dataset=TransitionDataset.from_dict(made_up()))
        one, other = (digest(self.weights(self.load_newest(folder / name))) for name in ("unbroken", "broken"))
        return one, other

    def nan_data(self, folder: Path) -> Any:
        arrays = made_up()
        arrays["rewards"][7] = float("nan")
        self.model(folder, dataset=arrays).learn()
        return self.weights(self.load_newest(folder))

    def nan_weights(self, folder: Path) -> Any:
        def poison(loop: Any) -> None:
            loop.actor.learner.policy.flat.data.view(-1)[0] = float("nan")

        self.model(folder).learn(callback=self.callback(20, poison))
        return self.weights(self.load_newest(folder))

    def settings(self, folder: Path, name: str, value: Any) -> None:
        self.model(folder, 10, **{name: value}).learn()

    def accept(self, arrays: dict[str, Any]) -> None:
        from rl_training import TransitionDataset

        dataset = TransitionDataset.from_dict(arrays, action_low=-1.0, action_high=1.0)
        with tempfile.TemporaryDirectory() as folder:
            self.model(Path(folder), 10, dataset).learn()
            for notice in json.loads((Path(folder) / "run" / "run.json").read_text()).get("notices", []):
                warnings.warn(notice, stacklevel=2)  # told on the console and in run.json

    def bomb(self, folder: Path, kind: str) -> Path:
        import h5py
        import numpy as np

        if kind == "hdf5":
            path = folder / "bomb.hdf5"
            with h5py.File(path, "w") as file:
                for name, shape in (
                    ("observations", (2**36, 16)),
                    ("actions", (2**36, 1)),
                    ("rewards", (2**36,)),
                    ("terminals", (2**36,)),
                ):
                    file.create_dataset(name, shape, np.float32)
            return path
        path = folder / "bomb.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, shape in (
                ("obs", (2**24, 16)),
                ("actions", (2**24, 1)),
                ("rewards", (2**24,)),
                ("terminations", (2**24,)),
            ):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    about = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, about)  # type: ignore[arg-type]
                    for _ in range(int(np.prod(shape)) // 2**18):
                        member.write(bytes(2**20))
        return path

    def open_bomb(self, path: Path) -> Any:
        from rl_training import TransitionDataset

        return TransitionDataset.load(path)

    def train_on(self, folder: Path) -> None:
        """`rl-training train` in this process; a thread leaves a sign once there is a checkpoint."""
        import numpy as np

        from rl_training.cli.main import main

        np.savez(folder / "data.npz", **made_up())
        (folder / "config.yaml").write_text(
            f"{{algo: td3_bc, dataset: {folder}/data.npz, total_timesteps: 10000000, checkpoint_interval: 300, "
            f"log_interval: 100, engine: eager, runs_dir: {folder}, name: run, algo_kwargs: {{batch_size: 32}}}}\n"
        )

        def watch() -> None:
            while not list(folder.glob("run/checkpoints/step-*00")):
                time.sleep(0.02)
            (folder / "started").touch()

        threading.Thread(target=watch, daemon=True).start()
        sys.argv = ["rl-training", "train", "--config", str(folder / "config.yaml"), "--quiet"]
        main()

    def after_signal(self, folder: Path) -> Outcome:
        from rl_training.experiment import manager
        from rl_training.experiment.config import read_config

        step = self.load_newest(folder).fault_step
        newest = manager.newest_run(read_config(str(folder / "config.yaml")))
        command = [sys.executable, "-m", "rl_training", "resume", str(folder / "run"), "--total-timesteps"]
        done = subprocess.run([*command, str(step + 20), "--quiet"], capture_output=True, text=True)
        reached = self.load_newest(folder).fault_step
        is_found = newest is not None and newest.path == folder / "run"
        return {
            "resumable": "rl-training resume goes on exactly",
            "resume: exit code": done.returncode,
            "resume: updates": reached - step,
            "--resume auto finds it": is_found,
        }


class Minari:
    """Its datasets alone: it trains nothing."""

    calls = {"datasets": "minari.create_dataset_from_buffers with spaces, then load_dataset and every episode"}  # noqa: RUF012

    def versions(self) -> dict[str, str]:
        from importlib.metadata import version

        return {"minari": version("minari")}

    def accept(self, arrays: dict[str, Any]) -> None:
        import numpy as np
        from gymnasium.spaces import Box

        with tempfile.TemporaryDirectory() as folder:
            os.environ["MINARI_DATASETS_PATH"] = folder
            import minari
            from minari.data_collector import EpisodeBuffer

            buffers = []
            for number, start in enumerate(range(0, ROWS, 1_000)):
                rows = slice(start, start + 1_000)
                buffers.append(
                    EpisodeBuffer(
                        id=number,
                        observations=np.append(arrays["observations"][rows], arrays["next_observations"][rows][-1:], 0),
                        actions=arrays["actions"][rows],
                        rewards=arrays["rewards"][rows],
                        terminations=arrays["terminals"][rows],
                        truncations=arrays["timeouts"][rows],
                    )
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of missing authors and the like
                minari.create_dataset_from_buffers(
                    "fault/test-v0",
                    buffers,
                    action_space=Box(-1.0, 1.0, (ACT,), np.float32),
                    observation_space=Box(-np.inf, np.inf, (OBS,), np.float32),
                )
            for episode in minari.load_dataset("fault/test-v0").iterate_episodes():
                assert len(episode.rewards)
