"""`rl-training evaluate --offline --forget`: stored estimates of runs are dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_training.cli.given_options import refuse
from rl_training.cli.next_estimates import AskedOffline
from rl_training.cli.telling import tell
from rl_training.data.formats.names import first_of
from rl_training.errors import ConfigError
from rl_training.experiment.offline_data import fingerprint_of
from rl_training.paths import resolved
from rl_training.run_places import find_run
from rl_training.runtime.records import OFFLINE_EVALUATIONS
from rl_training.runtime.run_directory import RunDirectory
from rl_training.validation import printable
from rl_training.wording import amount

_IsMeant = Callable[[Mapping[str, Any]], bool]


def forget(runs: Sequence[Path], asked: AskedOffline, *, as_json: bool) -> None:
    """Drop what was stored of every run, on all data or on those asked for; the file is kept as it was beside it."""
    of_fits = {
        "--updates": asked.updates,
        "--repeats": asked.repeats,
        "--gamma": asked.gamma,
        "--which": None if asked.which == "last" else asked.which,
        "--seeds": asked.members,
        "--stochastic": asked.stochastic or None,
        "--json": as_json or None,
    }
    refuse(of_fits, "is for an estimate, and --forget makes none; leave it out")
    on = "" if asked.data is None else f" on {asked.data}"
    found = {run: RunDirectory.open(find_run(run)) for run in runs}
    meant = {run: _meant(directory, asked.data) for run, directory in found.items()}
    for run, directory in found.items():
        records = directory.sound_records(OFFLINE_EVALUATIONS)
        if not any(map(meant[run], records)):
            titles = dict.fromkeys(printable(_title(record)) for record in records)
            others = f" (there are some on {first_of(titles)})" if titles else ""
            raise ConfigError(f"{run}: has no stored estimate{on} to forget{others}; nothing was changed")
    for run, directory in found.items():
        count, kept = directory.forget(OFFLINE_EVALUATIONS, meant[run])
        tell(f"{run}: forgot {amount(count, 'estimate')}{on}; the records as they were: {kept}")


def _meant(directory: RunDirectory, data: str | None) -> _IsMeant:
    """Whether an estimate of a run is on these data. A name alone stands for what was stored under it; a path for the
    data that lie there now, and where they cannot be read, for itself."""
    if data is None:
        return lambda record: True
    is_name = Path(data).name == data
    now = None if is_name else fingerprint_of(directory.config(), data)

    def is_meant(record: Mapping[str, Any]) -> bool:
        then = _data(record).get("fingerprint")
        if now is not None and then is not None:
            return bool(now == then)
        return _title(record) == data or resolved(Path(_title(record))) == resolved(Path(data))

    return is_meant


def _data(record: Mapping[str, Any]) -> Mapping[str, Any]:
    about = record.get("data")
    return about if isinstance(about, Mapping) else {}


def _title(record: Mapping[str, Any]) -> str:
    return str(_data(record).get("title", "")).replace("\0", "")  # which no path has
