"""`rl-training data …`: look at datasets, check them, convert them, record them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rl_training.cli.data_collect import collect
from rl_training.cli.reading_options import Reading, reads_data
from rl_training.errors import ConfigError

data_app = typer.Typer(help="Look at, check, convert and record datasets.", rich_markup_mode=None)

EnvId = Annotated[str | None, typer.Option(help="The environment the data come from, if the file does not say so.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@data_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data_app.command()
@reads_data
def check(
    path: Annotated[
        Path | None, typer.Argument(help="A dataset in any format that can be trained on, or minari:ID.")
    ] = None,
    env_id: EnvId = None,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", help="A configuration instead: its data, read as its dataset: section says."),
    ] = None,
    *,
    reading: Reading,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page to this file.")] = None,
) -> None:
    """Examine a dataset: facts, and what is wrong, where. Exit code 0 if nothing is, 1 on errors, 2 if unreadable."""
    from rl_training.cli import data_check

    if (path is None) is (config is None):
        wrong = "Missing argument 'path'" if path is None else f"--config {config}: not beside {path}"
        raise ConfigError(f"{wrong}; give a dataset, or -c CONFIG for the data it names")
    if config is not None:
        from rl_training.cli.data_of_config import data_of_config

        path, env_id, reading = data_of_config(config, env_id, reading)
    assert path is not None
    raise typer.Exit(data_check.check(path, env_id, reading, as_json=as_json, html=html, of_config=config is not None))


@data_app.command()
@reads_data
def info(
    path: Annotated[Path, typer.Argument(help="A dataset, or a run's directory for the transforms it has stored.")],
    env_id: EnvId = None,
    *,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Show what a dataset holds, and what training would scale it by."""
    from rl_training.cli import data_check

    data_check.info(path, env_id, reading, as_json=as_json)


@data_app.command()
@reads_data
def convert(
    source: Annotated[str, typer.Argument(help="A file or folder, recognised by its content, or minari:ID.")],
    target: Annotated[
        str, typer.Argument(help="A name ending in .npz, .hdf5, .parquet or .csv, minari:ID, or a folder's with a /.")
    ],
    env_id: EnvId = None,
    *,
    reading: Reading,
    force: Annotated[bool, typer.Option("--force", help="Replace the target if it exists.")] = False,
) -> None:
    """Read a dataset, check it, say what it is, and write it in another format."""
    from rl_training.cli import data_convert

    data_convert.convert(source, target, env_id, reading, force=force)


data_app.command()(collect)
