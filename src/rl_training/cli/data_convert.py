"""`rl-training data convert`: a dataset from one format to another, with a word on what was found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rl_training.cli.data_check import read_source
from rl_training.cli.hints_as_options import in_options
from rl_training.cli.reading_options import Reading
from rl_training.cli.telling import tell
from rl_training.cli.text_tables import size
from rl_training.data.checks import MATRIX_FIELDS, VECTOR_FIELDS
from rl_training.data.dataset_files import dataset_files
from rl_training.data.dataset_loaders import check_spaces
from rl_training.data.doctor.episode_checks import check_reward_name
from rl_training.data.doctor.flag_checks import check_left_out
from rl_training.data.doctor.resolution_checks import check_resolution
from rl_training.data.fields import FIELD_OF
from rl_training.data.formats import MINARI_PREFIX, RawData, writers
from rl_training.data.formats.places import locate
from rl_training.data.kept_reasons import reasons_of
from rl_training.data.offline_dataset import TransitionDataset
from rl_training.data.provenance import KEY, Provenance, digest_of
from rl_training.data.space_bounds import SpaceBounds, read_bounds
from rl_training.environments import read_spaces
from rl_training.errors import ConfigError, DataError
from rl_training.experiment.costs import Shown, shown_as
from rl_training.wording import amount, notice_line, readable


def convert(
    source: str, target: str, env_id: str | None, reading: Reading, *, force: bool, config: str | None = None
) -> None:
    """Read, check and write. env_id: the environment to hold the data to and to write down, if they do not tell it.
    config: the configuration that says how they are read."""
    if source.endswith((".yaml", ".yml")):
        command = shlex.join(["rl-training", "data", "convert", target, "-c", source])
        raise ConfigError(f"{source}: is a configuration, not data; `{command}` converts the data it names")
    goal = writers.target_of(target)
    writers.check_free(goal, force=force, source=source)
    dataset, told = read_and_describe(source, env_id, reading, config)
    made = provenance_of(source, reading, dataset)
    notes = writers.write(dataset, goal, force=force, provenance=replace(made, reasons=reasons_of(dataset)))
    tell("\n".join([*told, *written_lines(goal, notes)]))


def read_and_describe(
    source: str, env_id: str | None, reading: Reading, config: str | None
) -> tuple[TransitionDataset, list[str]]:
    """The data as they are to be written, and in lines what they are, in the words of options or of the configuration
    that says how they are read."""
    in_words = in_options if config is None else str
    raw = read_source(source, reading, of_config=config is not None)
    try:
        dataset = TransitionDataset.from_raw(raw)
    except DataError as error:
        command = reading.check_command(source, env_id)
        raise DataError(f"{source}: {in_words(str(error))} (all that is wrong: {command})") from error
    if env_id is not None:
        dataset = _held_to(dataset, env_id, source)
    told = [f"{source}: {dataset.origin}" + (f", recorded in {dataset.env_id}" if dataset.env_id else "")]
    told += [f"  {notice_line(in_words(note))}" for note in (*dataset.notes, *_narrowed(raw))]
    doubts = (*check_resolution(dataset.coarse), *check_left_out(raw), *check_reward_name(raw, dataset.rewards))
    told += [f"  warning: {in_words(str(finding))}" for finding in doubts]
    widths = f"observations {dataset.obs_dim}, actions {dataset.act_dim}"
    told.append(f"  {amount(len(dataset), 'row')}, {_episodes(dataset, shown_by(source, reading, dataset))}; {widths}")
    if dataset.n_usable < len(dataset):
        told.append(f"  {amount(len(dataset) - dataset.n_usable, 'row')} without a recorded successor")
    return dataset, told


def provenance_of(source: str, reading: Reading, dataset: TransitionDataset) -> Provenance:
    """Where what is to be written comes from: the data of this name, as they are now."""
    place = locate(source)
    name = source if source.startswith(MINARI_PREFIX) else place.name
    return Provenance.of(name, reading.said(), dataset.provenance, digest_of(place, dataset_files(place)))


def shown_by(source: str, reading: Reading, dataset: TransitionDataset) -> Shown:
    """Whether rewards are shown as costs, by how the data are read and what they say of where they come from."""
    made = Provenance.of(source, reading.said(), dataset.provenance)
    return shown_as(None, {KEY: made.to_json()})


def written_lines(goal: writers.Target, notes: Sequence[str]) -> list[str]:
    """What was written, and what its reader should know."""
    return [*(f"  note: {note}" for note in notes), f"written: {goal.path} ({_size(goal.path)})"]


def _narrowed(raw: RawData) -> list[str]:
    """A note where numbers lose digits; the decimals of a text have none of a certain type."""
    kept = (*MATRIX_FIELDS, *VECTOR_FIELDS)
    wide = [key for key, values in raw.arrays.items() if FIELD_OF.get(key) in kept and _is_float64(values)]
    if not wide or raw.format.startswith("CSV"):
        return []
    return [f"float64 is written as float32, which is what is trained on: {', '.join(wide)}"]


def _is_float64(values: Any) -> bool:
    dtype = np.asarray(values).dtype
    return dtype.kind == "f" and dtype.itemsize > 4


def _held_to(dataset: TransitionDataset, env_id: str, source: str) -> TransitionDataset:
    """With the environment and its bounds, where the data do not tell them; they must fit."""
    if dataset.env_id not in (None, env_id):
        raise DataError(
            f"{source}: was recorded in {dataset.env_id}, as it says itself, not in {env_id}; leave out --env-id"
        )
    check_spaces(dataset, read_spaces(env_id), source, env_id)
    told = {} if dataset.bounds is None else dataset.bounds.told()
    return replace(dataset, env_id=env_id, bounds=SpaceBounds(**read_bounds(env_id).told() | told))


def _episodes(dataset: TransitionDataset, shown: Shown) -> str:
    if not dataset.whole_episodes:
        return "sampled or reordered"
    return f"{amount(dataset.n_episodes, 'episode')}, {mean_return(dataset, shown)}"


def mean_return(dataset: TransitionDataset, shown: Shown) -> str:
    """`mean return 12.3`, `mean cost 12.3 EUR`."""
    mean = shown.number(float(dataset.episode_returns().mean()))
    return f"mean {shown.noun} {readable(mean)}{shown.behind}"


def _size(path: Path) -> str:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return size(sum(file.stat().st_size for file in files))
