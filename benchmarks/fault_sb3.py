"""Stable-Baselines3 under the faults of `faults.py`: TD3 on Pendulum-v1 through its public calls."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

from fault_cases import Outcome, digest


class StableBaselines3:
    styles = ("one name", "a name per step")
    calls = {  # noqa: RUF012
        "kill": "model.save('model') and model.save('rl_model_N_steps') (as CheckpointCallback) in a loop; TD3.load",
        "flip": "model.save; TD3.load",
        "disk": "model.save; TD3.load",
        "stranger": "TD3.load of a file with a pickled call",
        "resume": "TD3(seed=0).learn(k), save, save_replay_buffer, TD3.load, load_replay_buffer, learn(N-k, "
        "reset_num_timesteps=False)",
        "nan": "learn in an environment with one NaN reward (VecCheckNan, which is optional, not used); learn with a "
        "callback that sets a weight of the actor to NaN",
        "datasets": "has no datasets",
        "settings": "TD3('MlpPolicy', 'Pendulum-v1', **setting).learn",
        "bombs": "TD3.load of a zip whose settings are a gibibyte of blanks; has no HDF5",
        "sigterm": "TD3.learn with CheckpointCallback(save_freq=300)",
    }

    def versions(self) -> dict[str, str]:
        import stable_baselines3
        import torch

        torch.set_num_threads(1)
        return {"stable-baselines3": stable_baselines3.__version__, "torch": torch.__version__}

    def model(self, env: Any = "Pendulum-v1", **settings: Any) -> Any:
        from stable_baselines3 import TD3

        given = {"learning_starts": 2, "batch_size": 32, "buffer_size": 2_000, "seed": 0, "device": "cpu", **settings}
        return TD3("MlpPolicy", env, **given)

    def fresh(self, folder: Path) -> Any:
        return self.model()

    def save(self, model: Any, folder: Path, step: int, style: str) -> None:
        model.save(folder / ("model" if style == "one name" else f"rl_model_{step}_steps"))

    def newest_files(self, folder: Path) -> list[Path]:
        def step(file: Path) -> int:
            return int("0" + "".join(filter(str.isdecimal, file.stem)))

        return sorted(folder.glob("*model*.zip"), key=step)[-1:]

    def load_newest(self, folder: Path) -> Any:
        from stable_baselines3 import TD3

        return TD3.load(self.newest_files(folder)[0], device="cpu")

    def weights(self, model: Any) -> dict[str, Any]:
        return {name: value.detach().numpy() for name, value in model.policy.state_dict().items()}

    def stranger(self, folder: Path, marker: Path) -> None:
        class Call:
            def __reduce__(self) -> Any:
                return os.mkdir, (str(marker),)

        self.save(self.fresh(folder), folder, 1, "one name")
        (path,) = self.newest_files(folder)
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        data = json.loads(parts["data"])
        data["lr_schedule"] = {":type:": "x", ":serialized:": base64.b64encode(pickle.dumps(Call())).decode()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, value in {**parts, "data": json.dumps(data)}.items():
                archive.writestr(name, value)
        self.load_newest(folder)

    def resumed(self, folder: Path, stop: int, total: int) -> tuple[str, str]:
        import gymnasium
        from stable_baselines3 import TD3

        unbroken = self.model().learn(total)
        first = self.model().learn(stop)
        first.save(folder / "stopped")
        first.save_replay_buffer(folder / "buffer")
        second = TD3.load(folder / "stopped", env=gymnasium.make("Pendulum-v1"), device="cpu")
        second.load_replay_buffer(folder / "buffer")
        second.learn(total - stop, reset_num_timesteps=False)
        return digest(self.weights(unbroken)), digest(self.weights(second))

    def nan_data(self, folder: Path) -> Any:
        import gymnasium

        class OneNaN(gymnasium.Wrapper):  # type: ignore[type-arg]
            steps = 0

            def step(self, action: Any) -> Any:
                obs, reward, *rest = super().step(action)
                self.steps += 1
                return obs, float("nan") if self.steps == 20 else reward, *rest

        return self.weights(self.model(OneNaN(gymnasium.make("Pendulum-v1"))).learn(200))

    def nan_weights(self, folder: Path) -> Any:
        import torch
        from stable_baselines3.common.callbacks import BaseCallback

        class Poison(BaseCallback):
            def _on_step(self) -> bool:
                if self.num_timesteps == 20:
                    with torch.no_grad():
                        next(self.model.policy.critic.parameters()).view(-1)[0] = float("nan")
                return True

        return self.weights(self.model().learn(100, callback=Poison()))

    def settings(self, folder: Path, name: str, value: Any) -> None:
        self.model(**{name: value}).learn(20)

    def accept(self, arrays: dict[str, Any]) -> None:
        raise NotImplementedError("has no datasets")

    def bomb(self, folder: Path, kind: str) -> Path:
        if kind == "hdf5":
            raise NotImplementedError("reads no HDF5")
        self.save(self.fresh(folder), folder, 1, "one name")
        (path,) = self.newest_files(folder)
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in parts.items():
                with archive.open(name, "w", force_zip64=True) as file:
                    for _ in range(1024 if name == "data" else 0):
                        file.write(b" " * 2**20)
                    file.write(value)
        return path

    def open_bomb(self, path: Path) -> Any:
        from stable_baselines3 import TD3

        return TD3.load(path, device="cpu")

    def train_on(self, folder: Path) -> None:
        from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback

        class Note(BaseCallback):
            def _on_step(self) -> bool:
                if self.num_timesteps == 310:
                    (folder / "started").touch()
                return True

        self.model().learn(10**7, callback=[CheckpointCallback(300, str(folder)), Note()])

    def after_signal(self, folder: Path) -> Outcome:
        return {"resumable": "from the last rl_model_N_steps.zip, without the replay buffer unless it was saved, too"}
