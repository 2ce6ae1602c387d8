"""From run directories to a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rl_training import __version__
from rl_training.data.doctor.wording import listed
from rl_training.data.formats.names import first_of
from rl_training.errors import CheckpointError, ConfigError, did_you_mean
from rl_training.experiment.output_file import require_place, write_output
from rl_training.experiment.report.contents import RunContents, read_runs
from rl_training.experiment.report.datasets import Shelf, data_title, examine
from rl_training.experiment.report.page import Contents, page
from rl_training.experiment.run_listing import differing_values
from rl_training.harmless import for_page
from rl_training.run_places import is_run, run_folders
from rl_training.wording import A_REPORT_IS_HTML, amount

ENDINGS = (".html", ".htm")
_MOST_NAMED = 4  # runs in a title


def write_report(
    paths: Sequence[Path],
    output: Path,
    *,
    held_out: str | None = None,
    which: str | int = "last",
    with_data: bool = True,
    title: str | None = None,
    force: bool = False,
) -> list[RunContents]:
    """Write the page on these runs, whole or not at all, and return what was read of them.

    held_out: a file or minari:ID, read as a run reads its own data. force: replace a file that exists.
    """
    if not paths:
        raise ConfigError("report: name at least one run")
    for path in paths:
        if not is_run(path.absolute()):
            raise CheckpointError(f"{path}: {_not_a_run(path)}")
    if output.suffix.lower() not in ENDINGS and not output.is_dir():
        raise ConfigError(f"--output {output}: {A_REPORT_IS_HTML}")
    require_place(output, force=force)
    if held_out is not None and not with_data:
        raise ConfigError("--held-out: needs the data, which --no-data leaves closed; choose one of them")
    runs = read_runs(paths, which)
    shelf = Shelf(held_out) if with_data else None
    if shelf is not None:
        shelf.require_held_out(runs)
    data, diagnostics = examine(runs, shelf, which)
    of_checkpoints = [(found.by_heart, found.doubts) for found in diagnostics] or [((), ())] * len(runs)
    counted = {number: tuple(one.end for one in found.reasons) for found in data for number in found.runs}
    runs = [
        replace(
            run,
            doubts=(*run.training_doubts, *by_heart, *own),
            by_heart=by_heart,
            counted_ends=counted.get(run.number, ()),
        )
        for run, (by_heart, own) in zip(runs, of_checkpoints, strict=True)
    ]
    sound = [run for run in runs if run.config]
    written = time.strftime("%Y-%m-%d %H:%M %Z")
    about = f"Written {written} by rl-training {__version__}; {amount(len(runs), 'run')}."
    made = page(
        Contents(title or _title(runs), about, runs, data, diagnostics, differing_values([r.config for r in sound]))
    )
    write_output(output, for_page(made), force=force)
    return runs


def _title(runs: Sequence[RunContents]) -> str:
    labels = [run.label for run in runs]
    names = listed(labels if len(labels) <= _MOST_NAMED else [*labels[:3], f"{len(labels) - 3} more"])
    places = {run.summary.env_id for run in runs}
    if len(places) == 1 and None not in places:
        return f"{names} in {places.pop()}"
    return f"{names}: {runs[0].summary.algo} on {data_title(runs[0])}" if len(runs) == 1 and runs[0].config else names


def _not_a_run(path: Path) -> str:
    """What is wrong with a path, and the runs that were perhaps meant."""
    if not path.is_dir():
        return f"no such run{did_you_mean(path.name, [run.name for run in run_folders(path.parent)])}"
    inside = [str(run) for run in run_folders(path)]
    return "holds no run (no run.json)" + (f"; name those inside it: {first_of(inside)}" if inside else "")
