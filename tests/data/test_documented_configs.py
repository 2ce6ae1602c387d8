"""The `dataset:` sections of the documents are accepted as they stand."""

from __future__ import annotations

import re
from pathlib import Path

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
    section = yaml_dialect.read(text)
    config = TrainConfig.parse({"algo": "iql", "total_timesteps": 1, **section})
    if "dataset" not in section:
        return
    assert config.dataset is not None
    given = section["dataset"]
    if isinstance(given, dict):
        assert all(
            (told := getattr(config.dataset, key)) == value or str(told) == str(value) for key, value in given.items()
        )
    else:
        assert config.dataset.source == ("minari" if given.startswith("minari:") else "file")


def test_there_are_some() -> None:
    assert len(SECTIONS) >= 15
