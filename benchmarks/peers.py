"""Workers of `bench.py` that are other people's code: d3rlpy and Stable-Baselines3, set up for the same work as ours.

    python benchmarks/peers.py '{"library": "d3rlpy", "algo": "td3_bc"}'

Run by the Python of an environment that holds them (`make bench-env`). Batches come from their own buffers and updates
are their own, with their metrics kept, as `fit` and `learn` do.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # of our package nothing but the protocol, which needs none

from rl_training.experiment.contest import Prepared, serve, synthetic_arrays

OBS, ACT = 17, 6
PERIOD = 2  # updates after which TD3's delayed actor has stepped once

# What differs from d3rlpy's defaults to be the work ours does: CQL with a fixed weight on its penalty, CRR with two
# critics and soft targets.
D3RLPY: dict[str, tuple[str, dict[str, Any]]] = {
    "td3_bc": ("TD3PlusBCConfig", {}),
    "iql": ("IQLConfig", {}),
    "cql": ("CQLConfig", {"alpha_learning_rate": 0.0, "initial_alpha": 1.0, "conservative_weight": 5.0}),
    "awac": ("AWACConfig", {}),
    "crr": ("CRRConfig", {"n_critics": 2, "target_update_type": "soft"}),
    "bc": ("BCConfig", {}),
    "rebrac": ("ReBRACConfig", {}),
    "sac": ("SACConfig", {}),
    "td3": ("TD3Config", {}),
}
SB3 = {"td3": "TD3", "sac": "SAC"}


def d3rlpy_worker(work: dict[str, Any]) -> Prepared:
    import d3rlpy
    import torch

    began = time.perf_counter()
    arrays = synthetic_arrays(work["rows"], OBS, ACT)
    generating = time.perf_counter() - began
    buffer = d3rlpy.dataset.MDPDataset(
        arrays["observations"], arrays["actions"], arrays["rewards"], arrays["terminals"], arrays["timeouts"]
    )
    name, settings = D3RLPY[work["algo"]]
    # ReBRAC's critics have LayerNorm in ours and in its authors' program.
    plain = d3rlpy.models.VectorEncoderFactory([256] * work["layers"])
    normed = d3rlpy.models.VectorEncoderFactory([256] * work["layers"], use_layer_norm=True)
    critic = normed if work["algo"] == "rebrac" else plain
    config_type = getattr(d3rlpy.algos, name)
    fields = {
        f: critic if f.startswith("critic") else plain for f in config_type.__dataclass_fields__ if "encoder" in f
    }
    config = config_type(batch_size=work["batch_size"], **fields, **settings)
    learner = config.create(device="cuda:0" if work["device"] == "cuda" else work["device"])
    learner.create_impl((OBS,), ACT)
    logged: dict[str, float] = {}

    def run(count: int) -> None:
        metrics: dict[str, list[float]] = defaultdict(list)
        for _ in range(count):
            losses = learner.update(buffer.sample_transition_batch(work["batch_size"]))
            for key, value in losses.items():
                metrics[key].append(value)
        logged.update({key: sum(values) / len(values) for key, values in metrics.items()})

    return Prepared(run, PERIOD, generating, {"version": d3rlpy.__version__, "torch": torch.__version__})


def sb3_worker(work: dict[str, Any]) -> Prepared:
    """From a replay buffer that is already full; the environment only tells the shapes."""
    import gymnasium
    import numpy as np
    import stable_baselines3
    import torch
    from stable_baselines3.common.logger import configure

    class Shapes(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACT,), np.float32)

    began = time.perf_counter()
    arrays = synthetic_arrays(work["rows"], OBS, ACT)
    generating = time.perf_counter() - began
    model = getattr(stable_baselines3, SB3[work["algo"]])(
        "MlpPolicy",
        Shapes(),
        batch_size=work["batch_size"],
        buffer_size=work["rows"],
        policy_kwargs={"net_arch": [256] * work["layers"]},
        device=work["device"],
    )
    buffer = model.replay_buffer
    for theirs, ours in (("observations",) * 2, ("next_observations",) * 2, ("actions",) * 2):
        getattr(buffer, theirs)[:, 0] = arrays[ours]
    buffer.rewards[:, 0], buffer.dones[:, 0] = arrays["rewards"], arrays["timeouts"]
    buffer.timeouts[:, 0] = arrays["timeouts"]
    buffer.full = True
    model.set_logger(configure(None, []))

    def run(count: int) -> None:
        model.train(gradient_steps=count, batch_size=work["batch_size"])
        model.logger.dump()

    about = {"version": stable_baselines3.__version__, "torch": torch.__version__}
    return Prepared(run, PERIOD, generating, about)


WORKERS = {"d3rlpy": d3rlpy_worker, "sb3": sb3_worker}

if __name__ == "__main__":
    given: dict[str, Any] = json.loads(sys.argv[1])
    defaults = {"rows": 1_000_000, "batch_size": 256, "layers": 2, "device": "cpu"}
    serve(lambda: WORKERS[given["library"]]({**defaults, **given}))
