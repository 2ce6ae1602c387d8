"""One of a run's files of records: a line of JSON for every log interval or evaluation.

A checkpoint says how many lines there were before it and what their bytes add up to, so that a run that goes on from it
notices what was done to them in between. The records are no part of what is trained: what is gone is said, not refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from rl_training.data.formats.atomic import sync
from rl_training.errors import CheckpointError
from rl_training.paths import open_plain, require_plain
from rl_training.run_places import TEMPORARY
from rl_training.validation import is_count
from rl_training.wording import WARNING, amount

OFFLINE_EVALUATIONS = "offline_evaluations"  # the kind that people add, without an environment
ASIDE = ".aside"  # in the name of what a run went back behind, or went on without
EVALUATION_METRICS = ("return_mean", "return_std", "return_min", "return_max", "length_mean")  # by seed
LONGEST_LINE = 2**24  # bytes; thousands of seeds fill one
_CHUNK = 2**20  # bytes read at a time
_MOST_DAMAGED = 1_000  # lines; a file with more is no file of records, and reading all of it could take minutes
_SHOWN_GAPS = 3


def entries(file: Path) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """Number and bytes of each whole line that is not blank, and its record if it is one; none where there is no file.

    What follows a line longer than any record, or many that are damaged, is not read.
    """
    damaged = 0
    for number, line in _lines(file) if file.is_file() else ():
        record = None if len(line) > LONGEST_LINE else _parsed(line)
        damaged += record is None
        yield number, line, record
        if damaged > _MOST_DAMAGED or len(line) > LONGEST_LINE:
            return


def fault(line: bytes) -> str:
    """What is wrong with a line that is no record."""
    return "is damaged" if len(line) <= LONGEST_LINE else f"is longer than any record ({LONGEST_LINE:,} bytes)"


_OF_MODELS = ("foretold_by_the_model", "ends_foretold_by_the_model")  # which may have foretold nothing


def is_evaluation(record: Mapping[str, Any]) -> bool:
    """Whether a record is what an evaluation writes: a number of each kind for each of its seeds."""
    seeds, episodes = record.get("seeds"), record.get("episodes")
    if not isinstance(seeds, list) or not seeds or type(episodes) is not int or episodes < 1:
        return False
    if not all(type(seed) is int for seed in seeds) or len(set(seeds)) < len(seeds):
        return False
    values = [record.get(name) for name in EVALUATION_METRICS]
    return all(isinstance(each, list) and len(each) == len(seeds) and all(map(_is_number, each)) for each in values)


def is_estimate(record: Mapping[str, Any]) -> bool:
    """Whether a record is what an evaluation without a simulator writes, as far as others read it."""
    seeds, policies = record.get("seeds"), record.get("policies")
    if not (isinstance(seeds, list) and isinstance(policies, list) and len(seeds) == len(policies)):
        return False
    data, texts = record.get("data"), record.get("cautions")
    numbers = [record.get(name) for name in ("gamma", "updates", "repeats", "level")]
    numbers += [found for name in _OF_MODELS if (found := record.get(name)) is not None]
    return (
        all(type(seed) is int for seed in seeds)
        and all(map(_is_number, numbers))
        and isinstance(record.get("behaviour"), Mapping)
        and isinstance(data, Mapping)
        and isinstance(data.get("title"), str)
        and _are_texts(texts)
        and all(isinstance(policy, Mapping) and _is_estimated(policy) for policy in policies)
    )


def _is_estimated(policy: Mapping[str, Any]) -> bool:
    value, gain = policy.get("value", ""), policy.get("improvement", "")
    if not all(found is None or _is_interval(found) for found in (value, gain)):
        return False
    probable = gain is None or _is_number(gain.get("probability"))
    return probable and _are_texts(policy.get("not_trusted_because"))


def _is_interval(found: Any) -> bool:
    """A number between two others, which may be missing."""
    ends = [found.get(end) for end in ("low", "high")] if isinstance(found, Mapping) else []
    return bool(ends) and _is_number(found.get("value")) and all(end is None or _is_number(end) for end in ends)


def _are_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


class Records:
    """Reads and writes one file. What the system refuses is raised as it is.

    once: training wrote it, one record for a step and in their order. What people add when they like, of one checkpoint
    several times or of an older one last, stays as it is. is_sound: what a record has to be besides one with a step.
    """

    def __init__(
        self, file: Path, *, once: bool = True, is_sound: Callable[[Mapping[str, Any]], bool] = lambda _: True
    ) -> None:
        self.file = file
        self._once = once
        self._is_sound = is_sound
        self._lines = 0
        self._sum = hashlib.sha256()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record: one whole line, in one write, so that a reader never sees half of it."""
        line = (json.dumps(record) + "\n").encode()
        self._unshare()
        with open(self.file, "ab", buffering=0, opener=open_plain) as file:
            written = file.write(line)
            while written < len(line):  # a disk that is nearly full takes a part; the next call says so
                written += file.write(line[written:])
        self._count(line)

    def append_late(self, record: Mapping[str, Any]) -> None:
        """The same where nobody trains, and several processes may add: what a crash left of a last line goes, so that
        the next one does not stand behind it."""
        with self.alone() as file:
            file.truncate(_end_of_lines(file))
            self.append(record)

    @contextmanager
    def alone(self) -> Iterator[FileIO]:
        """The file, where nobody trains and others may want to change it: one after another."""
        while True:
            with open(self.file, "a+b", buffering=0, opener=open_plain) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.path.samestat(os.fstat(file.fileno()), self.file.stat()):  # else another was put in its place
                    yield file
                    return

    def _unshare(self) -> None:
        """A copy of the run that was made with hard links keeps its records as they are: from here on they differ."""
        if not self.file.is_file() or self.file.is_symlink() or self.file.stat().st_nlink == 1:
            return
        own = self.file.with_name(f".{self.file.name}{TEMPORARY}{os.getpid()}")
        shutil.copyfile(self.file, own)
        sync(own)  # or a crash could leave nothing under the name
        own.replace(self.file)

    def without(self, is_meant: Callable[[Mapping[str, Any]], bool]) -> tuple[int, bytes]:
        """How many records are meant, and what the file would hold if they were left out; damaged lines stay."""
        found = [(line + b"\n", record is not None and is_meant(record)) for _, line, record in entries(self.file)]
        return sum(meant for _, meant in found), b"".join(line for line, meant in found if not meant)

    def read(self) -> list[dict[str, Any]]:
        """Every complete record (a line cut short by a crash is not one)."""
        found = []
        for number, line, record in entries(self.file):
            if record is None or not self._is_sound(record):
                raise CheckpointError(f"{self.file}: line {number} {fault(line)}")
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
        kept, damaged, later = [], 0, 0
        for _, line, record in entries(self.file):
            if record is None or not self._is_sound(record):
                damaged += 1
            elif record["step"] <= step:
                kept.append((record["step"], line + b"\n"))
            else:
                later += 1
        mended = sorted(dict.fromkeys(kept), key=lambda entry: entry[0]) if self._once else kept
        self._lines, self._sum = 0, hashlib.sha256()
        for _, line in mended:
            self._count(line)
        whole = b"".join(line for _, line in mended)
        if told is None or self.tally() == told:
            disorder = _disorder(kept) if self._once else None
            what = f"{amount(damaged, 'line')} could not be read" if damaged and told is None else disorder
        elif self._lines == told["lines"]:
            what = f"the records up to step {step} are not those that were written"
        else:
            what = f"{self._lines} of the {told['lines']} records up to step {step} are there{_gaps(mended)}"
        if what is None and later and not self._once:  # nobody will write them again
            anew = f"of weights after step {step}, which are trained anew"
            return whole, f"{self.file}: {amount(later, 'record')} {'is' if later == 1 else 'are'} {anew}"
        return whole, None if what is None else f"{WARNING}{self.file}: {what}"

    def set_aside(self) -> Path:
        """Keep the file as it is under another name, beside the one that has to be written anew."""
        names = (self.file.with_name(f"{self.file.name}{ASIDE}{n or ''}") for n in range(10_000))
        aside = next(name for name in names if not os.path.lexists(name))
        try:
            os.link(self.file, aside)  # of whatever size: the one that is written anew is another file
        except OSError:
            shutil.copyfile(self.file, aside)
        return aside

    def differ_from(self, whole: bytes, *, shared: bool = False) -> bool:
        """Whether there is a file, and it has to be written anew: it holds something else, or what is added to it would
        stand elsewhere, too. shared: it was set aside, as it is."""
        if not self.file.is_file():
            return False
        elsewhere = shared or self.file.is_symlink()
        return elsewhere or self.file.stat().st_size != len(whole) or self.file.read_bytes() != whole

    def _count(self, line: bytes) -> None:
        self._lines += 1
        self._sum.update(line)


def _end_of_lines(file: FileIO) -> int:
    """Where the last whole line ends."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        begin = file.seek(max(0, end - _CHUNK))
        if (last := file.read(end - begin).rfind(b"\n")) >= 0:
            return begin + last + 1
        end = begin
    return 0


def are_tallies(values: Any) -> bool:
    """Whether a checkpoint can have said this of its run's records."""
    return isinstance(values, dict) and all(
        isinstance(tally, dict)
        and tally.keys() == {"lines", "sha256"}
        and is_count(tally["lines"])
        and isinstance(tally["sha256"], str)
        for tally in values.values()
    )


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line that has an end and is not blank; the beginning of one that is too long, and then
    none."""
    number, rest = 1, b""
    with file.open("rb") as stream:
        while len(rest) <= LONGEST_LINE and (chunk := stream.read(_CHUNK)):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from ((count, line) for count, line in enumerate(lines, start=number) if line and not line.isspace())
            number += len(lines)
    if len(rest) > LONGEST_LINE:
        yield number, rest


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The record in a line, if it is one."""
    if not line.startswith(b"{"):
        return None
    try:
        record = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and type(record.get("step")) is int else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


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
