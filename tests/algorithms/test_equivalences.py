"""Where two algorithms must coincide: each special case against the simpler algorithm, its equations or its updates."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from numpy_reference import (
    Array,
    Networks,
    assert_network_gradient,
    assert_same_parameters,
    draw,
    gaussian_log_prob,
    member_rows,
    networks,
    q_values,
    random_batch,
    scramble,
    squashed_log_prob,
    squashed_sample,
)
from rl_training.algorithms.awac import AWAC, awac_loss
from rl_training.algorithms.base import Batch, Learner
from rl_training.algorithms.base.losses import expectile_loss
from rl_training.algorithms.bc import BC, BCModel, BCParams, bc_loss
from rl_training.algorithms.cql import CQLModel, CQLParams, actor_loss, cql_loss
from rl_training.algorithms.crr import CRR, crr_loss
from rl_training.algorithms.iql import IQLParams, policy_loss, target_values, value_loss
from rl_training.algorithms.rebrac import ReBRAC, rebrac_critic_loss, rebrac_loss
from rl_training.algorithms.rlpd import RLPD
from rl_training.algorithms.sac import SAC, SACParams, sac_actor_loss, sac_loss
from rl_training.algorithms.td3 import TD3, td3_critic_loss
from rl_training.algorithms.td3_bc import TD3BC, TD3BCParams, td3_bc_loss
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


def assert_same_gradient(one: Tensor, other: Tensor, parameter: nn.Parameter, other_parameter: nn.Parameter) -> None:
    """Two losses `[M]` agree in value and in gradient."""
    np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9)
    (gradient,) = torch.autograd.grad(one.sum(), parameter)
    (other_gradient,) = torch.autograd.grad(other.sum(), other_parameter)
    assert float(gradient.abs().max()) > 1e-3
    np.testing.assert_allclose(gradient.numpy(), other_gradient.numpy(), rtol=1e-7, atol=1e-11)


def scrambled(algorithm: Any, like: Learner | None = None, **knobs: Any) -> Any:
    """A float64 learner with random networks, or with exactly those of another."""
    learner = algorithm(OBS, ACT, seeds=SEEDS, **HIDDEN, **knobs)
    scramble(learner.model)
    if like is not None:
        learner.model.load_state_dict(like.model.state_dict())
    learner.optimisers = learner.build_optimisers()
    return learner


def assert_equal_states(one: Learner, other: Learner) -> None:
    """Bit for bit, optimisers and clock too."""
    assert set(one.state()) == set(other.state())
    for name, value in one.state().items():
        assert torch.equal(value, other.state()[name]), name


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
    loss, _ = value_loss(model, BATCH, target_values(model, BATCH), IQLParams(expectile=0.5))
    constants = networks(model)

    def half_mse(nets: Networks) -> Array:
        def one(m: int, row: dict[str, Array]) -> float:
            q = q_values(constants["target_critics"], m, row["obs"], row["actions"]).min(0)
            return 0.5 * ((q - nets["value"](m, row["obs"])[:, 0]) ** 2).mean()

        return per_member(one)

    assert_same_loss(loss, model, "value", half_mse)


def test_iql_with_beta_zero_is_behaviour_cloning() -> None:
    model = iql_model()
    loss, _ = policy_loss(model, BATCH, target_values(model, BATCH), {}, IQLParams(beta=0.0))

    def cloning(nets: Networks) -> Array:
        return per_member(lambda m, row: -gaussian_log_prob(nets["actor"], m, row["obs"], row["actions"]).mean())

    assert_same_loss(loss, model, "actor", cloning)


def test_deterministic_iql_with_beta_zero_is_squared_error_cloning() -> None:
    """Summed over the action's dimensions, unlike TD3+BC's term, which is averaged."""
    model = iql_model(deterministic=True)
    loss, _ = policy_loss(model, BATCH, target_values(model, BATCH), {}, IQLParams(beta=0.0, deterministic_policy=True))

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


# Whole learners -----------------------------------------------------------------------------------------------------

FAST = {"actor_lr": 1e-2, "critic_lr": 2e-2, "tau": 0.25}
AS_TD3_BC = {
    "critic_bc_weight": 0.0,
    "actor_bc_weight": 1 / ACT,  # a sum over dimensions where TD3+BC has a mean
    "actor_q_weight": 2.5,
    "actor_reduce": "first",
    "layer_norm": "none",
    "lagged_target_actor": False,
}


def test_rebrac_without_what_it_adds_has_td3_bc_s_losses() -> None:
    td3_bc = scrambled(TD3BC)
    rebrac = scrambled(ReBRAC, like=td3_bc, **AS_TD3_BC)
    batch, noise = BATCH._replace(next_actions=BATCH.actions.flip(1)), draw(td3_bc, B)
    one, other = rebrac.model, td3_bc.model
    assert_same_gradient(
        rebrac_critic_loss(one, batch, noise, rebrac.params)[0],
        td3_critic_loss(other, batch, noise, td3_bc.params)[0],
        one.critics.flat,
        other.critics.flat,
    )
    assert_same_gradient(
        rebrac_loss(one, batch, noise, rebrac.params)[0],
        td3_bc_loss(other, batch, noise, td3_bc.params)[0],
        one.actor.flat,
        other.actor.flat,
    )


def test_rebrac_s_weights_are_td3_bc_s_divided_by_alpha() -> None:
    """With λ = 1/mean|q| the equivalent of α = 2.5 is β₁ = 1/(α·|A|): the loss is the same but for a factor α."""
    td3_bc = scrambled(TD3BC)
    rebrac = scrambled(ReBRAC, td3_bc, **{**AS_TD3_BC, "actor_bc_weight": 1 / (2.5 * ACT), "actor_q_weight": 1.0})
    assert_same_gradient(
        2.5 * rebrac_loss(rebrac.model, BATCH, {}, rebrac.params)[0],
        td3_bc_loss(td3_bc.model, BATCH, {}, td3_bc.params)[0],
        rebrac.model.actor.flat,
        td3_bc.model.actor.flat,
    )


@pytest.mark.parametrize("delay", [1, 2, 3])
def test_rebrac_without_what_it_adds_updates_as_td3_bc(delay: int) -> None:
    """Its actor steps first in a period and TD3's last: one update ahead, ReBRAC is in step with it."""
    td3_bc = scrambled(TD3BC, policy_delay=delay, **FAST)
    rebrac = scrambled(ReBRAC, like=td3_bc, policy_delay=delay, **AS_TD3_BC, **FAST)
    rebrac.clock.fill_(1)
    for update in range(6):
        noise = draw(td3_bc, B, update)
        for learner in (td3_bc, rebrac):
            learner.update(BATCH, noise)
        assert_same_parameters(rebrac.model, td3_bc.model, rtol=1e-7)


def test_td3_bc_without_cloning_and_scaling_updates_as_td3() -> None:
    td3 = scrambled(TD3, **FAST)
    td3_bc = scrambled(TD3BC, like=td3, bc_weight=0.0, normalise_q=False, alpha=1.0, **FAST)
    for update in range(4):
        for learner in (td3, td3_bc):
            learner.update(BATCH, draw(td3, B, update))
    assert_equal_states(td3_bc, td3)


def test_cql_without_penalty_has_sac_s_losses() -> None:
    """Not its updates: CQL takes every loss at the same parameters, SAC's actor sees the new critics."""
    model = CQLModel(OBS, ACT, seeds=SEEDS, critic_init=Initialiser("orthogonal"), **HIDDEN)
    scramble(model)
    rng = np.random.default_rng(3)
    noise = {name: torch.from_numpy(rng.normal(size=(M, N, B, ACT))) for name in ("penalty_current", "penalty_next")}
    noise["penalty_uniform"] = torch.from_numpy(rng.uniform(size=(M, N, B, ACT)))
    noise |= {name: torch.from_numpy(rng.normal(size=(M, B, ACT))) for name in ("next_action", "actor")}
    one_of_one = {**noise, "next_action": noise["next_action"].unsqueeze(1)}
    sac, cql = SACParams(backup_entropy=False), CQLParams(num_cql_samples=N, cql_alpha=0.0)
    critics, actor = model.critics.flat, model.actor.flat
    assert_same_gradient(
        cql_loss(model, BATCH, one_of_one, cql)[0], sac_loss(model, BATCH, noise, sac)[0], critics, critics
    )
    policy, log_probs, _ = actor_loss(model, BATCH, noise, cql, torch.tensor(0))
    other_policy, other_log_probs, _ = sac_actor_loss(model, BATCH, noise, sac)
    assert torch.equal(log_probs, other_log_probs)
    assert_same_gradient(policy, other_policy, actor, actor)


def in_single_precision(batch: Batch) -> Batch:
    return Batch(*(None if field is None else field.float() for field in batch))


@pytest.mark.parametrize("subset", [2, None], ids=["the subset is everyone", "no subset"])
def test_rlpd_with_two_critics_and_one_update_a_round_is_sac_bit_for_bit(subset: int | None) -> None:
    """As users run them: float32, each from its own seeds' streams."""
    knobs = {"n_critics": 2, "gradient_updates_per_step": 1, "layer_norm": "none", "actor_reduce": "min"}
    sac = SAC(OBS, ACT, seeds=SEEDS, **HIDDEN, **FAST)
    rlpd = RLPD(OBS, ACT, seeds=SEEDS, target_subset=subset, **knobs, **HIDDEN, **FAST)
    for _ in range(6):
        for learner in (sac, rlpd):
            learner.update(in_single_precision(BATCH))
        assert_equal_states(rlpd, sac)


def test_sac_n_with_two_critics_is_sac() -> None:
    sac, sac_n = (SAC(OBS, ACT, seeds=SEEDS, **knobs, **HIDDEN, **FAST) for knobs in ({}, {"n_critics": 2}))
    for _ in range(3):
        for learner in (sac, sac_n):
            learner.update(in_single_precision(BATCH))
    assert_equal_states(sac_n, sac)


@pytest.mark.parametrize("reduce", ["min", "mean"])
def test_sac_n_with_every_critic_twice_is_sac(reduce: str) -> None:
    """Neither the backup nor the actor notices the second copies, and each copy learns as the first."""
    sac = scrambled(SAC, actor_reduce=reduce, **FAST)
    doubled = scrambled(SAC, n_critics=4, actor_reduce=reduce, **FAST)
    with torch.no_grad():
        for name, value in doubled.model.state_dict().items():
            original = sac.model.state_dict()[name]
            copies = 1 if value.shape == original.shape else 2
            value.copy_(original.view(M, -1, value.shape[-1]).repeat(1, copies, 1).view_as(value))
    for update in range(4):
        for learner in (sac, doubled):
            learner.update(BATCH, draw(sac, B, update))
    for name, value in sac.model.state_dict().items():
        other = doubled.model.state_dict()[name].view(M, -1, value.shape[-1])
        rows = value.view(M, -1, value.shape[-1])
        for copied in other.split(rows.shape[1], dim=1):
            np.testing.assert_allclose(copied.numpy(), rows.numpy(), rtol=1e-7, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("weight_type", ["softmax", "exp"])
def test_awac_at_infinite_temperature_clones(weight_type: str) -> None:
    awac = scrambled(AWAC, beta=1e12, weight_type=weight_type)
    flat = awac.model.actor.flat
    assert_same_gradient(
        awac_loss(awac.model, BATCH, draw(awac, B), awac.params)[0],
        bc_loss(BCModel(awac.model.actor), BATCH, {}, BCParams(deterministic_policy=False))[0],
        flat,
        flat,
    )


@pytest.mark.parametrize("weight_type", ["softmax", "exp"])
def test_awac_at_infinite_temperature_updates_its_actor_as_bc(weight_type: str) -> None:
    awac = scrambled(AWAC, beta=1e12, weight_type=weight_type, weight_decay=0.0, **FAST)
    bc = BC(OBS, ACT, seeds=SEEDS, deterministic_policy=False, actor_hidden=(8, 6), actor_lr=1e-2)
    bc.model.actor = copy.deepcopy(awac.model.actor)
    bc.optimisers = bc.build_optimisers()
    for update in range(4):
        awac.update(BATCH, draw(awac, B, update))
        bc.update(BATCH)
        assert_same_parameters(bc.model.actor, awac.model.actor, rtol=1e-7)


def test_crr_at_infinite_temperature_clones_with_the_squashed_head() -> None:
    crr = scrambled(CRR, beta=1e12)
    loss, _ = crr_loss(crr.model, BATCH, draw(crr, B), crr.params)

    def cloning(nets: Networks) -> Array:
        return per_member(lambda m, row: -squashed_log_prob(nets["actor"], m, row["obs"], row["actions"]).mean())

    assert_same_loss(loss, crr.model, "actor", cloning)
