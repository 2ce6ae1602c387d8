"""Damaged files and strange values made from sound ones, and what anything may answer to them."""

from __future__ import annotations

import hashlib
import json
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_training.errors import RLTrainingError

SECONDS = 3.0  # of the processor, not of the clock: a busy machine fails nothing
MIB = 500  # by which the process may grow during one case
LONGEST_MESSAGE = 1_000  # characters

_LENGTHS = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 10**9, 2**31, 2**48, 2**63, 10**300, 1e308, -1.5, float("nan"), float("inf")),
    *("", "x", "12", "../../etc/passwd", "/etc/passwd", "/dev/zero", "\0", "\ud800", "\x1b[2J", "a" * 5_000),
    *([], {}, [[]], [None], [1, 2], {"a": 1}, [50_000, 50_000], [10**9, 10**9], [2**47, 3], [0] * 20_000),
    *("this:Trap-v0", "|O", "<f8", "arrow", "cuda:99"),
)
NAMES = ("../../etc/passwd", "/etc/passwd", "obs/../obs", "", "\0", "x" * 3_000, "obs", "env_id", "bounds", "actor")


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The same with bits flipped, numbers replaced, parts removed, repeated or zeroed."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8, 30))):
        if not changed:
            break
        place = _place(len(changed), chance)
        match chance.randrange(8):
            case 0 | 1:
                changed[place] ^= 1 << chance.randrange(8)
            case 2:
                changed[place] = chance.randrange(256)
            case 3:
                width = chance.choice((1, 2, 4, 8))
                number = chance.choice(_LENGTHS) % (1 << 8 * width)
                changed[place : place + width] = number.to_bytes(width, chance.choice(("little", "big")))
            case 4:
                del changed[place : place + chance.choice((1, 2, 8, 100, len(changed)))]
            case 5:
                changed[place:place] = chance.randbytes(chance.choice((1, 4, 50)))
            case 6:
                source, length = chance.randrange(len(changed)), chance.choice((1, 8, 64, 300))
                changed[place : place + length] = changed[source : source + length]
            case _:
                length = chance.choice((1, 4, 16, 64))
                changed[place : place + length] = chance.choice((b"\0", b"\xff")) * length
    return bytes(changed)


def _place(length: int, chance: random.Random) -> int:
    """Anywhere, but more often near the beginning and the end, where headers and directories lie."""
    near = chance.randrange(min(length, 600))
    return chance.choice((chance.randrange(length), near, length - 1 - near))


def mutated_json(text: str, chance: random.Random) -> str:
    """The same with values of other types, keys missing, moved or named like paths; JSON inside of it likewise."""
    value = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 4))):
        value = _edited(value, chance)
    return json.dumps(value)


def _edited(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        entry = value[key]
        if chance.random() < 0.15:
            rest = {k: v for k, v in value.items() if k != key}
            return rest if chance.random() < 0.5 else {**rest, chance.choice(NAMES): entry}
        inner = isinstance(entry, str) and entry.startswith("{")
        return {**value, key: mutated_json(entry, chance) if inner else _edited(entry, chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return [*value[:place], _edited(value[place], chance), *value[place + chance.choice((0, 1, 1, 1)) :]]
    return chance.choice(VALUES)


def make_sums_agree(folder: Path) -> None:
    """Write the manifest as one who forged the files would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["files"]:
        data = (folder / name).read_bytes()
        manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def is_answered(action: Callable[[], object], said: str) -> bool:
    """Whether `action` was done rather than refused. Either is right, in little time and memory; an error must be one
    of the package's own, of one line. `said` tells the case in a failure."""
    before, start = _peak(), time.process_time()
    try:
        action()
        done = True
    except RLTrainingError as error:
        done, message = False, str(error)
        assert message.isprintable(), f"{said}: {message!r}"
        assert len(message) <= LONGEST_MESSAGE, f"{said}: a message of {len(message)} characters"
    except Exception as error:
        raise AssertionError(f"{said}: {type(error).__name__}: {error}") from error
    assert time.process_time() - start < SECONDS, said
    assert _peak() - before < MIB, said
    return done


def _peak() -> int:
    """The most memory this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
