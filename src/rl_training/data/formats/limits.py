"""What every reader holds a file to before it allocates memory for it."""

from __future__ import annotations

from pathlib import Path

from rl_training.errors import DataError

_MEMORY_LIMIT_FALLBACK = 64 * 2**30  # bytes, where the system does not say how much memory is free


def check_size(size: int) -> None:
    """Refuse what would not fit into the memory that is free."""
    limit = _free_memory()
    if size > limit:
        raise DataError(f"needs {size / 2**30:.1f} GiB unpacked, but only {limit / 2**30:.1f} GiB of memory is free")


def _free_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _MEMORY_LIMIT_FALLBACK
