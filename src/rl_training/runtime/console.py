"""What a person sees while a run trains: a live area on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from rl_training.plain_console import plain_console
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.display import RunView, clock, score
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.live_area import LiveArea, can_be_live
from rl_training.wording import notice_line

if TYPE_CHECKING:
    from rl_training.runtime.loop import Loop

_NO_SCORES = (
    "losses are no scores, and may grow as the policy gets better; `evaluate --offline` estimates how good it is"
)
PLAIN_SECONDS = 10.0  # at most one plain progress line in this time


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
    return f"{rate:,.0f}/s · {clock(left / max(rate, 1e-9))} left"


class ConsoleProgress(Callback):
    """Updates, updates per second, time left, losses, evaluations, checkpoints.

    verbose: a lasting line for every metric record, evaluation and checkpoint, on a terminal, too.
    """

    looks_at_learner = False

    def __init__(self, console: Console | None = None, *, verbose: bool = False) -> None:
        self.console = console or plain_console()
        self.verbose = verbose
        self.view = RunView(is_ascii=self.console.options.ascii_only)
        self._area: LiveArea | None = None
        self._printed = 0.0

    def on_start(self, loop: Loop) -> None:
        self._printed = time.monotonic()
        self.view.start(loop)
        seeds = ", ".join(map(str, loop.config.seeds))
        place = loop.config.env_id or "data alone"
        verb = "continuing" if loop.progress.steps else "training"
        self._say(f"{verb} {loop.config.algo} on {place}, seed {seeds}, into {loop.run_directory.path}")
        if loop.config.env_id is None and verb == "training":
            self._say(f"note: {_NO_SCORES}")
        for notice in loop.notices:
            self._say(notice_line(notice))
        if can_be_live(self.console):
            self._area = LiveArea(self.console, self.view.draw)
            self._area.start()

    def on_progress(self, loop: Loop) -> None:
        self.view.advance(loop)

    def on_metrics(self, loop: Loop, metrics: Mapping[str, list[float]]) -> None:
        self.view.advance(loop)
        self.view.saw_metrics(metrics)
        if self.verbose:
            self._line(loop, *(f"{name} {fmean(values):.4g}" for name, values in metrics.items()))
        elif self._area is None and time.monotonic() - self._printed >= PLAIN_SECONDS:
            self._line(loop, *self.view.loss_words())

    def on_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        self.view.saw_evaluation(loop, evaluation)
        if self.verbose or self._area is None:
            stopped = ", ".join(map(str, self.view.stopped))
            words = [f"return {score(evaluation)}{f' without seed {stopped}' if stopped else ''}"]
            words += self.view.score_words()[1:]
            if self.verbose and len(evaluation.seeds) > 1:
                words.append(f"seeds {', '.join(self.view.seed_words())}")
            self._line(loop, *words, *(() if self.verbose else self.view.loss_words()))

    def on_divergence(self, loop: Loop, finding: Divergence) -> None:
        self._say(str(finding))

    def on_checkpoint(self, loop: Loop, path: Path) -> None:
        """Checkpoints are frequent and quiet: the live area names the last one, and so does the end of the run."""
        self.view.saw_checkpoint(path)
        if self.verbose:
            self._say(f"checkpoint {path}")

    def on_end(self, loop: Loop) -> None:
        self.view.advance(loop)
        self.view.ended = time.monotonic()
        if self._area is not None:
            self._area.stop()
            self._area = None

    def _line(self, loop: Loop, *words: str) -> None:
        self._printed = time.monotonic()
        self.view.advance(loop)
        done, total = loop.progress.steps, loop.progress.total_steps
        self._say(" · ".join([f"{done:>9,}/{total:,} {loop.progress.unit}", *self.view.pace()[:2], *words]))

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)
