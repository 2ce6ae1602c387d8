"""Where a file has what was found in its arrays."""

from __future__ import annotations

from dataclasses import replace

from rl_training.data.doctor.findings import Finding, Place
from rl_training.data.formats import RawData


def in_file(raw: RawData, finding: Finding) -> Place:
    """The file's own row, and its names of the column and the episode."""
    place = finding.place
    if place.row is None:
        return place
    told = place.column is not None or len(raw.columns.get(finding.field, ())) == 1
    name = raw.column_in_file(finding.field, place.column) if told else None
    row, file = raw.row_in_file(place.row)
    return replace(place, row=row, file=file, column_name=name, episode_id=raw.episode_name(place.row))
