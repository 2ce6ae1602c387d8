"""Models of the dynamics: their loss by hand, and what they say of rows they know."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from numpy_reference import network
from rl_training.algorithms.evaluation.dynamics import Dynamics, DynamicsModel, dynamics_loss
from rl_training.data.batch import Batch

MEAN, STD = np.array([0.3, -0.2, 0.0]), np.array([0.5, 2.0, 1.0])


def some_batch(members: int, rows: int) -> Batch:
    rng = np.random.default_rng(1)

    def values(*shape: int) -> torch.Tensor:
        return torch.tensor(rng.normal(size=(members, rows, *shape)), dtype=torch.float64)

    ends = torch.tensor(rng.integers(0, 2, (members, rows)), dtype=torch.float64)
    return Batch(values(3), values(2), values(), values(3), ends)


def by_hand(model: DynamicsModel, batch: Batch, member: int, *, terminates: bool) -> float:
    """L, a row at a time."""
    answers, steps, rewards, ends = network(model.network), [], [], []
    for row in range(batch.rewards.shape[1]):
        s, a, s2 = (part[member, row].numpy() for part in (batch.obs, batch.actions, batch.next_obs))
        *f, g, h = answers(member, np.concatenate((s, a)))
        steps.append(np.mean((np.array(f) - (s2 - s - MEAN) / STD) ** 2))
        rewards.append((g - float(batch.rewards[member, row])) ** 2)
        d = 1.0 / (1.0 + math.exp(-h))
        ends.append(-math.log(d if batch.terminations[member, row] else 1.0 - d))
    return float(np.mean(steps) + np.mean(rewards) + (np.mean(ends) if terminates else 0.0))


@pytest.mark.parametrize("terminates", [False, True])
def test_the_loss_is_the_one_that_is_written_down(terminates: bool) -> None:
    model, batch = DynamicsModel(3, 2, (5, 4), (0, 1)).double(), some_batch(2, 6)
    model.step_mean.copy_(torch.tensor(MEAN))
    model.step_std.copy_(torch.tensor(STD))
    loss, _ = dynamics_loss(model, batch, terminates=terminates)
    expected = [by_hand(model, batch, member, terminates=terminates) for member in range(2)]
    assert loss.tolist() == pytest.approx(expected, rel=1e-12)


def test_steps_are_measured_in_those_of_the_data() -> None:
    """A network that says nothing moves every state as the data do on average; a column that stands still stays."""
    learner = Dynamics(2, 1, seeds=[0, 1], terminates=False)
    learner.measure_in(torch.tensor([[1.0, 0.0], [3.0, 0.0]]))
    learner.model.network.flat.data.zero_()
    found = learner.outcome(torch.ones(2, 4, 2), torch.zeros(2, 4, 1))
    assert torch.equal(found.next_obs, torch.tensor([3.0, 1.0]).expand(2, 4, 2))
    assert torch.equal(found.alive, torch.ones(2, 4))
    assert learner.model.step_std.tolist() == pytest.approx([1.0, 1e-6])


def test_terminations_are_learned_and_members_do_not_meet() -> None:
    """s > 0 ends the episode, and nothing else does; a member learns the same alone."""
    rng = np.random.default_rng(0)
    obs, actions = (torch.tensor(rng.uniform(-1.0, 1.0, (1, 512, 1)), dtype=torch.float32) for _ in range(2))
    batch = Batch(obs, actions, 2.0 * actions[..., 0], obs + 0.1 * actions, (obs[..., 0] > 0.0).float())
    both = Batch(*(None if part is None else part.repeat(2, *[1] * (part.dim() - 1)) for part in batch))
    pair, alone = Dynamics(1, 1, seeds=[5, 7], total_updates=300), Dynamics(1, 1, seeds=[7], total_updates=300)
    for learner, rows in ((pair, both), (alone, batch)):
        learner.measure_in(batch.next_obs[0] - batch.obs[0])
        for _ in range(300):
            learner.update(rows)
    asked, done = torch.tensor([[[-0.5], [0.5]]]), torch.tensor([[[0.5], [-0.5]]])
    found = pair.outcome(asked.repeat(2, 1, 1), done.repeat(2, 1, 1))
    for member in range(2):
        assert found.next_obs[member, :, 0].tolist() == pytest.approx([-0.45, 0.45], abs=0.01)
        assert found.rewards[member].tolist() == pytest.approx([1.0, -1.0], abs=0.1)
        assert found.alive[member].tolist() == pytest.approx([1.0, 0.0], abs=0.02)
    assert alone.outcome(asked, done).next_obs[0] == pytest.approx(found.next_obs[1], abs=1e-4)
