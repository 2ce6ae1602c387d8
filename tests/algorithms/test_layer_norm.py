"""LayerNorm as an option: in the critics, for IQL also in the state value, never in an actor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from numpy_reference import network, q_values
from rl_training import algorithms
from rl_training.algorithms.base import BootstrapParams, Learner
from rl_training.data.batch import Batch
from rl_training.errors import ConfigError
from rl_training.experiment import manager
from rl_training.models import StackedMLP
from small_runs import StopAt, digest, knobs, small_config

OBS, ACT, BATCH, SEEDS = 3, 2, 5, (4, 1)
ALGOS = [name for name in algorithms.find() if issubclass(algorithms.load(name).Params, BootstrapParams)]


def learner(algo: str, **own: Any) -> Learner:
    return algorithms.load(algo)(OBS, ACT, seeds=SEEDS, **{**knobs(algo), **own})


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    obs, following = torch.randn(2, len(SEEDS), BATCH, OBS, generator=generator)
    actions, next_actions = torch.rand(2, len(SEEDS), BATCH, ACT, generator=generator) * 1.8 - 0.9
    rewards = torch.randn(len(SEEDS), BATCH, generator=generator)
    return Batch(obs, actions, rewards, following, torch.zeros_like(rewards), next_actions=next_actions)


def disturb(net: StackedMLP) -> None:
    """Scales and shifts start at 1 and 0, where much would pass unseen."""
    with torch.no_grad():
        net.flat.add_(0.3 * torch.randn(net.flat.shape, generator=torch.Generator().manual_seed(1)))


def test_every_algorithm_with_critics_is_here() -> None:
    assert {"awac", "cql", "crr", "iql", "rebrac", "rlpd", "sac", "td3", "td3_bc"} <= set(ALGOS)


@pytest.mark.parametrize("algo", ALGOS)
class TestCritics:
    def test_default(self, algo: str) -> None:
        expected = "post" if algo == "rebrac" else "none"
        assert algorithms.load(algo).Params().layer_norm == expected
        assert learner(algo).model.critics.spec.layer_norm == expected

    @pytest.mark.parametrize("placement", ["none", "pre", "post"])
    def test_values_are_numpys(self, algo: str, placement: str) -> None:
        model, data = learner(algo, layer_norm=placement).model, batch()
        disturb(model.critics)
        values = model.critics.values(data.obs, data.actions).detach().numpy()
        assert network(model.critics).layer_norm == placement
        for member in range(len(SEEDS)):
            obs, actions = (rows[member].double().numpy() for rows in (data.obs, data.actions))
            expected = q_values(network(model.critics), member, obs, actions)
            np.testing.assert_allclose(values[member], expected, rtol=2e-5, atol=2e-5)

    def test_in_the_targets_too_and_in_nothing_else(self, algo: str) -> None:
        networks = dict(learner(algo, layer_norm="pre").model.named_children())
        normalised = {name for name, net in networks.items() if net.spec.layer_norm == "pre"}
        assert normalised == {"critics", "target_critics"}

    def test_scales_and_shifts_are_learned(self, algo: str) -> None:
        one = learner(algo, layer_norm="pre")
        before = {name: value.clone() for name, value in one.model.critics.tensors().items()}
        assert one.update(batch()).gradient_steps == 1
        for name, value in one.model.critics.tensors().items():
            moved = (value != before[name]).flatten(1).any(-1)
            assert moved.all(), name  # in every critic of every member

    def test_wrong(self, algo: str) -> None:
        with pytest.raises(ConfigError, match=r"algo_kwargs\.layer_norm: must be 'none', 'pre' or 'post'"):
            learner(algo, layer_norm="before")


class TestStateValue:
    @pytest.mark.parametrize("placement", ["none", "pre", "post"])
    def test_values_are_numpys(self, placement: str) -> None:
        model, data = learner("iql", value_layer_norm=placement).model, batch()
        disturb(model.value)
        reference = network(model.value)
        assert (reference.layer_norm, model.critics.spec.layer_norm) == (placement, "none")
        values = model.value.values(data.obs).detach().numpy()
        for member in range(len(SEEDS)):
            expected = reference(member, data.obs[member].double().numpy())[..., 0]
            np.testing.assert_allclose(values[member], expected, rtol=2e-5, atol=2e-5)

    def test_scales_and_shifts_are_learned(self) -> None:
        one = learner("iql", value_layer_norm="pre")
        before = {name: value.clone() for name, value in one.model.value.tensors().items()}
        one.update(batch())
        assert all((value != before[name]).any() for name, value in one.model.value.tensors().items())

    def test_default(self) -> None:
        assert algorithms.load("iql").Params().value_layer_norm == "none"


@pytest.mark.parametrize("algo", ["td3", "td3_bc", "sac"])
class TestStart:
    def test_default(self, algo: str) -> None:
        model = learner(algo).model
        assert {net.spec.init.scheme for net in model.children()} == {"torch"}
        assert digest(model.state_dict()) == digest(learner(algo, init="torch").model.state_dict())

    @pytest.mark.parametrize("scheme", ["orthogonal", "xavier"])
    def test_all_networks_start_as_asked(self, algo: str, scheme: str) -> None:
        model = learner(algo, init=scheme).model
        assert {net.spec.init.scheme for net in model.children()} == {scheme}
        assert not model.critics.tensors()["bias_0"].any()


RESUMED: dict[str, dict[str, Any]] = {
    "td3_bc": {"layer_norm": "pre", "init": "orthogonal"},
    "iql": {"layer_norm": "post", "value_layer_norm": "pre"},
    "awac": {"layer_norm": "pre"},
    "cql": {"layer_norm": "pre"},
    "crr": {"layer_norm": "post"},
}


@pytest.mark.parametrize("algo", RESUMED)
def test_resumed_exactly(algo: str, data_file: Path, tmp_path: Path) -> None:
    def config(name: str) -> Any:
        return small_config(data_file, tmp_path, algo, name=name, algo_kwargs=RESUMED[algo])

    whole = manager.start(config("whole"))
    cut = manager.start(config("cut"), callbacks=[StopAt(7)])
    assert cut.status == "interrupted"
    resumed = manager.resume(cut.run.path)
    assert digest(resumed.checkpoint.tensors) == digest(whole.checkpoint.tensors)
