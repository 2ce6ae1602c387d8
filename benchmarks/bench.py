"""How fast everything is: updates per second beside d3rlpy and Stable-Baselines3, growth, starting, imports, loading.

    python benchmarks/bench.py --quick              # under ten minutes on two cores
    python benchmarks/bench.py                      # everything by engine and members (an hour or two on two cores)
    python benchmarks/bench.py --device cuda --algo td3_bc --members 1 64 --only updates

Work: observations 17, actions 6, a million made-up transitions, batch 256, two hidden layers of 256 (ReBRAC: 1024,
three), sampling and metrics included. Every contestant is a process of its own with the same number of threads; those
of one algorithm take turns, a block of about a second each, for several rounds. Ratios are computed within a round.
Peers live in an environment of their own (`make bench-env`) and are left out, with the reason, where it is missing.

Results go into `results/bench-<cpu|gpu>.json`, part by part, over earlier ones of the same machine; the page
docs/benchmarks/speed.md and its charts are then made anew (`speed_page.py`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import loading
import peers
import speed_page

from rl_training import algorithms
from rl_training.errors import ConfigError, RLTrainingError
from rl_training.experiment.benchmark import Work, contestant, default_threads, machine
from rl_training.experiment.contest import Contestant, ContestantError, compete, environment, ratio
from rl_training.runtime.engine import choose_device, compiler_available

SECTIONS = ("updates", "growth", "start", "imports", "loading")
GROWS = "td3_bc"  # the algorithm whose growth and start are measured
FLAGSHIPS = ("td3_bc", "iql", "cql")  # compiled even where time is short
AXES: dict[tuple[str, bool], dict[str, list[int]]] = {  # by kind of device and whether time is short
    ("cpu", True): {
        "members": [1, 4, 16],
        "batch_size": [256, 1024],
        "width": [512],
        "rows": [100_000],
    },
    ("cpu", False): {
        "members": [1, 2, 4, 8, 16, 64],
        "batch_size": [64, 256, 1024, 4096],
        "width": [64, 128, 256, 512, 1024],
        "rows": [10_000, 100_000, 1_000_000, 4_000_000],
    },
    ("cuda", True): {"members": [1, 16, 64, 256], "batch_size": [256, 4096], "width": [256, 1024]},
    ("cuda", False): {
        "members": [1, 4, 16, 64, 128, 256, 512],
        "batch_size": [64, 256, 1024, 4096],
        "width": [64, 128, 256, 512, 1024],
        "rows": [10_000, 100_000, 1_000_000, 10_000_000],
    },
}


def tell(line: str) -> None:
    print(line, flush=True)


# Who competes -------------------------------------------------------------------------------------------------------


def missing_peers(python: str) -> dict[str, str]:
    """Why a peer cannot be measured, by library; empty where all can."""
    found = {}
    for library, module in (("d3rlpy", "d3rlpy"), ("sb3", "stable_baselines3")):
        if not Path(python).is_file():
            found[library] = f"no {python} here (`make bench-env` makes it)"
            continue
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        if subprocess.run([python, "-c", code]).returncode:
            found[library] = f"{python} has no {module}"
    return found


def ours(algo: str, options: argparse.Namespace) -> list[Work]:
    """The engines and numbers of members one algorithm is measured with."""
    kinds = [("eager", 1)] if "eager" in options.engine else []
    if "compiled" in options.engine and (not options.quick or algo in FLAGSHIPS or options.device != "cpu"):
        kinds += [("compiled", members) for members in options.members]
    elif options.engine == ["eager"]:
        kinds = [("eager", members) for members in options.members]
    return [replace(options.work, algo=algo, engine=engine, members=members) for engine, members in kinds]


def peer(library: str, work: Work, options: argparse.Namespace) -> Contestant:
    batch_size, layers = work.sizes
    facts = {"library": library, "algo": work.algo, "batch_size": batch_size, "layers": layers, "rows": work.rows}
    asked = {**facts, "device": options.device}
    command = [options.peer, str(Path(peers.__file__).resolve()), json.dumps(asked)]
    return Contestant(f"{library} {work.algo}", command, facts, environment(options.threads))


def group(algo: str, options: argparse.Namespace, compiled: Path) -> list[Contestant]:
    """Everybody who runs one algorithm."""
    works = ours(algo, options)
    able = [name for name, algos in (("d3rlpy", peers.D3RLPY), ("sb3", peers.SB3)) if algo in algos]
    return [
        *(contestant(work, options.threads, compiled / f"{algo}-{i}") for i, work in enumerate(works)),
        *(peer(name, replace(options.work, algo=algo), options) for name in able if name not in options.missing),
    ]


# What is measured ---------------------------------------------------------------------------------------------------


def updates(options: argparse.Namespace, earlier: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Everybody's updates per second, algorithm by algorithm; those of work not asked for stay."""
    computed = {"kernels": options.kernels, "precision": options.precision}
    rows = [row for row in earlier if row["algo"] not in options.algo or not computed.items() <= row.items()]
    for algo in options.algo:
        with tempfile.TemporaryDirectory() as compiled:
            new = compete(group(algo, options, Path(compiled)), options.rounds, options.seconds, tell)
        compare_with_d3rlpy(new)
        rows += [{**computed, **row} for row in new]
        for row in new:
            if "failure" not in row:
                beside = f"{row['ratio']:6.2f} of d3rlpy's" if "ratio" in row else ""
                tell(f"{row['name']:<32} {statistics.median(row['rates']):10,.1f} updates/s {beside}")
    return rows


def compare_with_d3rlpy(rows: list[dict[str, Any]]) -> None:
    """Add to each row of one contest how many times as fast it is."""
    peer_rows = [row for row in rows if row.get("library") == "d3rlpy" and "failure" not in row]
    for row in rows:
        if peer_rows and row is not peer_rows[0] and "failure" not in row:
            row["ratio"] = ratio(row, peer_rows[0])


def growth(options: argparse.Namespace, _: Any) -> dict[str, list[dict[str, Any]]]:
    """One algorithm's speed and memory as one size grows, the others being standard."""
    engine = "eager" if options.quick and options.device == "cpu" else options.engine[-1]
    found = {}
    for axis, values in AXES[options.device.partition(":")[0], options.quick].items():
        works = [replace(options.work, algo=GROWS, engine=engine, **{axis: value}) for value in values]
        with tempfile.TemporaryDirectory() as compiled:
            contestants = [contestant(work, options.threads, Path(compiled) / str(i)) for i, work in enumerate(works)]
            found[axis] = compete(contestants, options.rounds, options.seconds, tell)
        tell(f"growth by {axis}: " + ", ".join(map(str, values)))
    return found


def start(options: argparse.Namespace, _: Any) -> dict[str, list[float]]:
    """Seconds from the start of a process to the end of its first update, data at hand, in turns."""
    works = {engine: replace(options.work, algo=GROWS, engine=engine) for engine in options.engine}
    seconds: dict[str, list[float]] = {}

    def note(name: str, entrant: Contestant) -> None:
        try:
            seconds.setdefault(name, []).append(entrant.first_update()["from_start"])
        except ContestantError as error:
            tell(f"{error} (left out)")
        finally:
            entrant.close()

    for _round in range(1 if options.quick else 3):
        with tempfile.TemporaryDirectory() as compiled:
            for engine, work in works.items():
                note(engine, contestant(work, options.threads, Path(compiled)))
            if "compiled" in works:
                note("compiled before", contestant(works["compiled"], options.threads, Path(compiled)))
        for library in ("d3rlpy",):
            if library not in options.missing:
                note(library, peer(library, replace(options.work, algo=GROWS), options))
    tell("start: " + ", ".join(f"{name} {statistics.median(values):.1f} s" for name, values in seconds.items()))
    return seconds


def imports(options: argparse.Namespace, _: Any) -> dict[str, list[float]]:
    """Seconds a fresh Python takes for an import, in turns."""
    commands = {
        "import rl_training": sys.executable,
        "from rl_training import CQL": sys.executable,
        "import torch": sys.executable,
        **({} if "d3rlpy" in options.missing else {"import d3rlpy": options.peer}),
        **({} if "sb3" in options.missing else {"import stable_baselines3": options.peer}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _round in range(options.rounds):
        for code, python in commands.items():
            began = time.perf_counter()
            subprocess.run([python, "-c", code], check=True, capture_output=True)
            seconds[code].append(time.perf_counter() - began)
    tell("imports: " + ", ".join(f"{name} {statistics.median(values):.2f} s" for name, values in seconds.items()))
    return seconds


def load(options: argparse.Namespace, _: Any) -> dict[str, Any]:
    """From arrays to batches, as `loading.py` measures it."""
    names = [("ours_arrays", sys.executable)]
    if "d3rlpy" not in options.missing:
        names.append(("d3rlpy_arrays", options.peer))
    found = loading.compare(
        names, options.work.rows, Path(tempfile.gettempdir()), min(options.rounds, 2 if options.quick else 5)
    )
    return {"rows": options.work.rows, **found}


MEASURES: dict[str, Callable[[argparse.Namespace, Any], Any]] = dict(
    zip(SECTIONS, (updates, growth, start, imports, load), strict=True)
)


# Running ------------------------------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer engines, sizes and rounds")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--algo", nargs="+", default=list(algorithms.find()))
    parser.add_argument("--members", type=int, nargs="+", help="default: 1 and 4, on a GPU 1, 16, 64 and 256")
    parser.add_argument("--engine", nargs="+", choices=["eager", "compiled"], default=["eager", "compiled"])
    parser.add_argument("--rounds", type=int, help="default: 7, quick 3")
    parser.add_argument("--seconds", type=float, help="of a block; default: 1, quick 0.4")
    parser.add_argument(
        "--threads", type=int, default=default_threads(), help="of every contestant; default: all cores"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--kernels", default="auto", help="auto, plain or fused")
    parser.add_argument("--precision", default="auto", help="auto, fp32, tf32 or bf16")
    parser.add_argument("--rows", type=int, default=1_000_000, help="transitions in the data")
    parser.add_argument("--peer", default="bench-env/bin/python", help="a Python that has d3rlpy and Stable-Baselines3")
    parser.add_argument("--results", type=Path, default=speed_page.RESULTS, help="folder for the JSON")
    parser.add_argument("--no-page", action="store_true", help="leave the page and its charts as they are")
    options = parser.parse_args()
    options.device = choose_device(options.device)
    on_cpu = options.device == "cpu"
    options.members = options.members or ([1] if on_cpu and options.quick else [1, 4] if on_cpu else [1, 16, 64, 256])
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.seconds = options.seconds or (0.4 if options.quick else 1.0)
    if not compiler_available():
        options.engine = ["eager"]
    if options.rounds < 1 or options.seconds <= 0 or options.threads < 1:
        raise ConfigError("rounds and threads must be at least 1, seconds above 0")
    fixed = {"device": options.device, "kernels": options.kernels, "precision": options.precision}
    options.work = Work(GROWS, rows=options.rows, **fixed)
    options.missing = missing_peers(options.peer)
    for algo in options.algo:
        for work in ours(algo, options):
            work.resolved()  # refuses what cannot be measured before anything is
    return options


def run(options: argparse.Namespace) -> Path:
    """Measure what is asked for and store it; the file."""
    path: Path = options.results / f"bench-{'cpu' if options.device == 'cpu' else 'gpu'}.json"
    about = {**machine(options.device), "threads": options.threads}
    stored: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    if stored.get("machine") != about:  # figures of two machines do not go together
        stored = {}
    stored["machine"] = about
    for section in options.only:
        stored.setdefault("settings", {})[section] = {
            "mode": "quick" if options.quick else "full",
            "rounds": options.rounds,
            "seconds": options.seconds,
            **{key: value for key, value in asdict(options.work).items() if key in ("kernels", "precision", "rows")},
            "missing": options.missing,
        }
        stored[section] = MEASURES[section](options, stored.get(section, []))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, indent=1) + "\n")
    return path


def main() -> None:
    try:
        options = parse()
        for library, reason in options.missing.items():
            tell(f"{library} is left out: {reason}")
        tell(f"written to {run(options)}")
    except RLTrainingError as mistake:
        print(f"error: {mistake}", file=sys.stderr)
        sys.exit(2)
    if not options.no_page:
        speed_page.write(options.results, draw=importlib.util.find_spec("matplotlib") is not None)


if __name__ == "__main__":
    main()
