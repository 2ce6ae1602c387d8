"""YAML as configurations are written in it: plain values only, `3e-4` a number, no key twice.

PyYAML speaks YAML 1.1, in which `3e-4` and `1e3` without a dot are text. Reader and writer share the wider rule, so
that text which looks like such a number is written in quotes.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from rl_training.validation import shortened

_FLOAT = "tag:yaml.org,2002:float"
_EXPONENT = re.compile(r"^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$")


ODD_BLANKS = ("\xa0", "\u2007", "\u202f", "\u3000")  # as web pages have them; to YAML, letters of a name or value
NO_BLANK = "a blank that does not break, as web pages have it; type a plain one"
_LARGEST = 2**18  # characters; PyYAML reads some hundred thousand a second
_DEEPEST = 50  # sequences and mappings inside each other
_LONGEST_NUMBER = 1024  # bits
_LONGEST_PROBLEM = 200  # characters of what is wrong, in which a key or a tag may stand
_MOST_KEYS = 10_000  # of one mapping, those merged into it included
_MOST_NODES = 100_000  # keys and values, those that an alias (`*x`) repeats counted each time


class _Loader(yaml.SafeLoader):
    _depth = 0
    _nodes = 0  # so far

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[int, int] = {}  # of whole nodes, by their identity

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """Refuse nesting that only an accident or an attack has, and aliases and merges that multiply: a few lines of
        them make billions of keys."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"nested more than {_DEEPEST} deep")
        before, place, is_alias = self._nodes, self.get_mark(), self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise yaml.MarkedYAMLError(problem="a value that contains itself", problem_mark=place)
        self._nodes += self._sizes[id(node)] if is_alias else 1
        self._sizes[id(node)] = self._nodes - before
        if self._nodes > _MOST_NODES:
            what = f"more than {_MOST_NODES:,} values, with those that aliases repeat"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=place)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse more keys than anything here has."""
        super().flatten_mapping(node)
        if len(node.value) > _MOST_KEYS:
            raise yaml.MarkedYAMLError(problem=f"more than {_MOST_KEYS} keys", problem_mark=node.start_mark)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Refuse numbers that Python would not write out again."""
        _require_no_sixties(node)
        number = int(super().construct_yaml_int(node))
        _require_plain(node, number)
        if number.bit_length() > _LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(problem="a whole number without end", problem_mark=node.start_mark)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Refuse numbers that are not what they look like."""
        number = float(super().construct_yaml_float(node))
        _require_no_sixties(node)
        _require_plain(node, number)
        return number

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """Join characters that are written in two halves, as JSON does; refuse a half alone, which no file can hold."""
        node = super().compose_scalar_node(anchor)
        try:
            node.value = node.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise yaml.MarkedYAMLError(problem="half a surrogate pair", problem_mark=node.start_mark) from None
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a key given twice, of which PyYAML would keep the last."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.style is None and key.value[:1] in ODD_BLANKS:
                    raise yaml.MarkedYAMLError(problem=NO_BLANK, problem_mark=key.start_mark)
                if (key.tag, key.value) in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node


def _require_no_sixties(node: yaml.ScalarNode) -> None:
    """Refuse what YAML 1.1 reads to the base of sixty (3:20 is 200); a whole number before it is multiplied out."""
    if ":" in node.value:
        raise _ambiguous(node)


def _require_plain(node: yaml.ScalarNode, number: float) -> None:
    """Refuse what YAML 1.1 reads as octal (0310 is 200, too)."""
    digits = node.value.replace("_", "").lstrip("+-")
    if digits.isdecimal() and int(digits) != abs(number):
        raise _ambiguous(node)


def _ambiguous(node: yaml.ScalarNode) -> yaml.MarkedYAMLError:
    what = f"{node.value[:40]} may mean several numbers; write it without colons or leading zeros, text in quotes"
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    pass


class _QuotingDumper(_Dumper):
    """Text in double quotes, the one kind that has escapes."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')


_QuotingDumper.add_representer(str, _QuotingDumper.represent_str)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor(_FLOAT, _Loader.construct_yaml_float)
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(_FLOAT, _EXPONENT, list("-+.0123456789"))


def read(text: str) -> Any:
    """The value of a YAML text; a `ValueError` with one line says what is wrong with it, and where."""
    if len(text) > _LARGEST:
        raise ValueError(f"({len(text):,} characters; at most {_LARGEST:,} are read)")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"at line {error.problem_mark.line + 1} " if error.problem_mark else ""
        raise ValueError(f"{line}({shortened(str(error.problem), _LONGEST_PROBLEM)})") from None
    except yaml.reader.ReaderError as error:
        raise ValueError(f"({error.reason} at character {error.position})") from None
    except (KeyError, IndexError, AttributeError, OverflowError):  # of PyYAML itself, on `!!bool 7` or `!!int ''`
        raise ValueError("(a value is not what its tag says)") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-99-99
        raise ValueError(f"({error})") from None


def write(value: Any) -> str:
    """Text that `read` turns back into `value`."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=False)  # a stranger's: as escapes


def inline(value: Any) -> str:
    """The same in one line, such as `[x, y]`, to be put into a text: line ends, and whatever is not printable, as
    escapes in quotes. What stands after a comment sign stays there."""
    options: Any = {"sort_keys": False, "default_flow_style": True, "width": 10**9}
    text = _in_one_piece(yaml.dump(value, Dumper=_Dumper, allow_unicode=True, **options))
    if text.isprintable():
        return text
    return _in_one_piece(yaml.dump(value, Dumper=_QuotingDumper, allow_unicode=False, **options))


def proposed(key: str, value: str) -> str:
    """`{key: value}`, to be proposed for a configuration; a text that is too long for a message is `…`."""
    key, value = (text if shortened(text) == text else "…" for text in (key, value))
    return inline({key: value})


def _in_one_piece(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\n...").strip()
