"""Data that a command takes beside those of a run, and reads as the run reads its own: what to say where it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rl_training.cli.data_of_config import reading_of
from rl_training.data.dataset_loaders import DatasetConfig, FileDatasetConfig
from rl_training.data.formats import recognise
from rl_training.data.formats.mapping_checks import check_columns
from rl_training.data.formats.not_data import told_apart
from rl_training.data.formats.places import expand
from rl_training.data.formats.written import provenance_in
from rl_training.data.provenance import Provenance
from rl_training.errors import ColumnsError, DataError, RLTrainingError
from rl_training.paths import in_shell
from rl_training.runtime.config import TrainConfig

_ANY = "--columns obs=… --columns actions=… (or -c CONFIG, with a configuration that says so)"


@contextmanager
def read_as_the_runs(option: str, given: str | None, own: Iterable[DatasetConfig | None] = ()) -> Iterator[None]:
    """How data are read is said elsewhere: there is no place for their columns here. given: the option's value. own:
    the data of the runs, which may have been written from such."""
    if given is not None and Path(given).suffix in (".yaml", ".yml") and (told := told_apart(Path(given))) is not None:
        split = f"rl-training data split -c {in_shell(given)} -o train.npz held_out.npz"
        raise DataError(f"{given}: {told}; `{split}` sets a part of them aside to train without and judge by")
    try:
        yield
    except DataError as error:
        about_columns = _of_columns(error)
        if given is None or about_columns is None:
            raise
        advice = about_columns.advice
        fault = str(error).partition(advice)[0] if advice else str(error)  # which is of no use here
        options = next((found for section in own if (found := _as_written(section, given)) is not None), _ANY)
        convert = f"rl-training data convert {in_shell(given)} NEW.npz {options}"
        raise DataError(
            f"{fault}; {option} is read as the run's own data are, so bring it into form: {convert}"
        ) from error


def _of_columns(error: BaseException | None) -> ColumnsError | None:
    """The error that another one, which may name its file, was raised for."""
    while error is not None and not isinstance(error, ColumnsError):
        error = error.__cause__ or error.__context__
    return error


def _as_written(section: DatasetConfig | None, given: str) -> str | None:
    """The options that a run's own file was written with, as it tells, where they fit the columns of these data."""
    if not isinstance(section, FileDatasetConfig):
        return None
    try:
        place = expand(section.path)
        told = provenance_in(place, recognise(place))
        while told is not None and "columns" not in told.options:
            told = told.before
        return None if told is None else _fitting(told, Path(given))
    except (RLTrainingError, OSError, ValueError):
        return None


def _fitting(told: Provenance, given: Path) -> str:
    values = {"source": "file", "path": str(given), **told.options}
    made = TrainConfig.parse({"algo": "bc", "total_timesteps": 1, "dataset": values}).dataset
    assert isinstance(made, FileDatasetConfig)
    check_columns(expand(given), made.columns, made.table_choices())
    return shlex.join(reading_of(made).options())
