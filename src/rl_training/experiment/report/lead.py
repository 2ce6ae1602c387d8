"""The first screen: what was trained on which data, how good that is, whether to trust it, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rl_training.data.doctor.wording import alike, capital, listed, number
from rl_training.experiment.report import tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import data_title
from rl_training.experiment.report.first_lines import Lead
from rl_training.experiment.report.offline_lead import offline_lead, plus_ends
from rl_training.experiment.report.saying import names_of_runs, said
from rl_training.experiment.seed_choice import ONLY_ONE, seed_by_scores
from rl_training.experiment.statistics import may_be_chance
from rl_training.experiment.stored_numbers import as_number
from rl_training.run_places import DAMAGED, STOPPED
from rl_training.wording import amount

_MOST_DOUBTED = 3  # runs whose doubts are told at the top
_MOST_DATA, _MOST_NAMED = 3, 4  # that are described there
_FEW_SEEDS = 5


def lead(
    runs: Sequence[RunContents],
    by_environment: Mapping[str, Sequence[RunContents]],
    compared: Mapping[str, Sequence[tables.Pair]],
) -> str:
    """For somebody who reads nothing else: a line or two each on training, data, result, trust and what next."""
    found = [_in_environment(env_id, those, compared[env_id]) for env_id, those in by_environment.items()]
    found.append(offline_lead(runs))
    told = [one for one in found if one is not None]
    rows = [
        ("Trained", [_trained(runs)]),
        ("Weights", _asked(runs)),
        ("Data", _recorded(runs)),
        ("Result", [one.result for one in told]),
        ("Trust", [one.trust for one in told if one.trust] + _unfinished(runs)),
        ("Next", (_go_on(runs) + [one.then for one in told if one.then])[:1]),
    ]
    lines = "".join(
        f"<dt>{name}</dt><dd>{''.join(f'<p>{line}</p>' for line in lines)}</dd>" for name, lines in rows if lines
    )
    more = "".join(f"<p>{line}</p>" for one in told for line in one.besides)
    folded = f'<details class="small"><summary>More on this result</summary>{more}</details>' if more else ""
    return f'<dl class="lead">{lines}</dl>{folded}{_doubted(runs)}'


def _trained(runs: Sequence[RunContents]) -> str:
    """`Learned from recorded data: cold (iql, 3 seeds, 4,000 updates).`"""
    told: dict[str, dict[str, list[RunContents]]] = {}
    for run in runs:
        summary, done = run.summary, run.summary.steps
        parts = [summary.algo or "unknown", amount(len(summary.seeds), "seed")]
        of = f" of {summary.total_steps:,}" if done is not None and done < (summary.total_steps or 0) else ""
        parts += [] if done is None else [f"{done:,}{of} {run.unit}"]
        told.setdefault(_how(run), {}).setdefault(", ".join(parts), []).append(run)
    lines = []
    for learned, those in told.items():
        names = [f"<b>{escape(names_of_runs(same, len(runs)))}</b> ({escape(how)})" for how, same in those.items()]
        some = names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], f"{len(names) - _MOST_NAMED} more"]
        lines.append(f"{learned}: {listed(some)}.")
    return " ".join(lines)


def _asked(runs: Sequence[RunContents]) -> list[str]:
    """Of which weights the page is, of runs that went on from there."""
    of = [run for run in runs if run.as_asked]
    return [
        f"Estimates and diagnostics{f' of <b>{escape(run.label)}</b>' if len(runs) > 1 else ''} are of its policy after"
        f" {run.asked:,} of {run.summary.steps or 0:,} {escape(run.unit)}: `export{run.as_asked}` writes that one."
        for run in of
    ]


def _how(run: RunContents) -> str:
    """From what it learned, as far as its files tell."""
    has_data = bool(run.config.get("dataset") or run.data_facts)
    if run.unit != "updates" or run.config.get("online") or (run.facts and not has_data):
        return "Learned by trying, with recorded data besides" if has_data else "Learned by trying"
    return "Learned from recorded data" if has_data else "Learned in a way that is not known"


def _recorded(runs: Sequence[RunContents]) -> list[str]:
    """How much was recorded, and how good the behaviour is that was."""
    lines = []
    for run in {
        str(run.data_facts.get("fingerprint") or data_title(run)): run for run in runs if run.data_facts
    }.values():
        facts, shown = run.data_facts, run.shown
        counts = [
            amount(int(count), noun)
            for key, noun in (("episodes", "episode"), ("transitions", "step"))
            if (count := as_number(facts.get(key), None)) is not None
        ]
        text = data_title(run)
        text = escape(text if run.origin in (None, text) else f"{text}, made from {run.origin}")
        text += f": {' with '.join(counts)}" if counts else ""
        ends = [as_number(facts.get(f"return_{of}"), None) for of in ("mean", "min", "max")]
        known = [end for end in ends if end is not None]
        if len(known) == len(ends):
            mean, low, high = alike(shown.number(known[0]), *shown.ends(*known[1:]))
            does, better = ("cost", "lower") if shown.costs else ("returned", "higher")
            text += f"; as recorded, an episode {does} {mean}{escape(shown.behind)} on average ({low} to {high};"
            text += f" {better} is better)"
            if run.added_up:
                text += escape(f": ‘{run.added_up}’, summed over each episode{plus_ends(run)}")
            elif run.added_at_ends:
                text += escape(f"; at_termination adds {run.added_at_ends}")
        lines.append(f"{text}.")
    return lines if len(lines) <= _MOST_DATA else [*lines[:_MOST_DATA], f"{len(lines) - _MOST_DATA} more: see Data."]


def _in_environment(env_id: str, runs: Sequence[RunContents], compared: Sequence[tables.Pair]) -> Lead | None:
    """What the best run scores where it was played."""
    scored = [(found, run) for run in runs if (found := tables.last_estimate(run)) is not None]
    if not scored:
        return None
    found, best = max(scored, key=lambda pair: pair[0].value)
    seeds = len(best.sound_seeds)
    over = f"interquartile mean over {seeds:,} seeds" if seeds > 1 else "one seed"
    shown = tables.common_of(runs)
    does = ("costs", "least") if shown.costs else ("scores", "highest")
    text = f"In {escape(env_id)}, <b>{escape(best.label)}</b> {' '.join(does) if len(scored) > 1 else does[0]}"
    text += f": {escape(tables.interval(shown.estimate(found)) + shown.behind)}"
    text += " an episode" if shown.costs else ""
    text += f" ({over}{', 95% interval' if found.low is not None else ''})"
    if best.data_return is not None:
        beside = "not shown to be better" if found.value > best.data_return else "no better"
        beside = "better" if found.low is not None and found.low > best.data_return else beside
        level = number(shown.number(best.data_return))
        text += f", {beside} than the recorded episodes with {escape(level + shown.behind)}"
    trust = _of_seeds(seeds)
    others = [(estimate, other) for one, other, estimate in compared if one is best]
    if others:
        least, rival = min(others, key=lambda pair: pair[0].value)
        text += f". It is better than {'the other' if len(others) == 1 else 'each other run'} with probability"
        text += f" {'' if len(others) == 1 else 'at least '}{escape(_chance(least))}"
        if may_be_chance(least, len(best.sound_seeds), len(rival.sound_seeds)):
            text += ", which with so few seeds may be chance"
    then = f"`rl-training evaluate {escape(best.in_command)} --episodes 100` plays more episodes"
    taken = _seed_taken(best)
    if seeds < _FEW_SEEDS:
        then = "train more seeds (`--seed 0 --seed 1` and so on) before a number is cited"
    return Lead(f"{text}.{taken}", trust, f"{capital(then)}.")


def _seed_taken(run: RunContents) -> str:
    """Whose policy leaves the run, where it has several seeds."""
    curve = run.evaluations
    if curve is None or len(curve.seeds) < 2 or curve.steps[-1] != run.summary.steps:
        return ""
    if len(curve.sound) == 1:
        return f" Seed {curve.seeds[curve.sound[0]]} is {ONLY_ONE}: `export` and `predict` take it."
    chosen = seed_by_scores({curve.seeds[place]: float(curve.values[-1, place]) for place in curve.sound})
    return "" if chosen is None else f" Seed {chosen.seed} scored best: `export` and `predict` take it."


def _of_seeds(seeds: int) -> str:
    if seeds == 1:
        return "Measured by playing, not estimated; of one seed, it says nothing about others."
    few = f"; of {seeds} seeds, the interval is too narrow rather than too wide" if seeds < _FEW_SEEDS else ""
    return f"Measured by playing, not estimated{few}."


def _unfinished(runs: Sequence[RunContents]) -> list[str]:
    """How runs stand that did not end well, or have not ended."""
    of: dict[str, list[RunContents]] = {}
    for run in runs:
        if run.summary.status != "finished":
            of.setdefault(run.summary.status, []).append(run)
    return [f"<b>{escape(names_of_runs(those, len(runs)))}</b>: {escape(_stands(how))}." for how, those in of.items()]


def _go_on(runs: Sequence[RunContents]) -> list[str]:
    names = [run for run in runs if run.summary.status in (STOPPED, "interrupted")]
    return [f"`rl-training resume {escape(run.in_command)}` goes on where it stopped." for run in names]


def _stands(status: str) -> str:
    if status == "running":
        return "still running when this page was written"
    return "damaged: what could be read is shown" if status == DAMAGED else f"{status}, so not all of it was trained"


def _doubted(runs: Sequence[RunContents]) -> str:
    """What the metrics give reason to doubt, before anybody takes a number from the page."""
    doubted = [run for run in runs if run.warnings]
    if not doubted:
        return ""
    if not few_doubted(runs):
        text = f"Training gives reason to doubt {len(doubted)} of these {len(runs)} runs: see Diagnostics."
        return f'<p class="callout small">{text}</p>'
    if len(runs) > 1:
        return said(runs, [[f"{doubt}." for doubt in run.warnings] for run in runs])
    return "".join(f'<p class="callout small"><b>Warning</b>: {escape(doubt)}.</p>' for doubt in doubted[0].warnings)


def few_doubted(runs: Sequence[RunContents]) -> bool:
    """Whether all that training gives reason to doubt is told at the top."""
    return sum(bool(run.warnings) for run in runs) <= _MOST_DOUBTED


def _chance(found: Any) -> str:
    if found.low is None or found.high is None:
        return f"{found.value:.2f}"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
