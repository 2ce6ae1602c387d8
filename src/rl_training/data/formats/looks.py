"""What a first look at a file is held to: it unpacks not more in all than a bound, whatever arrays say of themselves,
and raises nothing but `DataError`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import EPISODE_ENDS, FIELD_OF
from rl_training.errors import DataError

_LARGEST_LOOK = 2**28  # bytes that are unpacked of all arrays together
_LARGEST_SAMPLE = 2**26  # bytes of one array that are looked at


BYTE_ORDER_MARKS = {  # one of UTF-32 begins as one of UTF-16
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def marked_otherwise(start: bytes) -> str | None:
    """What to do about a text whose first bytes say that it is no UTF-8, as PowerShell's `>` writes it."""
    coding = next((coding for mark, coding in BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
    return None if coding is None else f"is {coding} text; save it as UTF-8"


def not_utf8(error: UnicodeDecodeError) -> str:
    """What to do about a text in other letters: what Windows writes is by far the most usual."""
    if (told := marked_otherwise(error.object)) is not None:
        return told
    byte = error.object[error.start : error.start + 1]
    meant = byte.decode("cp1252", "replace")
    letter = f", which Windows writes for {meant!r}" if meant.isprintable() and meant != "\ufffd" else ""
    way = "save it as UTF-8, or: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
    return f"is not UTF-8 text (byte 0x{byte[0]:02x}{letter}); {way}"


@contextmanager
def damage_told() -> Iterator[None]:
    """Whatever libraries raise on a damaged file is a `DataError`."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(not_utf8(error)) from error
    except DataError:
        raise
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyarrow":
            raise
        raise DataError("reading Parquet needs pyarrow: pip install 'rl-training[parquet]'") from None
    except Exception as error:  # of numpy, h5py, zipfile, csv and pyarrow
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"cannot be read ({reason[:200]})") from error


class Extent(NamedTuple):
    """What an array says of itself. chunks: the shape of the pieces that are only unpacked whole, if there are any."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None = None

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def step(self) -> int:
        """Rows that are unpacked at once."""
        return self.chunks[0] if self.chunks else 1

    @property
    def step_bytes(self) -> int:
        if not self.chunks:
            return self.row_bytes
        beside = math.prod(-(-width // chunk) for width, chunk in zip(self.shape[1:], self.chunks[1:], strict=True))
        return math.prod(self.chunks) * beside * self.dtype.itemsize

    @property
    def nothing(self) -> npt.NDArray[Any]:
        """No rows of it."""
        return np.empty((0, *self.shape[1:]), dtype=self.dtype)


@dataclass
class Look:
    """sample: rows to read of every array. ends: all rows of those that mark ends of episodes, too."""

    sample: int
    ends: bool
    left: int = field(default_factory=lambda: _LARGEST_LOOK)  # bytes that may still be unpacked

    def rows_of(self, arrays: Mapping[str, Extent]) -> dict[str, int]:
        """How many rows to read of each array: fields come first, then the smallest. One that does not fit is not
        named."""
        rows: dict[str, int] = {}
        for name, array in sorted(arrays.items(), key=lambda item: (item[0] not in FIELD_OF, item[1].step_bytes)):
            asked = min(array.shape[0], array.shape[0] if self.ends and is_end(name) else self.sample)
            wanted = min(asked, _LARGEST_SAMPLE // max(1, array.row_bytes))
            steps = min(-(-wanted // array.step), self.left // max(1, array.step_bytes))
            self.left -= steps * array.step_bytes
            if steps or not asked:
                rows[name] = min(wanted, steps * array.step)
        return rows


def left_out(name: str, array: Extent) -> npt.NDArray[Any]:
    """What stands for an array that does not fit: of a field its kind, for its reader to refuse; else nothing."""
    return array.nothing if name in FIELD_OF else np.empty(0, dtype=object)


def is_end(name: str) -> bool:
    """Whether an array marks ends of episodes: it is small enough to be read whole."""
    return FIELD_OF.get(name) in ("terminations", "truncations", EPISODE_ENDS)
