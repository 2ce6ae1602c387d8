"""What every figure shares: the look of a run, captions below, and rows of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from rl_training.experiment.report.svg import DASHES, MARKERS, marker

Size = tuple[int, int]

SMALL: Size = (440, 280)
_ACROSS: Size = (920, 280)  # as wide as two small ones and what is between them
_LONGEST_LABEL = 26
COLOURS = 6


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn at any size. caption: HTML already; run: the one it belongs to alone."""

    caption: str
    draw: Callable[[Size], str]
    run: int | None = None


def look(run: int) -> tuple[str, str, str]:
    """Class of the colour, dashes and sign of a run."""
    return f"r{run % COLOURS}", DASHES[run % len(DASHES)], MARKERS[(run + run // len(DASHES)) % len(MARKERS)]


def swatch(run: int) -> str:
    """A piece of the run's line, for lists and tables."""
    colour, dash, sign = look(run)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<svg class="swatch {colour}" viewBox="0 0 40 12" aria-hidden="true">'
        f'<path class="line" d="M1 6H39"{dashes}/>{marker(sign, 20, 6)}</svg>'
    )


def dots_swatch() -> str:
    """Some dots as those of the data."""
    path = '<path class="dots" d="M8 8h0M20 4h0M32 7h0"/>'
    return f'<svg class="swatch data" viewBox="0 0 40 12" aria-hidden="true"><g class="data">{path}</g></svg>'


def group(run: int, inside: str, extra: str = "") -> str:
    """What belongs to a run, so that it can be hidden."""
    return f'<g class="run {look(run)[0]}" data-run="{run}"{extra}>{inside}</g>'


def shortened(text: str, most: int = _LONGEST_LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def figure(caption: str, picture: str, *, run: int | None = None, css: str = "") -> str:
    """A figure with its caption below, which is HTML already."""
    named = f' class="{css}"' if css else ""
    mark = "" if run is None else f' data-run="{run}"'
    return f"<figure{named}{mark}>{picture}<figcaption>{caption}</figcaption></figure>"


def fold(heading: str, inside: str) -> str:
    """What is open on wide screens, on paper and without the script, and on narrow screens when it is asked for.
    heading, inside: HTML already; nothing where there is nothing inside."""
    return f'<details class="fold" open><summary>{heading}</summary>{inside}</details>' if inside else ""


def first_few(drawings: Sequence[Drawing], few: int, heading: str) -> str:
    """Figures, of which narrow screens show the first few at once."""
    rest = drawings[few:]
    return grid(drawings[:few]) + fold(f"{escape(heading)} ({len(rest)})", grid(rest))


def grid(drawings: Sequence[Drawing]) -> str:
    """Two in a row, all as wide as each other; the only one takes a whole row, on screens that have two."""
    made = []
    for one in drawings:
        if len(drawings) == 1:
            both = f'<div class="across">{one.draw(_ACROSS)}</div><div class="single">{one.draw(SMALL)}</div>'
            made.append(figure(one.caption, both, run=one.run, css="alone"))
        else:
            made.append(figure(one.caption, one.draw(SMALL), run=one.run))
    return f'<div class="grid-of">{"".join(made)}</div>' if made else ""
