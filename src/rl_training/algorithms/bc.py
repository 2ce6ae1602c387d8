"""Behaviour cloning: supervised regression of the data's actions, the baseline every offline algorithm must beat.

Pomerleau, "ALVINN", NeurIPS 1988, in the two forms offline RL compares against:

    deterministic policy   L = mean_{batch, dims} (π(s) - a)²
    Gaussian policy        L = -mean log π(a|s),   a ~ N(tanh μ(s), σ²)

With `best_fraction` (%BC) only the best episodes, by undiscounted return and on true episode borders, are cloned.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor, nn

from rl_training.algorithms.base import (
    AlgorithmParams,
    Batch,
    HiddenSizes,
    Learner,
    LearningRate,
    Metrics,
    Noise,
)
from rl_training.algorithms.base.losses import require_shape
from rl_training.models import DeterministicPolicy, GaussianPolicy


class BCParams(AlgorithmParams):
    """Defaults as CORL's."""

    deterministic_policy: bool = Field(True, description="squared error; false maximises a Gaussian's likelihood")
    best_fraction: float = Field(1.0, gt=0.0, le=1.0, description="share of episodes kept, the best by their return")
    actor_lr: LearningRate = Field(3e-4, description="learning rate of the actor")
    actor_hidden: HiddenSizes = Field((256, 256), description="widths of the actor's hidden layers")


class BCModel(nn.Module):
    """A policy and nothing else."""

    def __init__(self, actor: DeterministicPolicy | GaussianPolicy) -> None:
        super().__init__()
        self.actor = actor


def bc_loss(model: BCModel, batch: Batch, noise: Mapping[str, Tensor], params: BCParams) -> tuple[Tensor, Metrics]:
    """L, `[M]`. It uses no noise."""
    if isinstance(model.actor, DeterministicPolicy):
        actions = model.actor.mode(batch.obs)
        require_shape("actions", batch.actions, actions.shape)
        loss = (actions - batch.actions).square().mean((-1, -2))
    else:
        loss = -model.actor.log_prob(batch.obs, batch.actions).mean(-1)
    return loss, {"actor/loss": loss}


class BC(Learner):
    """Learner; see the module's docstring for the equations."""

    Params = BCParams
    params: BCParams
    model: BCModel

    def build(self) -> BCModel:
        head = DeterministicPolicy if self.params.deterministic_policy else GaussianPolicy
        return BCModel(head(self.obs_dim, self.act_dim, self.params.actor_hidden, self.seeds))

    def noise(self, batch_size: int) -> dict[str, Noise]:
        return {}

    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        loss, metrics = bc_loss(self.model, batch, noise, self.params)
        self.optimisers["actor"].step(loss)
        return metrics


BCAlgorithm = BC
