"""Builds `site/`: the pages of this folder and the reference pages generated from the source.

python docs/build.py [--output site]
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from rl_training import algorithms
from rl_training.data.transforms import TransformConfig
from rl_training.experiment.registry import entries
from rl_training.runtime.config import EarlyStoppingConfig, EvaluationConfig, OnlineConfig, TrackerConfig, TrainConfig
from rl_training.runtime.presets import presets

HERE = Path(__file__).parent


def option_table(model: type[BaseModel]) -> Iterator[str]:
    """A Markdown table of a model's fields."""
    yield "| option | default | meaning |"
    yield "|---|---|---|"
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
        if isinstance(field.default, BaseModel) or (
            field.default_factory and isinstance(field.get_default(call_default_factory=True), BaseModel)
        ):
            default = "see below"
        yield f"| `{name}` | {default} | {field.description} |"


def algorithm_page(name: str, written: Path = HERE / "algorithms") -> str:
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
        lines += [f"| `{preset}` | {entry['source']} |" for preset, entry in presets(name).items()]
    return "\n".join(lines).rstrip() + "\n"


def configuration_page() -> str:
    """Every option of a run."""
    lines = ["# Configuration", "", *option_table(TrainConfig)]
    for title, model in (
        ("evaluation", EvaluationConfig),
        ("early_stopping", EarlyStoppingConfig),
        ("transforms", TransformConfig),
        ("online", OnlineConfig),
        ("tracking", TrackerConfig),
    ):
        lines += ["", f"## `{title}`", "", *option_table(model)]
    return "\n".join(lines) + "\n"


def build(site: Path) -> None:
    """Write every page into `site`, laid out as this folder is."""
    (site / "algorithms").mkdir(parents=True, exist_ok=True)
    for page in HERE.glob("*.md"):
        shutil.copy(page, site / page.name)
    (site / "configuration.md").write_text(configuration_page(), "utf-8")
    index = ["# Algorithms", "", "Not sure? [Which algorithm should I use?](../choosing.md)", ""]
    index += ["| name | what it does |", "|---|---|"]
    for e in entries():
        (site / "algorithms" / f"{e.name}.md").write_text(algorithm_page(e.name), "utf-8")
        index.append(f"| [{e.name}]({e.name}.md) | {e.summary} |")
    (site / "algorithms" / "index.md").write_text("\n".join(index) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("site"))
    site: Path = parser.parse_args().output
    build(site)
    print(f"{len(list(site.rglob('*.md')))} pages in {site}")


if __name__ == "__main__":
    main()
