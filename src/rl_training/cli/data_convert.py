"""`rl-training data convert`: a dataset from one format to another, with a word on what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rl_training.cli.column_option import column_mapping
from rl_training.data.dataset_loaders import locate
from rl_training.data.formats import read, writers
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import DataError
from rl_training.runtime.console import readable


def convert(
    source: str, target: str, columns: list[str], options: dict[str, Any], *, download: bool, force: bool
) -> None:
    """Read, check and write; `options` are those of `TransitionDataset.from_raw`."""
    goal = writers.target_of(target)
    writers.check_free(goal, force=force, source=source)
    mapping = column_mapping(columns)
    path = locate(source, download=download)
    try:
        raw = read(path, mapping)
        dataset = TransitionDataset.from_raw(raw, **options)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    typer.echo(f"{source}: {dataset.origin}" + (f", recorded in {raw.env_id}" if raw.env_id else ""))
    for note in dataset.notes:
        typer.echo(f"  note: {note}")
    widths = f"observations {dataset.obs_dim}, actions {dataset.act_dim}"
    typer.echo(f"  {len(dataset):,} rows, {_episodes(dataset)}; {widths}")
    if dataset.n_usable < len(dataset):
        typer.echo(f"  {len(dataset) - dataset.n_usable:,} rows have no recorded successor")
    for note in writers.write(dataset, goal, env_id=raw.env_id, force=force):
        typer.echo(f"  note: {note}")
    typer.echo(f"written: {goal.path} ({_size(goal.path)})")


def _episodes(dataset: TransitionDataset) -> str:
    if not dataset.whole_episodes:
        return "sampled or reordered"
    return f"{dataset.n_episodes:,} episodes, mean return {readable(float(dataset.episode_returns().mean()))}"


def _size(path: Path) -> str:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = float(sum(file.stat().st_size for file in files))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
