"""Checkpoints: a directory of safetensors and JSON with a manifest of SHA-256 sums. No pickle, nothing executed.

    weights.safetensors     every network, targets included
    training.safetensors    optimiser moments, counters, the sums of metrics not yet logged
    source.safetensors      replay buffer and environments, where experience is collected
    state.json              configuration, spaces, transforms, progress
    manifest.json           size and SHA-256 of each of the above

A checkpoint is complete in itself: predicting needs neither the environment nor the dataset. It is written under a
temporary name on the same disk, synced, then renamed; an existing one is never touched.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from rl_training import __version__
from rl_training.algorithms import load as load_algorithm
from rl_training.algorithms.base import Learner
from rl_training.data.formats.atomic import sync, temporary_folder, workplace
from rl_training.data.transforms import Transforms
from rl_training.environments import Spaces
from rl_training.errors import CheckpointError, RLTrainingError
from rl_training.run_places import MANIFEST, TEMPORARY, run_folder_of
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.divergence import Divergence
from rl_training.runtime.progress import Progress
from rl_training.runtime.standing import STATE
from rl_training.runtime.stored_experience import Experience
from rl_training.runtime.stored_tensors import require_alike, restore
from rl_training.runtime.torch_state import own_torch_state
from rl_training.validation import is_count, printable, shortened, shown

FORMAT = 1
_WEIGHTS, _TRAINING = "weights.safetensors", "training.safetensors"
_SOURCE = "source.safetensors"
_LARGEST_MANIFEST = 2**20  # bytes; a real one has a few hundred
_LONGEST_LIST = 2**22  # bytes of a safetensors header: some ten thousand tensors, where networks have hundreds
_MALFORMED = (KeyError, TypeError, ValueError, OverflowError, RecursionError)  # of JSON that is not what was written


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds. `tensors` are the learner's state by name; `metric_sums` what was not yet logged; `data`
    the fingerprint of the dataset, in a run that has one."""

    config: TrainConfig
    spaces: Spaces
    transforms: Transforms
    progress: dict[str, Any]
    tensors: dict[str, Tensor]
    metric_sums: dict[str, Tensor]
    source: dict[str, Tensor] = field(default_factory=dict)
    data: str | None = None

    def copied(self) -> Checkpoint:
        """The same with tensors of its own on the CPU, which training leaves alone."""

        def own(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}

        return replace(self, tensors=own(self.tensors), metric_sums=own(self.metric_sums), source=own(self.source))

    @property
    def stopped_seeds(self) -> dict[int, Divergence]:
        """Seeds that diverged during training and were set back and stopped, and what happened to them."""
        return Progress.from_json(self.progress).stopped_seeds

    @property
    def sound_seeds(self) -> list[int]:
        """The others."""
        return [seed for seed in self.config.seeds if seed not in self.stopped_seeds]

    def build_learner(self, device: str = "cpu", total_updates: int | None = None) -> Learner:
        """The learner as it was."""
        learner = self._new_learner(self.config.seeds, device, total_updates)
        restore(learner.state(), {"active": learner.active, **self.tensors})  # earlier versions froze nobody
        return learner

    def require_sound(self) -> None:
        """Refuse tensors that do not fit the algorithm, and what no run saves: a member that trains is finite."""
        members, one = len(self.config.seeds), self._new_learner(self.config.seeds[:1]).state()
        live = {  # one member tells the shapes of all, and is built the fastest
            name: value.new_empty(members * len(value), *value.shape[1:], device="meta") if value.dim() else value
            for name, value in one.items()
        }
        require_alike(live, {"active": live["active"], **self.tensors})
        trains = self.tensors.get("active", torch.ones(members, dtype=torch.bool))
        for name, value in self.tensors.items():
            if value.dim() and not bool(value.view(members, -1)[trains].isfinite().all()):
                raise CheckpointError(f"{name}: holds values that are not finite, which no run saves")
        self._require_sound_sums(trains)

    def require_experience(self) -> None:
        """Refuse experience that no run can have saved: who trains on needs it, and no policy does."""
        try:
            if (experience := Experience.of(self.config, self.spaces, self.progress)) is not None:
                experience.require_sound(self.source, self.progress["steps"])
        except (*_MALFORMED, AttributeError) as error:
            raise CheckpointError(f"malformed experience ({_named(error)})") from error

    def _require_sound_sums(self, trains: Tensor) -> None:
        """The same of the metrics that were not yet logged: those that were counted, a finite sum for each member."""
        counts = self.progress["metric_counts"]
        if odd := sorted(counts.keys() ^ self.metric_sums.keys()):
            fault = "counted but not summed up" if odd[0] in counts else "summed up but not counted"
            raise CheckpointError(f"metric.{printable(odd[0])}: is {fault}")
        per_seed = torch.zeros(len(trains), dtype=torch.float64)
        for name, value in self.metric_sums.items():
            said = f"metric.{printable(name)}"  # which the file alone knows, unlike those of networks
            require_alike({said: per_seed}, {said: value})
            if not bool(value[trains].isfinite().all()):
                raise CheckpointError(f"{said}: holds values that are not finite, which no run saves")

    @own_torch_state()
    def _new_learner(self, seeds: Sequence[int], device: str = "cpu", total_updates: int | None = None) -> Learner:
        learner_type = load_algorithm(self.config.algo)
        params = learner_type.parse(self.config.algo_kwargs)
        stored = sum(tensor.numel() for tensor in self.tensors.values())
        if len(self.config.seeds) * params.least_values(self.spaces.obs_dim) > stored:
            raise CheckpointError(f"config: describes networks larger than the {stored:,} values that are stored")
        return learner_type(
            self.spaces.obs_dim,
            self.spaces.act_dim,
            params,
            seeds=seeds,
            total_updates=total_updates or int(self.progress["total_updates"]),
            device=device,
        )


def _free_place(path: Path) -> Path:
    """A path where nothing is yet: in a folder that is no checkpoint, else beside what lies there; in a run, not among
    its own checkpoints."""
    path = run_folder_of(path / "policy") or run_folder_of(path) or path
    inside = path.is_dir() and not is_checkpoint(path)
    first = path / "policy" if inside else path.with_name(f"{path.name}-2")
    others = (first.with_name(f"{first.name.removesuffix('-2')}-{number}") for number in count(2))
    return first if not first.exists() else next(place for place in others if not place.exists())


def save_checkpoint(path: Path, checkpoint: Checkpoint, *, in_run: bool = True) -> None:
    """Write a checkpoint at `path`, which must not exist, so that it is there completely or not at all.

    in_run: what a killed process leaves beside it is the run's to remove; else the next one saved there removes it.
    """
    if path.exists():
        way = f"give a new path, such as {_free_place(path)}"
        raise CheckpointError(f"{path}: already exists; a checkpoint is never overwritten; {way}")
    if not in_run and run_folder_of(path) is not None:
        way = f"give another path, such as {_free_place(path)}"
        raise CheckpointError(f"{path}: is a place for a run's own checkpoints, which it goes on from; {way}")
    state = {
        "format": FORMAT,
        "rl_training": __version__,
        "config": checkpoint.config.to_plain(),
        "spaces": checkpoint.spaces.to_json(),
        "transforms": checkpoint.transforms.to_json(),
        "progress": checkpoint.progress,
        **({} if checkpoint.data is None else {"data": checkpoint.data}),
    }
    weights = {name: value for name, value in checkpoint.tensors.items() if name.startswith("model.")}
    training = {name: value for name, value in checkpoint.tensors.items() if name not in weights}
    training.update({f"metric.{name}": value for name, value in checkpoint.metric_sums.items()})
    files = {_WEIGHTS: _pack(weights), _TRAINING: _pack(training), STATE: _json_bytes(state)}
    if checkpoint.source:
        files[_SOURCE] = _pack(checkpoint.source)
    sums = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    files[MANIFEST] = _json_bytes({"format": FORMAT, "files": sums})
    try:
        path.parent.mkdir(parents=not in_run, exist_ok=True)  # a run that was moved is not made anew
        with _in_run(path) if in_run else workplace(path) as temporary:
            _write_directory(path, files, temporary)
    except OSError as error:
        needed = sum(map(len, files.values()))
        raise CheckpointError(f"{path}: cannot be written ({reason(error, path.parent, needed)})") from error


@contextmanager
def _in_run(path: Path) -> Iterator[Path]:
    """A folder beside a run's checkpoint, which goes where that does not come to be."""
    temporary = temporary_folder(path.parent, f"{path.name}{TEMPORARY}")
    try:
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_directory(path: Path, files: Mapping[str, bytes], temporary: Path) -> None:
    temporary.mkdir(exist_ok=True)
    for name, data in files.items():
        (temporary / name).write_bytes(data)
        sync(temporary / name)
    sync(temporary)
    temporary.rename(path)
    sync(path.parent)


_AGAIN = "then resume the run, or call the command again"


def reason(error: OSError, folder: Path, needed: int | None = None) -> str:
    """What went wrong with a file in `folder`, and what to do where that is plain."""
    text = error.strerror or str(error)
    if error.errno == errno.EDQUOT:
        return f"{text}; free some of your quota, such as old runs or checkpoints, {_AGAIN}"
    if error.errno == errno.ENOENT and not folder.exists():
        return f"{text}; {folder} was moved or removed since: what was saved is where it is now"
    if error.errno != errno.ENOSPC:
        return text
    try:
        left = f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB are left"
    except OSError:
        left = "none is left"
    wants = f", {needed / 1e6:,.1f} MB are needed" if needed else ""
    return f"{text}; free space on the disk of {folder} ({left}{wants}), {_AGAIN}"


def is_checkpoint(path: Path) -> bool:
    """Whether a directory is a checkpoint, be it a damaged one."""
    return any((path / name).is_file() for name in (MANIFEST, STATE, _WEIGHTS))


@own_torch_state()
def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify a checkpoint directory."""
    files = _read_verified(path)
    try:
        state = json.loads(files[STATE])
        Progress.from_json(state["progress"])
        spaces = Spaces.from_json(state["spaces"])
        transforms = Transforms.from_json(state["transforms"])
        transforms.require_widths(spaces)
        training = _unpack(files[_TRAINING])
        tensors = _unpack(files[_WEIGHTS])
        tensors.update({k: v for k, v in training.items() if not k.startswith("metric.")})
        checkpoint = Checkpoint(
            TrainConfig.parse(state["config"]),
            spaces,
            transforms,
            state["progress"],
            tensors,
            {k.removeprefix("metric."): v for k, v in training.items() if k.startswith("metric.")},
            _unpack(files[_SOURCE]) if _SOURCE in files else {},
            data=state.get("data"),  # earlier versions did not say
        )
        checkpoint.require_sound()
        return checkpoint
    except RLTrainingError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (*_MALFORMED, AttributeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: malformed checkpoint ({_named(error)})") from error


def _read_verified(path: Path) -> dict[str, bytes]:
    """Every file of the checkpoint, each equal to what the manifest promises."""
    try:
        if _size_of(path / MANIFEST) > _LARGEST_MANIFEST:
            raise CheckpointError(f"{path / MANIFEST}: is not a file that a checkpoint can have")
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise CheckpointError(f"{path}: checkpoint format {shown(manifest['format'])}, this version reads {FORMAT}")
        promised = {name: manifest["files"][name] for name in (_WEIGHTS, _TRAINING, STATE)}
        if _SOURCE in manifest["files"]:
            promised[_SOURCE] = manifest["files"][_SOURCE]
        files = {}
        for name, entry in promised.items():
            if not is_count(entry["bytes"]):
                raise ValueError(f"{name} has {shown(entry['bytes'])} bytes")
            files[name] = _read_promised(path / name, entry["bytes"], entry["sha256"])
    except OSError as error:
        raise CheckpointError(f"{error.filename or path}: cannot be read ({error.strerror})") from error
    except _MALFORMED as error:
        raise CheckpointError(f"{path / MANIFEST}: malformed ({_named(error)})") from error
    return files


def _size_of(path: Path) -> int:
    """Of a plain file: a pipe is not waited for, a device not read without end."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path}: is not a file that a checkpoint can have")
    return found.st_size


def _read_promised(path: Path, size: int, sha256: str) -> bytes:
    """The bytes of a file of this size and SHA-256, summed up in pieces first: a file with a hole in it has any size,
    and would take as much memory before it is known to be damaged."""
    if (found := _size_of(path)) != size:
        raise CheckpointError(f"{path}: damaged (it has {found:,} bytes, the manifest says {size:,})")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
            file.seek(0)
            if len(data := file.read(size)) == size:
                return data
    raise CheckpointError(f"{path}: damaged (its SHA-256 is not the manifest's)")


def _named(error: BaseException) -> str:
    """An error of a library in one short line."""
    return shortened(f"{type(error).__name__}: {' '.join(str(error).split())}", 200)


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    return bytes(safetensors.torch.save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}))


def _unpack(data: bytes) -> dict[str, Tensor]:
    """Its tensors; the list of their names comes first, after its length, and is held to a bound before any is made."""
    if int.from_bytes(data[:8], "little") > _LONGEST_LIST:
        raise ValueError(f"a list of tensors of more than {_LONGEST_LIST:,} bytes")
    return dict(safetensors.torch.load(data))


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
