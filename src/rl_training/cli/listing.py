"""`rl-training algos`, `configs`, `datasets` and `runs`: their options. None of the lists needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rl_training.cli import completion
from rl_training.cli.given_options import refuse
from rl_training.run_places import RUNS_DIR, Status

JsonList = Annotated[bool, typer.Option("--json", help="A JSON list on standard output.")]
Algo = Annotated[str | None, typer.Option(help="Only runs of this algorithm.", autocompletion=completion.algos)]


def algos(
    name: Annotated[
        str | None, typer.Argument(help="One algorithm, to see its parameters.", autocompletion=completion.algos)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list, or of one algorithm an object.")] = False,
) -> None:
    """List the algorithms; with a name: its parameters, presets, paper and packaged configurations."""
    from rl_training.cli import algorithm_lists

    if name is None:
        algorithm_lists.every(as_json=as_json)
    else:
        algorithm_lists.one(name, as_json=as_json)


def configs(as_json: JsonList = False) -> None:
    """List the packaged configurations, ready to train with."""
    from rl_training.cli import algorithm_lists

    algorithm_lists.configs(as_json=as_json)


def datasets(
    folder: Annotated[Path, typer.Argument(help="Where to look for data files, and one folder deeper.")] = Path(),
    as_json: JsonList = False,
) -> None:
    """List the data in a folder and the Minari datasets on this machine: format, rows, episodes."""
    from rl_training.cli import dataset_lists

    dataset_lists.datasets(folder, as_json=as_json)


def runs(
    runs_dir: Annotated[str, typer.Option(help="Folder of run directories.")] = RUNS_DIR,
    algo: Algo = None,
    status: Annotated[Status | None, typer.Option(help="Only runs that stand so.")] = None,
    sort: Annotated[
        Literal["age", "score", "best", "updates", "name"] | None,
        typer.Option(
            help="What comes first: the newest, the highest last or best return, the most updates, a name.",
            show_default="age",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show the first so many.")] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="RUN RUN",
            help="Two runs side by side: scores, and where their configurations differ.",
            autocompletion=completion.runs,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """List the runs: algorithm, data, environment, seeds, updates, status, last and best return, age."""
    from rl_training.cli import run_lists

    folder = Path(runs_dir).expanduser()
    if compare is None:
        run_lists.runs(folder, algo, status, sort or "age", limit, as_json=as_json)
    else:
        of_lists = {"--algo": algo, "--status": status, "--sort": sort, "--limit": limit}
        refuse(of_lists, "chooses among all runs, and --compare names two; leave out one of them")
        run_lists.compare(*compare, folder, as_json=as_json)
