"""The page of what people import: signatures and docstrings, read off the package."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import rl_training
from rl_training.experiment.registry import class_names

# Module -> the names shown of it; a class is followed by its public methods, where it is one that people call.
NAMES: dict[str, tuple[str, ...]] = {
    "rl_training": (
        "ManagedAlgorithm",
        "TransitionDataset",
        "TrainConfig",
        "Callback",
        "load_policy",
        "RLTrainingError",
    ),
    "rl_training.experiment.manager": ("LoadedPolicy", "start", "resume", "finetune", "branch"),
    "rl_training.experiment.config": ("read_config",),
    "rl_training.runtime.evaluation": ("Evaluation",),
    "rl_training.experiment.offline_evaluation": ("OfflineEvaluation", "PolicyValue"),
    "rl_training.data": (
        "generate_pendulum_dataset",
        "generate_random_dataset",
        "collect",
        "mix_datasets",
        "discounted_returns_to_go",
    ),
    "rl_training.data.formats": ("read",),
    "rl_training.data.doctor": ("examine",),
}
CLASSES_IN_FULL = (
    "ManagedAlgorithm",
    "TransitionDataset",
    "Callback",
    "LoadedPolicy",
    "Evaluation",
    "OfflineEvaluation",
)
WIDTH = 88


def python_page() -> str:
    """Every public name."""
    lines = [
        "# Python",
        "",
        f"Version {rl_training.__version__}. Names are imported on first use, so `import rl_training` is instant. Each",
        "algorithm has a class with the methods of [ManagedAlgorithm](#managedalgorithm); its parameters are on its",
        "page, and `help(CQL)` shows them with their ranges:",
        "",
        "| class | page |",
        "|---|---|",
        *(f"| `rl_training.{name}` | [{algo}](algorithms/{algo}.md) |" for name, algo in class_names().items()),
    ]
    for module, names in NAMES.items():
        lines += ["", f"## `{module}`"]
        for name in names:
            lines += ["", f"### `{name}`", "", *entry(name, getattr(importlib.import_module(module), name))]
    return "\n".join(lines) + "\n"


def entry(name: str, thing: Any) -> Iterator[str]:
    """One function or class with its methods."""
    yield from signature_block(name, thing, "class " if inspect.isclass(thing) else "")
    yield from prose(inspect.getdoc(thing) or "")
    if name in CLASSES_IN_FULL:
        for method, value in members(thing):
            yield from ("", f"#### `{name}.{method}`", "")
            if not isinstance(value, property) and not hasattr(value, "func"):
                yield from signature_block(method, value)
            yield from prose(inspect.getdoc(value) or "")


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """What a class defines itself for its users, in the order of the source."""
    for name, value in vars(thing).items():
        wanted = isinstance(value, property | classmethod | staticmethod) or inspect.isfunction(value)
        if not name.startswith("_") and (wanted or hasattr(value, "func")) and inspect.getdoc(value):
            yield name, value.__func__ if isinstance(value, classmethod | staticmethod) else value


def signature_block(name: str, thing: Callable[..., Any], kind: str = "") -> Iterator[str]:
    """A signature as a reader writes it, one argument a line where it is long."""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    arguments, star = [], False
    for one in found.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            arguments.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        arguments.append(argument(one))
    returns = "" if found.return_annotation in (found.empty, None, "None") else f" -> {plain(found.return_annotation)}"
    line = f"{kind}{name}({', '.join(arguments)}){returns}"
    if len(line) > WIDTH:
        line = f"{kind}{name}(\n" + "".join(f"    {one},\n" for one in arguments) + f"){returns}"
    yield from ("```signature", line, "```", "")


def argument(one: inspect.Parameter) -> str:
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    annotation = "" if one.annotation is one.empty else f": {plain(one.annotation)}"
    if one.default is one.empty:
        return f"{stars}{one.name}{annotation}"
    value = repr(one.default)
    value = "…" if " object at " in value or "Factory" in value or "Undefined" in value else value
    return f"{one.name}{annotation}{' = ' if annotation else '='}{value}"


def plain(annotation: Any) -> str:
    """An annotation as the source has it, without the modules' names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text.strip("'\""))


def prose(docstring: str) -> Iterator[str]:
    """A docstring's paragraphs; what is indented or typed at a prompt is shown as it stands."""
    for paragraph in re.split(r"\n\s*\n", docstring):
        if not paragraph.strip():
            continue
        if paragraph.lstrip().startswith(">>>") or re.search(r"^ {2,}", paragraph, flags=re.MULTILINE):
            yield from ("```text", inspect.cleandoc(paragraph), "```", "")
        else:
            yield from (paragraph.replace("*", "\\*").replace("<", "\\<"), "")
