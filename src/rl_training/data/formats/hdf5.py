"""HDF5 files in the layouts of D4RL and of d3rlpy's own datasets: one array per field at the top of the file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FLAG_FIELDS, MATRIX_FIELDS
from rl_training.data.fields import (
    DISCRETE_ACTIONS,
    EPISODE_ENDS,
    EPISODE_IDS,
    FIELD_OF,
    PARTS,
    are_parts,
    missing_fields,
)
from rl_training.data.formats.hdf5_chunks import check_begun, check_chunk_count, check_chunks, check_written, values_in
from rl_training.data.formats.hdf5_files import DAMAGE, attributes, opened
from rl_training.data.formats.hdf5_texts import is_text, texts_in
from rl_training.data.formats.labels import labels
from rl_training.data.formats.limits import check_size
from rl_training.data.formats.names import first_of, listed, natural
from rl_training.data.formats.netcdf import refuse_packed, with_gaps
from rl_training.data.formats.raw import NAMES, Columns, RawData, told_as_json
from rl_training.data.formats.tables import assemble, left_aside, plan
from rl_training.data.formats.words import NAME as WORDS
from rl_training.data.formats.words import with_told
from rl_training.data.space_bounds import TOLD, SpaceBounds, told_env_id, unsound_bounds
from rl_training.errors import DataError
from rl_training.reading_choices import AS_IT_STANDS, TableChoices
from rl_training.validation import printable
from rl_training.yaml_dialect import inline

_TRUTHS = {"false": 0, "no": 0, "off": 0, "true": 1, "yes": 1, "on": 1}
_MOST_NAMES = 10_000  # arrays that are looked at
_MOST_GROUPS = 10_000  # groups that are looked into
_EPISODE = re.compile(r"((?:[^/]+/)*[^/]*\d)/(?:actions|action)")  # the actions of one, in a group with its number
_SHOWN_MEMBERS = 12
_BYTES_OF_A_TEXT = 8  # in memory, of one that came before
_DEEPEST = 8  # groups inside each other


def read(path: Path, columns: Columns | None = None, choices: TableChoices = AS_IT_STANDS) -> RawData:
    """The fields of the file by the names it gives them; side information (`infos/…`, `metadata/…`) is left alone.

    columns: which arrays hold which field, by their names, with slashes where they lie in groups.
    """
    try:
        with opened(path) as file:
            raw = _by_name(file) if columns is None else _by_mapping(file, columns, choices)
            if _marks_discrete_actions(file):
                raw.arrays[DISCRETE_ACTIONS] = np.array(True)
            told = attributes(file, (*TOLD, NAMES, WORDS))
            if columns is None:
                raw = with_told(raw, *(told_as_json(told.get(name)) for name in (NAMES, WORDS)))
            notes = (*raw.notes, *unsound_bounds(told))
            return replace(raw, env_id=told_env_id(told.get("env_id")), bounds=SpaceBounds.read(told), notes=notes)
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"not a readable HDF5 file ({reason})") from error


def _by_name(file: h5py.File) -> RawData:
    """The arrays at the top of the file that bear a field's name."""
    ids = _texts_among(file, [name for name in FIELD_OF if FIELD_OF[name] == EPISODE_IDS and name in file])
    passed = {*ids, *(() if are_parts(file) else [PARTS])}
    fields = {name: _array_of_values(file, name) for name in FIELD_OF if name in file and name not in passed}
    given = {FIELD_OF[name] for name in (*fields, *ids)}
    found = names(file)
    if missing_fields(given):
        from rl_training.data.formats import d3rlpy_episodes

        if d3rlpy_episodes.is_layout(file):
            return d3rlpy_episodes.read(file)
        if "episode_0" in file:
            raise DataError("the data file of a Minari dataset; its metadata.json must lie beside it")
        refuse_groups(found)
    notes, hints = left_aside(found, {*fields, *ids, DISCRETE_ACTIONS}, given)
    check_sizes(fields.values(), flags=(fields[name] for name in fields if is_flag(name)))
    values = SharedReads(fields.values())
    arrays = {name: with_gaps(values(field), field) for name, field in fields.items()}
    arrays |= {name: labels(name, texts) for name, texts in ids.items()}
    layout = "d3rlpy's layout" if EPISODE_ENDS in fields else "D4RL's layout"
    return RawData(arrays, f"HDF5, {layout}", notes=tuple(notes), hints=hints)


def refuse_groups(names: Iterable[str]) -> None:
    """Say what to do with a group for every episode, as robomimic (`data/demo_0/actions`) and ManiSkill have them."""
    groups = [found[1] for name in names if (found := _EPISODE.fullmatch(name))]
    if groups:
        several = printable(groups[0]) + (f" … {printable(groups[-1])}" if len(groups) > 1 else "")
        raise DataError(
            f"holds a group for every episode ({several}, as robomimic's files do), which is not read; join them into"
            " one array per field, with episode_ids to tell them apart, and save those with np.savez"
        )


def _by_mapping(file: h5py.File, columns: Columns, choices: TableChoices) -> RawData:
    """The arrays that the mapping names, read as the columns of a table are."""
    planned = plan(names(file), columns, choices)
    texts = _texts_among(file, [*planned.texts, *([planned.step] if planned.step else [])])
    fields = {name: _array_of_values(file, name) for name in planned.columns if name not in texts}
    check_sizes(fields.values(), flags=(fields[name] for name in fields if name in planned.flags))
    values = SharedReads(fields.values())

    def column(name: str) -> npt.NDArray[Any]:
        return texts[name] if name in texts else with_gaps(values(fields[name]), fields[name])

    return assemble(planned, column, "HDF5")


def names(file: h5py.File) -> list[str]:
    """The arrays of the file, `group/array`, as far as links and depth allow; a group is entered once, however many
    names it has, as one may hold itself."""
    found: list[str] = []
    groups = [("", file, 0)]
    entered: set[int] = set()
    while groups and len(found) < _MOST_NAMES and len(entered) < _MOST_GROUPS:
        prefix, group, depth = groups.pop()
        place = address(group)
        if place in entered:
            continue
        entered.add(place)
        for name in names_in(group):
            member = _member(group, name, name) if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
            if isinstance(member, h5py.Dataset):
                found.append(f"{prefix}{name}")
            elif isinstance(member, h5py.Group) and depth < _DEEPEST:
                groups.append((f"{prefix}{name}/", member, depth + 1))
    return sorted(found, key=lambda name: (name.count("/"), natural(name)))


def address(member: h5py.Group | h5py.Dataset) -> int:
    """Where it lies in the file, whichever of its names led there."""
    return int(h5py.h5o.get_info(member.id).addr)


def names_in(group: h5py.Group) -> list[str]:
    """The names in a group, the first of many; h5py gives bytes for what is not UTF-8, which nobody can ask for."""
    return [name for name in islice(group, _MOST_NAMES) if isinstance(name, str)]


def array_in(group: h5py.Group, name: str, said: str | None = None) -> h5py.Dataset:
    """A member of the group that is a plain array of numbers in this very file; messages name it as `said`."""
    said = said or name
    field = _member(group, name, said)
    if isinstance(field, h5py.Group):
        told = f"{said}: is a group of {listed(names_in(field))}; one array is expected"
        if FIELD_OF.get(name) in MATRIX_FIELDS:
            inside = [f"{name}/{member}" for member in names_in(field)[:_SHOWN_MEMBERS]]
            told += f", or say which of them in which order: columns: {inline({FIELD_OF[name]: inside})}"
        raise DataError(told)
    if not isinstance(field, h5py.Dataset):
        raise DataError(f"{said}: is not an array")
    if field.is_virtual or field.external:
        raise DataError(f"{said}: its data lie in other files; give them in this one")
    if field.shape is None:
        raise DataError(f"{said}: holds nothing")
    codes = h5py.check_enum_dtype(field.dtype) or {}  # words that are no UTF-8 come as bytes
    if any(code != _TRUTHS.get(str(word).casefold()) for word, code in codes.items()):
        words = first_of(f"{printable(str(word))} {code}" for word, code in sorted(codes.items(), key=itemgetter(1)))
        raise DataError(f"{said}: its numbers stand for words ({words}), and not for false 0 and true 1; write numbers")
    if field.ndim > 1 and h5py.check_string_dtype(field.dtype) is not None:
        raise DataError(f"{said}: holds texts of shape {field.shape}; where texts are read, it is one for each row")
    if field.dtype.kind not in "biuf":
        raise DataError(f"{said}: dtype {field.dtype} is not supported; give booleans, integers or floats")
    return field


def _array_of_values(file: h5py.File, name: str) -> h5py.Dataset:
    """The same, whose numbers are the values."""
    field = array_in(file, name)
    refuse_packed(field, name)
    return field


def holds_texts(file: h5py.File, name: str) -> bool:
    """Whether an array is one of texts, whether or not they can be read."""
    return is_text(_member(file, name, name))


def texts_of(file: h5py.File, name: str, rows: int | None = None) -> npt.NDArray[Any] | None:
    """The texts of an array's first rows, or of all; none where it holds something else."""
    member = _member(file, name, name)
    if not is_text(member):
        return None
    check_begun(member)
    if rows is None:
        size = len(member) * max(_BYTES_OF_A_TEXT, member.dtype.itemsize)
        check_size(size, member.id.get_storage_size())
        check_chunk_count([member])
        check_chunks(member)
    return texts_in(member, name, rows)


def _texts_among(file: h5py.File, wanted: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """The texts of those arrays that hold any."""
    return {name: texts for name in wanted if (texts := texts_of(file, name)) is not None}


def group_in(group: h5py.Group, name: str, said: str | None = None) -> h5py.Group:
    """A member of the group that is a group in this very file; messages name it as `said`."""
    found = _member(group, name, said or name)
    if not isinstance(found, h5py.Group):
        raise DataError(f"{said or name}: is not a group of arrays")
    return found


def _member(group: h5py.Group, name: str, said: str) -> Any:
    """What is looked at before it is opened: opening a link would open what it leads to."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise DataError(f"{said}: is a link to elsewhere; give the array itself")
    return group[name]


def is_flag(name: str) -> bool:
    """Whether an array of this name may well be set in a few rows alone."""
    return FIELD_OF.get(name) in (*FLAG_FIELDS, EPISODE_ENDS)


def check_sizes(datasets: Iterable[h5py.Dataset], flags: Iterable[h5py.Dataset] = ()) -> None:
    """Refuse arrays that together are too large, or of which a part was never written: its values would come from
    nowhere. flags: those among them that may be set in a few rows alone."""
    size = 0
    several, known = list(datasets), {address(flag) for flag in flags if not flag.fillvalue}
    each = {address(dataset): dataset for dataset in several}  # one array may have many names, and is stored once
    for dataset in several:
        chunk = math.prod(dataset.chunks or (0,))  # unpacked whole, even where it is larger than the array
        size += max(dataset.size, chunk) * dataset.dtype.itemsize
    for place, dataset in each.items():
        if place not in known:
            check_written(dataset)
    check_size(size, sum(dataset.id.get_storage_size() for dataset in each.values()))
    check_chunk_count(each.values())
    for place, dataset in each.items():
        if place not in known:
            check_begun(dataset)
        check_chunks(dataset)


class SharedReads:
    """The values of arrays, each read once, however many names it has: of small chunks, reading is the dear part."""

    def __init__(self, datasets: Iterable[h5py.Dataset]) -> None:
        self._names_left = Counter(map(address, datasets))
        self._read: dict[int, npt.NDArray[Any]] = {}

    def __call__(self, dataset: h5py.Dataset) -> npt.NDArray[Any]:
        """An array of its own for each name; the last one gets what was read itself."""
        place = address(dataset)
        self._names_left[place] -= 1
        if self._names_left[place] < 1:
            return self._read.pop(place) if place in self._read else values_in(dataset)
        if place not in self._read:
            self._read[place] = values_in(dataset)
        return self._read[place].copy()


def _marks_discrete_actions(file: h5py.File) -> bool:
    """d3rlpy's files say so themselves."""
    if not isinstance(file.get(DISCRETE_ACTIONS, getlink=True), h5py.HardLink):
        return False
    try:
        mark = array_in(file, DISCRETE_ACTIONS)
    except DataError:
        return False
    if mark.shape != ():
        return False
    check_begun(mark)
    return bool(mark[()])
