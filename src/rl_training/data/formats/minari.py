"""Minari datasets: a folder with an HDF5 group per episode, by its path or by its id.

The files are read directly, for `minari.load_dataset` may build the environment that the metadata name; the package
itself is needed only to download.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.data.fields import FIELD_OF
from rl_training.data.formats import minari_counts
from rl_training.data.formats.hdf5 import SharedReads, array_in, check_sizes, group_in
from rl_training.data.formats.hdf5_files import DAMAGE, opened
from rl_training.data.formats.limits import check_file
from rl_training.data.formats.names import first_of
from rl_training.data.formats.raw import Columns, RawData
from rl_training.data.resolution import is_coarse
from rl_training.data.space_bounds import SpaceBounds, told_env_id
from rl_training.errors import DataError, did_you_mean
from rl_training.validation import printable, shown
from rl_training.wording import amount
from rl_training.yaml_dialect import inline

_ID = re.compile(r"(?:[-\w]+/)*[-\w]+-v\d+")
_DEEPEST_ID = 5  # folders between the root of the local datasets and a dataset
_LARGEST_METADATA = 2**24  # bytes
ASSUMED_BOUNDS = "assumed_action_bounds"  # our mark in the metadata: nobody told the writer the bounds of actions
_PER_STEP = ("rewards", "terminations", "truncations")


def local_root() -> Path:
    """Where Minari keeps its datasets: `MINARI_DATASETS_PATH`, or a folder in the home. Absolute, as Minari writes only
    there."""
    given = os.environ.get("MINARI_DATASETS_PATH")
    return Path(given).absolute() if given else Path.home() / ".minari" / "datasets"


def folder_of(dataset_id: str) -> Path:
    """Where the dataset of an id lies, if it is there."""
    if not _ID.fullmatch(dataset_id):
        raise DataError(f"minari: {shown(dataset_id)} is no id; one looks like D4RL/door/human-v2")
    return local_root() / dataset_id


def local_ids() -> list[str]:
    """The ids of the datasets on this machine."""
    root = local_root()
    found = [
        metadata.parent.parent.relative_to(root).as_posix()
        for depth in range(1, _DEEPEST_ID)
        for metadata in root.glob("/".join(["*"] * depth + ["data", "metadata.json"]))
    ]
    return sorted(found)


def find(dataset_id: str, *, download: bool = False) -> Path:
    """The folder of a dataset by its id; with `download` it is fetched where it is not there yet."""
    folder = folder_of(dataset_id)
    if (folder / "data" / "metadata.json").is_file():
        return folder
    if not download:
        where = f"{local_root()} (download: true fetches it)"
        raise DataError(f"minari: no dataset {dataset_id!r} in {where}{_local(dataset_id)}")
    try:
        import minari
    except ImportError:
        raise DataError("downloading from Minari needs minari: pip install 'rl-training[minari]'") from None
    try:
        minari.download_dataset(dataset_id)
    except Exception as error:  # whatever the network and the libraries on the way raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"minari: {dataset_id!r} could not be downloaded ({reason[:200]}){_local(dataset_id)}"
        ) from error
    return folder


def _local(dataset_id: str) -> str:
    ids = local_ids()
    hint = did_you_mean(dataset_id, ids) if "did you mean" in did_you_mean(dataset_id, ids) else ""
    return hint or (f"; here are {', '.join(ids[:12])}" if ids else "; none is here")


def read(path: Path, columns: Columns | None = None) -> RawData:
    """The transitions of every episode; `columns: {obs: [key, …]}` chooses among observations by name."""
    data = data_folder(path)
    metadata = metadata_of(path)
    storage = metadata.get("data_format", "hdf5")
    if storage != "hdf5":
        raise DataError(f"a Minari dataset stored as {shown(storage)}; only those stored as HDF5 are read")
    actions, observations = _space(metadata, "action_space"), _space(metadata, "observation_space")
    _check_actions(actions)
    keys = _observation_keys(observations, columns)
    check_file(data / "main_data.hdf5")
    try:
        with opened(data / "main_data.hdf5") as file:
            episodes = _episodes(file)
            arrays, notes = _transitions(episodes, keys)
            doubts = minari_counts.doubts_about(metadata, [name for name, _ in episodes], len(arrays["rewards"]))
    except FileNotFoundError as error:
        raise DataError(f"a Minari dataset without its {data.name}/main_data.hdf5") from error
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"not a readable Minari dataset ({reason})") from error
    name = metadata.get("dataset_id")
    described = f"Minari dataset {shown(name)[1:-1]}" if isinstance(name, str) else "Minari dataset"
    bounds = _bounds({} if metadata.get(ASSUMED_BOUNDS) is True else actions, observations, keys)
    return RawData(arrays, described, env_id=env_id_in(metadata), notes=(*doubts, *notes), bounds=bounds)


def data_folder(path: Path) -> Path:
    """Where the files of a dataset lie, by any path into it."""
    folder = path if path.is_dir() else path.parent
    if not (folder / "data" / "metadata.json").is_file():
        return folder
    if (folder / "data").is_symlink():
        raise DataError("data: is a link, and none is followed; put the folder itself there")
    return folder / "data"


def own_files(folder: Path) -> list[Path]:
    """What a dataset consists of."""
    return [data_folder(folder) / name for name in ("main_data.hdf5", "metadata.json")]


def metadata_of(path: Path) -> dict[str, Any]:
    """What a dataset says of itself, by any path into it."""
    return read_metadata(data_folder(path) / "metadata.json")


def read_metadata(path: Path) -> dict[str, Any]:
    try:
        check_file(path)
        if (size := path.stat().st_size) > _LARGEST_METADATA:
            raise DataError(f"{path.name}: has {size:,} bytes; at most {_LARGEST_METADATA:,} are read")
        metadata = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name}: not readable as JSON ({error})") from error
    if not isinstance(metadata, dict):
        raise DataError(f"{path.name}: must be a mapping")
    return metadata


def _space(metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A space as Minari writes it: JSON inside the JSON. Nothing where it is not given."""
    try:
        space = json.loads(metadata[name])
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return space if isinstance(space, dict) else {}


def env_id_in(metadata: Mapping[str, Any]) -> str | None:
    """Of Minari's own entry; of ours, where the environment was not known to Minari's writer."""
    return told_env_id(_space(metadata, "env_spec").get("id", metadata.get("env_id")))


def _check_actions(space: Mapping[str, Any]) -> None:
    kind = space.get("type", "Box")
    if kind != "Box":
        raise DataError(f"actions: {_described(space)}; only continuous actions (Box) are supported")


def _bounds(
    actions: Mapping[str, Any], observations: Mapping[str, Any], keys: Sequence[str] | None
) -> SpaceBounds | None:
    """Those of the spaces; of a Dict, those of the chosen entries side by side."""
    parts = [observations] if keys is None else [observations["subspaces"][key] for key in keys]
    sides = {
        side: [part[side] for part in parts] if all(isinstance(part.get(side), list) for part in parts) else []
        for side in ("low", "high")
    }
    told = {f"action_{side}": actions.get(side) for side in sides}
    told |= {f"obs_{side}": [number for values in found for number in values] for side, found in sides.items()}
    return SpaceBounds.read(told)


def _described(space: Any) -> str:
    """`Discrete(4)`, `Box(3)`."""
    if not isinstance(space, Mapping):
        return "unknown"
    size = space.get("shape", space.get("n"))
    shape = shown(size)[1:-1] if isinstance(size, list) else "" if size is None else shown(size)
    return f"{_plainly(space.get('type'))}({shape})"


def _plainly(value: Any) -> str:
    return value if isinstance(value, str) and value.isidentifier() and len(value) < 40 else shown(value)


def _observation_keys(space: Mapping[str, Any], columns: Columns | None) -> list[str] | None:
    """Which entries of a Dict observation to use, in order; none where observations are plain vectors."""
    wanted = _wanted(columns)
    kind = space.get("type", "Box")
    if kind != "Dict":
        if space and not _is_vector({"type": kind, "shape": space.get("shape", [0])}):
            raise DataError(f"observations: {_described(space)}; only vectors (Box of one dimension) are supported")
        if wanted is not None:
            raise DataError("columns: the observations of this dataset are plain vectors; leave columns out")
        return None
    entries = space.get("subspaces")
    entries = dict(entries) if isinstance(entries, Mapping) else {}
    if wanted is None:
        there = first_of(f"{printable(name)}: {_described(entry)}" for name, entry in entries.items())
        usable = [name for name, entry in entries.items() if _is_vector(entry)]
        raise DataError(
            f"observations are a Dict of {there if entries else 'nothing'}; choose entries with"
            f" columns: {inline({'obs': usable[:2] or ['…']})}"
        )
    for name in wanted:
        if name not in entries:
            raise DataError(f"columns.obs: the observations have no {name!r}{did_you_mean(name, entries)}")
        if not _is_vector(entries[name]):
            raise DataError(f"columns.obs: {name!r} is {_described(entries[name])}; only vectors are supported")
    return wanted


def _is_vector(space: Any) -> bool:
    shape = space.get("shape") if isinstance(space, Mapping) and space.get("type") == "Box" else None
    return isinstance(shape, list) and len(shape) == 1 and isinstance(shape[0], int)


def _wanted(columns: Columns | None) -> list[str] | None:
    if columns is None:
        return None
    if not isinstance(columns, Mapping) or [FIELD_OF.get(key) for key in columns] != ["obs"]:
        raise DataError("columns: of a Minari dataset only obs can be chosen: {obs: [observation, desired_goal]}")
    (value,) = columns.values()
    if not isinstance(value, str | Sequence) or not all(isinstance(name, str) for name in value) or not value:
        raise DataError(f"columns.obs: must be an entry's name or a list of names, got {shown(value)}")
    return [value] if isinstance(value, str) else list(value)


def _episodes(file: h5py.File) -> list[tuple[str, h5py.Group]]:
    """The groups of the file by number."""
    numbered = {
        int(name[8:]): name for name in file if isinstance(name, str) and re.fullmatch(r"episode_\d{1,12}", name)
    }
    found = []
    for number in sorted(numbered):
        name = numbered[number]
        found.append((name, group_in(file, name)))
    if not found:
        raise DataError("the Minari dataset has no episodes")
    return found


def _observations(name: str, episode: h5py.Group, keys: Sequence[str] | None) -> list[h5py.Dataset]:
    """The arrays that side by side are an episode's observations, each `[T + 1, …]`."""
    if keys is None:
        return [array_in(episode, "observations", f"{name}/observations")]
    group = group_in(episode, "observations", f"{name}/observations")
    return [array_in(group, key, f"{name}/observations/{key}") for key in keys]


def _transitions(
    episodes: Sequence[tuple[str, h5py.Group]], keys: Sequence[str] | None
) -> tuple[dict[str, npt.NDArray[Any]], tuple[str, ...]]:
    """T rows of each episode from its T + 1 observations."""
    plan = [_measured(name, episode, keys) for name, episode in episodes]
    _check_widths(plan, [name for name, _ in episodes])
    steps = [fields["rewards"][0].shape[0] for fields in plan]
    for (name, episode), length in zip(episodes, steps, strict=True):
        minari_counts.check_episode(name, episode, length)
    held = [part for fields in plan for parts in fields.values() for part in parts]
    check_sizes(held, [part for fields in plan for name in _PER_STEP[1:] for part in fields[name]])
    values = SharedReads(held)
    found: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in ("obs", "next_obs", "actions", *_PER_STEP)}
    for fields, length in zip(plan, steps, strict=True):
        if not length:
            continue
        with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused with its row
            parts = [_narrowed(values(part).reshape(length + 1, -1)) for part in fields["obs"]]
        whole = np.concatenate(parts, axis=1)
        found["obs"].append(whole[:-1])
        found["next_obs"].append(whole[1:])
        found["actions"].append(values(fields["actions"][0]))
        for name in _PER_STEP:
            found[name].append(values(fields[name][0]).reshape(length))
    if not found["obs"]:
        raise DataError("no episode of the Minari dataset has a step")
    arrays = {name: np.concatenate(values) for name, values in found.items()}
    return _closed(arrays, np.cumsum([length for length in steps if length]) - 1)


def _narrowed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In float32, to need less memory, unless that loses what changes: it is told later."""
    return values if is_coarse(values) else values.astype(np.float32)


def _measured(name: str, episode: h5py.Group, keys: Sequence[str] | None) -> dict[str, list[h5py.Dataset]]:
    """The arrays of an episode, their lengths checked against each other before anything is read."""
    absent = [field for field in ("observations", "actions", *_PER_STEP) if field not in episode]
    if absent:
        raise DataError(f"{name}: lacks {', '.join(absent)}")
    fields = {"obs": _observations(name, episode, keys)}
    fields |= {field: [array_in(episode, field, f"{name}/{field}")] for field in ("actions", *_PER_STEP)}
    for field, parts in fields.items():
        for part in parts:
            if not part.shape:
                raise DataError(f"{name}/{field}: is a single number, not one per step")
    steps = fields["rewards"][0].shape[0]
    for field, parts in fields.items():
        expected = steps + 1 if field == "obs" else steps
        for part in parts:
            if part.shape[0] != expected:
                found, asked = amount(part.shape[0], "row"), amount(steps, "reward")
                raise DataError(f"{name}/{field}: {found}, but {expected} belong to {asked}")
    return fields


def _check_widths(plan: Sequence[Mapping[str, Sequence[h5py.Dataset]]], names: Sequence[str]) -> None:
    """Refuse episodes whose rows have other shapes than those of the first."""
    for name, fields in zip(names, plan, strict=True):
        for field, parts in fields.items():
            shapes, expected = ([part.shape[1:] for part in found] for found in (parts, plan[0][field]))
            if field in _PER_STEP and shapes not in ([()], [(1,)]):
                raise DataError(f"{name}/{field}: a row has shape {shapes[0]}; one value per step is expected")
            if shapes != expected:
                raise DataError(f"{name}/{field}: a row has shape {shapes[0]}, but {expected[0]} in {names[0]}")
            if 0 in sum(shapes, ()):
                raise DataError(f"{name}/{field}: its rows hold nothing")


def _closed(
    arrays: dict[str, npt.NDArray[Any]], last: npt.NDArray[np.int64]
) -> tuple[dict[str, npt.NDArray[Any]], tuple[str, ...]]:
    """The last row of every episode marked as an end, and a word where flags and episodes do not agree."""
    notes = []
    flagged = (arrays["terminations"] != 0) | (arrays["truncations"] != 0)
    unmarked = last[~flagged[last]]
    if len(unmarked):
        truncations = arrays["truncations"].copy()  # with values other than 0 and 1, which are refused later
        truncations[unmarked] = 1
        arrays = {**arrays, "truncations": truncations}
        notes.append(f"{amount(len(unmarked), 'episode')} without a flag on the last row: counted as truncated")
    inside = int(flagged.sum()) - (len(last) - len(unmarked))
    if inside:
        notes.append(f"{amount(inside, 'row')} inside an episode flagged as an end: the episode counts as ended there")
    return arrays, tuple(notes)
