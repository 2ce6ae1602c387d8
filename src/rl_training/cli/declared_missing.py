"""Marks that stood for missing values in the data of a policy, `err` or -999: it never met them, and cannot act on
one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_training.data.dataset_loaders import FileDatasetConfig, MixtureDatasetConfig
from rl_training.data.formats.words import as_number
from rl_training.data.provenance import readings
from rl_training.environments import NamedColumn
from rl_training.errors import DataError, RLTrainingError
from rl_training.experiment.manager import LoadedPolicy
from rl_training.runtime.run_directory import run_of
from rl_training.validation import printable
from rl_training.wording import NO_VALUE


def missing_words_of(policy: LoadedPolicy) -> list[str]:
    """That the run was told of, or whoever made the file that it was trained on."""
    facts: Mapping[str, Any] = {}
    with suppress(RLTrainingError, OSError):  # the checkpoint of a run that is gone acts all the same
        run = run_of(policy.place)
        facts = {} if run is None else run.describe().get("dataset") or {}
    words = _of_section(policy.checkpoint.config.dataset)
    for said in readings(None, facts):
        given = said.get("missing_words")
        words += [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return list(dict.fromkeys(words))


def _of_section(section: Any) -> list[str]:
    """For all parts of a mixture."""
    if isinstance(section, MixtureDatasetConfig):
        return [word for part in section.parts for word in _of_section(part.dataset)]
    return list(section.missing_words) if isinstance(section, FileDatasetConfig) else []


def refuse_marks(
    rows: npt.NDArray[Any], columns: Sequence[NamedColumn], missing: Sequence[str], called: Sequence[str]
) -> None:
    """Refuse observations, `[N, O]`, with such a number where it may stand for nothing else. called: each of them, or
    the file of all."""
    marks = [number for word in missing if (number := as_number(word)) is not None]
    if not marks or rows.ndim != 2:
        return
    named = columns if len(columns) == rows.shape[1] else [None] * rows.shape[1]
    for place, column in enumerate(named):
        if column is not None and (column.time or column.words):  # of its own numbers, which are in no file
            continue
        with np.errstate(over="ignore"):
            as_seen = rows[:, place].astype(np.float32), np.array(marks, dtype=np.float32)  # by the policy
        found = np.flatnonzero(np.isin(*as_seen))
        if found.size:
            row = int(found[0])
            what = f"column {place}" if column is None else f"column {printable(column.name)!r}"
            where = what if len(called) == len(rows) else f"row {row}: {what}"
            mark = f"{min(marks, key=lambda mark: abs(mark - float(rows[row, place]))):.12g}"
            said = f"{mark} stands for a missing value in the data it was trained on (missing_words)"
            raise DataError(f"{called[min(row, len(called) - 1)]}: {where}: {said}; {NO_VALUE}")
