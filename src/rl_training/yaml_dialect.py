"""YAML as configurations are written in it: plain values only, `3e-4` a number, no key twice.

PyYAML speaks YAML 1.1, in which `3e-4` and `1e3` without a dot are text. Reader and writer share the wider rule, so
that text which looks like such a number is written in quotes.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_FLOAT = "tag:yaml.org,2002:float"
_EXPONENT = re.compile(r"^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$")


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a key given twice, of which PyYAML would keep the last."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


class _Dumper(yaml.SafeDumper):
    pass


for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(_FLOAT, _EXPONENT, list("-+.0123456789"))


def read(text: str) -> Any:
    """The value of a YAML text; a `ValueError` with one line says what is wrong with it, and where."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"at line {error.problem_mark.line + 1} " if error.problem_mark else ""
        raise ValueError(f"{line}({error.problem})") from None
    except yaml.reader.ReaderError as error:
        raise ValueError(f"({error.reason} at character {error.position})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-99-99
        raise ValueError(f"({error})") from None


def write(value: Any) -> str:
    """Text that `read` turns back into `value`."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def inline(value: Any) -> str:
    """The same in one line, such as `[x, y]`, to be put into a text."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...").strip()
