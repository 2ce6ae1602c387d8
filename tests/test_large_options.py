"""Numbers that a configuration can hold and float32 cannot: refused by name, or trained with."""

from __future__ import annotations

import typing
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rl_training import algorithms
from rl_training.errors import ConfigError, DivergenceError
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.trainer import trainer_for
from rl_training.validation import Section
from small_runs import small_config

BEYOND = (1e308, -1e308, 1e39)


def mentions(annotation: Any, kind: type) -> bool:
    return annotation is kind or any(mentions(part, kind) for part in typing.get_args(annotation))


def numbers(model: type[BaseModel]) -> list[str]:
    return [name for name, field in model.model_fields.items() if mentions(field.annotation, float)]


def subclasses(kind: type) -> list[type]:
    return [one for own in kind.__subclasses__() for one in (own, *subclasses(own))]


@pytest.mark.parametrize("algo", algorithms.find())
def test_of_every_algorithm(algo: str) -> None:
    for name in numbers(algorithms.load(algo).Params):
        for value in BEYOND:
            with pytest.raises(ConfigError, match=rf"{name}: must be "):
                TrainConfig.parse({"algo": algo, "total_timesteps": 1, "algo_kwargs": {name: value}})


def test_of_every_section() -> None:
    sections = [one for one in subclasses(Section) if one.__module__.startswith("rl_training.") and numbers(one)]
    assert {"TransformConfig", "EarlyStoppingConfig", "DivergenceConfig", "FileDatasetConfig", "MixturePart"} <= {
        one.__name__ for one in sections
    }
    for section in sections:
        for name in numbers(section):
            for value in BEYOND:
                with pytest.raises(ValueError, match=name):
                    section(**{name: value})


@pytest.mark.parametrize(
    ("algo", "name"),
    [("cql", "gap_max"), ("iql", "max_weight"), ("awr", "max_weight"), ("crr", "max_weight"), ("td3_bc", "noise_clip")],
)
def test_the_largest_of_float32_are_trained_with(algo: str, name: str, data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, algo, total_timesteps=2, log_interval=1, algo_kwargs={name: 3.4e38})
    with suppress(DivergenceError):  # said in the package's own words
        assert trainer_for(algo)(config).train().status == "finished"
