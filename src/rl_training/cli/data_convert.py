"""`rl-training data convert`: a dataset from one format to another, with a word on what was found."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from rl_training.cli.data_check import read_source
from rl_training.cli.reading_options import Reading, in_options
from rl_training.data.formats import writers
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.runtime.console import readable
from rl_training.wording import amount


def convert(source: str, target: str, reading: Reading, *, force: bool) -> None:
    """Read, check and write."""
    goal = writers.target_of(target)
    writers.check_free(goal, force=force)
    raw = read_source(source, reading)
    try:
        dataset = TransitionDataset.from_raw(raw, **reading.of_flags())
    except DataError as error:
        command = f"rl-training data check {shlex.quote(source)}{reading.again()}"
        raise DataError(f"{source}: {in_options(str(error))} (all that is wrong: {command})") from error
    typer.echo(f"{source}: {dataset.origin}" + (f", recorded in {raw.env_id}" if raw.env_id else ""))
    for note in dataset.notes:
        typer.echo(f"  note: {note}")
    typer.echo(
        f"  {amount(len(dataset), 'row')}, {amount(dataset.n_episodes, 'episode')},"
        f" mean return {readable(float(dataset.episode_returns().mean()))};"
        f" observations {dataset.obs_dim}, actions {dataset.act_dim}"
    )
    if dataset.n_usable < len(dataset):
        typer.echo(f"  {amount(len(dataset) - dataset.n_usable, 'row')} without a recorded successor")
    for note in writers.write(dataset, goal, force=force):
        typer.echo(f"  note: {note}")
    typer.echo(f"written: {goal.path} ({_size(goal.path)})")


def _size(path: Path) -> str:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = float(sum(file.stat().st_size for file in files))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
