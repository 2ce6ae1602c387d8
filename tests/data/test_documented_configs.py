"""The `dataset:` sections of the documents are accepted as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rl_training import yaml_dialect
from rl_training.runtime.config import TrainConfig

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/data/*.md")), REPOSITORY / "docs" / "data.md")
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
IN_BLOCKS = [part for block in BLOCKS for part in re.split(r"^(?=dataset:)", block, flags=re.MULTILINE) if part]
SECTIONS = IN_BLOCKS + re.findall(r"`(dataset: [^`]+)`", TEXT)


@pytest.mark.parametrize("text", SECTIONS)
def test_is_a_configuration(text: str) -> None:
    given = yaml_dialect.read(text)
    assert isinstance(given, dict)
    assert given
    config = TrainConfig.parse({"algo": "iql", "total_timesteps": 1, **given})
    if isinstance(name := given.get("dataset"), str):
        of_minari = {"source": "minari", "id": name.removeprefix("minari:")}
        given["dataset"] = of_minari if name.startswith("minari:") else {"source": "file", "path": name.rstrip("/")}
    assert holds(config.to_plain(), given)


def holds(whole: Any, given: Any) -> bool:
    """Whether a configuration says all that was given, as text where it is no mapping."""
    if isinstance(given, dict):
        return all(key in whole and holds(whole[key], value) for key, value in given.items())
    return bool(whole == given) or str(whole) == str(given)


def test_there_are_some() -> None:
    assert len(SECTIONS) >= 15
