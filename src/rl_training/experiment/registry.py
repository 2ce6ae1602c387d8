"""Every algorithm and what belongs to it. Nothing is registered by hand: a file in `algorithms/` is enough."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rl_training import algorithms
from rl_training.experiment.assets import packaged_configs

if TYPE_CHECKING:
    from rl_training.algorithms.base import Learner
    from rl_training.runtime.trainer import Trainer


@dataclass(frozen=True)
class Entry:
    """One algorithm. Its classes are imported when asked for; its name, summary and configurations need no torch."""

    name: str
    summary: str
    configs: tuple[str, ...]

    @property
    def learner(self) -> type[Learner]:
        return algorithms.load(self.name)

    @property
    def trainer(self) -> type[Trainer]:
        from rl_training.runtime.trainer import trainer_for

        return trainer_for(self.name)


def entries() -> list[Entry]:
    """All algorithms, by name."""
    configs = packaged_configs()
    return [
        Entry(name, summary, tuple(c for c in configs if c.startswith(f"{name}/")))
        for name, summary in algorithms.find().items()
    ]


def entry(name: str) -> Entry:
    """The algorithm of this name; an unknown one is a `ConfigError` that suggests the nearest."""
    algorithms.require(name)
    return next(e for e in entries() if e.name == name)


@cache
def class_names() -> dict[str, str]:
    """Class -> algorithm (`TD3BC` -> `td3_bc`), read off each file's alias `TD3BCAlgorithm = TD3BC`, without torch."""
    found = {}
    for algo in algorithms.find():
        file = Path(algorithms.__file__).with_name(f"{algo}.py")
        for statement in ast.parse(file.read_text("utf-8")).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)) if alias == f"{name}Algorithm":
                    found[name] = algo
    return found
