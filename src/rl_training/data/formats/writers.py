"""Datasets as files, in the formats other programs read: complete under their name or not there at all."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.fields import BORDERS_LOST
from rl_training.data.formats import npz, recognise
from rl_training.data.formats.atomic import alone_in, new_parents, put, set_aside, sync, sync_all, workplace
from rl_training.data.formats.nearby import REPLACED, strange_in
from rl_training.data.formats.places import MINARI_PREFIX, expand, place_of
from rl_training.data.formats.raw import NAMES
from rl_training.data.formats.renames import take_free_name
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.written import beside, write_about
from rl_training.data.provenance import KEY, Provenance
from rl_training.errors import DataError
from rl_training.paths import resolved
from rl_training.postponing import stopping_later
from rl_training.wording import taken

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

_D4RL_NAMES = {
    "obs": "observations",
    "next_obs": "next_observations",
    "terminations": "terminals",
    "truncations": "timeouts",
}
_ROWS_AT_A_TIME = 10_000
_MOST_IN_HDF5 = 32_768  # characters of names; an attribute has no place for more than twice as many
_ABOUT = "about"  # where a file is written, what will stand beside it


Format: TypeAlias = Literal["npz", "hdf5", "parquet", "csv", "minari", "columns"]


@dataclass(frozen=True)
class Target:
    """Where a dataset goes, and as what."""

    path: Path
    format: Format
    dataset_id: str | None = None  # of Minari
    provenance: str = ""  # of what is written, as JSON

    @property
    def is_folder(self) -> bool:
        """Whether the format is a folder of files."""
        return self.format in ("columns", "minari")

    @property
    def name(self) -> str:
        """How a user names it, in a configuration, too."""
        return str(self.path) if self.dataset_id is None else f"{MINARI_PREFIX}{self.dataset_id}"


_SUFFIXES: dict[str, Format] = {".npz": "npz", ".hdf5": "hdf5", ".h5": "hdf5", ".parquet": "parquet", ".csv": "csv"}


def target_of(text: str, file_format: Format | None = None) -> Target:
    """The target a user names: by its suffix, `minari:ID`, or a folder's name that ends in a slash; `file_format`
    overrules what the name says, as far as it fits."""
    if text.startswith(MINARI_PREFIX) or file_format == "minari":
        if file_format not in (None, "minari"):
            raise DataError(f"{text}: names a Minari dataset, which cannot be written as {file_format}")
        dataset_id = text.removeprefix(MINARI_PREFIX)
        return Target(place_of(f"{MINARI_PREFIX}{dataset_id}"), "minari", dataset_id)
    path = expand(Path(text))
    if text.endswith("/") and file_format not in (None, "columns"):
        raise DataError(f"{text}: ends in / as a folder does, and {file_format} is a file")
    chosen = file_format or ("columns" if text.endswith("/") else _SUFFIXES.get(path.suffix.lower()))
    if text and not path.name:
        raise DataError(f"{text}: is a folder; give the name of a file in it, or of a new folder")
    if chosen is None:
        known = [ending for ending, kind in _SUFFIXES.items() if kind != "parquet" or find_spec("pyarrow")]
        raise DataError(f"{text}: must end in {', '.join(known)} or in / (a folder of columns), or be minari:ID")
    return Target(path, chosen)


def write(
    dataset: TransitionDataset,
    target: Target,
    *,
    env_id: str | None = None,
    force: bool = False,
    provenance: Provenance | None = None,
) -> tuple[str, ...]:
    """Write the dataset and return what its reader should know. What is there already stays, unless `force`.

    env_id: the environment to name, if not the dataset's own; provenance: where the data come from, likewise."""
    named = dataset if env_id is None else replace(dataset, env_id=env_id)
    (notes,) = write_together([(named, target, provenance)], force=force)
    return notes


def write_together(
    parts: Sequence[tuple[TransitionDataset, Target, Provenance | None]], *, force: bool = False
) -> list[tuple[str, ...]]:
    """Write all of them or none. Where they replace others, no new one ever stands beside an old one."""
    for dataset, target, _ in parts:
        _require_writable(dataset, target, force=force)
    notes: list[tuple[str, ...]] = []
    with ExitStack() as places:
        written: list[tuple[Target, Path]] = []
        for dataset, target, provenance in parts:
            places.enter_context(_faults_told(target, force=force))
            places.enter_context(new_parents(target.path))
            written.append((target, places.enter_context(workplace(target.path))))
            notes.append(_write(dataset, *written[-1], provenance))
        for target, _ in written:
            check_free(target, force=force)  # what has come since may be no dataset
        with alone_in({target.path.parent for target, _ in written}), stopping_later():
            _put_in_place(written, force=force)
    for _, target, _ in parts:
        if target.format == "minari":
            _name_spaces(target, force=force)
    return notes


def _write(
    dataset: TransitionDataset, target: Target, temporary: Path, provenance: Provenance | None
) -> tuple[str, ...]:
    """Write it under another name, with what belongs to it, and return what its reader should know."""
    told = (provenance or dataset.provenance or Provenance()).text()
    notes = _WRITERS[target.format](dataset, replace(target, path=temporary, provenance=told))
    if target.format == "csv":
        about = temporary.with_name(_ABOUT)
        notes = (*notes, *write_about(about, temporary, target.path, told, _told_of_table(dataset)))
    sync_all(temporary)
    return notes


def _put_in_place(written: Sequence[tuple[Target, Path]], *, force: bool) -> None:
    """Rename everything, or nothing: where one renaming fails, those before it are taken back."""
    together = len(written) > 1
    moves: list[tuple[Target, Path, Path]] = []
    if together:  # at first all the old ones go
        moves += [
            (target, target.path, temporary.with_name(REPLACED))
            for target, temporary in written
            if force and os.path.lexists(target.path)
        ]
    for target, temporary in written:
        about, place = temporary.with_name(_ABOUT), beside(target.path)
        if about.exists():
            moves += [(target, place, temporary.with_name(f"{_ABOUT}-{REPLACED}"))] if os.path.lexists(place) else []
            moves += [(target, about, place)]
    if together:
        moves += [(target, temporary, target.path) for target, temporary in written]
    done: list[tuple[Path, Path]] = []
    try:
        for target, source, goal in moves:
            with _faults_told(target, force=force):
                (set_aside if source in (target.path, beside(target.path)) else take_free_name)(source, goal)
            done.append((source, goal))
        if not together:
            ((target, temporary),) = written
            put(temporary, target.path, replace=force)
    except BaseException:
        for source, goal in reversed(done):
            if os.path.lexists(goal) and not os.path.lexists(source):
                goal.replace(source)
        raise
    for parent in {target.path.parent for target, _ in written if together}:  # `put` has seen to its own
        with suppress(OSError):
            sync(parent)


def _name_spaces(target: Target, *, force: bool) -> None:
    from rl_training.data.formats.minari_writer import name_spaces

    with _faults_told(target, force=force):
        name_spaces(target.path, target.dataset_id or "")


def _require_writable(dataset: TransitionDataset, target: Target, *, force: bool) -> None:
    dataset.refuse_mixture()
    check_free(target, force=force)
    if not dataset.whole_episodes and target.format not in ("npz", "columns"):
        raise DataError(
            f"{target.path}: the rows were sampled or reordered; only .npz and a folder of columns can say so"
        )


@contextmanager
def _faults_told(target: Target, *, force: bool) -> Iterator[None]:
    path = target.path
    try:
        yield
    except FileExistsError:  # it has come in the last moment
        raise DataError(taken(path, "it has just come there, try again") if force else taken(path)) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyarrow", "minari"):
            raise
        extra = {"pyarrow": "parquet", "minari": "minari"}[package]
        raise DataError(f"writing this format needs {package}: pip install 'rl-training[{extra}]'") from None


def check_free(target: Target, *, force: bool, source: str | None = None) -> None:
    """Refuse a target that is there already, or that cannot be replaced by what is to be written.

    source: what is read, as its user names it; nothing is written over it, into it or around it.
    """
    path = target.path
    try:
        if source is not None:
            _require_apart(path, source)
        if not path.exists() and not path.is_symlink():
            return
    except OSError as error:  # no file can have such a name
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    if not force:
        raise DataError(taken(path))
    if path.is_dir() != target.is_folder:
        raise DataError(f"{path}: is {'a folder' if path.is_dir() else 'a file'} and will not be replaced")
    if path.is_dir() and not _is_dataset(path, target.format):
        raise DataError(f"{path}: is a folder, but no dataset, and will not be replaced")
    if path.is_dir() and (strange := strange_in(path)):
        raise DataError(f"{path}: holds {strange}, which is no part of a dataset; move it away, or choose another name")


def _require_apart(target: Path, source: str) -> None:
    given = place_of(source)
    try:
        same = target.exists() and target.samefile(given)
        place, own = resolved(target), resolved(given)
    except OSError:  # no such source, or links in a circle: said when it is opened
        return
    if same or place == own:
        raise DataError(f"{target}: is the source itself; choose another name")
    if own in place.parents:
        raise DataError(f"{target}: lies inside the source {source}; choose a place outside")
    if place in own.parents and target.is_dir():
        raise DataError(f"{target}: holds the source {source} and will not be replaced")


def _is_dataset(folder: Path, expected: str) -> bool:
    try:
        return recognise(folder) == expected
    except DataError:
        return False


def _npz(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    arrays = dataset.to_dict()
    if not dataset.whole_episodes:
        arrays[BORDERS_LOST] = np.array(True)
    kept, notes = _named(dataset, npz.MOST_TOLD)
    about = _told(dataset) | kept | {KEY: target.provenance}
    npz.write(target.path, arrays | {f"{npz.TOLD}{name}": np.array(value) for name, value in about.items()})
    return notes


def _told(dataset: TransitionDataset) -> dict[str, Any]:
    """What is known of the environment beside the transitions: `env_id`, `action_low`, …"""
    named = {} if dataset.env_id is None else {"env_id": dataset.env_id}
    return {**named, **({} if dataset.bounds is None else dataset.bounds.told() | dataset.bounds.marks())}


def _named(dataset: TransitionDataset, most: int) -> tuple[dict[str, str], tuple[str, ...]]:
    """Names of columns, and their words, as JSON texts that a file of arrays has a place for, and a note if it has
    none. most: characters of one of them."""
    known = _told_of_table(dataset)
    texts = {name: json.dumps(known[name]) for name in (NAMES, WORDS) if name in known}
    kept = {name: text for name, text in texts.items() if len(text) <= most}
    return kept, () if kept == texts else ("names of columns are too many, or too long, to be kept in it",)


def _columns(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    from rl_training.data.formats import columns

    columns.fill(target.path, [dataset], target.provenance)
    return ()


def _hdf5(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    """D4RL's layout and names; what it has no name for keeps ours."""
    import h5py

    image = io.BytesIO()  # first in memory, compressed: on a full disk HDF5 ends the process instead of raising
    with h5py.File(image, "w") as file:
        for name, values in dataset.to_dict().items():
            file.create_dataset(_D4RL_NAMES.get(name, name), data=values, compression="gzip", shuffle=True)
        file.attrs.update(_told(dataset))
        kept, notes = _named(dataset, _MOST_IN_HDF5)
        for name, text in (kept | {KEY: target.provenance}).items():
            file.attrs[name] = np.bytes_(text)  # of a fixed length, which is read without a risk
    target.path.write_bytes(image.getbuffer())
    return notes


def _parquet(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    """One column per field; matrices are columns of lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(values: npt.NDArray[Any]) -> Any:
        if values.ndim == 1:
            return pa.array(values)
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])

    table = pa.table({name: column(values) for name, values in dataset.to_dict().items()})
    told = {name: v if isinstance(v, str) else json.dumps(v) for name, v in _told_of_table(dataset).items()}
    table = table.replace_schema_metadata(told | {KEY: target.provenance})
    pq.write_table(table, target.path, compression="zstd")
    return ()


def _told_of_table(dataset: TransitionDataset) -> dict[str, Any]:
    """What is known beside the rows of a table, as JSON values: environment, bounds, names and words."""
    bounds = None if dataset.bounds is None else dataset.bounds.to_json()
    names = _own_names(dataset)
    known = {"env_id": dataset.env_id, "bounds": bounds, NAMES: names, WORDS: _own_words(dataset, names)}
    return {name: value for name, value in known.items() if value}


def _own_names(dataset: TransitionDataset) -> dict[str, list[str]]:
    """What the table that was read calls each value of a field, where every one had a column of its own."""
    columns = {} if dataset.in_file is None else dataset.in_file.columns
    widths = {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    own = {field: [name for name, width in columns.get(field, ()) if width == 1] for field in widths}
    return {field: names for field, names in own.items() if len(names) == widths[field]}


def _own_words(dataset: TransitionDataset, names: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """The numbers that words of the table stood for, of the columns that go by these names."""
    words = {} if dataset.in_file is None else dataset.in_file.words
    return {name: dict(words[name]) for own in names.values() for name in own if name in words}


def _csv(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    """One column per number: `obs_0`, `obs_1`, …; nine digits give every float32 back exactly."""
    arrays = dataset.to_dict()
    header = [name for field, values in arrays.items() for name in _column_names(field, values)]
    line = ",".join(part for values in arrays.values() for part in _formats(values))
    with target.path.open("x", encoding="utf-8", newline="") as file:
        file.write(",".join(header) + "\n")
        for first in range(0, len(dataset), _ROWS_AT_A_TIME):
            block = [values[first : first + _ROWS_AT_A_TIME] for values in arrays.values()]
            table = np.column_stack([values.astype(np.float64) for values in block])
            lines = [line % tuple(row) for row in table.tolist()]
            for row in np.flatnonzero(((table == 0) & np.signbit(table)).any(axis=1)).tolist():
                lines[row] = ",".join("-0.0" if cell == "-0" else cell for cell in lines[row].split(","))  # no integer
            file.writelines(text + "\n" for text in lines)
    return ()


def _column_names(field: str, values: npt.NDArray[Any]) -> list[str]:
    return [field] if values.ndim == 1 else [f"{field}_{i}" for i in range(values.shape[1])]


def _formats(values: npt.NDArray[Any]) -> list[str]:
    return ["%.9g" if values.dtype.kind == "f" else "%d"] * (1 if values.ndim == 1 else values.shape[1])


def _minari(dataset: TransitionDataset, target: Target) -> tuple[str, ...]:
    from rl_training.data.formats import minari_writer

    return minari_writer.fill(target.path, dataset, target.dataset_id or "", target.provenance)


# Each writes a new file or folder under the path it is given, which is the target's only in the end.
_WRITERS: dict[Format, Callable[[TransitionDataset, Target], tuple[str, ...]]] = {
    "npz": _npz,
    "columns": _columns,
    "hdf5": _hdf5,
    "parquet": _parquet,
    "csv": _csv,
    "minari": _minari,
}
