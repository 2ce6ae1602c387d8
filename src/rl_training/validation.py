"""Validated parts of a configuration, and one-line explanations of what they refused."""

from __future__ import annotations

import re
import reprlib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from rl_training.errors import ConfigError, closest, did_you_mean
from rl_training.option_words import needs_quotes
from rl_training.paths import OF_DATA

_LARGEST_FLOAT = 3.4e38  # just below the largest of float32


class Section(BaseModel):
    """A part of a configuration: immutable, no unknown keys, no infinities, and `yes` is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_not_one(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if isinstance(value, bool) and name in cls.model_fields and cls.model_fields[name].annotation is not bool:
                annotation = cls.model_fields[name].annotation
                way = "; yes, no, on, off, true and false stand in quotes where they are text"
                way = way if str in _parts(annotation) else _words_of(annotation)
                raise ValueError(f"{name}: must not be {str(value).lower()}{way}")
        return values

    @model_validator(mode="after")
    def _no_number_without_end(self) -> Self:
        """Whole numbers fit into 64 bits, others into float32: larger ones cannot be computed with."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            for number in value if isinstance(value, tuple | list) else (value,):
                if isinstance(number, int) and abs(number) >= 2**63:
                    raise ValueError(f"{name}: must be below 2^63, got {shown(number)}")
                if isinstance(number, float) and abs(number) > _LARGEST_FLOAT:
                    raise ValueError(f"{name}: must be at most 3.4e+38 in size (float32), got {shown(number)}")
        return self


def is_count(value: Any, least: int = 0) -> bool:
    """Whether this is a whole number that a file can have counted up to; larger ones cannot be computed with."""
    return type(value) is int and least <= value < 2**63


def require_flag(name: str, value: Any) -> bool:
    """A caller's True or False, of numpy too; a text such as `'no'`, which Python takes for true, is refused."""
    of_numpy = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    if not (isinstance(value, bool) or of_numpy or (isinstance(value, int) and value in (0, 1))):
        raise ConfigError(f"{name}: must be True or False, got {shown(value)}")
    return bool(value)


_SHOWN = 60  # characters of a value that a message shows
_MOST_OTHERS = 12  # wrong options that a message names besides the one that it explains
_LONGEST_COUNT = 10**15
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, _SHOWN, _SHOWN


def shown(value: Any) -> str:
    """A value as a message shows it. Only its beginning is ever written out: aliases make a few lines of YAML huge."""
    try:
        text = _SHORT.repr(value)
    except ValueError:  # Python refuses to write out an integer of thousands of digits
        text = f"a very large {type(value).__name__}"
    return shortened(text)


_PLAIN = (str, bytes, int, float, PurePath, list, tuple, Mapping, type(None))


def kind_of(value: Any) -> str:
    """A value in place of another, in one line: itself where it is plain, else what it is an object of."""
    if isinstance(value, _PLAIN):
        return " ".join(shown(value).split())
    return f"an object of type {type(value).__name__}"


def shortened(text: str, longest: int = _SHOWN) -> str:
    """The beginning of a long text."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(name: str) -> str:
    """A name for a message: short, with nothing in it that a terminal would obey, and in quotes where it reads as an
    option."""
    return escaped(name) if not needs_quotes(name) else shown(name)


def escaped(text: str) -> str:
    """A text that is no name, for a place of its own in a message: short, with nothing that a terminal would obey."""
    return shortened(text) if text.isprintable() else shown(text)


@dataclass(frozen=True)
class _Place:
    """Where a fault lies: the keys as the user wrote them, the options that exist there, the field if it is one."""

    path: list[str]
    options: list[str]
    field: FieldInfo | None
    elsewhere: str | None = None  # the place of an option of that name further in


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "", *, every_option: bool = False) -> str:
    """The first fault in one line: the key, what was given, what is allowed, the nearest valid name. every_option: name
    them all where none is like a misspelt one."""
    faults = error.errors(include_url=False)
    places = [_follow(model, fault["loc"], is_unknown=fault["type"] == "extra_forbidden") for fault in faults]
    # A misspelt key explains most else. Of complaints about one key, a union's deepest branch came nearest.
    misspelt = [i for i, fault in enumerate(faults) if fault["type"] == "extra_forbidden"]
    chosen = (
        misspelt[0]
        if misspelt
        else max(
            (i for i, p in enumerate(places) if p.path[:1] == places[0].path[:1]), key=lambda i: len(places[i].path)
        )
    )
    lines = [_line(faults[chosen], places[chosen], prefix, every_option)]
    if faults[chosen]["type"] == "value_error":  # what a user is told to do in several places: all of it at once
        also = [i for i, fault in enumerate(faults) if fault["type"] == "value_error" and i != chosen]
        lines += [_line(faults[i], places[i], prefix) for i in also if places[i].path[:1] == places[chosen].path[:1]]
    line = "; ".join(dict.fromkeys(lines))
    told = places[chosen].path[:1]
    others = {tuple(p.path[:1]): i for i, p in reversed(list(enumerate(places))) if p.path[:1] != told}
    if len(others) == 1:
        (other,) = others.values()
        return f"{line}; and {_line(faults[other], places[other], prefix)}"
    every = sorted(f"{prefix}{'.'.join(places[i].path)}" for i in others.values())
    named = ", ".join([*every[:_MOST_OTHERS], *(["…"] if len(every) > _MOST_OTHERS else [])])
    return f"{line} (and {len(others)} more: {named})" if others else line


def _line(fault: Mapping[str, Any], place: _Place, prefix: str, every_option: bool = False) -> str:
    where = f"{prefix}{'.'.join(place.path)}: " if place.path else prefix
    if fault["type"] != "extra_forbidden":
        return where + _complaint(fault, place)
    listed = f"; choose from {', '.join(sorted(place.options))}" if every_option and place.options else ""
    elsewhere = f"; did you mean {place.elsewhere}?" if place.elsewhere else ""
    return f"{where}no such option{did_you_mean(place.path[-1], place.options) or elsewhere or listed}"


_PHRASES = {
    "should": "must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid string": "text",
}


def _complaint(fault: Mapping[str, Any], place: _Place) -> str:
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is required"
        case "union_tag_invalid":
            tag, names = str(context["tag"]), re.findall(r"\w+", str(context["expected_tags"]))
            way = _as_a_file(tag) if "file" in names else ""
            return f"no {context['discriminator']} {shown(tag)}{way or '; choose from ' + context['expected_tags']}"
        case "union_tag_not_found":
            return f"needs {context['discriminator']}, as in source: file"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal" if place.field and _allowed(
            place.field
        ):
            none = _what_none_does(place.field) if fault["input"] == 0 else ""
            return f"must be {_allowed(place.field)}, got {shown(fault['input'])}{none}"
        case "string_pattern_mismatch" if place.field:
            return f"must be {place.field.description}, got {shown(fault['input'])}"
        case "int_parsing" | "int_type" | "int_from_float":
            return f"must be a whole number, got {shown(fault['input'])}{_otherwise(fault['input'], place.field)}"
        case "float_parsing" | "float_type":
            way = with_a_point(fault["input"]) or _of_round_brackets(fault["input"], place.field)
            return f"must be a number, got {shown(fault['input'])}{way}"
        case "bool_parsing" | "bool_type":
            return f"must be true or false, got {shown(fault['input'])}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return _no_section(fault["input"], place)
        case "tuple_type" | "list_type":
            return f"must be a list, got {shown(fault['input'])}{_as_a_list(fault['input'])}"
        case "string_type" if fault["loc"][-1:] == ("[key]",):
            return f"must be the name of an option, got {shown(fault['input'])}; decimals are written with a point"
        case "path_type" | "string_type" if isinstance(fault["input"], int | float | date):
            return f"must be text, got {fault['input']}; put it in quotes"
        case "path_type":
            how = ", but is empty" if fault["input"] is None else f", got {shown(fault['input'])}"
            return f"must be the path of a file or folder{how}"
        case "literal_error" if isinstance(fault["input"], str):
            close = closest(fault["input"], re.findall(r"'([^']*)'", context["expected"]))
            meant = "" if close is None else f"; did you mean {close!r}?"
            return f"must be {context['expected']}, got {shown(fault['input'])}{meant}"
        case "string_too_short":
            return f"must not be empty, got {shown(fault['input'])}"
        case "too_short":
            return f"must have at least {context['min_length']} value(s), got {shown(fault['input'])}"
    message = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    for theirs, ours in _PHRASES.items():
        message = message.replace(theirs, ours)
    if not place.path or fault["type"] == "value_error":
        return message
    return f"{message}, got {shown(fault['input'])}"


def _no_section(given: Any, place: _Place) -> str:
    """Of what stands where options do; most often they were commented out, and the name of their section was not."""
    if given is None:
        return "is empty; leave it out, or indent its options below it"
    options = ", ".join(f"{name}: …" for name in place.options[:3]) or "NAME: …"
    return f"must be options by name, such as {{{options}}}, got {shown(given)}"


def _as_a_list(given: Any) -> str:
    """`; write [256, 256]`, of `256, 256`; nothing of what is no number."""
    parts = re.findall(r"[^\s,;()\[\]]+", given) if isinstance(given, str) and len(given) <= _SHOWN else [given]
    are_numbers = parts and all(re.fullmatch(r"-?\d+(\.\d+)?", str(part)) for part in parts)
    return f"; write [{', '.join(map(str, parts))}]" if are_numbers else ""


def _as_a_file(tag: str) -> str:
    """What to write where the kind of a file, or a file itself, is given as the source of data."""
    _, dot, ending = tag.rpartition(".")
    is_file = f".{ending.lower()}" in OF_DATA
    path = (tag if dot else f"FILE.{ending.lower()}") if is_file else ""
    return f"; a file is source: file, with path: {shortened(path)}" if path else ""


def _of_round_brackets(given: Any, field: FieldInfo | None) -> str:
    """`; write [0, 10]`, of `(0, 10)` where a list may stand: Python's brackets are text in YAML."""
    may_be = field is not None and any(typing.get_origin(part) in (list, tuple) for part in _parts(field.annotation))
    is_meant = isinstance(given, str) and given.startswith("(") and given.endswith(")")
    return _as_a_list(given) if may_be and is_meant else ""


_FACTORS = {"k": 1_000, "K": 1_000, "m": 1_000_000, "M": 1_000_000}


def _otherwise(given: Any, field: FieldInfo | None) -> str:
    """How a whole number, or several where a field takes them, should have been written."""
    parts = () if field is None else typing.get_args(field.annotation)
    several = isinstance(given, str) and re.fullmatch(r"\d{1,20}([ ,] ?\d{1,20}){1,99}", given.strip())
    if several and any(typing.get_origin(part) in (list, tuple) for part in parts):
        return f"; several are a list, [{', '.join(re.findall(r'[0-9]+', given))}]"
    return in_digits(given)


def in_digits(given: Any) -> str:
    """`; write 4000`, of `4,000`, `4k` or `4e3`; nothing of anything else."""
    text = given.strip() if isinstance(given, str) else ""
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3}){1,4}", text) else text
    factor = _FACTORS.get(plain[-1:], 1)
    try:
        number = float(plain if factor == 1 else plain[:-1]) * factor
        return f"; write {number:.0f}" if number.is_integer() and abs(number) < _LONGEST_COUNT else ""
    except (ValueError, OverflowError):
        return ""


def with_a_point(given: Any) -> str:
    """`; write 0.25 with a point`, of `0,25`; nothing of anything else."""
    is_meant = isinstance(given, str) and re.fullmatch(r"[-+]?\d{1,20},\d{1,20}", given.strip())
    return f"; write {given.strip().replace(',', '.')}, with a point" if is_meant else ""


def _follow(model: type[BaseModel], location: tuple[int | str, ...], *, is_unknown: bool) -> _Place:
    """Walk a location through the models, without the names of union branches that pydantic puts between and behind.
    is_unknown: its last part is a key that nobody knows."""
    path: list[str] = []
    models, free_key, field = [model], False, None
    for i, part in enumerate(location):
        fields = [m.model_fields[str(part)] for m in models if str(part) in m.model_fields]
        unknown_option = is_unknown and i == len(location) - 1 and bool(models)
        if fields or free_key or unknown_option or isinstance(part, int):
            path.append(shortened(str(part)))
            field = fields[0] if fields else None
        if fields:
            models = [inner for found in fields for inner in _models(found.annotation)]
            free_key = any(typing.get_origin(found.annotation) is dict for found in fields)
        else:
            free_key = False
    elsewhere = _further_in(models, path[-1]) if is_unknown and path else None
    return _Place(path, sorted({name for m in models for name in m.model_fields}), field, elsewhere)


def _further_in(models: Iterable[type[BaseModel]], name: str) -> str | None:
    """`evaluation.deterministic` of `deterministic`, where only one section has it."""
    found = {
        f"{section}.{name}"
        for model in models
        for section, field in model.model_fields.items()
        if any(name in inner.model_fields for inner in _models(field.annotation))
    }
    return found.pop() if len(found) == 1 else None


def _what_none_does(field: FieldInfo) -> str:
    """`; null evaluates at the end`, where a field may be none and says what comes of it."""
    may_be = type(None) in typing.get_args(field.annotation)
    does = (field.description or "").partition("; none ")[2] if may_be else ""
    return f"; null {does}" if does else ""


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The model classes an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models(part)]


def _bound(value: float) -> str:
    """`2^31` where all digits say less."""
    power = int(value).bit_length() - 1
    return f"2^{power}" if power >= 20 and value == 2**power else f"{value:g}"


def _parts(annotation: Any) -> tuple[Any, ...]:
    """An annotation, or the branches of a union."""
    return typing.get_args(annotation) or (annotation,)


def _words_of(annotation: Any) -> str:
    """`; choose from keep, d4rl`, where a field takes but a few words."""
    branches = [part for part in (annotation, *_parts(annotation)) if typing.get_origin(part) is typing.Literal]
    return f"; choose from {', '.join(map(str, typing.get_args(branches[0])))}" if branches else ""


def _allowed(field: FieldInfo) -> str:
    """A field's range in words: `at least 0 and below 1`; empty where it has none of its own."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    # Those of `Count | None` are its branch's: `Annotated[int, Field(ge=1)]`.
    branches = [part for part in typing.get_args(field.annotation) if hasattr(part, "__metadata__")]
    inner = [found for found in branches[0].__metadata__ if isinstance(found, FieldInfo)] if len(branches) == 1 else []
    constraints = [*(constraint for found in inner for constraint in found.metadata), *field.metadata]
    bounds = [
        f"{word} {_bound(getattr(constraint, key))}"
        for constraint in constraints
        for key, word in words.items()
        if getattr(constraint, key, None) is not None
    ]
    return " and ".join(bounds)
