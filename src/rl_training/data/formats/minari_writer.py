"""A dataset as Minari stores it, by way of Minari's own storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_training.data.checks import FaultyValueError, inferred_bounds
from rl_training.data.formats.atomic import new_file
from rl_training.data.formats.raw import by_the_files_rows
from rl_training.data.provenance import KEY
from rl_training.wording import amount

if TYPE_CHECKING:
    from rl_training.data.offline_dataset import TransitionDataset

_PER_EPISODE, _PER_FILE = 20_000, 200_000  # bytes that HDF5 needs beside the values, and some to spare


def fill(folder: Path, dataset: TransitionDataset, dataset_id: str, provenance: str) -> tuple[str, ...]:
    """Make `folder` and return what its reader should know. An episode has one observation more than rows."""
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    from rl_training.data.formats.minari import ASSUMED_BOUNDS

    usable = dataset.usable()
    notes = []
    if len(usable) < len(dataset):
        left_out = len(dataset) - len(usable)
        notes.append(f"{amount(left_out, 'row')} left out: Minari cannot hold one whose next observation is unknown")
    if lost := [name for name in ("next_actions", "returns_to_go", "part_ids") if getattr(dataset, name) is not None]:
        notes.append(f"Minari does not hold {', '.join(lost)}")
    _require_successors(usable)
    folder.mkdir()
    _require_room(folder, usable)
    spec = _registered(dataset.env_id)
    storage = MinariStorage.new(folder / "data", env_spec=spec, **_spaces(usable))
    told = {"dataset_id": dataset_id, "minari_version": minari.__version__, KEY: json.loads(provenance)}
    storage.update_metadata(told)
    if dataset.env_id is not None and spec is None:
        storage.update_metadata({"env_id": dataset.env_id})
    if dataset.bounds is None or dataset.bounds.action_low is None:  # a Box must have some; these are no knowledge
        storage.update_metadata({ASSUMED_BOUNDS: True})
    storage.update_episodes(EpisodeBuffer(**episode) for episode in _episodes(usable))
    return tuple(notes)


def _require_room(folder: Path, dataset: TransitionDataset) -> None:
    """On a full disk HDF5 ends the process instead of raising, so the room is asked for first."""
    fields = ("obs", "actions", "rewards", "terminations", "truncations")
    rows = sum(getattr(dataset, name).nbytes for name in fields)
    episodes = dataset.n_episodes * (_PER_EPISODE + dataset.obs[:1].nbytes)
    if hasattr(os, "posix_fallocate"):
        with (folder / "room").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, rows + episodes + _PER_FILE)
        (folder / "room").unlink()


def _episodes(dataset: TransitionDataset) -> Iterator[dict[str, Any]]:
    first = 0
    for last in dataset.episode_ends.tolist():
        rows = slice(first, last + 1)
        yield {
            "observations": np.concatenate([dataset.obs[rows], dataset.next_obs[last : last + 1]]),
            **{name: getattr(dataset, name)[rows] for name in ("actions", "rewards", "terminations", "truncations")},
        }
        first = last + 1


def _require_successors(dataset: TransitionDataset) -> None:
    inside = np.ones(len(dataset), dtype=np.bool_)
    inside[dataset.episode_ends] = False
    rows = np.flatnonzero(inside)
    wrong = rows[(dataset.next_obs[rows] != dataset.obs[rows + 1]).any(axis=1)]
    if len(wrong):
        ends = dataset.terminations | dataset.truncations
        what, rule = "not the observation of the next row", "Minari can hold no other"
        with by_the_files_rows(dataset):
            raise FaultyValueError("next_obs", what, int(wrong[0]), None, ends, rule)


def _spaces(dataset: TransitionDataset) -> dict[str, Any]:
    """Boxes with the bounds that are told. Without: unbounded observations; actions in the bounds that training would
    infer, which hold them all."""
    from gymnasium.spaces import Box

    least, most = dataset.actions.min(axis=0), dataset.actions.max(axis=0)
    inferred = inferred_bounds(least, most)
    low, high = np.minimum(inferred[0], least), np.maximum(inferred[1], most)  # a Box knows no rounding
    told = {} if dataset.bounds is None else dataset.bounds.told()

    def box(kind: str, width: int, least: Any, most: Any) -> Any:
        below, above = (
            np.asarray(told.get(f"{kind}_{side}", d), np.float32) for side, d in (("low", least), ("high", most))
        )
        return Box(np.broadcast_to(below, width), np.broadcast_to(above, width), dtype=np.float32)

    return {
        "observation_space": box("obs", dataset.obs_dim, -np.inf, np.inf),
        "action_space": box("action", dataset.act_dim, low, high),
    }


def _registered(env_id: str | None) -> Any:
    """What Gymnasium knows of an environment, without building it; nothing where it is not installed, or where it was
    registered in a way that cannot be written down."""
    import gymnasium

    spec = None if env_id is None else gymnasium.registry.get(env_id)
    try:
        return spec if spec is not None and spec.to_json() else None
    except ValueError:
        return None


def name_spaces(path: Path, dataset_id: str) -> None:
    """Minari lists a namespace by a file of its own in each folder above the dataset."""
    for namespace in list(path.parents)[: dataset_id.count("/")]:
        marker = namespace / "namespace_metadata.json"
        if not marker.exists():
            with new_file(marker) as temporary:
                temporary.write_text("{}", "utf-8")
