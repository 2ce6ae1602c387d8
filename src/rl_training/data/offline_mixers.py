"""Several datasets as one: concatenated, each with its share of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_training.data.column_names import common_names, require_common_order
from rl_training.data.formats.columns import closed, verify
from rl_training.data.formats.raw import RawData
from rl_training.data.space_bounds import SpaceBounds
from rl_training.errors import ConfigError, DataError
from rl_training.wording import WARNING

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset


_SMALLEST_SHARE = 1e-30  # of a batch: less would never be drawn


@dataclass(frozen=True)
class Mixture:
    """What a mixed dataset is made of. `shares` sum to one; `exact` holds them in every batch, not on average."""

    names: tuple[str, ...]
    shares: tuple[float, ...]
    exact: bool = False

    def __post_init__(self) -> None:
        if len(self.names) != len(self.shares):
            raise ConfigError(f"mixture: {len(self.names)} names, but {len(self.shares)} shares")
        if not all(share > 0.0 for share in self.shares) or abs(math.fsum(self.shares) - 1.0) > 1e-6:
            raise ConfigError(f"mixture: shares must be positive and sum to 1, got {self.shares}")

    def in_batches(self, size: int) -> str:
        """How many rows of a batch are of which part: `48 of a.npz, 16 of b.npz`."""
        rows = batch_counts(self.shares, size) if self.exact else [share * size for share in self.shares]
        parts = ", ".join(f"{count:.4g} of {name}" for name, count in zip(self.names, rows, strict=True))
        return f"{parts} in {'every' if self.exact else 'a'} batch of {size:,}{'' if self.exact else ', on average'}"


def mix_datasets(
    parts: Mapping[str, TransitionDataset], weights: Mapping[str, float] | None = None, *, exact: bool = False
) -> TransitionDataset:
    """One dataset of all parts, in order, with every field they all have.

    weights: how often each part is drawn, relative to the others; by default in proportion to its usable rows.
    exact: the same number of rows of each part in every batch (rounded by largest remainder), instead of on average.

    `next_actions` are derived for parts without them where another part has them; `returns_to_go` that some part lacks
    are dropped with a note, as nothing says how they were discounted. An episode never goes on into the next part.
    """
    if not parts:
        raise ConfigError("mixture: needs at least one part")
    rows = {name: float(max(1, part.n_usable)) for name, part in parts.items()}  # of none: refused when packed
    given = rows if weights is None else dict(weights)
    if set(given) != set(parts):
        raise ConfigError(f"mixture: weights for {sorted(given)}, but the parts are {sorted(parts)}")
    numbers = [weight for weight in given.values() if isinstance(weight, int | float | np.number)]
    if len(numbers) < len(given) or not all(math.isfinite(weight) and weight > 0.0 for weight in numbers):
        raise ConfigError(f"mixture: weights must be positive numbers, got {given}")
    for name, part in parts.items():
        if part.mixture is not None:
            raise ConfigError(
                f"mixture: {name} is a mixture itself; name its parts here, with the product of the weights"
            )
        if part.folder is not None:
            verify(part.folder)  # all of it is read now
    largest = max(given.values())  # whose sum with others may be beyond all numbers
    total = math.fsum(weight / largest for weight in given.values())
    shares = {name: float(given[name] / largest / total) for name in parts}
    for name in (name for name, share in shares.items() if share < _SMALLEST_SHARE):
        raise ConfigError(f"mixture: the weight of {name}, {given[name]:g}, is nothing beside {largest:g}")
    mixture = Mixture(tuple(parts), tuple(shares.values()), exact)
    return _concatenate(mixture, [replace(part, part_ids=None) for part in parts.values()])


def _concatenate(mixture: Mixture, parts: list[TransitionDataset]) -> TransitionDataset:
    first = parts[0]
    for name, part in zip(mixture.names, parts, strict=True):
        if (part.obs_dim, part.act_dim) != (first.obs_dim, first.act_dim):
            raise DataError(
                f"mixture: {name} has {part.obs_dim} observation and {part.act_dim} action columns, "
                f"{mixture.names[0]} has {first.obs_dim} and {first.act_dim}"
            )
    otherwise = require_common_order(dict(zip(mixture.names, parts, strict=True)))
    parts, notes = _with_common_fields(mixture, parts)
    notes = (*notes, *otherwise)
    arrays: dict[str, Any] = {
        name: np.concatenate([part.to_dict()[name] for part in parts]) for name in parts[0].to_dict()
    }
    arrays["truncations"] = np.concatenate([closed(part).truncations for part in parts])
    arrays["part_ids"] = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    recorded = {name: part.env_id for name, part in zip(mixture.names, parts, strict=True) if part.env_id}
    if len(set(recorded.values())) > 1:
        named = ", ".join(f"{name} in {env_id}" for name, env_id in recorded.items())
        notes = (*notes, f"the parts were recorded in different environments: {named}")
    bounds, unused = _common_bounds(parts, arrays)
    origin = f"mixture of {', '.join(mixture.names)}"
    said = tuple(_of_part(name, note) for name, part in zip(mixture.names, parts, strict=True) for note in part.notes)
    return replace(
        parts[0],
        **arrays,
        whole_episodes=all(part.whole_episodes for part in parts),
        origin=origin,
        in_file=_told_of_columns(parts, origin, bounds),
        notes=said + notes + unused,
        mixture=mixture,
        folder=None,
        env_id=next(iter(recorded.values())) if len(set(recorded.values())) == 1 else None,
        bounds=bounds,
    )


def _of_part(name: str, note: str) -> str:
    """A note of a part, with its name; a warning stays one."""
    mark = WARNING if note.startswith(WARNING) else ""
    return f"{mark}{name}: {note.removeprefix(WARNING)}"


def _told_of_columns(parts: Sequence[TransitionDataset], origin: str, bounds: SpaceBounds | None) -> RawData | None:
    """What the parts tell of their columns, in the place of a file; none where they tell nothing."""
    columns, words = common_names(parts)
    return RawData({}, origin, bounds=bounds, columns=columns, words=words) if columns else None


def _common_bounds(
    parts: Sequence[TransitionDataset], arrays: Mapping[str, Any]
) -> tuple[SpaceBounds | None, tuple[str, ...]]:
    """What the parts that tell bounds agree on and the others keep to, and notes on what is not used."""
    told = [part.bounds.told() for part in parts if part.bounds is not None]
    agreed: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    for kind, title in (("action", "action"), ("obs", "observation")):
        sides = (f"{kind}_low", f"{kind}_high")
        pairs = {tuple(bounds[side] for side in sides) for bounds in told if sides[0] in bounds}
        if len(pairs) == 1:
            agreed |= dict(zip(sides, *pairs, strict=True))
        elif pairs:
            notes += (f"the {title} bounds that the parts tell are not used: they differ",)
    bounds, misfits = SpaceBounds(**agreed).fitted(arrays["obs"], arrays["actions"])
    return bounds, notes + misfits


def _with_common_fields(
    mixture: Mixture, parts: list[TransitionDataset]
) -> tuple[list[TransitionDataset], tuple[str, ...]]:
    notes = []
    if any(part.next_actions is not None for part in parts):
        parts = [part if part.next_actions is not None else part.with_next_actions() for part in parts]
    lacking = [name for name, part in zip(mixture.names, parts, strict=True) if part.returns_to_go is None]
    if lacking and len(lacking) < len(parts):
        parts = [replace(part, returns_to_go=None) for part in parts]
        notes.append(f"returns_to_go are dropped: {', '.join(lacking)} has none")
    if any(part.has_next_obs is not None for part in parts):
        parts = [
            part if part.has_next_obs is not None else replace(part, has_next_obs=np.ones(len(part), dtype=np.bool_))
            for part in parts
        ]
    return parts, tuple(notes)


def batch_counts(shares: Sequence[float], size: int) -> list[int]:
    """Rows of each part in a batch of `size`: its share, rounded by largest remainder, and at least one of each."""
    if size < len(shares):
        raise ConfigError(f"batch_size: {size} is too small for {len(shares)} parts with exact shares")
    wanted = [share * size for share in shares]
    counts = [max(1, math.floor(rows)) for rows in wanted]
    by_remainder = sorted(range(len(shares)), key=lambda i: counts[i] - wanted[i])
    while sum(counts) < size:
        counts[by_remainder[0]] += 1
        by_remainder.sort(key=lambda i: counts[i] - wanted[i])
    while sum(counts) > size:
        largest = max((i for i in by_remainder if counts[i] > 1), key=lambda i: counts[i] - wanted[i])
        counts[largest] -= 1
    return counts
