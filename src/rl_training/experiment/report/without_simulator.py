"""The section on estimates without a simulator, from what `rl-training evaluate --offline` leaves in runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rl_training.experiment.report.contents import RunContents, as_number
from rl_training.experiment.report.tables import Cell, Row, interval, name_cell, table
from rl_training.experiment.statistics import LEVEL, Estimate

HEADING = "Without a simulator: fitted Q evaluation"
_HEADS = ("run", "at", "policy", f"value [{LEVEL:.0%}]", f"improvement [{LEVEL:.0%}]", "probability", "trust")


def without_simulator(runs: Sequence[RunContents]) -> str:
    """The newest estimate of every run that has one; nothing where none has."""
    rows: list[Row] = []
    remarks: list[str] = []
    for run in runs:
        if run.offline is not None:
            rows += [(run.number, [name_cell(run), *cells]) for cells in _rows(run.offline)]
            remarks += [f"<b>{escape(run.label)}</b>: {line}" for line in _remarks(run.offline)]
    if not rows:
        return ""
    callouts = "".join(f'<p class="callout small">{remark}</p>' for remark in remarks)
    made = table(_HEADS, rows, css="cards", numbers=_HEADS[3:6], sortable=False)
    return f'{made}<p class="small">{escape(_HOW)}</p>{callouts}'


_HOW = (
    "Estimated from logged episodes alone: the discounted value, in units of the raw reward, where these episodes"
    " begin; a time limit ends none. “Data” is what the episodes returned; “behaviour” is the data's own actions,"
    " valued by the same fits as the policies, so that common errors cancel in the improvement."
    f" [{LEVEL:.0%}]: over resamples"
    " of the episodes, each fitted anew; the probability is that of an improvement over the behaviour. It says nothing"
    " of states that the policy would reach and the data never saw."
)


def _rows(record: Mapping[str, Any]) -> list[list[Cell]]:
    step = as_number(record.get("step"), 0.0)
    at = Cell.number(step, f"{int(step):,}")
    behaviour = _mapping(record.get("behaviour"))
    empty = Cell("–")
    found = [
        [at, Cell.of("data"), _estimate(behaviour.get("return")), empty, empty, empty],
        [at, Cell.of("behaviour"), _estimate(behaviour.get("value")), empty, empty, empty],
    ]
    policies = record.get("policies")
    for policy in map(_mapping, policies if isinstance(policies, list) else []):
        gain, reasons = _mapping(policy.get("improvement")), _texts(policy.get("not_trusted_because"))
        chance = as_number(gain.get("probability"), None)
        trust = Cell("✓") if not reasons else Cell(escape(f"not to be trusted, because {'; '.join(reasons)}"))
        number = Cell.number(chance, None if chance is None else f"{chance:.2f}")
        seed = Cell.of(f"seed {int(as_number(policy.get('seed'), 0.0))}")
        found.append([at, seed, _estimate(policy.get("value")), _estimate(gain), number, trust])
    return found


def _remarks(record: Mapping[str, Any]) -> list[str]:
    """On which data, and what to know of them."""
    data = _mapping(record.get("data"))
    counts = [as_number(part.get(name), None) for part, name in ((data, "episodes"), (record, "repeats"))]
    episodes, repeats = ("?" if count is None else f"{int(count):,}" for count in counts)
    discount = as_number(record.get("gamma"), None)
    on = f"{episodes} episodes of {data.get('title', 'unknown data')}, {repeats} resamples of them"
    on += "" if discount is None else f", discounted by {discount:g}"
    return [escape(line) for line in ("; ".join([on, *_texts(record.get("cautions"))]) + ".",)]


def _estimate(value: Any) -> Cell:
    parts = _mapping(value)
    middle, low, high = (as_number(parts.get(name), None) for name in ("value", "low", "high"))
    return Cell.number(middle, None if middle is None else interval(Estimate(middle, low, high)))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [" ".join(str(entry).split()) for entry in value] if isinstance(value, list) else []
