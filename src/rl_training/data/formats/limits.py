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


def check_size(size: int) -> None:
    """Refuse what would not fit into the memory that is free."""
    limit = free_memory()
    if size > limit:
        raise DataError(f"needs {size / 2**30:.1f} GiB unpacked, but only {limit / 2**30:.1f} GiB of memory is free")


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
