"""One member's policy as plain arrays: what a file needs to answer raw observations with the environment's actions.

    x  = (obs - mean) / divisor             where observations are standardised
    h  = relu(norm(h W + b))                for each hidden layer; norm where the network has one
    a  = tanh(h W + b)                      the mode, for every head; a sample adds noise (see `Head`)
    action = clip(centre + half · a, low, high)
    action = max(action, upper) if action ≥ middle else min(action, lower)      for gaps that actions are moved out of

Everything is float32. The mean is split in two, `mean_high + mean_low`: subtracted one after the other they lose no
digit where a mean is far larger than its deviation, which one float32 would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rl_training.algorithms.base import Learner
from rl_training.data.action_gaps import ActionGap
from rl_training.data.transforms import Transforms
from rl_training.errors import ConfigError
from rl_training.models import DeterministicPolicy, GaussianPolicy, TanhGaussianPolicy
from rl_training.models.layers import LayerNormPlacement, StackedMLP

Floats = npt.NDArray[np.float32]
Head = Literal["deterministic", "gaussian", "tanh-gaussian"]


@dataclass(frozen=True)
class Affine:
    """x W + b, `weight` [in, out]."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True)
class Hidden(Affine):
    """A hidden layer, with its own scale and shift where it is normalised."""

    scale: Floats | None = None
    shift: Floats | None = None


@dataclass(frozen=True)
class Standardisation:
    """x = ((obs - mean_high) - mean_low) / divisor, each `[obs]`."""

    mean_high: Floats
    mean_low: Floats
    divisor: Floats


@dataclass(frozen=True)
class PolicyNetwork:
    """head: `gaussian` samples clip(tanh(mean) + std · noise, ±1), `tanh-gaussian` tanh(mean + exp(log σ) · noise).

    log_std: the layer that computes log σ, clamped to `log_std_bounds`; std: a σ that does not see the state, `[act]`.
    """

    standardisation: Standardisation | None
    hidden: tuple[Hidden, ...]
    layer_norm: LayerNormPlacement
    head: Head
    mean: Affine
    log_std: Affine | None
    log_std_bounds: tuple[float, float]
    std: Floats | None
    low: Floats
    high: Floats
    gaps: tuple[ActionGap, ...] = ()

    @property
    def obs_dim(self) -> int:
        return len(self.hidden[0].weight)

    @property
    def act_dim(self) -> int:
        return len(self.low)

    @property
    def centre(self) -> Floats:
        return _single(0.5 * (self.low.astype(np.float64) + self.high))

    @property
    def half(self) -> Floats:
        return _single(0.5 * (self.high.astype(np.float64) - self.low))

    def parameters(self) -> int:
        """How many weights the file holds for the mode."""
        layers = [*self.hidden, self.mean]
        norms = sum(2 * len(layer.bias) for layer in self.hidden if layer.scale is not None)
        return sum(layer.weight.size + layer.bias.size for layer in layers) + norms


def read_network(learner: Learner, transforms: Transforms, member: int) -> PolicyNetwork:
    """Copy one member's policy out of a learner."""
    policy: object = learner.policy  # of the three heads, each a StackedMLP
    if type(learner).act is not Learner.act or not isinstance(policy, StackedMLP):
        raise ConfigError(f"export: {type(learner).__name__} acts in a way of its own, which no file can hold yet")
    tensors = {name: _single(value[member].detach().cpu().numpy()) for name, value in policy.tensors().items()}
    last = len(policy.spec.sizes) - 2
    hidden = tuple(
        Hidden(tensors[f"weight_{i}"], tensors[f"bias_{i}"], tensors.get(f"scale_{i}"), tensors.get(f"shift_{i}"))
        for i in range(last)
    )
    mean, log_std, std, bounds = Affine(tensors[f"weight_{last}"], tensors[f"bias_{last}"]), None, None, (0.0, 0.0)
    head: Head
    if isinstance(policy, TanhGaussianPolicy):
        head, bounds = "tanh-gaussian", policy.log_std_bounds
        mean, log_std = _split(mean, learner.act_dim)
        if "log_std_scale" in tensors:  # log σ = m·x + b, folded into the layer
            m, b = tensors["log_std_scale"], tensors["log_std_offset"]
            log_std = Affine(m * log_std.weight, m * log_std.bias + b)
    elif isinstance(policy, GaussianPolicy):
        head = "gaussian"
        std = _constant_deviation(policy, member)
    elif isinstance(policy, DeterministicPolicy):
        head = "deterministic"
    else:
        raise ConfigError(f"export: a policy of type {type(policy).__name__} is not known")
    low, high = _single(transforms.action_low), _single(transforms.action_high)
    norm = policy.spec.layer_norm
    outwards = (low, high, transforms.action_gaps)
    return PolicyNetwork(_standardisation(transforms), hidden, norm, head, mean, log_std, bounds, std, *outwards)


def require_samples(learner: Learner, network: PolicyNetwork) -> None:
    """Refuse to export samples of a policy that has none, or draws them in a way of its own."""
    name = type(learner).__name__
    if network.head == "deterministic":
        raise ConfigError(f"--stochastic: this {name} policy is deterministic; leave the option out")
    drawn = learner.acting_noise(1)
    if set(drawn) != {"action"} or drawn["action"].shape != (1, learner.act_dim):
        raise ConfigError(f"--stochastic: {name} chooses among samples by its critics here; only its mode is exported")


def _constant_deviation(policy: GaussianPolicy, member: int) -> Floats:
    import torch

    with torch.no_grad():
        some = torch.zeros(policy.members, 1, policy.spec.sizes[0], device=policy.flat.device)
        return _single(policy.distribution(some).log_std[member, 0].exp().cpu().numpy())


def _split(layer: Affine, act_dim: int) -> tuple[Affine, Affine]:
    weight, bias = layer.weight, layer.bias
    return (
        Affine(_single(weight[:, :act_dim]), bias[:act_dim]),
        Affine(_single(weight[:, act_dim:]), bias[act_dim:]),
    )


def _standardisation(transforms: Transforms) -> Standardisation | None:
    if transforms.obs_mean is None or transforms.obs_std is None:
        return None
    mean = np.asarray(transforms.obs_mean, dtype=np.float64)
    high = _single(mean)
    return Standardisation(high, _single(mean - high), _single(transforms.obs_std))


def _single(values: npt.ArrayLike) -> Floats:
    return np.ascontiguousarray(values, dtype=np.float32)
