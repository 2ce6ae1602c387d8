"""Checkpoints with bits, sizes, types and names changed, the sums made to agree: loaded, or refused in one line."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from mutations import is_answered, make_sums_agree, mutated, mutated_json
from rl_training.errors import RLTrainingError
from rl_training.experiment.manager import describe, load_policy
from rl_training.runtime.trainer import train
from small_runs import small_config

ROUNDS = pytest.mark.parametrize("rounds", [100, pytest.param(3_000, marks=pytest.mark.slow)])
TENSORS = ("weights.safetensors", "training.safetensors")


@pytest.fixture(scope="module")
def run(data_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds, with normalised observations and one checkpoint."""
    config = small_config(
        data_file, tmp_path_factory.mktemp("runs"), "iql", seed=[0, 1], transforms={"normalise_observations": True}
    )
    return train(config).run.path


def use(place: Path) -> None:
    policy = load_policy(place)
    policy.predict([0.1, 0.2, 0.3])
    policy.predict([[0.1, 0.2, 0.3]], deterministic=False)
    policy.describe()


def copied(run: Path, target: Path) -> Path:
    """The checkpoint of a fresh copy of the run."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    return next((target / "checkpoints").iterdir())


def with_another_header(data: bytes, chance: random.Random) -> bytes:
    """Tensors under a safetensors header that says something else of them."""
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    about = header[chance.choice([name for name in header if name != "__metadata__"])]
    match chance.randrange(4):
        case 0:
            header = json.loads(mutated_json(json.dumps(header), chance))
        case 1:
            about["shape"] = chance.choice(([2**40, 2**40], [0], [], [-1], [10**9], about["shape"][::-1], [2**64]))
        case 2:
            about["dtype"] = chance.choice(("F64", "I64", "BOOL", "F8_E4M3", "F16", "BF16", "C64", "F4", "X"))
        case _:
            about["data_offsets"] = chance.choice(([0, 0], [0, 2**63], [5, 1], [-1, 4], [0, 10**18]))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", chance.choice((len(text),) * 9 + (2**63,))) + text + data[8 + length :]


@ROUNDS
def test_an_edited_state(rounds: int, run: Path, tmp_path: Path) -> None:
    for seed in range(rounds):
        chance, folder = random.Random(seed), copied(run, tmp_path / "run")
        state = folder / "state.json"
        state.write_text(mutated_json(state.read_text(), chance))
        make_sums_agree(folder)
        is_answered(lambda folder=folder: use(folder), f"seed {seed}")


@ROUNDS
def test_forged_tensors(rounds: int, run: Path, tmp_path: Path) -> None:
    for seed in range(rounds):
        chance, folder = random.Random(seed), copied(run, tmp_path / "run")
        file = folder / chance.choice(TENSORS)
        change = chance.choice((mutated, with_another_header, with_another_header))
        file.write_bytes(change(file.read_bytes(), chance))
        make_sums_agree(folder)
        is_answered(lambda folder=folder: use(folder), f"seed {seed}")


@ROUNDS
def test_no_damage_goes_unnoticed(rounds: int, run: Path, tmp_path: Path) -> None:
    for seed in range(rounds):
        chance, folder = random.Random(seed), copied(run, tmp_path / "run")
        file = folder / chance.choice((*TENSORS, "state.json"))
        sound = file.read_bytes()
        file.write_bytes(mutated(sound, chance))
        done = is_answered(lambda folder=folder: use(folder), f"seed {seed}")
        assert not done or file.read_bytes() == sound


@ROUNDS
def test_other_files_of_a_run(rounds: int, run: Path, tmp_path: Path) -> None:
    for seed in range(rounds):
        chance, folder = random.Random(seed), copied(run, tmp_path / "run")
        file = chance.choice((folder / "manifest.json", tmp_path / "run" / "run.json"))
        if chance.random() < 0.5:
            file.write_bytes(mutated(file.read_bytes(), chance))
        else:
            file.write_text(mutated_json(file.read_text(), chance))
        is_answered(lambda: use(tmp_path / "run"), f"seed {seed}: {file.name}")
        is_answered(lambda: describe(tmp_path / "run"), f"seed {seed}: {file.name}")


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd", "nowhere", "/", "pipe"])
@pytest.mark.parametrize("name", ["manifest.json", "state.json", "weights.safetensors"])
def test_what_is_no_file(target: str, name: str, run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    (folder / name).unlink()
    if target == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(target)
    assert not is_answered(lambda: use(folder), f"{name} -> {target}")
    with pytest.raises(RLTrainingError) as refused:
        use(folder)
    assert "root:" not in str(refused.value)  # nothing of another file is told
