"""`rl-training report`: one page on one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rl_training.cli.telling import tell
from rl_training.cli.text_tables import size
from rl_training.experiment.continuing import find_run
from rl_training.experiment.report import write_report
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
    shown = write_report(
        [find_run(run) for run in runs],
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
    for doubt in dict.fromkeys(doubt for run in shown for doubt in run.doubts):
        tell(f"{WARNING}{doubt}", err=True)
    tell(f"{output}: {amount(len(shown), 'run')}, {size(output.stat().st_size)}; open it in a browser")
