"""Adam over one parameter matrix, with every counter and rate a tensor so that a step can be compiled or captured."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from rl_training.algorithms.base.params import Schedule


class Adam:
    """Kingma & Ba (2015). Rows of the parameter matrix are independent: a member never sees another's gradient."""

    active: Tensor | None = None  # `[M]`, given by a learner of several members: those that still learn

    def __init__(
        self,
        parameter: nn.Parameter,
        lr: float,
        clock: Tensor,
        *,
        schedule: Schedule | None = None,
        horizon: int = 1,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        """clock: the learner's update counter, which the schedule reads; horizon: updates in the whole run;
        weight_decay: L2 penalty added to the gradient (coupled, as `torch.optim.Adam` has it)."""
        self.parameter = parameter
        self.lr = lr
        self.clock = clock
        self.schedule = schedule or Schedule()
        self.horizon = horizon
        self.betas = betas
        self.eps = eps
        self.weight_decay = weight_decay
        self.state = {
            "first_moment": torch.zeros_like(parameter, requires_grad=False),
            "second_moment": torch.zeros_like(parameter, requires_grad=False),
            "steps": torch.zeros((), dtype=torch.float64, device=parameter.device),
        }

    def step(self, loss: Tensor) -> None:
        """One step on `loss`, `[M]`: their sum has, for every member, exactly that member's gradient."""
        (gradient,) = torch.autograd.grad(loss.sum(), self.parameter)
        with torch.no_grad():
            if self.weight_decay:
                gradient = gradient.add(self.parameter, alpha=self.weight_decay)
            self._apply(self._of_active(gradient))

    def _of_active(self, gradient: Tensor) -> Tensor:
        """Zero for a member that has stopped, whose moments are zero too: it stays where it is.

        Chosen, not multiplied: zero times what is not finite is not finite.
        """
        if self.active is None:
            return gradient
        rows = gradient.reshape(len(self.active), -1)
        return torch.where(self.active.unsqueeze(-1), rows, 0.0).view_as(gradient)

    def _apply(self, gradient: Tensor) -> None:
        first, second, steps = self.state["first_moment"], self.state["second_moment"], self.state["steps"]
        beta1, beta2 = self.betas
        steps += 1.0
        first.lerp_(gradient, 1.0 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
        rate = self.lr * schedule_factor(self.schedule, self.clock, self.horizon) / (1.0 - beta1**steps)
        root_correction = (1.0 - beta2**steps).rsqrt()
        denominator = second.sqrt().mul_(root_correction.to(second.dtype)).add_(self.eps)
        self.parameter.sub_(first.div(denominator).mul_(rate.to(first.dtype)))


class Momentum(Adam):
    """Stochastic gradient descent with heavy-ball momentum, on the same terms (AWR's own optimiser)."""

    def __init__(
        self, parameter: nn.Parameter, lr: float, clock: Tensor, *, momentum: float = 0.9, **rest: Any
    ) -> None:
        super().__init__(parameter, lr, clock, **rest)
        self.momentum = momentum
        self.state = {"velocity": torch.zeros_like(parameter, requires_grad=False)}

    def _apply(self, gradient: Tensor) -> None:
        velocity = self.state["velocity"]
        velocity.mul_(self.momentum).add_(gradient)
        rate = self.lr * schedule_factor(self.schedule, self.clock, self.horizon)
        self.parameter.sub_(velocity * rate.to(velocity.dtype))


def schedule_factor(schedule: Schedule, clock: Tensor, horizon: int) -> Tensor:
    """The factor on the learning rate at update `clock` (0-d) of `horizon`."""
    at = clock.double()
    factor = torch.ones_like(at)
    if schedule.kind != "constant":
        progress = ((at - schedule.warmup) / max(horizon - schedule.warmup, 1)).clamp(0.0, 1.0)
        fall = progress if schedule.kind == "linear" else 0.5 * (1.0 - torch.cos(math.pi * progress))
        factor = 1.0 + (schedule.final - 1.0) * fall
    if schedule.warmup:
        factor = factor * ((at + 1.0) / schedule.warmup).clamp(max=1.0)
    return factor
