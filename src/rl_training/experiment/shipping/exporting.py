"""Writing a policy for elsewhere: one file with every transform inside, and its card."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from rl_training.data.formats.atomic import put, sync, workplace
from rl_training.data.formats.nearby import REPLACED
from rl_training.errors import ConfigError, did_you_mean
from rl_training.experiment.manager import LoadedPolicy
from rl_training.experiment.shipping import onnx_graph, torch_program
from rl_training.experiment.shipping.card import Circumstances, computed_from, make_card, run_name
from rl_training.experiment.shipping.network import PolicyNetwork, read_network, require_samples
from rl_training.paths import folder_fault, user_path
from rl_training.postponing import stopping_later
from rl_training.runtime.acting import Actor
from rl_training.validation import is_count, require_flag, shortened, shown
from rl_training.wording import taken

ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
_OF_TORCH = ("pt", "pth", "torchscript", "jit", "pytorch")  # what is called so elsewhere
CHECKED_ROWS = 256
MOST_ROWS = 2**16  # that a file can be fixed to: all of them are answered before it is written
TOLERANCE = 1e-4  # of an action's range; a file that differs by more is not written


@dataclass(frozen=True)
class Exported:
    """Where a policy was written, and what its card says."""

    path: Path
    card_path: Path
    card: Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """A policy's file and card that are not written yet."""

    data: bytes
    card: Mapping[str, Any]

    @property
    def card_data(self) -> bytes:
        """The card's file."""
        return (json.dumps(self.card, indent=1, allow_nan=False) + "\n").encode()


class _Format(Protocol):
    def build(self, network: PolicyNetwork, *, stochastic: bool, batch: int | None, facts: Mapping[str, str]) -> bytes:
        """The file's bytes."""
        ...

    def run(self, data: bytes, parts: Sequence[Mapping[str, npt.NDArray[Any]]], /) -> list[npt.NDArray[Any]]:
        """The actions of such a file, on each of several inputs."""
        ...


def export_policy(
    policy: LoadedPolicy,
    path: str | Path | None = None,
    *,
    format: str | None = None,  # noqa: A002 - what users call it
    seed: int | None = None,
    deterministic: bool = True,
    batch: int | None = None,
    force: bool = False,
) -> Exported:
    """Write one member's policy to `path` (the run's name here, if not given) and its card to `path`.json.

    format: `onnx` or `torch`; not given, the path's ending says. seed: whose policy (that of `policy.seed_choice`).
    deterministic: the mode; otherwise the file takes standard normal `noise` as well, and answers with a sample.
    batch: a fixed number of rows; not given, any. force: replace what is there.
    """
    told = None if path is None else _told(path)
    kind = choose_format(format, told)
    target = Path(f"{run_name(policy)}{ENDINGS[kind]}") if told is None else told
    if not force:
        require_free(target)
    if (fault := folder_fault(target.parent)) is not None:
        raise ConfigError(f"{target}: {fault}")
    made = make_files(policy, target, kind, seed=seed, deterministic=deterministic, batch=batch)
    card_path = card_path_of(target)
    _write(target, made.data, card_path, made.card_data, force=force)
    return Exported(target, card_path, made.card)


def make_files(
    policy: LoadedPolicy,
    target: Path,
    kind: str,
    *,
    seed: int | None = None,
    deterministic: bool = True,
    batch: int | None = None,
) -> Made:
    """What `export_policy` writes, in memory."""
    deterministic = require_flag("deterministic", deterministic)
    if batch is not None and not (is_count(batch, 1) and batch <= MOST_ROWS):
        raise ConfigError(f"batch: must be a whole number from 1 to {MOST_ROWS}, got {shown(batch)}; any: leave it out")
    member = policy.member(seed)
    caution = policy.seed_choice.caution if seed is None else None
    # As predict would have it from a checkpoint: in float32 on a CPU, however the run itself multiplied.
    actor = Actor(policy.checkpoint.build_learner(), policy.actor.transforms)
    network = read_network(actor.learner, actor.transforms, member)
    if not deterministic:
        require_samples(actor.learner, network)
    maker: _Format = onnx_graph if kind == "onnx" else torch_program
    data = maker.build(network, stochastic=not deterministic, batch=batch, facts=_facts(policy, member))
    difference = _largest_difference(actor, network, member, maker, data, stochastic=not deterministic, batch=batch)
    checked = {
        "against": "predict of this package",
        "observations": _checked_rows(batch),
        "largest_difference_over_range": difference,
    }
    circumstances = Circumstances(kind, not deterministic, batch, member, _made_with(kind), checked, caution)
    return Made(data, make_card(policy, network, circumstances, target, data))


def choose_format(format: str | None, path: str | Path | None) -> str:  # noqa: A002
    """The format that is asked for and fits the file's name."""
    ending = Path(path).suffix.lower() if path is not None else ""
    if format in _OF_TORCH or (format is None and ending.lstrip(".") in _OF_TORCH):
        raise ConfigError(f"{format or path}: torch reads .pt2 here: --format torch, or -o FILE.pt2")
    if format is not None and format not in ENDINGS:
        raise ConfigError(f"format: {shown(format)} is not known{did_you_mean(str(format), ENDINGS)}")
    by_ending = {value: name for name, value in ENDINGS.items()}
    if path is not None and format is None and ending not in by_ending:
        endings = " or ".join(f"{value} ({name})" for name, value in ENDINGS.items())
        raise ConfigError(f"{path}: must end in {endings}")
    kind = format or by_ending.get(ending, "onnx")
    if path is not None and ending != ENDINGS[kind]:
        raise ConfigError(f"{path}: a file of format {kind} ends in {ENDINGS[kind]}")
    return kind


def seed_path(path: str | Path | None, policy: LoadedPolicy, format: str | None, seed: int) -> Path:  # noqa: A002
    """Where one of several seeds goes: `policy.onnx` becomes `policy-seed-3.onnx`."""
    kind = choose_format(format, path)
    target = Path(path) if path is not None else Path(f"{run_name(policy)}{ENDINGS[kind]}")
    return target.with_name(f"{target.stem}-seed-{seed}{target.suffix}")


def _largest_difference(
    actor: Actor,
    network: PolicyNetwork,
    member: int,
    maker: _Format,
    data: bytes,
    *,
    stochastic: bool,
    batch: int | None,
) -> float:
    """Between what the file answers and what the package does, on observations like the dataset's, over the range."""
    rows = _checked_rows(batch)
    draw = np.random.default_rng(0)
    obs = draw.standard_normal((rows, network.obs_dim))
    if (s := network.standardisation) is not None:
        obs = obs * s.divisor + s.mean_high
    inputs = {"obs": obs.astype(np.float32)}
    noise = None
    learner = actor.learner
    if stochastic:
        inputs["noise"] = draw.standard_normal((rows, network.act_dim)).astype(np.float32)
        noise = {"action": torch.tensor(inputs["noise"]).expand(learner.members, -1, -1)}
    expected = actor(np.broadcast_to(inputs["obs"], (learner.members, *obs.shape)), noise)[member]
    span = network.high.astype(np.float64) - network.low
    at_once = batch or rows
    parts = [{name: one[i : i + at_once] for name, one in inputs.items()} for i in range(0, rows, at_once)]
    difference = np.abs(np.concatenate(maker.run(data, parts)) - expected.astype(np.float64)) / span
    largest = float(np.where(_at_a_turn(actor, inputs["obs"], noise, member, span), 0.0, difference).max())
    if not largest <= TOLERANCE:
        raise ConfigError(f"export: the file's actions would differ from predict's by {largest:.2g} of their range")
    return largest


def _checked_rows(batch: int | None) -> int:
    """As many whole batches as it takes."""
    return CHECKED_ROWS if batch is None else -(-CHECKED_ROWS // batch) * batch


def _at_a_turn(
    actor: Actor,
    obs: npt.NDArray[np.float32],
    noise: Mapping[str, torch.Tensor] | None,
    member: int,
    span: npt.NDArray[np.float64],
) -> npt.NDArray[np.bool_]:
    """Actions `[N, act]` in the very middle of a gap, where the last digit decides to which side they are moved."""
    plain = Actor(actor.learner, replace(actor.transforms, action_gaps=()))
    actions = plain(np.broadcast_to(obs, (actor.learner.members, *obs.shape)), noise)[member]
    found = np.zeros(actions.shape, dtype=np.bool_)
    for column, low, high in actor.transforms.action_gaps:
        found[:, column] |= np.abs(actions[:, column] - 0.5 * (low + high)) <= TOLERANCE * span[column]
    return found


def _facts(policy: LoadedPolicy, member: int) -> dict[str, str]:
    """The little that stays with the file when its card is lost."""
    config = policy.checkpoint.config
    facts = {
        "algo": config.algo,
        "environment": config.env_id or "",
        "seed": policy.actor.learner.seeds[member],
        "step": policy.checkpoint.progress["steps"],
    }
    spaces = policy.checkpoint.spaces
    for name, columns in (("obs_columns", spaces.obs_columns), ("action_columns", spaces.action_columns)):
        if columns:
            facts[name] = json.dumps([column.name for column in columns], ensure_ascii=False)
    if computed := {column.name: computed_from(column) for column in spaces.obs_columns if column.time}:
        facts["computed"] = json.dumps(computed, ensure_ascii=False)
    return {f"rl_training.{name}": str(value) for name, value in facts.items()}


def _made_with(kind: str) -> dict[str, Any]:
    if kind == "torch":
        return {"torch": torch.__version__}
    return {"opset": onnx_graph.OPSET, "ir_version": onnx_graph.IR_VERSION}


def _told(path: str | Path) -> Path:
    try:
        return user_path(path)
    except TypeError as error:
        raise ConfigError(f"path: {error}, got {shown(path)}") from None
    except ValueError as error:
        raise ConfigError(f"{shortened(str(path))}: {error}") from None


def card_path_of(target: Path) -> Path:
    """Where the card of a policy's file lies."""
    return target.with_name(f"{target.name}.json")


def require_free(target: Path) -> None:
    """Refuse a file that exists, or whose card does."""
    for path in (target, card_path_of(target)):
        if os.path.lexists(path):
            raise ConfigError(taken(path))


def _write(target: Path, data: bytes, card_path: Path, card: bytes, *, force: bool) -> None:
    """Both files or none; whenever it is killed, no card lies beside a file that it does not describe."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with workplace(card_path) as new_card, workplace(target) as new:
            for path, content in ((new_card, card), (new, data)):
                path.write_bytes(content)
                sync(path)
            with stopping_later():
                _put_both(new, target, new_card, card_path, force=force)
    except OSError as error:
        if isinstance(error, FileExistsError) and error.filename in (str(target), str(card_path)):  # it has come since
            raise ConfigError(taken(error.filename)) from None
        raise ConfigError(f"{target}: cannot be written ({error.strerror or error})") from None


def _put_both(new: Path, target: Path, new_card: Path, card_path: Path, *, force: bool) -> None:
    """Where one cannot have its name, what was there is there again."""
    old, old_card = new.with_name(REPLACED), new_card.with_name(REPLACED)
    is_first = not os.path.lexists(target)
    if force and not is_first:
        with suppress(OSError):  # a disk without hard links: the new one stays, then, without a card
            os.link(target, old, follow_symlinks=False)
    if force and os.path.lexists(card_path):
        card_path.replace(old_card)
    try:
        put(new, target, replace=force)
        put(new_card, card_path, replace=force)
    except BaseException:
        is_new = not os.path.lexists(new)  # what lies under the target's name
        if is_new and os.path.lexists(old):
            old.replace(target)
            is_new = False
        elif is_new and is_first:
            target.unlink(missing_ok=True)
            is_new = False
        if not is_new and os.path.lexists(old_card):
            old_card.replace(card_path)
        raise
