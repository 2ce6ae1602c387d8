"""The commands that use a trained policy."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import typer

from rl_training.data.formats import npz
from rl_training.data.formats.limits import check_size
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.validation import shown


def predict(run: Path, texts: list[str], file: Path | None, which: str, seed: int | None, *, stochastic: bool) -> None:
    """`rl-training predict`."""
    if bool(texts) == (file is not None):
        raise ConfigError("predict: give observations with --obs 0.1,0.2,… or with --obs-file, one of the two")
    observations: Any = [_numbers(text) for text in texts] if file is None else _read_observations(file)
    policy = load_told(run, which)
    with warnings.catch_warnings(action="ignore"):  # what diverged has just been said
        actions = policy.predict(_rectangular(observations), deterministic=not stochastic, seed=seed)
    for action in actions:
        # float32 by way of text: 0.3, not 0.30000001192092896
        typer.echo(json.dumps([float(str(value)) for value in action]))


def load_told(run: Path, which: str) -> LoadedPolicy:
    """The policy; what diverged in its run is said beside the result."""
    policy = load_policy(run, which)
    for finding in policy.stopped_seeds.values():
        typer.echo(f"note: {finding}", err=True)
    return policy


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.strip("[] ").replace(",", " ").split()]
    except ValueError:
        raise DataError(f"--obs {text}: must be numbers separated by commas") from None


def _rectangular(rows: Any) -> Any:
    """Rows of equal length as an array."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind not in "iuf":
        raise DataError(f"obs: values must be numbers, not {rows.dtype}")
    if isinstance(rows, np.ndarray):
        check_size(8 * rows.size)
    try:
        return np.atleast_2d(np.asarray(rows, dtype=np.float64))
    except OverflowError:
        raise DataError("obs: a value is larger than any floating-point number") from None
    except (TypeError, ValueError):
        raise DataError("obs: every observation must have the same number of values") from None


_BYTES_PER_BYTE_OF_TEXT = 10  # a digit and a comma become a Python number
# What numpy and json raise on files that are damaged or forged. A RecursionError is a RuntimeError.
_DAMAGE = (ValueError, KeyError, EOFError, RuntimeError, MemoryError, OverflowError)


def _read_observations(path: Path) -> Any:
    """Observations by row from a file, recognised by its suffix."""
    try:
        if path.exists() and not path.is_file():
            raise DataError("is not a file")
        match path.suffix:
            case ".json":
                rows = json.loads(_text(path))
            case ".csv":
                return _read_csv(_text(path))
            case ".npy":
                # Mapped, not read: a forged header is then held to the size of the file, and nothing is allocated.
                return np.load(path, mmap_mode="r", allow_pickle=False)
            case ".npz":
                return npz.read_array(path, "obs")
            case _:
                raise DataError("must end in .npy, .npz, .csv or .json")
    except DataError as error:
        raise DataError(f"--obs-file {path}: {error}") from None
    except OSError as error:
        raise DataError(f"--obs-file {path}: cannot be read ({error.strerror or error})") from None
    except (*_DAMAGE, csv.Error) as error:
        raise DataError(f"--obs-file {path}: holds no observations ({error})") from None
    _require_numbers(rows)
    return rows


def _text(path: Path) -> str:
    check_size(_BYTES_PER_BYTE_OF_TEXT * path.stat().st_size)
    return path.read_text("utf-8")


def _require_numbers(value: Any) -> None:
    """JSON also holds text, null and objects, of which numpy would make numbers where it can."""
    several = isinstance(value, list) and any(isinstance(row, list) for row in value)
    for number, row in enumerate(value if several else [value]):
        for entry in row if isinstance(row, list) else [row]:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise DataError(f"obs: row {number}: values must be numbers, got {shown(entry)}")


def _read_csv(text: str) -> list[list[float]]:
    """Rows of numbers; a first row that is not numbers is a header."""
    rows = [row for row in csv.reader(text.splitlines()) if row]
    try:
        [float(cell) for cell in rows[0]]
    except (ValueError, IndexError):
        rows = rows[1:]
    return [[float(cell) for cell in row] for row in rows]
