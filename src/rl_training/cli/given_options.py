"""Options that are given twice, or beside others that leave them without effect: nothing given is passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from rl_training.cli.telling import tell
from rl_training.errors import ConfigError

if TYPE_CHECKING:
    from rl_training.experiment.manager import LoadedPolicy


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


def require_draws(policies: Sequence[tuple[object, LoadedPolicy]]) -> None:
    """Refuse `--stochastic` where no policy draws its actions; of some, it is told. policies: with what they are called
    by."""
    fixed = [(name, policy) for name, policy in policies if not policy.draws]
    if fixed and len(fixed) == len(policies):
        algorithm = type(fixed[0][1].actor.learner).__name__
        which = f"this {algorithm} policy is" if len(fixed) == 1 else "all these policies are"
        raise ConfigError(f"--stochastic: {which} deterministic; leave the option out")
    for name, _ in fixed:
        tell(f"note: {name} is deterministic: --stochastic changes nothing of it", err=True)


def refuse(options: Mapping[str, object], why: str) -> None:
    """None of these may be given."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{name}: {why}")
