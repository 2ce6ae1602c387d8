"""`rl-training runs`: the runs of a folder, and two of them side by side."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rl_training import algorithms, yaml_dialect
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import age, beside, fits, table
from rl_training.experiment.costs import Shown, common
from rl_training.experiment.run_listing import RunSummary, differences, find, list_runs, summarise
from rl_training.paths import in_shell
from rl_training.run_places import DAMAGED, RUNS_DIR, STOPPED
from rl_training.wording import amount, readable

_OFFLINE = "offline: value by the newest trusted evaluate --offline; alike only for the same data and --gamma"
_DISCOUNT = "γ: its discount; such a value is not the sum of a whole episode"
_OWN_DATA = "trained on: judged by episodes that it was trained on, which flatters it"
_SAYS = {
    "better": "shown to be better than the behaviour",
    "worse": "shown to be worse than the behaviour",
    "not shown": "not shown to be better than the behaviour",
    "disputed": "estimates disagree whether it is better",
    "refused": "not to be trusted",
}
_ORDERS: dict[str, Callable[[RunSummary], Any]] = {
    "score": lambda run: (run.last is None, -(run.last or 0.0), run.offline is None, -(run.offline or 0.0)),
    "best": lambda run: (run.best is None, -(run.best or 0.0)),
    "updates": lambda run: -(run.steps or 0),
    "name": lambda run: run.name,
}


def runs(folder: Path, algo: str | None, status: str | None, sort: str, limit: int | None, *, as_json: bool) -> None:
    """Those that are asked for, in the order that is asked for."""
    if algo is not None:
        algorithms.require(algo)
    every = list_runs(folder)
    found = [run for run in every if algo in (None, run.algo) and status in (None, run.status)]
    found = sorted(found, key=_ORDERS[sort]) if sort in _ORDERS else found
    shown = found[:limit]
    if as_json:
        tell(json.dumps([run.to_json() for run in shown], indent=1))
    elif shown:
        tell("\n".join(_list(shown)))
        if len(shown) < len(every):
            tell(f"{len(shown)} of {amount(len(every), 'run')} in {folder}")
    else:
        what = "of that kind among " + amount(len(every), "run") if every else ""
        nowhere = "" if os.path.lexists(folder) or folder == Path(RUNS_DIR) else " (there is no such folder)"
        tell(f"no runs {what}{' ' if what else ''}in {folder}{nowhere}")
        if not every:
            tell("start one: rl-training train -c cql/pendulum, or rl-training init FILE for data of your own")


def _list(found: list[RunSummary]) -> list[str]:
    """One line for each run where the terminal is wide enough, else two."""
    scores = _scores(found)
    heads = ("run", "algo", "data", "environment", "seeds", "updates", "status", *scores, "age")
    sound = [run for run in found if run.fault is None]
    shown = _shown(sound)
    cells = {run.path: _cells(run, shown) for run in sound}
    rows = [
        tuple(cells[run.path][head] if run.fault is None else _of_damaged(run, head) for head in heads) for run in found
    ]
    lines = table(heads, rows, right=("updates", *scores, "age"))
    about = _about(scores, shown, found)
    if fits(lines):
        return [
            *lines,
            *about,
            *_faults(found),
            *(f"{STOPPED}: {_way_on(run)}" for run in found if run.status == STOPPED),
        ]
    short = ("run", "status", *scores, "age")
    rows = [tuple(row[heads.index(head)] for head in short) for row in rows]
    lines = table(short, rows, right=(*scores, "age"))
    told = lines[:1]
    for run, line in zip(found, lines[1:], strict=True):
        told.append(line)
        told += beside("", run.fault, 2) if run.fault is not None else beside("", _details(cells[run.path]), 2)
        told += [f"  {_way_on(run)}"] if run.status == STOPPED else []
    return [*told, *about]


def _scores(found: Sequence[RunSummary]) -> tuple[str, ...]:
    """What is shown of how good runs are; estimates by data alone only where there is one."""
    return (
        ("last", "best", "offline")
        if any(run.offline is not None or run.offline_says for run in found)
        else ("last", "best")
    )


def _shown(found: Sequence[RunSummary]) -> Shown:
    """As costs where all runs are of costs."""
    return common([Shown(run.costs) for run in found])


def _about(scores: Sequence[str], shown: Shown, found: Sequence[RunSummary]) -> list[str]:
    """What has to be known of the columns."""
    about = [_OFFLINE] if "offline" in scores else []
    said = [f"{word}: {meaning}" for word, meaning in _SAYS.items() if any(run.offline_says == word for run in found)]
    about += [f"  {'; '.join(said)}"] if said else []
    marks = [_DISCOUNT] if any(_discount(run) for run in found) else []
    marks += [_OWN_DATA] if any(run.offline_trained_on for run in found) else []
    about += [f"  {'; '.join(marks)}"] if marks else []
    are_some = any(getattr(run, name) is not None for run in found for name in scores)
    return [*about, f"{', '.join(scores)}: costs, lower is better"] if shown.costs and are_some else about


def _cells(run: RunSummary, shown: Shown) -> dict[str, str]:
    total = "" if run.total_steps is None else f"/{run.total_steps:,}"
    unit = "" if run.unit == "updates" else f" {run.unit}"
    return {
        "run": run.name,
        "algo": run.algo or "",
        "data": run.dataset or "none",
        "environment": run.env_id or "none",
        "seeds": ",".join(map(str, run.seeds)) if len(run.seeds) < 4 else str(len(run.seeds)) + " seeds",
        "updates": f"{run.steps or 0:,}{total}{unit}",
        "status": run.status,
        "last": "-" if run.last is None else readable(shown.number(run.last)),
        "best": "-" if run.best is None else readable(shown.number(run.best)),
        "offline": _estimated(run, shown),
        "age": age(run.age_seconds),
    }


def _estimated(run: RunSummary, shown: Shown) -> str:
    """The value, what it says beside the behaviour, and of which weights it is if the run has gone on since."""
    if run.offline is None:
        return run.offline_says or "-"
    stale = run.offline_step is not None and run.offline_step != run.steps
    marks = [_discount(run), *(["trained on"] if run.offline_trained_on else [])]
    how = f" ({', '.join(filter(None, marks))})" if any(marks) else ""
    told = f"{readable(shown.number(run.offline))}{how} {run.offline_says or ''}".rstrip()
    return told + (f" (at {run.offline_step:,})" if stale else "")


def _discount(run: RunSummary) -> str:
    return "" if run.offline_gamma in (None, 1.0) else f"γ {run.offline_gamma:g}"


def _of_damaged(run: RunSummary, head: str) -> str:
    return {"run": run.name, "status": DAMAGED}.get(head, "")


def _details(cells: dict[str, str]) -> str:
    updates = cells["updates"] if cells["updates"].endswith("steps") else f"{cells['updates']} updates"
    seeds = (
        cells["seeds"] if cells["seeds"].endswith("seeds") else f"seed{'s' * (',' in cells['seeds'])} {cells['seeds']}"
    )
    where = "no environment" if cells["environment"] == "none" else cells["environment"]
    data = "no data" if cells["data"] == "none" else cells["data"]
    return f"{cells['algo']} on {data}, {where}, {seeds}, {updates}"


def _faults(found: list[RunSummary]) -> list[str]:
    return [f"{DAMAGED}: {run.fault}" for run in found if run.fault is not None]


def _way_on(run: RunSummary) -> str:
    """A command stays in one line, however wide the terminal, so that it can be copied."""
    return f"{run.reason}; continue: rl-training resume {in_shell(run.path)}"


def compare(one: str, other: str, folder: Path, *, as_json: bool) -> None:
    """Scores of two runs, and what their configurations have different."""
    paths = find(one, folder), find(other, folder)
    left, right = (summarise(path) for path in paths)
    differing = differences(*paths)  # a damaged configuration is an error here: there is nothing to compare
    if as_json:
        told = {"runs": [left.to_json(), right.to_json()], "differences": differing}
        tell(json.dumps(told, indent=1))
        return
    shown_as = _shown([run for run in (left, right) if run.fault is None])
    cells = [_cells(run, shown_as) if run.fault is None else {} for run in (left, right)]
    names = [run.name if left.name != right.name else str(run.path) for run in (left, right)]
    scores = _scores((left, right))
    shown = ("status", "updates", *scores, "data", "environment", "seeds", "age")
    rows = [(key, *(about.get(key, "?") for about in cells)) for key in shown]
    rows += [(key, *map(_value, values)) for key, values in differing.items()]
    lines = table(("", *names), rows)
    for line in [*lines[: len(shown) + 1], "", *lines[len(shown) + 1 :]]:
        tell(line)
    for line in _about(scores, shown_as, (left, right)):
        tell(line)
    if not differing:
        tell("the configurations are the same")


def _value(value: Any) -> str:
    return "-" if value is None else yaml_dialect.inline(value)
