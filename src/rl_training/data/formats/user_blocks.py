"""What programs may put before the beginning of an HDF5 file, as its format allows: a user block."""

from __future__ import annotations

from pathlib import Path

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SMALLEST = 512  # bytes; each is twice as long as the one before
_OF_MATLAB = b"MATLAB "  # whose arrays stand the other way round


def hdf5_begins(path: Path) -> int | None:
    """Where in a file the HDF5 file begins; none where there is none, or one of MATLAB."""
    with path.open("rb") as file:
        start = file.read(max(len(SIGNATURE), len(_OF_MATLAB)))
        if start.startswith(SIGNATURE):
            return 0
        if start.startswith(_OF_MATLAB):
            return None
        place = _SMALLEST
        while file.seek(place) == place and (there := file.read(len(SIGNATURE))):
            if there == SIGNATURE:
                return place
            place *= 2
    return None
