"""How long one action takes: our `predict`, the exported files, and other people's `predict`.

    python benchmarks/latency.py [--peer bench-env/bin/python] [--rounds 5] [--calls 2000]

One observation of 17 numbers goes in as a numpy array, one action of 6 comes out as one; two hidden layers of 256
units, one thread. Every contestant is a process of its own, and they take turns. Figures are medians over the rounds,
of each round's median and of its 99th percentile. On a machine that is busy with something else they mean little: they
are then printed, and neither `results/latency.json` nor `docs/benchmarks/latency.md` is written.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "latency.json"
PAGE = HERE.parent / "docs" / "benchmarks" / "latency.md"
OBS, ACT, WIDTH = 17, 6, 256
WARM_UP = 200  # calls before any is counted
IDLE_LOAD = 0.5  # processes wanting to run before we start: more is somebody else's work
OWN_LOAD = 1.5  # and while we run, of which one is ours
Act = Callable[[Any], Any]

INTRODUCTION = """\
# Latency of one action

One observation of 17 numbers in, one action of 6 out, both numpy arrays; two hidden layers of 256 units, one thread,
batch 1. `predict` also checks its input. Every contestant is a process of its own, and they take turns. `make
bench-latency` measures it and writes this page, and refuses to on a busy machine.
"""
NAMES = {
    "predict": "`predict` of this package",
    "torch": "exported, torch (`.pt2`)",
    "onnxruntime": "exported, onnxruntime",
    "d3rlpy": "`predict` of d3rlpy",
    "sb3": "`predict` of Stable-Baselines3",
}
PEERS = ("d3rlpy", "sb3")


# Contestants, each in a process of its own --------------------------------------------------------------------------


def predict(folder: Path) -> tuple[Act, str]:
    import torch

    from rl_training import __version__
    from rl_training.experiment.manager import load_policy

    torch.set_num_threads(1)
    return load_policy(folder / "runs" / "policy").predict, __version__


def torch_(folder: Path) -> tuple[Act, str]:
    import torch

    torch.set_num_threads(1)
    policy = torch.export.load(folder / "policy.pt2").module()

    def act(obs: Any) -> Any:
        with torch.inference_mode():
            return policy(torch.from_numpy(obs[None])).numpy()[0]

    return act, torch.__version__


def onnxruntime_(folder: Path) -> tuple[Act, str]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    policy = onnxruntime.InferenceSession(folder / "policy.onnx", options)
    return lambda obs: policy.run(["action"], {"obs": obs[None]})[0][0], onnxruntime.__version__


def d3rlpy(folder: Path) -> tuple[Act, str]:
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    learner = d3rlpy.algos.TD3PlusBCConfig(
        actor_encoder_factory=d3rlpy.models.VectorEncoderFactory([WIDTH, WIDTH])
    ).create()
    learner.create_impl((OBS,), ACT)
    return lambda obs: learner.predict(obs[None])[0], d3rlpy.__version__


def sb3(folder: Path) -> tuple[Act, str]:
    import gymnasium
    import stable_baselines3
    import torch

    class Shapes(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACT,), np.float32)

    torch.set_num_threads(1)
    model = stable_baselines3.TD3(
        "MlpPolicy", Shapes(), policy_kwargs={"net_arch": [WIDTH, WIDTH]}, buffer_size=1, device="cpu"
    )
    return lambda obs: model.predict(obs, deterministic=True)[0], stable_baselines3.__version__


WORKERS = {"predict": predict, "torch": torch_, "onnxruntime": onnxruntime_, "d3rlpy": d3rlpy, "sb3": sb3}


def work(name: str, folder: Path, calls: int) -> dict[str, Any]:
    """Microseconds of each call, in short."""
    act, version = WORKERS[name](folder)
    observations = np.random.default_rng(0).standard_normal((WARM_UP + calls, OBS)).astype(np.float32)
    spent = []
    for obs in observations:
        began = time.perf_counter_ns()
        action = act(obs)
        spent.append((time.perf_counter_ns() - began) / 1e3)
    assert np.shape(action) == (ACT,), np.shape(action)
    counted = spent[WARM_UP:]
    return {"median": float(np.median(counted)), "p99": float(np.percentile(counted, 99)), "version": version}


# Running ------------------------------------------------------------------------------------------------------------


def make_policy(folder: Path) -> None:
    """A policy of the size that is measured, as a run and as both files; how well it acts does not matter."""
    from rl_training import TD3BC

    draw = np.random.default_rng(0)
    rows = 64
    arrays = {
        "obs": draw.standard_normal((rows, OBS)),
        "actions": draw.uniform(-1.0, 1.0, (rows, ACT)),
        "rewards": draw.standard_normal(rows),
        "next_obs": draw.standard_normal((rows, OBS)),
        "terminations": np.zeros(rows),
        "truncations": np.arange(1, rows + 1) % 32 == 0,
    }
    model = TD3BC(
        dataset=arrays,
        total_timesteps=2,
        actor_hidden=(WIDTH, WIDTH),
        transforms={"normalise_observations": True},
        runs_dir=str(folder / "runs"),
        name="policy",
        engine="eager",
    )
    model.learn()
    model.export(folder / "policy.onnx")
    model.export(folder / "policy.pt2")


def ask(name: str, folder: Path, calls: int, peer: str) -> dict[str, Any] | str:
    """One contestant's figures, or the reason why there are none."""
    python = peer if name in PEERS else sys.executable
    command = [python, str(Path(__file__).resolve()), "--worker", name, "--folder", str(folder), "--calls", str(calls)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    except OSError as error:
        return f"{python}: {error.strerror}"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it stopped without a word"])[-1]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(rounds: int, calls: int, peer: str) -> tuple[dict[str, Any], float]:
    """Everybody's figures, and the machine's load at its highest while they were taken."""
    found: dict[str, list[dict[str, Any]]] = {}
    missing: dict[str, str] = {}
    highest = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_policy(folder)
        for _round in range(rounds):
            for name in NAMES:
                if name in missing:
                    continue
                answer = ask(name, folder, calls, peer)
                highest = max(highest, os.getloadavg()[0])
                if isinstance(answer, str):
                    missing[name] = answer
                else:
                    found.setdefault(name, []).append(answer)
    figures = {
        name: {
            "median_us": median(row["median"] for row in rows),
            "p99_us": median(row["p99"] for row in rows),
            "version": rows[0]["version"],
        }
        for name, rows in found.items()
    }
    return {"figures": figures, "missing": missing}, highest


def page(results: Path = RESULTS) -> str:
    """What was stored, as Markdown."""
    if not results.is_file():
        return f"{INTRODUCTION}\nNothing is stored yet.\n"
    stored = json.loads(results.read_text())
    lines = ["| | version | median | 99th percentile |", "|---|---|---|---|"]
    for name, row in stored["figures"].items():
        lines.append(f"| {NAMES[name]} | {row['version']} | {row['median_us']:.0f} µs | {row['p99_us']:.0f} µs |")
    about = stored["machine"]
    settings = f"{stored['rounds']} rounds of {stored['calls']:,} calls"
    where = f"{about['cpu']}, {about['cores']} cores, Python {about['python']}; {settings}."
    left_out = "".join(f"\n{NAMES[name]} is left out: {reason}\n" for name, reason in stored["missing"].items())
    return "\n".join([INTRODUCTION, where, "", *lines, left_out]).rstrip() + "\n"


def machine() -> dict[str, Any]:
    names = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default="bench-env/bin/python", help="a Python that has d3rlpy and Stable-Baselines3")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker, options.folder, options.calls)))
        return
    before = os.getloadavg()[0]
    stored, highest = measure(options.rounds, options.calls, options.peer)
    for name, row in stored["figures"].items():
        print(f"{NAMES[name]:<34} median {row['median_us']:7.0f} µs   99% {row['p99_us']:7.0f} µs   {row['version']}")
    for name, reason in stored["missing"].items():
        print(f"{NAMES[name]:<34} left out: {reason}")
    if before > IDLE_LOAD or highest > OWN_LOAD:
        print(f"the machine is busy (load {before:.1f} before, up to {highest:.1f} meanwhile): nothing is stored")
        return
    about = {"rounds": options.rounds, "calls": options.calls, "load": {"before": before, "highest": highest}}
    RESULTS.write_text(json.dumps({"machine": machine(), **about, **stored}, indent=1) + "\n")
    PAGE.write_text(page(RESULTS), "utf-8")


if __name__ == "__main__":
    main()
