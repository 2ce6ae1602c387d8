"""What the program around us may have set for all of torch; training and acting need float32, gradients, no autocast,
and the CPU where they name no device.

Networks built under another default type could not be loaded elsewhere, and updates under autocast would not be those
that resuming repeats.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

# The default type is one for all threads: the first that is inside notes it, the last that leaves gives it back.
_COUNTING = threading.Lock()
_INSIDE: list[int] = []
_BEFORE: list[torch.dtype] = []
_COMPUTED: list[bool] = []  # not empty once this process has
_LACKING: list[int] = []  # in a child of a process that has: how many threads that did it with


def threads_lacking() -> int | None:
    """How many threads the process had that this one was forked from, where it had computed with them: they are not
    here, and who shares work with them waits for them for ever."""
    return _LACKING[-1] if _LACKING else None


def _keep_to_one() -> None:
    """In a child: one thread is what it has."""
    _COUNTING.release()
    _INSIDE[:] = [thread for thread in _INSIDE if thread == threading.get_ident()]
    if _COMPUTED and torch.get_num_threads() > 1:
        _LACKING.append(torch.get_num_threads())
        torch.set_num_threads(1)


os.register_at_fork(before=_COUNTING.acquire, after_in_parent=_COUNTING.release, after_in_child=_keep_to_one)


@contextmanager
def own_torch_state() -> Iterator[None]:
    """Within it, torch is as it is when it is imported; then as it was."""
    _enter()
    try:
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
            nullcontext() if _is_on_cpu() else torch._C.DisableTorchFunction(),
        ):
            yield
    finally:
        _leave()


def _enter() -> None:
    with _COUNTING:
        _COMPUTED[:] = [True]
        if not _INSIDE:
            _BEFORE[:] = [torch.get_default_dtype()]
        _INSIDE.append(threading.get_ident())
        torch.set_default_dtype(torch.float32)


def _leave() -> None:
    with _COUNTING:
        _INSIDE.remove(threading.get_ident())
        if not _INSIDE:
            torch.set_default_dtype(_BEFORE[0])


def _is_on_cpu() -> bool:
    """Whether tensors are made there where no device is named.

    Any other default is a mode of torch's functions, which is left out: another put on top of it does not compile."""
    return torch.empty(0).device.type == "cpu"


def is_own() -> bool:
    """Whether nothing of it is set otherwise: asking takes no time, entering does."""
    return (
        torch.get_default_dtype() is torch.float32
        and torch.is_grad_enabled()
        and not torch.is_inference_mode_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.is_autocast_enabled("cuda")
        and _is_on_cpu()
    )
