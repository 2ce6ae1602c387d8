"""d3rlpy under the faults of `faults.py`: its public calls, as its documentation shows them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from fault_cases import ACT, OBS, Outcome, digest, made_up


class D3rlpy:
    styles = ("one name", "a name per step")
    calls = {  # noqa: RUF012
        "kill": "algo.save('model.d3') and algo.save('model_N.d3') (what fit does) in a loop; d3rlpy.load_learnable",
        "flip": "algo.save; d3rlpy.load_learnable",
        "disk": "algo.save; d3rlpy.load_learnable",
        "stranger": "d3rlpy.load_learnable of a file with a pickled call",
        "resume": "TD3PlusBCConfig; fit(n_steps=k), save, load_learnable, fit(n_steps=N-k); d3rlpy.seed(0) before each",
        "nan": "fit with a NaN reward; fit with a callback that sets a weight of the policy to NaN",
        "datasets": "MDPDataset, then ten updates of TD3PlusBC",
        "settings": "TD3PlusBCConfig(**setting).create().fit, ten updates",
        "bombs": "ReplayBuffer.load of an HDF5 file in its own layout",
        "sigterm": "TD3PlusBC.fit with save_interval=1 (a checkpoint every 300 updates)",
    }

    def versions(self) -> dict[str, str]:
        import d3rlpy
        import torch

        torch.set_num_threads(1)
        return {"d3rlpy": d3rlpy.__version__, "torch": torch.__version__}

    def config(self, **settings: Any) -> Any:
        import d3rlpy

        return d3rlpy.algos.TD3PlusBCConfig(**{"batch_size": 32, **settings}).create(device=False)

    def dataset(self, arrays: dict[str, Any] | None = None) -> Any:
        import d3rlpy

        given = arrays or made_up()
        names = ("observations", "actions", "rewards", "terminals", "timeouts")
        return d3rlpy.dataset.MDPDataset(*(given[name] for name in names))

    def fit(self, algo: Any, updates: int, folder: Path, dataset: Any = None, **options: Any) -> Any:
        import d3rlpy

        options = {"n_steps_per_epoch": updates, "show_progress": False, **options}
        logs = d3rlpy.logging.FileAdapterFactory(root_dir=str(folder / "logs"))
        algo.fit(dataset or self.dataset(), n_steps=updates, logger_adapter=logs, **options)
        return algo

    def fresh(self, folder: Path) -> Any:
        algo = self.config()
        algo.create_impl((OBS,), ACT)
        return algo

    def save(self, model: Any, folder: Path, step: int, style: str) -> None:
        model.save(str(folder / ("model.d3" if style == "one name" else f"model_{step}.d3")))

    def newest_files(self, folder: Path) -> list[Path]:
        files = sorted(folder.rglob("model*.d3"), key=lambda file: int("0" + file.stem.partition("_")[2]))
        return files[-1:]

    def load_newest(self, folder: Path) -> Any:
        import d3rlpy

        return d3rlpy.load_learnable(str(self.newest_files(folder)[0]), device=False)

    def weights(self, model: Any) -> dict[str, Any]:
        found = {}
        for name, module in model.impl.modules.__dict__.items():
            for key, value in getattr(module, "state_dict", dict)().items():
                if hasattr(value, "numpy"):
                    found[f"{name}.{key}"] = value.detach().numpy()
        return found

    def stranger(self, folder: Path, marker: Path) -> None:
        import d3rlpy

        class Call:
            def __reduce__(self) -> Any:
                return os.mkdir, (str(marker),)

        path = folder / "model.d3"
        path.write_bytes(pickle.dumps({"version": d3rlpy.__version__, "config": Call(), "torch": b""}))
        d3rlpy.load_learnable(str(path), device=False)

    def resumed(self, folder: Path, stop: int, total: int) -> tuple[str, str]:
        import d3rlpy

        d3rlpy.seed(0)
        unbroken = self.fit(self.config(), total, folder)
        d3rlpy.seed(0)
        self.fit(self.config(), stop, folder).save(str(folder / "stopped.d3"))
        d3rlpy.seed(0)
        resumed = self.fit(d3rlpy.load_learnable(str(folder / "stopped.d3"), device=False), total - stop, folder)
        return digest(self.weights(unbroken)), digest(self.weights(resumed))

    def nan_data(self, folder: Path) -> Any:
        arrays = made_up()
        arrays["rewards"][7] = float("nan")
        return self.weights(self.fit(self.config(batch_size=256), 100, folder, self.dataset(arrays)))

    def nan_weights(self, folder: Path) -> Any:
        import torch

        def poison(algo: Any, epoch: int, step: int) -> None:
            if step == 20:
                with torch.no_grad():
                    next(algo.impl.policy.parameters()).view(-1)[0] = float("nan")

        return self.weights(self.fit(self.config(), 100, folder, callback=poison))

    def settings(self, folder: Path, name: str, value: Any) -> None:
        self.fit(self.config(**{name: value}), 10, folder)

    def accept(self, arrays: dict[str, Any]) -> None:
        algo, dataset = self.config(), self.dataset(arrays)
        algo.build_with_dataset(dataset)
        for _ in range(10):
            algo.update(dataset.sample_transition_batch(32))

    def bomb(self, folder: Path, kind: str) -> Path:
        import h5py
        import numpy as np

        path = folder / f"{kind}.h5"
        rows = 2**36 if kind == "hdf5" else 2**24
        packing = {} if kind == "hdf5" else {"compression": "gzip", "chunks": (2**20, 16)}
        with h5py.File(path, "w") as file:
            file["columns"], file["num_episodes"], file["version"] = ["observations"], 1, "2.1"
            values = file.create_dataset("observations_0", (rows, 16), np.float32, **packing)
            for start in range(0, rows, 2**20) if packing else ():
                values[start : start + 2**20] = 0.0
        return path

    def open_bomb(self, path: Path) -> Any:
        import d3rlpy

        with path.open("rb") as file:
            return d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())

    def train_on(self, folder: Path) -> None:
        def note(algo: Any, epoch: int, step: int) -> None:
            if step == 310:
                (folder / "started").touch()

        self.fit(self.config(), 10**7, folder, n_steps_per_epoch=300, save_interval=1, callback=note)

    def after_signal(self, folder: Path) -> Outcome:
        return {"resumable": "from the last model_N.d3, with the step counter and the generator at their start"}
