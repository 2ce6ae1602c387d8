"""How to get the same again: commands, versions, fingerprints and the whole configuration of each run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from rl_training import yaml_dialect
from rl_training.data.dataset_loaders import path_alone
from rl_training.data.provenance import KEY, Provenance
from rl_training.experiment.horizon import DEFAULT_GAMMA
from rl_training.experiment.report import tables
from rl_training.experiment.report.contents import RunContents
from rl_training.experiment.report.datasets import data_title
from rl_training.experiment.stored_estimates import Record, mapping, title
from rl_training.experiment.stored_numbers import as_number
from rl_training.paths import bare_name, bare_paths, free_names, from_here, in_shell, resolved
from rl_training.runtime.fitted_evaluation import OfflineEvaluationConfig
from rl_training.validation import printable
from rl_training.wording import cores_and_threads

_LOG = "LOG.yaml"


def reproduce(runs: Sequence[RunContents]) -> str:
    """One block for each run."""
    intro = (
        "Batches and noise depend on the seed and the update's number alone: on the same machine, versions, engine and"
        " number of threads the same configuration, its budget included, gives the same weights, bit for bit. The"
        " configuration below is complete, but that files stand in it by their bare names: save it as a file, or use"
        " the run's own."
    )
    facts = [_facts(run) for run in runs]
    shared = {label: text for label, text in facts[0].items() if all(one.get(label) == text for one in facts)}
    shared = shared if len(runs) > 1 else {}
    whose = "both runs" if len(runs) == 2 else f"all {len(runs)} runs"
    told = f"<p>The same for {whose}:</p>{tables.pairs([*shared.items()])}" if shared else ""
    each = "".join(
        _run(run, {label: text for label, text in own.items() if label not in shared})
        for run, own in zip(runs, facts, strict=True)
    )
    return f'<p class="small faint">{escape(intro)}</p>{told}{each}'


def _facts(run: RunContents) -> dict[str, str]:
    """With what it was made, as far as it says."""
    made = Provenance.read(run.data_facts.get(KEY))
    told = {
        "started": _moment(run.summary.created),
        "versions": _joined(run.facts.get("versions")),
        "machine": _machine(run.facts.get("machine")),
        "engine": ", then ".join(_engines(run)),
        "noted at its start": "; ".join(run.machine_notes),
        "data, SHA-256": str(run.data_facts.get("fingerprint") or "none"),
        f"{data_title(run)}, made from": ""
        if (made := Provenance.read(run.data_facts.get(KEY))) is None
        else made.in_words() or "",
    }
    for record in run.offline:
        used = mapping(record.get("data"))
        if used.get("fingerprint") and used["fingerprint"] != run.data_facts.get("fingerprint"):
            told[f"{title(record)}, SHA-256"] = str(used["fingerprint"])
    return {label: text for label, text in told.items() if text}


def _run(run: RunContents, facts: Mapping[str, str]) -> str:
    parts = [f'<div data-run="{run.number}"><h3>{escape(run.label)}</h3>']
    config = in_shell(from_here(run.path) / "config.yaml")
    if run.config:
        name = shlex.quote(f"{resolved(run.path).name}-again")
        commands, told = _training(run, f"rl-training train -c {config} --name {name}", name)
        parts += [f'<p class="callout small">{escape(text)}</p>' for text in (told, _mixed(run)) if text]
        commands = [*_splitting(run), *commands]
        commands += [f"rl-training evaluate {name} --episodes 100"] if run.summary.env_id else []
        commands += [f"rl-training evaluate {name} --offline{options_of(run, record)}" for record in run.offline]
        parts.append(f"<pre><code>{escape(chr(10).join(commands))}</code></pre>")
    parts.append(_of_the_log(run))
    parts.append(tables.pairs([*facts.items()]))
    if run.config:
        text = escape(yaml_dialect.write(bare_paths(run.config)))
        parts.append(f"<details><summary>Complete configuration</summary><pre><code>{text}</code></pre></details>")
    return "".join(parts) + "</div>"


def _splitting(run: RunContents) -> list[str]:
    """The command that parted the data from those set aside, as far as they tell; how the log is read stands below."""
    split = _split(run)
    if split is None or split.source is None or split.others is None or (drawn := split.drawn()) is None:
        return []
    parts = [data_title(run), bare_name(split.others)]
    files = shlex.join(parts if (split.part or "").startswith("all but") else parts[::-1])
    source = f"-c {_LOG}" if split.options else shlex.quote(printable(split.source))
    told = f"  # {_LOG}: stands below" if split.options else ""
    return [f"rl-training data split {source} -o {files} --held-out {drawn[0]} --seed {drawn[1]}{told}"]


def splitting_anew(run: RunContents) -> str:
    """The command that sets half of the episodes aside, of the log that the run's data are a part of, if they are, and
    how that is read stands on the page; files get names that nothing here has."""
    split = _split(run) if _splitting(run) else None
    own = Path(data_title(run))
    parts = own.with_name(f"train{own.suffix}"), own.with_name(f"aside{own.suffix}")
    source = f"-c {in_shell(from_here(run.path) / 'config.yaml')}"
    if split is not None and split.source is not None and split.others is not None:
        both = own, Path(bare_name(split.others))
        parts = both if (split.part or "").startswith("all but") else both[::-1]
        source = f"-c {_LOG}" if split.options else shlex.quote(printable(split.source))
    files = shlex.join(f"{name}{'' if own.suffix else '/'}" for name in free_names(*map(str, parts)))
    return f"rl-training data split {source} --held-out 0.5 -o {files}"


def where_the_log_stands(command: str) -> str:
    """To follow words before a command that names the log's configuration, which nobody has as a file yet."""
    return f' ({_LOG}: save it from <a href="#reproduce">How to reproduce</a>)' if _LOG in command else ""


def _of_the_log(run: RunContents) -> str:
    """The configuration by which the log was read that the data were parted from, as it was said."""
    split = _split(run) if _splitting(run) else None
    if split is None or split.source is None or not split.options:
        return ""
    section = {**path_alone(bare_name(split.source)), **split.options}
    text = escape(yaml_dialect.write({"algo": run.summary.algo, "dataset": section}))
    return f"<details><summary>{_LOG}</summary><pre><code>{text}</code></pre></details>"


def _split(run: RunContents) -> Provenance | None:
    made = Provenance.read(run.data_facts.get(KEY))
    return None if made is None else made.split()


def options_of(run: RunContents, record: Record) -> str:
    """The options of an estimate, but for those that are what they are if not given."""
    used, asked = mapping(record.get("data")), mapping(record.get("asked"))
    own = as_number(mapping(run.config.get("algo_kwargs")).get("gamma"), DEFAULT_GAMMA)
    step, gamma = (as_number(record.get(name), None) for name in ("step", "gamma"))
    seeds, updates, repeats = record.get("seeds"), asked.get("updates"), record.get("repeats")
    usual = OfflineEvaluationConfig()
    words = [] if step is None or step == run.summary.steps else ["--which", f"{step:.0f}"]
    if not used.get("fingerprint") or used["fingerprint"] != run.data_facts.get("fingerprint"):
        words += ["--data", title(record)]
    words += [] if gamma is None or gamma == own else ["--gamma", f"{gamma:.10g}"]
    words += [] if type(updates) is not int or updates == usual.updates else ["--updates", str(updates)]
    words += [] if type(repeats) is not int or repeats == usual.repeats else ["--repeats", str(repeats)]
    if isinstance(seeds, list) and tuple(seeds) != run.summary.seeds:
        words += ["--seeds", ",".join(map(str, seeds))]
    return f" {shlex.join(words)}" if words else ""


def _training(run: RunContents, command: str, name: str) -> tuple[list[str], str | None]:
    """The commands that train it again; what they cannot promise where its budget was changed on the way."""
    changes, engines = _budget_changes(run), _engines(run)
    if not changes:
        return [command], None
    if len(engines) == 1 and run.config.get("engine") == "auto":  # which chooses by the budget at the start
        command += f" --set engine={engines[0].partition(' ')[0]}"
    shown = ", ".join(f"at {run.unit.removesuffix('s')} {at:,} from {old:,} to {new:,}" for at, old, new in changes)
    told = f"Its budget was changed: {shown}. "
    schedules = _schedules(run.config)
    if not schedules:
        same = "" if len(engines) > 1 else ": the weights come out the same"
        return [command], f"{told}None of its learning rates depends on the budget{same}."
    told += f"Its learning rates ({', '.join(schedules)}) depend on the budget"
    if all(at == old for at, old, _ in changes):
        again = [f"{command} --set total_timesteps={changes[0][1]}"]
        again += [f"rl-training resume {name} --total-timesteps {new}" for _, _, new in changes]
        return again, f"{told}: the same weights take the same budgets, one after another."
    return [command], (
        f"{told}, and it was changed in the middle: the command trains under the last budget from the start, which"
        " gives other weights."
    )


def _engines(run: RunContents) -> list[str]:
    """What computed its updates, in order; earlier versions did not say."""
    return list(run.facts.get("engines") or ())


def _mixed(run: RunContents) -> str | None:
    """What no command can promise of a run that went on by something else than it was begun with."""
    if len(engines := _engines(run)) < 2:
        return None
    return f"It was computed {', then '.join(engines)}: no command gives the same weights, bit for bit."


def _budget_changes(run: RunContents) -> list[tuple[int, int, int]]:
    entries = run.facts.get("budgets")
    found: list[tuple[int, int, int]] = []
    for entry in entries if isinstance(entries, list) else []:
        match entry:
            case {"step": int(step), "before": int(before), "after": int(after)}:
                found.append((step, before, after))
    return found


def _schedules(config: Mapping[str, Any]) -> list[str]:
    """The networks whose learning rate decays over the budget: `actor: cosine`."""
    section = config.get("algo_kwargs")
    networks = section.get("lr_schedule") if isinstance(section, Mapping) else None
    kinds = {
        str(name): schedule.get("kind") if isinstance(schedule, Mapping) else None
        for name, schedule in (networks.items() if isinstance(networks, Mapping) else ())
    }
    return [f"{name}: {kind}" for name, kind in kinds.items() if kind in ("linear", "cosine")]


def _moment(created: str | None) -> str:
    """`2026-11-16 09:15 UTC`; what is no time is left as it is."""
    try:
        return datetime.fromisoformat(created or "").strftime("%Y-%m-%d %H:%M %Z").removesuffix("+00:00")
    except ValueError:
        return created or "unknown"


def _machine(told: Any) -> str:
    """In words; a run that was resumed with other threads has all their numbers, in order."""
    known = dict(told) if isinstance(told, Mapping) else {}
    resumed, first = known.pop("threads_resumed", None), known.pop("threads", None)
    uses = cores_and_threads(known.pop("cpu_count", None), first)
    if isinstance(resumed, list) and resumed:
        uses = ", ".join([*([uses] if uses else []), f"resumed with {', then '.join(map(str, resumed))}"])
    return ", ".join(part for part in (_joined(known), uses) if part)


def _joined(values: Any) -> str:
    """`torch 2.13.0, numpy 2.4.6`."""
    return ", ".join(f"{name} {value}" for name, value in values.items()) if isinstance(values, Mapping) else ""
