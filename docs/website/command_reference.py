"""The page of every command and option, read off the command line itself."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any

import typer

from rl_training.cli.examples import EXAMPLES
from rl_training.cli.main import app
from website.reference import cell


def commands_page() -> str:
    """Every command, in the order of `--help`."""
    lines = [
        "# Commands",
        "",
        "`rl-training` alone shows the way from a file to a policy; `rl-training COMMAND --help` is this page in a",
        "terminal. A mistake on the command line, in a file or in a configuration is one line and exit code 2; a run",
        "of which every seed diverged ends with 3. A run is given by its directory or its name in `runs/`.",
    ]
    for name, command in all_commands():
        lines += ["", f"## `rl-training {name}`", "", *describe(name, command)]
    return "\n".join(lines) + "\n"


def all_commands() -> Iterator[tuple[str, Any]]:
    """`train`, `data check`, … and what each is."""
    yield from _below(typer.main.get_command(app), "")


def _below(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _below(command, f"{prefix}{name} ")
        elif not command.hidden:
            yield prefix + name, command


def describe(name: str, command: Any) -> Iterator[str]:
    """What a command does, its arguments and options, and examples."""
    yield inspect.cleandoc(command.help or "")
    parameters = [one for one in command.params if not getattr(one, "hidden", False) and "--help" not in one.opts]
    if parameters:
        yield from ("", "| argument | default | meaning |", "|---|---|---|")
        choices = choices_of(command.callback)
        yield from (row(one, choices.get(one.name, ())) for one in parameters)
    examples = EXAMPLES.get(name, {})
    yield from block("bash", {line: what for line, what in examples.items() if not why_not(line)})
    for line, what in examples.items():
        if why_not(line):
            yield from block(f"bash not run: {why_not(line)}", {line: what})


def why_not(line: str) -> str:
    """Why the tests do not run an example; empty where they do."""
    if line.startswith("rl-training push") and "--dry-run" not in line:
        return "needs the network"
    return "needs the extra video" if "--video" in line else ""


def block(info: str, examples: dict[str, str]) -> Iterator[str]:
    """Lines to type, and what each does beside it."""
    if examples:
        width = max(map(len, examples))
        yield from ("", f"```{info}")
        yield from (f"{line:<{width}}  # {what}" for line, what in examples.items())
        yield "```"


def choices_of(callback: Any) -> dict[str, tuple[Any, ...]]:
    """By argument, the words it is limited to, read off the annotations: parsed types differ by typer's version."""
    found = {}
    for name, hint in typing.get_type_hints(inspect.unwrap(callback)).items():
        for kind in (hint, *typing.get_args(hint)):
            if typing.get_origin(kind) is typing.Literal:
                found[name] = typing.get_args(kind)
    return found


def row(one: Any, choices: tuple[Any, ...]) -> str:
    """One argument or option. Only arguments are shown in capitals, as the help does."""
    is_argument = one.param_type_name == "argument"
    name = one.metavar or one.name.upper()
    names = f"`{name}`" if is_argument else ", ".join(f"`{o}`" for o in (*one.opts, *one.secondary_opts))
    told = getattr(one, "show_default", None)  # where what is not given is filled in later
    default = "required" if one.required else shown(told if isinstance(told, str) else one.default)
    repeats = " May be repeated." if getattr(one, "multiple", False) and "repeat" not in (one.help or "") else ""
    among = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    return f"| {names} | {default} | {cell((one.help or '') + repeats + among)} |"


def shown(default: Any) -> str:
    if default is None or default is False or default == () or callable(default):
        return ""
    if isinstance(default, list | tuple):
        return ", ".join(f"`{value}`" for value in default)
    return f"`{default}`"
