"""Tensors that were stored, held against those they are to become."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from rl_training.errors import CheckpointError
from rl_training.validation import printable


def require_alike(
    live: Mapping[str, Tensor], stored: Mapping[str, Tensor], any_length: Mapping[str, int] | None = None
) -> None:
    """Refuse stored tensors whose names, shapes or types are not the live ones'.

    any_length: axes, by a tensor's name, whose length may differ.
    """
    if live.keys() != stored.keys():
        odd = sorted(live.keys() ^ stored.keys())[0]
        raise CheckpointError(f"{printable(odd)}: in the {'checkpoint' if odd in stored else 'algorithm'} only")
    for name, tensor in live.items():
        free = (any_length or {}).get(name)
        expected = tuple("any" if axis == free else size for axis, size in enumerate(tensor.shape))
        given = tuple(stored[name].shape)
        if len(given) != len(expected) or any(b not in ("any", a) for a, b in zip(given, expected, strict=True)):
            raise CheckpointError(f"{name}: has shape {given}, expected {expected}".replace("'", ""))
        if tensor.dtype != stored[name].dtype:
            raise CheckpointError(f"{name}: has type {stored[name].dtype}, expected {tensor.dtype}")


def restore(live: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Copy stored tensors into live ones, after checking that names, shapes and types all agree."""
    require_alike(live, stored)
    for name, tensor in live.items():
        tensor.data.copy_(stored[name])
