"""The pages made from the schema: one per algorithm, their index, and every option of a configuration."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from rl_training import algorithms
from rl_training.data import dataset_loaders as datasets
from rl_training.data.transforms import TransformConfig
from rl_training.experiment.registry import entries
from rl_training.parameters import Parameter, parameters_of
from rl_training.runtime.config import (
    DivergenceConfig,
    EarlyStoppingConfig,
    EvaluationConfig,
    OnlineConfig,
    TrackerConfig,
    TrainConfig,
)
from rl_training.runtime.presets import presets

DOCS = Path(__file__).resolve().parent.parent
SECTIONS: dict[str, type[BaseModel]] = {
    "online": OnlineConfig,
    "tracking": TrackerConfig,
    "transforms": TransformConfig,
    "evaluation": EvaluationConfig,
    "early_stopping": EarlyStoppingConfig,
    "divergence": DivergenceConfig,
}
DATASETS: dict[str, type[BaseModel]] = {
    "source: file": datasets.FileDatasetConfig,
    "source: minari": datasets.MinariDatasetConfig,
    "source: mixture": datasets.MixtureDatasetConfig,
    "parts of a mixture": datasets.MixturePart,
    "source: scripted": datasets.ScriptedDatasetConfig,
    "source: random": datasets.RandomDatasetConfig,
}


def cell(text: str) -> str:
    """Text for a table's cell, in one line."""
    return " ".join(text.replace("|", "\\|").split())


def option_table(model: type[BaseModel], sections: tuple[str, ...] = ()) -> Iterator[str]:
    """A Markdown table of a model's fields; a field of `sections` leads on to its own table."""
    yield "| option | default | meaning | allowed |"
    yield "|---|---|---|---|"
    for one in parameters_of(model):
        linked = one.name in sections
        default = f"[see below](#{one.name})" if linked else default_of(one)
        allowed = "section, or none" if linked and one.default is None else "section" if linked else one.allowed
        yield f"| `{one.name}` | {default} | {cell(one.description)} | {cell(allowed)} |"


def default_of(one: Parameter) -> str:
    return "required" if one.required else f"`{one.default_text}`"


def algorithm_page(name: str, written: Path = DOCS / "algorithms") -> str:
    """What is written about one algorithm (its docstring, where nobody has yet), its parameters and configurations."""
    learner = algorithms.load(name)
    page = written / f"{name}.md"
    if page.is_file():
        lines = [page.read_text("utf-8")]
    else:
        module = importlib.import_module(learner.__module__)
        lines = [f"# {learner.__name__}", "", "```text", inspect.cleandoc(module.__doc__ or ""), "```", ""]
    lines += ["## Parameters (`algo_kwargs`)", "", *option_table(learner.Params), ""]
    configs = next(e.configs for e in entries() if e.name == name)
    lines += ["## Packaged configurations", "", *(f"- `{config}`" for config in configs), ""]
    if presets(name):
        lines += ["## Presets (`preset:`)", "", "| preset | settings of |", "|---|---|"]
        lines += [f"| `{preset}` | {cell(entry['source'])} |" for preset, entry in presets(name).items()]
    return "\n".join(lines).rstrip() + "\n"


def algorithm_index() -> str:
    """Every algorithm and what it does."""
    lines = ["# Algorithms", "", "Not sure? [Which algorithm should I use?](../choosing.md)", ""]
    lines += ["| name | class | what it does |", "|---|---|---|"]
    for e in entries():
        lines.append(f"| [{e.name}]({e.name}.md) | `{e.learner.__name__}` | {cell(e.summary)} |")
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """Every option of a run, those of its dataset included."""
    lines = [
        "# Configuration",
        "",
        "A configuration is one YAML file: `rl-training init` writes one for your data, `rl-training config show`",
        "prints one with every default filled in, and `--set online.prior=buffer` changes a value for one command.",
        "What is misspelt or out of range is refused in one line. The algorithm's own parameters, `algo_kwargs`, are",
        "on [its page](algorithms/index.md).",
        "",
        *option_table(TrainConfig, ("dataset", *SECTIONS)),
        "",
        "## `dataset`",
        "",
        "A path alone (`dataset: log.csv`) is short for `source: file`, `dataset: minari:ID` for `source: minari`.",
        "What is read, and how, is on [the page about data](data.md).",
    ]
    for title, model in DATASETS.items():
        heading = f"`{title}`" if title.startswith("source") else title.capitalize()
        lines += ["", f"### {heading}", "", inspect.getdoc(model) or "", "", *option_table(model)]
    for title, model in SECTIONS.items():
        lines += ["", f"## `{title}`", "", inspect.getdoc(model) or "", "", *option_table(model)]
    return "\n".join(lines) + "\n"
