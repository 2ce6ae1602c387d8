"""The page put together: every string that comes from a run or its data is escaped, and nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

from rl_training.experiment.report import figures, histograms, tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import DataContents, RunDiagnostics
from rl_training.experiment.report.diagnosed import diagnosed, one_episode
from rl_training.experiment.report.drawing import SMALL, Drawing, figure, first_few, fold, grid, swatch
from rl_training.experiment.report.end_reasons import reasons_table
from rl_training.experiment.report.lead import few_doubted, lead
from rl_training.experiment.report.metrics import key, metrics, over_seeds, span
from rl_training.experiment.report.prose import code_in_prose
from rl_training.experiment.report.reproducing import reproduce
from rl_training.experiment.report.saying import PLAIN, names_of_runs, said
from rl_training.experiment.report.script import SCRIPT
from rl_training.experiment.report.settings import settings
from rl_training.experiment.report.style import STYLE
from rl_training.experiment.report.without_simulator import HEADING, without_simulator
from rl_training.experiment.statistics import RESAMPLES
from rl_training.wording import WARNING, amount

_MOST_PAIRS = 6  # in a figure
_HISTOGRAMS_AT_ONCE = 2  # returns and lengths


@dataclass(frozen=True)
class Contents:
    """Everything the page shows."""

    title: str
    written: str  # when and by what
    runs: Sequence[RunContents]
    data: Sequence[DataContents]
    diagnostics: Sequence[RunDiagnostics]  # one for each run, or none at all
    differing: Mapping[str, Sequence[Any]]

    @property
    def by_environment(self) -> dict[str, list[RunContents]]:
        """Runs that were evaluated, by where."""
        groups: dict[str, list[RunContents]] = {}
        for run in self.runs:
            if run.evaluations is not None:
                groups.setdefault(run.summary.env_id or "its environment", []).append(run)
        return groups

    @cached_property
    def compared(self) -> dict[str, list[tables.Pair]]:
        """Pairs of runs by environment, and how likely the first of each is the better."""
        return {env_id: tables.improvements(runs) for env_id, runs in self.by_environment.items()}


def page(contents: Contents) -> str:
    """The whole document."""
    told, first = few_doubted(contents.runs), lead(contents.runs, contents.by_environment, contents.compared)
    sections = [
        ("scores", "Scores", _scores(contents)),
        ("without-simulator", HEADING, without_simulator(contents.runs)),
        ("episode", "One recorded episode", one_episode(contents.runs, contents.diagnostics)),
        ("runs", "What was trained on what", _runs(contents)),
        ("curves", "Learning curves" if contents.by_environment else "Metrics of training", _curves(contents)),
        ("diagnostics", "Diagnostics", diagnosed(contents.runs, contents.diagnostics, told=told)),
        ("data", "Data", _data(contents)),
        ("settings", "Settings that differ", settings(contents.runs, contents.differing)),
        ("reproduce", "How to reproduce", fold("Commands, versions and configurations", reproduce(contents.runs))),
    ]
    shown = [(name, heading, body) for name, heading, body in sections if body]
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in shown)
    body = _numbered(
        "".join(f'<section id="{name}"><h2>{escape(heading)}</h2>{inside}</section>' for name, heading, inside in shown)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(contents.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<header><h1>{escape(contents.title)}</h1><p class="faint small">{escape(contents.written)}</p>'
        f'{code_in_prose(_referred(first, body))}<nav aria-label="Contents">{links}</nav></header>\n'
        f"<main>{code_in_prose(body)}</main>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _numbered(body: str) -> str:
    """Figures and tables with their numbers, which stay when a reader hides a run. Figures that can be folded away
    number below the one before them, 3.1, so that none is missing where they are."""
    tables_so_far = itertools.count(1)
    body = re.sub("<caption>", lambda _: f'<caption><span class="nth">Table {next(tables_so_far)}.</span> ', body)
    shown = folded = depth = 0
    made = []
    for part in re.split("(<details|</details>|<figcaption>)", body):
        depth += {"<details": 1, "</details>": -1}.get(part, 0)
        made.append(part)
        if part == "<figcaption>":
            shown, folded = (shown, folded + 1) if depth and shown else (shown + 1, 0)
            made.append(f'<span class="nth">Figure {shown}{f".{folded}" if folded else ""}.</span> ')
    return "".join(made)


def _referred(first: str, body: str) -> str:
    """The first lines with the numbers of the tables that they refer to, by the anchors before these."""
    anchors = r'<span id="([\w-]+)"></span>(?=.*?class="nth">(Table \d+)\.)'
    numbers = dict(re.findall(anchors, body, flags=re.DOTALL))
    asked = r'(<a href="#([\w-]+)">)the table below</a>'
    return re.sub(asked, lambda found: f"{found[1]}{numbers.get(found[2], 'the table below')}</a>", first)


def _policy() -> str:
    """Nothing may be loaded, and no style or script may run but the page's own, known by their sums."""

    def sums(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{sums(STYLE)}'; script-src 'sha256-{sums(SCRIPT)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _legend(runs: Sequence[RunContents]) -> str:
    """Names and looks; with the script, boxes that hide a run everywhere on the page."""
    boxes = []
    for run in runs:
        box = f'<input type="checkbox" checked data-toggle-run="{run.number}">'
        boxes.append(f"<label>{box}{swatch(run.number)}<span>{escape(run.label)}</span></label>")
    return f'<div class="controls" role="group" aria-label="Runs">{"".join(boxes)}</div>'


def _runs(contents: Contents) -> str:
    faults = said(contents.runs, [run.faults for run in contents.runs], "bad")
    of_data = {run: data.notes for data in contents.data for run in data.runs}
    notes = [[note for note in run.notes if note not in of_data.get(run.number, ())] for run in contents.runs]
    unscored = "" if contents.by_environment else _unscored(contents.runs)
    whose = list(zip(notes, contents.runs, strict=True))
    told = said(contents.runs, [[note for note in own if note not in run.remarks] for own, run in whose])
    told += said(contents.runs, [[note for note in own if note in run.remarks] for own, run in whose], PLAIN)
    return tables.runs_table(contents.runs) + faults + told + unscored


def _scores(contents: Contents) -> str:
    """Nothing where no run has a score: the table of runs is followed by how to get one."""
    if not contents.by_environment:
        return ""
    parts = []
    for env_id, runs in contents.by_environment.items():
        if len(contents.by_environment) > 1:
            parts.append(f"<h3>{escape(env_id)}</h3>")
        parts.append(tables.scores_table(runs))
        parts.append(f'<p class="small">{_how_scored(runs)}</p>')
        compared = contents.compared[env_id]
        parts.append(_score_figures(runs, compared))
        if _several_seeds(runs):
            parts.append(f"<details><summary>Every seed</summary>{tables.seeds_table(runs)}</details>")
        if len(compared) > _MOST_PAIRS:
            heading = "Every pair"
            if len(runs) > tables.MOST_COMPARED:
                heading += f" of the {tables.MOST_COMPARED} runs that score highest, and the highest beside all others"
            parts.append(f"<details><summary>{heading}</summary>{tables.pairs_table(compared)}</details>")
    parts.append(_unscored(contents.runs))
    return "".join(parts)


def _unscored(runs: Sequence[RunContents]) -> str:
    return said(runs, [_why_no_score(run) for run in runs], PLAIN)


def _why_no_score(run: RunContents) -> list[str]:
    if run.evaluations is not None:
        return []
    if run.summary.env_id is not None:
        return ["no scores yet: it was not evaluated while it trained. `rl-training evaluate RUN` prints some."]
    if run.offline:  # which leads the page
        return []
    offline = "`rl-training evaluate RUN --offline` estimates from the data what a policy is worth"
    where = "in an environment `rl-training evaluate RUN --env-id ENV` gives scores"
    return [f"no scores, as there was no environment in training: {offline}; {where}."]


def _several_seeds(runs: Sequence[RunContents]) -> bool:
    """Whether any interval over seeds can be given."""
    return any(len(run.sound_seeds) > 1 for run in runs)


def _how_scored(runs: Sequence[RunContents]) -> str:
    counts = sorted({run.episodes for run in runs if run.episodes is not None})
    each = f"{' or '.join(map(str, counts))} episodes with fixed seeds" if counts else "whole episodes"
    shown = tables.common_of(runs)
    sums = "Costs are sums of the raw reward with the sign of the data's file: lower is better"
    text = f"{sums if shown.costs else 'Returns are sums of the raw reward'}; a seed's score is the mean over {each}. "
    if _several_seeds(runs):
        text += (
            "IQM: the interquartile mean over seeds, the lowest and highest quarter left out (of three seeds or fewer"
            f" nothing is). [95%]: percentile bootstrap over seeds, {RESAMPLES:,} resamples; with few seeds it is too"
            " narrow rather than too wide."
        )
    else:
        text += "The IQM of a single seed is its score; there is no interval, and it says nothing about other seeds."
    if any(run.terminated is not None for run in runs):
        text += " Terminated: episodes of the last weights, over all seeds, that ended by termination and not by a cut."
    text += " “Best” is picked by the score it is reported with and flatters: cite “last”."
    sources = sorted({run.reference.source for run in runs if run.reference is not None})
    if sources:
        text += (
            f" Normalised: 0 is a random policy, 100 an expert ({' and '.join(sources)}); the optimality gap is what is"
        )
        text += " missing to 100 on average."
    return escape(text)


def _score_figures(runs: Sequence[RunContents], compared: Sequence[tables.Pair]) -> str:
    scored = [(run, found) for run in runs if (found := tables.last_estimate(run)) is not None]
    shown = tables.common_of(runs)
    estimates = [(run.label, shown.estimate(found), run.number) for run, found in scored]
    made = []
    if len(estimates) > 1 or any(found.low is not None for _, found, _ in estimates):
        of = "one seed each, so without an interval"
        if _several_seeds(runs):
            seeds = span([len(run.sound_seeds) for run, _ in scored])
            of = f"interquartile mean over {seeds} seeds and its 95% interval (none of a single seed)"
        caption = f"<b>{shown.noun.capitalize()} of the last weights</b>: {of}."
        made.append(Drawing(caption, lambda size: figures.forest(estimates, shown.axis, size[0])))
    if compared:
        top = max(scored, key=lambda entry: entry[1].value)[0].number
        few, some = compared, ""
        if len(compared) > _MOST_PAIRS:
            few = [pair for pair in compared if top in (pair[0].number, pair[1].number)][:_MOST_PAIRS]
            some = f" Of {len(compared)} pairs, those of the run with the highest score; the others are listed below."
        rows = [(f"{one.label} over {other.label}", found, one.number) for one, other, found in few]
        caption = (
            "<b>Probability of improvement</b>: that a random seed of the first run does better than one of the"
            " second (ties count half), with its 95% interval. Where that holds ½, they cannot be told apart; two runs"
            f" of three seeds each are fully separated by chance once in 20 times.{some}"
        )
        made.append(Drawing(caption, lambda size: figures.forest(rows, "probability", size[0], middle=0.5, unit=True)))
    if _several_seeds(runs):
        caption = (
            "<b>Performance profiles</b> of the last weights, with pointwise 95% bands: the higher a line, the better."
        )
        made.append(Drawing(caption, lambda size: figures.profiles(runs, size)))
    if len(made) < 3:
        return grid(made)
    first, second, third = (figure(one.caption, one.draw(SMALL)) for one in made)
    return f'{key(runs)}<div class="grid-of"><div class="stack">{first}{second}</div>{third}</div>'


def _curves(contents: Contents) -> str:
    parts = []
    every = [run for run in contents.runs if run.evaluations is not None or run.metrics]
    if not every:
        return ""
    parts += [_legend(every)] if len(contents.runs) > 1 else []
    seeds = sorted({seed for run in every if run.evaluations for seed in run.evaluations.seeds})
    if any(run.evaluations is not None and len(run.evaluations.seeds) > 1 for run in every):
        boxes = "".join(
            f'<label><input type="checkbox" checked disabled data-toggle-seed="{seed}">seed {seed}</label>'
            for seed in seeds[:24]
        )
        single = '<label><input type="checkbox" data-show-seeds><span>single seeds</span></label>'
        parts.append(f'<div class="controls script" role="group" aria-label="Seeds">{single}{boxes}</div>')
    for env_id, runs in contents.by_environment.items():
        levels = {run.data_return for run in runs if run.data_return is not None}
        caption = f"<b>{tables.common_of(runs).noun.capitalize()} in {escape(env_id)}</b> during training."
        episodes = [run.episodes for run in runs if run.episodes is not None]
        caption += f" {over_seeds(runs)}; each point is the mean of {span(episodes) if episodes else 'its'} episodes."
        drawn = figures.learning_curves(runs, next(iter(levels)) if len(levels) == 1 else None)
        parts.append(figure(caption, drawn))
    values = {found.run: found.values for found in contents.diagnostics if found.values is not None}
    parts.append(metrics(contents.runs, values, beside_curves=bool(contents.by_environment)))
    return "".join(parts)


def _data(contents: Contents) -> str:
    parts = []
    for data in contents.data:
        users = [run for run in contents.runs if run.number in data.runs]
        parts.append(f"<h3>{escape(data.title)}</h3>")
        parts.append(f'<p class="small faint">Trained on by: {escape(names_of_runs(users, len(contents.runs)))}.</p>')
        parts.append(tables.data_pairs(data))
        parts.append(reasons_table(data.reasons, data.shown))
        parts.append(_as_read(data))
        parts.append(fold("Columns", tables.columns_table(data.facts, data.bounds)))
        if data.why_not is not None:
            parts.append(f'<p class="callout small">No histograms: {escape(data.why_not)}.</p>')
        drawn = [histograms.histogram(name, values) for name, values in data.drawn.items()]
        parts.append(first_few(drawn, _HISTOGRAMS_AT_ONCE, "More histograms"))
        same = [f"{name}: always {value}" for name, value in data.constant.items()]
        same += [f"{amount(data.more_dimensions, 'more dimension')} of actions"] if data.more_dimensions else []
        parts.append(f'<p class="small faint">Not drawn: {escape("; ".join(same))}.</p>' if same else "")
    return "".join(parts)


def _as_read(data: DataContents) -> str:
    """Each warning for itself; where the file comes from and what was done on reading it is folded."""
    warned = [note for note in data.notes if note.startswith(WARNING)]
    plain = "; ".join(note for note in data.notes if note not in warned)
    read = tables.origin_pairs(data) + (f'<p class="small">As read: {escape(plain)}.</p>' if plain else "")
    told = f"<details><summary>Where the file comes from and how it was read</summary>{read}</details>" if read else ""
    return "".join(f'<p class="callout small">{escape(note)}</p>' for note in warned) + told
