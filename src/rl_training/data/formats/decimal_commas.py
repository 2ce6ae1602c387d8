"""Cells of tables whose decimals have commas."""

from __future__ import annotations

from collections.abc import Sequence

from rl_training.data.formats.cells import BadCellsError
from rl_training.data.formats.signs import amount_of
from rl_training.data.formats.words import as_number


def marks_with_points(words: Sequence[str]) -> tuple[str, ...]:
    """Words for nothing, with what they are where decimals have commas: `-99,9`, and -99.9."""
    pointed = [word.replace(",", ".", 1) for word in words]
    return tuple(dict.fromkeys([*words, *(word for word in pointed if as_number(word) is not None)]))


def with_points(
    name: str, cells: Sequence[str | None], first_row: int = 0, *, among_words: bool = False
) -> list[str | None]:
    """Cells whose decimals have commas, with points in their place. A number that has a point already is refused: it
    may be thousands, `1.234`. among_words: only numbers change, as words may have commas."""
    pointed = {first_row + row: cell for row, cell in enumerate(cells) if cell and "." in cell}
    if bad := {
        row: cell
        for row, cell in pointed.items()
        if as_number(cell) is not None or (amount_of(cell) and not among_words)
    }:
        raise BadCellsError(name, bad)
    given = [cell and cell.replace(",", ".", 1) for cell in cells]
    if not among_words:
        return given
    return [point if point and as_number(point) is not None else cell for cell, point in zip(cells, given, strict=True)]
