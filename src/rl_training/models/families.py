"""The three model families: which networks an algorithm trains, and how they start.

Each is a plain `nn.Module` with the member axis first. `seeds` are the members' seeds; one seed is one member.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from rl_training.models.initialisers import Initialiser
from rl_training.models.layers import LayerNormPlacement
from rl_training.models.policies import DeterministicPolicy, GaussianPolicy, TanhGaussianPolicy
from rl_training.models.values import Critics, StateValue


class MLPSACModel(nn.Module):
    """Tanh-Gaussian actor, E critics with targets, log-temperature `[M, 1]` (SAC, CQL, RLPD).

    CRR has no temperature: `initial_alpha=None`.
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        *,
        seeds: Sequence[int] = (0,),
        actor_hidden: Sequence[int] = (256, 256),
        critic_hidden: Sequence[int] = (256, 256),
        n_critics: int = 2,
        layer_norm: LayerNormPlacement = "none",
        actor_init: Initialiser | None = None,
        critic_init: Initialiser | None = None,
        log_std_bounds: tuple[float, float] = (-20.0, 2.0),
        learn_log_std_affine: bool = False,
        initial_alpha: float | None = 1.0,
    ) -> None:
        super().__init__()
        self.actor = TanhGaussianPolicy(
            obs_dim,
            act_dim,
            actor_hidden,
            seeds,
            init=actor_init,
            log_std_bounds=log_std_bounds,
            learn_log_std_affine=learn_log_std_affine,
        )
        self.critics = Critics(
            obs_dim, act_dim, critic_hidden, seeds, n_critics=n_critics, layer_norm=layer_norm, init=critic_init
        )
        self.target_critics = self.critics.target()
        if initial_alpha is not None:
            self.log_alpha = nn.Parameter(torch.full((len(seeds), 1), math.log(initial_alpha)))


class MLPTD3Model(nn.Module):
    """Deterministic actor and E critics, each with a target (TD3, TD3+BC, ReBRAC)."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        *,
        seeds: Sequence[int] = (0,),
        actor_hidden: Sequence[int] = (256, 256),
        critic_hidden: Sequence[int] = (256, 256),
        n_critics: int = 2,
        layer_norm: LayerNormPlacement = "none",
        actor_init: Initialiser | None = None,
        critic_init: Initialiser | None = None,
    ) -> None:
        super().__init__()
        self.actor = DeterministicPolicy(obs_dim, act_dim, actor_hidden, seeds, init=actor_init)
        self.target_actor = self.actor.target()
        self.critics = Critics(
            obs_dim, act_dim, critic_hidden, seeds, n_critics=n_critics, layer_norm=layer_norm, init=critic_init
        )
        self.target_critics = self.critics.target()


class MLPIQLModel(nn.Module):
    """Policy, state value without a target, E critics with targets (IQL). AWR has none: `n_critics=0`."""

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        *,
        seeds: Sequence[int] = (0,),
        actor_hidden: Sequence[int] = (256, 256),
        critic_hidden: Sequence[int] = (256, 256),
        value_hidden: Sequence[int] = (256, 256),
        n_critics: int = 2,
        layer_norm: LayerNormPlacement = "none",
        value_layer_norm: LayerNormPlacement = "none",
        deterministic_policy: bool = False,
        init: Initialiser | None = None,
        log_std_bounds: tuple[float, float] = (-5.0, 2.0),
        fixed_std: float | None = None,
    ) -> None:
        super().__init__()
        self.actor: GaussianPolicy | DeterministicPolicy
        if deterministic_policy:
            self.actor = DeterministicPolicy(obs_dim, act_dim, actor_hidden, seeds, init=init)
        else:
            bounds = log_std_bounds if fixed_std is None else (math.log(fixed_std), math.log(fixed_std))
            self.actor = GaussianPolicy(obs_dim, act_dim, actor_hidden, seeds, init=init, log_std_bounds=bounds)
        self.value = StateValue(obs_dim, value_hidden, seeds, layer_norm=value_layer_norm, init=init)
        if n_critics:
            self.critics = Critics(
                obs_dim, act_dim, critic_hidden, seeds, n_critics=n_critics, layer_norm=layer_norm, init=init
            )
            self.target_critics = self.critics.target()
