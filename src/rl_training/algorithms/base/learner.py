"""What every algorithm is: networks, optimisers, and one pure step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from rl_training import streams
from rl_training.algorithms.base.optimiser import Adam
from rl_training.algorithms.base.params import AlgorithmParams, InitParams
from rl_training.data.batch import Batch
from rl_training.errors import ConfigError, did_you_mean
from rl_training.models import Initialiser, Policy
from rl_training.streams import Noise
from rl_training.validation import explain

Metrics = dict[str, Tensor]


@dataclass(frozen=True)
class UpdateResult:
    """Named metrics, `[M]` tensors still on the device, and how many gradient updates were taken."""

    metrics: Metrics
    gradient_steps: int = 1


class Learner(ABC):
    """Base of the algorithms. A subclass names its `Params`, builds its networks and optimisers, and writes `step`.

    M members (one per seed) train as one; every tensor has the member axis first.
    """

    Params: ClassVar[type[AlgorithmParams]]
    finetuning: ClassVar[Mapping[str, Any]] = {}  # parameters that change where an offline run goes on online
    model: nn.Module

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        params: AlgorithmParams | None = None,
        *,
        seeds: Sequence[int] = (0,),
        total_updates: int = 1_000_000,
        device: torch.device | str = "cpu",
        **knobs: Any,
    ) -> None:
        """`params`, or the same as keywords: `CQL(3, 1, cql_alpha=5.0)`. `total_updates` is what schedules span."""
        for name, value in (("obs_dim", obs_dim), ("act_dim", act_dim), ("total_updates", total_updates)):
            if value < 1:
                raise ConfigError(f"{name}: must be at least 1, got {value}")
        if not seeds or not all(0 <= seed < 2**31 for seed in seeds):
            raise ConfigError(f"seeds: must be one or more integers from 0 to 2^31 - 1, got {list(seeds)}")
        if params is not None and (knobs or not isinstance(params, self.Params)):
            raise ConfigError(f"params: give a {self.Params.__name__} or keywords, not both and nothing else")
        self.obs_dim = obs_dim
        self.act_dim = act_dim
        self.params = params if params is not None else self.parse(knobs)
        self.seeds = tuple(seeds)
        self.total_updates = total_updates
        self.device = torch.device(device)
        self.keys = streams.member_keys(self.seeds, self.device)
        self.clock = torch.zeros((), dtype=torch.int64, device=self.device)
        self.active = torch.ones(len(self.seeds), dtype=torch.bool, device=self.device)  # members not frozen
        self.model = self.build().to(self.device)
        self.optimisers: dict[str, Adam] = self.build_optimisers()
        if self.members > 1:  # a single member that stops ends the run: nothing to keep apart
            for optimiser in self.optimisers.values():
                optimiser.active = self.active
        for name in self.params.lr_schedule:
            if name not in self.optimisers:
                raise ConfigError(
                    f"algo_kwargs.lr_schedule: no network {name!r} to schedule{did_you_mean(name, self.optimisers)}"
                )

    @classmethod
    def parse(cls, knobs: Mapping[str, Any]) -> Any:
        """Validated parameters from plain values; a mistake is one line naming the key and what is allowed."""
        try:
            return cls.Params(**knobs)
        except ValidationError as error:
            raise ConfigError(explain(error, cls.Params, prefix="algo_kwargs.", every_option=True)) from None

    # What an algorithm writes -----------------------------------------------------------------------------------

    @property
    def period(self) -> int:
        """Updates after which the pattern of phases repeats (the policy delay, where there is one)."""
        return 1

    def phase(self, update: int) -> int:
        """Which kind of update this one is. Kinds are few: each is compiled once."""
        return 0

    @abstractmethod
    def build(self) -> nn.Module:
        """The networks."""

    @abstractmethod
    def noise(self, batch_size: int) -> dict[str, Noise]:
        """Every random tensor one update consumes."""

    @abstractmethod
    def step(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        """One update of the kind `phase` says, in place. Draws nothing, reads nothing back from the device."""

    # What every algorithm gets ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The network that acts."""
        return cast(Policy, self.model.actor)

    @property
    def members(self) -> int:
        return len(self.seeds)

    @property
    def network_options(self) -> dict[str, Any]:
        """What the parameters say about networks (widths, critics, LayerNorm, start), and the members' seeds."""
        kinds = ("_hidden", "n_critics", "layer_norm")
        options = {"seeds": self.seeds, **{name: value for name, value in self.params if name.endswith(kinds)}}
        if isinstance(self.params, InitParams):
            options |= {"actor_init": Initialiser(self.params.init), "critic_init": Initialiser(self.params.init)}
        return options

    def start_values_at(self, value: float) -> None:
        """Have critics, their targets and the state value begin around `value` instead of around zero."""
        for name in ("critics", "target_critics", "value"):
            if hasattr(self.model, name):
                getattr(self.model, name).shift(value)

    def build_optimisers(self) -> dict[str, Adam]:
        """One optimiser per network that learns, by the name schedules and metrics use: actor, critic, value."""
        networks = {"actor": "actor", "critic": "critics", "value": "value"}
        return {
            name: self.adam(name, getattr(self.model, attribute).flat, getattr(self.params, f"{name}_lr"))
            for name, attribute in networks.items()
            if hasattr(self.model, attribute)
        }

    def adam(self, name: str, parameter: nn.Parameter, lr: float) -> Adam:
        """An optimiser on the learner's clock, with the schedule configured for `name`."""
        schedule = self.params.lr_schedule.get(name)
        return Adam(parameter, lr, self.clock, schedule=schedule, horizon=self.total_updates)

    def advance(self, batch: Batch, noise: Mapping[str, Tensor], phase: int) -> Metrics:
        """`step`, then the clock: what an engine runs, compiles or captures."""
        metrics = self.step(batch, noise, phase)
        self.clock += 1
        return {name: value.detach() for name, value in metrics.items()}

    def update(self, batch: Batch, noise: Mapping[str, Tensor] | None = None) -> UpdateResult:
        """One update from a batch in hand, for use by hand; engines call `advance`, which touches no host value.

        Noise not given is drawn from the members' own streams.
        """
        update = int(self.clock)
        if noise is None:
            noise = streams.NoiseStreams(self.noise(batch.rewards.shape[-1])).draw(self.keys, update)
        return UpdateResult(self.advance(batch, noise, self.phase(update)))

    @torch.no_grad()
    def act(self, obs: Tensor, noise: Mapping[str, Tensor] | None = None) -> Tensor:
        """Actions in [-1, 1], `[M, B, act]`, for (transformed) observations `[M, B, obs]`; with `noise`, sampled."""
        return self.policy.mode(obs) if noise is None else self.sample_action(obs, noise)

    def acting_noise(self, batch_size: int) -> dict[str, Noise]:
        """Every random tensor sampling actions consumes."""
        return {"action": Noise("normal", (batch_size, self.act_dim))}

    def sample_action(self, obs: Tensor, noise: Mapping[str, Tensor]) -> Tensor:
        """Actions drawn from the policy."""
        return self.policy.sample_action(obs, noise["action"])

    @torch.no_grad()
    def explore(self, obs: Tensor, noise: Mapping[str, Tensor]) -> Tensor:
        """Actions to collect experience with: the policy's samples, unless the algorithm has its own way."""
        return self.sample_action(obs, noise)

    def state(self) -> dict[str, Tensor]:
        """Every tensor a checkpoint needs, by name. They are the live ones: loading copies into them."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for name, optimiser in self.optimisers.items():
            tensors.update({f"optimiser.{name}.{key}": value for key, value in optimiser.state.items()})
        return {**tensors, "clock": self.clock, "active": self.active}

    def rows(self) -> dict[str, Tensor]:
        """Networks, targets and moments as views `[M, values]`: all that belongs to one member alone is in its row."""
        return {
            name: tensor.detach().view(self.members, -1)
            for name, tensor in self.state().items()
            if tensor.dim() and name != "active"
        }

    def finite_rows(self) -> Tensor:
        """Whether all values of each of `rows` are finite, by member, `[rows, M]`; on the device, which is not waited
        for."""
        return torch.stack([torch.isfinite(row).all(-1) for row in self.rows().values()])

    def freeze(self, member: int, sound: Mapping[str, Tensor]) -> None:
        """Stop one member for good: its networks become those of the state `sound`, and no update moves them again.

        Without momentum and with gradients that count as zero it stays where it is; the others do not notice.
        """
        for name, rows in self.rows().items():
            if name.startswith("model."):
                rows[member] = sound[name].view(self.members, -1)[member].to(rows.device)
            else:
                rows[member] = 0.0
        self.active[member] = False
