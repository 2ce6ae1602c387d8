"""Hyper-parameters shared by the algorithms: frozen, validated, the only home of their defaults."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from rl_training.models.layers import LayerNormPlacement
from rl_training.validation import Section

PositiveInt = Annotated[int, Field(ge=1)]
LearningRate = Annotated[float, Field(gt=0.0, le=1.0)]
HiddenSizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=16)]


class Schedule(Section):
    """How one network's learning rate moves over the run, as a factor on its base value."""

    kind: Literal["constant", "linear", "cosine"] = Field("constant", description="shape of the decay after warm-up")
    warmup: int = Field(0, ge=0, description="updates over which the rate rises linearly from zero")
    final: float = Field(0.0, ge=0.0, le=1.0, description="factor reached at the end of the run (linear, cosine)")


class AlgorithmParams(Section):
    """What every algorithm has."""

    batch_size: PositiveInt = Field(256, description="transitions per member and update")
    lr_schedule: dict[str, Schedule] = Field(
        default_factory=dict, description="learning-rate schedule by network (actor, critic, …); constant if not named"
    )

    def least_values(self, obs_dim: int) -> int:
        """How many values the largest network of a member has at the least, known without building it."""
        networks = {name: value for name, value in self if name.endswith("_hidden") and isinstance(value, tuple)}
        sizes = [
            sum(one * next_ for one, next_ in pairwise((obs_dim, *hidden)))
            * (getattr(self, "n_critics", 1) if name == "critic_hidden" else 1)
            for name, hidden in networks.items()
        ]
        return max(sizes, default=0)


class BootstrapParams(AlgorithmParams):
    """What every algorithm with a bootstrapped critic has."""

    gamma: float = Field(0.99, ge=0.0, lt=1.0, description="discount γ")
    tau: float = Field(0.005, gt=0.0, le=1.0, description="Polyak rate τ of the target networks")
    n_critics: PositiveInt = Field(2, description="critics in the ensemble")
    layer_norm: LayerNormPlacement = Field("none", description="LayerNorm in the critics")


class InitParams(Section):
    """For algorithms whose networks may start in several ways."""

    init: Literal["torch", "orthogonal", "xavier"] = Field("torch", description="how the networks start")


class OnlineParams(Section):
    """How an algorithm that collects its own experience does so."""

    buffer_capacity: PositiveInt = Field(1_000_000, description="transitions kept per seed; the oldest make room")
    learning_starts: int = Field(5_000, ge=0, description="steps of uniformly random actions before the first update")
    train_frequency: PositiveInt = Field(1, description="environment steps between rounds of updates")
    gradient_updates_per_step: PositiveInt = Field(1, description="updates in each round")
    n_envs: PositiveInt = Field(1, description="environments stepping at once, per seed")


class PriorDataParams(OnlineParams):
    """How experience of its own is mixed with a dataset."""

    offline_batch_ratio: float = Field(0.5, ge=0.0, le=1.0, description="share of every batch taken from prior data")
    offline_pretrain_updates: int = Field(0, ge=0, description="updates on prior data alone before the first step")
