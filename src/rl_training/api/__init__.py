"""What people import: the managed classes, one per algorithm (`from rl_training import CQL`)."""

from __future__ import annotations

from rl_training.api.managed import ManagedAlgorithm, managed_class


def __getattr__(name: str) -> type[ManagedAlgorithm]:
    found = managed_class(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


__all__ = ["ManagedAlgorithm", "managed_class"]
