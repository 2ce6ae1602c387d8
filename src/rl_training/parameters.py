"""The parameters of a model in words: name, what is allowed, default, meaning. Read off its schema, the only home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from rl_training import yaml_dialect

_NAMES = {"integer": "integer", "number": "number", "boolean": "true or false", "string": "text", "null": "none"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


@dataclass(frozen=True)
class Parameter:
    """One parameter. `default` is None where there is none, too: see `required`."""

    name: str
    allowed: str
    default: Any
    required: bool
    description: str

    @property
    def default_text(self) -> str:
        """The default as YAML has it."""
        if self.required:
            return "required"
        return _plain(self.default)


def parameters_of(model: type[BaseModel]) -> list[Parameter]:
    """Every parameter of a model, in its order."""
    schema = model.model_json_schema()
    sections = schema.get("$defs", {})
    if "$ref" in schema:  # a model that holds itself, as a mixture may hold mixtures
        schema = sections[schema["$ref"].rpartition("/")[2]]
    properties = schema.get("properties", {})
    found = []
    for name, field in model.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        about = _allowed(properties[name], sections)
        found.append(Parameter(name, about, to_jsonable_python(default), field.is_required(), field.description or ""))
    return found


def _allowed(about: Mapping[str, Any], sections: Mapping[str, Any]) -> str:
    """`number above 0 and at most 1`, `none, pre or post`, `list of integers at least 1`."""
    if "$ref" in about:
        return "section"
    if "enum" in about or "const" in about:
        return _either([str(choice) for choice in about.get("enum", [about.get("const")])])
    if "anyOf" in about or "oneOf" in about:
        kinds = [_allowed(part, sections) for part in about.get("anyOf", about.get("oneOf"))]
        return _either(list(dict.fromkeys(kinds)))
    kind = about.get("type", "anything")
    if kind == "array":
        inner: Any = about.get("items") or next(iter(about.get("prefixItems", [])), {})
        first, _, rest = _allowed(inner, sections).partition(" ")
        return f"list of {first}s {rest}".rstrip()
    if kind == "object":
        inner = about.get("additionalProperties")
        name = inner.get("$ref", "").rpartition("/")[2] if isinstance(inner, Mapping) else ""
        return f"mapping to {{{', '.join(sections[name]['properties'])}}}" if name in sections else "mapping"
    limits = {word: about[key] for key, word in _BOUNDS.items() if key in about}
    bounds = " and ".join(f"{word} {limit:g}" if limit < 1e6 else f"{word} {limit:,}" for word, limit in limits.items())
    return f"{_NAMES.get(kind, kind)} {bounds}".rstrip()


def _either(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else yaml_dialect.inline(value)
