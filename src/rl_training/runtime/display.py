"""What the live display of a run says, in as many columns as there are."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.text import Text

from rl_training.runtime.evaluation import Evaluation
from rl_training.runtime.memory import readable_bytes
from rl_training.wording import readable

if TYPE_CHECKING:
    from rl_training.runtime.loop import Loop

_LABEL = 12  # columns of what stands before a row
_NARROW = 60  # columns below which rows have no label
_SHOWN_LOSSES = 4
_SHOWN_SEEDS = 8
_SHOWN_SCORES = 20
_TREND = "▁▂▃▄▅▆▇█"
_ASCII = str.maketrans({"━": "#", "╸": "#", "─": "-", "·": "|", "±": "~", "…": ".", **dict.fromkeys(_TREND, "")})


@dataclass
class RunView:
    """What is known of a run at the moment; the thread that draws only reads it."""

    algo: str = ""
    unit: str = "updates"
    total: int = 1
    first: int = 0  # where this process began
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    losses: dict[str, float] = field(default_factory=dict)
    scores: list[float] = field(default_factory=list)
    evaluation: Evaluation | None = None
    best: tuple[float, int] | None = None
    checkpoint: tuple[str, float] | None = None
    stopped: Sequence[int] = ()
    ending: str = ""
    ended: float | None = None
    is_ascii: bool = False

    def __post_init__(self) -> None:
        self.updated = self.began

    def start(self, loop: Loop) -> None:
        progress = loop.progress
        self.algo, self.unit, self.total = loop.config.algo, progress.unit, progress.total_steps
        self.first = self.done = progress.steps
        self.began = self.updated = time.monotonic()
        if progress.best is not None:
            self.best = (progress.best["return_mean"], progress.best["step"])

    def advance(self, loop: Loop) -> None:
        self.done, self.updated = loop.progress.steps, time.monotonic()
        self.ending = loop.stop_reason or ""

    def saw_metrics(self, metrics: Mapping[str, list[float]]) -> None:
        """Losses by the network they speak of, as means over seeds."""
        new = {name.split("/")[0]: fmean(values) for name, values in metrics.items() if name.endswith("/loss")}
        self.losses = {**self.losses, **new}  # not changed in place: somebody may be reading it

    def saw_evaluation(self, loop: Loop, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.scores = [*self.scores, evaluation.mean][-_SHOWN_SCORES:]
        best = loop.progress.best
        self.best = None if best is None else (best["return_mean"], best["step"])
        self.stopped = [seed for seed in loop.config.seeds if seed not in evaluation.seeds]

    def saw_checkpoint(self, path: Path) -> None:
        self.checkpoint = (path.name, time.monotonic())

    # In words ---------------------------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Steps a second in this process, up to the last one that was made."""
        return (self.done - self.first) / max(self.updated - self.began, 1e-9)

    def pace(self) -> list[str]:
        """`1,203 updates/s`, `0:08 left`, `0:05 gone`."""
        if self.done == self.first:
            return ["starting", f"{clock((self.ended or time.monotonic()) - self.began)} gone"]
        left = [] if self.ended is not None else [f"{clock((self.total - self.done) / max(self.rate, 1e-9))} left"]
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"
        return [f"{rate} {self.unit}/s", *left, f"{clock((self.ended or time.monotonic()) - self.began)} gone"]

    def loss_words(self) -> list[str]:
        return [f"{name} {value:.3g}" for name, value in self.losses.items()]

    def score_words(self) -> list[str]:
        """The latest return with its spread, and the best."""
        latest, best = self.evaluation, self.best
        words = [] if latest is None else [f"{score(latest)} at {latest.step:,}"]
        if best is not None:
            is_now = latest is not None and best[1] == latest.step
            words.append("the best so far" if is_now else f"best {readable(best[0])} at {best[1]:,}")
        return words

    def seed_words(self) -> list[str]:
        """Each seed's return, where there are several; the first few of many, and those that were stopped."""
        latest, stopped = self.evaluation, self.stopped
        if latest is None or len(latest.seeds) + len(stopped) < 2:
            return []
        means = latest.returns.mean(1)
        each = [f"{seed}: {readable(float(mean))}" for seed, mean in zip(latest.seeds, means, strict=True)]
        more = [f"{len(each) - _SHOWN_SEEDS} more"] if len(each) > _SHOWN_SEEDS else []
        return [*(f"{seed}: stopped" for seed in stopped), *each[:_SHOWN_SEEDS], *more]

    def checkpoint_words(self) -> list[str]:
        latest = self.checkpoint
        if latest is None:
            return []
        name, written = latest
        return [name, f"{clock((self.ended or time.monotonic()) - written)} ago"]

    # Drawn ------------------------------------------------------------------------------------------------------

    def draw(self, columns: int) -> list[Text]:
        """The display in at most so many columns; what does not fit is left out, the least important first."""
        memory = memory_in_use()
        rows = [
            ("", [*self.pace(), *([readable_bytes(memory)] if memory else [])]),
            ("loss", self.loss_words()[:_SHOWN_LOSSES]),
            ("return", [*self.score_words(), *([trend(self.scores)] if len(self.scores) > 2 else [])]),
            ("seeds", self.seed_words()),
            ("checkpoint", self.checkpoint_words()),
            ("ending", [f"{self.ending}: finishing and saving"] if self.ending and self.ended is None else []),
        ]
        lines = [self._bar(columns), *(_row(label, words, columns) for label, words in rows if words)]
        return [self._plain(line) for line in lines]

    def _plain(self, line: Text) -> Text:
        return Text(line.plain.translate(_ASCII).rstrip()) if self.is_ascii else line

    def _bar(self, columns: int) -> Text:
        share = min(self.done / max(self.total, 1), 1.0)
        count = f" {int(100 * share):>3}%  {self.done:,}/{self.total:,} {self.unit}"
        if columns < _NARROW:
            count = f" {int(100 * share):>3}% {self.done:,}/{self.total:,}"
        label = f"{self.algo:<{_LABEL}}" if columns >= _NARROW else f"{self.algo} "
        room = min(columns - len(label) - len(count), 40)
        if room < 5:
            return Text(f"{label.strip()}{count}")
        full = int(room * share)
        return Text.assemble(
            (label, "bold"), ("━" * full, "green"), ("─" * (room - full), "dim"), (count[:5], "bold"), count[5:]
        )


def _row(label: str, words: Sequence[str], columns: int) -> Text:
    """`label   one · two · three`, without those at the end that do not fit."""
    start = f"{label:<{_LABEL}}" if columns >= _NARROW else f"{label} " if label else ""
    kept = words[0]
    for word in words[1:]:
        if len(start) + len(kept) + 3 + len(word) > columns:
            break
        kept += f" · {word}"
    return Text.assemble((start, "dim"), kept)


def score(evaluation: Evaluation) -> str:
    """`-152.3 ± 80.1`: over all episodes of all seeds; one episode alone has no spread."""
    spread = f" ± {readable(evaluation.std)}" if evaluation.returns.size > 1 else ""
    return f"{readable(evaluation.mean)}{spread}"


def trend(scores: Sequence[float]) -> str:
    """Scores as a row of small bars."""
    low, high = min(scores), max(scores)
    top = len(_TREND) - 1
    return "".join(_TREND[round((one - low) / (high - low) * top) if high > low else 0] for one in scores)


def clock(seconds: float) -> str:
    """`0:08`, `1:02:03`, `3d 4:05:06`."""
    minutes, rest = divmod(int(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    whole = f"{hours}:{minutes:02}:{rest:02}" if hours or days else f"{minutes}:{rest:02}"
    return f"{days}d {whole}" if days else whole


def memory_in_use() -> int | None:
    """Bytes this process holds, on its GPU where it uses one; none where the system does not tell."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.memory_reserved())
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return resident * os.sysconf("SC_PAGE_SIZE")
