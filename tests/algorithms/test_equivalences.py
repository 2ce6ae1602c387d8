"""Where two algorithms must coincide: each special case against the simpler algorithm's own equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from numpy_reference import (
    Array,
    Networks,
    assert_network_gradient,
    gaussian_log_prob,
    member_rows,
    networks,
    q_values,
    random_batch,
    scramble,
    squashed_sample,
)
from rl_training.algorithms.base.losses import expectile_loss
from rl_training.algorithms.cql import CQLModel, CQLParams, cql_loss
from rl_training.algorithms.iql import IQLParams, policy_loss, value_loss
from rl_training.algorithms.td3_bc import TD3BCParams, td3_bc_loss
from rl_training.models import Initialiser, MLPIQLModel, MLPTD3Model

SEEDS = (3, 11, 7)
M, B, OBS, ACT, N = 3, 6, 4, 2, 3
HIDDEN = {"actor_hidden": (8, 6), "critic_hidden": (8, 6)}
BATCH = random_batch(M, B, OBS, ACT, seed=1)


def per_member(function: Any) -> Array:
    return np.array([function(m, member_rows(BATCH, m)) for m in range(M)])


def assert_same_loss(loss: Tensor, model: nn.Module, name: str, reference: Any) -> None:
    np.testing.assert_allclose(loss.detach().numpy(), reference(networks(model)), rtol=1e-7)
    assert_network_gradient(loss, model, name, reference)


def test_td3_bc_without_cloning_has_td3_s_actor_loss() -> None:
    model = MLPTD3Model(OBS, ACT, seeds=SEEDS, **HIDDEN)
    scramble(model)
    loss, _ = td3_bc_loss(model, BATCH, {}, TD3BCParams(bc_weight=0.0, normalise_q=False, alpha=1.0))

    def td3(nets: Networks) -> Array:
        """-mean Q_1(s, π(s))."""
        return per_member(
            lambda m, row: -q_values(nets["critics"], m, row["obs"], np.tanh(nets["actor"](m, row["obs"])))[0].mean()
        )

    assert_same_loss(loss, model, "actor", td3)


def test_td3_bc_without_value_term_is_squared_error_cloning() -> None:
    model = MLPTD3Model(OBS, ACT, seeds=SEEDS, **HIDDEN)
    scramble(model)
    loss, _ = td3_bc_loss(model, BATCH, {}, TD3BCParams(alpha=0.0))

    def cloning(nets: Networks) -> Array:
        return per_member(lambda m, row: ((np.tanh(nets["actor"](m, row["obs"])) - row["actions"]) ** 2).mean())

    assert_same_loss(loss, model, "actor", cloning)


@pytest.mark.parametrize("entropy", [False, True], ids=["without entropy backup", "with entropy backup"])
@pytest.mark.parametrize("importance_sampling", [True, False])
def test_cql_without_penalty_has_sac_s_critic_loss(entropy: bool, importance_sampling: bool) -> None:
    model = CQLModel(OBS, ACT, seeds=SEEDS, critic_init=Initialiser("orthogonal"), **HIDDEN)
    scramble(model)
    # Zero is no valid weight, so validation is stepped around.
    params = CQLParams(backup_entropy=entropy, num_cql_samples=N, importance_sampling=importance_sampling).model_copy(
        update={"cql_alpha": 0.0}
    )
    rng = np.random.default_rng(3)
    noise = {name: torch.from_numpy(rng.normal(size=(M, N, B, ACT))) for name in ("penalty_current", "penalty_next")}
    noise["penalty_uniform"] = torch.from_numpy(rng.uniform(size=(M, N, B, ACT)))
    noise["next_action"] = torch.from_numpy(rng.normal(size=(M, 1, B, ACT)))
    loss, _ = cql_loss(model, BATCH, noise, params)
    constants = networks(model)

    def sac(nets: Networks) -> Array:
        """Σ_i mean (Q_i - y)², y = r + γ(1-d)·[ min_i Q̄_i(s', a') - α·log π(a'|s') ], a' ~ π(s')."""

        def one(m: int, row: dict[str, Array]) -> float:
            action, log_prob = squashed_sample(
                constants["actor"], m, row["next_obs"], noise["next_action"][m, 0].numpy()
            )
            value = q_values(constants["target_critics"], m, row["next_obs"], action).min(0)
            if entropy:
                value = value - np.exp(constants["log_alpha"].tensors["value"][m, 0]) * log_prob
            y = row["rewards"] + 0.99 * (1 - row["terminations"]) * value
            return sum(((q - y) ** 2).mean() for q in q_values(nets["critics"], m, row["obs"], row["actions"]))

        return per_member(one)

    assert_same_loss(loss, model, "critics", sac)


def iql_model(deterministic: bool = False) -> MLPIQLModel:
    model = MLPIQLModel(OBS, ACT, seeds=SEEDS, value_hidden=(7,), deterministic_policy=deterministic, **HIDDEN)
    scramble(model)
    return model


def test_iql_with_expectile_one_half_regresses_to_the_mean() -> None:
    """L_V is half the mean squared error."""
    model = iql_model()
    loss, _ = value_loss(model, BATCH, IQLParams(expectile=0.5))
    constants = networks(model)

    def half_mse(nets: Networks) -> Array:
        def one(m: int, row: dict[str, Array]) -> float:
            q = q_values(constants["target_critics"], m, row["obs"], row["actions"]).min(0)
            return 0.5 * ((q - nets["value"](m, row["obs"])[:, 0]) ** 2).mean()

        return per_member(one)

    assert_same_loss(loss, model, "value", half_mse)


def test_iql_with_beta_zero_is_behaviour_cloning() -> None:
    model = iql_model()
    loss, _ = policy_loss(model, BATCH, IQLParams(beta=0.0))

    def cloning(nets: Networks) -> Array:
        return per_member(lambda m, row: -gaussian_log_prob(nets["actor"], m, row["obs"], row["actions"]).mean())

    assert_same_loss(loss, model, "actor", cloning)


def test_deterministic_iql_with_beta_zero_is_squared_error_cloning() -> None:
    """Summed over the action's dimensions, unlike TD3+BC's term, which is averaged."""
    model = iql_model(deterministic=True)
    loss, _ = policy_loss(model, BATCH, IQLParams(beta=0.0, deterministic_policy=True))

    def cloning(nets: Networks) -> Array:
        return per_member(lambda m, row: ((np.tanh(nets["actor"](m, row["obs"])) - row["actions"]) ** 2).sum(-1).mean())

    assert_same_loss(loss, model, "actor", cloning)


def test_the_minimiser_of_iql_s_value_loss_is_the_expectile() -> None:
    """κ·Σ(q - v)⁺ = (1-κ)·Σ(v - q)⁺ at it."""
    q = np.random.default_rng(0).normal(size=200)
    candidates = torch.linspace(-1, 2, 3_001, dtype=torch.float64)
    for expectile in (0.5, 0.7, 0.9):
        losses = expectile_loss(torch.from_numpy(q) - candidates.unsqueeze(-1), expectile)
        best = candidates[losses.argmin()].item()
        above, below = np.maximum(q - best, 0).sum(), np.maximum(best - q, 0).sum()
        assert expectile * above == pytest.approx((1 - expectile) * below, rel=1e-2)
