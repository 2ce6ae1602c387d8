"""The settings that differ between runs: what changes the learning or what a score means first, the rest folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rl_training import yaml_dialect
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.tables import ABSENT, Cell, Row, table
from rl_training.paths import bare_name

_OF_PROGRAMS = (  # which run it is, where it writes, how often, and on what it computes
    *("seed", "tracking", "name", "runs_dir", "log_interval", "checkpoint_interval", "keep_checkpoints", "keep_every"),
    *("eval_interval", "evaluation.max_envs", "engine", "kernels", "device", "data_memory", "threads"),
)
_OF_ALGORITHM = "algo_kwargs."
_FEW = 8  # settings that need no filter

Values = Mapping[str, Sequence[Any]]


def settings(runs: Sequence[RunContents], differing: Values) -> str:
    """Two tables, of which the second is folded; differing: by setting its value in each run that can be read."""
    if len(runs) < 2:
        return ""
    readable = [run for run in runs if run.config]
    if len(readable) < 2:
        return '<p class="callout small">Fewer than two configurations can be read.</p>'
    if not differing:
        return "<p>The configurations are the same.</p>"
    first, rest = told_apart(readable, differing)
    made = "<p>Nothing that changes the learning.</p>"
    if first:
        made = _table(readable, first, "Settings that change the learning or the score.")
    if rest:
        heading = f"Others: of one algorithm alone, seeds, places, records and machines ({len(rest)})"
        others = _table(readable, rest, "Other settings that differ.")
        made += f"<details><summary>{escape(heading)}</summary>{others}</details>"
    return _filtered(made, len(differing))


def told_apart(runs: Sequence[RunContents], differing: Values) -> tuple[Values, Values]:
    """Settings by which runs learn otherwise or are scored otherwise, and all others."""
    rest = {key for key, values in differing.items() if _follows(runs, key, values)}
    first, others = ({key: values for key, values in differing.items() if (key in rest) is so} for so in (False, True))
    return first, others


def _follows(runs: Sequence[RunContents], key: str, values: Sequence[Any]) -> bool:
    """Whether a difference says no more than that the runs, their places or their algorithms are others."""
    if any(key == name or key.startswith(f"{name}.") for name in _OF_PROGRAMS):
        return True
    if key == "dataset.path":
        sums = {str(run.data_facts.get("fingerprint")) for run in runs}
        return len(sums) == 1 and "None" not in sums
    if not key.startswith(_OF_ALGORITHM):
        return False
    given: list[Any] = []
    for value in values:
        given += [] if value is None or value in given else [value]
    lacking = [(str(run.config.get("algo")), value is None) for run, value in zip(runs, values, strict=True)]
    alike = len(set(lacking)) == len({algo for algo, _ in lacking})
    return len(given) <= 1 and alike  # some algorithms have it, all with the same value


def _filtered(made: str, count: int) -> str:
    """With a field to search in, where there are many."""
    search = (
        '<div class="controls script"><input type="search" data-filter="settings-table" placeholder="Filter settings"'
        f' aria-label="Filter settings"><span id="settings-table-count" class="faint small">{count} in all</span></div>'
    )
    return f'{search if count > _FEW else ""}<div id="settings-table">{made}</div>'


def _table(runs: Sequence[RunContents], differing: Values, caption: str) -> str:
    """One row for each key that differs, one column for each run."""
    heads = ["setting", *(run.label for run in runs)]
    rows: list[Row] = []
    for key, values in differing.items():
        breakable = escape(key).replace(".", ".<wbr>").replace("_", "_<wbr>")
        cells = [Cell(f"<code>{breakable}</code>")]
        values = [bare_name(value) if key.endswith(".path") and value else value for value in values]
        cells += [
            Cell(ABSENT if value is None else f"<code>{escape(yaml_dialect.inline(value))}</code>") for value in values
        ]
        rows.append((None, cells))
    return table(heads, rows, css="cards settings", caption=caption)
