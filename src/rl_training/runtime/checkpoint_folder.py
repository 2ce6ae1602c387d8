"""The checkpoints of a run, `step-N` each. One has its name only when it is complete, and is never written into.

A run may be saved twice at one step: in pretraining, which takes no steps, or before and after an evaluation. The newer
one is then written beside, as `step-N.next`, and takes the name from the older: one of the two is always there.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from rl_training.data.formats.atomic import remove, sync, sync_all
from rl_training.data.formats.renames import exchange
from rl_training.run_places import MANIFEST, TEMPORARY
from rl_training.runtime.checkpoint import Checkpoint, save_checkpoint
from rl_training.runtime.records import ASIDE
from rl_training.runtime.standing import NEXT, STEP, path_of, progress_of, steps_in

_ASIDE_NAME = re.compile(rf"{re.escape(ASIDE)}[0-9]{{0,4}}")


def save(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write the checkpoint of `step`, unless the one that is there says the same."""
    path = path_of(folder, step)
    if path.name.endswith(NEXT):  # a process was killed before it had the name
        path = move(path, folder / f"step-{step}")
    if not (path / MANIFEST).is_file():
        save_checkpoint(path.absolute(), checkpoint)
    elif progress_of(path) != json.loads(json.dumps(checkpoint.progress)):
        _supersede(path, checkpoint)
    return path


def _supersede(path: Path, checkpoint: Checkpoint) -> None:
    """Put another in the place of a complete checkpoint."""
    newer = path.with_name(path.name + NEXT)
    remove(newer)
    save_checkpoint(newer.absolute(), checkpoint)
    if exchange(newer, path):
        remove(newer)
    else:
        _discard(path)
        newer.rename(path)
    sync(path.parent)


def move(path: Path, target: Path) -> Path:
    """Rename a checkpoint. What the system moves no further, a folder in a lower layer of overlayfs as container images
    have them, is copied and then removed."""
    try:
        return path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    copy = shutil.copytree(path, _temporary(target), symlinks=True)
    sync_all(copy)
    sync(copy)
    copy.rename(target)
    sync(target.parent)
    _discard(path)
    return target


def _discard(path: Path) -> None:
    """Take a checkpoint its name, or its manifest: a removal cut short must not look complete."""
    try:
        path.rename(_temporary(path))
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        (path / MANIFEST).unlink(missing_ok=True)
        remove(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}{TEMPORARY}{uuid.uuid4().hex}")


def prune(folder: Path, keep: int, best: int | None, every: int | None, judged: Set[int] = frozenset()) -> None:
    """Remove what is neither among the newest `keep` checkpoints, nor the best, nor a multiple of `every`, nor `judged`
    by somebody, who may have shipped it.

    What killed writers left goes with it.
    """
    drop_superseded(folder)
    for old in steps_in(folder)[:-keep]:
        if old != best and old not in judged and (every is None or old % every):
            _discard(path_of(folder, old))
    for leftover in folder.glob(f"step-*{TEMPORARY}*"):
        remove(leftover)


def drop_superseded(folder: Path) -> None:
    """Remove what did not come to take the place of another, or was left in it."""
    for newer in folder.glob(f"step-*{NEXT}"):
        older = newer.with_name(newer.name.removesuffix(NEXT))
        if STEP.fullmatch(newer.name) and os.path.lexists(older):
            remove(newer)


def names_aside(folder: Path, step: int) -> dict[str, str]:
    """The checkpoints after `step`, oldest first, each with a free name to be kept under; what did not come to take the
    place of one goes before it."""
    both = [folder / f"step-{later}{end}" for later in steps_in(folder) if later > step for end in (NEXT, "")]
    return {path.name: _name_aside(path) for path in both if os.path.lexists(path)}


def _name_aside(path: Path) -> str:
    names = (f"{path.name}{ASIDE}{n or ''}" for n in range(10_000))
    return next(name for name in names if not os.path.lexists(path.with_name(name)))


def put_back(folder: Path, aside: Any) -> None:
    """Give those that were set aside their names again. aside: as `names_aside` has told, if nobody has edited it."""
    for name, kept in aside.items() if isinstance(aside, Mapping) else ():
        is_one = STEP.fullmatch(name) and str(kept).startswith(name) and _ASIDE_NAME.fullmatch(str(kept)[len(name) :])
        if is_one and os.path.lexists(folder / kept) and not os.path.lexists(folder / name):
            move(folder / kept, folder / name)
            sync(folder)
