"""How large a Parquet file unpacks, from its footer. Read here, as pyarrow ends the process on some damaged footers.

The footer is a Thrift structure in the compact protocol: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_training.data.formats.limits import LONGEST_TEXT
from rl_training.errors import DataError

_BOOLEAN, _INT32, _FLOAT, _TEXT, _FIXED = 0, 1, 4, 6, 7  # Parquet's physical types
_ITEM_SIZES = {_BOOLEAN: 1, _INT32: 4, _FLOAT: 4, _TEXT: 64, _FIXED: 32}  # bytes in memory; of every other type 8
_TRUE, _FALSE = 1, 2  # of the protocol's types
_DEEPEST = 32  # structures, or columns, inside each other; Parquet needs a handful
_LARGEST = 2**26  # bytes of a footer
_ASIDE = 2**20  # bytes of pages that are no values: their heads and statistics


@dataclass
class Footer:
    """What a file declares: bytes by column, as a path with points, unpacked and as they are stored, the columns whose
    values are text, and how many groups of rows there are. file_size: what it really has. uneven: columns, and what
    they lie in, of which a single row may hold nearly all bytes: lists of more than one length, long texts."""

    file_size: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    uneven: set[str] = field(default_factory=set)
    groups: int = 0
    rows: int = 0

    def size_of(self, columns: Collection[str]) -> int:
        """Bytes that the columns take; pyarrow reads `obs.x` with `obs`, be it inside it or beside it."""
        return _sum_of(self.sizes, columns)

    def stored_of(self, columns: Collection[str]) -> int:
        """Bytes that the columns are packed in, which may be declared to be more than there are."""
        return min(self.file_size, _sum_of(self.stored, columns))


def read_footer(path: Path, first: int | None = None) -> Footer:
    """The footer of a file, which need not be sound. first: of the groups with the first so many rows alone.

    A column takes what its pages do, or so many values, whichever is larger: repeated values are packed into next to
    nothing, so the pages alone do not tell.
    """
    contents, file_size = _footer(path)
    about_file = _Thrift(contents).struct()
    _check_depth(_list(about_file.get(2)))
    footer = Footer(file_size)
    widths: dict[str, int] = {}
    for group in map(_fields, _list(about_file.get(4))):
        if first is not None and footer.rows >= first:
            break
        rows = _number(group.get(3))
        footer.groups, footer.rows = footer.groups + 1, footer.rows + rows
        for column in map(_fields, _list(group.get(1))):
            about = _fields(column.get(3))
            parts = [part.decode("utf-8", "replace") for part in _list(about.get(3)) if isinstance(part, bytes)]
            kind, count, pages = _number(about.get(1)), max(_number(about.get(5)), rows), _number(about.get(6))
            size = max(pages, count * _ITEM_SIZES.get(kind, 8))
            name = ".".join(parts)
            width, rest = divmod(count, max(1, rows))
            is_long = kind == _TEXT and pages > _ASIDE + LONGEST_TEXT * rows
            if rest or widths.setdefault(name, width) != width or is_long:
                footer.uneven |= {".".join(parts[: depth + 1]) for depth in range(len(parts))}
            footer.sizes[name] = footer.sizes.get(name, 0) + size
            footer.stored[name] = footer.stored.get(name, 0) + _number(about.get(7))
            if kind == _TEXT:
                footer.texts.add(name)
    return footer


def _sum_of(sizes: Mapping[str, int], columns: Collection[str]) -> int:
    wanted = tuple(f"{name}." for name in columns)
    return sum(size for path, size in sizes.items() if f"{path}.".startswith(wanted))


def _check_depth(elements: list[Any]) -> None:
    """Refuse columns too deep inside each other; the schema lists every element before its children."""
    open_: list[int] = []  # children still to come, of each element around
    for element in map(_fields, elements):
        while open_ and not open_[-1]:
            open_.pop()
        if open_:
            open_[-1] -= 1
        open_.append(_number(element.get(5)))
        if len(open_) > _DEEPEST:
            raise _damaged()


def _footer(path: Path) -> tuple[bytes, int]:
    """Its bytes, and how many the whole file has."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length + 12 > size:
            raise DataError("not a readable Parquet file (it does not end as one; perhaps it is incomplete)")
        if length > _LARGEST:
            raise DataError(f"its footer has {length:,} bytes; at most {_LARGEST:,} are read")
        file.seek(size - 8 - length)
        return file.read(length), size


def _fields(value: Any) -> dict[int, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0


class _Thrift:
    """Values of the compact protocol: structures as mappings by field number, nothing interpreted."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place, self.depth = data, 0, 0

    def struct(self) -> dict[int, Any]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _damaged()
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._integer()
            if number in found:  # readers differ in which of the two counts
                raise _damaged()
            found[number] = self._value(kind)
        self.depth -= 1
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == _TRUE
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                return self._list()
            case 12:
                return self.struct()
        raise _damaged()  # Parquet's footer has no maps

    def _list(self) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        count = self._varint() if count == 15 else count
        if count > len(self.data) - self.place:  # every item takes a byte at least
            raise _damaged()
        if kind in (_TRUE, _FALSE):
            return [self._byte() == _TRUE for _ in range(count)]
        return [self._value(kind) for _ in range(count)]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        found = self.data[self.place : self.place + count]
        if len(found) < count:
            raise _damaged()
        self.place += count
        return found

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _damaged()

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _damaged() -> DataError:
    return DataError("not a readable Parquet file (its footer is damaged)")
