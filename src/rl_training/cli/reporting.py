"""`rl-training report`: one page on one or several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rl_training.cli.other_data import read_as_the_runs
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import size
from rl_training.data.dataset_loaders import DatasetConfig
from rl_training.errors import ConfigError, RLTrainingError
from rl_training.experiment.report import write_report
from rl_training.experiment.report.saying import by_line, names_of_runs
from rl_training.experiment.report.writing import ENDINGS
from rl_training.paths import in_shell
from rl_training.run_places import find_run, run_folders
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.run_description import read_plain_config
from rl_training.runtime.run_directory import RunDirectory
from rl_training.wording import WARNING, amount


def report(
    runs: Sequence[Path],
    output: Path,
    held_out: str | None,
    which: str,
    *,
    no_data: bool,
    title: str | None,
    force: bool,
) -> None:
    """Write the page, and say what is on it and what is wrong with the runs."""
    if page := next((run for run in runs if run.suffix in ENDINGS and not run.is_dir()), None):
        raise ConfigError(f"{page}: is no run; the page to write is named by -o: -o {in_shell(page)}")
    places = [find_run(run) for run in runs]
    for place in places:
        if not (place.is_dir() or run_folders(place.parent)):
            RunDirectory.open(place)  # raises, and says what to do first
    with read_as_the_runs("--held-out", held_out, _own_data(places)):
        shown = write_report(
            places,
            output,
            held_out=held_out,
            which=int(which) if which.isdecimal() and which.isascii() and len(which) < 19 else which,
            with_data=not no_data,
            title=title,
            force=force,
        )
    for run in shown:
        for fault in run.faults:
            tell(f"note: {fault}", err=True)
        if run.summary.status == "running":
            tell(f"note: {run.label} is still running; --force writes the page anew when it is done", err=True)
    for doubt, those in by_line(shown, [run.doubts for run in shown]).items():
        names = f"{names_of_runs(those, len(shown))}: " if len(shown) > 1 else ""
        tell(f"{WARNING}{names}{doubt}", err=True)
    tell(f"{output}: {amount(len(shown), 'run')}, {size(output.stat().st_size)}; open it in a browser")


def _own_data(places: Sequence[Path]) -> Iterator[DatasetConfig | None]:
    """The data that runs were trained on, of those whose configuration can be read."""
    for place in places:
        with suppress(RLTrainingError, OSError, ValueError):
            yield TrainConfig.parse(dict(read_plain_config(place))).dataset
