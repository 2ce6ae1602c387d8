"""What the program around us has set for all of torch changes no run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from rl_training.experiment import manager
from rl_training.runtime.callbacks import Callback
from rl_training.runtime.loop import Loop
from rl_training.runtime.torch_state import own_torch_state
from small_runs import StopAt, digest, small_config
from tiny_environments import CLIFF, LIMIT, Cliff, Obs

TESTS = Path(__file__).resolve().parent.parent


@contextmanager
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device() -> Iterator[None]:
    """Any but the CPU: as many programs set "cuda"."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


STATES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "float64": float64,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "default_device": default_device,
    "device": lambda: torch.device("meta"),
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


class DoublesItself(Cliff):
    """A simulator that computes in float64, and has all of torch do so; where it sets that is chosen by a test."""

    place_of_it = ""
    seen: list[torch.dtype] = []  # noqa: RUF012 - of the class, as every environment of a run adds to it

    def _double(self, place: str) -> None:
        if self.place_of_it == place:
            torch.set_default_dtype(torch.float64)

    def __init__(self) -> None:
        self._double("opening")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Obs, dict[str, Any]]:
        self._double("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.seen.append(torch.get_default_dtype())
        self._double("step")
        return super().step(action)


@pytest.mark.parametrize("place", ["opening", "reset", "step"])
def test_what_an_environment_sets_is_its_own(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Online, where networks are built and checkpoints are judged beside open environments."""
    name = "tests/DoublesItself-v0"
    gymnasium.register(name, DoublesItself, max_episode_steps=LIMIT, disable_env_checker=True)
    monkeypatch.setattr(DoublesItself, "seen", [])
    own = {"learning_starts": 3, "buffer_capacity": 20}
    try:
        plain = manager.start(small_config(None, tmp_path, "sac", name="plain", env_id=CLIFF, algo_kwargs=own))
        monkeypatch.setattr(DoublesItself, "place_of_it", place)
        config = small_config(None, tmp_path, "sac", name="odd", env_id=name, algo_kwargs=own)
        manager.start(config, callbacks=[StopAt(7)])
        resumed = manager.resume(tmp_path / "odd")
    finally:
        del gymnasium.registry[name]
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
    assert left is torch.float32
    assert digest(resumed.checkpoint.tensors) == digest(plain.checkpoint.tensors)
    assert DoublesItself.seen[-1] is torch.float64  # what it has set, it finds again


class Placed(Cliff):
    """Notes where its tensors are made."""

    devices: set[str] = set()  # noqa: RUF012 - of the class

    def step(self, action: Obs) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        self.devices.add(torch.empty(0).device.type)
        return super().step(action)


def test_a_default_device_holds_in_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator on a GPU goes on there, whatever networks are trained on."""
    name = "tests/Placed-v0"
    gymnasium.register(name, Placed, max_episode_steps=LIMIT, disable_env_checker=True)
    monkeypatch.setattr(Placed, "devices", set())
    own = {"learning_starts": 3, "buffer_capacity": 20}
    try:
        with default_device():
            manager.start(small_config(None, tmp_path, "sac", name="odd", env_id=name, algo_kwargs=own))
            manager.load_policy(tmp_path / "odd").evaluate(1)
    finally:
        del gymnasium.registry[name]
    assert Placed.devices == {"meta"}


FORKING = """
import os, signal, sys
import torch
from rl_training.errors import ConfigError
from rl_training.runtime.trainer import train
from small_runs import small_config
torch.set_num_threads(2)
wide = {"actor_hidden": [256, 256], "batch_size": 256}
def run(name, **changes):
    return train(small_config(sys.argv[1], sys.argv[2], name=name, algo_kwargs=wide, total_timesteps=3, **changes)).run
run("first")
torch.rand(1000, 1000) @ torch.rand(1000, 1000)
if os.fork() == 0:
    signal.alarm(30)
    try:
        run("refused", threads=2)
    except ConfigError as error:
        print(error)
    facts = run("second").describe()
    print(facts["machine"]["threads"], *facts["notices"], sep="\\n", flush=True)
    os._exit(0)
print(os.wait()[1])
"""


def test_a_child_does_not_wait_for_its_parents_threads(data_file: Path, tmp_path: Path) -> None:
    """As a program that trains, and then has multiprocessing fork: there is one thread in a child."""
    paths = os.pathsep.join(map(str, (TESTS.parent / "src", TESTS)))
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(data_file), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": paths},
    )
    why = (
        "this process was forked from one that had computed with 2 threads, which are not here and would be waited for;"
        ' multiprocessing.get_context("spawn") starts one that has its own'
    )
    told = [f"threads: must be 1, got 2: {why}", "1", f"threads: 1; {why}", "0"]
    assert [line for line in done.stdout.splitlines() if line in told] == told, done.stdout + done.stderr


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
