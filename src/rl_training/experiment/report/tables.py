"""Tables of the page: cells with a label for narrow screens, a value to sort by, and the runs they belong to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from rl_training import algorithms
from rl_training.data.doctor.wording import alike, number
from rl_training.data.provenance import KEY, Provenance
from rl_training.experiment import statistics
from rl_training.experiment.costs import Shown, common
from rl_training.experiment.report.bounds import ActionBounds, bounds_in_words, bounds_text
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import DataContents, RunDiagnostics, data_title
from rl_training.experiment.report.drawing import swatch
from rl_training.experiment.statistics import Estimate, optimality_gap
from rl_training.experiment.stored_numbers import as_number
from rl_training.validation import printable
from rl_training.wording import amount


@dataclass(frozen=True)
class Cell:
    """HTML of a cell, and what it is sorted by (its text, where that is None)."""

    html: str
    order: float | None = None

    @classmethod
    def of(cls, value: Any) -> Cell:
        return cls(escape(str(value)))

    @classmethod
    def number(cls, value: float | None, text: str | None = None) -> Cell:
        return cls(_NOTHING) if value is None else cls(escape(text or number(value)), value)

    @classmethod
    def interval(cls, found: Estimate, beside: Sequence[float] = ()) -> Cell:
        """With the digits that suit the numbers `beside` as well; no line ends inside its brackets."""
        value, _, ends = interval(found, beside).partition(" ")
        return cls(value + (f' <span class="piece">{ends}</span>' if ends else ""), found.value)


_NOTHING = "–"
ABSENT = f'<span class="faint">{_NOTHING}</span>'  # a setting that a run does not have

Row = tuple[int | None, Sequence[Cell]]  # the run a row belongs to, and its cells
Pair = tuple[RunContents, RunContents, Estimate]  # a run, a lesser one, and the probability that it is better
MOST_COMPARED = 20  # runs with one another


def table(
    heads: Sequence[str],
    rows: Sequence[Row],
    *,
    css: str = "",
    numbers: Sequence[str] = (),
    sortable: bool = True,
    caption: str = "",
) -> str:
    """Every cell carries its column's name, for screens where rows become cards. caption: HTML already."""
    sort = ' class="sort"' if sortable and len(rows) > 1 else ""
    top = "".join(
        f'<th scope="col"{sort}{" data-numbers" if head in numbers else ""}>{escape(head)}</th>' for head in heads
    )
    body = "".join(_row(heads, run, cells, numbers) for run, cells in rows)
    head = (f"<caption>{caption}</caption>" if caption else "") + f"<thead><tr>{top}</tr></thead>"
    return f'<div class="table"><table class="{css}">{head}<tbody>{body}</tbody></table></div>'


def _row(heads: Sequence[str], run: int | None, cells: Sequence[Cell], numbers: Sequence[str]) -> str:
    mark = "" if run is None else f' data-run="{run}"'
    parts = []
    for place, (head, cell) in enumerate(zip(heads, cells, strict=True)):
        order = "" if cell.order is None else f' data-order="{cell.order!r}"'
        kinds = (("number", head in numbers), ("absent", cell.html in (_NOTHING, ABSENT)))
        names = " ".join(name for name, is_so in kinds if is_so)
        css = f' class="{names}"' if names else ""
        tag = 'th scope="row"' if place == 0 else "td"
        parts.append(f'<{tag}{css} data-label="{escape(head)}"{order}><span>{cell.html}</span></{tag.split()[0]}>')
    return f"<tr{mark}>{''.join(parts)}</tr>"


def name_cell(run: RunContents) -> Cell:
    return Cell(f'<span class="name">{swatch(run.number)}<span>{escape(run.label)}</span></span>')


def status(run: RunContents) -> str:
    """The status in a word, with a sign beside its colour."""
    state = run.summary.status
    kind = {"finished": "good", "running": "busy", "interrupted": "busy"}.get(state, "bad")
    sign = {"good": "✓", "busy": "…", "bad": "✕"}[kind]
    return f'<span class="state {kind}"><span aria-hidden="true">{sign}</span> {escape(state)}</span>'


def interval(found: Estimate, beside: Sequence[float] = ()) -> str:
    """`-121.7 [-140.2, -110.3]`, with the digits that suit the numbers `beside` as well."""
    if found.low is None or found.high is None:
        return alike(found.value, *beside)[0] if beside else number(found.value)
    value, low, high, *_ = alike(found.value, found.low, found.high, *beside)
    return f"{value} [{low}, {high}]"


# What was trained on what -------------------------------------------------------------------------------------------


def runs_table(runs: Sequence[RunContents]) -> str:
    heads = ("run", "algorithm", "data", "environment", "seeds", "progress", "status")
    caption = "The runs, the data they were trained on, and how far they came."
    made = table(heads, [(run.number, _about(run)) for run in runs], css="cards", caption=caption)
    cited = [f"{algo}: {found}" for algo in dict.fromkeys(run.summary.algo for run in runs) if (found := _paper(algo))]
    return made + (f'<p class="small">{escape("; ".join(cited))}.</p>' if cited else "")


def _paper(algo: str | None) -> str | None:
    return algorithms.paper(algo) if algo in algorithms.find() else None


def _about(run: RunContents) -> list[Cell]:
    told = run.summary
    total = "" if told.total_steps is None else f" of {told.total_steps:,}"
    steps = told.steps if told.steps is not None else 0
    seeds = ", ".join(map(str, told.seeds)) if len(told.seeds) <= 8 else amount(len(told.seeds), "seed")
    return [
        name_cell(run),
        Cell.of(told.algo or "?"),
        Cell.of(_data(run)),
        Cell.of(told.env_id or "none"),
        Cell(escape(seeds or "?"), float(len(told.seeds))),
        Cell(escape(f"{steps:,}{total} {told.unit}"), float(steps)),
        Cell(status(run)),
    ]


def _data(run: RunContents) -> str:
    if run.summary.fault is not None:
        return "?"
    rows = as_number(run.data_facts.get("transitions"), None)
    return data_title(run) + ("" if rows is None else f", {amount(int(rows), 'transition')}")


# Scores -------------------------------------------------------------------------------------------------------------


def last_estimate(run: RunContents) -> Estimate | None:
    """Interquartile mean of the last weights' returns over seeds, with its interval."""
    found = run.scores
    return None if found is None else statistics.bootstrap([found.last])


def common_of(runs: Sequence[RunContents]) -> Shown:
    """How returns of these runs are shown beside one another."""
    return common([run.shown for run in runs])


def scores_table(runs: Sequence[RunContents]) -> str:
    """Returns and, where there is a scale, normalised scores."""
    scaled = any(run.reference is not None for run in runs)
    shown = common_of(runs)
    heads = ["run", "seeds", "last: IQM [95%]", "last: mean ± std", "best: mean (at)"]
    heads += ["last − best" if shown.costs else "best − last"]
    heads += ["normalised IQM [95%]", "optimality gap"] if scaled else []
    ended = any(run.terminated is not None for run in runs)
    heads += ["terminated", "data's mean"] if ended else ["data's mean"]
    beside = [value for run in runs for value in _returns(run)]
    rows = [
        (run.number, [*_score_cells(run, scaled, shown, beside), *_ends(run, ended, shown, beside)]) for run in runs
    ]
    episodes = sorted({run.episodes for run in runs if run.episodes is not None})
    each = f"{' or '.join(map(str, episodes))} episodes for each seed" if episodes else "whole episodes"
    better = "lower" if shown.costs else "higher"
    caption = f"{shown.title('an episode')}; {better} is better; {each}."
    return table(heads, rows, css="cards scores", numbers=heads[1:], caption=escape(caption))


def _returns(run: RunContents) -> list[float]:
    """What of a run stands in the table, so that all runs have the same digits."""
    found = run.scores
    scored = [] if found is None else [float(found.last.mean()), *found.last.tolist(), *found.best.tolist()]
    return scored + ([] if run.data_return is None else [run.data_return])


def _score_cells(run: RunContents, scaled: bool, shown: Shown, beside: Sequence[float]) -> list[Cell]:
    found, estimate = run.scores, last_estimate(run)
    empty = Cell(_NOTHING)
    if found is None or estimate is None:
        middle = [empty] * (7 if scaled else 5)
        return [name_cell(run), *middle]
    spread = [float(found.last.std(ddof=1))] if len(found.last) > 1 else []
    best, last, whole = shown.number(float(found.best.mean())), shown.number(float(found.last.mean())), estimate
    best_text, drop_text, *texts = alike(best, found.drop, last, *spread, *beside)
    estimate = shown.estimate(whole)
    cells = [
        name_cell(run),
        Cell.number(float(len(found.last)), f"{len(found.last)}"),
        Cell(_estimate(estimate, beside), estimate.value),
        Cell.number(last, " ± ".join(texts[: 1 + len(spread)])),
        Cell.number(best, f"{best_text} ({found.best_step:,})"),
        Cell.number(found.drop, drop_text),
    ]
    if scaled and run.reference is not None:
        normalised = whole.scaled(run.reference.score)
        gap = float(optimality_gap([run.reference.score(value) for value in found.last]))
        cells += [Cell.interval(normalised), Cell.number(gap)]
    elif scaled:
        cells += [empty, empty]
    return cells


def _ends(run: RunContents, ended: bool, shown: Shown, beside: Sequence[float]) -> list[Cell]:
    """How many of the last weights' episodes terminated, and what the data's episodes return."""
    found = run.terminated
    count = Cell.number(None) if found is None else Cell.number(found[0] / found[1], f"{found[0]:,} of {found[1]:,}")
    mean = None if run.data_return is None else shown.number(run.data_return)
    returned = Cell.number(mean, None if mean is None else alike(mean, *beside)[0])
    return [count, returned] if ended else [returned]


def _estimate(found: Estimate, beside: Sequence[float]) -> str:
    value, _, ends = interval(found, beside).partition(" ")
    return f"<b>{value}</b>" + (f' <span class="ends">{ends}</span>' if ends else "")


def seeds_table(runs: Sequence[RunContents]) -> str:
    """The last and the best return of every seed."""
    rows: list[Row] = []
    shown = common_of(runs)
    for run in runs:
        found = run.scores
        if found is None:
            continue
        for seed, last, best in zip(run.sound_seeds, found.last, found.by_seed, strict=True):
            cells = [
                name_cell(run),
                Cell.number(float(seed), str(seed)),
                Cell.number(shown.number(float(last))),
                Cell.number(shown.number(float(best))),
            ]
            rows.append((run.number, cells))
    heads = ("run", "seed", f"last {shown.named}", f"{'lowest' if shown.costs else 'highest'} {shown.noun} seen")
    made = table(heads, rows, css="cards seeds", numbers=heads[1:], caption="Every seed that did not diverge.")
    for run in runs:  # rows of a seed can be hidden with its lines
        for seed in run.sound_seeds:
            cell = f'data-label="seed" data-order="{float(seed)!r}"'
            made = made.replace(f'<td class="number" {cell}>', f'<td class="number" data-of-seed="{seed}" {cell}>')
    return made


def improvements(runs: Sequence[RunContents]) -> list[Pair]:
    """Two runs of one environment, the better first, with the probability that it is better.

    Every two of the runs that score highest, and the highest of all beside every other: pairs grow with the square.
    """
    scored = [(run, scores) for run in runs if (scores := run.scores) is not None]
    best_first = sorted(scored, key=lambda entry: -float(statistics.interquartile_mean(entry[1].last)))
    places = {run.number: place for place, (run, _) in enumerate(best_first)}
    found = []
    for (one, ours), (other, theirs) in itertools.combinations(scored, 2):
        better, worse = sorted((places[one.number], places[other.number]))
        if better > 0 and worse >= MOST_COMPARED:
            continue
        if statistics.probability_of_improvement([ours.last], [theirs.last]) < 0.5:
            one, ours, other, theirs = other, theirs, one, ours
        found.append((one, other, statistics.improvement([ours.last], [theirs.last])))
    return found


def pairs_table(compared: Sequence[Pair]) -> str:
    """Two runs and the probability that the first is better."""
    heads = ("run", "over", "probability [95%]")
    rows: list[Row] = []
    for one, other, found in compared:
        ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
        rows.append((one.number, [name_cell(one), name_cell(other), Cell(f"{found.value:.2f}{ends}", found.value)]))
    caption = "Probability that a random seed of one run does better than one of the other."
    return table(heads, rows, css="cards", numbers=heads[2:], caption=caption)


# Diagnostics --------------------------------------------------------------------------------------------------------


def diagnostics_table(runs: Sequence[RunContents], found: Sequence[RunDiagnostics]) -> str:
    heads = (
        "run",
        "at step",
        "correlation with return",
        "value − return",
        "TD error, trained on",
        "TD error, held out",
        "action distance",
    )
    rows = []
    for run, one in zip(runs, found, strict=True):
        if one.values is None and one.actions is None:
            continue
        cells = [name_cell(run), Cell.number(float(one.step or 0), f"{one.step or 0:,}")]
        cells += [
            _by_seed(one.values.correlation() if one.values else None, 2),
            _by_seed(one.values.bias() if one.values else None),
        ]
        cells += [_by_seed(check.td_error() if check else None) for check in (one.values, one.held)]
        cells += [_by_seed(one.actions.distances.mean(1) if one.actions else None, 3)]
        rows.append((run.number, cells))
    several = any(one.actions is not None and len(one.actions.distances) > 1 for one in found)
    caption = f"What the networks of each run say of the data{', mean over seeds [range]' * several}; explained below."
    return table(heads, rows, css="cards", numbers=heads[1:], caption=caption)


def _by_seed(values: Any, digits: int | None = None) -> Cell:
    """The mean over seeds and, of several, the range."""
    if values is None or not np.isfinite(values).any():
        return Cell(_NOTHING)
    finite = values[np.isfinite(values)]
    numbers = [float(finite.mean())] + ([float(finite.min()), float(finite.max())] if len(finite) > 1 else [])
    if digits is not None:
        mean, *ends = (f"{round(value, digits) + 0.0:.{digits}f}" for value in numbers)  # no -0.00
    else:
        mean, *ends = alike(*numbers)
    span = f' <span class="ends">[{", ".join(ends)}]</span>' if ends else ""
    return Cell(f"{mean}{span}", numbers[0])


# Data ---------------------------------------------------------------------------------------------------------------


def pairs(entries: Sequence[tuple[str, str]]) -> str:
    """Labels and texts, side by side."""
    return "<dl>" + "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in entries) + "</dl>"


def columns_table(facts: Mapping[str, Any], bounds: ActionBounds | None) -> str:
    """What the data call the values of observations and actions, where they lay, and the bounds of actions; empty where
    they have no names."""
    rows: list[Row] = []
    for key, role in (("obs_columns", "observation"), ("action_columns", "action")):
        entries = facts.get(key)
        for place, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, Mapping):
                cells = [Cell.of(f"{role} {place}"), Cell.of(printable(str(entry.get("name"))))]
                ends = [as_number(entry.get(side), None) for side in ("low", "high")]
                known = [end for end in ends if end is not None]
                texts = alike(*known) if len(known) == 2 else [None, None]
                cells += [Cell.number(end, text) for end, text in zip(ends, texts, strict=True)]
                limits = bounds.of(place) if bounds is not None and role == "action" else None
                cells += [] if bounds is None else [Cell.of(_NOTHING if limits is None else bounds_text(limits))]
                rows.append((None, cells))
    heads = ["value", "column", "smallest", "largest", *([] if bounds is None else ["bounds"])]
    caption = "Columns of the data: their range and, of actions, the bounds that a policy keeps to."
    return table(heads, rows, css="cards", numbers=heads[2:], caption=caption) if rows else ""


def data_pairs(data: DataContents) -> str:
    """What run.json says of the data, and between which bounds their actions are taken to lie."""
    facts, entries = data.facts, []
    counted = ("transitions", "episodes", *([] if data.ends else ["terminations", "truncations"]))
    for key in counted:
        if (count := as_number(facts.get(key), None)) is not None:
            entries.append((key, number(count)))
    entries += [] if data.ends is None else [("ends of episodes", data.ends)]
    spread = [as_number(facts.get(f"return_{of}"), None) for of in ("mean", "min", "max")]
    known = [value for value in spread if value is not None]
    if len(known) == len(spread):
        low, high = data.shown.ends(*known[1:])
        texts = alike(data.shown.number(known[0]), low, high)
        title = data.shown.title("an episode")
        entries.append((title[:1].lower() + title[1:], "mean {}, from {} to {}".format(*texts)))
    if data.added is not None:
        entries.append((f"{'cost' if data.shown.costs else 'reward'} added at the end", data.added))
    if data.bounds is not None:
        entries.append(("bounds of actions", f"{bounds_in_words(data.bounds.ranges)} ({data.bounds.source})"))
    return pairs(entries)


def origin_pairs(data: DataContents) -> str:
    """Where the data come from, as their file tells, and their sum; empty where neither is known."""
    entries = []
    if (made := Provenance.read(data.facts.get(KEY))) is not None and (words := made.in_words()):
        entries.append(("made from", words))
    if data.fingerprint:
        entries.append(("SHA-256", data.fingerprint))
    return pairs(entries) if entries else ""
