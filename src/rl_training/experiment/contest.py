"""Speed measured in turns: every contestant is a process that sets up once and then runs as many updates as it is told.

The protocol, on the standard input and output of a worker: a line with a number asks for so many updates, one line of
JSON answers how many seconds they took and how much memory the process has had at most; the first answer also says what
the worker is. This module needs the standard library alone, so that a worker of other people's code can use it from an
environment that holds nothing of this package's.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rl_training.errors import RLTrainingError

EPISODE = 1_000  # rows
_PATIENCE = 5.0  # seconds a worker has to end in
_MOST_COMPLAINTS = 2**16  # bytes that are looked at


class ContestantError(RLTrainingError):
    """A worker that could not start, or stopped before it was told to."""


def synthetic_arrays(rows: int, obs_dim: int, act_dim: int) -> dict[str, Any]:
    """Random transitions under D4RL's names, in episodes cut by a time limit; made the same way every time."""
    import numpy as np

    rng = np.random.default_rng(0)
    ends = np.arange(1, rows + 1) % EPISODE == 0
    ends[-1] = True
    return {
        "observations": rng.standard_normal((rows, obs_dim), dtype=np.float32),
        "actions": np.tanh(rng.standard_normal((rows, act_dim), dtype=np.float32)),
        "rewards": rng.standard_normal(rows, dtype=np.float32),
        "next_observations": rng.standard_normal((rows, obs_dim), dtype=np.float32),
        "terminals": np.zeros(rows, dtype=np.bool_),
        "timeouts": ends,
    }


# A worker's side ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """A worker that is set up. It should be asked for multiples of `unit` updates, so that every block is alike."""

    run: Callable[[int], None]
    unit: int = 1
    generating: float = 0.0  # seconds that went into making the data up, which a user's data do not cost
    about: Mapping[str, Any] = field(default_factory=dict)  # told after the first update, which may add to it


def serve(prepare: Callable[[], Prepared]) -> None:
    """Answer until standard input ends. Whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = prepare()
    introduction = {"unit": worker.unit, "generating": worker.generating, "about": worker.about}
    for line in sys.stdin:
        began = time.perf_counter()
        worker.run(int(line))
        answer = {"seconds": time.perf_counter() - began, **introduction}
        print(json.dumps({**answer, "memory": peak_memory(), "cuda_memory": peak_cuda_memory()}), file=answers)
        answers.flush()
        introduction = {}


def peak_memory() -> int:
    """The most bytes of memory this process has had."""
    try:  # the kernel's other count, ru_maxrss, may begin with what the parent process had
        status = Path("/proc/self/status").read_text("utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_cuda_memory() -> int:
    """The most bytes torch has held on the GPU; 0 where it uses none."""
    torch = sys.modules.get("torch")
    if not torch or not torch.cuda.is_initialized():
        return 0
    return sum(torch.cuda.max_memory_reserved(i) for i in range(torch.cuda.device_count()))


# The other side -----------------------------------------------------------------------------------------------------


class Contestant:
    """A worker process. `facts` say what it stands for and end up beside its figures."""

    def __init__(self, name: str, command: Sequence[str], facts: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.name = name
        self.facts = dict(facts)
        self._command = list(command)
        self._env = dict(env)

    def start(self) -> None:
        self._complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._began = time.perf_counter()
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                env=self._env,
            )
        except OSError as error:
            self._complaints.close()
            raise ContestantError(f"{self.name}: {error}") from None

    def ask(self, updates: int) -> dict[str, Any]:
        """The worker's answer to so many updates."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(f"{updates}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ContestantError(f"{self.name}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def first_update(self) -> dict[str, Any]:
        """Start, and the answer to the first update; `from_start` counts from the process's start, data at hand."""
        self.start()
        answer = self.ask(1)
        return {**answer, "from_start": time.perf_counter() - self._began - answer["generating"]}

    def close(self) -> None:
        if not hasattr(self, "_process"):
            return
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):  # what was written last went nowhere
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)  # the end of its input ends an idle worker, and what it has started
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._complaints.close()

    def warnings(self) -> list[str]:
        """What it has warned of so far; read where it stands, as the worker writes on from there."""
        written = os.pread(self._complaints.fileno(), _MOST_COMPLAINTS, 0).decode("utf-8", "replace")
        return [line for line in written.splitlines() if line.startswith("warning: ")]

    def _last_words(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        lines = [line.strip() for line in self._complaints.read().splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ") if lines else f"ended with code {code} and no word"


def environment(threads: int, compiled: Path | None = None) -> dict[str, str]:
    """A worker's: so many threads for tensor operations; `compiled` keeps what is compiled, none the usual place."""
    changes = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if compiled is not None:
        changes["TORCHINDUCTOR_CACHE_DIR"] = str(compiled)
    return {**os.environ, **changes}


@dataclass
class _Turn:
    """A contestant that is warmed up, the updates of one of its blocks, and what was measured."""

    contestant: Contestant
    row: dict[str, Any]
    updates: int


def compete(
    contestants: Sequence[Contestant],
    rounds: int,
    seconds: float,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Warm all up, then let each run a block of about `seconds` in every round; one row of figures for each.

    A contestant that fails has a row with a `failure` in place of figures; the others go on.
    """
    rows: list[dict[str, Any]] = []
    turns: list[_Turn] = []
    with ExitStack() as stack:
        for contestant in contestants:
            stack.callback(contestant.close)
            rows.append({"name": contestant.name, **contestant.facts})
            try:
                turns.append(_warm_up(contestant, rows[-1], seconds))
                for line in contestant.warnings():
                    tell(f"{contestant.name}: {line}")
            except ContestantError as error:
                rows[-1]["failure"] = str(error)
                tell(f"{error} (left out)")
        for number in range(rounds):  # each round begins with another: none always follows the same neighbour
            first = number % max(len(turns), 1)
            for turn in [*turns[first:], *turns[:first]]:
                _take(turn, tell)
    return rows


def _warm_up(contestant: Contestant, row: dict[str, Any], seconds: float) -> _Turn:
    """Let it compile, and find how many updates fill a block; what that took is part of its row."""
    first = contestant.first_update()
    unit = int(first["unit"])
    warming = 3 * unit - 1  # with the first one whole units; every kind of update has then run, and been captured
    warm = contestant.ask(warming)["seconds"]
    updates, took = unit, contestant.ask(unit)["seconds"]
    while took < seconds / 3:
        updates = whole_units(min(updates * seconds / took, 20 * updates), unit)
        took = contestant.ask(updates)["seconds"]
    pace = took / updates
    row |= {"about": first["about"], "first_update": first["from_start"]}
    row["preparing"] = max(0.0, first["seconds"] + warm - pace * (1 + warming))
    row["rates"] = []
    return _Turn(contestant, row, whole_units(seconds / pace, unit))


def _take(turn: _Turn, tell: Callable[[str], None]) -> None:
    if "failure" in turn.row:
        return
    try:
        answer = turn.contestant.ask(turn.updates)
    except ContestantError as error:
        turn.row["failure"] = str(error)
        tell(f"{error} (left out)")
        return
    turn.row["rates"].append(turn.updates / answer["seconds"])
    turn.row |= {key: answer[key] for key in ("memory", "cuda_memory")}


# Arithmetic ---------------------------------------------------------------------------------------------------------


def whole_units(updates: float, unit: int) -> int:
    """`updates` rounded to a multiple of `unit`, at least one."""
    return max(1, round(updates / unit)) * unit


def ratio(row: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How many times as fast, all seeds counted: computed within every round, then the median over the rounds."""
    share: float = row.get("members", 1) / other.get("members", 1)
    by_round: list[float] = [mine / theirs for mine, theirs in zip(row["rates"], other["rates"], strict=True)]
    return share * median(by_round)
