"""The package's own format: a folder with one `.npy` file per field and `schema.json`, opened without being read.

What was checked when it was written is not checked again: opening takes milliseconds whatever the size, as the fields
are memory-mapped. `schema.json` holds the SHA-256 of itself, compared whenever it is read, and of every field; `verify`
compares those, and so does whatever reads all of it anyway (checking, converting, mixing, training).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rl_training.data.checks import FLAG_FIELDS, INDEX_FIELDS, MATRIX_FIELDS, VECTOR_FIELDS
from rl_training.data.fingerprints import combined_fingerprint, field_digest
from rl_training.data.formats.atomic import new_folder
from rl_training.data.formats.limits import check_file
from rl_training.data.provenance import KEY
from rl_training.data.summaries import EPISODE_FACTS, ROW_FACTS, Facts
from rl_training.errors import DataError
from rl_training.validation import is_count, shown
from rl_training.wording import amount, taken

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

SCHEMA = "schema.json"
PACKED = ".packed"  # the folder in it that holds the rows as training from disk reads them
FORMAT, VERSION = "rl_training columns", 2
_UNSUMMED = 1  # the version whose schemas hold no SHA-256 of their own
_LAYOUT = {  # dtype and number of axes
    **dict.fromkeys(MATRIX_FIELDS, ("<f4", 2)),
    **dict.fromkeys(VECTOR_FIELDS, ("<f4", 1)),
    **dict.fromkeys(FLAG_FIELDS, ("|b1", 1)),
    **dict.fromkeys(INDEX_FIELDS, ("<i8", 1)),
}
_SUM, _END = ',\n "sha256": "', "\n}"  # around the SHA-256 of a schema, in its text
_ANOTHER = "choose another name"
_SCHEMA_LIMIT = 1 << 26  # bytes; a real one has a few thousand, and some forty more for each observed value


def write(dataset: TransitionDataset, target: Path) -> None:
    """Write `dataset` as the folder `target`: complete or not there at all."""
    ColumnWriter(target).write(dataset)


class ColumnWriter:
    """Writes a folder block by block, for data that never are in memory at once."""

    def __init__(self, target: Path) -> None:
        if target.exists():
            raise DataError(taken(target, _ANOTHER))
        self.target = target

    def write(self, dataset: TransitionDataset) -> None:
        """The whole of `dataset`."""
        self._write([dataset])

    def write_blocks(self, blocks: Iterable[TransitionDataset]) -> None:
        """Every block in turn, with the same fields each; an episode does not go on in the next block: where a block
        ends without a flag, its last row is truncated."""
        self._write(closed(block) for block in blocks)

    def _write(self, blocks: Iterable[TransitionDataset]) -> None:
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with new_folder(self.target, replace=False) as folder:
                fill(folder, blocks)
        except OSError as error:
            if isinstance(error, FileExistsError) and self.target.exists():  # it has come since
                raise DataError(taken(self.target, _ANOTHER)) from None
            raise DataError(f"{self.target}: cannot be written: {error.strerror or error}") from error


def fill(folder: Path, blocks: Iterable[TransitionDataset], provenance: str | None = None) -> None:
    """Make the folder and write the blocks into it, the schema last. provenance: where they come from, as JSON."""
    folder.mkdir()
    facts = Facts()
    with ExitStack() as open_files:
        names = _write_fields(folder, blocks, facts, open_files)
    schema = _schema(folder, names, facts) | ({} if provenance is None else {KEY: json.loads(provenance)})
    (folder / SCHEMA).write_text(with_sum(json.dumps(schema, indent=1)), encoding="utf-8")


def with_sum(schema: str) -> str:
    """The JSON text of a schema, with its SHA-256 as the last entry."""
    digest = hashlib.sha256(schema.encode()).hexdigest()
    return f'{schema.removesuffix(_END)}{_SUM}{digest}"{_END}'


def _has_sum(text: str) -> bool:
    return text == with_sum(text.rpartition(_SUM)[0] + _END)


def closed(part: TransitionDataset) -> TransitionDataset:
    """With a flag on the last row: what was cut off there must not go on in the rows that come after."""
    if not part.whole_episodes or part.terminations[-1] or part.truncations[-1]:
        return part
    truncations = part.truncations.copy()
    truncations[-1] = True
    return replace(part, truncations=truncations)


def _write_fields(folder: Path, blocks: Iterable[TransitionDataset], facts: Facts, open_files: ExitStack) -> list[str]:
    """One file per field, its header written again at the end, when the number of rows is known."""
    files: dict[str, IO[bytes]] = {}
    first: dict[str, npt.NDArray[Any]] = {}
    for block in blocks:
        block.refuse_mixture()
        arrays = block.to_dict()
        if not files:
            first = arrays
            files = {name: open_files.enter_context((folder / f"{name}.npy").open("xb")) for name in arrays}
            for name, file in files.items():
                file.write(_header(first[name].dtype.str, first[name].shape))
        if set(arrays) != set(files):
            raise DataError(f"blocks differ in their fields: {sorted(arrays)} and {sorted(files)}")
        for name, values in arrays.items():
            if values.shape[1:] != first[name].shape[1:]:
                raise DataError(f"blocks differ in their widths: {name} {values.shape[1:]} and {first[name].shape[1:]}")
        for name, values in arrays.items():
            files[name].write(np.ascontiguousarray(values).data)
        facts.add(block)
    if not files:
        raise DataError("nothing to write: no rows")
    for name, file in files.items():
        file.seek(0)
        file.write(_header(first[name].dtype.str, (facts.rows, *first[name].shape[1:])))
    return list(files)


def _schema(folder: Path, names: list[str], facts: Facts) -> dict[str, Any]:
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}
    digests = {name: field_digest(values) for name, values in arrays.items()}
    return {
        "format": FORMAT,
        "version": VERSION,
        "fields": {
            name: {"dtype": arrays[name].dtype.str, "shape": list(arrays[name].shape), "sha256": digests[name]}
            for name in names
        },
        "fingerprint": combined_fingerprint(digests),
        "whole_episodes": facts.whole_episodes,
        "summary": facts.to_json(),
        **({} if facts.env_id is None else {"env_id": facts.env_id}),
        **({} if facts.bounds is None else {"bounds": facts.bounds.to_json()}),
    }


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """A `.npy` header of 128 bytes, long enough for any shape, so that it can be written again at the end."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def open_columns(folder: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Memory-mapped fields by name, and the schema. Sizes are held to the schema; contents are not read."""
    schema = read_schema(folder)
    fields: dict[str, npt.NDArray[Any]] = {}
    for name, about in schema["fields"].items():
        shape = tuple(about["shape"])
        path = folder / f"{name}.npy"
        try:
            check_file(path)
            size = path.stat().st_size
            expected = 128 + int(np.prod(shape, dtype=object)) * np.dtype(about["dtype"]).itemsize
            if size != expected:
                raise DataError(f"{path.name}: has {size:,} bytes, the schema says {expected:,}")
            with path.open("rb") as file:
                if file.read(128) != _header(about["dtype"], shape):
                    raise DataError(f"{path.name}: its header does not agree with the schema")
            fields[name] = np.memmap(path, dtype=about["dtype"], mode="r", offset=128, shape=shape)
        except OSError as error:
            raise DataError(f"{path.name}: cannot be read: {error.strerror or error}") from error
    return fields, schema


def open_verified(folder: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """As `open_columns`, after reading every field and comparing it with the schema."""
    fields, schema = open_columns(folder)
    digests = {name: field_digest(values) for name, values in fields.items()}
    for name, digest in digests.items():
        if digest != schema["fields"][name]["sha256"]:
            raise DataError(f"{name}.npy: damaged (its SHA-256 is not the schema's)")
    if combined_fingerprint(digests) != schema["fingerprint"]:
        raise DataError(f"{SCHEMA}: damaged (its fingerprint is not that of the fields)")
    return fields, schema


def verify(folder: Path) -> None:
    """Read every field and compare it with the schema."""
    try:
        open_verified(folder)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error


def own_files(folder: Path) -> set[str]:
    """What a folder consists of: the schema and its fields; where it cannot be read, any that a schema may list."""
    try:
        fields: Iterable[str] = read_schema(folder)["fields"]
    except DataError:
        fields = _LAYOUT
    return {SCHEMA, *(f"{name}.npy" for name in fields)}


def packed_folder(folder: Path) -> Path:
    """Where the packed rows of a folder lie; a link, which may lead anywhere, is not written through."""
    path = folder / PACKED
    if path.is_symlink():
        raise DataError(f"{path}: is a link, and none is followed; remove it, and the rows are packed again")
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: is not a folder; remove it, and the rows are packed again")
    return path


def packed_copies(folder: Path) -> list[str]:
    """A note on the packed rows that training from disk has left in a folder, if there are any."""
    sizes = [file.lstat().st_size for file in (folder / PACKED).glob("*.f32")]
    if not sizes:
        return []
    size = f"{amount(len(sizes), 'file')}, {sum(sizes) / 1e9:.3g} GB"
    return [f"{folder / PACKED} holds packed rows for training from disk ({size}); it can be deleted"]


def read_schema(folder: Path) -> dict[str, Any]:
    path = folder / SCHEMA
    try:
        check_file(path)
        if path.stat().st_size > _SCHEMA_LIMIT:
            raise DataError(f"{SCHEMA}: too large to be a schema")
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{SCHEMA}: cannot be read ({' '.join(str(error).split())})") from error
    versions = (_UNSUMMED, VERSION)
    if not isinstance(schema, dict) or schema.get("format") != FORMAT or schema.get("version") not in versions:
        raise DataError(f"{SCHEMA}: not version {_UNSUMMED} or {VERSION} of {FORMAT!r}")
    if (schema["version"] != _UNSUMMED or "sha256" in schema) and not _has_sum(text):
        raise DataError(f"{SCHEMA}: damaged (its SHA-256 is not that of what it says)")
    fields, bounds = schema.get("fields"), schema.get("bounds", {})
    sound = isinstance(fields, dict) and all(_is_sound(name, about) for name, about in fields.items())
    keys = ("fingerprint", str), ("whole_episodes", bool), ("summary", dict)
    if not sound or not isinstance(bounds, dict) or not all(isinstance(schema.get(key), kind) for key, kind in keys):
        raise DataError(f"{SCHEMA}: malformed")
    if not {"obs", "actions", "rewards", "next_obs", "terminations", "truncations"} <= set(schema["fields"]):
        raise DataError(f"{SCHEMA}: lacks a field that every dataset has")
    shapes = {name: about["shape"] for name, about in schema["fields"].items()}
    if len({shape[0] for shape in shapes.values()}) != 1:
        raise DataError(f"{SCHEMA}: its fields have different numbers of rows")
    if shapes["obs"] != shapes["next_obs"] or shapes.get("next_actions", shapes["actions"]) != shapes["actions"]:
        raise DataError(f"{SCHEMA}: a field and its successor have different widths")
    _require_possible(schema)
    return schema


def notes_on(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What the user of a folder with this schema should know."""
    if "sha256" in schema:
        return ()
    return (f"{SCHEMA} is of an earlier version, which has no SHA-256 of its own; data convert writes one",)


def _require_possible(schema: Mapping[str, Any]) -> None:
    """Refuse numbers in the summary that no rows have, or that cannot be computed with."""
    counts, rows = {*ROW_FACTS, "episodes"}, schema["fields"]["obs"]["shape"][0]
    for name in (*ROW_FACTS, *EPISODE_FACTS) if schema["whole_episodes"] else ROW_FACTS:
        value = schema["summary"].get(name)
        if name in counts and not (is_count(value) and value <= rows):
            raise DataError(
                f"{SCHEMA}: summary.{name}: must be a count of its {amount(rows, 'row')}, got {shown(value)}"
            )
        if isinstance(value, bool) or not (isinstance(value, int | float) and abs(value) <= sys.float_info.max):
            raise DataError(f"{SCHEMA}: summary.{name}: must be a finite number, got {shown(value)}")


def _is_sound(name: str, about: Any) -> bool:
    if name not in _LAYOUT or not isinstance(about, Mapping):
        return False
    dtype, rank = _LAYOUT[name]
    shape = about.get("shape")
    return (
        about.get("dtype") == dtype
        and isinstance(shape, list)
        and len(shape) == rank
        and all(isinstance(n, int) and 0 < n < 2**48 for n in shape)
        and isinstance(about.get("sha256"), str)
    )
