"""Loading a million transitions and drawing from them, beside d3rlpy and h5py; training from disk beside memory.

    python benchmarks/loading.py [--peer bench-env/bin/python] [--rows 1000000] [--only arrays hdf5 columns disk]

Every measurement is a process of its own, ours and the peer's in turns; figures are medians, and what is compared is
the ratio within one run. `disk` trains TD3+BC from a column directory several times as large as the memory its process
is allowed (a control group; needs the right to make one) and compares with the same updates from memory.
Results go into `results/loading.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # the peer's Python finds these two functions there

from rl_training.experiment.contest import peak_memory, synthetic_arrays

OBS, ACT = 17, 6
RESULTS = Path(__file__).parent / "results" / "loading.json"
GROUP = Path("/sys/fs/cgroup/memory/rl_training_benchmark")


def arrays(rows: int) -> dict[str, Any]:
    """Random transitions of HalfCheetah's shape."""
    return synthetic_arrays(rows, OBS, ACT)


# What is measured, each in a process of its own ---------------------------------------------------------------------


def ours_arrays(rows: int, _: Path) -> dict[str, float]:
    """From arrays to ready to sample, all checks included; then batches of 256."""
    import torch

    from rl_training import streams
    from rl_training.data import Transforms, TransitionDataset
    from rl_training.data.batch import PackedTransitions

    torch.set_num_threads(1)
    given, before = arrays(rows), peak_memory()
    size = sum(values.nbytes for values in given.values())
    began = time.perf_counter()
    dataset = TransitionDataset.from_dict(given, action_low=-1.0, action_high=1.0)
    transforms = Transforms(None, None, 1.0, 0.0, (-1.0,) * ACT, (1.0,) * ACT)
    packed = PackedTransitions.from_dataset(dataset, transforms)
    ready = time.perf_counter() - began
    memory = (peak_memory() - before) / size
    indices = packed.indices(streams.member_keys([0]), 0, 0, 256)
    for _ in range(100):
        packed.gather(indices)
    began = time.perf_counter()
    for _ in range(2000):
        packed.gather(indices)
    return {"ready_s": ready, "added_memory": memory, "batch_us": (time.perf_counter() - began) / 2000 * 1e6}


def d3rlpy_arrays(rows: int, _: Path) -> dict[str, float]:
    """The same with `MDPDataset`, which derives the successors it is not given."""
    import d3rlpy

    given, before = arrays(rows), peak_memory()
    size = sum(values.nbytes for values in given.values())
    began = time.perf_counter()
    dataset = d3rlpy.dataset.MDPDataset(
        given["observations"], given["actions"], given["rewards"], given["terminals"], given["timeouts"]
    )
    ready = time.perf_counter() - began
    memory = (peak_memory() - before) / size
    began = time.perf_counter()
    for _ in range(100):
        dataset.sample_transition_batch(256)
    return {"ready_s": ready, "added_memory": memory, "batch_us": (time.perf_counter() - began) / 100 * 1e6}


def ours_hdf5(_: int, folder: Path) -> dict[str, float]:
    from rl_training.data import TransitionDataset

    TransitionDataset.load(folder / "small.hdf5")  # imports
    began = time.perf_counter()
    TransitionDataset.load(folder / "data.hdf5")
    return {"ready_s": time.perf_counter() - began}


def h5py_hdf5(_: int, folder: Path) -> dict[str, float]:
    import h5py

    began = time.perf_counter()
    with h5py.File(folder / "data.hdf5") as file:
        read = {name: file[name][()] for name in file}
    return {"ready_s": time.perf_counter() - began, "fields": len(read)}


def ours_columns(_: int, folder: Path) -> dict[str, float]:
    from rl_training.data import TransitionDataset

    TransitionDataset.load(folder / "small.columns")
    began = time.perf_counter()
    TransitionDataset.load(folder / "data.columns")
    return {"ready_s": time.perf_counter() - began}


def train(folder: Path, memory: str, updates: int, threads: int) -> dict[str, float]:
    """TD3+BC's updates per second from a column directory."""
    import torch

    from rl_training.algorithms.td3_bc import TD3BC
    from rl_training.data import Transforms, TransitionDataset
    from rl_training.runtime.engine import Engine
    from rl_training.runtime.mapped_source import offline_source

    torch.set_num_threads(threads)
    transforms = Transforms(None, None, 1.0, 0.0, (-1.0,) * ACT, (1.0,) * ACT)
    learner = TD3BC(OBS, ACT, seeds=[0])
    source = offline_source(TransitionDataset.load(folder), transforms, learner, memory)  # type: ignore[arg-type]
    engine = Engine(learner, source, "compiled")

    def run(count: int) -> None:
        done = 0
        while done < count:  # the loop's way: a turn of the source, then its updates
            turn = source.advance(min(32, count - done))
            engine.run(int(learner.clock), turn.updates)
            done += turn.updates

    run(64)
    began = time.perf_counter()
    run(updates)
    seconds = time.perf_counter() - began
    weights = float(sum(p.double().abs().sum() for p in learner.model.state_dict().values()))
    return {"updates_per_second": updates / seconds, "weights": weights, "peak_gib": peak_memory() / 2**30}


MEASURES = {f.__name__: f for f in (ours_arrays, d3rlpy_arrays, ours_hdf5, h5py_hdf5, ours_columns)}


# Running ------------------------------------------------------------------------------------------------------------


def measure(name: str, python: str, rows: int, folder: Path) -> dict[str, float]:
    command = [python, __file__, "--measure", name, "--rows", str(rows), "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(names: list[tuple[str, str]], rows: int, folder: Path, rounds: int) -> dict[str, Any]:
    """Every measurement once per round, in turns; medians."""
    raw: dict[str, list[dict[str, float]]] = {name: [] for name, _ in names}
    for _ in range(rounds):
        for name, python in names:
            raw[name].append(measure(name, python, rows, folder))
    medians = {name: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for name, runs in raw.items()}
    for name, values in medians.items():
        print(f"{name:<14} " + "  ".join(f"{key} {value:.4g}" for key, value in values.items()), flush=True)
    return {"medians": medians, "raw": raw}


def from_disk(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The same updates from memory and from disk, in turns, the latter with a quarter of the data's size allowed."""
    from rl_training.data import TransitionDataset
    from rl_training.data.formats.columns import ColumnWriter

    target = folder / "large.columns"
    block = TransitionDataset.from_dict(arrays(1_000_000))
    ColumnWriter(target).write_blocks(block for _ in range(options.millions))
    size = options.millions * 1_000_000 * (2 * OBS + ACT + 2) * 4
    allowed = size // 4
    print(
        f"{options.millions} million rows, {size / 2**30:.1f} GiB packed; allowed {allowed / 2**30:.1f} GiB", flush=True
    )
    rates: dict[str, list[dict[str, float]]] = {"ram": [], "mapped": []}
    for _ in range(options.rounds):
        for memory in rates:
            limit = allowed if memory == "mapped" else None
            rates[memory].append(_train_apart(target, memory, options, limit))
            row = rates[memory][-1]
            print(f"{memory:<7} {row['updates_per_second']:8.1f} updates/s  peak {row['peak_gib']:.2f} GiB", flush=True)
    ratio = statistics.median(
        d["updates_per_second"] / m["updates_per_second"] for d, m in zip(rates["mapped"], rates["ram"], strict=True)
    )
    equal = len({row["weights"] for rows in rates.values() for row in rows}) == 1
    print(f"from disk at {ratio:.0%} of the speed from memory; weights equal: {equal}", flush=True)
    return {
        "threads": options.threads,
        "rows": options.millions * 1_000_000,
        "packed_bytes": size,
        "allowed_bytes": allowed,
        "ratio": ratio,
    } | {
        "weights_equal": equal,
        "raw": rates,
    }


def _train_apart(folder: Path, memory: str, options: argparse.Namespace, limit: int | None) -> dict[str, float]:
    command = [sys.executable, __file__, "--train", memory, "--folder", str(folder)]
    command += ["--updates", str(options.updates), "--threads", str(options.threads)]

    def enter() -> None:
        (GROUP / "cgroup.procs").write_text(str(os.getpid()))

    if limit is not None:
        subprocess.run(["sync"], check=False)
        Path("/proc/sys/vm/drop_caches").write_text("1")  # nothing of the data is in memory when it starts
        GROUP.mkdir(exist_ok=True)
        (GROUP / "memory.limit_in_bytes").write_text(str(limit))
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=enter if limit is not None else None)
    if done.returncode:
        raise SystemExit(f"training from {memory} failed: {(done.stderr.strip().splitlines() or ['killed'])[-1]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def prepare(rows: int, folder: Path) -> None:
    """The same rows as an HDF5 file and as a column directory."""
    import h5py

    from rl_training.data import TransitionDataset
    from rl_training.data.formats import columns

    for name, count in (("data", rows), ("small", 2_000)):
        given = arrays(count)
        with h5py.File(folder / f"{name}.hdf5", "w") as file:
            for field, values in given.items():
                file.create_dataset(field, data=values, compression="gzip", chunks=True)
        columns.write(TransitionDataset.from_dict(given), folder / f"{name}.columns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default="bench-env/bin/python", help="a Python that has d3rlpy")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["arrays", "hdf5", "columns", "disk"])
    parser.add_argument("--millions", type=int, default=40, help="millions of rows trained from disk")
    parser.add_argument("--updates", type=int, default=2000, help="updates trained from disk and from memory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="folder for generated data")
    for internal in ("--measure", "--train", "--folder"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASURES[options.measure](options.rows, Path(options.folder))))
        return
    if options.train:
        print(json.dumps(train(Path(options.folder), options.train, options.updates, options.threads)))
        return
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    results["machine"] = {
        "system": " ".join(platform.uname()[::4]),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    folder = Path(tempfile.mkdtemp(dir=options.scratch))
    try:
        prepare(options.rows, folder)
        groups = {
            "arrays": [("ours_arrays", sys.executable), ("d3rlpy_arrays", options.peer)],
            "hdf5": [("ours_hdf5", sys.executable), ("h5py_hdf5", sys.executable)],
            "columns": [("ours_columns", sys.executable)],
        }
        for name, pair in groups.items():
            if name in options.only:
                results[name] = compare(pair, options.rows, folder, options.rounds)
        if "disk" in options.only:
            results["disk"] = from_disk(options, folder)
    finally:
        shutil.rmtree(folder)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
