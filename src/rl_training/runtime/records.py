"""One of a run's files of records: a line of JSON for every log interval or evaluation.

A checkpoint says how many lines there were before it and what their bytes add up to, so that a run that goes on from it
notices what was done to them in between. The records are no part of what is trained: what is gone is said, not refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from rl_training.errors import CheckpointError
from rl_training.paths import require_plain
from rl_training.wording import WARNING, amount

OFFLINE_EVALUATIONS = "offline_evaluations"  # the kind that people add, without an environment
ASIDE = ".aside"  # in the name of what a run went back behind, or went on without
_SHOWN_GAPS = 3


class Records:
    """Reads and writes one file. What the system refuses is raised as it is.

    once: training wrote it, one record for a step and in their order. What people add when they like, of one checkpoint
    several times or of an older one last, stays as it is.
    """

    def __init__(self, file: Path, *, once: bool = True) -> None:
        self.file = file
        self._once = once
        self._lines = 0
        self._sum = hashlib.sha256()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record: one whole line, in one write, so that a reader never sees half of it."""
        line = (json.dumps(record) + "\n").encode()
        with self.file.open("ab", buffering=0) as file:
            written = file.write(line)
            while written < len(line):  # a disk that is nearly full takes a part; the next call says so
                written += file.write(line[written:])
        self._count(line)

    def drop_torn_line(self) -> None:
        """Forget what a crash left of a last line, so that the next one does not stand behind it."""
        with suppress(FileNotFoundError), self.file.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)

    def read(self) -> list[dict[str, Any]]:
        """Every complete record (a line cut short by a crash is not one)."""
        found = []
        for number, line in enumerate(self._whole_lines(), start=1):
            record = _parsed(line)
            if record is None:
                raise CheckpointError(f"{self.file}: line {number} is damaged")
            found.append(record)
        return found

    def tally(self) -> dict[str, Any]:
        """How many lines this process knows of, and the SHA-256 of them all."""
        return {"lines": self._lines, "sha256": self._sum.hexdigest()}

    def up_to(self, step: int, told: Mapping[str, Any] | None) -> tuple[bytes, str | None]:
        """What the file has to hold for a run to go on from `step`, and a warning where that is not what was written.

        told: the tally of that moment. Lines that are doubled or out of order are put right; of two that say different
        things of one step both are kept.
        """
        require_plain(self.file)
        found = [(line + b"\n", _parsed(line)) for line in self._whole_lines()]
        kept = [(record["step"], line) for line, record in found if record is not None and record["step"] <= step]
        mended = sorted(dict.fromkeys(kept), key=lambda entry: entry[0]) if self._once else kept
        self._lines, self._sum = 0, hashlib.sha256()
        for _, line in mended:
            self._count(line)
        whole = b"".join(line for _, line in mended)
        if told is None or self.tally() == told:
            damaged = told is None and len([1 for _, record in found if record is None])
            disorder = _disorder(kept) if self._once else None
            what = f"{amount(damaged, 'line')} could not be read" if damaged else disorder
        elif self._lines == told["lines"]:
            what = f"the records up to step {step} are not those that were written"
        else:
            what = f"{self._lines} of the {told['lines']} records up to step {step} are there{_gaps(mended)}"
        return whole, None if what is None else f"{WARNING}{self.file}: {what}"

    def set_aside(self) -> Path:
        """Keep the file as it is under another name, beside the one that is written anew."""
        names = (self.file.with_name(f"{self.file.name}{ASIDE}{n or ''}") for n in range(10_000))
        aside = next(name for name in names if not os.path.lexists(name))
        shutil.copyfile(self.file, aside)
        return aside

    def _count(self, line: bytes) -> None:
        self._lines += 1
        self._sum.update(line)

    def _whole_lines(self) -> list[bytes]:
        return self.file.read_bytes().split(b"\n")[:-1] if self.file.is_file() else []


def are_tallies(values: Any) -> bool:
    """Whether a checkpoint can have said this of its run's records."""
    return isinstance(values, dict) and all(
        isinstance(tally, dict)
        and tally.keys() == {"lines", "sha256"}
        and type(tally["lines"]) is int
        and tally["lines"] >= 0
        and isinstance(tally["sha256"], str)
        for tally in values.values()
    )


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The record in a line, if it is one."""
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and type(record.get("step")) is int else None


def _disorder(kept: Sequence[tuple[int, bytes]]) -> str | None:
    """What was wrong with lines that are all there."""
    doubled = [step for step, count in Counter(step for step, _ in kept).items() if count > 1]
    if doubled:
        many = amount(len(doubled), "record")
        differ = len(set(kept)) > len({step for step, _ in kept})
        what = "with other values; all are kept" if differ else "which is put right"
        return f"{many} stood there more than once (the first of step {doubled[0]}), {what}"
    is_ordered = all(one <= other for (one, _), (other, _) in pairwise(kept))
    return None if is_ordered else "records were out of order, which is put right"


def _gaps(kept: Sequence[tuple[int, bytes]]) -> str:
    """Where steps are further apart than they mostly are: `; none between step 20 and 60`."""
    steps = [0, *(step for step, _ in kept)]
    if len(steps) < 3:
        return ""
    usual = Counter(other - one for one, other in pairwise(steps)).most_common(1)[0][0]
    gaps = [f"step {one} and {other}" for one, other in pairwise(steps) if other - one > usual]
    more = f" and {len(gaps) - _SHOWN_GAPS} more" if len(gaps) > _SHOWN_GAPS else ""
    return f"; none between {', '.join(gaps[:_SHOWN_GAPS])}{more}" if gaps else ""
