"""HDF5 files in the layouts of D4RL and of d3rlpy's own datasets: one array per field at the top of the file."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from rl_training.data.fields import DISCRETE_ACTIONS, EPISODE_ENDS, FIELD_OF, IGNORED_PREFIXES, REQUIRED_FIELDS
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.raw import RawData
from rl_training.data.formats.tables import listed
from rl_training.data.space_bounds import SpaceBounds
from rl_training.errors import DataError

# What h5py raises on files that are damaged or forged.
DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError, OverflowError)


def read(path: Path) -> RawData:
    """The fields of the file by the names it gives them; side information (`infos/…`, `metadata/…`) is left alone."""
    try:
        with h5py.File(path, "r") as file:
            fields = {name: array_in(file, name) for name in file if name in FIELD_OF}
            missing = set(REQUIRED_FIELDS) - {FIELD_OF.get(name) for name in fields}
            if missing:
                lacking = ", ".join(name for name in REQUIRED_FIELDS if name in missing)
                if "episode_0" in file:
                    raise DataError("the data file of a Minari dataset; its metadata.json must lie beside it")
                found = [name for name in file if not name.startswith(IGNORED_PREFIXES)]
                raise DataError(f"lacks {lacking}; the file has {listed(found) if found else 'nothing'}")
            check_size(sum(field.size * field.dtype.itemsize for field in fields.values()))
            layout = "d3rlpy's layout" if EPISODE_ENDS in fields else "D4RL's layout"
            env_id = file.attrs.get("env_id")
            arrays = {name: np.asarray(field[()]) for name, field in fields.items()}
            if _marks_discrete_actions(file):
                arrays[DISCRETE_ACTIONS] = np.array(True)
            return RawData(
                arrays,
                f"HDF5, {layout}",
                env_id if isinstance(env_id, str) else None,
                bounds=SpaceBounds.read(dict(file.attrs)),
            )
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"not a readable HDF5 file ({reason})") from error


def array_in(group: h5py.Group, name: str, said: str | None = None) -> h5py.Dataset:
    """A member of the group that is a plain array of numbers in this very file; messages name it as `said`."""
    said = said or name
    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise DataError(f"{said}: is a link to elsewhere; give the array itself")
    field = group[name]
    if not isinstance(field, h5py.Dataset):
        raise DataError(f"{said}: is a group, not an array")
    if field.is_virtual or field.external:
        raise DataError(f"{said}: its data lie in other files; give them in this one")
    if field.dtype.kind not in "biuf":
        raise DataError(f"{said}: dtype {field.dtype} is not supported; give booleans, integers or floats")
    return field


def _marks_discrete_actions(file: h5py.File) -> bool:
    """d3rlpy's files say so themselves."""
    if not isinstance(file.get(DISCRETE_ACTIONS, getlink=True), h5py.HardLink):
        return False
    mark = file[DISCRETE_ACTIONS]
    return isinstance(mark, h5py.Dataset) and mark.shape == () and bool(mark[()])
