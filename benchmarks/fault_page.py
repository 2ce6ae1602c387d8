"""The table of `docs/reliability.md`, made of what `faults.py` stored.

python benchmarks/fault_page.py       # writes it between its two marks
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "faults.json"
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
START, END = "<!-- table of benchmarks/fault_page.py -->", "<!-- end of the table -->"
COLUMNS = {"d3rlpy": "d3rlpy", "sb3": "Stable-Baselines3", "minari": "Minari", "ours": "here"}
Row = Mapping[str, Any]
ONE, EACH = "one name", "a name per step"


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {"products": {}}
    return found


def _words(told: Row) -> str:
    """What was said, ready for a cell; paths and long explanations are cut."""
    text = told.get("words", "").partition(": ")
    said = text[2].partition("; likely")[0].partition("; free")[0] or text[0]
    return f"`{text[0]}`: {said}".replace("|", "\\|") if text[0] else ""


def kill(row: Row) -> str:
    tries, cells = row["tries"], []
    for style in (ONE, EACH):
        if style in row:
            what = "the file" if style == ONE else "the newest" if ONE in row else ""
            cells.append(f"{what} {row[style]['unloadable']:,} of {tries:,} unloadable".strip())
    lost = row[EACH]["complete saves lost"]
    return "; ".join(cells) + (f"; {lost} complete saves lost" if ONE not in row else "")


def flip(row: Row) -> str:
    offered = row.get("previous offered", 0)
    noticed, tries = row.get("noticed", 0), row["tries"]
    more = f", the previous checkpoint offered in {offered:,}" if offered else ""
    differ = row.get("unnoticed, weights differ", 0)
    return f"{noticed:,} of {tries:,} noticed{more}" + (f"; {differ:,} loaded with other weights" if differ else "")


def disk(row: Row) -> str:
    cells = []
    for style in (ONE, EACH):
        if style not in row:
            continue
        if row[style]["newest loads"]:
            advice = "; says what to free" if "free space" in row[style]["saving"] else ""
            cells.append(f"the last good one still loads{advice}")
        else:
            kept = "an earlier one loads" if row[style]["last good one loads"] else "the last good one is lost"
            cells.append(f"{style}: {'the newest is broken, ' if style == EACH else ''}{kept}")
    return "; ".join(cells)


def stranger(row: Row) -> str:
    return "its code runs" if row["ran code"] else f"its code does not run; {row['is']}"


def resume(row: Row) -> str:
    return f"weights equal to an unbroken run at {row['equal weights']} of {len(row['stops'])} stops"


def _nan(told: Row) -> str:
    if told["is"] == "accepted":
        return "reports success" + (", weights are NaN" if told["weights left are finite"] is False else "")
    kept = ", the last good checkpoint is kept" if told["weights left are finite"] else ""
    error = told["words"].partition(":")[0]
    return f"{'refused' if kept == '' else 'stopped'} (`{error}`){kept}"


def nan_data(row: Row) -> str:
    return _nan(row["data"])


def nan_weights(row: Row) -> str:
    return _nan(row["weights"])


def datasets(row: Row) -> str:
    kinds = [case["is"] for case in row["cases"].values()]
    counts = [f"{kinds.count(kind)} {kind}" for kind in ("accepted", "refused", "warned") if kinds.count(kind)]
    return ", ".join(counts)


def _bomb(told: Row) -> str:
    if "none" in told:
        return told["none"]
    if "seconds" not in told:
        return str(told["is"])
    how = f"{told['seconds']:.2f} s, {told['mebibytes']:,} MiB"
    error = f" (`{told['words'].partition(':')[0]}`)" if told["is"] == "refused" else ""
    return f"{told['is']}{error} after {how}"


def hdf5(row: Row) -> str:
    return _bomb(row["hdf5"])


def unzipped(row: Row) -> str:
    return _bomb(row["zip"])


def _setting(name: str) -> Callable[[Row], str]:
    return lambda row: "accepted" if row[name]["is"] == "accepted" else _words(row[name])


def sigterm(row: Row) -> str:
    saved = f"checkpoint and end within {row['seconds to the end']:.1f} s" if row["checkpoint after the signal"] else ""
    code = row["exit code"]
    ended = f"exit code {code}" if isinstance(code, int) else f"dies ({code}), nothing is saved"
    goes_on = "continues" if row.get("resume: exit code") == 0 and row["--resume auto finds it"] else ""
    return ", ".join(part for part in (saved, ended, f"`--resume auto` {goes_on}" if goes_on else "") if part)


TABLE: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("`kill -9` while saving, then load", "kill", kill),
    ("one flipped bit in a checkpoint", "flip", flip),
    ("disk full while saving", "disk", disk),
    ("a checkpoint from a stranger", "stranger", stranger),
    ("stop, resume", "resume", resume),
    ("NaN in the data", "nan", nan_data),
    ("NaN in a weight while training", "nan", nan_weights),
    ("eight corrupt datasets", "datasets", datasets),
    ("a small HDF5 file that declares 4 TiB", "bombs", hdf5),
    ("a file that unpacks to a gibibyte", "bombs", unzipped),
    ("`gamma=5`", "settings", _setting("gamma=5")),
    ("`batch_size=-3`", "settings", _setting("batch_size=-3")),
    ("misspelt option: `lerning_rate`", "settings", _setting("lerning_rate=0.0003")),
    ("SIGTERM while training", "sigterm", sigterm),
)


def cell(product: Row | None, row: str, show: Callable[[Row], str]) -> str:
    told = (product or {}).get("rows", {}).get(row)
    if told is None:
        return ""
    return f"not measured: {told['failure']}" if "failure" in told else show(told)


def table(results: Row) -> str:
    products = results["products"]
    heads = [f"{title} {next(iter(products.get(name, {}).get('versions', {'': ''}).values()))}".strip()
             for name, title in COLUMNS.items()]  # fmt: skip
    heads[-1] = COLUMNS["ours"]
    lines = ["| fault | " + " | ".join(heads) + " |", "|---" * (1 + len(heads)) + "|"]
    for title, row, show in TABLE:
        cells = [cell(products.get(name), row, show) for name in COLUMNS]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(text: str, results: Row) -> str:
    """The page with the table of these results."""
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{table(results)}\n{END}{after}"


def write() -> None:
    PAGE.write_text(page(PAGE.read_text("utf-8"), stored()), "utf-8")


if __name__ == "__main__":
    write()
