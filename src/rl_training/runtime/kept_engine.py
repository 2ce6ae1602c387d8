"""What computes a run's updates stays what it was: another mode, or another device, rounds otherwise.

`engine: auto` chooses by the budget and by what the machine has, `device: auto` by the machine alone, and both may be
others when a run is resumed.
"""

from __future__ import annotations

import torch

from rl_training.compilers import lack_of_files
from rl_training.paths import in_shell
from rl_training.run_places import OWN_CONFIG
from rl_training.runtime.checkpoint import Checkpoint
from rl_training.runtime.engine import (
    EngineMode,
    choose_device,
    choose_mode,
    compiling_pays,
    engine_in_words,
    lack_for_compiling,
)
from rl_training.runtime.machine_load import MachineNotice
from rl_training.runtime.progress import Progress
from rl_training.runtime.run_directory import RunDirectory
from rl_training.wording import WARNING, amount


def device_to_go_on_with(
    asked: str, checkpoint: Checkpoint | None, run: RunDirectory | None
) -> tuple[str, list[MachineNotice]]:
    """The device of a run, and what the user should know of it: `auto` stays on the CPU where that computed the last
    updates. A GPU that is gone cannot be stayed on."""
    engines = [] if checkpoint is None else checkpoint.progress.get("engines", [])
    chosen = choose_device(asked)
    if asked != "auto" or chosen == "cpu" or not (engines and engines[-1].endswith(" on cpu")):
        return chosen, []
    way = "device: cuda continues there"
    if run is not None:
        config, start = in_shell(run.path / OWN_CONFIG), in_shell(run.path)
        command = f"rl-training train -c {config} --name NAME --set init_from={start} --set device=cuda"
        way = f"`{command}` trains its networks on there, as a new run"
    return "cpu", [
        MachineNotice(f"device: continues on the CPU, as it was begun, though there is a CUDA device by now; {way}")
    ]


def mode_to_go_on_with(
    asked: EngineMode, progress: Progress, device: torch.device
) -> tuple[EngineMode, list[MachineNotice]]:
    """The mode of a run that stands at `progress`, and what the user should know of it. Checkpoints of earlier versions
    do not say what they were computed by: they go on as a new run would."""
    chosen = choose_mode(asked, progress.total_updates, device)
    if not progress.engines:
        return chosen, _too_few_files(asked, progress, device)
    before = progress.engines[-1]
    lack = _lack(before, asked, device)
    mode: EngineMode = chosen if lack else "compiled" if before.startswith("compiled") else "eager"
    if mode != chosen:
        new = f"a new run of {amount(progress.total_updates, 'update')} would be {chosen} here"
        return mode, [MachineNotice(f"engine: goes on {mode}, as it was begun; {new}")]
    now = engine_in_words(mode, device)
    if now == before:
        return mode, []
    return mode, [
        MachineNotice(
            f"{WARNING}engine: was {before} so far, and goes on {now}, as {lack}; the results are not bit for bit those"
            " of an unbroken run"
        )
    ]


def _too_few_files(asked: EngineMode, progress: Progress, device: torch.device) -> list[MachineNotice]:
    """Where `auto` does without compiling for want of them alone: that is soon put right, unlike a compiler missing."""
    lack = lack_of_files()
    if asked != "auto" or lack is None or lack != lack_for_compiling():
        return []
    pays = compiling_pays(progress.total_updates, device)
    return [MachineNotice(f"compiling needs {lack}; training goes on without it, more slowly")] if pays else []


def _lack(before: str, asked: EngineMode, device: torch.device) -> str | None:
    """Why a run does not go on by what computed its last updates; none where it does."""
    if not before.endswith(f" on {device.type}"):
        gone = device.type == "cpu" and not torch.cuda.is_available()
        return "torch sees no CUDA device here" if gone else f"device: {device} was asked for"
    if asked != "auto":
        return f"engine: {asked} was asked for"
    lack = lack_for_compiling() if before.startswith("compiled") else None
    return f"compiling needs {lack}" if lack else None
