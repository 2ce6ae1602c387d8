"""Files of every format with bytes, sizes, types and names changed: read, or refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mutations import NAMES, is_answered, mutated, mutated_json
from rl_training.data import TransitionDataset
from rl_training.data.doctor import examine
from rl_training.data.formats import columns, read
from rl_training.errors import RLTrainingError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = 12
ROUNDS = pytest.mark.parametrize("rounds", [100, pytest.param(3_000, marks=pytest.mark.slow)])
MAPPINGS = (None, None, None, {"obs": "obs", "actions": "actions"}, {"obs": "obs*", "rewards": "re*"}, {"obs": ["x"]})
ARCHIVE_NAMES = [name for name in NAMES[:-4] if name != "\0"]  # zipfile cuts a name there and cannot write what is left


def arrays() -> dict[str, Any]:
    chance = np.random.default_rng(0)
    obs = chance.normal(size=(ROWS + 1, 3)).astype(np.float32)
    return {
        "obs": obs[:-1],
        "actions": np.tanh(chance.normal(size=(ROWS, 2))).astype(np.float32),
        "rewards": chance.normal(size=ROWS).astype(np.float32),
        "next_obs": obs[1:],
        "terminations": np.arange(ROWS) == 4,
        "truncations": np.arange(ROWS) == ROWS - 1,
    }


def npz(path: Path) -> None:
    bounds = {"metadata/action_low": np.full(2, -1.0), "metadata/action_high": np.ones(2)}
    np.savez_compressed(path.open("wb"), **arrays(), **bounds, **{"metadata/env_id": np.array("Hopper-v4")})


def npz_with_names(path: Path) -> None:
    given = {name: values for name, values in arrays().items() if name in ("obs", "actions", "rewards")}
    np.savez(path.open("wb"), **given, episode_ids=np.array(["a"] * 5 + ["b"] * 7), step=np.arange(ROWS))


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays().items():
            file[name] = values
        file["infos/qpos"], file["link"] = np.zeros((ROWS, 2)), h5py.SoftLink("/obs")
        file.attrs["env_id"] = "Hopper-v4"


def packed_hdf5(path: Path) -> None:
    given = arrays()
    with h5py.File(path, "w", libver="latest") as file:
        for name, values in {"observations": given["obs"], **given}.items():
            if name not in ("obs", "next_obs", "truncations"):
                file.create_dataset(name, data=values, chunks=True, compression="gzip", shuffle=True)
        file["episode_terminals"] = given["terminations"] | given["truncations"]


def parquet(path: Path) -> None:
    given = arrays()
    wide = {name: list(map(list, given[name].tolist())) for name in ("obs", "actions")}
    names = pa.array(["a"] * 5 + ["b"] * 7).dictionary_encode()
    table = {**wide, "reward": given["rewards"], "terminal": given["terminations"], "episode_id": names}
    pq.write_table(pa.table(table), path, compression="zstd")


def csv(path: Path) -> None:
    lines = [
        f'{i}.5;{-i};"0.25";{i};{"true" if i == 4 else "false"};{"ab"[i > 4]};{i - 5 * (i > 4)}' for i in range(ROWS)
    ]
    path.write_text("\n".join(["obs_0;obs_1;action;reward;terminal;episode;t", *lines]), encoding="utf-8-sig")


def minari(path: Path) -> None:
    (path / "data").mkdir(parents=True)
    box = {"type": "Box", "shape": [3], "dtype": "float64", "low": [-1.0] * 3, "high": [1.0] * 3}
    spaces = {"type": "Dict", "subspaces": {"observation": box, "goal": box}}
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        for episode in ("episode_0", "episode_1"):
            for name in ("observations/observation", "observations/goal"):
                file[f"{episode}/{name}"] = np.zeros((5, 3))
            file[f"{episode}/actions"], file[f"{episode}/rewards"] = np.zeros((4, 3)), np.zeros(4)
            for name in ("terminations", "truncations"):
                file[f"{episode}/{name}"] = np.arange(4) == 3
    metadata = {"dataset_id": "x/y-v0", "action_space": json.dumps(box), "observation_space": json.dumps(spaces)}
    (path / "data" / "metadata.json").write_text(json.dumps({**metadata, "env_spec": json.dumps({"id": "Foo-v0"})}))


def column_directory(path: Path) -> None:
    columns.write(TransitionDataset.from_dict(arrays()), path)


def csv_files(path: Path) -> None:
    """Episodes of their own in each, one file packed."""
    path.mkdir()
    for number in range(3):
        csv(path / f"e{number}.csv")
        sound = (path / f"e{number}.csv").read_bytes()
        (path / f"e{number}.csv").write_bytes(
            sound.replace(b";a;", b";a%d;" % number).replace(b";b;", b";b%d;" % number)
        )
    (path / "e2.csv.gz").write_bytes(gzip.compress((path / "e2.csv").read_bytes()))
    (path / "e2.csv").unlink()
    (path / "e0.csv-metadata.json").write_text(json.dumps({"rl_training": {"env_id": "Hopper-v4", "sha256": "0"}}))


def parquet_files(path: Path) -> None:
    path.mkdir()
    for number in range(3):
        parquet(path / f"e{number}.parquet")
    (path / "notes.json").write_text("{}")


FILES = [npz, npz_with_names, hdf5, packed_hdf5, parquet, csv]
FOLDERS = [minari, column_directory, csv_files, parquet_files]


def examined(path: Path, mapping: Any) -> None:
    """Read the data and have the doctor look at them; the first that is refused is told when both have been tried."""
    refusal = None
    try:
        TransitionDataset.load(path, columns=mapping).summary()
    except RLTrainingError as error:
        refusal = error
    try:
        json.dumps(examine(read(path, mapping)).to_json(), allow_nan=False)
    except RLTrainingError as error:
        refusal = refusal or error
    if refusal is not None:
        raise refusal


@ROUNDS
@pytest.mark.parametrize("write", FILES)
def test_mutated_files(write: Callable[[Path], None], rounds: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path)
    assert is_answered(lambda: examined(path, None), "as it was written")
    sound = path.read_bytes()
    refused = 0
    for seed in range(rounds):
        chance = random.Random(seed)
        in_archive = zipfile.is_zipfile(io.BytesIO(sound)) and chance.random() < 0.5
        path.write_bytes((_in_an_archive if in_archive else mutated)(sound, chance))
        mapping = chance.choice(MAPPINGS)
        refused += not is_answered(lambda mapping=mapping: examined(path, mapping), f"seed {seed}")
    assert refused > rounds / 4


def _in_an_archive(data: bytes, chance: random.Random) -> bytes:
    """One array damaged or renamed and packed again, so that its checksum agrees."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        chosen = chance.choice(source.namelist())
        for name in source.namelist():
            contents = source.read(name)
            if name == chosen and chance.random() < 0.8:
                contents = mutated(contents[:128], chance) + contents[128:]
            odd = name == chosen and chance.random() < 0.1
            target.writestr(f"{chance.choice(ARCHIVE_NAMES)}.npy" if odd else name, contents)
    return made.getvalue()


@ROUNDS
@pytest.mark.parametrize("write", FOLDERS)
def test_mutated_folders(write: Callable[[Path], None], rounds: int, tmp_path: Path) -> None:
    sound, path = tmp_path / "sound", tmp_path / "log"
    write(sound)
    mappings: tuple[Any, ...] = (None,)
    if write is minari:
        mappings = ({"obs": ["observation", "goal"]}, {"obs": "goal"}, None)
    if write is csv_files:
        mappings = (*MAPPINGS, {"episode_ids": "file_name"})
    if write is parquet_files:  # ids are the same in each
        mappings = ({"episode_ids": "file_name"}, *MAPPINGS)
    assert is_answered(lambda: examined(sound, mappings[0]), "as it was written")
    for seed in range(rounds):
        chance = random.Random(seed)
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(sound, path)
        what = _damage(path, chance)
        mapping = chance.choice(mappings)
        is_answered(lambda mapping=mapping: examined(path, mapping), f"seed {seed}: {what}")


def _damage(folder: Path, chance: random.Random) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    file = chance.choice(files)
    match chance.randrange(8):
        case 0 | 1 | 2 | 3:
            file = next(file for file in files if file.suffix == ".json")
            file.write_text(mutated_json(file.read_text(), chance), encoding="utf-8")
        case 4:
            file.unlink()
            file.symlink_to(chance.choice(("/etc/passwd", "/dev/zero", "nowhere", file.name, "/", "/proc/self/mem")))
        case 5:
            file.unlink()
            (os.mkfifo if chance.random() < 0.5 else os.mkdir)(file)
        case _:
            file.write_bytes(mutated(file.read_bytes(), chance))
    return file.name
