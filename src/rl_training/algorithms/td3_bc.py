"""TD3+BC: TD3 with a behaviour-cloning term in the actor's loss.

Fujimoto & Gu, "A Minimalist Approach to Offline Reinforcement Learning", NeurIPS 2021. Critics, targets and order are
TD3's; the actor also clones the data's actions:

    L_π = -λ·mean Q_1(s, π(s)) + mean_{batch, dims} (π(s) - a)²,   λ = α / mean|Q_1(s, π(s))|, a constant
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from rl_training.algorithms.base import Batch, InitParams, Metrics
from rl_training.algorithms.base.losses import require_shape
from rl_training.algorithms.td3 import TD3, DelayedActorParams
from rl_training.models import MLPTD3Model, reduce_critics


class TD3BCParams(DelayedActorParams, InitParams):
    """Defaults are the authors'."""

    alpha: float = Field(2.5, ge=0.0, description="weight α of the value term against cloning")
    bc_weight: float = Field(1.0, ge=0.0, description="weight of the cloning term; 0 leaves λ times TD3's actor loss")
    normalise_q: bool = Field(True, description="divide α by mean|Q|; false uses α as it is")


def td3_bc_loss(
    model: MLPTD3Model, batch: Batch, noise: Mapping[str, Tensor], params: TD3BCParams
) -> tuple[Tensor, Metrics]:
    """The actor's loss L_π, `[M]`. It uses no noise."""
    actions = model.actor.mode(batch.obs)
    require_shape("actions", batch.actions, actions.shape)
    values = reduce_critics(model.critics.values(batch.obs, actions), "first")
    scale = params.alpha / (values.detach().abs().mean(-1) + 1e-7) if params.normalise_q else params.alpha
    cloning = (actions - batch.actions).square().mean((-1, -2))
    loss = -scale * values.mean(-1) + params.bc_weight * cloning
    return loss, {"actor/loss": loss, "actor/bc_loss": cloning, "actor/q": values.mean(-1)}


class TD3BC(TD3):
    """Learner: TD3 with another loss for the actor."""

    Params = TD3BCParams
    params: TD3BCParams

    def actor_loss(self, batch: Batch, noise: Mapping[str, Tensor]) -> tuple[Tensor, Metrics]:
        return td3_bc_loss(self.model, batch, noise, self.params)


TD3BCAlgorithm = TD3BC
