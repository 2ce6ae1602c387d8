"""Where a file has what was found in its arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rl_training.data.doctor.findings import Finding, Place
from rl_training.data.doctor.raw_checks import RawFields
from rl_training.data.fields import EPISODE_IDS
from rl_training.data.formats import RawData
from rl_training.validation import printable


def in_file(raw: RawData, fields: RawFields, finding: Finding) -> Place:
    """The file's own row, and its names of the column and the episode."""
    place = finding.place
    if place.row is None:
        return place
    told = place.column is not None or len(raw.columns.get(finding.field, ())) == 1
    name = raw.column_in_file(finding.field, place.column) if told else None
    row, file = raw.row_in_file(place.row)
    return replace(place, row=row, file=file, column_name=name, episode_id=_episode_id(fields, place.row))


def _episode_id(fields: RawFields, row: int) -> str | None:
    """What the file calls the episode of a row; ids that only count from 0 are no names."""
    ids = fields.arrays.get(EPISODE_IDS)
    if ids is None or row >= len(ids):
        return None
    counts = ids.dtype.kind in "iuf" and ids[0] == 0 and bool(np.isin(np.diff(ids), (0, 1)).all())
    return None if counts else printable(str(ids[row]))
