"""What every reader holds a file to before it allocates memory for it."""

from __future__ import annotations

from pathlib import Path

from rl_training.errors import DataError

_GROUPS = Path("/sys/fs/cgroup")
_CONTROL_GROUPS = (
    (_GROUPS / "memory.max", _GROUPS / "memory.current", _GROUPS / "memory.stat"),
    (
        _GROUPS / "memory" / "memory.limit_in_bytes",
        _GROUPS / "memory" / "memory.usage_in_bytes",
        _GROUPS / "memory" / "memory.stat",
    ),
)
_MEMORY_LIMIT_FALLBACK = 64 * 2**30  # bytes, where the system does not say how much memory is free


LONGEST_TEXT = 256  # bytes of a cell; a number or the name of an episode needs fewer
_COPIES = 3  # of what is read, at the worst moment: as the file has it, as float32, and the successors
_BYTES_OF_A_ROW = 150  # at the worst moment of examining data, however few columns there are
_LARGEST_RATIO = 200  # that real data are packed by
_ALWAYS_FINE = 2**28  # bytes of constant fields, whose ratio is any


def check_size(size: int, stored: int | None = None, purpose: str = "read", rows: int = 0) -> None:
    """Refuse `size` bytes in so many rows that would not fit into the free memory, or of which next to nothing is
    `stored`."""
    if stored is not None and size > most_unpacked(stored):
        raise DataError(
            f"declares {_amount(size)} of values but stores {_amount(stored)}: they were never written,"
            " or packed to mislead"
        )
    limit = free_memory()
    needed = max(_COPIES * size, _BYTES_OF_A_ROW * rows)
    if needed > limit:
        raise DataError(f"needs {_amount(needed)} of memory to be {purpose}, but only {_amount(limit)} are free")


def is_stored(size: int, stored: int) -> bool:
    """Whether so many packed bytes may be `size` of real data."""
    return size <= _LARGEST_RATIO * stored


def most_unpacked(stored: int) -> int:
    """Bytes that so many packed ones may become; what becomes more was packed to mislead."""
    return _ALWAYS_FINE + _LARGEST_RATIO * stored


def check_file(path: Path) -> None:
    """Refuse a member of a folder that is a link, which may lead anywhere, or no file: a pipe would be waited for."""
    if path.is_symlink():
        raise DataError(f"{path.name}: is a link, and none is followed; put the file itself there")
    if path.exists() and not path.is_file():
        raise DataError(f"{path.name}: is not a file")


def _amount(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def free_memory() -> int:
    """Bytes that can be taken without swapping: what the system has, or what a container's limit leaves."""
    return min(_system_memory(), _container_memory())


def _system_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _MEMORY_LIMIT_FALLBACK


def _container_memory() -> int:
    """What a control group (both versions) leaves to this process; file pages count as free."""
    for limit, usage, cache in _CONTROL_GROUPS:
        try:
            allowed = int(limit.read_text())
            used = int(usage.read_text())
            pages = next(line.split()[1] for line in cache.read_text().splitlines() if "inactive_file" in line)
            return max(0, allowed - max(0, used - int(pages)))
        except (OSError, ValueError, StopIteration):
            continue
    return _MEMORY_LIMIT_FALLBACK
