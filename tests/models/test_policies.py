"""The three policy heads against densities written out directly in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from numpy_reference import (
    assert_gradient,
    gaussian_log_prob,
    network,
    scramble,
    squashed_density,
    squashed_log_prob,
    squashed_sample,
)
from rl_training.models import DeterministicPolicy, Gaussian, GaussianPolicy, TanhGaussianPolicy
from rl_training.models.policies import log_tanh_jacobian

SEEDS = (3, 11, 7)
M, B, OBS, ACT = 3, 5, 4, 2


def normal_tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def tanh_gaussian(act_dim: int = ACT, affine: bool = True) -> TanhGaussianPolicy:
    policy = TanhGaussianPolicy(OBS, act_dim, (8, 6), SEEDS, learn_log_std_affine=affine)
    scramble(policy, seed=1)
    return policy


# Tanh-Gaussian ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("lead", [(), (4,)], ids=["one action", "four actions"])
def test_sample_is_the_squashed_normal_and_its_density(affine: bool, lead: tuple[int, ...]) -> None:
    policy = tanh_gaussian(affine=affine)
    obs, noise = normal_tensor(M, B, OBS), normal_tensor(M, *lead, B, ACT, seed=1)
    actions, log_probs = policy.sample(obs, noise)
    assert actions.shape == noise.shape
    assert log_probs.shape == noise.shape[:-1]
    for m in range(M):
        expected, density = squashed_sample(network(policy), m, obs[m].numpy(), noise[m].numpy())
        np.testing.assert_allclose(actions[m].detach().numpy(), expected, rtol=1e-10)
        np.testing.assert_allclose(log_probs[m].detach().numpy(), density, rtol=1e-8)


def test_log_prob_of_given_actions() -> None:
    policy = tanh_gaussian()
    obs, actions = normal_tensor(M, B, OBS), normal_tensor(M, B, ACT, seed=2).tanh()
    log_probs = policy.log_prob(obs, actions)
    assert log_probs.shape == (M, B)
    for m in range(M):
        expected = squashed_log_prob(network(policy), m, obs[m].numpy(), actions[m].numpy())
        np.testing.assert_allclose(log_probs[m].detach().numpy(), expected, rtol=1e-9)


def test_log_prob_agrees_with_the_sample_it_belongs_to() -> None:
    policy = tanh_gaussian()
    obs = normal_tensor(M, B, OBS)
    actions, log_probs = policy.sample(obs, 0.5 * normal_tensor(M, B, ACT, seed=1))
    assert float(actions.detach().abs().max()) < 1 - 1e-5
    np.testing.assert_allclose(
        policy.log_prob(obs, actions).detach().numpy(), log_probs.detach().numpy(), rtol=1e-8, atol=1e-9
    )


def test_density_integrates_to_one() -> None:
    """∫ exp(log π(a|s)) da over (-1, 1) with one action dimension, by the trapezoidal rule in a."""
    policy = TanhGaussianPolicy(OBS, 1, (8,), SEEDS)
    scramble(policy, seed=4)
    with torch.no_grad():
        policy.tensors()["bias_1"][:, 1] -= 2.0
    grid = np.linspace(-1 + 1e-5, 1 - 1e-5, 200_001)
    actions = torch.from_numpy(grid).view(1, -1, 1).expand(M, -1, 1)
    obs = normal_tensor(M, 1, OBS, seed=5).expand(M, len(grid), OBS)
    with torch.no_grad():
        density = policy.log_prob(obs, actions).exp().numpy()
        mean, log_std = policy.distribution(obs[:, :1])
    assert len(np.unique(mean)) == M
    assert (mean.abs() + 4 * log_std.exp() < np.arctanh(grid[-1])).all()  # the grid's ends hold next to nothing
    np.testing.assert_allclose(np.trapezoid(density, grid, axis=1), 1.0, atol=1e-4)


@pytest.mark.parametrize("u", [0.0, 0.3, -2.0, 7.0, 20.0, -20.0, 100.0])
def test_jacobian_is_exact_where_the_textbook_form_underflows(u: float) -> None:
    """log(1 - tanh²u) = log 4 - 2|u| - 2·log(1 + exp(-2|u|))."""
    expected = math.log(4) - 2 * abs(u) - 2 * math.log1p(math.exp(-2 * abs(u)))
    for dtype, relative in ((torch.float64, 1e-9), (torch.float32, 1e-6)):
        value = torch.tensor([u], dtype=dtype, requires_grad=True)
        result = log_tanh_jacobian(value)
        assert result.item() == pytest.approx(expected, rel=relative, abs=1e-7)
        (slope,) = torch.autograd.grad(result, value)
        assert slope.item() == pytest.approx(-2 * math.tanh(u), rel=relative, abs=1e-6)


def test_float32_log_prob_and_gradient_at_u_of_twenty() -> None:
    """log(1 - a² + 1e-6) would give -13.8 here; the true correction is -38.6."""
    mean = torch.full((1, 1, 1), 20.0, requires_grad=True)
    log_std = torch.zeros(1, 1, 1, requires_grad=True)
    actions, log_probs = TanhGaussianPolicy.sample_from(Gaussian(mean, log_std), torch.tensor([[[0.5]]]))
    u = 20.5
    expected = -0.5 * 0.25 - 0.5 * math.log(2 * math.pi) - (math.log(4) - 2 * u)
    assert actions.item() == 1.0
    assert log_probs.item() == pytest.approx(expected, rel=1e-6)
    # d/dμ = 2·tanh(u); d/d log σ = -1 + 2·tanh(u)·σ·ε.
    by_mean, by_log_std = torch.autograd.grad(log_probs, (mean, log_std))
    assert by_mean.item() == pytest.approx(2.0, rel=1e-6)
    assert by_log_std.item() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(("log_std", "tolerance"), [(2.0, 2e-5), (-1.0, 2e-5), (-5.0, 1e-4), (-10.0, 5e-3)])
def test_float32_density_of_a_narrow_policy(log_std: float, tolerance: float) -> None:
    """log π of a sample is Σ -½ε² - log σ - ½log 2π - log(1 - tanh²u), however small σ is."""
    mean, noise = torch.linspace(-2, 2, 64).view(1, 64, 1), normal_tensor(1, 64, 1).float()
    _, log_probs = TanhGaussianPolicy.sample_from(Gaussian(mean, torch.full_like(mean, log_std)), noise)
    eps = noise.double().numpy()[..., 0]
    u = np.abs(mean.double().numpy()[..., 0] + math.exp(log_std) * eps)
    jacobian = math.log(4) - 2 * u - 2 * np.log1p(np.exp(-2 * u))
    expected = -0.5 * eps**2 - log_std - 0.5 * math.log(2 * math.pi) - jacobian
    np.testing.assert_allclose(log_probs.numpy(), expected, atol=tolerance)


def test_log_prob_of_actions_on_the_edge_is_that_of_the_clipped_action() -> None:
    policy = TanhGaussianPolicy(OBS, ACT, (8, 6), SEEDS)
    obs = normal_tensor(M, B, OBS).float()
    for edge in (1.0, -1.0):
        log_probs = policy.log_prob(obs, torch.full((M, B, ACT), edge))
        (gradient,) = torch.autograd.grad(log_probs.sum(), policy.flat)
        assert torch.isfinite(log_probs).all()
        assert torch.isfinite(gradient).all()
        for m in range(M):
            expected = squashed_log_prob(network(policy), m, obs[m].double().numpy(), np.full((B, ACT), edge))
            # float32 carries 1 - 1e-5 with a relative error of 3e-3 in the distance to the edge.
            np.testing.assert_allclose(log_probs[m].detach().numpy(), expected, rtol=5e-3)


def test_log_std_is_clamped_for_the_squashed_head() -> None:
    policy = TanhGaussianPolicy(OBS, ACT, (8,), SEEDS).double()
    with torch.no_grad():
        policy.tensors()["bias_1"][:, ACT:] = torch.tensor([[50.0, -50.0]])
    assert policy.distribution(normal_tensor(M, B, OBS)).log_std.detach().numpy().tolist() == [[[2.0, -20.0]] * B] * M


def test_gradient_of_the_reparameterised_density() -> None:
    """Both through the density's parameters and through the action: d/dθ of mean(log π(a(θ)|s) + Σ a)."""
    policy = tanh_gaussian()
    obs, noise = normal_tensor(M, B, OBS), normal_tensor(M, B, ACT, seed=1)
    actions, log_probs = policy.sample(obs, noise)
    loss = (log_probs + actions.sum(-1)).mean(-1)

    def reference(nets: dict) -> np.ndarray:
        values = []
        for m in range(M):
            a, density = squashed_sample(nets["policy"], m, obs[m].numpy(), noise[m].numpy())
            values.append((density + a.sum(-1)).mean())
        return np.array(values)

    nets = {"policy": network(policy)}
    np.testing.assert_allclose(loss.detach().numpy(), reference(nets), rtol=1e-9)
    assert_gradient(loss, policy.flat, policy.tensors, "policy", nets, reference)


def test_mode_and_sampled_action_of_the_squashed_head() -> None:
    policy = tanh_gaussian()
    obs, noise = normal_tensor(M, B, OBS), normal_tensor(M, B, ACT, seed=1)
    assert torch.equal(policy.sample_action(obs, noise), policy.sample(obs, noise)[0])
    for m in range(M):
        mean = network(policy)(m, obs[m].numpy())[:, :ACT]
        np.testing.assert_allclose(policy.mode(obs)[m].detach().numpy(), np.tanh(mean), rtol=1e-10)


# Gaussian, head (b) -------------------------------------------------------------------------------------------------


def gaussian() -> GaussianPolicy:
    policy = GaussianPolicy(OBS, ACT, (8, 6), SEEDS)
    scramble(policy, seed=2)
    return policy


def test_gaussian_head_has_a_plain_density_around_the_squashed_mean() -> None:
    policy = gaussian()
    obs, actions = normal_tensor(M, B, OBS), normal_tensor(M, B, ACT, seed=2).clamp(-1, 1)
    assert float(actions.abs().max()) == 1.0  # the edge needs no clipping here
    loss = policy.log_prob(obs, actions).mean(-1)

    def reference(nets: dict) -> np.ndarray:
        return np.array(
            [gaussian_log_prob(nets["policy"], m, obs[m].numpy(), actions[m].numpy()).mean() for m in range(M)]
        )

    nets = {"policy": network(policy)}
    assert len(np.unique(nets["policy"].tensors["log_std"])) == M * ACT
    np.testing.assert_allclose(loss.detach().numpy(), reference(nets), rtol=1e-10)
    assert_gradient(loss, policy.flat, policy.tensors, "policy", nets, reference)


def test_log_std_is_clamped_for_the_gaussian_head() -> None:
    """To [-5, 2]; beyond the clamp the parameter has no gradient."""
    policy = gaussian()
    with torch.no_grad():
        policy.tensors()["log_std"].copy_(torch.tensor([[-9.0, 9.0], [-5.5, 2.5], [-4.5, 1.5]]))
    obs, actions = normal_tensor(M, B, OBS), normal_tensor(M, B, ACT, seed=2)
    distribution = policy.distribution(obs)
    assert distribution.log_std.squeeze(1).tolist() == [[-5.0, 2.0], [-5.0, 2.0], [-4.5, 1.5]]
    (gradient,) = torch.autograd.grad(policy.log_prob(obs, actions).sum(), policy.flat)
    by_log_std = policy.tensors(gradient)["log_std"]
    assert (by_log_std[:2] == 0).all()
    assert (by_log_std[2] != 0).all()


def test_gaussian_head_acts_inside_the_box() -> None:
    policy = gaussian()
    obs, noise = normal_tensor(M, B, OBS), 3 * normal_tensor(M, B, ACT, seed=1)
    assert (policy.sample_action(obs, noise).abs() == 1.0).any()
    for m in range(M):
        mean = np.tanh(network(policy)(m, obs[m].numpy()))
        std = np.exp(network(policy).tensors["log_std"][m, 0])
        np.testing.assert_allclose(policy.mode(obs)[m].detach().numpy(), mean, rtol=1e-10)
        drawn = np.clip(mean + std * noise[m].numpy(), -1, 1)
        np.testing.assert_allclose(policy.sample_action(obs, noise)[m].detach().numpy(), drawn, rtol=1e-10)


# Deterministic, head (c) --------------------------------------------------------------------------------------------


def test_deterministic_head() -> None:
    policy = DeterministicPolicy(OBS, ACT, (8, 6), SEEDS)
    scramble(policy, seed=3)
    obs = normal_tensor(M, B, OBS)
    actions = policy.mode(obs)
    assert torch.equal(policy.sample_action(obs, normal_tensor(M, B, ACT)), actions)
    for m in range(M):
        expected = np.tanh(network(policy)(m, obs[m].numpy()))
        np.testing.assert_allclose(actions[m].detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("head", [TanhGaussianPolicy, GaussianPolicy, DeterministicPolicy])
def test_a_member_acts_as_it_would_alone(head: type) -> None:
    obs, noise = normal_tensor(M, B, OBS).float(), normal_tensor(M, B, ACT, seed=1).float()
    together = head(OBS, ACT, (8, 6), SEEDS)
    for m, seed in enumerate(SEEDS):
        alone = head(OBS, ACT, (8, 6), (seed,))
        for act in ("mode", "sample_action"):
            inputs = (obs,) if act == "mode" else (obs, noise)
            among = getattr(together, act)(*inputs)[m]
            single = getattr(alone, act)(*(x[m : m + 1] for x in inputs))[0]
            np.testing.assert_allclose(among.detach().numpy(), single.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_the_reference_density_is_the_derivative_of_the_distribution_function() -> None:
    """The reference checked by itself: P(a < x) = Φ((atanh x - μ)/σ), differentiated numerically."""
    mean, std, u, step = 0.3, 0.6, 0.9, 1e-6

    def below(x: float) -> float:
        return 0.5 * (1 + math.erf((math.atanh(x) - mean) / std / math.sqrt(2)))

    slope = (below(math.tanh(u) + step) - below(math.tanh(u) - step)) / (2 * step)
    density = squashed_density(np.array([u]), np.array([mean]), np.array([std]))
    assert float(density) == pytest.approx(math.log(slope), rel=1e-7)
