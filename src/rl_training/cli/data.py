"""`rl-training data …`: look at datasets, check them, convert them, split them, record them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rl_training.cli.data_collect import collect
from rl_training.cli.examples import epilog
from rl_training.cli.reading_options import Reading, reads_data
from rl_training.cli.telling import tell
from rl_training.cli.whole_lines import whole_line
from rl_training.errors import ConfigError

data_app = typer.Typer(
    help="Look at, check, convert, split and record datasets.", epilog=epilog("data"), rich_markup_mode=None
)

EnvId = Annotated[str | None, typer.Option(help="The environment the data come from, if the file does not say so.")]
Dataset = Annotated[Path | None, typer.Argument(help="A dataset in any format that can be trained on, or minari:ID.")]
OfConfig = Annotated[
    str | None,
    typer.Option("--config", "-c", help="A configuration instead: its data, read as its dataset: section says."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def _named(
    path: Path | None,
    config: str | None,
    env_id: str | None,
    reading: Reading,
    verb: Literal["check", "convert", "split"] = "check",
) -> tuple[Path, str | None, Reading]:
    """The data that were named, by themselves or by a configuration, and how they are read; what is converted may be
    other data, read as a configuration says of its own."""
    if config is None and path is not None:
        return path, env_id, reading
    if config is None or (path is not None and verb != "convert"):
        wrong = "Missing argument 'path'" if path is None else f"--config {config}: not beside {path}"
        line = whole_line(f"data {verb}") if path is None else ""
        raise ConfigError(f"{wrong}; give a dataset, or -c CONFIG for the data it names{line}")
    from rl_training.cli.data_of_config import data_of_config

    own, env_id, said = data_of_config(config, env_id, reading, verb)
    return path or own, env_id, said


@data_app.callback(invoke_without_command=True)
def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        tell(context.get_help())


@data_app.command()
@reads_data
def check(
    path: Dataset = None,
    env_id: EnvId = None,
    config: OfConfig = None,
    *,
    reading: Reading,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page to this file.")] = None,
) -> None:
    """Examine a dataset: facts, and what is wrong, where. Exit code 0 if nothing is, 1 on errors, 2 if unreadable."""
    from rl_training.cli import data_check

    path, env_id, reading = _named(path, config, env_id, reading)
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
    source: Annotated[
        str, typer.Argument(help="A file or folder, recognised by its content, or minari:ID; left out with --config.")
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            help="A name ending in .npz, .hdf5, .csv or (with pyarrow) .parquet, minari:ID, or a folder's with a /."
        ),
    ] = None,
    env_id: EnvId = None,
    config: OfConfig = None,
    *,
    reading: Reading,
    force: Annotated[bool, typer.Option("--force", help="Replace the target if it exists.")] = False,
) -> None:
    """Read a dataset, check it, say what it is, and write it in another format."""
    from rl_training.cli import data_convert

    if target is None and config is None:
        line = whole_line("data convert", [source])
        raise ConfigError(f"Missing argument 'target'; give a source and a target, or -c CONFIG and a target{line}")
    given = source if target is not None else None
    path, env_id, reading = _named(None if given is None else Path(given), config, env_id, reading, "convert")
    data_convert.convert(given or str(path), target or source, env_id, reading, force=force, config=config)


@data_app.command()
@reads_data
def split(
    path: Dataset = None,
    env_id: EnvId = None,
    config: OfConfig = None,
    held_out: Annotated[float, typer.Option(help="Share of the episodes that are set aside, between 0 and 1.")] = 0.25,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice: the same seed sets the same episodes aside.")] = 0,
    *,
    output: Annotated[
        tuple[str, str],
        typer.Option(
            "--output", "-o", metavar="TRAIN HELD_OUT", help="The two to write, in any format that convert writes."
        ),
    ],
    reading: Reading,
    force: Annotated[bool, typer.Option("--force", help="Replace what exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set whole episodes aside, drawn at random: one dataset to train on, one to judge the policy by."""
    from rl_training.cli import data_split

    path, env_id, reading = _named(path, config, env_id, reading, "split")
    chosen = data_split.Choice(held_out, seed)
    data_split.split(str(path), output, env_id, reading, chosen, config=config, force=force, as_json=as_json)


data_app.command()(collect)
