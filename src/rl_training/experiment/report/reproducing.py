"""How to get the same again: commands, versions, fingerprints and the whole configuration of each run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rl_training import yaml_dialect
from rl_training.experiment.report import tables
from rl_training.experiment.report.contents import RunContents


def reproduce(runs: Sequence[RunContents]) -> str:
    """One block for each run."""
    intro = (
        "Batches and noise depend on the seed and the update's number alone: on the same machine, versions, engine and"
        " number of threads the same configuration gives the same weights, bit for bit. The configuration below is"
        " complete: save it as a file, or use the run's own."
    )
    return f'<p class="small faint">{escape(intro)}</p>' + "".join(_run(run) for run in runs)


def _run(run: RunContents) -> str:
    parts = [f'<div data-run="{run.number}"><h3>{escape(run.label)}</h3>']
    config = shlex.quote(str(run.path / "config.yaml"))
    if run.config:
        name = shlex.quote(f"{run.path.resolve().name}-again")
        commands = [f"rl-training train -c {config} --name {name}"]
        commands += [f"rl-training evaluate {name} --episodes 100"] if run.summary.env_id else []
        parts.append(f"<pre><code>{escape(chr(10).join(commands))}</code></pre>")
    entries = [("started", run.summary.created or "unknown")]
    entries += [("versions", _joined(run.facts.get("versions")))]
    entries += [("machine", _joined(run.facts.get("machine")))]
    entries += [("data, SHA-256", str(run.data_facts.get("fingerprint") or "none"))]
    parts.append(tables.pairs([(label, text) for label, text in entries if text]))
    if run.config:
        text = escape(yaml_dialect.write(dict(run.config)))
        parts.append(f"<details><summary>Complete configuration</summary><pre><code>{text}</code></pre></details>")
    return "".join(parts) + "</div>"


def _joined(values: Any) -> str:
    """`torch 2.13.0, numpy 2.4.6`."""
    if not isinstance(values, Mapping):
        return ""
    return ", ".join(f"{str(name).replace('_', ' ')} {value}" for name, value in values.items())
