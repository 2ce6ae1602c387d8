"""What the first lines of a CSV file are: names of columns, units, or values already."""

from __future__ import annotations

import csv

from rl_training.data.formats.cells import is_missing_word
from rl_training.data.formats.words import float_of
from rl_training.errors import DataError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_FEWEST = 3  # columns: a title has two parts by chance
_LONGEST_UNIT = 20  # characters
_LONGEST_NUMBER = 100  # characters


def split(text: str, separator: str) -> list[str]:
    """The cells of a line."""
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:  # not with this separator: a value would be longer than the reader allows
        return []


def is_open(line: str, separator: str) -> bool:
    """Whether a quote goes on in the next line, as around a name with a line break in it."""
    try:
        next(csv.reader([line], delimiter=separator, strict=True), None)
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def are_names(first: list[str], second: list[str] | None) -> bool:
    """Whether the first line names the columns: it has no numbers, or some where the second line has none, or they
    count the columns, as pandas writes them."""
    numbers = [cell for cell in first if cell and is_value(cell)]
    if not numbers:
        return True
    if all(cell.isdecimal() for cell in numbers) and len(numbers) > 1 and len(numbers[0]) == 1:
        start = int(numbers[0])
        if start < 2 and numbers == [str(start + place) for place in range(len(numbers))]:
            return start == 0 if len(numbers) == len(first) else len(numbers) > 2
    if second is None or len(second) != len(first):
        return len(numbers) < sum(map(bool, first))
    return any(is_value(cell.strip()) and name and not is_value(name) for name, cell in zip(first, second, strict=True))


def are_units(lines: list[str], separator: str, width: int) -> bool:
    """Whether the first of two lines has short words where the second has numbers, as `s, °C, %` above values.

    What has no unit may be empty, if two columns have one. A row with words for values that could not be measured has
    a date or a number somewhere, which no line of units has."""
    if len(lines) < 2:
        return False
    words, values = ([cell.strip() for cell in split(line, separator)] for line in lines)
    places = [place for place, cell in enumerate(values) if is_value(cell)]
    if not len(words) == len(values) == width or len(places) < 2:
        return False
    if any(is_value(word) for word in words if word):
        return False
    pairs = list(zip(words, values, strict=True))
    if any(_has_digit(word) and _has_digit(value) for word, value in pairs if not is_value(value)):
        return False
    above = [words[place] for place in places]
    units = [word for word in above if _is_unit(word)]
    filled = [word for word in above if word]
    return len(units) > 0 and max(map(len, filled)) <= _LONGEST_UNIT and (len(units) > 1 or len(filled) == len(above))


def are_units_alone(below: list[str], separator: str, width: int) -> bool:
    """Whether a line of units is all that is below the header: short words without a digit, a few of them empty."""
    given = [line for line in below if line.strip()]
    if len(given) != 1 or given[0] is not below[0]:
        return False
    words = [cell.strip() for cell in split(given[0], separator)]
    told = [word for word in words if word]
    return len(words) == width > 1 and bool(told) and all(_is_unit(word) and not _has_digit(word) for word in told)


def refuse_names_apart(first: list[str], separator: str, width: int) -> None:
    """Refuse a header that another separator splits into as many names as the rows below have cells."""
    if width < _FEWEST:
        return
    for number, (line, below) in enumerate(zip(first, [*first[1:], ""], strict=True), start=1):
        for other, called in SEPARATORS.items():
            names = [cell.strip() for cell in split(line, other)]
            fits = len(names) == width and all(names) and not any(map(is_value, names))
            if other != separator and fits and width not in (len(split(line, separator)), len(split(below, other))):
                apart = f"separates names by {called}, and cells below are separated by {SEPARATORS[separator]}"
                raise DataError(f"line {number} {apart}; write both alike")


def _is_unit(word: str) -> bool:
    return len(word) <= _LONGEST_UNIT and not is_missing_word(word)


def _has_digit(text: str) -> bool:
    return any(map(str.isdecimal, text))


def is_value(text: str) -> bool:
    """Whether a cell is a number or a flag, and so no name."""
    if text.lower() in ("true", "false"):
        return True
    for plain in (text, text.replace(",", ".", 1)):
        try:
            float_of(plain[:_LONGEST_NUMBER])
        except ValueError:
            continue
        return True
    return False
