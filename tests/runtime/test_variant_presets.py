"""Presets that are no paper's: what they set, what they leave alone, and that they say so."""

from __future__ import annotations

from typing import Any

import pytest

from rl_training import algorithms
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.presets import presets


def parsed(algo: str, preset: str) -> TrainConfig:
    return TrainConfig.parse({"algo": algo, "preset": preset, "total_timesteps": 10})


CONSTANT = {"kind": "constant", "warmup": 0, "final": 0.0}
CHANGED: dict[tuple[str, str], dict[str, Any]] = {
    ("td3_bc", "layernorm"): {"layer_norm": "pre", "init": "orthogonal", "actor_lr": 1e-3, "critic_lr": 1e-3},
    ("iql", "layernorm"): {"value_layer_norm": "pre", "lr_schedule": {"actor": CONSTANT}},
    ("crr", "layernorm"): {"layer_norm": "pre"},
    ("cql", "layernorm"): {"layer_norm": "pre", "cql_alpha": 5.0},
    ("rebrac", "small-data"): {"actor_bc_weight": 0.1, "critic_bc_weight": 0.01},
}


@pytest.mark.parametrize(("algo", "name"), CHANGED)
def test_everything_else_is_the_default(algo: str, name: str) -> None:
    default = algorithms.load(algo).Params().model_dump(mode="json")
    assert parsed(algo, name).algo_kwargs == {**default, **CHANGED[algo, name]}


def test_td3_bc_with_layer_norm() -> None:
    transforms = parsed("td3_bc", "layernorm").transforms
    assert (transforms.normalise_observations, transforms.reward_scale) == (True, 1.0)
    assert presets("td3_bc")["layernorm"]["source"] == (
        "LayerNorm critics, orthogonal start and rates of 1e-3, as JAX-CORL runs TD3+BC; not the paper's"
    )


def test_iql_with_layer_norm() -> None:
    config = parsed("iql", "layernorm")
    assert (config.algo_kwargs["expectile"], config.algo_kwargs["beta"]) == (0.7, 3.0)
    assert config.transforms.reward_range_scaling
    assert not config.transforms.normalise_observations
    assert presets("iql")["layernorm"]["source"] == (
        "LayerNorm in the state value and a constant rate, as JAX-CORL runs IQL (its cosine is a million updates long)"
        "; not the paper's"
    )


def test_rebrac_on_small_data() -> None:
    """Ten times the default's pull towards the data; no dataset's name, and no budget of a million updates."""
    assert presets("rebrac")["small-data"] == {
        "source": "this package's own benchmark on files of 100,000 transitions, where the authors' smaller weights, "
        "tuned on ten times as many, fall below the behaviour",
        "config": {"algo_kwargs": {"actor_bc_weight": 0.1, "critic_bc_weight": 0.01}},
    }
