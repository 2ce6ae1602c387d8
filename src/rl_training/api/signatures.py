"""What `help(CQL)` shows of a managed class: every setting, from the schema of the algorithm and of a run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import Any

from rl_training import algorithms
from rl_training.parameters import Parameter, parameters_of
from rl_training.runtime.config import TrainConfig

_WIDTH = 100
_ELSEWHERE = ("algo", "algo_kwargs")  # the class itself, and the algorithm's settings by their own names


def settings(algo: str) -> tuple[list[Parameter], list[Parameter]]:
    """The settings of the algorithm and those of a run, by keyword."""
    of_run = [parameter for parameter in parameters_of(TrainConfig) if parameter.name not in _ELSEWHERE]
    taken = {parameter.name for parameter in of_run}
    return [p for p in parameters_of(algorithms.load(algo).Params) if p.name not in taken], of_run


def full_signature(algo: str, constructor: Callable[..., Any]) -> Signature:
    """The constructor's own arguments, and in place of `**settings` each of them."""
    own = [
        argument
        for argument in signature(constructor).parameters.values()
        if argument.name != "self" and argument.kind is not Argument.VAR_KEYWORD
    ]
    known = {argument.name for argument in own}
    of_algorithm, of_run = settings(algo)
    rest = [
        Argument(one.name, Argument.KEYWORD_ONLY, default=one.default)
        for one in (*of_algorithm, *of_run)
        if one.name not in known
    ]
    return Signature([*own, *rest])


def describe(algo: str, name: str) -> str:
    """The docstring of a managed class."""
    of_algorithm, of_run = settings(algo)
    cited = algorithms.paper(algo)
    lines = [algorithms.find()[algo], *(["", cited] if cited else []), ""]
    lines += [f'>>> model = {name}(env_id="Pendulum-v1", dataset="log.npz", total_timesteps=20_000)']
    lines += [">>> model.learn()", ">>> action, _ = model.predict(obs)", ""]
    lines += ["Settings of the algorithm, by keyword:", "", *_listed(of_algorithm)]
    lines += ["", "Settings of a run, by keyword:", "", *_listed(of_run)]
    return "\n".join(lines)


def _listed(parameters: list[Parameter]) -> list[str]:
    lines: list[str] = []
    for one in parameters:
        text = f"{one.name} = {one.default_text}: {one.description} ({one.allowed})"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    return lines
