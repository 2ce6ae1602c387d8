"""Where data come from: which file, and what was said on how it is read. Files that are written keep it, as that is
applied in them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from rl_training import __version__
from rl_training.data.fields import FIELD_OF
from rl_training.data.kept_reasons import pack, unpack
from rl_training.option_words import NAMED_ALONE
from rl_training.paths import in_shell, is_there
from rl_training.reading_choices import Period, is_said
from rl_training.time_features import names_of
from rl_training.validation import printable

KEY = "provenance"  # in the metadata of a file
_PROGRAM = "rl-training"
_LONGEST = 2_000  # characters of a name
_MOST_BYTES = 32_768  # HDF5 has no place for more than twice as many
_MOST_LISTED = 12  # names of an option
_OF_REWARDS = ("rewards_are", "rewards_at", "at_termination")  # options
_DRAWN = re.compile(r"(?:all but|set aside:) ([\d.e-]+) of the episodes, drawn with seed (\d+)")
_DEEPEST = 8  # files that were made from one another


@dataclass(frozen=True)
class Provenance:
    """source: the name of the file that was read, with the SHA-256 of its bytes where it was taken. options: what was
    said on how it is read, by the keys of a `dataset:` section. part: which of its episodes these are, in words.
    before: what the file itself says of where it comes from. others: the way from its folder to the file with the other
    episodes. reasons: why each of its episodes ended, where that is known."""

    source: str | None = None
    sha256: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None
    before: Provenance | None = None
    program: str = f"{_PROGRAM} {__version__}"
    others: str | None = None
    reasons: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, source: str, said: Mapping[str, Any], before: Provenance | None, sha256: str | None = None
    ) -> Provenance:
        """Of a file that is read so; what is not said in `said` is left out."""
        return cls(source, sha256, {name: choice for name, choice in said.items() if is_said(choice)}, None, before)

    def says(self, option: str) -> bool:
        """Whether the option is applied in the data."""
        return option in self.applied()

    def applied(self) -> dict[str, Any]:
        """What was said on how the data are read, at whichever stage, the latest word where there are several."""
        return ({} if self.before is None else self.before.applied()) | dict(self.options)

    def stages(self) -> Iterator[Mapping[str, Any]]:
        """What was said at every stage, the first file's first."""
        if self.before is not None:
            yield from self.before.stages()
        yield self.options

    @property
    def tells_of_rewards(self) -> bool:
        """Whether anything was said on how they are read, at any stage."""
        return any(name in said for said in self.stages() for name in _OF_REWARDS)

    @property
    def origin(self) -> str | None:
        """The name of the file that all was made from, as far as it is told."""
        return (None if self.before is None else self.before.origin) or self.source

    def time_columns(self) -> dict[str, str]:
        """Observed values that were computed from the dates of a column, with its name, as far as it is told."""
        said = self.applied()
        periods, columns = said.get("observe_time"), said.get("columns")
        step = columns.get("step") if isinstance(columns, Mapping) else None
        known = [period for period in get_args(Period) if isinstance(periods, list | tuple) and period in periods]
        return dict.fromkeys(names_of(known), step if isinstance(step, str) else "step")

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without what is not known."""
        before = None if self.before is None else self.before.to_json()
        known: dict[str, Any] = {"program": self.program, "source": self.source, "sha256": self.sha256}
        known |= {"options": dict(self.options) or None, "part": self.part, "others": self.others, "before": before}
        known |= {"reasons": pack(self.reasons)}
        return {name: value for name, value in known.items() if value is not None}

    def reasons_kept(self) -> tuple[str, ...] | None:
        """Why each episode ended, by the latest stage that tells."""
        before = None if self.before is None else self.before.reasons_kept()
        return before if self.reasons is None else self.reasons

    def text(self) -> str:
        """As a file keeps it, reasons and its oldest stages left out where it would be too long."""
        made = json.dumps(
            self.to_json(), default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
        )
        if len(made) > _MOST_BYTES and self.reasons is not None:
            return replace(self, reasons=None).text()
        if len(made) <= _MOST_BYTES or self.before is None:
            return made
        return replace(self, before=None).text()

    @classmethod
    def read(cls, told: Any, deep: int = _DEEPEST) -> Provenance | None:
        """What a file tells, if a file of this package can tell it: JSON, or its text in any form."""
        told = told.item() if isinstance(told, np.ndarray | np.generic) and told.shape == () else told
        if isinstance(told, str | bytes) and len(told) <= 2 * _MOST_BYTES:
            try:
                told = json.loads(told)
            except (ValueError, RecursionError):
                return None
        if not isinstance(told, Mapping) or not _is_text(told.get("program")) or not deep:
            return None
        texts = {name: told.get(name) for name in ("source", "sha256", "part", "others")}
        options = told.get("options", {})
        if not told["program"].startswith(_PROGRAM) or not isinstance(options, Mapping):
            return None
        if not all(value is None or _is_text(value) for value in texts.values()) or not all(map(_is_text, options)):
            return None
        before = cls.read(told.get("before"), deep - 1)
        ends = unpack(told.get("reasons"))
        return cls(**texts, options=dict(options), before=before, program=told["program"], reasons=ends)

    def split(self) -> Provenance | None:
        """The latest stage of which these data are a part; none if they are whole."""
        before = None if self.before is None else self.before.split()
        return self if self.part is not None else before

    def drawn(self) -> tuple[str, str] | None:
        """Which share was set aside, and with which seed it was drawn; none of what is no part of a split."""
        found = _DRAWN.fullmatch(self.part or "")
        return None if found is None else (found[1], found[2])

    def in_words(self) -> str | None:
        """`log.csv (SHA-256 0123456789ab…), read with rewards_are: costs; …`; none where no file is named."""
        earlier = None if self.before is None else self.before.in_words()
        if self.source is None:
            return earlier
        digest = f" (SHA-256 {printable(self.sha256[:12])}…)" if self.sha256 else ""
        told = f"{printable(self.source)}{digest}" + (f", read {_choices(self.options)}" if self.options else "")
        told += f"; {printable(self.part)}" if self.part else ""
        return told + (f"; that is made from {earlier}" if earlier else "")


def set_aside(made: Provenance | None, path: Any) -> list[str]:
    """`--data FILE` for `evaluate --offline`, with the episodes that are not among these; nothing if the data are
    whole. path: where they lie, if in a file."""
    split = None if made is None else made.split()
    if split is None:
        return []
    place = None if path is None or split.others is None else Path(path).parent / split.others
    if place is None or not is_there(place):
        return ["--data", "FILE_SET_ASIDE"]
    with suppress(OSError, ValueError):  # the working folder is gone; or it is another than theirs
        place = place.relative_to(Path.cwd())
    return ["--data", in_shell(place)]


def other_rewards(one: Provenance, other: Provenance) -> str | None:
    """How rewards of one differ from those of the other, trained on, by what was said on reading both; none if they do
    not. Columns count where both name them: what is found by its name may be the same."""
    both = all(any(reward_columns(stage.get("columns")) for stage in data.stages()) for data in (one, other))
    ours, theirs = (list(_of_rewards(data, columns=both)) for data in (one, other))
    if ours == theirs:
        return None
    read, trained = (", then ".join(map(_choices, stages or [{}])) for stages in (ours, theirs))
    return f"rewards are read {read}, and those trained on {trained}"


def _of_rewards(data: Provenance, *, columns: bool) -> Iterator[dict[str, Any]]:
    """What was said on rewards, at every stage, the first file's first; also which columns they are, if these count."""
    for options in data.stages():
        said = {name: value for name, value in options.items() if name in _OF_REWARDS}
        if columns and (named := reward_columns(options.get("columns"))):
            said = {"columns": {"rewards": sorted(named, key=lambda name: (name.startswith("-"), name))}} | said
        if said:
            yield said


def reward_columns(columns: Any) -> list[str]:
    """What a mapping of columns names for the rewards, each with its sign and number; nothing if it names none."""
    found = columns if isinstance(columns, Mapping) else {}
    given = next((value for key, value in found.items() if FIELD_OF.get(key) == "rewards"), ())
    words = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else []
    if not all(isinstance(word, str) and word.strip() for word in words):
        return []
    return [f"-{word.strip()[1:].lstrip()}" if word.strip().startswith("-") else word.strip() for word in words]


def _choices(options: Mapping[str, Any]) -> str:
    said = ", ".join(f"{_key(name)}: {_value(value)}" for name, value in options.items())
    return f"with {said}" if said else "as they stand"


def _key(name: str) -> str:
    """The name of an option, or what else a file has in its place."""
    return name if name in NAMED_ALONE else printable(name)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST


def _value(value: Any) -> str:
    """An option as it is read: `(obs: x, y; rewards: cost)` of one with parts."""
    if not isinstance(value, Mapping):
        return _plain(value)
    return f"({'; '.join(f'{_key(str(name))}: {_listed(part)}' for name, part in value.items())})"


def _listed(part: Any) -> str:
    if not isinstance(part, list | tuple):
        return _plain(part)
    more = f" and {len(part) - _MOST_LISTED} more" if len(part) > _MOST_LISTED else ""
    return ", ".join(map(_plain, part[:_MOST_LISTED])) + more


def _plain(value: Any) -> str:
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def digest_of(path: Path, files: Iterable[Path] = ()) -> str | None:
    """SHA-256 of a file's bytes, or of the names and bytes of those `files` of a folder that are its data; none where
    it cannot be read."""
    try:
        if not path.is_dir():
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        whole = hashlib.sha256()
        for entry in sorted(files):
            whole.update(f"{entry.relative_to(path).as_posix()}\0{digest_of(entry)}\n".encode())
        return whole.hexdigest()
    except OSError:
        return None


def as_costs(section: Any, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What was said on reading, as `readings` has it, wherever it made costs rewards; nothing where that was done an
    even number of times, so that rewards have the sign of the user's file."""
    said = [choices for choices in readings(section, facts) if choices.get("rewards_are") == "costs"]
    return said if len(said) % 2 else []


def readings(section: Any, facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What was said on reading, the newest first. section: a run's `dataset:`, of a mixture its first part; facts: what
    run.json says of the data."""
    while isinstance(section, Mapping) and isinstance(parts := section.get("parts"), list) and parts:
        section = parts[0].get("dataset") if isinstance(parts[0], Mapping) else None
    if isinstance(section, Mapping):
        yield section
    made = Provenance.read(facts.get(KEY))
    while made is not None:
        yield made.options
        made = made.before
