"""What else runs on the machine, and what that does to threads that wait for each other.

The number of threads is never chosen by it: sums, and so the last bits of weights, depend on that number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from rl_training.errors import ConfigError
from rl_training.wording import WARNING, amount

BY_HAND = "OMP_NUM_THREADS=1 in the environment"  # where no configuration is read
_FORKED = (
    "this process was forked from one that had computed with {} threads, which are not here and would be waited for;"
    ' multiprocessing.get_context("spawn") starts one that has its own'
)
BUSY = 1.5  # load of each core: what was trained here a minute ago makes 1 of it


class MachineNotice(str):
    """A notice on the machine of the moment, and not on what is trained."""


def of_machine(notices: Iterable[str]) -> list[str]:
    """Those that are on the machine."""
    return [notice for notice in notices if isinstance(notice, MachineNotice)]


def busy_notice(threads: int, remedy: str | None = "--set threads=1") -> list[MachineNotice]:
    """A sentence where so many threads will wait for other programs, and so for each other; none where they won't."""
    load, cores = _load(), os.cpu_count() or 1
    if threads < 2 or load <= BUSY * cores:
        return []
    way = "" if remedy is None else f"; use {remedy}"
    said = f"the machine is busy (load {load:.1f} on {amount(cores, 'core')})"
    return [MachineNotice(f"{said}, which slows {threads} threads down{way}")]


def use_threads(
    asked: int | None, device: str, *, resumed: bool, machine: Mapping[str, Any] | None = None
) -> list[MachineNotice]:
    """Compute with so many threads, if they are given; what the user should know of it. No run changes its own.

    machine: of a run that goes on, which says how many it had."""
    import torch

    from rl_training.runtime.torch_state import threads_lacking

    lacking = threads_lacking()
    if lacking is not None and (asked or 1) > 1:
        raise ConfigError(f"threads: must be 1, got {asked}: {_FORKED.format(lacking)}")
    if asked is not None:
        torch.set_num_threads(asked)
    if torch.device(device).type != "cpu":
        return []
    by_hand, now = None if asked else BY_HAND, torch.get_num_threads()
    notices = _other_threads(threads_of(machine), now, by_fork=lacking)
    return notices + busy_notice(now, by_hand if resumed else "--set threads=1")


def _other_threads(before: int | None, now: int, *, by_fork: int | None) -> list[MachineNotice]:
    """What is to be said of a number of threads that is not the one to be expected."""
    why = f"; {_FORKED.format(by_fork)}" if by_fork is not None and now == 1 else ""
    if before not in (None, now):
        told = f"{before} so far, {now} from here on; the results are not bit for bit those of an unbroken run"
        way = why or f"; OMP_NUM_THREADS={before} in the environment has it go on with {before}"
        return [MachineNotice(f"{WARNING}threads: {told}{way}")]
    return [MachineNotice(f"threads: {now}{why}")] if why else []


def _load() -> float:
    """Of the last minute; 0 where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def with_threads(machine: Any, threads: int) -> dict[str, Any]:
    """A run's `machine`, with the number of threads that it is resumed with where that is another one than before."""
    known = dict(machine) if isinstance(machine, Mapping) else {}
    before = _threads_in(known)
    return known if before[-1] in (None, threads) else known | {"threads_resumed": [*before[1:], threads]}


def threads_of(machine: Any) -> int | None:
    """How many threads a run was last trained with, by its `machine`."""
    last = _threads_in(machine)[-1] if isinstance(machine, Mapping) else None
    return last if type(last) is int else None


def _threads_in(machine: Mapping[str, Any]) -> list[Any]:
    resumed = machine.get("threads_resumed")
    return [machine.get("threads"), *(resumed if isinstance(resumed, list) else [])]
