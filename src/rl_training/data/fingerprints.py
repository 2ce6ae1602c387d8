"""What tells two datasets apart: SHA-256 of every field, and of all of them together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rl_training.data.offline_mixers import Mixture

_BLOCK = 1 << 24  # bytes hashed at once, so that a memory-mapped field is read through and let go


def field_digest(values: npt.NDArray[Any]) -> str:
    """SHA-256 over dtype, shape and bytes of a C-contiguous array."""
    digest = hashlib.sha256(f"{values.dtype.str} {values.shape}\n".encode())
    raw = values.reshape(-1).view(np.uint8)
    for start in range(0, len(raw), _BLOCK):
        digest.update(raw[start : start + _BLOCK].data)
    return digest.hexdigest()


def combined_fingerprint(digests: Mapping[str, str], mixture: Mixture | None = None) -> str:
    """One digest from those of the fields, in their order."""
    digest = hashlib.sha256("".join(f"{name} {value}\n" for name, value in digests.items()).encode())
    if mixture is not None:
        digest.update(f"{mixture.shares} {mixture.exact}".encode())
    return digest.hexdigest()
