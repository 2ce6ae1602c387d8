"""RLPD: SAC that learns online with half of every batch from prior data.

Ball, Smith, Kostrikov & Levine, "Efficient Online Reinforcement Learning with Offline Data", ICML 2023. The update is
SAC's; what the paper adds is configuration (`preset: paper`) and the batches, which its trainer mixes:

    y   = r + γ(1-d)·[ min_{i∈Z} Q̄_i(s', a') - 1[backup_entropy]·α·log π(a'|s') ],   Z: random target critics, redrawn
    L_Q = Σ_i mean (Q_i(s, a) - y)²                    ten critics with LayerNorm, each with its own scale and shift
    L_π = mean( α·log π(ã|s) - mean_i Q_i(s, ã) )      the mean over all critics, not their minimum

Each round of `gradient_updates_per_step` updates steps the critics every time, the actor and α in its last update.
Every batch holds exactly `offline_batch_ratio` of prior data, in whole rows. The batches of a round are drawn
independently, where the authors cut up one large draw; L_Q is a sum over the critics, where theirs is the mean, a
factor that Adam divides out but for its ε. The narrow defaults are SAC with mixed batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from rl_training.algorithms.base import PriorDataParams
from rl_training.algorithms.sac import SAC, SACParams, sac_loss


class RLPDParams(SACParams, PriorDataParams):
    """SAC's parameters, and how prior data enter."""

    @model_validator(mode="after")
    def _whole_rounds(self) -> RLPDParams:
        if self.offline_pretrain_updates % self.gradient_updates_per_step:
            raise ValueError(
                f"offline_pretrain_updates ({self.offline_pretrain_updates}) must be a multiple of "
                f"gradient_updates_per_step ({self.gradient_updates_per_step}), so that rounds stay whole"
            )
        return self


class RLPD(SAC):
    """Learner: SAC whose actor steps once in each round of updates."""

    Params = RLPDParams
    params: RLPDParams
    # A trained policy needs neither random actions nor pretraining before it goes on.
    finetuning: ClassVar[Mapping[str, Any]] = {"learning_starts": 0, "offline_pretrain_updates": 0}

    @property
    def period(self) -> int:
        return self.params.gradient_updates_per_step


rlpd_loss = sac_loss
RLPDAlgorithm = RLPD
