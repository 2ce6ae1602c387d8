"""The same faults for d3rlpy, Stable-Baselines3, Minari's datasets and this package, and a table of what came of them.

    python benchmarks/faults.py [--peer bench-env/bin/python] [--long] [--only kill flip …] [--product ours …]

Each program runs in its own environment, by its public calls; what was called is stored beside every outcome. Results
go into `results/faults.json` and the table of `docs/reliability.md`. `--long` kills and flips more often.
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
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import fault_cases as cases
import fault_page
from fault_d3rlpy import D3rlpy
from fault_ours import Minari, Ours
from fault_sb3 import StableBaselines3

PRODUCTS: dict[str, Callable[[], Any]] = {"ours": Ours, "d3rlpy": D3rlpy, "sb3": StableBaselines3, "minari": Minari}
PEERS = ("d3rlpy", "sb3")
# Killing comes first: a process that has computed no gradient can be forked.
ROWS = ("kill", "flip", "disk", "stranger", "resume", "nan", "datasets", "bombs", "settings", "sigterm")
TRIES = {"ours": {"kill": 200, "flip": 1_000}, "peer": {"kill": 25, "flip": 40}}
LONG = {"ours": {"kill": 1_000, "flip": 1_000}, "peer": {"kill": 100, "flip": 200}}


def run_product(name: str, rows: list[str], *, long: bool) -> dict[str, Any]:
    """Every row of one program, in this process."""
    product = PRODUCTS[name]()
    tries = (LONG if long else TRIES)["ours" if name == "ours" else "peer"]
    again = [sys.executable, __file__, "--product", name]
    work: dict[str, Callable[[Any, Path], dict[str, Any]]] = {
        "kill": partial(cases.kill_while_saving, tries=tries["kill"]),
        "flip": partial(cases.flip_bits, tries=tries["flip"]),
        "disk": cases.full_disk,
        "stranger": cases.stranger,
        "resume": cases.resume,
        "nan": cases.nan,
        "datasets": cases.datasets,
        "bombs": partial(cases.bombs, again=again),
        "settings": cases.settings,
        "sigterm": partial(cases.terminate, again=again),
    }
    found: dict[str, Any] = {"versions": product.versions(), "rows": {}}
    for row in rows:
        if row not in product.calls or product.calls[row].startswith("has no"):
            continue
        began = time.perf_counter()
        with cases.scratch(row) as folder:
            try:
                told = work[row](product, folder)
            except Exception as error:
                told = {"failure": cases.in_words(error)}
        found["rows"][row] = {"called": product.calls[row], **told}
        print(f"{name} {row}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def serve(options: argparse.Namespace) -> None:
    """What is asked of one program, as one line of JSON; everything else that is printed goes to standard error."""
    (name,) = options.product
    if options.train:
        PRODUCTS[name]().train_on(Path(options.train))
        return
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if options.bomb:
        told = cases.open_bomb(PRODUCTS[name](), Path(options.bomb))
    else:
        told = run_product(name, options.only, long=options.long)
    print(json.dumps(told), file=answers, flush=True)


def ask(name: str, options: argparse.Namespace) -> dict[str, Any] | str:
    """The answers of one program from a process of its environment, or why there are none."""
    python = options.peer if name in PEERS else sys.executable
    if not Path(python).is_file():
        return f"no {python} here (`make bench-env` makes it)"
    command = [python, __file__, "--work", "--product", name, "--only", *options.only, *["--long"] * options.long]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    last = ""
    with tempfile.TemporaryFile("w+") as answers:
        with subprocess.Popen(command, stdout=answers, stderr=subprocess.PIPE, text=True, env=environment) as worker:
            for line in worker.stderr or ():  # of all that the programs say, only what this one does
                last = line.strip() or last
                if line.startswith(f"{name} "):
                    print(line, end="", flush=True)
        if worker.returncode:
            return f"exit code {worker.returncode}: {last}"
        answers.seek(0)
        answer: dict[str, Any] = json.loads(answers.read().splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default="bench-env/bin/python", help="a Python that has d3rlpy and Stable-Baselines3")
    parser.add_argument("--product", nargs="+", choices=PRODUCTS, default=list(PRODUCTS))
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    for internal in ("--bomb", "--train"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work or options.bomb or options.train:
        serve(options)
        return
    began = time.monotonic()
    stored = fault_page.stored()
    for name in options.product:
        told = ask(name, options)
        if isinstance(told, str):
            print(f"{name}: left out, {told}", flush=True)
            continue
        rows = {**stored["products"].get(name, {}).get("rows", {}), **told["rows"]}
        stored["products"][name] = {"versions": told["versions"], "rows": rows}
    stored["machine"] = {
        "system": " ".join(platform.uname()[::4]),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    fault_page.RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    fault_page.write()
    print(f"{time.monotonic() - began:.0f} s; written to {fault_page.RESULTS} and {fault_page.PAGE}")


if __name__ == "__main__":
    main()
