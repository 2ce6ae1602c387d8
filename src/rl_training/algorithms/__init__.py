"""The algorithms, one file each. A new file here is a new algorithm everywhere: nothing lists them by hand.

`find` and `load` are the catalogue; learner classes, their `…Algorithm` aliases and `<algo>_loss` helpers can be
imported from here by name (`from rl_training.algorithms import CQL, cql_loss`). Importing this package loads no torch.
"""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_training.errors import ConfigError, did_you_mean
from rl_training.validation import shown

if TYPE_CHECKING:
    from rl_training.algorithms.base import Learner


_ONLINE_PARAMS = ("OnlineParams", "PriorDataParams")  # in `base.params`: what learning in an environment takes


@cache
def _modules() -> dict[str, ast.Module]:
    files = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return {file.stem: ast.parse(file.read_text("utf-8")) for file in files}


@cache
def _docstrings() -> dict[str, str]:
    return {name: ast.get_docstring(module) or "" for name, module in _modules().items()}


def is_online(name: str) -> bool:
    """Whether an algorithm learns in an environment; the others learn from data alone. Read without importing it."""
    require(name)
    classes = [node for node in _modules()[name].body if isinstance(node, ast.ClassDef)]
    return any(isinstance(base, ast.Name) and base.id in _ONLINE_PARAMS for node in classes for base in node.bases)


@cache
def find() -> dict[str, str]:
    """Every algorithm's name and the first line of its docstring, read without importing it."""
    return {name: text.partition("\n")[0] for name, text in _docstrings().items()}


def paper(name: str) -> str | None:
    """Who described an algorithm, where and when: its docstring's second paragraph, as far as the year."""
    require(name)
    paragraphs = _docstrings()[name].split("\n\n")
    cited = re.match(r".*?\b(19|20)\d\d\b", " ".join(paragraphs[1].split())) if len(paragraphs) > 1 else None
    return cited[0] if cited else None


def require(name: str) -> None:
    """Refuse a name that is no algorithm's."""
    if name not in find():
        raise ConfigError(f"algo: no algorithm {shown(name)}{did_you_mean(name, find())}")


@cache
def load(name: str) -> type[Learner]:
    """The learner class of an algorithm."""
    require(name)
    from rl_training.algorithms.base import Learner

    module = importlib.import_module(f"{__name__}.{name}")
    (learner,) = {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Learner) and value.__module__ == module.__name__
    }
    return learner


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for algorithm in find():
            learner = load(algorithm)
            if name in (learner.__name__, f"{learner.__name__}Algorithm"):
                return learner
            if name == f"{algorithm}_loss":
                return getattr(importlib.import_module(f"{__name__}.{algorithm}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
