"""Fitted Q evaluation: its loss by hand, and values that dynamic programming knows exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from numpy_reference import network
from rl_training.algorithms.evaluation.fitted_q import FittedQ, FittedQModel, FittedQParams, fitted_q_loss
from rl_training.data.batch import Batch
from rl_training.models import Critics

GAMMA = 0.9


def some_batch(members: int, rows: int, obs: int, act: int) -> Batch:
    rng = np.random.default_rng(1)

    def values(*shape: int) -> torch.Tensor:
        return torch.tensor(rng.normal(size=(members, rows, *shape)), dtype=torch.float64)

    ends = torch.tensor(rng.integers(0, 2, (members, rows)), dtype=torch.float64)
    return Batch(values(obs), values(act), values(), values(obs), ends, values(act), values())


def double_model(members: int = 2, hidden: tuple[int, ...] = (5, 4)) -> FittedQModel:
    model = FittedQModel(Critics(3, 2, hidden, range(members), n_critics=1, layer_norm="pre")).double()
    other = Critics(3, 2, hidden, range(7, 7 + members), n_critics=1, layer_norm="pre").double()
    model.target_critics.flat.data.copy_(other.flat.data)  # so that the target is another network
    return model


def by_hand(model: FittedQModel, batch: Batch, member: int, *, warm_start: bool) -> float:
    """mean( (Q(s, a) - y)² ), a row at a time."""
    online, target = network(model.critics), network(model.target_critics)
    assert batch.next_actions is not None
    assert batch.returns_to_go is not None
    errors = []
    for row in range(batch.rewards.shape[1]):
        s, a, s2, a2 = (
            part[member, row].numpy() for part in (batch.obs, batch.actions, batch.next_obs, batch.next_actions)
        )
        y = float(batch.rewards[member, row])
        if batch.terminations[member, row] == 0.0:
            y += GAMMA * float(target(member, np.concatenate((s2, a2)))[0])
        if warm_start:
            y = float(batch.returns_to_go[member, row])
        errors.append((float(online(member, np.concatenate((s, a)))[0]) - y) ** 2)
    return float(np.mean(errors))


@pytest.mark.parametrize("warm_start", [False, True])
def test_loss_and_gradient_are_those_of_the_paper(warm_start: bool) -> None:
    model, batch = double_model(), some_batch(2, 6, 3, 2)
    loss, _ = fitted_q_loss(model, batch, FittedQParams(gamma=GAMMA), warm_start=warm_start)
    expected = [by_hand(model, batch, member, warm_start=warm_start) for member in range(2)]
    assert loss.tolist() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss.sum(), model.critics.flat)
    flat = model.critics.flat.data
    for place in np.random.default_rng(0).choice(flat.shape[1], 12, replace=False):
        for member in range(2):
            ends = []
            for step in (1e-6, -2e-6):
                flat[member, place] += step
                ends.append(by_hand(model, batch, member, warm_start=warm_start))
            flat[member, place] += 1e-6
            assert float(gradient[member, place]) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=2e-7)


def test_what_a_batch_must_have() -> None:
    model, batch = double_model(), some_batch(2, 6, 3, 2)
    params = FittedQParams(gamma=GAMMA)
    with pytest.raises(ValueError, match="next_actions"):
        fitted_q_loss(model, batch._replace(next_actions=None), params)
    with pytest.raises(ValueError, match="returns_to_go"):
        fitted_q_loss(model, batch._replace(returns_to_go=None), params, warm_start=True)


# A small decision process: 3 states, 2 actions, some of them the end ------------------------------------------------

STATES, ACTIONS = 3, 2
REWARDS = np.array([[1.0, -0.5], [0.3, 2.0], [-1.0, 0.7]])
AFTER = np.array([[1, 2], [2, 0], [0, 1]])
ENDS = np.array([[0, 0], [0, 1], [0, 0]])  # the pair (1, 1) terminates
POLICY = np.array([1, 1, 0])


def exact_values(policy: np.ndarray) -> np.ndarray:
    """Q of the policy by solving the Bellman equations."""
    pairs = STATES * ACTIONS
    matrix, right = np.eye(pairs), REWARDS.ravel().copy()
    for s in range(STATES):
        for a in range(ACTIONS):
            if not ENDS[s, a]:
                then = AFTER[s, a]
                matrix[s * ACTIONS + a, then * ACTIONS + policy[then]] -= GAMMA
    return np.linalg.solve(matrix, right).reshape(STATES, ACTIONS)


@pytest.mark.parametrize("policy", [POLICY, np.array([0, 0, 1])])
def test_a_linear_q_finds_the_exact_values(policy: np.ndarray) -> None:
    """Q is linear in one weight for each pair of state and action (the 'action' names the pair), in float64."""
    pairs = STATES * ACTIONS
    model = FittedQModel(Critics(1, pairs, (), [0], n_critics=1)).double()
    every = np.arange(pairs)
    then = AFTER.ravel()
    following = then * ACTIONS + policy[then]
    one_hot = torch.eye(pairs, dtype=torch.float64)
    batch = Batch(
        torch.zeros(1, pairs, 1, dtype=torch.float64),
        one_hot[every].unsqueeze(0),
        torch.tensor(REWARDS.ravel()).unsqueeze(0),
        torch.zeros(1, pairs, 1, dtype=torch.float64),
        torch.tensor(ENDS.ravel(), dtype=torch.float64).unsqueeze(0),
        one_hot[following].unsqueeze(0),
    )
    for _ in range(160):  # fitted Q iteration: solve for Q, then copy it to the target
        for _ in range(30):
            loss, _ = fitted_q_loss(model, batch, FittedQParams(gamma=GAMMA))
            (gradient,) = torch.autograd.grad(loss.sum(), model.critics.flat)
            model.critics.flat.data -= 0.5 * gradient
        model.target_critics.flat.data.copy_(model.critics.flat.data)
    found = model.critics.values(batch.obs, batch.actions).view(STATES, ACTIONS)
    np.testing.assert_allclose(found.detach().numpy(), exact_values(policy), atol=1e-6)


def test_the_first_updates_regress_returns() -> None:
    learner = FittedQ(3, 2, warm_start=0.25, total_updates=8)
    assert [learner.phase(update) for update in range(8)] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_the_penalty_is_on_the_weights_of_q() -> None:
    """With nothing to learn, the gradient is the penalty's: weights shrink, and without it they stay."""
    moved = {}
    for decay in (0.0, 0.01):
        learner = FittedQ(3, 2, FittedQParams(weight_decay=decay), seeds=[0], total_updates=10)
        before = learner.model.critics.flat.detach().clone()
        learner.optimisers["critic"].step(0.0 * learner.model.critics.flat.sum())
        moved[decay] = float((before * (learner.model.critics.flat.detach() - before)).sum())
    assert moved[0.0] == 0.0
    assert moved[0.01] < 0.0
