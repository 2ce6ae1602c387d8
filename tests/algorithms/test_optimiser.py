"""Adam against torch's own, learning-rate schedules against closed forms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rl_training.algorithms.base import Adam, Schedule
from rl_training.algorithms.base.optimiser import schedule_factor
from rl_training.algorithms.cql import CQL
from rl_training.algorithms.iql import IQL
from rl_training.algorithms.td3_bc import TD3BC


def start(rows: int = 3) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(rows, 7)))


def losses(parameter: Tensor, update: int) -> Tensor:
    """One loss per row, of another scale for each, that changes from update to update; row 2 has none at times."""
    rng = np.random.default_rng(update)
    target, scale = torch.from_numpy(rng.normal(size=(3, 7))), torch.tensor([1.0, 1e-3, 1e3 * (update % 3)])
    return scale * (parameter - target).square().sum(-1).sin()


def clock() -> Tensor:
    return torch.zeros((), dtype=torch.int64)


def test_adam_equals_torch_s_over_twenty_steps() -> None:
    ours, theirs = nn.Parameter(start()), nn.Parameter(start())
    optimiser = Adam(ours, 3e-2, clock())
    reference = torch.optim.Adam([theirs], lr=3e-2)
    for update in range(20):
        optimiser.step(losses(ours, update))
        reference.zero_grad()
        losses(theirs, update).sum().backward()
        reference.step()
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-11, atol=1e-13)
    assert float(optimiser.state["steps"]) == 20.0
    assert not torch.allclose(ours, start(), atol=0.1)


def test_a_row_never_sees_another_s_gradient() -> None:
    together = nn.Parameter(start())
    optimiser = Adam(together, 3e-2, clock())
    for update in range(20):
        optimiser.step(losses(together, update))
    for row in range(3):
        alone = nn.Parameter(start()[row : row + 1])
        single = Adam(alone, 3e-2, clock())
        for update in range(20):
            single.step(losses(alone.expand(3, -1), update)[row : row + 1])
        np.testing.assert_allclose(together[row].detach().numpy(), alone[0].detach().numpy(), rtol=1e-12, atol=1e-14)


def test_a_parameter_without_gradient_stays() -> None:
    """The padding between the tensors of a network's parameter matrix."""
    parameter = nn.Parameter(start())
    optimiser = Adam(parameter, 1e-1, clock())
    for _ in range(5):
        optimiser.step(parameter[:, :3].square().sum(-1))
    assert torch.equal(parameter[:, 3:], start()[:, 3:])
    assert not torch.isclose(parameter[:, :3], start()[:, :3]).any()


def test_the_scheduled_rate_is_that_of_the_clock() -> None:
    """Adam's first step is lr·sign(gradient), whatever the gradient's size: the rate can be read off."""
    for at in (0, 3, 8, 10):
        now = clock() + at
        parameter = nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
        optimiser = Adam(parameter, 0.5, now, schedule=Schedule(kind="linear"), horizon=10)
        optimiser.step(7.0 * parameter.sum(-1))
        assert parameter.item() == pytest.approx(-0.5 * (1 - at / 10), rel=1e-7, abs=1e-12)


CLOSED_FORMS = [
    (Schedule(), 100, {0: 1.0, 50: 1.0, 100: 1.0, 1000: 1.0}),
    (Schedule(kind="linear"), 100, {0: 1.0, 25: 0.75, 99: 0.01, 100: 0.0, 150: 0.0}),
    (Schedule(kind="linear", final=0.2), 100, {0: 1.0, 50: 0.6, 100: 0.2, 150: 0.2}),
    (Schedule(kind="cosine"), 100, {0: 1.0, 10: (1 + math.cos(0.1 * math.pi)) / 2, 50: 0.5, 100: 0.0, 200: 0.0}),
    (Schedule(kind="cosine", final=0.1), 60, {0: 1.0, 20: 0.1 + 0.9 * 0.75, 30: 0.55, 60: 0.1, 61: 0.1}),
    (Schedule(warmup=4), 100, {0: 0.25, 1: 0.5, 3: 1.0, 4: 1.0, 100: 1.0}),
    (Schedule(kind="linear", warmup=20), 100, {0: 0.05, 9: 0.5, 19: 1.0, 20: 1.0, 60: 0.5, 100: 0.0}),
    (Schedule(kind="cosine", warmup=20), 100, {4: 0.25, 20: 1.0, 60: 0.5, 80: (1 + math.cos(0.75 * math.pi)) / 2}),
]


@pytest.mark.parametrize(("schedule", "horizon", "expected"), CLOSED_FORMS)
def test_schedules_against_closed_forms(schedule: Schedule, horizon: int, expected: dict[int, float]) -> None:
    for at, factor in expected.items():
        assert schedule_factor(schedule, clock() + at, horizon).item() == pytest.approx(factor, abs=1e-12), at


def test_cosine_does_not_climb_again_beyond_the_horizon() -> None:
    """torch's CosineAnnealingLR does."""
    factors = [schedule_factor(Schedule(kind="cosine"), clock() + at, 50).item() for at in range(200)]
    assert all(later <= earlier for earlier, later in pairwise(factors))
    assert factors[50:] == [0.0] * 150


def test_iql_s_actor_alone_falls_along_a_cosine_to_zero_at_the_horizon() -> None:
    learner = IQL(3, 1, total_updates=80, actor_hidden=(4,), critic_hidden=(4,), value_hidden=(4,))
    for at, factor in ((0, 1.0), (20, (1 + math.sqrt(0.5)) / 2), (40, 0.5), (80, 0.0), (160, 0.0)):
        learner.clock.fill_(at)
        for name, optimiser in learner.optimisers.items():
            value = schedule_factor(optimiser.schedule, optimiser.clock, optimiser.horizon).item()
            assert value == pytest.approx(factor if name == "actor" else 1.0, abs=1e-12), name


@pytest.mark.parametrize("learner", [CQL(3, 1), TD3BC(3, 1)], ids=["cql", "td3_bc"])
def test_the_others_have_constant_rates(learner: CQL | TD3BC) -> None:
    assert {optimiser.schedule for optimiser in learner.optimisers.values()} == {Schedule(kind="constant")}


def test_learners_use_adam_with_the_reference_s_constants_and_their_own_rates() -> None:
    rates = {
        CQL: {"actor": 1e-4, "critic": 3e-4, "alpha": 1e-4},
        TD3BC: {"actor": 3e-4, "critic": 3e-4},
        IQL: {"value": 3e-4, "actor": 3e-4, "critic": 3e-4},
    }
    for algorithm, expected in rates.items():
        optimisers = algorithm(3, 1).optimisers
        assert {name: optimiser.lr for name, optimiser in optimisers.items()} == expected
        assert {(optimiser.betas, optimiser.eps) for optimiser in optimisers.values()} == {((0.9, 0.999), 1e-8)}
