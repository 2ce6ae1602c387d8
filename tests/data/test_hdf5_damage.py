"""HDF5 files that libhdf5 itself does not come back from, or allocates gigabytes for: refused before it sees them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from rl_training.data.formats import hdf5
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError

PATIENCE = 120  # seconds until a child that hangs is ended; a sound one takes about one
READ = """
import json, sys
from pathlib import Path
from rl_training.data.formats import hdf5
from rl_training.data.formats.peek import peek
from rl_training.errors import DataError
from rl_training.experiment.contest import peak_memory

def answer(look, path):
    try:
        return look(path).env_id
    except DataError as error:
        return str(error)

told = {path: [answer(look, Path(path)) for look in (hdf5.read, peek)] for path in sys.argv[1:]}
print(json.dumps({"told": told, "mib": peak_memory() // 2**20}))
"""


def write(path: Path, **layout: str) -> bytes:
    with h5py.File(path, "w", **layout) as file:
        file["observations"], file["actions"] = np.zeros((12, 3), np.float32), np.zeros((12, 2), np.float32)
        file["rewards"], file["terminals"] = np.zeros(12, np.float32), np.arange(12) == 11
        file.attrs["env_id"] = "Hopper-v4"
    return path.read_bytes()


def with_number(data: bytes, place: int, number: int, width: int = 8) -> bytes:
    return data[:place] + number.to_bytes(width, "little") + data[place + width :]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a child says of each damaged file."""
    folder = tmp_path_factory.mktemp("damaged")
    data = write(folder / "sound")
    heap = data.index(b"GCOL")
    first, free = heap + 16, heap + 48  # its entries: nine characters, padded, and what is free
    reference = data.index(struct.pack("<IQ", 9, heap))
    files = {
        "sound": data,
        "free 0": with_number(data, free + 8, 0),
        "free 8": with_number(data, free + 8, 8),
        "free, far": with_number(data, free + 8, 2**40),
        "back": with_number(data, first + 8, 2**64 - 48),
        "length": with_number(data, reference, 2**32 - 1, width=4),
    }
    source = folder / "virtual"
    write(source)
    with h5py.File(source, "a") as file:
        layout = h5py.VirtualLayout((12,), "f4")
        layout[:] = h5py.VirtualSource("elsewhere.hdf5", "x", (12,))
        file.create_virtual_dataset("infos/x", layout)
    data = source.read_bytes()
    entry = data.rindex(b"GCOL") + 16
    entry += 16 + (struct.unpack_from("<Q", data, entry + 8)[0] + 7) // 8 * 8
    files["virtual"] = with_number(data, entry + 8, 0)
    for name, contents in files.items():
        (folder / name).write_bytes(contents)
    paths = [str(folder / name) for name in files]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, timeout=PATIENCE, check=True)
    said = json.loads(done.stdout)
    return {Path(path).name: told for path, told in said["told"].items()} | {"mib": said["mib"]}


@pytest.mark.parametrize("name", ["free 0", "free 8", "free, far", "back", "virtual"])
def test_a_heap_without_end_is_refused(name: str, answers: dict[str, Any]) -> None:
    for told in answers[name]:
        assert told.startswith("damaged: the global heap at byte ")
        assert told.endswith(", which holds texts, has an entry of a wrong size")
    assert answers["sound"] == ["Hopper-v4", "Hopper-v4"]


def test_a_text_of_gigabytes_that_is_not_there(answers: dict[str, Any]) -> None:
    assert answers["length"] == ["env_id: declares a text of 4,294,967,295 bytes; at most 65,536 are read"] * 2
    assert answers["mib"] < 2_000


@pytest.mark.parametrize("layout", [{}, {"libver": "latest"}, {"libver": "v110"}])
@pytest.mark.parametrize("others", [0, 40])
def test_a_name_is_read_from_wherever_it_is_stored(layout: dict[str, str], others: int, tmp_path: Path) -> None:
    write(tmp_path / "log", **layout)
    with h5py.File(tmp_path / "log", "a", **layout) as file:
        for number in range(others):  # many attributes are stored elsewhere than few
            file.attrs[f"note {number}"] = "x" * 200
        file.attrs["action_low"], file.attrs["action_high"] = [-2.0, -2.0], [2.0, 2.0]
    raw = hdf5.read(tmp_path / "log")
    assert raw.env_id == peek(tmp_path / "log").env_id == "Hopper-v4"
    assert raw.bounds is not None
    assert raw.bounds.action_high == (2.0, 2.0)


def test_what_is_neither_number_nor_text_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "log")
    with h5py.File(tmp_path / "log", "a") as file:
        del file.attrs["env_id"]
        file.attrs["env_id"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        file.attrs["action_low"] = np.array("x", dtype=h5py.string_dtype())
        lists = np.empty(1, dtype=object)
        lists[0] = np.ones(2)
        file.attrs.create("action_high", lists, dtype=h5py.vlen_dtype(np.float64))
    raw = hdf5.read(tmp_path / "log")
    assert (raw.env_id, raw.bounds) == (None, None)


@pytest.mark.parametrize("width", [2, 4])
def test_lengths_of_another_width(width: int, tmp_path: Path) -> None:
    plan = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plan.set_sizes(8, width)
    h5py.h5f.create(str(tmp_path / "log").encode(), fcpl=plan).close()
    with pytest.raises(DataError, match=f"stores lengths in {width} bytes each; files that use 8 are read"):
        hdf5.read(tmp_path / "log")


def test_a_mark_of_discrete_actions_is_read_from_this_file_alone(tmp_path: Path) -> None:
    write(tmp_path / "log")
    (tmp_path / "mark").write_bytes(b"\1\0\0\0")
    with h5py.File(tmp_path / "log", "a") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_external(bytes(tmp_path / "mark"), 0, 4)  # which h5py itself passes over where there is no axis
        scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5d.create(file.id, b"discrete_action", h5py.h5t.STD_I32LE, scalar, plan)
    assert "discrete_action" not in hdf5.read(tmp_path / "log").arrays


def packed(path: Path, stream: bytes, *, twice: bool = False, shuffles: bool = False) -> Path:
    """A file whose observations are one deflated piece of twelve rows, which holds what `stream` unpacks to. shuffles:
    there is a filter before, which this piece leaves out."""
    write(path)
    with h5py.File(path, "a") as file:
        del file["observations"]
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((12, 3))
        if shuffles:
            plan.set_shuffle()
        plan.set_deflate(9)
        if twice:
            plan.set_filter(h5py.h5z.FILTER_DEFLATE, 0, (9,))
        space = h5py.h5s.create_simple((12, 3))
        made = h5py.h5d.create(file.id, b"observations", h5py.h5t.IEEE_F32LE, space, plan)
        made.write_direct_chunk((0, 0), zlib.compress(stream) if twice else stream, filter_mask=int(shuffles))
    return path


def deflated(size: int) -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(bytes(2**24)) for _ in range(size // 2**24)) + packer.flush()


@pytest.mark.parametrize("shuffles", [False, True])
def test_a_piece_that_unpacks_to_more_than_it_holds(shuffles: bool, tmp_path: Path) -> None:
    """libhdf5 would unpack all of it, whatever the array declares."""
    path = packed(tmp_path / "a.h5", deflated(400 * 2**20), shuffles=shuffles)
    with pytest.raises(DataError, match=r"observations: the piece at \(0, 0\) unpacks to more than it holds"):
        hdf5.read(path)


@pytest.mark.parametrize("how", ["deflated", "shuffled", "plain", "masked", "summed"])
def test_a_piece_that_is_too_short(how: str, tmp_path: Path) -> None:
    """libhdf5 fills it up with whatever lies in memory behind it, or ends the process."""
    few = np.arange(3, dtype=np.float32).tobytes()
    options: dict[str, Any] = {"compression": "gzip"} if how != "plain" else {}
    options |= {"shuffle": True} if how == "shuffled" else {}
    if how == "summed":
        options = {"fletcher32": True}
    write(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["rewards"]
        made = file.create_dataset("rewards", (12,), "f4", chunks=(12,), **options)
        stream = {"plain": few, "masked": few, "summed": b"ab"}.get(how, zlib.compress(few))
        made.id.write_direct_chunk((0,), stream, filter_mask=int(how == "masked"))
    with pytest.raises(DataError, match=r"rewards: the piece at \(0,\) unpacks to less than it holds; refused"):
        hdf5.read(tmp_path / "a.h5")


def test_packed_twice_over(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.h5", zlib.compress(bytes(144)), twice=True)
    with pytest.raises(DataError, match="observations: is packed 2 times over"):
        hdf5.read(path)


def test_a_large_piece_that_is_sound_is_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(100_000, 3)).astype(np.float32)  # hardly packs
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("observations", data=values, chunks=values.shape, compression="gzip", shuffle=True)
        file["actions"], file["rewards"] = np.zeros((100_000, 2), np.float32), np.zeros(100_000, np.float32)
        file["terminals"] = np.arange(100_000) % 100 == 99
    np.testing.assert_array_equal(hdf5.read(tmp_path / "a.h5").arrays["observations"], values)


def test_an_array_with_many_names_is_stored_once(tmp_path: Path) -> None:
    """In d3rlpy's layout, every episode a name of the first: half a gigabyte out of as many kilobytes."""
    steps, episodes = 30_000, 800
    with h5py.File(tmp_path / "log.h5", "w", libver="latest") as file:
        file["observations_0"] = np.ones((steps, 3), dtype=np.float32)
        file["actions_0"] = np.zeros((steps, 1), dtype=np.float32)
        file["rewards_0"] = np.ones((steps, 1), dtype=np.float32)
        file["terminated_0"] = False
        for name in ("observations", "actions", "rewards", "terminated"):
            for episode in range(1, episodes):
                file[f"{name}_{episode}"] = file[f"{name}_0"]
    with pytest.raises(DataError, match=r"declares 457\.8 MiB of values but stores 0\.6 MiB"):
        hdf5.read(tmp_path / "log.h5")
