"""How much memory a run will need, known before it starts.

Nothing is listed by algorithm: one member is built and takes one update of each kind, on the CPU, while every tensor
that is made is counted. Members are a leading axis of everything, so M members need M times that. What is shared (the
dataset, the compiler) is added. Environments are not counted.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rl_training.algorithms.base import AlgorithmParams, Learner, OnlineParams
from rl_training.data.batch import unpack
from rl_training.data.formats.limits import free_memory
from rl_training.data.mapped import packed_bytes
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.environments import Spaces
from rl_training.errors import ConfigError
from rl_training.runtime.engine import CAPTURED_BLOCKS, set_arithmetic
from rl_training.runtime.mapped_source import STAGED_UPDATES
from rl_training.streams import NoiseStreams

_MEASURED = 4_096  # rows of a batch from where on what is measured tells what larger ones take
_MIB = 2**20
_GIB = 2**30
_COPIES = 3  # of a weight, at the least: itself, its gradient and a moment

# Measured once, on torch 2.11; see docs/runs.md for how well predictions do.
_CPU_MARGIN = 100 * _MIB  # threads, buffers of matrix products, freed blocks that the C library keeps
_CPU_COMPILER = 200 * _MIB  # Inductor and what it imports
_CUDA_MARGIN = 700 * _MIB  # context, kernels, cuBLAS workspaces
# Of the state while a checkpoint is written: tensors of its own, the bytes of the files, and one file's tensors.
_CHECKPOINT_COPIES = 3
_CLEARLY = 0.8  # a prediction may be too high by so much; what is beyond is refused
_TIGHT = 0.9  # of what is free: worth a note


class AllocationMeter(TorchDispatchMode):
    """Counts the bytes of every tensor made under it: those alive now, and the most that were at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()
        if key in self._known and self._known[key]() is storage:
            return

        def gone(_: Any) -> None:
            self.live -= size
            self._known.pop(key, None)

        self._known[key] = weakref.ref(storage, gone)
        self.live += size
        self.peak = max(self.peak, self.live)


@dataclass(frozen=True)
class MemberBytes:
    """What one member takes: while it is built, for good (networks, targets, moments), and more during an update.

    kinds: of updates there are, each compiled and captured by itself.
    """

    building: int
    state: int
    update: int
    kinds: int


def measure_member(
    learner_type: type[Learner], obs_dim: int, act_dim: int, params: AlgorithmParams, *, blocked: bool = False
) -> MemberBytes:
    """Build one member and take one update of each kind. blocked: large batches in blocks, which keep much less.

    Of a very large batch, two smaller ones tell: what an update takes grows by as much with every row, and an update of
    it may take minutes."""
    sizes = (_MEASURED, 2 * _MEASURED) if params.batch_size > 2 * _MEASURED else (params.batch_size,)
    known = [
        _measured(learner_type, obs_dim, act_dim, params.model_copy(update={"batch_size": size}), blocked=blocked)
        for size in sizes
    ]
    growth = (known[-1].update - known[0].update) / _MEASURED
    further = round(growth * (params.batch_size - sizes[-1]))
    return replace(known[-1], update=known[-1].update + further)


def _measured(
    learner_type: type[Learner], obs_dim: int, act_dim: int, params: AlgorithmParams, *, blocked: bool
) -> MemberBytes:
    widths = {**_widths(obs_dim, act_dim), "next_actions": act_dim, "returns_to_go": 1}
    building, updating = AllocationMeter(), AllocationMeter()
    with building:
        learner = learner_type(obs_dim, act_dim, params)
    set_arithmetic(learner, kernels="auto" if blocked else "plain")
    firsts = {learner.phase(update): update for update in reversed(range(learner.period))}
    for update in firsts.values():
        with updating:
            batch = unpack(torch.zeros(1, params.batch_size, sum(widths.values())), widths)
            noise = NoiseStreams(learner.noise(params.batch_size)).draw(learner.keys, update)
            learner.advance(batch, noise, learner.phase(update))
            del batch, noise
    return MemberBytes(building.peak, building.live, updating.peak, len(firsts))


def _widths(obs_dim: int, act_dim: int) -> dict[str, int]:
    """Columns of a transition, by field."""
    return {"obs": obs_dim, "actions": act_dim, "rewards": 1, "next_obs": obs_dim, "terminations": 1}


@dataclass(frozen=True)
class DataBytes:
    """What transitions take: once, and for every member (a replay buffer, staged batches).

    saved: how much of a member's goes into checkpoints.
    """

    shared: int = 0
    per_member: int = 0
    saved: int = 0


def data_bytes(
    dataset: TransitionDataset | None,
    online: OnlineParams | None,
    spaces: Spaces,
    steps: int,
    batch_size: int,
    *,
    from_disk: bool,
) -> DataBytes:
    """A dataset's packed rows or the blocks staged from disk, and what a replay buffer of so many steps will hold."""
    row = 4 * sum(_widths(spaces.obs_dim, spaces.act_dim).values())
    rows = 0 if dataset is None else dataset.n_usable
    shared = 0 if dataset is None else packed_bytes(dataset)
    if from_disk:
        return DataBytes(0, 2 * STAGED_UPDATES * batch_size * row)
    buffer = row * min(online.buffer_capacity, rows + steps) if online is not None else 0
    return DataBytes(shared, buffer, saved=buffer)


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes a run will need in one place, and how many are free there now."""

    place: str
    members: int
    per_member: int
    shared: int
    free: int

    @property
    def total(self) -> int:
        return self.shared + self.members * self.per_member

    @property
    def members_that_fit(self) -> int:
        return max(0, (self.free - self.shared) // self.per_member)

    def __str__(self) -> str:
        where = "" if self.place == "cpu" else f" on {self.place}"
        return f"memory: about {readable_bytes(self.total)} of {readable_bytes(self.free)} free{where}"

    @property
    def is_tight(self) -> bool:
        return self.total > _TIGHT * self.free

    def require(self) -> None:
        """Refuse what clearly does not fit, in one line that says what would."""
        if self.total * _CLEARLY <= self.free:
            return
        fit = self.members_that_fit
        what = "member needs" if self.members == 1 else "members need"
        remedy = f"about {fit} would fit" if fit else "smaller networks, batches or data would help, fewer seeds not"
        raise ConfigError(
            f"seed: {self.members} {what} about {readable_bytes(self.total)} of memory on {self.place}, where"
            f" {readable_bytes(self.free)} are free; {remedy}"
        )


def memory_needs(
    one: MemberBytes, data: DataBytes, members: int, device: torch.device, *, compiled: bool, captured: bool = False
) -> list[MemoryNeed]:
    """What the run will need where it trains and, if that is a GPU, on the host. captured: as CUDA graphs."""
    saving = _CHECKPOINT_COPIES * (one.state + data.saved)
    compiler = _CPU_COMPILER if compiled else 0
    if device.type == "cpu":
        each = max(one.building, one.state + one.update + saving) + data.per_member  # updates go on meanwhile
        return [MemoryNeed("cpu", members, each, data.shared + compiler + _CPU_MARGIN, free_memory())]
    host = MemoryNeed(
        "the host", members, max(one.building, saving), data.shared + compiler + _CPU_MARGIN, free_memory()
    )
    graphs = len(CAPTURED_BLOCKS) * one.kinds if captured else 0  # each keeps what its updates need for itself
    each = one.state + one.update * (1 + graphs) + data.per_member
    free = torch.cuda.mem_get_info(device)[0]
    return [MemoryNeed(str(device), members, each, data.shared + _CUDA_MARGIN, free), host]


def predict(
    learner_type: type[Learner],
    params: AlgorithmParams,
    spaces: Spaces,
    data: DataBytes,
    members: int,
    device: torch.device,
    *,
    blocked: bool = False,
    **engine: bool,
) -> list[MemoryNeed]:
    """What a run will need, by place; refuses what clearly is not there. blocked: as for `measure_member`; engine: as
    for `memory_needs`."""
    free = free_memory()
    least = 4 * (_COPIES * params.least_values(spaces.obs_dim) + params.batch_size * spaces.obs_dim)
    if least > free:  # not to be tried: the system would end the process, not the attempt
        raise ConfigError(
            f"algo_kwargs: networks and a batch of {params.batch_size:,} need more than {readable_bytes(least)} of"
            f" memory, where {readable_bytes(free)} are free"
        )
    one = measure_member(learner_type, spaces.obs_dim, spaces.act_dim, params, blocked=blocked)
    needs = memory_needs(one, data, members, device, **engine)
    for need in needs:
        need.require()
    return needs


def readable_bytes(count: int) -> str:
    """`1.3 GiB`, `20 GiB`, `310 MiB`."""
    if count < _GIB:
        return f"{count / _MIB:.0f} MiB"
    return f"{count / _GIB:.1f} GiB" if count < 10 * _GIB else f"{count / _GIB:.0f} GiB"
