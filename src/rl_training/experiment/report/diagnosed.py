"""The section on what the checkpoints say about the data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

from rl_training.experiment.costs import Shown
from rl_training.experiment.report import figures, histograms, tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import RunDiagnostics
from rl_training.experiment.report.diagnostics import ON_ONE_SIDE
from rl_training.experiment.report.drawing import Drawing, fold, grid
from rl_training.experiment.report.episode import episode_figures, observed_figures
from rl_training.experiment.report.metrics import key
from rl_training.experiment.report.saying import PLAIN, said
from rl_training.experiment.report.tables import common_of

_MOST_DRAWN = 24  # runs with figures of their own


def diagnosed(runs: Sequence[RunContents], diagnostics: Sequence[RunDiagnostics], *, told: bool) -> str:
    """Warnings, a table and figures; diagnostics: one for each run, or none at all. told: what training gives reason to
    doubt stands above already."""
    warnings = [[f"warning: {doubt}." for doubt in run.training_doubts] for run in runs]
    notes = [[f"note: {note}." for note in run.training_notes] for run in runs]
    of_training = ("" if told else said(runs, warnings)) + said(runs, notes, PLAIN)
    if not diagnostics:
        return of_training + '<p class="faint">Left out (--no-data): they need the checkpoints and the data.</p>'
    pairs = list(zip(runs, diagnostics, strict=True))
    parts = [
        of_training,
        said(runs, [_missing(found, alarming=True) for found in diagnostics]),
        said(runs, [_missing(found, alarming=False) for found in diagnostics], PLAIN),
        said(runs, [[f"warning: {doubt}." for doubt in found.doubts] for found in diagnostics]),
    ]
    if any(found.values or found.actions for _, found in pairs):
        parts.append(tables.diagnostics_table(runs, diagnostics))
        parts.append(said(runs, [[f"warning: {doubt}." for doubt in found.by_heart] for found in diagnostics]))
        parts.append(f'<p class="small">{_how_diagnosed(runs, diagnostics)}</p>')
    if len(pairs) > _MOST_DRAWN:
        parts.append(f'<p class="small faint">Drawn of the first {_MOST_DRAWN} runs; the table has all.</p>')
    drawn = pairs[:_MOST_DRAWN]
    odd = [one for run, found in drawn if _one_sided(found) for one in _of_values(run, found)]
    others = [one for run, found in drawn if not _one_sided(found) for one in _of_values(run, found)]
    parts.append(grid(odd) + fold(f"Values and TD errors of each run ({len(others)})", grid(others)))
    if checks := [found.actions for _, found in pairs if found.actions]:
        caption = (
            "<b>Distance of the policy's action to the data's</b> in the same state, root mean square over dimensions"
            " scaled to [−1, 1]; 0 is cloning."
        )
        if len({histograms.of_random_pairs(check) for check in checks}) == 1:
            caption += " Dashed: the mean distance between recorded actions of two states picked at random."
        caption += " Hatched: what lies beyond the axis." if any(histograms.distances_beyond(checks)) else ""
        distances = [Drawing(caption, partial(histograms.action_distances, runs, diagnostics))]
        parts.append(f"<h3>How far the policies are from the data</h3>{key(runs)}{grid(distances)}")
    return "".join(parts)


def _missing(found: RunDiagnostics, *, alarming: bool) -> list[str]:
    """Why something could not be computed: alarming where that is all of it, and not of the algorithm's nature."""
    return [f"{reason}." for reason in found.missing] if (found.actions is None) == alarming else []


def _one_sided(found: RunDiagnostics) -> str:
    """What is said where the lowest returns lie on one side of the values, if they do."""
    share = None if found.values is None else found.values.lowest_above()
    if share is None or 1.0 - ON_ONE_SIDE < share < ON_ONE_SIDE:
        return ""
    if share < 0.5:
        return f" At the lowest twentieth of the returns, {1.0 - share:.0%} of the values lie below the line."
    text = f" At the lowest twentieth of the returns, {share:.0%} of the values lie above the line: what went worst was"
    return f"{text} not foreseen. Either it was chance, or the critic is too hopeful where it costs most."


def one_episode(runs: Sequence[RunContents], diagnostics: Sequence[RunDiagnostics]) -> str:
    """What was done in a recorded episode, and what the policies would do; what was observed in it can be unfolded."""
    if not diagnostics:
        return ""
    shown = [found.episode for found in diagnostics]
    drawn, seen = episode_figures(runs, shown), observed_figures(shown)
    made = f"{key(runs, recorded=True)}{grid(drawn)}" if drawn else ""
    if seen:
        heading = f"What was observed in that episode ({len(seen)})"
        made += f"<details><summary>{heading}</summary>{grid(seen)}</details>"
    return made


def _of_values(run: RunContents, found: RunDiagnostics) -> list[Drawing]:
    """What the networks say beside what followed, and how far they are from agreeing with themselves."""
    if found.values is None:
        return []
    name = f"<b>{escape(run.label)}</b>"
    made = []
    if found.values.returns is not None:
        rows, seeds = found.values.values.size, len(found.values.values)
        sample = f"{min(figures.DOTS, rows):,} of {rows:,} values" + (f" of {seeds} seeds" if seeds > 1 else "")
        caption = f"{name}: {found.values.kind} against the return-to-go of the data, {sample}. Above the dashed line"
        caption += " the networks promise more than followed; what lies beyond the axes is drawn at their ends."
        caption += f"{_one_sided(found)} {_units(run.shown, found)}"
        made.append(Drawing(caption, partial(figures.values_against_returns, run, found.values), run.number))
    held = f" Held out: {escape(found.held_from)}." if found.held_from else ""
    caption = f"{name}: TD error of {found.values.td_errors.size:,} values{_and_held(found)}. Hatched: the 1% that lies"
    caption += f" furthest from 0, beyond the axis.{held} {_units(run.shown, found)}"
    made.append(Drawing(caption, partial(histograms.td_errors, run, found), run.number))
    return made


def _and_held(found: RunDiagnostics) -> str:
    return "" if found.held is None else f" trained on and {found.held.td_errors.size:,} held out"


def _units(shown: Shown, found: RunDiagnostics) -> str:
    """What the numbers of a figure are counted in."""
    costs = ", the negative of costs" if shown.costs else ""
    if found.values is not None and found.values.scale is None:
        return f"In transformed rewards{costs}, discounted, not in units of the raw reward."
    return escape(f"Discounted, in {shown.counted_in or 'units of the raw reward'}{costs}.")


def _how_diagnosed(runs: Sequence[RunContents], found: Sequence[RunDiagnostics]) -> str:
    costs = ", the negative of costs" if common_of(runs).costs else ""
    transformed = {one.values.scale is None for one in found if one.values is not None}
    scale = "transformed rewards" if transformed == {True} else "units of the raw reward"
    scale += " (where they were shifted or clipped, transformed ones)" if len(transformed) > 1 else ""
    several = any(one.values is not None and len(one.values.values) > 1 for one in found)
    over = ", mean over seeds [range]" if several else ""
    text = (
        f"All discounted, in {scale}{costs}. The critics' smallest value stands for Q; the TD error is"
        " r + γ(1 − d)·V(s′) − Q(s, a), with the learned V or the target critics at the policy's"
        f" action, without noise or entropy; given as root mean square{over}. The return-to-go is the"
        " behaviour's: a better policy is worth more, so values above it need not be wrong; low correlation is the"
        " warning sign. In the figures both are equal on the dashed line; above it the networks promise more. A"
        " held-out TD error far above the other is overfitting: more than twice as large, it is warned of."
    )
    if any(one.values is not None and one.values.bootstrapped for one in found):
        text += " Episodes cut off by a time limit go on with the learned value of their last state."
    return escape(text)
