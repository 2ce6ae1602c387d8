"""`rl-training doctor` and `rl-training init`: their options. What they do is in modules that import more."""

from __future__ import annotations

from typing import Annotated

import typer

from rl_training.run_places import RUNS_DIR

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
RunsDir = Annotated[str, typer.Option(help="Folder of run directories.")]


def doctor(
    runs_dir: RunsDir = RUNS_DIR,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what takes seconds: compiling, opening.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, torch, GPU, compiler, environments, extras and disk; say what to do. Exit code 1: a problem."""
    from rl_training.cli.machine_check import doctor

    raise typer.Exit(doctor(runs_dir, quick=quick, as_json=as_json))
