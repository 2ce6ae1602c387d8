"""Published datasets beside the checkout, where they are at hand; they are not part of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

_PLACES = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
REAL = next((place for place in _PLACES if place.is_dir()), _PLACES[1])
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason=f"no real datasets in {REAL}")
