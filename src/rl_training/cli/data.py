"""`rl-training data …`: look at datasets, check them, convert them, record them."""

from __future__ import annotations

import typer

from rl_training.cli.data_collect import collect

data_app = typer.Typer(help="Look at, check, convert and record datasets.", rich_markup_mode=None)


@data_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


data_app.command()(collect)
