"""The faults of `faults.py`, each put to every program in the same way through a small adapter per program.

Needs the standard library and NumPy alone, so that it runs in the environments of the other programs, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # of the package nothing but made-up data, which needs none

from rl_training.experiment.contest import peak_memory, synthetic_arrays

OBS, ACT, ROWS = 17, 6, 2_000
Outcome = dict[str, Any]


class Product(Protocol):
    """One program. `styles` are the documented ways of naming checkpoints: one name, or a name per step."""

    styles: tuple[str, ...]
    calls: Mapping[str, str]

    def versions(self) -> dict[str, str]: ...
    def fresh(self, folder: Path) -> Any: ...
    def save(self, model: Any, folder: Path, step: int, style: str) -> None: ...
    def load_newest(self, folder: Path) -> Any: ...
    def newest_files(self, folder: Path) -> list[Path]: ...
    def weights(self, model: Any) -> dict[str, Any]: ...
    def stranger(self, folder: Path, marker: Path) -> None: ...
    def resumed(self, folder: Path, stop: int, total: int) -> tuple[str, str]: ...
    def nan_data(self, folder: Path) -> Any: ...
    def nan_weights(self, folder: Path) -> Any: ...
    def settings(self, folder: Path, name: str, value: Any) -> None: ...
    def accept(self, arrays: dict[str, Any]) -> None: ...
    def bomb(self, folder: Path, kind: str) -> Path: ...
    def open_bomb(self, path: Path) -> Any: ...
    def train_on(self, folder: Path) -> None: ...
    def after_signal(self, folder: Path) -> Outcome: ...


def digest(weights: Mapping[str, Any]) -> str:
    """SHA-256 over names and bytes."""
    sums = hashlib.sha256()
    for name in sorted(weights):
        sums.update(name.encode() + weights[name].tobytes())
    return sums.hexdigest()


def is_finite(weights: Mapping[str, Any]) -> bool:
    import numpy as np

    return all(bool(np.isfinite(values).all()) for values in weights.values() if values.dtype.kind == "f")


def in_words(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def outcome(work: Callable[[], Any]) -> Outcome:
    """Whether something was accepted, warned of or refused, and in which words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
        except Exception as error:
            return {"is": "refused", "words": in_words(error)}
    told = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return {"is": "warned", "words": told[0][:300]} if told else {"is": "accepted"}


# Checkpoints --------------------------------------------------------------------------------------------------------


def kill_while_saving(product: Product, folder: Path, tries: int) -> Outcome:
    """A child saves again and again and is killed somewhere inside; then the newest checkpoint is loaded."""
    found: Outcome = {"tries": tries}
    for style in product.styles:
        place = folder / style.replace(" ", "-")
        place.mkdir()
        model, shared = product.fresh(place), mmap.mmap(-1, 16)
        product.save(model, place, 1, style)
        began = time.perf_counter()
        product.save(model, place, 2, style)
        duration, unloadable, lost = time.perf_counter() - began, 0, 0
        struct.pack_into("qq", shared, 0, 2, 2)
        for number in range(tries):
            _kill_one(product, model, place, style, shared, random.Random(number).uniform(0.0, 1.5 * duration))
            try:
                loaded = product.load_newest(place)
                saved = struct.unpack_from("qq", shared)[1]
                lost += getattr(loaded, "fault_step", saved) < saved
            except Exception as error:
                unloadable += 1
                found.setdefault("words", in_words(error).replace(str(folder), "RUN"))
        found[style] = {"unloadable": unloadable, "complete saves lost": lost}
    return found


def _kill_one(product: Product, model: Any, place: Path, style: str, shared: mmap.mmap, seconds: float) -> None:
    """`shared` holds the step that is being saved, and the last one whose saving came to its end."""
    (step,) = struct.unpack_from("q", shared)
    process = os.fork()
    if process == 0:
        try:
            while True:
                step += 1
                struct.pack_into("q", shared, 0, step)
                product.save(model, place, step, style)
                struct.pack_into("q", shared, 8, step)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 30.0
    while struct.unpack_from("q", shared)[0] == step and time.monotonic() < deadline:
        time.sleep(0.0002)
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def flip_bits(product: Product, folder: Path, tries: int) -> Outcome:
    """One bit of the newest checkpoint is turned over, the checkpoint loaded, the bit turned back."""
    model = product.fresh(folder)
    for step in (1, 2):
        product.save(model, folder, step, product.styles[-1])
    sound = digest(product.weights(product.load_newest(folder)))
    files = product.newest_files(folder)
    sizes, counts, words = [file.stat().st_size for file in files], Counter[str](), ""
    for number in range(tries):
        rng = random.Random(number)
        file = rng.choices(files, sizes)[0]
        whole = file.read_bytes()
        turned = bytearray(whole)
        turned[rng.randrange(len(turned))] ^= 1 << rng.randrange(8)
        file.write_bytes(turned)
        try:
            same = digest(product.weights(product.load_newest(folder))) == sound
            counts["unnoticed, weights the same" if same else "unnoticed, weights differ"] += 1
        except Exception as error:
            counts["noticed"] += 1
            counts["previous offered"] += "the newest sound one is step-1" in str(error)
            words = words or in_words(error)
        file.write_bytes(whole)
    return {"tries": tries, **counts, "words": words.replace(str(folder), "RUN")}


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """`folder` as a disk of so many bytes; False where this user may not mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    is_mounted = shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


NEIGHBOUR = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        try:
            file.write(bytes(4096))
        except OSError:
            print("full", flush=True)
"""


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Another program takes whatever room there is, also what becomes free."""
    command = [sys.executable, "-c", NEIGHBOUR, str(folder / "neighbour")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as neighbour:
        assert neighbour.stdout
        neighbour.stdout.readline()
        try:
            yield
        finally:
            neighbour.stdout.close()
            neighbour.kill()


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_disk(product: Product, folder: Path) -> Outcome:
    """A checkpoint is saved, the disk fills up, the next one is saved; then the newest is loaded."""
    found: Outcome = {}
    for style in product.styles:
        trial = folder / f"{style.replace(' ', '-')}-size"
        trial.mkdir()
        product.save(product.fresh(trial), trial, 1, style)
        size = max(file.stat().st_size for file in product.newest_files(trial))
        place = folder / style.replace(" ", "-")
        place.mkdir()
        with small_disk(place, 8 * size + 2**20) as is_mounted:
            model = product.fresh(place)
            product.save(model, place, 1, style)
            with filling(place) if is_mounted else small_files(size // 2):
                for _ in range(100):  # until it meets the fault: writing over a file may win the race for its room
                    saving = outcome(lambda: product.save(model, place, 2, style))  # noqa: B023
                    if saving["is"] == "refused":
                        break
            loading = outcome(lambda: product.load_newest(place))  # noqa: B023
            earlier = loading
            if loading["is"] == "refused":
                product.newest_files(place)[0].unlink()
                earlier = outcome(lambda: product.load_newest(place))  # noqa: B023
        words = {
            name: said.get("words", "").replace(str(folder), "RUN") for name, said in (("s", saving), ("l", loading))
        }
        found[style] = {
            "how": "a full disk" if is_mounted else "a limit on the size of files",
            "saving": words["s"] or "no error",
            "newest loads": loading["is"] != "refused",
            "loading": words["l"] or "no error",
            "last good one loads": earlier["is"] != "refused",
        }
    return found


def stranger(product: Product, folder: Path) -> Outcome:
    """A checkpoint that somebody else made, with a call in it that leaves a file behind."""
    marker = folder / "code-has-run"
    told = outcome(lambda: product.stranger(folder, marker))
    words = told.get("words", "").replace(str(folder), "RUN")
    return {"ran code": marker.exists(), **told, "words": words}


# Training -----------------------------------------------------------------------------------------------------------


def resume(product: Product, folder: Path) -> Outcome:
    total, equal, stops = 60, 0, (7, 20, 43)
    for stop in stops:
        place = folder / f"at-{stop}"
        place.mkdir()
        unbroken, resumed = product.resumed(place, stop, total)
        equal += unbroken == resumed
    return {"stops": list(stops), "of": total, "equal weights": equal}


def nan(product: Product, folder: Path) -> Outcome:
    """NaN in one reward of the data; then, in other data, NaN in one weight after 20 updates."""
    found = {}
    for name, work in (("data", product.nan_data), ("weights", product.nan_weights)):
        place = folder / name
        place.mkdir()
        kept: list[Any] = []
        told = outcome(lambda: kept.append(work(place)))  # noqa: B023
        with contextlib.suppress(Exception):  # there may be nothing left, as of what was refused before it began
            kept = kept or [product.weights(product.load_newest(place))]
        is_sound = is_finite(kept[0]) if kept and kept[0] is not None else None
        found[name] = {**told, "weights left are finite": is_sound}
    return found


def corrupt(arrays: Callable[[], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Eight datasets with one thing wrong in each."""
    import numpy as np

    cases = {
        name: arrays()
        for name in (
            "NaN in an observation", "infinite reward", "NaN in an action", "one reward too few",
            "action of 5 within bounds of ±1", "terminal flag of 2", "no end of an episode marked", "rewards as text",
        )
    }  # fmt: skip
    cases["NaN in an observation"]["observations"][7, 3] = np.nan
    cases["infinite reward"]["rewards"][7] = np.inf
    cases["NaN in an action"]["actions"][7, 2] = np.nan
    cases["one reward too few"]["rewards"] = cases["one reward too few"]["rewards"][:-1]
    cases["action of 5 within bounds of ±1"]["actions"][7, 2] = 5.0
    flags = cases["terminal flag of 2"]["terminals"].astype(np.float32)
    flags[7] = 2.0
    cases["terminal flag of 2"]["terminals"] = flags
    cases["no end of an episode marked"]["timeouts"][:] = False
    cases["rewards as text"]["rewards"] = np.array(["high"] * ROWS)
    return cases


def made_up() -> dict[str, Any]:
    return dict(synthetic_arrays(ROWS, OBS, ACT))


def datasets(product: Product, folder: Path) -> Outcome:
    cases = {name: outcome(lambda: product.accept(given)) for name, given in corrupt(made_up).items()}  # noqa: B023
    healthy = outcome(lambda: product.accept(made_up()))
    return {"healthy": healthy, "accepted": sum(one["is"] == "accepted" for one in cases.values()), "cases": cases}


def settings(product: Product, folder: Path) -> Outcome:
    found = {}
    for name, value in (("gamma", 5), ("batch_size", -3), ("lerning_rate", 3e-4)):
        place = folder / name
        place.mkdir()
        found[f"{name}={value}"] = outcome(lambda: product.settings(place, name, value))  # noqa: B023
    return found


# In processes of their own ------------------------------------------------------------------------------------------


def bombs(product: Product, folder: Path, again: list[str]) -> Outcome:
    """Small files that declare 4 TiB or unpack to a gibibyte, opened with 16 GiB of address space."""
    found: Outcome = {}
    for kind in ("hdf5", "zip"):
        try:
            path = product.bomb(folder, kind)
        except NotImplementedError as error:
            found[kind] = {"none": str(error)}
            continue
        size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*"))
        done = subprocess.run([*again, "--bomb", str(path)], capture_output=True, text=True, timeout=120)
        told = done.stdout.strip().splitlines()
        found[kind] = {
            "bytes": size,
            **(json.loads(told[-1]) if told else {"is": f"died, exit code {done.returncode}"}),
        }
    return found


def open_bomb(product: Product, path: Path) -> Outcome:
    product.versions()  # imports
    limit = 16 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before, began = peak_memory(), time.perf_counter()
    told = outcome(lambda: product.open_bomb(path))
    seconds = time.perf_counter() - began
    told = {name: words.replace(str(path.parent), "FOLDER") for name, words in told.items()}
    return {**told, "seconds": round(seconds, 3), "mebibytes": round((peak_memory() - before) / 2**20)}


def terminate(product: Product, folder: Path, again: list[str]) -> Outcome:
    """SIGTERM in the middle of training that has a checkpoint behind it."""
    started = folder / "started"
    with subprocess.Popen([*again, "--train", str(folder)], stdout=-3, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 90.0
        while not started.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1)
        asked, began = time.time(), time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        seconds = time.monotonic() - began
    try:
        fresh = any(file.stat().st_mtime >= asked for file in product.newest_files(folder))
    except (OSError, IndexError, ValueError):
        fresh = False
    code = process.returncode
    return {
        "seconds to the end": round(seconds, 2),
        "exit code": code if code >= 0 else f"killed by {signal.Signals(-code).name}",
        "checkpoint after the signal": fresh,
        **product.after_signal(folder),
    }


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"fault-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
