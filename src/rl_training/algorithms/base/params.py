"""Hyper-parameters shared by the algorithms: frozen, validated, the only home of their defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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


class BootstrapParams(AlgorithmParams):
    """What every algorithm with a bootstrapped critic has."""

    gamma: float = Field(0.99, ge=0.0, lt=1.0, description="discount γ")
    tau: float = Field(0.005, gt=0.0, le=1.0, description="Polyak rate τ of the target networks")
    n_critics: PositiveInt = Field(2, description="critics in the ensemble")
