"""What the program around us has set for all of torch changes no run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from rl_training.runtime.torch_state import own_torch_state
from small_runs import StopAt, digest, small_config


@contextmanager
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


STATES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "float64": float64,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


@pytest.mark.parametrize("name", STATES)
def test_training_resuming_and_acting_are_the_same(name: str, data_file: Path, tmp_path: Path) -> None:
    config = small_config(data_file, tmp_path, "iql", name="plain")
    plain = manager.start(config)
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    expected = manager.load_policy(plain.run.path).predict(obs)[0]
    with STATES[name]():
        manager.start(config.model_copy(update={"name": "odd"}), callbacks=[StopAt(7)])
    with STATES[name]():
        resumed = manager.resume(tmp_path / "odd")
        acted = manager.load_policy(tmp_path / "odd").predict(obs)[0]
    assert digest(resumed.checkpoint.tensors) == digest(plain.checkpoint.tensors)
    np.testing.assert_array_equal(acted, expected)
    with STATES[name]():  # and is left as it was
        before = (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
        manager.load_policy(tmp_path / "odd")
        assert (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")) == before


def test_what_is_set_on_the_way_is_not_either(data_file: Path, tmp_path: Path) -> None:
    class Careless(Callback):
        def on_progress(self, loop: Loop) -> None:
            torch.set_grad_enabled(False)

    config = small_config(data_file, tmp_path, name="plain", log_interval=2)
    plain = manager.start(config)
    try:
        odd = manager.start(config.model_copy(update={"name": "odd"}), callbacks=[Careless()])
    finally:
        torch.set_grad_enabled(True)
    assert digest(odd.checkpoint.tensors) == digest(plain.checkpoint.tensors)


def test_runs_in_several_threads_give_the_default_type_back() -> None:
    """The one that ends last did not begin first, and found what the other had set."""
    inside, over = threading.Event(), threading.Event()

    def short() -> None:
        with own_torch_state():
            inside.set()
            over.wait(60)

    with float64():
        thread = threading.Thread(target=short)
        thread.start()
        assert inside.wait(60)
        with own_torch_state():
            over.set()
            thread.join(60)
            assert torch.get_default_dtype() is torch.float32
        assert torch.get_default_dtype() is torch.float64
