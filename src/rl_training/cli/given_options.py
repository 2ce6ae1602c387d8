"""Options that are given twice, or beside others that leave them without effect: nothing given is passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

from rl_training.errors import ConfigError


class GivenOnce(TyperCommand):
    """A command whose options of one value are given once; click would take the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What typer's does, once nothing is given twice; not where the shell asks how a line may go on."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(args=list(args))
            for option, times in Counter(one for one in given if _is_of_one_value(one)).items():
                if times > 1:
                    name = max(option.opts, key=len)
                    ctx.fail(f"{name}: is given {'twice' if times == 2 else f'{times} times'}, and takes one value")
        return super().parse_args(ctx, args)


def _is_of_one_value(given: Any) -> bool:
    """Not of flags, which say the same again, nor of arguments."""
    return given.param_type_name == "option" and not (given.multiple or given.is_flag or given.count)


def refuse(options: Mapping[str, object], why: str) -> None:
    """None of these may be given."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{name}: {why}")
