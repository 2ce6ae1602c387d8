"""The configurations shipped with the package."""

from __future__ import annotations

from pathlib import Path

ASSETS = Path(__file__).parent.parent / "assets" / "configs"


def packaged_configs() -> list[str]:
    """Names such as `cql/pendulum`."""
    return sorted(path.relative_to(ASSETS).with_suffix("").as_posix() for path in ASSETS.glob("*/*.yaml"))
