"""Datasets as files, in the formats other programs read: complete under their name or not there at all."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FaultyValueError, inferred_bounds
from rl_training.data.fields import BORDERS_LOST
from rl_training.data.formats import npz, recognise
from rl_training.data.formats.atomic import new_file, new_folder, new_parents
from rl_training.data.formats.places import MINARI_PREFIX, expand, place_of
from rl_training.data.formats.raw import NAMES, by_the_files_rows
from rl_training.data.formats.written import remove_beside, write_beside
from rl_training.data.provenance import KEY, Provenance
from rl_training.errors import DataError
from rl_training.wording import amount, taken

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

_D4RL_NAMES = {
    "obs": "observations",
    "next_obs": "next_observations",
    "terminations": "terminals",
    "truncations": "timeouts",
}
_ROWS_AT_A_TIME = 10_000


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
        raise DataError(f"{text}: must end in {', '.join(_SUFFIXES)} or in / (a folder of columns), or be minari:ID")
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
    path, told = target.path, (provenance or dataset.provenance or Provenance()).text()
    dataset.refuse_mixture()
    check_free(target, force=force)
    if not dataset.whole_episodes and target.format not in ("npz", "columns"):
        raise DataError(f"{path}: the rows were sampled or reordered; only .npz and a folder of columns can say so")
    try:
        named = dataset if env_id is None else replace(dataset, env_id=env_id)
        place = new_folder if target.is_folder else new_file
        with new_parents(path), place(path, replace=force) as temporary:
            notes = _WRITERS[target.format](named, replace(target, path=temporary, provenance=told))
            check_free(target, force=force)  # what has come since may be no dataset
        if target.format == "minari":
            _name_spaces(target)
        return (*notes, *write_beside(path, told, _told_of_table(named))) if target.format == "csv" else notes
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


def remove(target: Target) -> None:
    """What was written, with all that belongs to it."""
    if target.format == "csv":
        remove_beside(target.path)
    shutil.rmtree(target.path) if target.is_folder else target.path.unlink(missing_ok=True)


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


def _require_apart(target: Path, source: str) -> None:
    given = place_of(source)
    try:
        same = target.exists() and target.samefile(given)
        resolved, own = target.resolve(), given.resolve()
    except (OSError, RuntimeError):  # no such source, or links in a circle: said when it is opened
        return
    if same or resolved == own:
        raise DataError(f"{target}: is the source itself; choose another name")
    if own in resolved.parents:
        raise DataError(f"{target}: lies inside the source {source}; choose a place outside")
    if resolved in own.parents and target.is_dir():
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
    told = {f"{npz.TOLD}{name}": np.array(value) for name, value in (_told(dataset) | {KEY: target.provenance}).items()}
    npz.write(target.path, arrays | told)
    return ()


def _told(dataset: TransitionDataset) -> dict[str, Any]:
    """What is known of the environment beside the transitions: `env_id`, `action_low`, …"""
    named = {} if dataset.env_id is None else {"env_id": dataset.env_id}
    return {**named, **({} if dataset.bounds is None else dataset.bounds.told())}


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
        file.attrs[KEY] = np.bytes_(target.provenance)  # of a fixed length, which is read without a risk
    target.path.write_bytes(image.getbuffer())
    return ()


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
    """What is known beside the rows of a table, as JSON values: environment, bounds and names."""
    bounds = None if dataset.bounds is None else dataset.bounds.to_json()
    known = {"env_id": dataset.env_id, "bounds": bounds, NAMES: _own_names(dataset)}
    return {name: value for name, value in known.items() if value}


def _own_names(dataset: TransitionDataset) -> dict[str, list[str]]:
    """What the table that was read calls each value of a field, where every one had a column of its own."""
    columns = {} if dataset.in_file is None else dataset.in_file.columns
    widths = {"obs": dataset.obs_dim, "actions": dataset.act_dim}
    own = {field: [name for name, width in columns.get(field, ()) if width == 1] for field in widths}
    return {field: names for field, names in own.items() if len(names) == widths[field]}


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
    """By way of Minari's own storage. An episode has one observation more than rows."""
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    from rl_training.data.formats.minari import ASSUMED_BOUNDS

    usable = dataset.usable()
    notes = []
    if len(usable) < len(dataset):
        left_out = len(dataset) - len(usable)
        notes.append(f"{amount(left_out, 'row')} left out: Minari cannot hold one whose next observation is unknown")
    if lost := [name for name in ("next_actions", "returns_to_go", "part_ids") if getattr(dataset, name) is not None]:
        notes.append(f"Minari does not hold {', '.join(lost)}")
    _require_successors(usable)
    target.path.mkdir()
    spec = _registered(dataset.env_id)
    storage = MinariStorage.new(target.path / "data", env_spec=spec, **_spaces(usable))
    storage.update_metadata({**_minari_metadata(target.dataset_id or ""), KEY: json.loads(target.provenance)})
    if dataset.env_id is not None and spec is None:
        storage.update_metadata({"env_id": dataset.env_id})
    if dataset.bounds is None or dataset.bounds.action_low is None:  # a Box must have some; these are no knowledge
        storage.update_metadata({ASSUMED_BOUNDS: True})
    storage.update_episodes(EpisodeBuffer(**episode) for episode in _episodes(usable))
    return tuple(notes)


def _episodes(dataset: TransitionDataset) -> Iterator[dict[str, Any]]:
    first = 0
    for last in dataset.episode_ends.tolist():
        rows = slice(first, last + 1)
        yield {
            "observations": np.concatenate([dataset.obs[rows], dataset.next_obs[last : last + 1]]),
            **{name: getattr(dataset, name)[rows] for name in ("actions", "rewards", "terminations", "truncations")},
        }
        first = last + 1


def _require_successors(dataset: TransitionDataset) -> None:
    inside = np.ones(len(dataset), dtype=np.bool_)
    inside[dataset.episode_ends] = False
    rows = np.flatnonzero(inside)
    wrong = rows[(dataset.next_obs[rows] != dataset.obs[rows + 1]).any(axis=1)]
    if len(wrong):
        ends = dataset.terminations | dataset.truncations
        what, rule = "not the observation of the next row", "Minari can hold no other"
        with by_the_files_rows(dataset):
            raise FaultyValueError("next_obs", what, int(wrong[0]), None, ends, rule)


def _spaces(dataset: TransitionDataset) -> dict[str, Any]:
    """Boxes with the bounds that are told. Without: unbounded observations; actions in the bounds that training would
    infer, which hold them all."""
    from gymnasium.spaces import Box

    least, most = dataset.actions.min(axis=0), dataset.actions.max(axis=0)
    inferred = inferred_bounds(least, most)
    low, high = np.minimum(inferred[0], least), np.maximum(inferred[1], most)  # a Box knows no rounding
    told = {} if dataset.bounds is None else dataset.bounds.told()

    def box(kind: str, width: int, least: Any, most: Any) -> Any:
        below, above = (
            np.asarray(told.get(f"{kind}_{side}", d), np.float32) for side, d in (("low", least), ("high", most))
        )
        return Box(np.broadcast_to(below, width), np.broadcast_to(above, width), dtype=np.float32)

    return {
        "observation_space": box("obs", dataset.obs_dim, -np.inf, np.inf),
        "action_space": box("action", dataset.act_dim, low, high),
    }


def _registered(env_id: str | None) -> Any:
    """What Gymnasium knows of an environment, without building it; nothing where it is not installed, or where it was
    registered in a way that cannot be written down."""
    import gymnasium

    spec = None if env_id is None else gymnasium.registry.get(env_id)
    try:
        return spec if spec is not None and spec.to_json() else None
    except ValueError:
        return None


def _minari_metadata(dataset_id: str) -> Mapping[str, Any]:
    import minari

    return {"dataset_id": dataset_id, "minari_version": minari.__version__}


def _name_spaces(target: Target) -> None:
    """Minari lists a namespace by a file of its own in each folder above the dataset."""
    for namespace in list(target.path.parents)[: (target.dataset_id or "").count("/")]:
        marker = namespace / "namespace_metadata.json"
        if not marker.exists():
            with new_file(marker) as temporary:
                temporary.write_text("{}", "utf-8")


# Each writes a new file or folder under the path it is given, which is the target's only in the end.
_WRITERS: dict[Format, Callable[[TransitionDataset, Target], tuple[str, ...]]] = {
    "npz": _npz,
    "columns": _columns,
    "hdf5": _hdf5,
    "parquet": _parquet,
    "csv": _csv,
    "minari": _minari,
}
