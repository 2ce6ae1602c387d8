"""The mathematics a second time, in plain float64 NumPy: what the tests of models and algorithms compare with.

Everything is written for one member and one copy of a network at a time, from the equations, without the package's
own formulas: log(1 - tanh²u) is computed as it is written, a gradient is a central difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Learner
from rl_training.data.batch import Batch
from rl_training.models import Critics, StackedMLP

Array = npt.NDArray[np.float64]


# Networks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """One stacked network's parameters: name -> `[M, copies, *shape]`."""

    tensors: dict[str, Array]
    layer_norm: str = "none"

    def __call__(self, member: int, x: Array, copy: int = 0) -> Array:
        """`[..., in] -> [..., out]`."""
        p = {name: value[member, copy] for name, value in self.tensors.items()}
        layers = sum(name.startswith("weight_") for name in p)
        for i in range(layers):
            x = x @ p[f"weight_{i}"] + p[f"bias_{i}"]
            if i == layers - 1:
                break
            if self.layer_norm == "pre":
                x = np.maximum(normalised(x) * p[f"scale_{i}"] + p[f"shift_{i}"], 0.0)
            elif self.layer_norm == "post":
                x = normalised(np.maximum(x, 0.0)) * p[f"scale_{i}"] + p[f"shift_{i}"]
            else:
                x = np.maximum(x, 0.0)
        return x


def normalised(x: Array) -> Array:
    """LayerNorm without scale and shift: the biased variance, epsilon 1e-6 as in Flax."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


def network(stacked: StackedMLP) -> Network:
    shape = (stacked.members, stacked.copies)
    tensors = {
        name: value.detach().double().numpy().copy().reshape(*shape, *value.shape[1:])
        for name, value in stacked.tensors().items()
    }
    return Network(tensors, stacked.spec.layer_norm)


def networks(model: nn.Module) -> dict[str, Network]:
    """Every network of a model family by its attribute's name; lone parameters are networks of one tensor, `value`."""
    found = {name: network(child) for name, child in model.named_children() if isinstance(child, StackedMLP)}
    for name, value in model.named_parameters(recurse=False):
        found[name] = Network({"value": value.detach().double().numpy().copy()[:, None]})
    return found


def q_values(critics: Network, member: int, obs: Array, actions: Array) -> Array:
    """`[E, ...]` for observations `[..., obs]` and actions `[..., act]` that broadcast against each other."""
    lead = np.broadcast_shapes(obs.shape[:-1], actions.shape[:-1])
    x = np.concatenate(
        [np.broadcast_to(obs, (*lead, obs.shape[-1])), np.broadcast_to(actions, (*lead, actions.shape[-1]))], axis=-1
    )
    copies = critics.tensors["bias_0"].shape[1]
    return np.stack([critics(member, x, copy)[..., 0] for copy in range(copies)])


# Policies -----------------------------------------------------------------------------------------------------------


def normal_log_density(x: Array, mean: Array, std: Array) -> Array:
    return -((x - mean) ** 2) / (2 * std**2) - np.log(std * np.sqrt(2 * np.pi))


def tanh_gaussian(actor: Network, member: int, obs: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
    """μ and σ of the normal before squashing; log σ = m·x + b where the network has these two scalars."""
    mean, log_std = np.split(actor(member, obs), 2, axis=-1)
    if "log_std_scale" in actor.tensors:
        log_std = actor.tensors["log_std_scale"][member, 0] * log_std + actor.tensors["log_std_offset"][member, 0]
    return mean, np.exp(np.clip(log_std, *bounds))


def squashed_density(u: Array, mean: Array, std: Array) -> Array:
    """log π(tanh u), by the change of variables as the textbooks write it."""
    return (normal_log_density(u, mean, std) - np.log(1.0 - np.tanh(u) ** 2)).sum(-1)


def squashed_sample(
    actor: Network, member: int, obs: Array, noise: Array, bounds: tuple[float, float] = (-20.0, 2.0)
) -> tuple[Array, Array]:
    """a = tanh(μ + σ·ε) and log π(a|s), for noise `[..., B, act]`."""
    mean, std = tanh_gaussian(actor, member, obs, bounds)
    u = mean + std * noise
    return np.tanh(u), squashed_density(u, mean, std)


def squashed_log_prob(actor: Network, member: int, obs: Array, actions: Array) -> Array:
    """log π(a|s) of given actions, clipped 1e-5 off the edge."""
    mean, std = tanh_gaussian(actor, member, obs, (-20.0, 2.0))
    return squashed_density(np.arctanh(np.clip(actions, -1 + 1e-5, 1 - 1e-5)), mean, std)


def gaussian_log_prob(actor: Network, member: int, obs: Array, actions: Array) -> Array:
    """Head (b): mean tanh(f(s)), a log σ that does not see the state, clamped to [-5, 2]; no Jacobian."""
    std = np.exp(np.clip(actor.tensors["log_std"][member, 0], -5.0, 2.0))
    return normal_log_density(actions, np.tanh(actor(member, obs)), std).sum(-1)


# Data ---------------------------------------------------------------------------------------------------------------


def random_batch(members: int, size: int, obs_dim: int, act_dim: int, seed: int = 0) -> Batch:
    """A float64 batch with terminations at some rows of every member and none at the others."""
    rng = np.random.default_rng(seed)
    terminations = np.zeros((members, size))
    terminations[:, :: max(size // 2, 2)] = 1.0
    return Batch(
        obs=torch.from_numpy(rng.normal(size=(members, size, obs_dim))),
        actions=torch.from_numpy(rng.uniform(-0.95, 0.95, size=(members, size, act_dim))),
        rewards=torch.from_numpy(rng.normal(size=(members, size))),
        next_obs=torch.from_numpy(rng.normal(size=(members, size, obs_dim))),
        terminations=torch.from_numpy(terminations),
    )


def member_rows(batch: Batch, member: int) -> dict[str, Array]:
    """One member's fields as arrays."""
    return {name: value[member].numpy() for name, value in batch._asdict().items() if value is not None}


def only_member(batch: Batch, member: int) -> Batch:
    return Batch(*(None if field is None else field[member : member + 1] for field in batch))


def draw(learner: Learner, size: int, seed: int = 5) -> dict[str, Tensor]:
    """float64 noise of the kinds and shapes one update on `size` transitions asks for."""
    rng = np.random.default_rng(seed)
    kinds = {"normal": rng.normal, "uniform": rng.uniform}
    return {
        name: torch.from_numpy(kinds[noise.kind](size=(learner.members, *noise.shape)))
        for name, noise in learner.noise(size).items()
    }


def scramble(model: nn.Module, seed: int = 0, scale: float = 0.3) -> None:
    """Make a model float64 and move every parameter at random, targets away from their online networks too."""
    model.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for stacked in (child for child in model.modules() if isinstance(child, StackedMLP)):
            for value in stacked.tensors().values():
                value += scale * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        lone = () if isinstance(model, StackedMLP) else model.parameters(recurse=False)
        for value in lone:
            value += scale * torch.randn(value.shape, generator=generator, dtype=torch.float64)


# Gradients ----------------------------------------------------------------------------------------------------------

Networks = Mapping[str, Network]
Loss = Callable[[Networks], Array]


def assert_gradient(
    loss: Tensor,
    parameter: nn.Parameter,
    view: Callable[[Tensor], dict[str, Tensor]],
    name: str,
    nets: Networks,
    reference: Loss,
) -> None:
    """d(Σ loss)/dθ against central differences of `reference(networks) -> [M]`, for several entries of each tensor.

    `nets[name]` holds the entries that `view(gradient)` names. Each change must move its own member's loss alone.
    """
    (gradient,) = torch.autograd.grad(loss.sum(), parameter, retain_graph=True)
    rng = np.random.default_rng(len(name))
    before, step = reference(nets), 1e-6
    for key, exact in view(gradient).items():
        values = nets[name].tensors[key]
        exact_values = exact.detach().numpy().reshape(values.shape)
        # The largest entry, so that not all are zeros of inactive units, and two at random.
        entries = {np.unravel_index(np.abs(exact_values).argmax(), values.shape)}
        entries |= {tuple(rng.integers(values.shape)) for _ in range(2)}
        for index in entries:
            moved = []
            for sign in (1.0, -1.0):
                shifted = values.copy()
                shifted[index] += sign * step
                moved.append(
                    reference({**nets, name: replace(nets[name], tensors={**nets[name].tensors, key: shifted})})
                )
            slope = (moved[0] - moved[1]) / (2 * step)
            member = index[0]
            others = np.arange(len(before)) != member
            np.testing.assert_array_equal(moved[0][others], before[others])
            np.testing.assert_allclose(
                exact_values[index], slope[member], rtol=2e-5, atol=2e-7, err_msg=f"{name}.{key}{list(map(int, index))}"
            )


def assert_network_gradient(loss: Tensor, model: nn.Module, name: str, reference: Loss) -> None:
    """`assert_gradient` for the network or lone parameter `model.<name>`."""
    part = getattr(model, name)
    if isinstance(part, StackedMLP):
        assert_gradient(loss, part.flat, part.tensors, name, networks(model), reference)
    else:
        assert_gradient(loss, part, lambda gradient: {"value": gradient}, name, networks(model), reference)


def trained_parameters(loss: Tensor, model: nn.Module) -> set[str]:
    """The names of the model's networks that `loss` sends a gradient into, targets included if it were so."""
    parts = {name: getattr(part, "flat", part) for name, part in model.named_children()}
    parts |= dict(model.named_parameters(recurse=False))
    parts = {name: part for name, part in parts.items() if part.requires_grad}
    gradients = torch.autograd.grad(loss.sum(), list(parts.values()), allow_unused=True, retain_graph=True)
    return {
        name
        for name, gradient in zip(parts, gradients, strict=True)
        if gradient is not None and bool(gradient.abs().sum() > 0)
    }


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def moved(before: Mapping[str, Tensor], model: nn.Module) -> set[str]:
    """The names of the networks (first part of the parameter's name) that are no longer what they were."""
    return {
        name.partition(".")[0] for name, value in model.state_dict().items() if not torch.equal(value, before[name])
    }


# Updates by hand ----------------------------------------------------------------------------------------------------


def manual_step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of torch's own optimiser on losses `[M]`."""
    optimiser.zero_grad()
    loss.sum().backward()
    optimiser.step()


@torch.no_grad()
def manual_polyak(target: StackedMLP, online: StackedMLP, tau: float) -> None:
    target.flat.copy_((1 - tau) * target.flat + tau * online.flat)


def assert_same_parameters(model: nn.Module, twin: nn.Module, rtol: float = 1e-8, atol: float = 1e-11) -> None:
    for name, value in model.state_dict().items():
        np.testing.assert_allclose(value.numpy(), twin.state_dict()[name].numpy(), rtol=rtol, atol=atol, err_msg=name)


def numpy_critic_values(critics: Critics, obs: Tensor, actions: Tensor) -> Array:
    """`[M, E, B]` (or `[M, E, n, B]`) by the reference."""
    reference = network(critics)
    pairs = zip(obs.double().numpy(), actions.double().numpy(), strict=True)
    return np.stack([q_values(reference, m, o, a) for m, (o, a) in enumerate(pairs)])
