"""Counts and scores as a person writes them."""

from __future__ import annotations

WARNING = "warning: "  # begins a notice that is more than a note
NO_VALUE = "a policy acts on numbers alone: where none was measured, give the one before"
A_REPORT_IS_HTML = "a report is an HTML page, .html or .htm; for a PDF, open it in a browser and print it to one"
_LARGE = 1e7  # from where on a number is written with an exponent


def notice_line(notice: str) -> str:
    """A notice as it is shown: a warning says so itself."""
    return notice if notice.startswith(WARNING) else f"note: {notice}"


def amount(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    ending = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else f"{noun}s"
    return f"{count:,} {ending}"


def taken(name: object, way_out: str = "--force replaces it") -> str:
    """Of a name to write under where something lies already."""
    return f"{name}: exists already; {way_out}"


def likely(probability: float) -> str:
    """An estimated probability, which is never quite 0 or 1."""
    text = f"{probability:.2f}"
    return {"1.00": "> 0.99", "0.00": "< 0.01"}.get(text, text)


def cores_and_threads(cores: object, threads: object) -> str:
    """`2 cores, torch uses 1 thread`, wherever a machine is told of; what is not known is left out."""
    told = [amount(cores, "core")] if isinstance(cores, int) else []
    return ", ".join([*told, *([f"torch uses {amount(threads, 'thread')}"] if isinstance(threads, int) else [])])


def milliseconds(seconds: float) -> str:
    """`0.042 ms`, `3.3 ms`, `130 ms`: two digits, and never a power of ten."""
    value = float(f"{1000 * seconds:.2g}")
    return f"{value:,.0f} ms" if value >= 10 else f"{f'{value:.4f}'.rstrip('0').rstrip('.')} ms"


def readable(value: float) -> str:
    """A score with as many digits as mean something to a person: -152.3, 1.25, 0.00413, 1.718e+38."""
    if abs(value) >= _LARGE:
        return f"{value:.4g}"
    return f"{value:.1f}" if abs(value) >= 10 or value == 0 else f"{value:.3g}"
