"""What every learner refuses, and what its parameters keep."""

from __future__ import annotations

import math

import pytest
import torch

from rl_training.algorithms.base import Schedule
from rl_training.algorithms.cql import CQL, CQLParams
from rl_training.algorithms.iql import IQL, IQLParams
from rl_training.errors import ConfigError
from rl_training.models import Gaussian, TanhGaussianPolicy


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"obs_dim": 0}, "obs_dim: must be at least 1, got 0"),
        ({"act_dim": -1}, "act_dim: must be at least 1, got -1"),
        ({"total_updates": 0}, "total_updates: must be at least 1, got 0"),
        ({"seeds": ()}, "seeds: must be one or more integers from 0 to 2^31 - 1, got []"),
        ({"seeds": (2**64,)}, f"seeds: must be one or more integers from 0 to 2^31 - 1, got [{2**64}]"),
        ({"params": CQLParams(), "cql_alpha": 7.0}, "params: give a CQLParams or keywords, not both and nothing else"),
        ({"params": IQLParams()}, "params: give a CQLParams or keywords, not both and nothing else"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        CQL(**{"obs_dim": 3, "act_dim": 1, **arguments})
    assert str(refusal.value) == message


def test_scheduling_another_network_keeps_the_cosine_of_iql_s_actor() -> None:
    params = IQL(3, 1, lr_schedule={"critic": {"kind": "linear"}}).params
    assert params.lr_schedule == {"actor": Schedule(kind="cosine"), "critic": Schedule(kind="linear")}
    assert IQL(3, 1, lr_schedule={"actor": {}}).params.lr_schedule == {"actor": Schedule()}


@pytest.mark.parametrize("log_std", [0.0, -10.0, -20.0])
def test_the_density_of_a_sample_does_not_cancel_when_the_policy_is_narrow(log_std: float) -> None:
    """In float32, (u - μ)/σ has no correct digit left at log σ = -20; the noise has all of them."""
    noise = torch.tensor([[[0.7, -1.3]]])
    gaussian = Gaussian(torch.tensor([[[0.4, -0.2]]]), torch.full((1, 1, 2), log_std))
    _, log_prob = TanhGaussianPolicy.sample_from(gaussian, noise)
    expected = 0.0
    for mean, eps in ((0.4, 0.7), (-0.2, -1.3)):
        u = mean + math.exp(log_std) * eps
        expected += -0.5 * eps**2 - log_std - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(u) ** 2)
    assert float(log_prob) == pytest.approx(expected, rel=1e-5)
