"""`rl-training data …`: look at datasets, check them, convert them, record them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

data_app = typer.Typer(help="Look at, check, convert and record datasets.", rich_markup_mode=None)


@data_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A file or folder, recognised by its content, or minari:ID.")],
    target: Annotated[
        str, typer.Argument(help="A name ending in .npz, .hdf5, .parquet or .csv, minari:ID, or a folder's with a /.")
    ],
    columns: Annotated[
        list[str] | None, typer.Option(help="Which columns hold a field: obs=x,y,z or obs=obs_* (repeat for more).")
    ] = None,
    time_limits: Annotated[
        Literal["keep", "d4rl"], typer.Option(help="d4rl: drop rows at a time limit, successors from the next row.")
    ] = "keep",
    max_episode_steps: Annotated[
        int | None, typer.Option(min=1, help="Where no truncations are marked: rows after which episodes were cut.")
    ] = None,
    dones_are: Annotated[
        Literal["terminations", "truncations", "ends"] | None, typer.Option(help="What a plain dones flag means.")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch a Minari dataset that is not here.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the target if it exists.")] = False,
) -> None:
    """Read a dataset, check it, say what it is, and write it in another format."""
    from rl_training.cli import data_convert

    options = {"time_limits": time_limits, "max_episode_steps": max_episode_steps, "dones_are": dones_are}
    data_convert.convert(source, target, columns or [], options, download=download, force=force)
