"""TD3+BC here and in d3rlpy from the same weights, batches and noise: do they take the same steps?

    python benchmarks/d3rlpy_agreement.py [--peer bench-env/bin/python] [--dataset pendulum-random] [--updates 200]

d3rlpy trains first, with its own scalers, and writes down its first weights, every batch as it lies in the file, the
noise it drew and the actions it chooses at the end. Ours starts from those weights and takes the same batches, once
scaled as d3rlpy scales them and once by its own transforms (statistics over the last rows of cut episodes, too; actions
clipped just inside their bounds). The largest differences of actions go into `results/d3rlpy_agreement.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from d3rlpy_scores import PENDULUM_SETS, learner, transitions
from score_tables import DATASETS, RESULTS

BATCH, NETWORKS = 256, {"actor": ("policy", 1), "critics": ("q_funcs", 2)}
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminals")


def theirs(path: Path, updates: int, record: Path) -> None:
    """d3rlpy's updates, written to `record`."""
    import d3rlpy
    import torch

    d3rlpy.seed(0)
    policy = learner("td3_bc", "cpu")
    buffer = transitions(path)
    policy.build_with_dataset(buffer)
    for scaler in (policy.observation_scaler, policy.action_scaler):
        if not scaler.built:
            scaler.fit_with_transition_picker(buffer.episodes, buffer.transition_picker)
    modules = policy.impl.modules
    kept: dict[str, Any] = {}
    for name, (theirs_name, _) in NETWORKS.items():
        for i, value in enumerate(getattr(modules, theirs_name).state_dict().values()):
            kept[f"{name}_{i}"] = value.numpy().copy()
    draw, noise = torch.randn, []

    def drawn(*args: Any, **kwargs: Any) -> torch.Tensor:
        noise.append(draw(*args, **kwargs))
        return noise[-1]

    torch.randn = drawn
    batches = [buffer.sample_transition_batch(BATCH) for _ in range(updates)]
    policy._grad_step = 1  # the actor moves at even steps: the second update is the first that moves it, as in ours
    for batch in batches:
        policy.update(batch)
    kept |= {field: np.stack([getattr(batch, field) for batch in batches]) for field in FIELDS}
    kept |= {"mean": policy.observation_scaler.mean, "std": policy.observation_scaler.std}
    kept["noise"] = torch.stack(noise).numpy()
    kept["chosen"] = policy.predict(batches[0].observations)
    np.savez(record, **kept)


def ours(path: Path, record: Path) -> dict[str, float]:
    """The same updates twice: how far the actions end up from d3rlpy's, and how far they moved."""
    from rl_training.data import TransitionDataset
    from rl_training.data.transforms import TransformConfig, fit_transforms
    from rl_training.environments import Spaces

    kept = np.load(record)
    spaces = Spaces(obs_dim=3, action_low=(-2.0,), action_high=(2.0,))
    own = fit_transforms(TransitionDataset.load(path), spaces, TransformConfig(normalise_observations=True))
    centre, divisor = kept["mean"], kept["std"] + 1e-3
    same = repeat(kept, lambda x: (x - centre) / divisor, lambda a: a / 2.0)
    apart = repeat(kept, own.observations, own.to_unit_actions)
    return {
        "moved": float(np.abs(same[1] - same[0]).max()),
        "difference": float(np.abs(same[1] - kept["chosen"]).max()),
        "difference_own_transforms": float(np.abs(apart[1] - kept["chosen"]).max()),
    }


def repeat(kept: Any, scaled: Callable[[Any], Any], unit: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The actions for the first batch's observations before and after all updates."""
    import torch

    from rl_training.algorithms.base import Batch
    from rl_training.algorithms.td3_bc import TD3BC

    td3_bc = TD3BC(3, 1, seeds=(0,), batch_size=BATCH)
    for name, (_, copies) in NETWORKS.items():
        for network in (getattr(td3_bc.model, name), getattr(td3_bc.model, f"target_{name}")):
            views = list(network.tensors(network.flat.data).values())  # weight, bias, weight, …; torch's are transposed
            for i, view in enumerate(views):
                for copy in range(copies):
                    view[copy].copy_(torch.from_numpy(kept[f"{name}_{copy * len(views) + i}"].T))

    def tensor(values: Any) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.float32))[None]

    def chosen() -> Any:
        return 2.0 * td3_bc.act(tensor(scaled(kept["observations"][0])))[0].numpy()

    before = chosen()
    for observations, actions, rewards, following, ends, noise in zip(
        *(kept[field] for field in FIELDS), kept["noise"], strict=True
    ):
        batch = Batch(
            obs=tensor(scaled(observations)),
            actions=tensor(unit(actions)),
            rewards=tensor(rewards[:, 0]),
            next_obs=tensor(scaled(following)),
            terminations=tensor(ends[:, 0]),
        )
        td3_bc.update(batch, {"target_action": tensor(noise)})
    return before, chosen()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RL_TRAINING_DATA", "../shared/data")))
    parser.add_argument("--dataset", default="pendulum-random", choices=PENDULUM_SETS)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--peer", default="bench-env/bin/python", help="a Python that has d3rlpy")
    parser.add_argument("--theirs", type=Path, help="train d3rlpy, write to this file and do no more")
    options = parser.parse_args()
    path = options.data / DATASETS[options.dataset].path
    if options.theirs:
        theirs(path, options.updates, options.theirs)
        return
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.npz"
        command = [options.peer, __file__, "--theirs", str(record), "--updates", str(options.updates)]
        command += ["--data", str(options.data), "--dataset", options.dataset]
        subprocess.run(command, check=True, stdout=sys.stderr)
        row = {"dataset": options.dataset, "algo": "td3_bc", "updates": options.updates, **ours(path, record)}
    (RESULTS / "d3rlpy_agreement.json").write_text(json.dumps(row) + "\n")
    print(
        f"{row['updates']} updates moved actions by up to {row['moved']:.2g}; the two differ by "
        f"{row['difference']:.1g}, by {row['difference_own_transforms']:.2g} with ours' own transforms"
    )


if __name__ == "__main__":
    main()
