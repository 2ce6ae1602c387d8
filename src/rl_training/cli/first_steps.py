"""`rl-training help`, `doctor` and `init`: their options. What they do is in modules that import more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rl_training.cli import completion
from rl_training.cli.telling import tell
from rl_training.run_places import RUNS_DIR

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
RunsDir = Annotated[str, typer.Option(help="Folder of run directories.")]


def help_(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]", help="Of which command.")] = None,
) -> None:
    """Show the help of a command, as its --help does."""
    place: Any = context.find_root()
    for word in command or []:
        if not hasattr(place.command, "commands"):
            break
        name, found, _ = place.command.resolve_command(place, [word])
        place = place.__class__(found, info_name=name, parent=place)
    tell(place.get_help())


def doctor(
    runs_dir: RunsDir = RUNS_DIR,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes seconds: compiling, opening.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, torch, GPU, compiler, environments, extras and disk; say what to do. Exit code 1: a problem."""
    from rl_training.cli.machine_check import doctor

    raise typer.Exit(doctor(runs_dir, quick=quick, as_json=as_json))


def init(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="A file or folder of logged transitions, or minari:ID.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The configuration to write.")] = Path("config.yaml"),
    algo: Annotated[
        str | None, typer.Option(help="Algorithm, in place of the one recommended.", autocompletion=completion.algos)
    ] = None,
    env_id: Annotated[str | None, typer.Option(help="Environment to evaluate in, if there is one.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration if it exists.")] = False,
) -> None:
    """Look at a file, guess what its columns hold, and write a commented configuration to train with."""
    from rl_training.data.formats.places import MINARI_PREFIX, require_file

    if not source.startswith(MINARI_PREFIX):
        require_file(source)
    from rl_training.cli import starting

    starting.init(source, output, algo, env_id, force=force)
