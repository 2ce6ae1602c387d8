"""Lines at the bottom of a terminal that are drawn over and over, while everything else is printed above them.

rich has the same in `Live`, which goes wrong where a terminal is made narrower: the lines wrap into more rows than it
remembers, and their remains stay. Here the rows are counted again for the width of the moment.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO, cast

from rich.cells import cell_len
from rich.console import Console, ConsoleRenderable, RenderHook
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType
from rich.text import Text

_REFRESH_SECONDS = 0.25
_WIDEST = 100  # columns; what is shorter does not wrap where a wide terminal is made narrower

Drawing = Callable[[int], list[Text]]  # columns -> lines


def can_be_live(console: Console) -> bool:
    """Whether this is a terminal that can move its cursor, with a person before it; a file that takes colours is none.

    A terminal calls itself dumb where it cannot.
    """
    is_there = bool(getattr(console.file, "isatty", lambda: False)())
    return console.is_terminal and not console.is_dumb_terminal and is_there


class LiveArea(RenderHook):
    """Draws what `drawing` gives, some times a second, until it is stopped."""

    def __init__(self, console: Console, drawing: Drawing) -> None:
        self.console = console
        self.drawing = drawing
        self._widths: list[int] = []  # columns of the lines that are on the screen
        self._over = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="display", daemon=True)
        self._streams: tuple[TextIO, TextIO] | None = None

    def start(self) -> None:
        """Hide the cursor and draw; what is printed from now on, by whomever, goes above."""
        self._streams = (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = (cast("TextIO", FileProxy(self.console, stream)) for stream in self._streams)
        self.console.push_render_hook(self)
        self.console.show_cursor(False)
        self.refresh()
        self._ticking.start()

    def stop(self) -> None:
        """Leave the last drawing where it is, and the terminal as it was."""
        if self._streams is None:
            return
        self._over.set()
        try:
            self.refresh()
        finally:
            for proxy in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    proxy.flush()  # the beginning of a line that somebody has not ended
            sys.stdout, sys.stderr = self._streams
            self._streams = None
            self.console.pop_render_hook()
            self.console.show_cursor(True)
            if self._ticking.ident is not None and self._ticking is not threading.current_thread():
                self._ticking.join(_REFRESH_SECONDS)

    def refresh(self) -> None:
        """Draw again."""
        self.console.print(Control())

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Around whatever is printed: take the area away, print, draw it again. The console's lock is held."""
        columns, rows = self.console.size
        lines = self.drawing(min(columns - 1, _WIDEST))[: max(rows - 1, 1)]
        taken = self._away(columns)
        for line in lines:
            line.truncate(max(columns - 1, 1))
            line.no_wrap = True
        self._widths = [cell_len(line.plain) for line in lines]
        return [taken, *renderables, *lines]

    def _away(self, columns: int) -> Control:
        """Back to the first row of what was drawn, and nothing from there on."""
        rows = sum(max(-(-width // columns), 1) for width in self._widths)
        return Control(
            ControlType.CARRIAGE_RETURN,
            *([(ControlType.CURSOR_UP, rows)] if rows else []),
            *((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_DOWN, 1)) * rows,
            *([(ControlType.CURSOR_UP, rows)] if rows else []),
        )

    def _tick(self) -> None:
        while not self._over.wait(_REFRESH_SECONDS):
            try:
                self.refresh()
            except (OSError, ValueError):  # the terminal is gone; who prints next finds out
                return
