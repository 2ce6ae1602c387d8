"""What else runs on the machine, and what that does to threads that wait for each other.

The number of threads is never chosen by it: sums, and so the last bits of weights, depend on that number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from rl_training.wording import amount

BY_HAND = "OMP_NUM_THREADS=1 in the environment"  # where no configuration is read
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
    way = "" if remedy is None else f"; {remedy} is faster then"
    said = f"the machine is busy (load {load:.1f} on {amount(cores, 'core')})"
    return [MachineNotice(f"{said}: {threads} threads that wait for each other make this slow{way}")]


def use_threads(asked: int | None, device: str, *, resumed: bool) -> list[MachineNotice]:
    """Compute with so many threads, if they are given; what the user should know of it. No run changes its own."""
    import torch

    if asked is not None:
        torch.set_num_threads(asked)
    if torch.device(device).type != "cpu":
        return []
    by_hand = None if asked else BY_HAND
    return busy_notice(torch.get_num_threads(), by_hand if resumed else "--set threads=1")


def _load() -> float:
    """Of the last minute; 0 where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def with_threads(machine: Any, threads: int) -> dict[str, Any]:
    """A run's `machine`, with the number of threads that it is resumed with where that is another one than before."""
    known = dict(machine) if isinstance(machine, Mapping) else {}
    resumed = known.get("threads_resumed")
    before = [known.get("threads"), *(resumed if isinstance(resumed, list) else [])]
    return known if before[-1] in (None, threads) else known | {"threads_resumed": [*before[1:], threads]}
