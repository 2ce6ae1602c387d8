"""Why each episode ended, in the few characters that a written file keeps of it: the texts, and which is whose."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

_SIGNS = string.digits + string.ascii_letters
_MOST_EPISODES, _LONGEST = 10_000, 200  # that a file's metadata have room for


def reasons_of(dataset: TransitionDataset) -> tuple[str, ...] | None:
    """The text of each episode's end, empty where none stands there: as the log has it, or as the file keeps it that
    was written from the log; none where neither tells."""
    if not dataset.whole_episodes:
        return None
    source, made = dataset.in_file, dataset.provenance
    if source is not None and source.end_texts:
        return tuple(source.end_text(row) or "" for row in dataset.episode_ends.tolist())
    kept = None if made is None else made.reasons_kept()
    return kept if kept is not None and len(kept) == dataset.n_episodes else None


def pack(reasons: Sequence[str] | None) -> dict[str, Any] | None:
    """As JSON values; none where there are too many, or too many different ones."""
    texts = list(dict.fromkeys(reasons or ()))
    if reasons is None or not any(texts) or len(texts) > len(_SIGNS) or len(reasons) > _MOST_EPISODES:
        return None
    if max(map(len, texts)) > _LONGEST:
        return None
    signs = dict(zip(texts, _SIGNS, strict=False))
    return {"texts": texts, "of_episodes": "".join(signs[reason] for reason in reasons)}


def unpack(told: Any) -> tuple[str, ...] | None:
    """What `pack` made; none of anything else."""
    texts, signs = (told.get("texts"), told.get("of_episodes")) if isinstance(told, Mapping) else (None, None)
    if not isinstance(texts, list) or not isinstance(signs, str) or len(texts) > len(_SIGNS):
        return None
    if len(signs) > _MOST_EPISODES or not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        return None
    of = dict(zip(_SIGNS, texts, strict=False))
    return tuple(of[sign] for sign in signs) if set(signs) <= of.keys() else None
