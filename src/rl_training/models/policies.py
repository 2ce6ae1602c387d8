"""The three policy heads. Actions live in [-1, 1]; noise comes in as an argument, nothing is drawn here.

Shapes: observations `[M, B, obs]`, actions `[M, B, act]`, log-probabilities `[M, B]`; a policy asked for n actions
per observation gets noise `[M, n, B, act]` and answers `[M, n, B, act]` and `[M, n, B]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from rl_training.data.transforms import ACTION_EDGE
from rl_training.models.initialisers import Initialiser
from rl_training.models.layers import MLPSpec, StackedMLP

_LOG_2PI = math.log(2.0 * math.pi)


class Gaussian(NamedTuple):
    """A diagonal normal per observation: `mean` and `log_std`, `[M, B, act]` (`log_std` may be `[M, 1, act]`)."""

    mean: Tensor
    log_std: Tensor

    def at(self, noise: Tensor) -> Tensor:
        """mean + std·noise, with the sample axis of `noise` kept if it has one."""
        mean, log_std = self._like(noise)
        return mean + log_std.exp() * noise

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density at `value`, summed over action dimensions."""
        mean, log_std = self._like(value)
        return self.log_prob_of_noise((value - mean) * (-log_std).exp())

    def log_prob_of_noise(self, noise: Tensor) -> Tensor:
        """Log-density at mean + std·noise."""
        return (-0.5 * noise.square() - self._like(noise)[1] - 0.5 * _LOG_2PI).sum(-1)

    def _like(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (self.mean.unsqueeze(1), self.log_std.unsqueeze(1)) if x.dim() == 4 else (self.mean, self.log_std)


class Policy(Protocol):
    """What acting needs from any head."""

    def mode(self, obs: Tensor) -> Tensor:
        """The deterministic action, `[M, B, act]`."""
        ...

    def sample_action(self, obs: Tensor, noise: Tensor) -> Tensor:
        """An action drawn with standard normal `noise`, `[M, B, act]`."""
        ...


def log_tanh_jacobian(u: Tensor) -> Tensor:
    """Σ_j log(1 - tanh²u_j) = Σ_j 2(log 2 - u_j - softplus(-2u_j)), exact where the textbook form underflows."""
    return (2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))).sum(-1)


class TanhGaussianPolicy(StackedMLP):
    """a = tanh(u), u ~ N(μ(s), σ(s)²): SAC, CQL, CRR, RLPD."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        *,
        init: Initialiser | None = None,
        log_std_bounds: tuple[float, float] = (-20.0, 2.0),
        learn_log_std_affine: bool = False,
    ) -> None:
        """`learn_log_std_affine`: log σ = m·x + b with learnable scalars that start at m=1, b=-1 (the CQL family)."""
        constants = {"log_std_scale": (1.0, 1), "log_std_offset": (-1.0, 1)} if learn_log_std_affine else {}
        sizes = (obs_dim, *hidden, 2 * act_dim)
        super().__init__(MLPSpec(sizes, init=init or Initialiser(), constants=constants), seeds, "actor")
        self.log_std_bounds = log_std_bounds

    def distribution(self, obs: Tensor) -> Gaussian:
        """The normal before squashing."""
        p = self.tensors()
        mean, log_std = self.forward(obs).squeeze(1).chunk(2, dim=-1)
        if "log_std_scale" in p:
            log_std = p["log_std_scale"].unsqueeze(1) * log_std + p["log_std_offset"].unsqueeze(1)
        return Gaussian(mean, log_std.clamp(*self.log_std_bounds))

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Reparameterised actions and their log-probabilities."""
        return self.sample_from(self.distribution(obs), noise)

    @staticmethod
    def sample_from(gaussian: Gaussian, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The density comes from the noise itself: recomputing it as (u - μ)/σ cancels when σ is small."""
        u = gaussian.at(noise)
        return u.tanh(), gaussian.log_prob_of_noise(noise) - log_tanh_jacobian(u)

    def log_prob(self, obs: Tensor, actions: Tensor) -> Tensor:
        """log π(a|s) of given actions, clipped off ±1 where atanh is infinite."""
        u = actions.clamp(-1.0 + ACTION_EDGE, 1.0 - ACTION_EDGE).atanh()
        return self.distribution(obs).log_prob(u) - log_tanh_jacobian(u)

    def mode(self, obs: Tensor) -> Tensor:
        return self.distribution(obs).mean.tanh()

    def sample_action(self, obs: Tensor, noise: Tensor) -> Tensor:
        return self.sample(obs, noise)[0]


class GaussianPolicy(StackedMLP):
    """a ~ N(tanh μ(s), σ²), not squashed, σ a parameter that does not see the state: IQL, AWAC, AWR."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        *,
        init: Initialiser | None = None,
        log_std_bounds: tuple[float, float] = (-5.0, 2.0),
        squash_log_std: bool = False,
    ) -> None:
        """`squash_log_std`: a sigmoid maps the parameter into the bounds (AWAC) instead of a clamp."""
        spec = MLPSpec((obs_dim, *hidden, act_dim), init=init or Initialiser(), constants={"log_std": (0.0, act_dim)})
        super().__init__(spec, seeds, "actor")
        self.log_std_bounds = log_std_bounds
        self.squash_log_std = squash_log_std

    def distribution(self, obs: Tensor, masks: Sequence[Tensor] = ()) -> Gaussian:
        p = self.tensors()
        low, high = self.log_std_bounds
        raw = p["log_std"]
        log_std = low + (high - low) * raw.sigmoid() if self.squash_log_std else raw.clamp(low, high)
        return Gaussian(self.forward(obs, masks).squeeze(1).tanh(), log_std.unsqueeze(1))

    def log_prob(self, obs: Tensor, actions: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Plain normal log-density: the head is not squashed, so no Jacobian and no clipping."""
        return self.distribution(obs, masks).log_prob(actions)

    def mode(self, obs: Tensor) -> Tensor:
        return self.distribution(obs).mean

    def sample_action(self, obs: Tensor, noise: Tensor) -> Tensor:
        return self.distribution(obs).at(noise).clamp(-1.0, 1.0)


class DeterministicPolicy(StackedMLP):
    """a = tanh(f(s)): TD3, TD3+BC, ReBRAC. It has one action per state; a sample is that action."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: Sequence[int],
        seeds: Sequence[int],
        *,
        init: Initialiser | None = None,
    ) -> None:
        super().__init__(MLPSpec((obs_dim, *hidden, act_dim), init=init or Initialiser()), seeds, "actor")

    def mode(self, obs: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        return torch.tanh(self.forward(obs, masks).squeeze(1))

    def sample_action(self, obs: Tensor, noise: Tensor) -> Tensor:
        return self.mode(obs)
