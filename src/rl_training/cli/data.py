"""`rl-training data …`: look at datasets, check them, convert them, record them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rl_training.cli.data_collect import collect

data_app = typer.Typer(help="Look at, check, convert and record datasets.", rich_markup_mode=None)

Data = Annotated[Path, typer.Argument(help="A dataset in any format that can be trained on, or minari:ID.")]
EnvId = Annotated[str | None, typer.Option(help="The environment the data come from, if the file does not say so.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=NAMES", help="Which columns, or arrays, hold a field: obs=x,y or obs=obs_* (repeat for more)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@data_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command()
def check(
    path: Data,
    env_id: EnvId = None,
    columns: Columns = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page to this file.")] = None,
) -> None:
    """Examine a dataset: facts, and what is wrong, where. Exit code 0 if nothing is, 1 on errors, 2 if unreadable."""
    from rl_training.cli import data_check

    raise typer.Exit(data_check.check(path, env_id, columns or (), as_json=as_json, html=html))


@data_app.command()
def info(
    path: Annotated[Path, typer.Argument(help="A dataset, or a run's directory for the transforms it has stored.")],
    env_id: EnvId = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset holds, and what training would scale it by."""
    from rl_training.cli import data_check

    data_check.info(path, env_id, columns or (), as_json=as_json)


@data_app.command()
def convert(
    source: Annotated[str, typer.Argument(help="A file or folder, recognised by its content, or minari:ID.")],
    target: Annotated[
        str, typer.Argument(help="A name ending in .npz, .hdf5, .parquet or .csv, minari:ID, or a folder's with a /.")
    ],
    columns: Columns = None,
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


data_app.command()(collect)
