"""`rl-training algos` and `rl-training configs`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rl_training import algorithms, yaml_dialect
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import beside, terminal_width
from rl_training.experiment.assets import ASSETS, packaged_configs
from rl_training.experiment.registry import Entry, class_names, entries, entry

_INDENT = 9


def every(*, as_json: bool) -> None:
    """All algorithms, in a line or two each."""
    if as_json:
        kept = [
            {"name": e.name, "learns": _learns(e.name), "summary": e.summary, "configs": e.configs} for e in entries()
        ]
        tell(json.dumps(kept))
        return
    for e in entries():
        tell("\n".join(beside(e.name, f"[{_learns(e.name)}] {e.summary}", _INDENT)))
        tell(f"{'':<{_INDENT}}configs: {', '.join(e.configs) or 'none packaged'}")
    tell("offline: from data alone; online: in an environment (rlpd: with data besides)")
    tell("parameters, presets and paper of one: rl-training algos NAME")


def _learns(name: str) -> str:
    """From data alone, or in an environment."""
    return "online" if algorithms.is_online(name) else "offline"


def one(name: str, *, as_json: bool) -> None:
    """One algorithm: everything its schema and its assets say of it."""
    about = entry(name)
    if as_json:
        tell(json.dumps(_facts(about), indent=1))
    else:
        tell("\n".join(_page(about)))


def _facts(about: Entry) -> dict[str, Any]:
    from rl_training.parameters import parameters_of
    from rl_training.runtime.presets import presets

    parameters = [
        {key: value for key, value in asdict(parameter).items() if key != "required"}
        for parameter in parameters_of(about.learner.Params)
    ]
    return {
        "name": about.name,
        "class": _class_name(about.name),
        "learns": _learns(about.name),
        "summary": about.summary,
        "paper": algorithms.paper(about.name),
        "docs": _docs(about.name),
        "configs": list(about.configs),
        "presets": {preset: entry["source"] for preset, entry in presets(about.name).items()},
        "parameters": parameters,
    }


def _page(about: Entry) -> list[str]:
    from rl_training.parameters import parameters_of
    from rl_training.runtime.presets import presets

    width = terminal_width() or 100
    lines = beside(f"{about.name}:", about.summary, len(about.name) + 2)
    pairs = {
        "learns": "in an environment (online)" if algorithms.is_online(about.name) else "from data alone (offline)",
        "paper": algorithms.paper(about.name) or "none",
        "python": f"from rl_training import {_class_name(about.name)}",
        "docs": _docs(about.name),
        "configs": ", ".join(about.configs) or "none packaged",
    }
    for label, text in pairs.items():
        lines += beside(f"  {label}", text, 11)
    lines += ["", "Parameters (algo_kwargs in a configuration, keywords in Python):"]
    for parameter in parameters_of(about.learner.Params):
        head = f"  {parameter.name} = {parameter.default_text}"
        allowed = f"  ({parameter.allowed})"
        room = len(head) + len(allowed) <= width
        lines += [head + allowed] if room else [head, *beside("", allowed.strip(), 6)]
        lines += beside("", parameter.description, 6)
    found = presets(about.name)
    if found:
        lines += ["", "Presets (--set preset=NAME):"]
        for preset, values in found.items():
            lines += beside(f"  {preset}", values["source"], 4 + max(len(name) for name in found))
    return lines


def _class_name(name: str) -> str:
    return next(label for label, algo in class_names().items() if algo == name)


def _docs(name: str) -> str:
    return f"docs/algorithms/{name}.md"


def configs(*, as_json: bool) -> None:
    """The packaged configurations and what each is of."""
    found = [{"name": name, **_of_config(name)} for name in packaged_configs()]
    if as_json:
        tell(json.dumps(found, indent=1))
        return
    indent = 2 + max(len(str(config["name"])) for config in found)
    for config in found:
        tell("\n".join(beside(str(config["name"]), str(config["summary"]), indent)))
    tell("train with it: rl-training train -c NAME; see it: rl-training config show NAME")


def _of_config(name: str) -> dict[str, Any]:
    """Algorithm, environment and budget, and the comment at the top of the file."""
    text = (ASSETS / f"{name}.yaml").read_text("utf-8")
    values = yaml_dialect.read(text)
    comment: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    facts = {key: values.get(key) for key in ("algo", "env_id", "total_timesteps")}
    return {**facts, "summary": " ".join(comment)}
