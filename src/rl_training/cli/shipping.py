"""The commands that take a policy elsewhere."""

from __future__ import annotations

import shlex
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rl_training.cli.known_quality import quality, value_of
from rl_training.cli.telling import tell
from rl_training.cli.using import tell_stopped
from rl_training.errors import ConfigError
from rl_training.experiment.costs import Shown
from rl_training.experiment.manager import LoadedPolicy, load_policy
from rl_training.experiment.run_listing import status_of
from rl_training.experiment.shipping import hub
from rl_training.experiment.shipping.card import shown_by_card
from rl_training.experiment.shipping.exporting import Exported, export_policy, require_free, seed_path
from rl_training.runtime.run_directory import run_of
from rl_training.validation import shown
from rl_training.wording import readable

_NO_ROOM = "what is uploaded cannot be written into the system's temporary folder; -o FOLDER writes it elsewhere"

_IN_TRAINING = "is still being trained, at"
_UNFINISHED = {
    "running": _IN_TRAINING,
    "interrupted": "was interrupted at",
    "stopped": "was killed after",
    "failed": "failed after",
}


def export(
    run: Path,
    which: str,
    format_: str | None,
    output: Path | None,
    seed: int | None,
    member: str | None,
    options: Mapping[str, Any],
) -> None:
    """`rl-training export`."""
    if seed is not None and member is not None:
        raise ConfigError("export: give --seed or --member, not both")
    policy = load_policy(run, which)
    if member == "all":
        sound = policy.checkpoint.sound_seeds
        places: dict[int | None, Path | None] = {s: seed_path(output, policy, format_, s) for s in sound}
        for place in places.values():
            if place is not None and not options["force"]:
                require_free(place)  # all of them, before the first is written
    else:
        places = {seed if member is None else _seed_at(policy, member): output}
    doubts: list[str] = []  # of the run, whichever of its seeds are exported
    with warnings.catch_warnings(action="ignore"):  # what diverged is told as a note
        for number, (whose, place) in enumerate(places.items()):
            exported = export_policy(policy, place, format=format_, seed=whose, **options)
            if not number:
                _tell_of_run(policy)
            _tell(exported)
            for line in policy.seed_choice.told if whose is None else ():
                tell(f"{line} (--seed names another)")
            tell(f"quality: {quality(exported.card, run, which)}")
            doubts = exported.card["policy"]["training_doubts"]
    for doubt in doubts:
        tell(f"warning: {doubt}", err=True)


def push(
    run: Path, repo: str, which: str, seed: int | None, output: Path | None, *, private: bool, dry_run: bool
) -> None:
    """`rl-training push`."""
    if dry_run and output is None:
        raise ConfigError("--dry-run: name the folder to write with -o")
    hub.require_repository(repo)
    if not dry_run:
        hub.require_client()
    policy = load_policy(run, which)
    told = None if output is not None else f"{repo}: {_NO_ROOM}"
    with _place(output, repo) as folder, warnings.catch_warnings(action="ignore"):
        hub.write_folder(policy, folder, repo, seed=seed, told=told)
        uploaded = None if dry_run else hub.upload(folder, repo, private=private)
        _tell_of_run(policy)
        if uploaded is None:
            tell(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}; nothing was uploaded")
        else:
            tell(uploaded)


def _tell_of_run(policy: LoadedPolicy) -> None:
    """What diverged in it, and that it is not finished, beside the result."""
    tell_stopped(policy)
    directory = run_of(policy.place)
    if directory is not None and (how := _UNFINISHED.get(status_of(directory.path))) is not None:
        facts, name = directory.describe(), shlex.quote(directory.path.name)
        at = f"{str(facts.get('unit') or 'updates')[:-1]} {facts.get('step') or 0:,}"
        way = "" if how == _IN_TRAINING else f"; `rl-training resume {name}` goes on"
        tell(f"warning: the run {how} {at} of {policy.checkpoint.progress['total_steps']:,}{way}", err=True)


@contextmanager
def _place(output: Path | None, repo: str) -> Iterator[Path]:
    """The folder that is uploaded: the user's, or one that goes again."""
    if output is not None:
        yield output
        return
    try:
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(f"{repo}: {_NO_ROOM} ({error.strerror or error})") from None
    with scratch as folder:
        yield Path(folder) / "policy"


def _seed_at(policy: LoadedPolicy, member: str) -> int:
    seeds = policy.actor.learner.seeds
    if not (member.isdecimal() and len(member) < 10 and int(member) < len(seeds)):
        allowed = f"0 to {len(seeds) - 1}" if len(seeds) > 1 else "0"
        raise ConfigError(f"--member: must be {allowed} or all, got {shown(member)}")
    return seeds[int(member)]


def _tell(exported: Exported) -> None:
    card = exported.card
    policy, file, scores = card["policy"], card["file"], card["scores"]
    difference = card["check"]["largest_difference_over_range"]
    sign = shown_by_card(card)
    if scores is None:
        score = _estimated(card["offline_evaluation"], sign)
    else:
        score = f"{sign.noun} {readable(sign.number(scores['return_mean']))}{sign.behind}"
    tell(
        f"{exported.path}: {policy['algo']} seed {policy['seed']}, {policy['step_unit'][:-1]} {policy['step']:,},"
        f" {score}; {file['bytes'] / 1e3:,.0f} kB, differs from predict by {difference:.0e} of the range"
    )
    tell(f"{exported.card_path}: how to call it, what it is, how to make it again")


def _estimated(estimate: Mapping[str, Any] | None, sign: Shown) -> str:
    if estimate is None:
        return "not evaluated"
    if estimate["value"] is None:
        return "no reliable estimate"
    return f"estimated from the data: {value_of(estimate, sign)}"
