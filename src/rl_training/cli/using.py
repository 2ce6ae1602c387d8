"""The commands that use a trained policy."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import typer

from rl_training.errors import ConfigError, DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy


def evaluate(
    run: Path,
    episodes: int,
    which: str,
    env_id: str | None,
    seed: int | None,
    *,
    stochastic: bool,
    as_json: bool,
) -> None:
    """`rl-training evaluate`."""
    policy = _load(run, which)
    deterministic = False if stochastic else None
    evaluation = policy.evaluate(episodes, env_id=env_id, seed=seed, deterministic=deterministic)
    if as_json:
        typer.echo(json.dumps({**evaluation.to_json(), "returns": evaluation.returns.tolist()}))
        return
    typer.echo(f"{run} ({which} checkpoint, update {evaluation.step:,}), {episodes} episodes per seed")
    for member_seed, returns in zip(evaluation.seeds, evaluation.returns, strict=True):
        spread = f"{returns.mean():10.1f} ± {returns.std():.1f}   min {returns.min():.1f}   max {returns.max():.1f}"
        typer.echo(f"  seed {member_seed:<6} return {spread}")
    if len(evaluation.seeds) > 1:
        means = evaluation.returns.mean(1)
        typer.echo(f"  all seeds   return {means.mean():10.1f} ± {means.std():.1f} (over seeds)")


def predict(run: Path, texts: list[str], file: Path | None, which: str, seed: int | None, *, stochastic: bool) -> None:
    """`rl-training predict`."""
    if bool(texts) == (file is not None):
        raise ConfigError("predict: give observations with --obs 0.1,0.2,… or with --obs-file, one of the two")
    observations: Any = [_numbers(text) for text in texts] if file is None else _read_observations(file)
    actions = _load(run, which).predict(
        np.atleast_2d(_rectangular(observations)), deterministic=not stochastic, seed=seed
    )
    for action in actions.tolist():
        typer.echo(json.dumps(action))


def _load(run: Path, which: str) -> LoadedPolicy:
    return load_policy(run, int(which) if which.isdigit() else which)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.strip("[] ").replace(",", " ").split()]
    except ValueError:
        raise DataError(f"--obs {text}: must be numbers separated by commas") from None


def _rectangular(rows: Any) -> Any:
    try:
        return np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError("obs: every observation must have the same number of values") from None


def _read_observations(path: Path) -> Any:
    """Observations by row from a file, recognised by its suffix."""
    try:
        if path.suffix == ".json":
            return json.loads(path.read_text("utf-8"))
        if path.suffix == ".csv":
            return _read_csv(path.read_text("utf-8"))
        if path.suffix in (".npy", ".npz"):
            loaded = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else loaded["obs"]
    except OSError as error:
        raise DataError(f"--obs-file {path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, EOFError) as error:
        raise DataError(f"--obs-file {path}: holds no observations ({error})") from None
    raise DataError(f"--obs-file {path}: must end in .npy, .npz, .csv or .json")


def _read_csv(text: str) -> list[list[float]]:
    """Rows of numbers; a first row that is not numbers is a header."""
    rows = [row for row in csv.reader(text.splitlines()) if row]
    try:
        [float(cell) for cell in rows[0]]
    except (ValueError, IndexError):
        rows = rows[1:]
    return [[float(cell) for cell in row] for row in rows]
