"""A run's files set back to where the checkpoint left them that it goes on from.

In this order, wherever a process is killed on the way the run stands where it stood, or where it goes on: run.json says
where it is to go on and with what, and which names later checkpoints are to be kept under; they are set aside, the last
one last; from then on that counts, whoever notes it; its records follow. Where the last one is left, those that went
before it get their names again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import torch

from rl_training.data.offline_dataset import TransitionDataset
from rl_training.errors import CheckpointError
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.config import TrainConfig
from rl_training.runtime.machine_load import with_threads
from rl_training.runtime.progress import Progress
from rl_training.runtime.run_directory import RunDirectory
from rl_training.runtime.run_identity import CONFIG_KEYS, told_config

RETURNING = "returning"  # in run.json: the step that the run is set back to, and what it goes on with from there
_ASIDE = "aside"  # in there: the names of later checkpoints, and those that they are kept under
PAST_END = "past_end"  # in run.json: the step of an end that the run was told to go past


def goes_past_its_end(run: RunDirectory | None, step: int) -> bool:
    """Whether a run that has ended at this step, before its budget was spent, was told to go on, as it is where
    another run begins with its checkpoint."""
    if run is None:
        return True
    facts = run.describe()
    return facts.get("status") == "finished" or facts.get(PAST_END) == step


def require_its_data(run: RunDirectory, dataset: TransitionDataset) -> None:
    """Refuse data that the run was not started with."""
    original = run.describe().get("dataset") or {}
    if dataset.fingerprint() == original.get("fingerprint"):
        return
    then, now = original.get("transitions"), len(dataset)
    rows = f"; it had {then:,} rows, these have {now:,}" if type(then) is int and then != now else ""
    every = " in every part" if dataset.mixture is not None else ""
    raise CheckpointError(
        f"dataset: not the one {run.path} was started with (SHA-256 differs{rows}); put the data back as they"
        f" were{every}, or start a run of its own with them, from these weights by init_from: {run.path}"
    )


def complete_return(run: RunDirectory) -> None:
    """Note what a process that was killed had all but noted: it was setting the run back, and the last of the later
    checkpoints had gone. Where one is left, the run stands where it stood, with every checkpoint that it had."""
    told = run.describe().get(RETURNING)
    if told is None:
        return
    changes = dict(told) if isinstance(told, Mapping) else {}
    step = changes.pop("step", None)
    is_there = type(step) is int and not run.steps_after(step)
    if not is_there:
        run.put_back(changes.get(_ASIDE))
    known = {name: changes[name] for name in (*CONFIG_KEYS, "machine", "budgets", PAST_END) if name in changes}
    run.note(**{**(known if is_there else {}), RETURNING: None})


def set_back(run: RunDirectory, config: TrainConfig, progress: Progress, checkpoint: Checkpoint | None) -> list[str]:
    """What the user should know of it."""
    facts = run.describe()
    machine = with_threads(facts.get("machine"), torch.get_num_threads())
    changes = {**told_config(config), "machine": machine, **run.budgets(progress, checkpoint)}
    if type(past := facts.get(PAST_END)) is int and progress.steps < past:
        changes[PAST_END] = None  # it comes to that end again, and nobody has told it to go past it this time
    if checkpoint is not None and checkpoint.progress.get("ended") is not None and progress.ended is None:
        changes[PAST_END] = progress.steps
    if run.steps_after(progress.steps):
        told = {"step": progress.steps, _ASIDE: run.names_aside(progress.steps), **changes}
        run.note(status="running", reason=None, **{RETURNING: told})
        try:
            run.set_aside_after(progress.steps)
        except CheckpointError:
            with suppress(CheckpointError):
                complete_return(run)
            raise
    run.note(status="running", reason=None, **{**changes, RETURNING: None})
    run.write_config(config)
    return run.rewind(progress.steps, progress.last["step"] if progress.last else 0, progress.records)
