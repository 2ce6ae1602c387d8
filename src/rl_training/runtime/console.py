"""What a person sees while a run trains: a live line on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from rl_training.runtime.callbacks import Callback
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import Evaluation
from rl_training.wording import notice_line, readable

if TYPE_CHECKING:
    from rl_training.runtime.loop import Loop

PLAIN_SECONDS = 10.0  # at most one plain progress line in this time


def plain_console() -> Console:
    """Standard output that shows paths and names as they are: `[old]` is no style in them, `:x:` no picture."""
    return Console(highlight=False, markup=False, emoji=False)


def progress_bar(console: Console) -> Progress:
    """A live line; its tasks have the fields `unit` and `pace`."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]} · {task.fields[pace]}", markup=False),
        console=console,
        expand=True,
    )


def pace(done: int, left: int, seconds: float) -> str:
    """How fast it goes, from what was `done` in so many seconds, and how long what is `left` will take."""
    rate = done / max(seconds, 1e-9)
    return f"{rate:,.0f}/s · {_clock(left / max(rate, 1e-9))} left"


class ConsoleProgress(Callback):
    """Updates, updates per second, time left, losses, last evaluation."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or plain_console()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._losses = ""
        self._score = ""
        self._began = 0.0
        self._first = 0
        self._printed = 0.0

    def on_start(self, loop: Loop) -> None:
        self._began = self._printed = time.monotonic()
        self._first = loop.progress.steps
        seeds = ", ".join(map(str, loop.config.seeds))
        place = loop.config.env_id or "data alone"
        verb = "continuing" if self._first else "training"
        self.console.print(
            f"{verb} {loop.config.algo} on {place}, seed {seeds}, into {loop.run_directory.path}", soft_wrap=True
        )
        for notice in loop.notices:
            self.console.print(notice_line(notice), soft_wrap=True)
        if self.console.is_terminal:
            self._bar = progress_bar(self.console)
            total, unit = loop.progress.total_steps, loop.progress.unit
            self._task = self._bar.add_task(loop.config.algo, total=total, completed=self._first, pace="", unit=unit)
            self._bar.start()

    def on_progress(self, loop: Loop) -> None:
        if self._bar is not None and self._task is not None:
            details = " · ".join(part for part in (loop.config.algo, self._score, self._losses) if part)
            self._bar.update(
                self._task, completed=loop.progress.steps, pace=self._pace(loop), description=details, refresh=False
            )

    def _pace(self, loop: Loop) -> str:
        progress = loop.progress
        seconds = time.monotonic() - self._began
        return pace(progress.steps - self._first, progress.total_steps - progress.steps, seconds)

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        losses = {name.split("/")[0]: fmean(values) for name, values in metrics.items() if name.endswith("/loss")}
        self._losses = " ".join(f"{name} {value:.3g}" for name, value in losses.items())
        if self._bar is None and time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._line(loop, self._losses)

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        spread = "" if evaluation.returns.shape[1] < 2 else f" ± {readable(evaluation.std)}"
        stopped = ", ".join(str(seed) for seed in loop.config.seeds if seed not in evaluation.seeds)
        self._score = f"return {readable(evaluation.mean)}{spread}{f' without seed {stopped}' if stopped else ''}"
        self._line(loop, " · ".join(part for part in (self._score, self._losses) if part))

    def on_divergence(self, loop: Loop, finding: Divergence) -> None:
        self.console.print(str(finding), soft_wrap=True)

    def _line(self, loop: Loop, text: str) -> None:
        self._printed = time.monotonic()
        done, total = loop.progress.steps, loop.progress.total_steps
        self.console.print(f"{done:>9,}/{total:,} {loop.progress.unit} · {self._pace(loop)} · {text}", soft_wrap=True)

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        """Checkpoints are frequent and quiet; the end of the run names the last one."""

    def on_end(self, loop: Loop) -> None:
        if self._bar is not None:
            self.on_progress(loop)
            self._bar.stop()
            self._bar = None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
