"""The algorithms, one file each. A new file here is a new algorithm everywhere: nothing lists them by hand.

`find` and `load` are the catalogue; learner classes, their `…Algorithm` aliases and `<algo>_loss` helpers can be
imported from here by name (`from rl_training.algorithms import CQL, cql_loss`). Importing this package loads no torch.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Mapping
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
        last = re.split(r"[./]", name)[-1] if isinstance(name, str) else name  # of `d3rlpy.algos.IQL`
        hint = other_family(name) or other_family(last) or did_you_mean(str(last), find())
        raise ConfigError(f"algo: no algorithm {shown(name)}{hint}")


# Algorithms of other families -> what here serves the same purpose, and why those are not here.
_FAMILIES = {
    "ppo a2c a3c trpo reinforce acktr vpg impala": ("learns from new episodes alone", ("iql", "sac")),
    "dqn ddqn rainbow c51 qrdqn iqn bcq_discrete discrete_cql qlearning sarsa": (
        "chooses among a few actions",
        ("iql", "cql"),
    ),
    "dt decision_transformer td_mpc tdmpc dreamer dreamerv2 dreamerv3 muzero mbpo mopo morel combo": (
        "learns a model or sequences",
        ("iql", "rebrac"),
    ),
    "ddpg d4pg": ("has successors that are steadier", ("td3", "td3_bc")),
    "bcq bear plas edac sac_n sacn xql dql idql": ("keeps to the data in another way", ("iql", "rebrac")),
    "gail airl dagger": ("imitates", ("bc",)),
    "redq droq redq_sac tqc": ("learns from an environment", ("sac", "rlpd")),
}


def other_family(name: Any, classes: Mapping[str, str] | None = None) -> str | None:
    """What to say of an algorithm that is known, but not here. classes: what to call those here, if not by name."""
    called = classes or {known: known for known in find()}
    plain = str(name).lower().replace("-", "_").replace("+", "_")
    for names, (trait, nearest) in _FAMILIES.items():
        if plain in names.split():
            listed = ", ".join(called.values())
            said = f"that one {trait}; those here are for continuous control, most of them offline: {listed}"
            return f"; {said}; nearest in purpose: {' or '.join(called[known] for known in nearest)}"
    return None


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
